"""Counts, sums and extremes: of a snapshot from its metadata alone, or of a task's rows, batch by batch.

From metadata, where that is exact, on the driver; no data file is opened. Equals the official Spark connector's
``LocalAggregator``.

In tasks (partial push-down) Spark aggregates what all of them send. A row that comes out is what Spark's own partial
aggregation holds after the same rows, to the last bit. Floating point numbers are added in the order of the rows. Where
a sum might not fit in its type, the partial result is sent, and then the rows themselves: Spark adds them up, and
overflows where it overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import localcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.sort import packed_normalized_keys, sort_order, whole_column
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.postponed_read import PostponedSplit, merges_postponed, read_postponed
from paimon_spark.read.pruning import bucket_groups, column_bounds
from paimon_spark.read.sections import anchor_mask, has_one_row_per_key, is_unmerged, sections_with_runs
from paimon_spark.read.small_files import are_many_and_small, read_splits
from paimon_spark.read.split import DataSplit
from paimon_spark.read.split_generator import generate_splits, reads_all_files, scan_files
from paimon_spark.read.split_read import partition_constants, read_split
from paimon_spark.read.table_scan import residual_filter
from paimon_spark.spec import data_types as t
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.table.deletion_vectors import Vectors, vectors_of
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.read.sections import Runs
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.spec.stats import Bounds
    from paimon_spark.table.table import FileStoreTable

_EXACT: tuple[type[t.DataType], ...] = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DateType,
    t.DecimalType,
)
"""Types whose statistics are exact: not truncated (texts), no values left out (NaN)."""
_MOST_DIGITS = 6

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One count or extreme."""

    function: str
    """``count``, ``count distinct``, ``min``, ``max`` or ``sum``."""
    column: str | None = None
    """What is counted, compared or added; None counts rows."""

    @property
    def counts(self) -> bool:
        """Whether the result is a number, which is 0 of no rows."""
        return self.function in ("count", "count distinct")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What a query asks for."""

    calls: tuple[AggregateCall, ...]
    group_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateRows:
    """The answer: the columns of `group_by`, then one for each call."""

    fields: tuple[t.DataField, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Python values."""


def aggregate_snapshot(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None, wanted: Aggregation
) -> AggregateRows | None:
    """Answer from metadata; None where the rows must be read.

    Args:
        table: with the schema of the read.
        snapshot: what to look at; None holds no rows.
        predicate: rows that count are those for which it is true; over partition columns only.
        wanted: group columns must be partition columns.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    schema = table.schema
    if merges_postponed(table) or not _is_exact(schema, wanted) or residual_filter(schema, predicate) is not None:
        return None
    fields = result_fields(schema, wanted)
    if snapshot is None:
        return AggregateRows(fields, () if wanted.group_by else (tuple(0 if c.counts else None for c in wanted.calls),))
    total = snapshot.total_record_count
    only_rows = all(call == AggregateCall("count") for call in wanted.calls)
    vectors = vectors_of(table, snapshot)
    data_evolution = table.schema.kind.has_data_evolution
    whole = not (wanted.group_by or schema.kind.is_keyed or vectors or data_evolution) and predicate is None
    if only_rows and whole and total is not None and reads_all_files(table):
        return AggregateRows(fields, ((total,) * len(wanted.calls),))
    files = scan_files(table, snapshot, predicate, statistics=bool(_bounded_columns(table, wanted)))
    files = files.filter(files.buckets != POSTPONE_BUCKET)
    if schema.kind.is_keyed and not _is_unmerged(table, snapshot, files):
        return None
    if data_evolution:
        anchors = anchor_mask(files)
        if not only_rows and not anchors.all():
            return None
        files = files.filter(anchors)
    deleted = _deleted_rows(files, vectors)
    return None if deleted is None else _answered(table, files, deleted, wanted, fields)


def _deleted_rows(files: ManifestColumns, vectors: Vectors) -> Rows | None:
    """How many rows of each file a vector deletes; None where a vector does not say."""
    if not vectors:
        return np.zeros(len(files), dtype=np.int64)
    names = zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True)
    counts = [0 if location is None else location.cardinality for location in map(vectors.get, names)]
    return None if None in counts else np.array(counts, dtype=np.int64)


def _is_exact(schema: TableSchema, wanted: Aggregation) -> bool:
    if not set(wanted.group_by) <= set(schema.partition_keys):
        return False
    for call in wanted.calls:
        if call.function == "sum":
            return False
        if call.function == "count distinct" and not _has_known_values(schema, call.column):
            return False
        if call.column is None or call.column in schema.partition_keys:
            continue
        if not schema.has_field(call.column):
            return False
        data_type = schema.field(call.column).type
        clock = (
            isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) and data_type.precision <= _MOST_DIGITS
        )
        if call.function != "count" and not isinstance(data_type, _EXACT) and not clock:
            return False
    return True


def _has_known_values(schema: TableSchema, column: str | None) -> bool:
    """Return whether a column's values differ where those of partitions do: NaN is one, as are padded texts."""
    if column not in schema.partition_keys:
        return False
    return not isinstance(schema.field(column).type, t.FloatType | t.DoubleType | t.CharType)


