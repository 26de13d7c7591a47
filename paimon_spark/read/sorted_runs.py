"""The sections of a bucket and their sorted runs, from the key bounds of its files (docs/format.md §7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_spark.read.key_ranks import key_ranks
from paimon_spark.read.sections import runs_of, sections_of

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.table.table import FileStoreTable

Runs = list[list["SplitFile"]]


def sections_with_runs(table: FileStoreTable, files: Sequence[SplitFile]) -> Iterator[Runs]:
    """Yield the sorted runs, oldest first, of each section of a bucket's files, in ascending key order."""
    low, high = key_ranks(table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files])
    return map(runs_of, sections_of(files, low, high))


def has_one_row_per_key(runs: Runs) -> bool:
    """Tell whether each row of a section is a row of the table: one sorted run, which surely holds no deletes."""
    return len(runs) == 1 and all(file.delete_row_count == 0 for file in runs[0])


def is_unmerged(table: FileStoreTable, split: DataSplit) -> bool:
    """Tell whether each row of a split's files is a row of the table, if the files surely hold no deletes."""
    return split.raw_convertible or all(map(has_one_row_per_key, sections_with_runs(table, split.files)))
