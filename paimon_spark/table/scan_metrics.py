"""What planning a scan looked at, for whoever shows it (Java: ``ScanMetrics``, ``ScanStats``)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.table.scoped_value import ScopedValue

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestFileMeta


@dataclass(eq=False)
class ScanMetrics:
    """Sums over the snapshots that were looked at."""

    millis: int = 0
    manifests: int = 0
    """Manifests that were read."""
    live_files: int = 0
    """Data files of the snapshots, those included that were left out."""


_METRICS: ScopedValue[ScanMetrics] = ScopedValue("paimon_scan_metrics")


@contextlib.contextmanager
def measured_scan() -> Iterator[ScanMetrics]:
    """Measure the planning inside."""
    metrics, begun = ScanMetrics(), time.monotonic()
    try:
        with _METRICS.bound_to(metrics):
            yield metrics
    finally:
        metrics.millis = round((time.monotonic() - begun) * 1000)


def note_manifests(listed: Sequence[ManifestFileMeta], read: int) -> None:
    """Note the manifests of a snapshot, and how many of them are read."""
    metrics = _METRICS.get()
    if metrics is not None:
        metrics.manifests += read
        metrics.live_files += sum(each.num_added_files - each.num_deleted_files for each in listed)
