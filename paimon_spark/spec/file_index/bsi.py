"""The index ``bsi``: bit slices of numbers, for ranges (Java: ``BitSliceIndexBitmapFileIndex``).

Numbers below 0 have slices of their own, over their absolute values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import DataError
from paimon_spark.spec.file_index.roaring_rows import (
    Bits,
    Numbers,
    all_bits,
    bitmap_length,
    decode_bitmap,
    encode_bitmap,
    no_bits,
)
from paimon_spark.spec.file_index.section import IndexDamageError, Section
from paimon_spark.spec.file_index.values import Key

_LEAST = -(2**63)
_MOST_SLICES = 64
_HEAD = struct.Struct(">bqq")


def encode_bsi(keys: Numbers, there: npt.NDArray[np.bool_]) -> bytes:
    """The bytes of the index over all rows of a file.

    Args:
        keys: of each row; what stands at nulls is undefined.
        there: True where the row has a value.

    Raises:
        DataError: a value is the least BIGINT, which has no absolute value.
    """
    rows = np.flatnonzero(there)
    values = keys[rows]
    if len(values) and int(values.min()) == _LEAST:
        raise DataError(
            f"The index bsi cannot hold {_LEAST}, in Java neither: use the index range-bitmap for the column."
        )
    parts = [struct.pack(">bi", 1, len(keys))]
    for sign in (values >= 0, values < 0):
        parts.append(struct.pack(">?", bool(sign.any())))
        if sign.any():
            parts.append(_encode_slices(rows[sign], np.abs(values[sign])))
    return b"".join(parts)


def _encode_slices(rows: Numbers, values: Numbers) -> bytes:
    most = int(values.max())
    slices = [encode_bitmap(rows[values >> i & 1 == 1]) for i in range(most.bit_length())]
    return b"".join((_HEAD.pack(1, 0, most), encode_bitmap(rows), struct.pack(">i", len(slices)), *slices))


@dataclass(frozen=True, slots=True)
class _Slices:
    """Where the slices of one sign stand; all rows of it, and the least and greatest absolute value."""

    low: int
    high: int
    rows: Bits
    slices: tuple[tuple[int, int], ...]


class BsiReader:
    """Compares the rows of a file with values."""

    def __init__(self, section: Section, row_count: int) -> None:
        """Read the whole index and find the slices."""
        self._data = memoryview(section.take(0, section.length))
        self._count = row_count
        try:
            version, rows = struct.unpack_from(">bi", self._data)
            if version != 1:
                raise IndexDamageError(f"its bsi index has version {version}, known is 1")
            if rows != row_count:
                raise IndexDamageError(f"its bsi index is over {rows} rows, the file has {row_count}")
            self._positive, at = self._find(5)
            self._negative, _ = self._find(at)
        except struct.error as error:
            raise IndexDamageError("its bsi index is cut off") from error

    def _find(self, at: int) -> tuple[_Slices | None, int]:
        (there,) = struct.unpack_from(">?", self._data, at)
        if not there:
            return None, at + 1
        version, low, high = _HEAD.unpack_from(self._data, at + 1)
        if version != 1 or not 0 <= low <= high:
            raise IndexDamageError("its bsi index has slices of another version, or of no range")
        at += 1 + _HEAD.size
        rows, length = decode_bitmap(self._data[at:], self._count)
        at += length
        (count,) = struct.unpack_from(">i", self._data, at)
        if not 0 <= count <= _MOST_SLICES:
            raise IndexDamageError(f"its bsi index has {count} slices")
        at += 4
        slices = []
        for _ in range(count):
            length = bitmap_length(self._data[at:])
            slices.append((at, length))
            at += length
        return _Slices(low, high, rows, tuple(slices)), at

    def not_null(self) -> Bits:
        """The rows with a value."""
        return self._all(self._positive) | self._all(self._negative)

    def null(self) -> Bits:
        """The rows without a value."""
        return all_bits(self._count) & ~self.not_null()

    def equal(self, keys: Sequence[Key]) -> Bits:
        """The rows that have one of the values."""
        bits = no_bits(self._count)
        for key in keys:
            assert isinstance(key, int)
            bits |= self._compared(self._positive if key >= 0 else self._negative, abs(key))[0]
        return bits

    def above(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is greater than a key, or equal to it."""
        assert isinstance(key, int)
        if key >= 0:
            equal, greater, _ = self._compared(self._positive, key)
        else:
            equal, _, greater = self._compared(self._negative, -key)
            greater = greater | self._all(self._positive)
        return greater | equal if inclusive else greater

    def below(self, key: Key, *, inclusive: bool) -> Bits:
        """The rows whose value is less than a key, or equal to it."""
        return self.not_null() & ~self.above(key, inclusive=not inclusive)

    def _all(self, slices: _Slices | None) -> Bits:
        return no_bits(self._count) if slices is None else slices.rows

    def _compared(self, slices: _Slices | None, value: int) -> tuple[Bits, Bits, Bits]:
        """The rows equal to, above and below an absolute value."""
        nothing = no_bits(self._count)
        if slices is None:
            return nothing, nothing, nothing
        if value < slices.low:
            return nothing, slices.rows, nothing
        if value > slices.high:
            return nothing, nothing, slices.rows
        shifted = value - slices.low
        parts = (decode_bitmap(self._data[at : at + size], self._count)[0] for at, size in slices.slices)
        equal, greater = compare_slices(slices.rows, parts, shifted)
        if shifted >> len(slices.slices):
            equal, greater = nothing, nothing
        return equal, greater, slices.rows & ~equal & ~greater


def compare_slices(rows: Bits, slices: Iterable[Bits], value: int) -> tuple[Bits, Bits]:
    """The rows whose number equals a value, and those above it.

    Args:
        rows: that have a number.
        slices: for each bit, the lowest first, the rows whose number has it.
        value: not negative.
    """
    equal, greater = rows, np.zeros_like(rows)
    for i, part in enumerate(slices):
        if value >> i & 1:
            greater = greater & part
            equal = equal & part
        else:
            greater = greater | part
            equal = equal & ~part
    return equal, greater & rows
