"""What a statement's commits changed, for whoever shows it (Java: ``CommitMetrics``, ``CommitStats``)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.scoped_value import ScopedValue

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry


@dataclass(eq=False)
class CommitMetrics:
    """Files of the snapshots of one statement. Those of a compaction that follows a write are not counted."""

    snapshot_id: int | None = None
    added_files: int = 0
    added_bytes: int = 0
    added_rows: int = 0
    deleted_files: int = 0
    changelog_rows: int = 0
    buckets: set[tuple[bytes, int]] = field(default_factory=set)
    """Partition and bucket of each file that was added."""
    millis: int = 0
    """What their commits took, without the writing of data files."""

    @property
    def partitions(self) -> int:
        """Partitions that got files."""
        return len({partition for partition, _ in self.buckets})

    def add(self, snapshot: Snapshot, files: Sequence[ManifestEntry], seconds: float) -> None:
        """Take in a snapshot that was published."""
        if snapshot.commit_kind is CommitKind.COMPACT:
            return
        self.snapshot_id = snapshot.id
        self.millis += round(seconds * 1000)
        added = [entry for entry in files if entry.kind == FileKind.ADD]
        self.added_files += len(added)
        self.added_bytes += sum(entry.file.file_size for entry in added)
        self.added_rows += sum(entry.file.row_count for entry in added)
        self.deleted_files += len(files) - len(added)
        self.changelog_rows += snapshot.changelog_record_count or 0
        self.buckets.update((entry.partition, entry.bucket) for entry in added)


_METRICS: ScopedValue[CommitMetrics] = ScopedValue("paimon_commit_metrics")


def measured_commits() -> AbstractContextManager[CommitMetrics]:
    """Measure the commits inside."""
    return _METRICS.bound_to(CommitMetrics())


def note_commit(snapshot: Snapshot, files: Sequence[ManifestEntry], begun: float) -> None:
    """Note a snapshot that was published.

    Args:
        snapshot: what was published.
        files: that it adds and deletes.
        begun: when its commit began, as of `time.monotonic`.
    """
    metrics = _METRICS.get()
    if metrics is not None:
        metrics.add(snapshot, files, time.monotonic() - begun)
