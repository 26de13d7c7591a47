"""Rows that leave a table by their own age (``record-level.expire-time``): compactions drop them, reads show them.

Equals Java's ``RecordLevelExpire`` (docs/internals/format.md §10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.data_types import BigIntType, DataField, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.stats import evolve_stats

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable

_LEAST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on is a number of milliseconds."""


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old. Picklable."""

    field: DataField
    """The column of the time."""
    seconds: int
    """Age from which on a row is dropped."""
    now_seconds: int
    """The clock that the ages are counted to."""

    @classmethod
    def of(cls, table: FileStoreTable) -> RecordExpiry | None:
        """Return the expiry of a table that may be written (`check_writable`), None where its rows do not expire."""
        age: timedelta | None = table.options.value("record-level.expire-time")
        name = table.options.value("record-level.time-field")
        if age is None or name is None:
            return None
        return cls(table.schema.field(name), age // timedelta(seconds=1), int(time.time()))

    def kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not too old; those without a time stay."""
        for batch in batches:
            mask = self.is_kept(batch.column(self.field.name))
            if mask.all():
                yield batch
            elif mask.any():
                yield batch.filter(pa.array(mask))

    def is_kept(self, times: pa.Array) -> npt.NDArray[np.bool_]:
        """Say for each time of the column whether a row with it stays."""
        kept: npt.NDArray[np.bool_] = self._ages(times) <= self.seconds
        kept |= times.is_null().to_numpy(zero_copy_only=False)
        return kept

    def holds_expired(self, table: FileStoreTable) -> Callable[[DataFileMeta], bool]:
        """Return a function that tells whether a file holds rows that are too old, by its statistics; on the driver."""

        def holds(file: DataFileMeta) -> bool:
            bounds = evolve_stats(
                [file.value_stats],
                pa.array([file.row_count], pa.int64()),
                table.schemas.get(file.schema_id).fields,
                [self.field],
                stats_cols=file.value_stats_cols,
                path=file.file_name,
            )
            least = bounds[self.field.name][0] if self.field.name in bounds else None
            return least is not None and not bool(self.is_kept(least)[0])

        return holds

    def _ages(self, times: pa.Array) -> npt.NDArray[np.int64]:
        if isinstance(self.field.type, TimestampType | LocalZonedTimestampType):
            per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[times.type.unit]
            ticks = pc.fill_null(times.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
            seconds = _java_seconds(ticks // max(per_second // 1000, 1), per_second)
        else:
            seconds = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
            if isinstance(self.field.type, BigIntType):
                seconds = np.where(seconds >= _LEAST_MILLIS, seconds // 1000, seconds)
        return self.now_seconds - seconds


def _java_seconds(ticks: npt.NDArray[np.int64], per_second: int) -> npt.NDArray[np.int64]:
    """Whole seconds of milliseconds (or seconds), cut towards zero as Java divides."""
    if per_second == 1:
        return ticks
    return np.where(ticks < 0, -(-ticks // 1000), ticks // 1000)
