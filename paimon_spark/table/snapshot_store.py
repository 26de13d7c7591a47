"""The snapshot files of one branch and their hints.

Equals Java's ``SnapshotManager`` and ``HintFileUtils`` (docs/format.md §2): a hint may lie or be missing, the directory
decides.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, SnapshotNotFoundError
from paimon_spark.spec.file_names import SNAPSHOT_PREFIX, numbered_name_id
from paimon_spark.spec.snapshot import Snapshot

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.paths import TablePaths

_MAX_HINT_BYTES = 32


class SnapshotStore:
    """Looks up the snapshots of one branch. Nothing is cached: another writer may commit or expire at any time."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def ids(self) -> list[int]:
        """Return the ids of all living snapshots, ascending."""
        listed = self._file_io.list_names(self._paths.snapshot_dir)
        found = [numbered_name_id(entry.name, SNAPSHOT_PREFIX) for entry in listed if not entry.is_dir]
        return sorted(snapshot_id for snapshot_id in found if snapshot_id is not None)

    def exists(self, snapshot_id: int) -> bool:
        """Tell whether the snapshot lives."""
        return self._file_io.exists(self._paths.snapshot_path(snapshot_id))

    def latest_id(self) -> int | None:
        """Return the highest snapshot id, None when nothing was committed.

        The hint is taken only if the snapshot it names exists and the next one does not.
        """
        hint = self._read_hint(self._paths.latest_hint_path)
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint
        ids = self.ids()
        return ids[-1] if ids else None

    def earliest_id(self) -> int | None:
        """Return the lowest snapshot id, None when there is none; the hint is taken only if its snapshot exists."""
        hint = self._read_hint(self._paths.earliest_hint_path)
        if hint is not None and self.exists(hint) and not (hint > 1 and self.exists(hint - 1)):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot, None when nothing was committed."""
        snapshot_id = self.latest_id()
        return None if snapshot_id is None else self.get(snapshot_id)

    def get(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot ``snapshot_id``.

        Raises:
            SnapshotNotFoundError: it does not exist (any more); the message names the range that does.
            CorruptTableError: its file cannot be read as a snapshot.
        """
        path = self._paths.snapshot_path(snapshot_id)
        try:
            data = self._file_io.read_bytes(path)
        except FileNotFoundError as error:
            raise SnapshotNotFoundError(self._missing(snapshot_id)) from error
        snapshot = Snapshot.from_json(data, path=path)
        if snapshot.id != snapshot_id:
            raise CorruptTableError(f"Snapshot file {path} holds the snapshot id {snapshot.id}.", path=path)
        return snapshot

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the LATEST hint; a failure is no error, since a hint is only a hint."""
        self._write_hint(self._paths.latest_hint_path, snapshot_id)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the EARLIEST hint; a failure is no error, since a hint is only a hint."""
        self._write_hint(self._paths.earliest_hint_path, snapshot_id)

    def _write_hint(self, path: str, snapshot_id: int) -> None:
        with contextlib.suppress(OSError):
            self._file_io.write_bytes(path, str(snapshot_id).encode("ascii"), overwrite=True)

    def _read_hint(self, path: str) -> int | None:
        try:
            text = self._file_io.read_bytes(path)[:_MAX_HINT_BYTES].strip()
        except OSError:
            return None
        return int(text) if text.isdigit() and int(text) > 0 else None

    def _missing(self, snapshot_id: int) -> str:
        ids = self.ids()
        if not ids:
            return f"Snapshot {snapshot_id} does not exist: table {self._paths.branch_root} has no snapshot yet."
        return (
            f"The specified scan snapshotId {snapshot_id} is out of available snapshotId range [{ids[0]}, {ids[-1]}] "
            f"of table {self._paths.branch_root}."
        )
