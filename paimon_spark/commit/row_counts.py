"""What the commits of a statement changed: files, for what shows them, and rows, for the statement that began them.

Files: Java's ``CommitMetrics`` and ``CommitStats``. Nothing is read for the numbers of rows: the tasks of a write count
rows by their kinds as they write them, and what finds rows knows how many it has found. Runs on the driver.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakValueDictionary

from paimon_spark.spec.kept_values import ScopedValue
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import CommitKind, Operation, Snapshot
from paimon_spark.spec.special_fields import RowKind

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What a statement did, by the names that Delta Lake has; None where only a read of the table could tell."""

    num_affected_rows: int | None = 0
    """Rows that were inserted, updated or deleted."""
    num_updated_rows: int | None = 0
    num_deleted_rows: int | None = 0
    num_inserted_rows: int | None = 0
    """In tables with a primary key these are rows as they were written, before they are merged with others."""
    snapshot_id: int | None = None
    """The new snapshot; None where nothing was committed, or another process has committed it."""

    @classmethod
    def inserted(cls, rows: int | None) -> RowCounts:
        """The counts of a statement that only adds rows."""
        return cls(rows, num_inserted_rows=rows)

    @classmethod
    def updated(cls, rows: int | None) -> RowCounts:
        """The counts of a statement that only updates rows."""
        return cls(rows, num_updated_rows=rows)

    @classmethod
    def deleted(cls, rows: int | None) -> RowCounts:
        """The counts of a statement that only deletes rows."""
        return cls(rows, num_deleted_rows=rows)

    @classmethod
    def changed(cls, *, updated: int, deleted: int, inserted: int) -> RowCounts:
        """The counts of a statement that may do all three."""
        return cls(updated + deleted + inserted, updated, deleted, inserted)

    def as_upsert(self) -> RowCounts:
        """The same of rows of which only a read could show whether their keys were there."""
        return replace(self, num_updated_rows=None, num_inserted_rows=None)


@dataclass(eq=False)
class ReportedCounts:
    """The last report."""

    counts: RowCounts = RowCounts()
    name: str = field(default_factory=lambda: uuid4().hex)
    """By which another thread of this process finds it."""


_REPORTED: ScopedValue[ReportedCounts] = ScopedValue("paimon_row_counts")
_BY_NAME: WeakValueDictionary[str, ReportedCounts] = WeakValueDictionary()


@contextlib.contextmanager
def counting() -> Iterator[ReportedCounts]:
    """Collect the report of the statement inside. Of two, one inside of the other, the inner one gets it."""
    reported = ReportedCounts()
    _BY_NAME[reported.name] = reported
    with _REPORTED.bound_to(reported):
        yield reported


@contextlib.contextmanager
def reporting_to(name: str | None) -> Iterator[None]:
    """Let the statement of that `ReportedCounts.name` get the reports inside, in any thread; None changes nothing.

    Spark calls back in threads of its own.
    """
    reported = None if name is None else _BY_NAME.get(name)
    if reported is None:
        yield
        return
    with _REPORTED.bound_to(reported):
        yield


def report(counts: RowCounts) -> None:
    """Report what a statement has done, once that is committed. The last report counts: who knows more comes later."""
    reported = _REPORTED.get()
    if reported is not None:
        reported.counts = replace(counts, snapshot_id=counts.snapshot_id or reported.counts.snapshot_id)


def report_upsert() -> None:
    """Report that rows were written of which only a read could show whether their keys were there."""
    reported = _REPORTED.get()
    if reported is not None:
        reported.counts = reported.counts.as_upsert()


def report_written(
    table: FileStoreTable, messages: Sequence[TaskMessage], operation: str | None, snapshot_id: int | None
) -> None:
    """Report what the tasks of a write were given, row kind by row kind.

    Cross-partition updates delete rows in the old partitions, which cannot be distinguished from the others.
    """
    if _REPORTED.get() is None:
        return
    by_kind = [sum(counts) for counts in zip(*(message.by_kind for message in messages), strict=True)] or [0] * 4
    inserted, updated, deleted = (by_kind[kind] for kind in (RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE))
    counts = RowCounts.changed(updated=updated, deleted=deleted, inserted=inserted)
    if deleted and table.schema.kind.updates_across_partitions and operation != Operation.DELETE.value:
        known = operation != Operation.MERGE.value
        counts = replace(counts, num_deleted_rows=None, num_affected_rows=updated + inserted if known else None)
    report(replace(counts, snapshot_id=snapshot_id))


def report_dropped(table: FileStoreTable, snapshot_id: int | None) -> None:
    """Report how many rows went with whole partitions, or with all of the table: what its snapshot says.

    With a primary key, or with deletion vectors, the files had rows that no read would have shown.
    """
    if _REPORTED.get() is None:
        return
    count: int | None = 0
    if snapshot_id is not None:
        counted = not table.schema.kind.is_keyed and not table.options.deletion_vectors_enabled
        count = -(table.snapshots.get(snapshot_id).delta_record_count or 0) if counted else None
    report(replace(RowCounts.deleted(count), snapshot_id=snapshot_id))


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
