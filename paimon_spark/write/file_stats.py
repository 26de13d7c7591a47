"""Column statistics of one data file: from the file's footer where it has them, else from the rows as they pass by.

Equals Java's ``ParquetSimpleStatsExtractor``, ``OrcSimpleStatsExtractor`` and, for avro, ``SimpleStatsCollector``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DataField, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.manifest import EMPTY_STATS, SimpleStats
from paimon_spark.spec.stats import (
    NO_STATS,
    SimpleColStats,
    StatsCollector,
    StatsMode,
    convert_stats,
    dense,
    simple_stats,
)

if TYPE_CHECKING:
    from paimon_spark.storage.formats import ColumnStats
    from paimon_spark.write.data_file_spec import DataFileSpec

_FULL = StatsMode.parse("full")
_NONE = StatsMode.parse("none")
_NANOS_TYPES = (TimestampType, LocalZonedTimestampType)


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of one file as its metadata holds them."""

    value_stats: SimpleStats
    value_stats_cols: tuple[str, ...] | None
    key_stats: SimpleStats = EMPTY_STATS


class FileStatsCollector:
    """Collects the statistics of one file while it is written."""

    def __init__(self, spec: DataFileSpec) -> None:
        """Decide for each column where its statistics come from."""
        self._spec = spec
        self._modes = spec.stats_modes
        wanted = [f for f in spec.physical_fields if self._modes[f.name] != _NONE and self._source(f.name) == f.name]
        self._looked_at = [f for f in wanted if spec.file_format != "parquet" or not _in_parquet_footer(f)]
        full = [_FULL] * len(self._looked_at)
        self._rows = StatsCollector(self._looked_at, full, file_format=spec.file_format)

    def _source(self, name: str) -> str:
        """A ``_KEY_*`` column has the values of its value column, whose statistics serve both (if it has any)."""
        if not any(f.name == name for f in self._spec.key_fields):
            return name
        same = self._spec.value_name(name)
        return name if self._modes[same] == _NONE else same

    def add(self, rows: pa.Table) -> None:
        """Look at rows that go to the file (physical columns)."""
        self._rows.add(rows)

    def finish(self, footer: Mapping[str, ColumnStats]) -> FileStats:
        """Statistics of the whole file.

        Args:
            footer: statistics that the file's footer gave for free.
        """
        exact = {name: SimpleColStats(c.min_value, c.max_value, c.null_count) for name, c in footer.items()}
        exact |= {f.name: stats for f, stats in zip(self._looked_at, self._rows.result(), strict=True)}
        spec = self._spec
        kept = {
            f.name: convert_stats(exact.get(self._source(f.name), NO_STATS), self._modes[f.name])
            for f in spec.physical_fields
        }
        fields, values = spec.value_fields, [kept[f.name] for f in spec.value_fields]
        names = None
        if spec.dense_stats:
            value_stats, names = dense(fields, values)
        else:
            value_stats = simple_stats([f.type for f in fields], values)
        if not spec.keyed:
            return FileStats(value_stats, names)
        keys = [kept[spec.value_name(f.name) if spec.thin else f.name] for f in spec.key_fields]
        return FileStats(value_stats, names, simple_stats([f.type for f in spec.key_fields], keys))


def _in_parquet_footer(field: DataField) -> bool:
    """Whether a Parquet footer tells what Java records; not of floats (NaN), binaries (2.1 only) and INT96."""
    kind = to_arrow_type(field.type)
    if isinstance(field.type, _NANOS_TYPES) and field.type.precision > 6:
        return False
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_binary(kind))
