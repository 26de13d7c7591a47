"""Minimum, maximum and null count of a column as scalars, their truncation, and their serialized form.

Equals Java's ``SimpleColStats``, ``TruncateSimpleColStatsCollector.convert`` and ``SimpleStatsConverter``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import encode_rows
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.stats import SimpleStats

_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Statistics of one column of one file; ``low`` and ``high`` are None when unknown or when all is null."""

    low: pa.Scalar | None
    high: pa.Scalar | None
    null_count: int | None


NONE = ColumnRange(None, None, None)
"""No statistics at all; dense statistics leave the column out."""


def truncated(column: ColumnRange, mode: str) -> ColumnRange:
    """Apply a statistics mode: ``none``, ``counts``, ``truncate(n)`` or ``full``.

    Raises:
        OptionError: the mode is none of these.
    """
    word = mode.strip().lower()
    if word == "none" or column == NONE:
        return NONE
    if word == "counts":
        return ColumnRange(None, None, column.null_count)
    if word == "full":
        return column
    found = re.fullmatch(r"truncate\((\d+)\)", word)
    if found is None:
        raise OptionError(f"Unknown statistics mode '{mode}'; use none, counts, truncate(n) or full.")
    length = int(found.group(1))
    if length <= 0:
        raise OptionError(f"Statistics mode '{mode}': truncate length should larger than zero.")
    if column.low is None or column.high is None:
        return ColumnRange(None, None, column.null_count)
    kind = column.low.type
    if pa.types.is_string(kind):
        above: Callable[[Any, int], str | bytes | None] = _text_above
    elif pa.types.is_binary(kind):
        above = _bytes_above
    else:
        return column
    high, low = above(column.high.as_py(), length), column.low.as_py()[:length]
    if high is None:
        return ColumnRange(None, None, column.null_count)
    return ColumnRange(pa.scalar(low, kind), pa.scalar(high, kind), column.null_count)


def _text_above(text: str, length: int) -> str | None:
    """The shortest cut of ``text`` to ``length`` code points that is not smaller; None when there is none."""
    if len(text) <= length:
        return text
    for position in range(length - 1, -1, -1):
        code = ord(text[position]) + 1
        if code <= _MAX_CODE_POINT:
            if _SURROGATES[0] <= code <= _SURROGATES[1]:  # Java: writes a lone surrogate, which becomes '?'
                code = _SURROGATES[1] + 1
            return text[:position] + chr(code)
    return None


def _bytes_above(data: bytes, length: int) -> bytes | None:
    if len(data) <= length:
        return data
    for position in range(length - 1, -1, -1):
        if data[position] != 0xFF:
            return data[:position] + bytes([data[position] + 1])
    return None


def simple_stats(types: Sequence[DataType], columns: Sequence[ColumnRange]) -> SimpleStats:
    """Serialize the statistics of columns."""
    nullable = [t.with_nullable(True) for t in types]
    ends = []
    for values in ([c.low for c in columns], [c.high for c in columns]):
        arrays = [_one_row(v, to_arrow_type(t)) for v, t in zip(values, nullable, strict=True)]
        ends.append(encode_rows(arrays, nullable).to_bytes_list(serialized=True)[0] if arrays else bytes(12))
    return SimpleStats(ends[0], ends[1], tuple(c.null_count for c in columns))


def _one_row(value: pa.Scalar | None, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else pa.array([value], kind)
