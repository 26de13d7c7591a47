"""Column statistics of files: collected from rows, and as the `SimpleStats` record of manifests and back.

Must equal Java's ``SimpleStats``, ``SimpleStatsConverter`` and ``SimpleStatsEvolution``, and give what
``SimpleStatsCollector`` (Avro), ``ParquetSimpleStatsExtractor`` and ``OrcSimpleStatsExtractor`` give for the same rows,
converted by ``TruncateSimpleColStatsCollector`` and its kin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import SlotKind, slot_kind
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.manifest import EMPTY_STATS, SimpleStats

_MAX_CODE_POINT = 0x10FFFF
_MAX_ORC_BYTES = 1024
"""ORC's footer keeps a minimum or maximum string only up to this length."""


@dataclass(frozen=True, slots=True)
class SimpleColStats:
    """Statistics of one column (Java: ``SimpleColStats``).

    Attributes:
        min: least value as a scalar of the column's Arrow type; None if unknown or all values are null.
        max: greatest value, likewise.
        null_count: number of nulls; None if unknown.
    """

    min: pa.Scalar | None
    max: pa.Scalar | None
    null_count: int | None


NO_STATS = SimpleColStats(None, None, None)
"""A column of which nothing is known (Java: ``SimpleColStats.NONE``)."""


class StatsKind(Enum):
    """What a mode keeps."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Value of ``metadata.stats-mode`` or ``fields.<name>.stats-mode``: none, counts, truncate(n) or full."""

    kind: StatsKind
    length: int = 0

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """Parse the option's value.

        Raises:
            OptionError: it is no such mode.
        """
        word = text.strip().lower()
        found = re.fullmatch(r"truncate\((\d{1,9})\)", word)
        if found and int(found.group(1)) > 0:
            return cls(StatsKind.TRUNCATE, int(found.group(1)))
        if word in ("none", "counts", "full"):
            return cls(StatsKind(word))
        raise OptionError(f"Unexpected option: {text!r} is no statistics mode; use none, counts, truncate(n) or full.")


SYSTEM_STATS_MODE = StatsMode(StatsKind.TRUNCATE, 128)
"""Mode of ``_KEY_*`` and other system columns (Java: ``StatsCollectorFactories``)."""


def truncate_upper_text(text: str, length: int) -> str | None:
    """Return a text of at most `length` code points that is not less than `text`; None if there is none."""
    if len(text) <= length:
        return text
    for i in range(length - 1, -1, -1):
        following = ord(text[i]) + 1
        if 0xD800 <= following <= 0xDFFF:  # Java: appends a lone surrogate, which is written as '?'
            following = 0xE000
        if following <= _MAX_CODE_POINT:
            return text[:i] + chr(following)
    return None


def truncate_upper_bytes(data: bytes, length: int) -> bytes | None:
    """Return at most `length` bytes that are not less than `data`; None if there are none."""
    if len(data) <= length:
        return data
    head = data[:length].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def convert_stats(column: SimpleColStats, mode: StatsMode) -> SimpleColStats:
    """Reduce exact statistics to what the mode keeps (Java: ``SimpleColStatsCollector.convert``).

    Args:
        column: exact statistics; `NO_STATS` stays what it is.
        mode: the column's mode.
    """
    if mode.kind is StatsKind.NONE or column == NO_STATS:
        return NO_STATS
    if mode.kind is StatsKind.COUNTS:
        return SimpleColStats(None, None, column.null_count)
    if mode.kind is StatsKind.FULL:
        return column
    if column.max is None:
        return SimpleColStats(None, None, column.null_count)
    low: Any = None if column.min is None else column.min
    high: Any = column.max
    if isinstance(high, pa.StringScalar | pa.BinaryScalar):
        text = isinstance(high, pa.StringScalar)
        upper = (truncate_upper_text if text else truncate_upper_bytes)(high.as_py(), mode.length)
        if upper is None:
            return SimpleColStats(None, None, column.null_count)
        high = pa.scalar(upper, column.max.type)
        low = None if low is None else pa.scalar(low.as_py()[: mode.length], low.type)
    return SimpleColStats(low, high, column.null_count)


