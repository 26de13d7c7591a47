"""The single values of a column that holds BLOBs: they may lie in arrays, or be the values of maps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def leaves(column: pa.Array) -> pa.Array:
    """The values of these rows alone: of BLOB the column itself, else elements of arrays or values of maps."""
    return column if pa.types.is_binary(column.type) else leaves(_inner(column))


def leaf_bounds(column: pa.Array) -> npt.NDArray[np.int64]:
    """Where the values of each row begin among the `leaves`, and where the last of them end; shape (rows + 1,)."""
    if pa.types.is_binary(column.type):
        return np.arange(len(column) + 1)
    offsets = column.offsets.to_numpy().astype(np.int64)
    bounds: npt.NDArray[np.int64] = leaf_bounds(_inner(column))[offsets - offsets[0]]
    return bounds


def with_leaves(column: pa.Array, values: pa.Array) -> pa.Array:
    """The column with other values in its shape.

    Args:
        column: of BLOB, or arrays or maps of it.
        values: as many as `leaves` gives.
    """
    if pa.types.is_binary(column.type):
        return values
    inner = with_leaves(_inner(column), values)
    offsets, nulls = pc.subtract(column.offsets, column.offsets[0]), column.is_null()
    if pa.types.is_map(column.type):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys = column.keys.slice(start, end - start)
        return pa.MapArray.from_arrays(offsets, keys, inner, type=column.type, mask=nulls)
    return pa.ListArray.from_arrays(offsets, inner, type=column.type, mask=nulls)


def _inner(column: pa.Array) -> pa.Array:
    """The elements, or the values of maps, of these rows alone."""
    start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    values = column.items if pa.types.is_map(column.type) else column.values
    return values.slice(start, end - start)
