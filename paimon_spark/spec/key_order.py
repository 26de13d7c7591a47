"""The order of primary keys as integers: keys become ranks, vectorised over all files of a plan or a commit.

Equals Java's generated ``RecordComparator`` (docs/internals/format.md §13): column by column ascending, nulls first,
strings and bytes by unsigned bytes, floating point by ``Double.compare`` (-0.0 before 0.0, NaN last).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.binary_row_decoder import decode_rows

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataType


def key_ranks(keys: Sequence[bytes], types: Sequence[DataType]) -> npt.NDArray[np.int64]:
    """Return the rank of each key: equal keys have equal ranks, a smaller key has a smaller rank.

    Args:
        keys: serialized BinaryRows (``_MIN_KEY``, ``_MAX_KEY``).
        types: types of the trimmed primary key.

    Returns:
        int64 ranks, shape (len(keys),).
    """
    return composite_ranks(decode_rows(keys, types, serialized=True))


def composite_ranks(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return dense ranks of rows of several columns: equal rows have equal ranks, a smaller row has a smaller rank."""
    each = [column_ranks(column) for column in columns]
    if len(each) == 1:
        return each[0]
    order = np.lexsort(tuple(reversed(each)))
    changed = np.zeros(len(order), dtype=np.int64)
    for ranks in each:
        ordered = ranks[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.cumsum(changed)
    return result


def column_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return dense ranks of one column: 0 for null, from 1 for values, equal for equal values only."""
    if pa.types.is_floating(column.type):
        column = _float_order(column)
    ranks = np.array(pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False), dtype=np.int64)
    if column.null_count:
        ranks[np.asarray(column.is_null().to_numpy(zero_copy_only=False))] = 0
    return ranks


def _float_order(column: pa.Array) -> pa.Array:
    """Map floats to int64 that sort as ``Double.compare`` does; nulls stay null."""
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    values = np.where(np.isnan(values), np.nan, values)
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.array(ordered, mask=np.asarray(column.is_null()))
