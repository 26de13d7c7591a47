"""The rows of one split: files one after the other, or sorted runs merged section by section.

Equals Java's ``RawFileSplitRead`` and ``MergeFileSplitRead`` (docs/internals/format.md §7, §13). Runs in tasks, once
per split.

Of overlapping sorted runs, only the keys are merged that can have a row for which a condition on values is true. Where
a merge only moves the values of a column, the merged row has the value of one of the rows of its key, or null. So a
condition that is not true of null can be true of the merged row only if it is true of one of these rows. Keys and the
columns of the condition are read first; then all columns, but only the rows of the keys found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, zip_longest
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.merge_engine import MergeEngine
from paimon_spark.merge.stream import block_bytes, merge_sorted_runs
from paimon_spark.read.data_evolution_read import read_files
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.sections import has_one_row_per_key, sections_with_runs
from paimon_spark.read.split import KeyRangeSplit
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.binary_row import deserialize_row
from paimon_spark.spec.predicate import (
    Leaf,
    Or,
    Predicate,
    all_of,
    any_of,
    evaluate,
    fields,
    implied_by,
    matching,
    split_and,
)
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, without_retracts
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS
from paimon_spark.storage.read_ahead import FILES_AHEAD_BYTES, SMALL_FILE_BYTES
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


def read_split(
    table: FileStoreTable,
    split: DataSplit,
    plan_fields: Sequence[DataField],
    predicate: Predicate | None = None,
    *,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, merged, without deletes, and exactly those for which ``predicate`` is true.

    Args:
        table: the table of the plan (`ReadPlan.table`).
        split: one split of the plan.
        plan_fields: columns of the result, in order; none at all gives batches that only have a number of rows.
        predicate: over any columns of the table; columns that are not wanted are read for it and left out.
        batch_rows: most rows of a batch of a file; few where not all rows of the split are wanted.
        batch_bytes: most bytes of a batch of a file, where no runs are merged.
        use_threads: decode columns in parallel; not in Spark tasks, whose cores run other tasks.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
        SnapshotNotFoundError: a data file is missing because the snapshot has expired meanwhile.
        DataError: the merge engine cannot take a row (such as a delete that partial-update is not set to accept).
    """
    if isinstance(split, KeyRangeSplit):
        predicate = all_of([each for each in (split.condition, predicate) if each is not None])
    read_fields = with_filter_columns(table, plan_fields, predicate)
    constants = partition_constants(table, split)
    reader = FileRead(
        table,
        read_fields,
        constants,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        use_threads=use_threads,
    )
    if split.raw_convertible or not table.schema.kind.is_keyed:
        batches = _raw(reader, split.files, predicate)
    else:
        batches = _merged(reader, split, predicate)
    with snapshot_expiry_errors(table, split.snapshot_id):
        yield from results(batches, plan_fields, predicate)


