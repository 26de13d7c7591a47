"""Which rows of files that overlap are no rows of the table: older ones of a key, and deletes.

Where one row of a key wins as it is, keys and what decides their order show which rows these are; no other column is
read. Then any reader that can leave rows out by their positions finds the rows of the table in the files. Files never
change, so that what is found of a section stays true: the last found are kept. Runs on the driver, in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.read.file_read import RowPositions
from paimon_spark.read.sections import has_one_row_per_key, sections_with_runs
from paimon_spark.read.split import DataSplit, SplitFile
from paimon_spark.read.split_read import merged_section, partition_constants, section_reader
from paimon_spark.spec.kept_values import LastUsed
from paimon_spark.spec.special_fields import VALUE_KIND

if TYPE_CHECKING:
    from paimon_spark.read.file_read import FileRead
    from paimon_spark.read.sections import Runs
    from paimon_spark.spec.deletion_vector import Bits
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable

_MOST_KEPT_BYTES: Final = 32 << 20
_OPEN_FILE_BYTES: Final = 4 << 20
"""Of the memory of a merge, for each file of a store that may be open: what waits of it, and what is decoded."""


def _size(bits: list[Bits]) -> int:
    return sum(part.nbytes for part in bits)


_KEPT: Final = LastUsed[list["Bits"]](_MOST_KEPT_BYTES, _size)
"""What was found of the sections that were looked at last."""


Found = list[tuple[str, "Bits"]]
"""Files by their paths, and a bit for each row, set where it is left out."""
Find = Callable[["FileStoreTable", DataSplit], Found]
InTasks = Callable[["FileStoreTable", Sequence[DataSplit], Find], Sequence[Found]]
"""Calls a function with each split in tasks of a job, and returns what it returns, in the order of the splits."""


def superseded_rows(
    table: FileStoreTable, splits: Sequence[DataSplit], threads: int, in_tasks: InTasks | None = None
) -> dict[str, Bits]:
    """Find the rows of files that are not rows of the table, those that deletion vectors mark among them.

    Args:
        table: of the plan; its engine lets one row of a key win as it is (`CoreOptions.one_row_wins`).
        splits: whole ones, not `raw_convertible`.
        threads: how many splits are looked at at once; they share the memory of a merge. In a store, whose answers are
            waited for, as many as this memory lets open their files.
        in_tasks: looks at splits of which nothing is kept, instead of these threads.

    Returns:
        By the path of a file one bit for each of its rows, set where the row is left out. Files that nothing but their
        vector says anything of are not in it.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
        DataError: the merge engine cannot take a row.
    """
    if in_tasks is not None:
        return _found_in_tasks(table, splits, in_tasks)
    threads, budget = _shared_memory(table, splits, threads)
    with ThreadPoolExecutor(threads, "paimon-superseded") as pool:
        found = pool.map(lambda split: _of_split(table, split, budget), splits)
        return dict(chain.from_iterable(found))


def _found_in_tasks(table: FileStoreTable, splits: Sequence[DataSplit], in_tasks: InTasks) -> dict[str, Bits]:
    kept = [_kept_of_split(table, split) for split in splits]
    open_splits = [split for split, known in zip(splits, kept, strict=True) if known is None]
    found = dict(chain.from_iterable(known for known in kept if known is not None))
    answers = in_tasks(table, open_splits, _in_one_task) if open_splits else ()
    for split, answer in zip(open_splits, answers, strict=True):
        found.update(answer)
        for runs in _overlapping(table, split):
            _KEPT.put(_key(table, runs), [found[file.path] for run in runs for file in run])
    return found


def _kept_of_split(table: FileStoreTable, split: DataSplit) -> Found | None:
    """What is known of all sections of a split; None where a task has to look at it."""
    found: Found = []
    for runs in _overlapping(table, split):
        bits = _KEPT.get(_key(table, runs))
        if bits is None:
            return None
        found += _by_file(runs, bits)
    return found


def _in_one_task(table: FileStoreTable, split: DataSplit) -> Found:
    return _of_split(table, split, table.options.value("read.merge.memory-budget"))


def _shared_memory(table: FileStoreTable, splits: Sequence[DataSplit], threads: int) -> tuple[int, int]:
    """Return how many splits are looked at at once, at least ``threads`` if there are so many, and bytes for each."""
    budget = table.options.value("read.merge.memory-budget")
    if table.file_io.threads > 1 and splits:
        most_files = max(len(split.files) for split in splits)
        threads = max(threads, budget // (most_files * _OPEN_FILE_BYTES))
    threads = max(1, min(threads, len(splits)))
    return threads, budget // threads


def has_key_twice(table: FileStoreTable, files: Mapping[tuple[bytes, int], Sequence[DataFileMeta]]) -> bool:
    """Whether two rows of a bucket have one key, deletes among them. Their keys are merged, nothing else.

    Buckets of a store are looked at at once, as in `superseded_rows`.

    Args:
        table: with a primary key, and any merge engine.
        files: of level 0, by partition bytes and bucket, which each have a key once.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    keys_alone = table.without_options(("sequence.field", "rowkind.field")).as_if({"merge-engine": "deduplicate"})
    splits = [
        DataSplit(
            0, *bucket, 1, tuple(SplitFile.of(file, table.paths.data_file_path(*bucket, file)) for file in metas), False
        )
        for bucket, metas in files.items()
    ]
    threads, budget = _shared_memory(table, splits, 1)
    with ThreadPoolExecutor(threads, "paimon-keys") as pool:
        return any(pool.map(lambda split: _has_key_twice(keys_alone, split, budget), splits))


