"""How many rows a split of a table with primary keys has, without making them. Runs in tasks.

Where each key of a section comes once, metadata shows. Where no file holds deletes, the rows are the distinct keys,
with every merge engine: only key columns are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.merge.normalized_keys import packed_normalized_keys
from paimon_spark.merge.sort import sort_order, whole_column
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.postponed_read import PostponedSplit, read_postponed
from paimon_spark.read.sections import has_one_row_per_key, sections_with_runs
from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors
from paimon_spark.read.split_read import partition_constants, read_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paimon_spark.read.sections import Runs
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable


def count_split(table: FileStoreTable, split: DataSplit) -> int:
    """Return the rows of a split: as many as `read_split` gives without a predicate.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
        SnapshotNotFoundError: a data file is missing because the snapshot has expired meanwhile.
        DataError: the merge engine cannot take a delete.
    """
    if isinstance(split, PostponedSplit):
        return sum(batch.num_rows for batch in read_postponed(table, split, ()))
    sections = [] if split.raw_convertible else list(sections_with_runs(table, split.files))
    known = all(file.delete_row_count == 0 for file in split.files)
    if not sections or not known or any(file.deletion_vector is not None for file in split.files):
        return sum(batch.num_rows for batch in read_split(table, split, ()))
    constants = partition_constants(table, split)
    with snapshot_expiry_errors(table, split.snapshot_id):
        return sum(_rows_of(table, runs, constants) for runs in sections)


def _rows_of(table: FileStoreTable, runs: Runs, constants: Mapping[str, pa.Scalar]) -> int:
    """Return the distinct keys of a section without deletes."""
    if has_one_row_per_key(runs):
        return sum(file.row_count for file in runs[0])
    keys = table.schema.trimmed_primary_keys
    budget = table.options.value("read.merge.memory-budget")
    fields = tuple(table.schema.field(name) for name in keys)
    reader = FileRead(table, fields, constants, batch_bytes=block_bytes(budget, len(runs))).as_query()
    pieces = aligned_batches(reader.runs(runs, None), keys, budget_bytes=budget)
    return sum(_distinct([batch for run in ready for batch in run], keys) for ready in pieces)


def _distinct(batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> int:
    rows = pa.Table.from_batches(batches)
    words = list(packed_normalized_keys([whole_column(rows, key) for key in keys]))
    if len(words) > 1:
        return len(sort_order(rows, keys).starts)
    values = np.sort(words[0](None), kind="stable")
    return int(np.count_nonzero(values[1:] != values[:-1])) + 1
