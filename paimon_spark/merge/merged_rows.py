"""The rows of a merge, before and after: input rows in merge order, and result columns taken from them or computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.merge.aggregators import Merged
from paimon_spark.merge.segments import Indices, Mask
from paimon_spark.merge.sort import SEQUENCE_NUMBER, VALUE_KIND, KeyOrder, whole_column
from paimon_spark.spec.special_fields import is_retract

Numbers = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Numbers of rows."""
_MOST_SHORT_ROWS = 1 << 29


class MergeInput:
    """KeyValue rows in merge order, with their columns at hand as whole arrays.

    Attributes:
        rows: The rows as given.
        key_order: Their merge order.
        newest: For each key its last row.
    """

    def __init__(self, rows: pa.Table, key_order: KeyOrder) -> None:
        self.rows = rows
        self.key_order = key_order
        self.newest: Indices = key_order.order[np.append(key_order.starts[1:], rows.num_rows) - 1]
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._columns:
            self._columns[name] = whole_column(self.rows, name)
        return self._columns[name]

    def moved_column(self, name: str) -> pa.Array:
        """A column as one array that is not kept, for a single use: columns may be large."""
        return self._columns[name] if name in self._columns else whole_column(self.rows, name)

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Row kinds (`RowKind`)."""
        if VALUE_KIND not in self.rows.schema.names:
            return np.zeros(self.rows.num_rows, np.int8)
        return self.column(VALUE_KIND).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def sequences(self) -> Indices:
        """Sequence numbers; zeros where the order of arrival says it all."""
        if SEQUENCE_NUMBER not in self.rows.schema.names:
            return np.zeros(self.rows.num_rows, np.int64)
        return self.column(SEQUENCE_NUMBER).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def has_retracts(self) -> bool:
        """Whether any row is -U or -D."""
        return VALUE_KIND in self.rows.schema.names and bool(is_retract(self.kinds).any())

    @cached_property
    def keys_with_retracts(self) -> Mask:
        """For each key, whether one of its rows is -U or -D."""
        if not self.has_retracts:
            return np.zeros(len(self.key_order.starts), np.bool_)
        retracts = is_retract(self.kinds)[self.key_order.order]
        return np.logical_or.reduceat(retracts, self.key_order.starts)

    @cached_property
    def newest_numbers(self) -> Numbers:
        """`newest`, in four bytes where results with computed values fit: columns start from these numbers."""
        return self.newest.astype(np.int32) if self.rows.num_rows < _MOST_SHORT_ROWS else self.newest

    def take(self, name: str, indices: Indices) -> pa.Array:
        """A column at these rows; -1 gives null."""
        return take_rows(self.column(name), indices)


def take_rows(column: pa.Array, indices: Numbers) -> pa.Array:
    """The values at these positions; -1 gives null."""
    if len(indices) and bool((indices < 0).any()):
        return column.take(pa.array(indices, mask=indices < 0))
    return column.take(pa.array(indices))


class MergedColumn:
    """One column of the result: for each key a row of the input, a computed value or null."""

    def __init__(self, column: pa.Array, rows: Numbers) -> None:
        self._column = column
        self._pool = [column]
        self._size = len(column)
        self._rows: Numbers = rows
        self._owned = False

    @property
    def values(self) -> pa.Array:
        """The input column."""
        return self._column

    def put(self, keys: Indices, merged: Merged, rows: Indices | None = None) -> None:
        """Sets the values of these keys.

        Args:
            keys: Numbers of the keys.
            merged: For each of them a position in ``rows`` (-1: null), or the values themselves.
            rows: Input rows that the positions mean; None when they are input rows already.
        """
        if not self._owned:
            self._rows, self._owned = self._rows.copy(), True
        if isinstance(merged, np.ndarray):
            self._rows[keys] = merged if rows is None else np.where(merged < 0, -1, rows[merged])
            return
        if isinstance(merged, pa.ChunkedArray):
            merged = merged.combine_chunks()
        self._rows[keys] = np.arange(self._size, self._size + len(merged))
        self._pool.append(merged)
        self._size += len(merged)

    def clear(self) -> None:
        """Makes the value of every key null."""
        self._rows, self._owned = np.full(len(self._rows), -1, np.int64), True

    def result(self, kept: Indices | None) -> pa.Array:
        """The column, for the kept keys (None: all)."""
        pool = self._pool[0] if len(self._pool) == 1 else pa.concat_arrays(self._pool)
        return take_rows(pool, self._rows if kept is None else self._rows[kept])


def rows_table(merging: MergeInput, winners: Indices, names: Sequence[str], *, key_value_columns: bool) -> pa.Table:
    """These rows of the input, one per key and in key order, with the named columns and the KeyValue columns last."""
    wanted = [*names, *((SEQUENCE_NUMBER, VALUE_KIND) if key_value_columns else ())]
    if len(winners) == merging.rows.num_rows and bool((winners[1:] > winners[:-1]).all()):
        return merging.rows.select(wanted)
    taken = {name: take_rows(merging.moved_column(name), winners) for name in wanted}
    return output_table(
        [(name, taken[name]) for name in names], merging.rows.schema, taken.get(SEQUENCE_NUMBER), taken.get(VALUE_KIND)
    )


def output_table(
    columns: Sequence[tuple[str, pa.Array]], schema: pa.Schema, sequences: pa.Array | None, kinds: pa.Array | None
) -> pa.Table:
    """The merged columns under the fields of the input, with the KeyValue columns last."""
    fields = [schema.field(name) for name, _ in columns]
    arrays = [array for _, array in columns]
    for name, array in ((SEQUENCE_NUMBER, sequences), (VALUE_KIND, kinds)):
        if array is not None:
            fields.append(schema.field(name))
            arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