def results(
    batches: Iterable[pa.RecordBatch], plan_fields: Sequence[DataField], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows for which a predicate is true, and of their columns the first, those of a plan."""
    schema = to_arrow_schema(plan_fields)
    for batch in batches:
        kept = batch if predicate is None else matching(predicate, batch)
        if kept.num_rows:
            arrays = kept.columns[: len(plan_fields)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else kept.select([])


def with_filter_columns(
    table: FileStoreTable, plan_fields: Sequence[DataField], predicate: Predicate | None
) -> tuple[DataField, ...]:
    """Return the columns and, behind them, those of the table that only the predicate uses."""
    filtered = (set() if predicate is None else fields(predicate)) - {field.name for field in plan_fields}
    return (*plan_fields, *(field for field in table.schema.fields if field.name in filtered))


def _raw(reader: FileRead, files: Sequence[SplitFile], predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Read files one by one; in old files without a delete count, rows are checked for deletes."""
    plain = reader.as_query()
    if not reader.table.schema.kind.is_keyed:
        yield from read_files(plain, files, predicate)
        return
    plain = plain.for_files(files)
    with_kinds = replace(plain, key_value=True)
    for file in files:
        if file.delete_row_count != 0:
            yield from _without_deletes(with_kinds.batches(file, predicate), len(reader.fields))
        else:
            yield from plain.batches(file, predicate)


def _merged(reader: FileRead, split: DataSplit, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Merge the files of a primary-key bucket, one section of touching key ranges after the other."""
    table = reader.table
    engine = merge_engine_for(table.schema)
    key_predicate = implied_by(predicate, table.schema.trimmed_primary_keys)
    conditions = conditions_on_rows(predicate, reader.fields, engine, one_row_wins=table.options.one_row_wins)
    for runs in sections_with_runs(table, split.files):
        if len(runs) == 1 and (has_one_row_per_key(runs) or table.options.merge_engine == "deduplicate"):
            # Each key comes once here, so the value predicate can be pushed down to the files.
            yield from _raw(reader, runs[0], predicate)
        else:
            pushed = predicate if len(runs) == 1 else key_predicate
            yield from _merged_section(reader, runs, engine, pushed, conditions if len(runs) > 1 else ())


def _merged_section(
    reader: FileRead,
    runs: Sequence[Sequence[SplitFile]],
    engine: MergeEngine,
    pushed: Predicate | None,
    conditions: Sequence[Predicate],
) -> Iterator[pa.RecordBatch]:
    """Merge a section; of its files the rows for which ``pushed`` is not true, and of keys that cannot match, may lack.

    Args:
        reader: of the columns of the result and of the predicate.
        runs: of the section, oldest first.
        engine: of the table.
        pushed: what may be asked of each row.
        conditions: each true of one of the rows of a key at least, if its merged row counts.
    """
    table, read_fields = reader.table, reader.fields
    names = [field.name for field in read_fields] or [engine.keys[0]]  # a column to count the rows by
    few = reader.batch_rows < DEFAULT_BATCH_ROWS  # rows are wanted: then one batch of each run is merged at a time
    budget = 0 if few else table.options.value("read.merge.memory-budget")
    needed = set(engine.required_columns(names)) | (fields(pushed) if pushed is not None else set())
    in_part = {field.name: field for field in read_fields}
    merge_fields = tuple(in_part.get(field.name, field) for field in table.schema.fields if field.name in needed)
    merging = replace(
        section_reader(table, runs, merge_fields, reader.constants, budget),
        batch_rows=reader.batch_rows,
        use_threads=reader.use_threads,
        dictionaries=frozenset() if table.options.needs_lookup else engine.moved_columns(list(needed)),
    )
    found = None if few else matching_keys(merging, runs, conditions, engine.keys, pushed)
    if found is None:
        streams = merging.runs(runs, pushed)
    else:
        of_keys = found.predicate if pushed is None else all_of((found.predicate, pushed))
        streams = [found.rows(stream) for stream in merging.runs(runs, of_keys)]
    yield from merged_section(table, runs, streams, engine, names, budget)


def section_reader(
    table: FileStoreTable,
    runs: Sequence[Sequence[SplitFile]],
    merge_fields: tuple[DataField, ...],
    constants: Mapping[str, pa.Scalar],
    budget: int,
) -> FileRead:
    """Return what reads the files of a section for a merge: columns, then what else decides the order of its rows.

    Args:
        table: of the plan.
        runs: of the section, oldest first.
        merge_fields: what the merge engine needs.
        constants: see `partition_constants`.
        budget: memory for the merge, in bytes.
    """
    order_fields = order_columns(runs)
    size = block_bytes(budget, len(runs))
    reader = FileRead(table, merge_fields, constants, special=order_fields, batch_bytes=size).as_query()
    return reader.for_files(opened_in_order(runs), budget // 4 or FILES_AHEAD_BYTES)


def order_columns(runs: Sequence[Sequence[SplitFile]]) -> tuple[DataField, ...]:
    """Return the columns, besides those of the table, that decide which rows of sorted runs, oldest first, count."""
    return (*(() if _are_newer_by_run(runs) else (SEQUENCE_NUMBER,)), *_kinds_of(runs))


def opened_in_order(runs: Sequence[Sequence[SplitFile]]) -> list[SplitFile]:
    """Return the files of sorted runs in about the order in which a merge opens them: the first of each run first."""
    return [file for files in zip_longest(*runs) for file in files if file is not None]


def merged_section(
    table: FileStoreTable,
    runs: Sequence[Sequence[SplitFile]],
    streams: Sequence[Iterator[pa.RecordBatch]],
    engine: MergeEngine,
    names: Sequence[str],
    budget: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of these names of the rows of a section, merged, without deletes.

    Args:
        table: of the plan.
        runs: of the section, oldest first.
        streams: the rows of each run, as its `section_reader` reads them; more columns may stand among them.
        engine: of the table.
        names: of the result.
        budget: memory for the merge, in bytes.
    """
    return merge_sorted_runs(
        streams,
        engine,
        budget_bytes=budget,
        drop_deletes=True,
        columns=names,
        key_value_columns=False,
        replacing=sum(run[0].level > 0 for run in runs) if table.options.needs_lookup else 0,
    )


def _are_newer_by_run(runs: Sequence[Sequence[SplitFile]]) -> bool:
    """Return whether each row of a run is newer than all of those before: then sequence numbers decide nothing more."""
    ends = [(min(file.min_seq for file in run), max(file.max_seq for file in run)) for run in runs]
    return all(older[1] < newer[0] for older, newer in pairwise(ends))


def _kinds_of(runs: Sequence[Sequence[SplitFile]]) -> tuple[DataField, ...]:
    """Return the column of the row kinds, if any file may hold deletes."""
    return () if all(file.delete_row_count == 0 for run in runs for file in run) else (VALUE_KIND,)


def _without_deletes(batches: Iterator[pa.RecordBatch], columns: int) -> Iterator[pa.RecordBatch]:
    """Drop -U and -D rows, then the columns of the KeyValue."""
    for batch in batches:
        yield without_retracts(batch).select(list(range(columns)))


def partition_constants(table: FileStoreTable, split: DataSplit) -> dict[str, pa.Scalar]:
    """Return the partition values of a split by column name, in the types of the read."""
    return partition_scalars(table, split.partition)


def partition_scalars(table: FileStoreTable, partition: bytes) -> dict[str, pa.Scalar]:
    """Return the values of a partition by column name, in the types of the table."""
    schema = table.schema
    if not schema.partition_keys:
        return {}
    types = [schema.field(name).type for name in schema.partition_keys]
    values = deserialize_row(partition, types)
    return {
        name: pa.scalar(value, to_arrow_type(data_type))
        for name, value, data_type in zip(schema.partition_keys, values, types, strict=True)
    }


LEAST_BYTES: Final = 4 << 20
"""Sections whose files are smaller are merged whole: reading twice costs more than it saves."""
_LEAST_COLUMNS: Final = 2
"""So many columns have to be left out of the first reading."""
_LEAST_ROWS: Final = 8_192
_MOST_PART: Final = 8
_MOST_BYTES: Final = 16 << 20
"""Where more than this part of the rows match, and more than a few, or their keys take more bytes, all are merged."""
_MOST_LITERALS: Final = 1_000
"""So many keys are pushed down to the files one by one; of more only their range."""


@dataclass(frozen=True, slots=True)
class MatchingKeys:
    """Values of each key column; the rows that count have one of them in each."""

    values: tuple[tuple[str, pa.Array], ...]

    @property
    def predicate(self) -> Predicate:
        """What is pushed down to files: the values, or their range where they are many."""
        return all_of(self._leaf(name, values) for name, values in self.values if _is_literal(values.type))

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these keys, and perhaps of others that have their values in each column."""
        for batch in batches:
            mask = None
            for name, values in self.values:
                found = pc.is_in(batch.column(name), value_set=values)
                mask = found if mask is None else pc.and_(mask, found)
            yield batch.filter(mask)

    @staticmethod
    def _leaf(name: str, values: pa.Array) -> Predicate:
        if len(values) <= _MOST_LITERALS:
            return Leaf("in", name, values.to_pylist())
        bounds = pc.min_max(values)
        return Leaf("between", name, (bounds["min"].as_py(), bounds["max"].as_py()))


def _is_literal(data_type: pa.DataType) -> bool:
    """Whether values of a type are the same as Python values."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_decimal, pa.types.is_boolean)
    return any(kind(data_type) for kind in kinds)


def conditions_on_rows(
    predicate: Predicate | None, columns: Sequence[DataField], engine: MergeEngine, *, one_row_wins: bool
) -> list[Predicate]:
    """Return conditions each of which is true of one of the rows of a key, if the predicate is of the merged row.

    Args:
        predicate: over the merged rows.
        columns: of the table that the predicate looks at, among others.
        engine: of the table.
        one_row_wins: whether the merged row is one of the rows of its key (`CoreOptions.one_row_wins`).
    """
    if predicate is None or fields(predicate) <= set(engine.keys):
        return []
    if one_row_wins:
        return [predicate]
    schema = to_arrow_schema(columns)
    nulls = pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
    return [
        part
        for part in split_and(predicate)
        if _of_single_columns(part)
        and fields(part) <= engine.moved_columns(list(fields(part)))
        and not evaluate(part, nulls)[0].as_py()
    ]


def _of_single_columns(predicate: Predicate) -> bool:
    """Whether it is of one column, or a disjunction of conditions of one column each."""
    if isinstance(predicate, Or):
        return all(_of_single_columns(child) for child in predicate.children)
    return len(fields(predicate)) == 1


def matching_keys(
    reader: FileRead,
    runs: Sequence[Sequence[SplitFile]],
    conditions: Sequence[Predicate],
    keys: Sequence[str],
    pushed: Predicate | None,
) -> MatchingKeys | None:
    """Find the keys of a section that have, for each condition, a row for which it is true.

    Args:
        reader: of the section, with all columns of the merge and the memory of its batches.
        runs: of the section.
        conditions: of `conditions_on_rows`.
        keys: columns of the key.
        pushed: what the predicate says of the keys alone.

    Returns:
        The keys, and perhaps some more; None where all rows are to be merged: the files are small, few columns are
        left out, or many rows match.

    Raises:
        CorruptTableError: a data file or schema file is missing or damaged.
    """
    tested = set().union(*map(fields, conditions)) | set(keys)
    columns = tuple(field for field in reader.fields if field.name in tested)
    if (
        not conditions
        or len(reader.fields) - len(columns) < _LEAST_COLUMNS
        or _bytes_that_count(reader, runs) < LEAST_BYTES
        or any(pa.types.is_floating(field.type) for field in to_arrow_schema(columns) if field.name in keys)
    ):
        return None
    first = replace(reader, fields=columns, special=(), dictionaries=frozenset(), ahead=None)
    either = any_of(conditions)
    most_rows = max(sum(file.row_count for run in runs for file in run), _LEAST_ROWS * _MOST_PART) // _MOST_PART
    found = {condition: _Found(most_rows) for condition in conditions}
    for batch in chain(*first.runs(runs, either if pushed is None else all_of((either, pushed)))):
        for condition in [c for c, rows in found.items() if not rows.add(matching(c, batch).select(list(keys)))]:
            del found[condition]
        if not found:
            return None
    by_name = {field.name: field for field in columns}
    schema = to_arrow_schema([by_name[key] for key in keys])
    fewest = pa.Table.from_batches(min(found.values(), key=lambda rows: rows.number).batches, schema)
    return MatchingKeys(tuple((name, pc.unique(fewest[name])) for name in keys))


def _bytes_that_count(reader: FileRead, runs: Sequence[Sequence[SplitFile]]) -> int:
    """Bytes of the files of which some columns can be read alone: small ones of a store come whole."""
    smallest = 0 if reader.table.file_io.threads == 1 else SMALL_FILE_BYTES
    return sum(file.size for run in runs for file in run if file.size > smallest)


@dataclass(slots=True)
class _Found:
    """The keys of the rows that match one condition."""

    most_rows: int
    number: int = 0
    size: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Keep the rows of a batch; return whether all of them are still few."""
        self.batches.append(batch)
        self.number, self.size = self.number + batch.num_rows, self.size + batch.nbytes
        return self.number <= self.most_rows and self.size <= _MOST_BYTES
