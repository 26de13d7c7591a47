"""Reading changes: rows as they were written, the difference of two states, and rows with their kinds.

Equals Java's ``MergeFileSplitRead.createNoMergeReader``, ``IncrementalDiffSplitRead`` and ``KeyValueTableRead`` with
``forceKeepDelete``. Runs in tasks. Rows stream: memory is bounded by `read.merge.memory-budget`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.merge.changelog import SIDE, Diff
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.stream import block_bytes, merge_sorted_runs
from paimon_spark.read.data_evolution_read import read_files
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.sections import key_ranks, runs_of, sections_of
from paimon_spark.read.split import DiffSplit
from paimon_spark.read.split_read import partition_constants, with_filter_columns
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Predicate, evaluate, fields, implied_by
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, RowKind, without_retracts

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_DIFF_BUFFERS = 3
"""Each side is merged, then both results are merged: each of these merges gets this share of the budget."""


def read_written(
    table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as they lie in its files, deletes included, for which ``predicate`` is true.

    Args:
        table: the table of the plan.
        split: one split of the plan.
        plan_fields: columns of the result, in order.
        predicate: over any columns of the table.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
    """
    read_fields = with_filter_columns(table, plan_fields, predicate)
    reader = FileRead(table, read_fields, partition_constants(table, split)).as_query()
    return filter_and_project(read_files(reader, split.files, predicate), plan_fields, predicate)


def read_changed(
    table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the later state that are new, or have other values than in the earlier one.

    Arguments and errors as of `read_written`; the split is a `DiffSplit`.
    """
    return filter_and_project(diff_rows(table, split, predicate, keep_deletes=False), plan_fields, predicate)


def filter_and_project(
    batches: Iterator[pa.RecordBatch], plan_fields: Sequence[DataField], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Keep rows for which the predicate is true, and of them the columns of the plan."""
    schema = to_arrow_schema(plan_fields)
    for batch in batches:
        kept = batch if predicate is None else batch.filter(evaluate(predicate, batch))
        if kept.num_rows:
            chosen = kept.select(schema.names)
            yield pa.RecordBatch.from_arrays(chosen.columns, schema=schema) if schema.names else chosen


def written_rows(
    table: FileStoreTable, split: DataSplit, read_fields: tuple[DataField, ...], pushed: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows as they lie in the files, with ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` as the last columns.

    In a table without keys every row is +I, number 0; with data evolution its columns are put together.
    """
    constants = partition_constants(table, split)
    if table.schema.kind.is_keyed:
        yield from FileRead(table, read_fields, constants, key_value=True).as_query().run(split.files, pushed)
        return
    for batch in read_files(FileRead(table, read_fields, constants).as_query(), split.files, pushed):
        numbers = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        kinds = pa.repeat(pa.scalar(RowKind.INSERT.value, pa.int8()), batch.num_rows)
        names = [*batch.schema.names, SEQUENCE_NUMBER.name, VALUE_KIND.name]
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers, kinds], names=names)


def state_rows(
    table: FileStoreTable, split: DataSplit, read_fields: tuple[DataField, ...], pushed: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of a split of a snapshot, deletes that are still there included.

    Columns as of `written_rows`. A row that nothing was merged into keeps the kind that it was written with.
    """
    if split.raw_convertible or not table.schema.kind.is_keyed:
        yield from written_rows(table, split, read_fields, pushed)
        return
    reader = FileRead(table, read_fields, partition_constants(table, split), key_value=True).as_query()
    budget = table.options.value("read.merge.memory-budget")
    yield from merged_with_kinds(reader, split.files, budget, pushed)


def diff_rows(
    table: FileStoreTable, split: DataSplit, predicate: Predicate | None, *, keep_deletes: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that differ between the two states of a `DiffSplit`, sorted by key, not yet filtered.

    Columns are all of the table, then those of `written_rows`. With ``keep_deletes``, rows that the later state lacks
    come as -D, and so do deletes that it holds.
    """
    assert isinstance(split, DiffSplit)
    reader = FileRead(table, tuple(table.schema.fields), partition_constants(table, split), key_value=True).as_query()
    budget = table.options.value("read.merge.memory-budget") // _DIFF_BUFFERS
    keys = table.schema.trimmed_primary_keys
    pushed = implied_by(predicate, [*table.schema.partition_keys, *keys])
    sides = [(0, files) for files in split.before if files] + [(1, files) for files in split.after if files]
    runs = [
        _with_side(merged_with_kinds(reader, files, budget // len(sides), pushed), side, keep_deletes=keep_deletes)
        for side, files in sides
    ]
    engine = Diff(merge_engine_for(table.schema).layout, keep_deletes)
    names = [field.name for field in table.schema.fields]
    yield from merge_sorted_runs(runs, engine, budget_bytes=budget, drop_deletes=not keep_deletes, columns=names)


def merged_with_kinds(
    reader: FileRead, files: Sequence[SplitFile], budget: int, pushed: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Merge the files of a bucket; the result is sorted by key and keeps deletes; columns as of `written_rows`."""
    table = reader.table
    low, high = key_ranks(table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files])
    engine = merge_engine_for(table.schema)
    names = [field.name for field in reader.fields]
    key_predicate = implied_by(pushed, table.schema.trimmed_primary_keys)
    for section in sections_of(files, low, high):
        runs = runs_of(section)
        most = block_bytes(budget, len(runs))
        if len(runs) == 1:
            yield from replace(reader, batch_bytes=most).run(runs[0], pushed)
            continue
        needed = set(engine.required_columns(names)) | (fields(pushed) if pushed is not None else set())
        merged = tuple(field for field in table.schema.fields if field.name in needed)
        wide = replace(reader, fields=merged, batch_bytes=most)
        above = sum(run[0].level > 0 for run in runs) if table.options.needs_lookup else 0
        yield from merge_sorted_runs(
            wide.runs(runs, key_predicate),
            engine,
            budget_bytes=budget,
            drop_deletes=False,
            columns=names,
            replacing=above,
        )


def _with_side(batches: Iterator[pa.RecordBatch], side: int, *, keep_deletes: bool) -> Iterator[pa.RecordBatch]:
    """Add to each row the side it is of; drop deletes unless they are to be kept."""
    for batch in batches:
        if not keep_deletes:
            batch = without_retracts(batch)
        side_values = pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows)
        names = [*batch.schema.names[:-2], SIDE, *batch.schema.names[-2:]]
        arrays = [*batch.columns[:-2], side_values, *batch.columns[-2:]]
        yield pa.RecordBatch.from_arrays(arrays, names=names)
