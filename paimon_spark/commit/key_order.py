"""The order of primary keys that manifests hold as bytes, as integers: keys become ranks.

Equals Java's generated ``RecordComparator`` (format.md §13): ascending, nulls first, strings and bytes by unsigned
bytes, floating point by ``Double.compare`` (-0.0 before 0.0, NaN last).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.binary_row import decode_rows

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
    ranks = np.zeros(len(keys), dtype=np.int64)
    for column in decode_rows(keys, types, serialized=True):
        of_column = column_ranks(column)
        _, ranks = np.unique(ranks * (int(of_column.max(initial=0)) + 1) + of_column, return_inverse=True)
    return ranks.astype(np.int64, copy=False)


def column_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return ranks of one column: 0 for null, from 1 for values, equal for equal values only."""
    if pa.types.is_floating(column.type):
        column = _float_order(column)
    encoded = column.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary), dtype=np.int64)
    rank_of_code = np.empty(len(order), dtype=np.int64)
    rank_of_code[order] = np.arange(1, len(order) + 1)
    ranks = np.zeros(len(column), dtype=np.int64)
    known = np.asarray(encoded.indices.is_valid())
    ranks[known] = rank_of_code[np.asarray(encoded.indices.drop_null())]
    return ranks


def _float_order(column: pa.Array) -> pa.Array:
    """Map floats to int64 that sort as ``Double.compare`` does; nulls stay null."""
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    values = np.where(np.isnan(values), np.nan, values)
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.array(ordered, mask=np.asarray(column.is_null()))
