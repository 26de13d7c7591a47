"""Building blocks of casts: arrays as numpy integers and back, and functions of distinct values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError

Ints = npt.NDArray[np.int64]


def map_distinct(array: pa.Array, function: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """A Python function applied once to each distinct value, for casts that Arrow does otherwise than Java.

    Raises:
        DataError: The function raised a ValueError; its message tells the value.
    """
    encoded = array.dictionary_encode()
    try:
        values = pa.array([function(value) for value in encoded.dictionary.to_pylist()], target)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise DataError(str(error)) from None
    return values.take(encoded.indices)


def to_ints(array: pa.Array) -> Ints:
    """The integers behind an integer, date, time or timestamp array; 0 for null."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.view(pa.int32())
    elif not pa.types.is_integer(array.type):
        array = array.view(pa.int64())
    return np.asarray(pc.fill_null(array, 0)).astype(np.int64)


def from_numpy(values: npt.NDArray[Any], like: pa.Array, target: pa.DataType) -> pa.Array:
    """An Arrow array of numpy numbers, null where another array is null, seen as a type of the same width."""
    mask = np.asarray(pc.is_null(like)) if like.null_count else None
    array = pa.array(values, mask=mask)
    return array if array.type == target else array.view(target)


def scaled(values: Ints, factor: int, what: str) -> Ints:
    """The integers times a factor.

    Raises:
        DataError: A product does not fit 64 bits.
    """
    limit = (2**63 - 1) // factor
    if len(values) and (values.max() > limit or values.min() < -limit):
        raise DataError(f"A value does not fit {what}: it is too far from 1970.")
    return values * np.int64(factor)


def trunc_div(values: Ints, divisor: int) -> Ints:
    """Java's integer division, which rounds towards zero."""
    quotient = np.abs(values) // divisor
    return np.where(values < 0, -quotient, quotient)
