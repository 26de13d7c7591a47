"""Column statistics of one data file: from the file's footer where it has them, else from the rows as they pass by.

Equals Java's ``ParquetSimpleStatsExtractor``, ``OrcSimpleStatsExtractor`` and, for avro, ``SimpleStatsCollector``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import (
    ArrayType,
    BlobType,
    DataField,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from paimon_spark.spec.stats import EMPTY_STATS, SimpleStats
from paimon_spark.write.column_range import NONE, ColumnRange, simple_stats, truncated

if TYPE_CHECKING:
    from paimon_spark.storage.formats import ColumnStats
    from paimon_spark.write.data_file_spec import DataFileSpec

_WITHOUT_ORDER = (ArrayType, BlobType, MapType, MultisetType, RowType, VariantType, VectorType)


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
        names = {f.name for f in spec.physical_fields}
        self._same = {f.name: spec.value_name(f.name) for f in spec.key_fields if f.name in names}
        wanted = [f for f in spec.physical_fields if spec.stats_modes[f.name].lower() != "none"]
        self._columns = [_RowStats(f, spec.file_format) for f in wanted if self._source(f.name) == f.name]

    def _source(self, name: str) -> str:
        """A ``_KEY_*`` column holds the same values as its value column, unless that has no statistics."""
        same = self._same.get(name)
        return name if same is None or self._spec.stats_modes[same].lower() == "none" else same

    def add(self, rows: pa.Table) -> None:
        """Look at rows that go to the file (physical columns)."""
        for column in self._columns:
            column.add(rows.column(column.field.name))

    def finish(self, footer: Mapping[str, ColumnStats]) -> FileStats:
        """Statistics of the whole file.

        Args:
            footer: statistics that the file's footer gave for free.
        """
        whole = {column.field.name: column.finish(footer.get(column.field.name)) for column in self._columns}
        spec = self._spec
        ranges = {
            f.name: truncated(whole.get(self._source(f.name), NONE), spec.stats_modes[f.name])
            for f in spec.physical_fields
        }
        values = list(spec.value_fields)
        names = None
        if spec.dense_stats:
            values = [f for f in values if ranges[f.name] != NONE]
            names = None if len(values) == len(spec.value_fields) else tuple(f.name for f in values)
        value_stats = simple_stats([f.type for f in values], [ranges[f.name] for f in values])
        if not spec.keyed:
            return FileStats(value_stats, names)
        key_names = [spec.value_name(f.name) if spec.thin else f.name for f in spec.key_fields]
        key_stats = simple_stats([f.type for f in spec.key_fields], [ranges[name] for name in key_names])
        return FileStats(value_stats, names, key_stats)


class _RowStats:
    """One column: null count and, if the footer will not tell, minimum and maximum of the rows seen so far."""

    def __init__(self, field: DataField, file_format: str) -> None:
        self.field = field
        self._parquet = file_format == "parquet"
        self._ordered = not isinstance(field.type, _WITHOUT_ORDER)
        self._arrow_type = to_arrow_type(field.type)
        self._floating = bool(pa.types.is_floating(self._arrow_type))
        self._look = self._ordered and (not self._parquet or self._floating)
        self._low: list[pa.Scalar] = []
        self._high: list[pa.Scalar] = []
        self._nulls = 0

    def add(self, column: pa.ChunkedArray) -> None:
        self._nulls += column.null_count
        if self._look and column.null_count < len(column):
            low, high = _floating_range(column) if self._floating else _range(column)
            self._low.append(low)
            self._high.append(high)

    def finish(self, footer: ColumnStats | None) -> ColumnRange:
        if not self._ordered and self._parquet:
            return NONE  # Parquet has no statistics of nested columns at all; ORC and avro count their nulls
        if self._low:
            of_all = _floating_range if self._floating else _range
            low, _ = of_all(pa.chunked_array([pa.array(self._low, self._arrow_type)]))
            _, high = of_all(pa.chunked_array([pa.array(self._high, self._arrow_type)]))
            return ColumnRange(low, high, self._nulls)
        if footer is None or not self._ordered or self._floating:
            return ColumnRange(None, None, self._nulls)
        return ColumnRange(footer.min_value, footer.max_value, self._nulls)


def _range(column: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
    both = pc.min_max(column)
    return both["min"], both["max"]


def _floating_range(column: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
    """Minimum and maximum in Java's order: -0.0 before 0.0, NaN after everything."""
    values = column.drop_null().to_numpy()
    nan = np.isnan(values)
    numbers = values[~nan] if nan.any() else values
    low = high = np.nan
    if len(numbers):
        low, high = numbers.min(), numbers.max()
        if low == 0:
            low = -0.0 if np.signbit(numbers[numbers == 0]).any() else 0.0
        if high == 0:
            high = -0.0 if np.signbit(numbers[numbers == 0]).all() else 0.0
    if len(numbers) < len(values):
        high = np.nan
    return pa.scalar(low, column.type), pa.scalar(high, column.type)
