"""Positions of rows on curves through several columns: rows that are near each other on one are near in every column.

Java's ``ZIndexer`` and ``HilbertIndexer`` interleave the bits of the values themselves, so a text counts more than a
small number next to it. Here the ranks of values among those of the column are interleaved: every column counts alike,
whatever its type and range. The order of rows is no part of the format. Whole columns are turned into bits at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

Ranks = npt.NDArray[np.uint16]

_BITS = 15  # as many as Java's 63, where columns come to turns: small numbers lie on both curves alike
_ROWS_AT_ONCE = 1 << 16


class Curve(Enum):
    """How rows are put in order."""

    ORDER = "order"
    """By the first column, then by the next."""
    ZORDER = "zorder"
    HILBERT = "hilbert"


def can_be_ordered(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type have an order that files' statistics know."""
    texts = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    scalars = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_temporal, pt.is_boolean)
    return any(is_kind(kind) for is_kind in (*texts, *scalars))


def curve_keys(columns: Sequence[Ranks], curve: Curve) -> pa.Array:
    """Return the location of each row on a curve, as bytes that compare as the positions do.

    Args:
        columns: the rank of each row in each column; of the same length.
        curve: z-order or Hilbert's.
    """
    count = len(columns[0])
    parts = [np.zeros((0, 2 * len(columns)), np.uint8)]
    for start in range(0, count, _ROWS_AT_ONCE):
        part = [column[start : start + _ROWS_AT_ONCE] for column in columns]
        parts.append(_interleaved(_hilbert(part) if curve is Curve.HILBERT else part))
    keys = np.ascontiguousarray(np.concatenate(parts))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(keys.shape[1]), count, [None, pa.py_buffer(keys)])


def _interleaved(columns: Sequence[Ranks]) -> npt.NDArray[np.uint8]:
    """The first bit of every column, then the second of each, and so on."""
    octets = np.stack([column.astype(">u2").view(np.uint8).reshape(-1, 2) for column in columns], axis=1)
    bits = np.unpackbits(octets, axis=2)  # row, column, bit
    return np.packbits(bits.transpose(0, 2, 1).reshape(len(bits), -1), axis=1)


def _hilbert(columns: Sequence[Ranks]) -> list[Ranks]:
    """Turn coordinates into a position on Hilbert's curve, whose bits are then interleaved (J. Skilling, 2004)."""
    axes = [column.copy() for column in columns]
    bits = [np.uint16(1 << bit) for bit in range(_BITS - 1, 0, -1)]
    for bit in bits:
        low = np.uint16(bit - 1)
        for axis in range(len(axes)):
            inverted = (axes[axis] & bit) != 0
            exchanged = np.where(inverted, np.uint16(0), (axes[0] ^ axes[axis]) & low)
            axes[0] ^= np.where(inverted, low, exchanged)
            if axis:
                axes[axis] ^= exchanged
    for axis in range(1, len(axes)):
        axes[axis] ^= axes[axis - 1]
    turned = np.zeros(len(axes[0]), np.uint16)
    for bit in bits:
        turned ^= np.where((axes[-1] & bit) != 0, np.uint16(bit - 1), np.uint16(0))
    return [axis ^ turned for axis in axes]