class _Column:
    """Exact statistics of one column over the batches seen so far."""

    def __init__(self, data_type: t.DataType, file_format: str, *, counts_only: bool) -> None:
        kind = slot_kind(data_type)
        nanos = isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) and data_type.precision > 6
        self._type = to_arrow_type(data_type)
        self._format = file_format
        self._nested = kind is SlotKind.NESTED or isinstance(data_type, t.BlobType)
        # Java: byte arrays are not compared before 2.1, INT96 never
        self._skip = counts_only or self._nested or kind is SlotKind.BYTES or (nanos and file_format == "parquet")
        self._low: list[pa.Scalar] = []
        self._high: list[pa.Scalar] = []
        self._nulls = 0

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        self._nulls += column.null_count
        if self._skip or column.null_count == len(column):
            return
        column = column if column.type == self._type else column.cast(self._type)
        if pa.types.is_floating(self._type):
            low, high = _float_ends(column.drop_null().to_numpy())
            self._low.append(pa.scalar(low, self._type))
            self._high.append(pa.scalar(high, self._type))
        else:
            ends = pc.min_max(column)
            self._low.append(ends["min"])
            self._high.append(ends["max"])

    def result(self) -> SimpleColStats:
        if self._nested and self._format == "parquet":
            return NO_STATS  # the footer has no statistics of the column as a whole
        if not self._low:
            return SimpleColStats(None, None, self._nulls)
        lows, highs = pa.array(self._low, self._type), pa.array(self._high, self._type)
        if pa.types.is_floating(self._type):
            low, high = _float_ends(lows.to_numpy())[0], _float_ends(highs.to_numpy())[1]
            return SimpleColStats(pa.scalar(low, self._type), pa.scalar(high, self._type), self._nulls)
        bounds = [pc.min(lows), pc.max(highs)]
        if self._format == "orc" and isinstance(bounds[0], pa.StringScalar):
            bounds = [None if bound.as_buffer().size > _MAX_ORC_BYTES else bound for bound in bounds]
        return SimpleColStats(bounds[0], bounds[1], self._nulls)


def _float_ends(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Least and greatest value in Java's order: -0.0 before 0.0, NaN last (Java's ORC: the zero that came first)."""
    nan = np.isnan(values)
    has_nan = bool(nan.any())
    if has_nan:
        values = values[~nan]
        if not len(values):
            return math.nan, math.nan
    low, high = float(values.min()), float(values.max())
    if low == 0 or high == 0:
        negative = np.signbit(values[values == 0])
        low = -0.0 if low == 0 and negative.any() else low + 0.0
        high = -0.0 if high == 0 and negative.all() else high + 0.0
    return low, math.nan if has_nan else high  # Java: ORC's own statistics overlook NaN, which makes its pruning wrong


class StatsCollector:
    """Collects the statistics of one file's columns, batch by batch."""

    def __init__(self, fields: Sequence[t.DataField], modes: Sequence[StatsMode], *, file_format: str) -> None:
        """Prepare for rows.

        Args:
            fields: the file's columns.
            modes: one per column.
            file_format: ``parquet``, ``orc`` or ``avro``: they differ in what they know of nested columns and INT96.
        """
        self._names = [field.name for field in fields]
        self._modes = list(modes)
        self._columns = [
            None
            if mode.kind is StatsKind.NONE
            else _Column(field.type, file_format, counts_only=mode.kind is StatsKind.COUNTS)
            for field, mode in zip(fields, modes, strict=True)
        ]

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Look at rows that go into the file (columns are found by name)."""
        for name, column in zip(self._names, self._columns, strict=True):
            if column is not None:
                column.add(rows.column(name))

    def result(self) -> list[SimpleColStats]:
        """Return the statistics of each column, reduced to what its mode keeps."""
        return [
            NO_STATS if column is None else convert_stats(column.result(), mode)
            for column, mode in zip(self._columns, self._modes, strict=True)
        ]


__all__ = [
    "NO_STATS",
    "Bounds",
    "SimpleColStats",
    "StatsCollector",
    "StatsMode",
    "convert_stats",
    "decode_stats",
    "dense",
    "evolve_stats",
    "keeps_order",
    "simple_stats",
]

Bounds = tuple[pa.Array, pa.Array, pa.Array]
"""Minima, maxima and null counts (int64) of one column, one value per file; null where unknown."""


def simple_stats(types: Sequence[t.DataType], columns: Sequence[SimpleColStats]) -> SimpleStats:
    """Serialize the statistics of all columns (Java: ``SimpleStatsConverter.toBinaryAllMode``).

    For key and partition statistics, and for value statistics without ``metadata.stats-dense-store``.
    """
    if not types:
        return EMPTY_STATS
    bounds = [
        pa.array([column.min, column.max], to_arrow_type(data_type))
        for column, data_type in zip(columns, types, strict=True)
    ]
    minima, maxima = encode_rows(bounds, types).to_bytes_list(serialized=True)
    return SimpleStats(minima, maxima, tuple(column.null_count for column in columns))


def dense(
    fields: Sequence[t.DataField], columns: Sequence[SimpleColStats]
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Serialize the statistics of the columns that have any (Java: ``SimpleStatsConverter.toBinaryDenseMode``).

    Returns:
        The statistics and `DataFileMeta.value_stats_cols`: the names of the columns they cover, None for all.
    """
    kept = [(field, column) for field, column in zip(fields, columns, strict=True) if column != NO_STATS]
    stats = simple_stats([field.type for field, _ in kept], [column for _, column in kept])
    return stats, None if len(kept) == len(fields) else tuple(field.name for field, _ in kept)