def result_fields(schema: TableSchema, wanted: Aggregation) -> tuple[t.DataField, ...]:
    """Return the columns of the answer."""
    groups = (schema.field(name) for name in wanted.group_by)
    return (*groups, *(_result_field(schema, call) for call in wanted.calls))


def counts_rows(schema: TableSchema, wanted: Aggregation) -> bool:
    """Return whether all that is asked for are numbers of rows, of partitions or of the table."""
    return set(wanted.group_by) <= set(schema.partition_keys) and set(wanted.calls) == {AggregateCall("count")}


def _result_field(schema: TableSchema, call: AggregateCall) -> t.DataField:
    name = f"{call.function}({call.column or '*'})"
    if call.counts or call.column is None:
        return t.DataField(-1, name, t.BigIntType(nullable=False))
    kind = schema.field(call.column).type.with_nullable(True)
    return t.DataField(-1, name, _sum_type(kind) if call.function == "sum" else kind)


def _sum_type(kind: t.DataType) -> t.DataType:
    """Return the type of a partial sum as Spark's rule of partial push-down takes it: decimals keep their type."""
    if isinstance(kind, t.DecimalType):
        return kind
    return t.DoubleType() if isinstance(kind, t.FloatType | t.DoubleType) else t.BigIntType()


def _is_unmerged(table: FileStoreTable, snapshot: Snapshot, files: ManifestColumns) -> bool:
    """Return whether each row of each file is a row of the table."""
    if any(count != 0 for count in files.file_values("_DELETE_ROW_COUNT")):
        return False
    several = [position for group in bucket_groups(files) if len(group) > 1 for position in group]
    return all(is_unmerged(table, split) for split in generate_splits(table, snapshot.id, files.take(several)))


def _bounded_columns(table: FileStoreTable, wanted: Aggregation) -> list[str]:
    """Return the columns that need the files' statistics."""
    names = {call.column for call in wanted.calls if call.column is not None}
    return sorted(names - set(table.schema.partition_keys))


def _answered(
    table: FileStoreTable, files: ManifestColumns, deleted: Rows, wanted: Aggregation, fields: tuple[t.DataField, ...]
) -> AggregateRows | None:
    bounded = _bounded_columns(table, wanted)
    if bounded and deleted.any():
        return None  # a deleted row may be the one with the extreme, or a null
    bounds = column_bounds(table, files, bounded)
    partitions = table.manifests.partition_batch(files.partitions) if table.schema.partition_keys else None
    counts = files.row_counts - deleted
    rows = []
    for group in _groups(counts, partitions, wanted.group_by):
        row: list[Any] = (
            [partitions.column(name)[int(group[0])].as_py() for name in wanted.group_by] if partitions else []
        )
        for call in wanted.calls:
            column = (
                None
                if partitions is None or call.column not in partitions.schema.names
                else partitions.column(call.column)
            )
            values = _value(
                call, counts[group], column if column is None else column.take(pa.array(group)), bounds, group
            )
            if values is None:
                return None
            row.append(values[0])
        rows.append(tuple(row))
    return AggregateRows(fields, tuple(rows))


def _groups(counts: Rows, partitions: pa.RecordBatch | None, group_by: Sequence[str]) -> list[Rows]:
    """Positions of the files of each group; files without rows make no group."""
    if not group_by or partitions is None:
        return [np.arange(len(counts), dtype=np.int64)]
    keys = list(zip(*(partitions.column(name).to_pylist() for name in group_by), strict=True))
    found: dict[tuple[Any, ...], list[int]] = {}
    for position, (key, rows) in enumerate(zip(keys, counts.tolist(), strict=True)):
        if rows:
            found.setdefault(key, []).append(position)
    return [np.array(group, dtype=np.int64) for group in found.values()]