def _has_key_twice(keys_alone: FileStoreTable, split: DataSplit, budget: int) -> bool:
    for runs in sections_with_runs(keys_alone, split.files):
        found = len(runs) > 1 and _superseded(keys_alone, split, runs, budget, are_all_rows=True)
        if found and any(part.any() for part in found):
            return True
    return False


def _of_split(table: FileStoreTable, split: DataSplit, budget: int) -> Found:
    sections = _overlapping(table, split)
    return [each for runs in sections for each in _by_file(runs, _of_section(table, split, runs, budget))]


def _by_file(runs: Runs, bits: Sequence[Bits]) -> Iterator[tuple[str, Bits]]:
    return zip((file.path for run in runs for file in run), bits, strict=True)


def _overlapping(table: FileStoreTable, split: DataSplit) -> Iterator[Runs]:
    """The sections in which a key may come twice, or a delete come."""
    return (runs for runs in sections_with_runs(table, split.files) if not has_one_row_per_key(runs))


def _key(table: FileStoreTable, runs: Runs) -> Hashable:
    """What the rows that are left out depend on."""
    options = table.options
    return (
        tuple(file._replace(file_index=None) for run in runs for file in run),
        (table.schema.id, merge_engine_for(table.schema), options.needs_lookup),
        options.value("sequence.snapshot-ordering"),
    )


def _of_section(table: FileStoreTable, split: DataSplit, runs: Runs, budget: int) -> list[Bits]:
    """Return the bits of each file of the section, run by run."""
    return _KEPT.of(_key(table, runs), lambda: _superseded(table, split, runs, budget))


def _superseded(
    table: FileStoreTable, split: DataSplit, runs: Runs, budget: int, *, are_all_rows: bool = False
) -> list[Bits]:
    """Merge numbers of rows instead of rows; `are_all_rows` where deletes count as rows."""
    engine = merge_engine_for(table.schema)
    needed = set(engine.required_columns(()))
    merge_fields = tuple(field for field in table.schema.fields if field.name in needed)
    reader = section_reader(table, runs, merge_fields, partition_constants(table, split), budget)
    number = max((field.name for field in merge_fields), key=len) + "_"  # a name that no column has
    ends = list(accumulate(file.row_count for run in runs for file in run))
    starts = iter([0, *ends])
    streams = [_numbered(reader, run, [next(starts) for _ in run], number) for run in runs]
    if are_all_rows:
        streams = [map(_as_inserts, stream) for stream in streams]
    left_out = np.ones(ends[-1], np.bool_)
    for batch in merged_section(table, runs, reader.at_once(streams), engine, [number], budget):
        left_out[batch.column(0).to_numpy()] = False
    return [np.packbits(part, bitorder="little") for part in np.split(left_out, ends[:-1])]


def _numbered(
    reader: FileRead, files: Sequence[SplitFile], starts: Sequence[int], name: str
) -> Iterator[pa.RecordBatch]:
    """Yield rows with their numbers, which go on from file to file."""
    for file, start in zip(files, starts, strict=True):
        positions = RowPositions(reader.table, file)
        for batch in reader.batches(file, None):
            numbers = positions.take(batch.num_rows) + start
            yield batch.add_column(len(reader.fields), name, pa.array(numbers))


def _as_inserts(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index(VALUE_KIND.name)
    if at < 0:
        return batch
    inserts = pa.array(np.zeros(batch.num_rows, np.int8))
    return batch.set_column(at, batch.schema.field(at), inserts)