def decode_stats(
    stats: Sequence[SimpleStats],
    types: Sequence[t.DataType],
    *,
    fields: Sequence[int] | None = None,
    path: str | None = None,
) -> list[Bounds]:
    """Decode the statistics of many files that cover columns of the same types.

    Args:
        stats: one per file.
        types: of the columns they cover.
        fields: positions of the columns to decode; None for all.
        path: where they come from, for errors.

    Returns:
        The bounds of each wanted column.

    Raises:
        CorruptTableError: a record is damaged or covers other columns.
    """
    wanted = range(len(types)) if fields is None else fields
    if any(len(each.null_counts) != len(types) for each in stats):
        raise CorruptTableError(f"Statistics do not have the {len(types)} null counts they must have.", path=path)
    minima = decode_rows([each.min_values for each in stats], types, serialized=True, fields=wanted, path=path)
    maxima = decode_rows([each.max_values for each in stats], types, serialized=True, fields=wanted, path=path)
    counts = [pa.array([each.null_counts[i] for each in stats], pa.int64()) for i in wanted]
    return list(zip(minima, maxima, counts, strict=True))


def evolve_stats(
    stats: Sequence[SimpleStats],
    row_counts: pa.Array,
    file_fields: Sequence[t.DataField],
    read_fields: Sequence[t.DataField],
    *,
    stats_cols: Sequence[str] | None = None,
    path: str | None = None,
) -> Mapping[str, Bounds]:
    """Decode statistics of files of one schema as those of the columns that are read (Java: ``SimpleStatsEvolution``).

    Columns are matched by field id. A column that the files lack is all null; one without statistics, or whose type
    changed in a way that may change the order of its values, is left out: nothing is known of it.

    Args:
        stats: value (or key) statistics, one per file; all of files with this schema and these `stats_cols`.
        row_counts: rows of each file (int64).
        file_fields: columns of the files' schema that the statistics speak of.
        read_fields: wanted columns of the schema that is read.
        stats_cols: `DataFileMeta.value_stats_cols` of the files: names in the files' schema; None for all columns.
        path: where they come from, for errors.

    Returns:
        The bounds by the name that a column has in `read_fields`.

    Raises:
        CorruptTableError: a record is damaged, or `stats_cols` names a column that the files' schema lacks.
    """
    by_name = {field.name: field for field in file_fields}
    names = list(by_name) if stats_cols is None else list(stats_cols)
    if any(name not in by_name for name in names):
        raise CorruptTableError(
            f"Statistics cover columns {names}, but the schema has only {list(by_name)}.", path=path
        )
    covered = [by_name[name] for name in names]
    positions = {field.id: i for i, field in enumerate(covered)}
    there = {field.id for field in file_fields}
    evolved: dict[str, Bounds] = {}
    wanted = [f for f in read_fields if f.id in positions and keeps_order(covered[positions[f.id]].type, f.type)]
    decoded = decode_stats(stats, [f.type for f in covered], fields=[positions[f.id] for f in wanted], path=path)
    for field, (low, high, nulls) in zip(wanted, decoded, strict=True):
        arrow_type = to_arrow_type(field.type)
        try:
            evolved[field.name] = (low.cast(arrow_type), high.cast(arrow_type), nulls)
        except pa.ArrowInvalid:  # a decimal beyond its precision, which Java writes: nothing is known
            continue
    for field in read_fields:
        if field.id not in there:
            nothing = pa.nulls(len(stats), to_arrow_type(field.type))
            evolved[field.name] = (nothing, nothing, row_counts.cast(pa.int64()))
    return evolved


_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)


def keeps_order(source: t.DataType, target: t.DataType) -> bool:
    """Whether every value of `source` is the same value in `target`, so that statistics stay true after the cast."""
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    match source, target:
        case ((t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType()), _) if isinstance(target, _INTEGERS):
            return _INTEGERS.index(type(source)) <= _INTEGERS.index(type(target))
        case ((t.CharType() | t.VarCharType()), (t.CharType() | t.VarCharType())):
            return source.length <= target.length
        case t.DecimalType(), t.DecimalType():
            return source.scale == target.scale and source.precision <= target.precision
        case t.FloatType(), t.DoubleType():
            return True
        case t.TimestampType(), t.TimestampType():
            return source.precision <= target.precision <= 6  # nanoseconds span fewer years
        case t.LocalZonedTimestampType(), t.LocalZonedTimestampType():
            return source.precision <= target.precision <= 6
    return False
