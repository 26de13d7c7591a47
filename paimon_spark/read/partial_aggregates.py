"""Counts, sums and extremes of a task's rows, batch by batch; Spark aggregates what all tasks send (partial push-down).

A row that comes out is what Spark's own partial aggregation holds after the same rows, to the last bit. Floating point
numbers are added in the order of the rows. Where a sum might not fit in its type, the partial result is sent, and
then the rows themselves: Spark adds them up, and overflows where it overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import localcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.sort import packed_normalized_keys, sort_order, whole_column
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.postponed_read import PostponedSplit, read_postponed
from paimon_spark.read.sections import has_one_row_per_key, sections_with_runs
from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors
from paimon_spark.read.split_read import partition_constants, read_split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.read.aggregate import AggregateCall
    from paimon_spark.read.sections import Runs
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable

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
