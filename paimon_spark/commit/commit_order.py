"""The order of commits, stamped on files of level 0 whose rows may have the sequence numbers of a rival's rows.

A write takes its sequence numbers behind those of the snapshot on which it was planned. Two writers that did not see
each other take the same ones, and of two rows with one key and one number the row of the newer file is the newer one.
So the creation time of a file is raised above that of each file of level 0 that others have committed to the same
bucket since the plan: reads and compactions then put them in the order of their commits, whatever the clocks say. Java
has no such order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.spec.manifest import FileKind, ManifestEntry
from paimon_spark.table.partitions import range_predicate

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable


class CommitOrder:
    """The files of level 0 that came after the plan of a commit, each snapshot looked at once for all attempts."""

    def __init__(self, table: FileStoreTable, planned_on: SnapshotIdentity, files: Iterable[ManifestEntry]) -> None:
        """Look at nothing yet.

        Args:
            table: to commit to.
            planned_on: the latest snapshot when the sequence numbers of the write were taken.
            files: of the commit.
        """
        self._table = table
        self._read_to = planned_on.id
        self._oldest: dict[tuple[bytes, int], int] = {}
        """Of each bucket the oldest creation time of the commit's own files."""
        for entry in files if table.schema.kind.is_keyed else ():
            if _is_new_at_level_0(entry):
                bucket, millis = (entry.partition, entry.bucket), entry.file.creation_time_millis or 0
                self._oldest[bucket] = min(self._oldest.get(bucket, millis), millis)
        self._newest = dict.fromkeys(self._oldest, 0)
        """Of each bucket the newest creation time of the others' files."""

    def stamped(self, files: tuple[ManifestEntry, ...], latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Return the files with creation times that follow those of all files that were committed since the plan.

        Those of one bucket are raised by as much, and so keep their own order.
        """
        if latest is None or not self._newest:
            return files
        for snapshot_id in range(self._read_to + 1, latest.id + 1):
            self._look_at(snapshot_id)
        self._read_to = max(self._read_to, latest.id)
        return tuple(map(self._stamped, files))

    def _look_at(self, snapshot_id: int) -> None:
        manifests = self._table.manifests
        try:
            snapshot = self._table.snapshots.get(snapshot_id)
        except SnapshotNotFoundError:  # expired: the write took longer than snapshots are kept
            return
        within = range_predicate(self._table, frozenset(partition for partition, _ in self._newest))
        added = manifests.prune_manifests(manifests.delta_manifests(snapshot), within)
        for part in manifests.read_columns(added, statistics=False):
            buckets = zip(part.partitions, part.buckets.tolist(), strict=True)
            facts = zip(part.kinds.tolist(), part.levels.tolist(), part.file_values("_CREATION_TIME"), strict=True)
            for bucket, (kind, level, millis) in zip(buckets, facts, strict=True):
                if bucket in self._newest and kind == FileKind.ADD and level == 0 and millis is not None:
                    self._newest[bucket] = max(self._newest[bucket], millis)

    def _stamped(self, entry: ManifestEntry) -> ManifestEntry:
        if not _is_new_at_level_0(entry):
            return entry
        bucket = (entry.partition, entry.bucket)
        late = self._newest[bucket] + 1 - self._oldest[bucket]
        if late <= 0:
            return entry
        millis = (entry.file.creation_time_millis or 0) + late
        return replace(entry, file=replace(entry.file, creation_time_millis=millis))


def _is_new_at_level_0(entry: ManifestEntry) -> bool:
    return entry.kind == FileKind.ADD and entry.file.level == 0
