"""Letting the earliest snapshot be one behind a gap (Java: ``SnapshotManager.repairEarliestSnapshot``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def repair_earliest_snapshot(table: FileStoreTable, snapshot_id: int) -> int:
    """Write a snapshot into the hint EARLIEST; return the id that was the earliest before.

    For tables in whose snapshots a file is missing: readers then begin behind the gap. No file is deleted.

    Args:
        table: the branch.
        snapshot_id: the earliest one, or the first behind a gap; all snapshots from it on must be there.

    Raises:
        OptionError: the snapshot cannot be the earliest one.
        StorageError: the hint could not be written.
    """
    ids = table.snapshots.ids()
    previous = table.snapshots.earliest_id()
    if previous is None:
        raise OptionError(f"Cannot repair earliest snapshot for an empty table: {table.path} has no snapshot.")
    latest = ids[-1]
    if snapshot_id < previous:
        raise OptionError(f"Snapshot {snapshot_id} must not be earlier than current earliest snapshot {previous}.")
    if snapshot_id > latest:
        raise OptionError(f"Snapshot {snapshot_id} must not be later than latest snapshot {latest}.")
    there = frozenset(ids)
    missing = next((number for number in range(snapshot_id, latest + 1) if number not in there), None)
    if missing is not None:
        raise OptionError(f"Snapshot {missing} does not exist.")
    if snapshot_id != previous and snapshot_id - 1 in there:
        raise OptionError(f"Snapshot {snapshot_id} does not immediately follow a snapshot gap.")
    table.file_io.write_bytes(table.paths.earliest_hint_path, str(snapshot_id).encode("ascii"), overwrite=True)
    return previous