def _value(
    call: AggregateCall, counts: Rows, partition: pa.Array | None, bounds: dict[str, Bounds], group: Rows
) -> tuple[Any] | None:
    """The value of a call over some files, in a tuple; None if metadata does not give it exactly."""
    if call.column is None:
        return (int(counts.sum()),)
    if partition is not None:
        if call.function == "count":
            return (int(counts[np.asarray(partition.is_valid())].sum()),)
        if call.function == "count distinct":
            return (pc.count_distinct(partition.filter(pa.array(counts > 0)), mode="only_valid").as_py(),)
        return (_extreme(call.function, partition.filter(pa.array(counts > 0))),)
    if call.column not in bounds:
        return None if counts.any() else (0 if call.function == "count" else None,)
    low, high, nulls = (array.take(pa.array(group)) for array in bounds[call.column])
    if nulls.null_count:
        return None
    valid = counts - np.asarray(nulls)
    if call.function == "count":
        return (int(valid.sum()),)
    side = low if call.function == "min" else high
    if bool((np.asarray(side.is_null()) & (valid > 0)).any()):
        return None
    return (_extreme(call.function, side.filter(pa.array(valid > 0))),)


def _extreme(function: str, values: pa.Array) -> Any:
    return (pc.min(values) if function == "min" else pc.max(values)).as_py()


_SMALLEST_BLOCK: Final = 4096
"""Rows whose sum might not fit are halved down to this number, then sent as they are."""
_MOST_GROUPS: Final = 100_000
"""Groups are held up to this number."""
_ROWS_TO_JUDGE: Final = 100_000
_ROWS_PER_GROUP: Final = 2
"""With fewer rows for each group, grouping does not pay: Spark groups again."""
_DIGITS: Final = 60


@dataclass
class _Column:
    """One call: how its values become a column of the result."""

    function: str
    name: str | None
    kind: pa.DataType
    """Of the result."""
    magnitude: int = 0
    """Sum of the absolute values so far, of a sum that may overflow."""

    @property
    def limit(self) -> int | None:
        """The sum must stay below this number; None where it needs no check."""
        if self.function != "sum" or pa.types.is_floating(self.kind):
            return None
        return int(10**self.kind.precision) if pa.types.is_decimal(self.kind) else 2**63

    def takes(self, size: int) -> bool:
        """Return whether values of this magnitude can be added without an overflow in between."""
        return self.limit is None or self.magnitude + size < self.limit

    def magnitude_of(self, batch: pa.RecordBatch) -> int:
        """An upper bound of the sum of the absolute values; 0 where it needs no check."""
        if self.limit is None:
            return 0
        bounds: list[Any] = [
            value for value in pc.min_max(batch.column(self.name)).as_py().values() if value is not None
        ]
        if pa.types.is_decimal(self.kind):
            with localcontext(prec=_DIGITS):
                bounds = [int(value.scaleb(self.kind.scale)) for value in bounds]
        return int(max(map(abs, bounds), default=0) * batch.num_rows)

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """What each row is by itself."""
        if self.name is None:
            return pa.array(np.ones(batch.num_rows, np.int64))
        column = batch.column(self.name)
        return (column.is_valid() if self.function == "count" else column).cast(self.kind)

    def folded(self, state: Any, batch: pa.RecordBatch) -> Any:
        """The state after further rows."""
        if self.function == "count":
            nulls = 0 if self.name is None else batch.column(self.name).null_count
            return (state or 0) + batch.num_rows - nulls
        values = batch.column(self.name).drop_null()
        if not len(values):
            return state
        if pa.types.is_floating(self.kind):
            values = values.cast(self.kind).to_numpy()
            return _float_sum(state, values) if self.function == "sum" else _float_extreme(self.function, state, values)
        found = getattr(pc, self.function)(values)
        if state is None:
            return found.as_py() if self.function == "sum" else found
        if self.function == "sum":
            with localcontext(prec=_DIGITS):
                return state + found.as_py()
        return getattr(pc, self.function)(pa.array([state, found], self.kind))

    def result(self, state: Any) -> pa.Array:
        """The state as a row."""
        return pa.array([0 if state is None and self.function == "count" else state], self.kind)


