"""Which snapshot something was planned on. The id alone is not enough: a rollback gives it to another snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.snapshot_store import SnapshotStore


@dataclass(frozen=True, slots=True)
class SnapshotIdentity:
    """One snapshot of one table, distinct from every other with its id. Plain values, picklable."""

    id: int = 0
    """0 stands for a table without snapshots."""
    name: str = ""
    """Unique names: its uuid, which old snapshots lack, and its delta manifest list."""
    schema_id: int = field(default=0, compare=False)
    """The table's schema when it was made."""

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> SnapshotIdentity:
        """Return the identity of a snapshot; None is the state before the first one."""
        if snapshot is None:
            return cls()
        return cls(snapshot.id, f"{snapshot.uuid or ''}/{snapshot.delta_manifest_list}", snapshot.schema_id)

    def find(self, snapshots: SnapshotStore) -> Snapshot | None:
        """Return the snapshot; None for the state before the first one.

        Raises:
            SnapshotNotFoundError: it has expired, or was rolled back (another one may have its id).
        """
        if not self.id:
            return None
        found = snapshots.get(self.id)
        if SnapshotIdentity.of(found) != self:
            raise SnapshotNotFoundError(
                f"Snapshot {self.id} is not the one that was there before: the table was rolled back, restored or made "
                f"anew meanwhile."
            )
        return found

    def later(self, snapshots: SnapshotStore) -> Iterator[Snapshot]:
        """Yield the living snapshots after this one, the newest first; all of them where this one does not live.

        Raises:
            CorruptTableError: a snapshot cannot be read.
        """
        for snapshot in snapshots.newest_first():
            if SnapshotIdentity.of(snapshot) == self:
                return
            yield snapshot
