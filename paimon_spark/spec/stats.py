"""Column statistics of files: columns to the `SimpleStats` record of manifests and back.

Must equal Java's ``SimpleStats``, ``SimpleStatsConverter`` and ``SimpleStatsEvolution``. Collecting them from rows is
`stats_collect`'s task, whose names are re-exported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.data_types import (
    BigIntType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TinyIntType,
    VarCharType,
)
from paimon_spark.spec.simple_stats import EMPTY_SERIALIZED_ROW, EMPTY_STATS, SimpleStats
from paimon_spark.spec.stats_collect import (
    NO_STATS,
    SimpleColStats,
    StatsCollector,
    StatsMode,
    collect_stats,
    convert_stats,
)

__all__ = [
    "EMPTY_SERIALIZED_ROW",
    "EMPTY_STATS",
    "NO_STATS",
    "Bounds",
    "SimpleColStats",
    "SimpleStats",
    "StatsCollector",
    "StatsMode",
    "collect_stats",
    "convert_stats",
    "decode_stats",
    "dense",
    "evolve_stats",
    "keeps_order",
    "simple_stats",
]

Bounds = tuple[pa.Array, pa.Array, pa.Array]
"""Minima, maxima and null counts (int64) of one column, one value per file; null where unknown."""


def simple_stats(types: Sequence[DataType], columns: Sequence[SimpleColStats]) -> SimpleStats:
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


def dense(fields: Sequence[DataField], columns: Sequence[SimpleColStats]) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Serialize the statistics of the columns that have any (Java: ``SimpleStatsConverter.toBinaryDenseMode``).

    Returns:
        The statistics and `DataFileMeta.value_stats_cols`: the names of the columns they cover, None for all.
    """
    kept = [(field, column) for field, column in zip(fields, columns, strict=True) if column != NO_STATS]
    stats = simple_stats([field.type for field, _ in kept], [column for _, column in kept])
    return stats, None if len(kept) == len(fields) else tuple(field.name for field, _ in kept)


def decode_stats(
    stats: Sequence[SimpleStats],
    types: Sequence[DataType],
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
    file_fields: Sequence[DataField],
    read_fields: Sequence[DataField],
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


_INTEGERS = (TinyIntType, SmallIntType, IntType, BigIntType)


def keeps_order(source: DataType, target: DataType) -> bool:
    """Whether every value of `source` is the same value in `target`, so that statistics stay true after the cast."""
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    match source, target:
        case ((TinyIntType() | SmallIntType() | IntType() | BigIntType()), _) if isinstance(target, _INTEGERS):
            return _INTEGERS.index(type(source)) <= _INTEGERS.index(type(target))
        case ((CharType() | VarCharType()), (CharType() | VarCharType())):
            return source.length <= target.length
        case DecimalType(), DecimalType():
            return source.scale == target.scale and source.precision <= target.precision
        case FloatType(), DoubleType():
            return True
        case TimestampType(), TimestampType():
            return source.precision <= target.precision <= 6  # nanoseconds span fewer years
        case LocalZonedTimestampType(), LocalZonedTimestampType():
            return source.precision <= target.precision <= 6
    return False