class PartialAggregates:
    """The aggregation of one task."""

    def __init__(self, group_by: Sequence[str], calls: Sequence[AggregateCall], target: pa.Schema) -> None:
        """Begin without rows.

        Args:
            group_by: columns; none makes one group of all rows.
            calls: ``count``, ``min``, ``max`` and ``sum``; alongside groups no extremes of floating point numbers.
            target: the columns that come out: `group_by`, then one for each call. Sums of decimals have the type of
                their column.
        """
        self._group_by = tuple(group_by)
        self._target = target
        kinds = target.types[len(self._group_by) :]
        self._columns = [_Column(call.function, call.column, kind) for call, kind in zip(calls, kinds, strict=True)]
        self._empty: list[Any] = [None] * len(self._columns)
        self._states = list(self._empty)
        self._groups: pa.RecordBatch | None = None
        self._taken = 0
        self._passes = False

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; yield what must be sent before further rows come.

        Args:
            batch: with at least the columns of groups and calls, in the types of Spark.
        """
        if self._passes:
            yield self._rows(batch)
            return
        sizes = [column.magnitude_of(batch) for column in self._columns]
        if not self._fits(sizes):
            yield from self._sent()
            if not self._fits(sizes):
                yield from self._in_parts(batch, sizes)
                return
        for column, size in zip(self._columns, sizes, strict=True):
            column.magnitude += size
        self._taken += batch.num_rows
        if self._group_by:
            yield from self._grouped(batch)
        else:
            self._states = [c.folded(state, batch) for c, state in zip(self._columns, self._states, strict=True)]

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left: without groups a row in any case."""
        if self._group_by:
            yield from self._sent()
        else:
            yield self._state_row()

    def _fits(self, sizes: Sequence[int]) -> bool:
        return all(column.takes(size) for column, size in zip(self._columns, sizes, strict=True))

    def _sent(self) -> Iterator[pa.RecordBatch]:
        """Yield what is held and forget it; not the magnitude of integers, since Spark's sum is as wide as ours."""
        if self._groups is not None:
            yield self._groups
        elif self._states != self._empty:
            yield self._state_row()
        self._groups, self._states, self._taken = None, list(self._empty), 0
        for column in self._columns:
            if pa.types.is_decimal(column.kind):
                column.magnitude = 0  # Spark's sum has ten digits more

    def _in_parts(self, batch: pa.RecordBatch, sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Take the rows in parts, as far as these fit; from the first integers that do not, pass all rows on."""
        pairs = zip(self._columns, sizes, strict=True)
        self._passes = not all(column.takes(size) for column, size in pairs if pa.types.is_integer(column.kind))
        if self._passes or batch.num_rows <= _SMALLEST_BLOCK:
            yield self._rows(batch)
            return
        half = batch.num_rows // 2
        for part in (batch.slice(0, half), batch.slice(half)):
            yield from self.add(part)

    def _state_row(self) -> pa.RecordBatch:
        arrays = [column.result(state) for column, state in zip(self._columns, self._states, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows by themselves, as partial results."""
        arrays = [batch.column(name) for name in self._group_by] + [column.rows(batch) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _grouped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Group rows behind the groups so far, so that each sum goes on in the order of the rows."""
        before = [] if self._groups is None else [self._groups]
        names = [str(at) for at in range(len(self._target))]
        keys = names[: len(self._group_by)]
        rows = pa.Table.from_batches([*before, self._rows(batch)]).rename_columns(names)
        functions = ["sum" if column.function == "count" else column.function for column in self._columns]
        wanted = list(zip(names[len(keys) :], functions, strict=True))
        found = rows.group_by(keys, use_threads=False).aggregate(wanted)
        arrays = [found.column(name) for name in (*keys, *(f"{name}_{function}" for name, function in wanted))]
        arrays = [array.combine_chunks().cast(kind) for array, kind in zip(arrays, self._target.types, strict=True)]
        self._groups = pa.RecordBatch.from_arrays(arrays, schema=self._target)
        if self._taken >= _ROWS_TO_JUDGE:
            self._passes = self._taken < _ROWS_PER_GROUP * len(self._groups)
        if self._passes or len(self._groups) > _MOST_GROUPS:
            yield from self._sent()


def _float_sum(state: float | None, values: Any) -> float:
    """Add numbers one after the other, as Spark does: to zero, so that the sum is never -0.0."""
    first = (0.0 if state is None else state) + values[0]
    with np.errstate(all="ignore"):
        return float(np.add.accumulate(np.concatenate([[first], values[1:]]))[-1])


def _float_extreme(function: str, state: Any, values: Any) -> Any:
    """Return the smallest or largest number: NaN is the largest, of 0.0 and -0.0 the one that came first counts."""
    if state is not None:
        values = np.concatenate([[state], values]).astype(values.dtype)
    missing = np.isnan(values)
    if missing.any() and (function == "max" or missing.all()):
        return values.dtype.type("nan")
    found = values[~missing].min() if function == "min" else values[~missing].max()
    return found if found else values[values == 0][0]


def count_splits(table: FileStoreTable, splits: Sequence[DataSplit]) -> int:
    """Return the rows of splits, as `count_split` does of each; small files that are merged are read together."""
    merged = [split for split in splits if type(split) is DataSplit and not split.raw_convertible]
    if not table.schema.kind.is_keyed or not are_many_and_small(table, merged):
        return sum(count_split(table, split) for split in splits)
    others = (split for split in splits if type(split) is not DataSplit or split.raw_convertible)
    read: int = sum(batch.num_rows for batch in read_splits(table, merged, ()))
    return read + sum(count_split(table, split) for split in others)


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
