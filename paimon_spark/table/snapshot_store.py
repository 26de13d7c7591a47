"""The snapshot files of one branch and their hints.

Equals Java's ``SnapshotManager`` and ``HintFileUtils`` (docs/internals/format.md §2): a hint may be wrong or missing;
the directory decides. With one exception: LATEST is written after its snapshot and moved back before the snapshot is
deleted. So if neither that snapshot nor a later one exists, a commit is lost; unless a rollback deleted it, which notes
that in `ROLLED_BACK` (Java: has no such file), and the hint came after it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from paimon_spark.errors import CorruptTableError, ExpiredFileError, SnapshotNotFoundError, TableNotFoundError
from paimon_spark.spec.file_names import EARLIEST_HINT, LATEST_HINT, SNAPSHOT_PREFIX, numbered_name_id
from paimon_spark.spec.kept_values import DecodedOnce
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paimon_spark.storage.file_io import FileIO, FileStatus
    from paimon_spark.table.paths import TablePaths

ROLLED_BACK = "ROLLED-BACK"
"""A file alongside the hints: the snapshot that the last rollback left as the latest, and the last one it deleted."""

_MAX_HINT_BYTES = 32
_MAX_ROLLBACK_BYTES = 256
_MOST_ROLLBACKS = 4
"""Rollbacks at once of which each is known, even where one ends while another is at work."""
_HINT_ATTEMPTS = 5
_HINT_PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0)
_SETTLE_PAUSE_SECONDS = 0.03
_VANISHING_SECONDS = 10.0
_MOST_LISTED = 200
_LONG: set[str] = set()
"""Directories that had more names when this process listed them: they are not listed for the latest snapshot again."""
_KNOWN_LOST: set[tuple[str, int]] = set()
"""Snapshots of which this process has waited long enough: the directory and the id."""
_SNAPSHOTS = DecodedOnce[Snapshot]()
_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class SnapshotStore:
    """Looks up the snapshots of one branch. Nothing is cached: another writer may commit or expire at any time."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        server = None if file_io.publisher is None else file_io.publisher.server
        self._server = server if server is not None and server.keeps_snapshots else None
        """Who has the latest snapshot in place of the files; None where they have."""
        self._limits = server if server is not None and server.is_governed and self._server is None else None
        """Who may hide rows of a table whose files have the latest snapshot; a server that has it says so itself."""

    def ids(self) -> list[int]:
        """Return the ids of all living snapshots, ascending."""
        listed = self._file_io.list_names(self._paths.snapshot_dir)
        found = [numbered_name_id(entry.name, SNAPSHOT_PREFIX) for entry in listed if not entry.is_dir]
        return sorted(snapshot_id for snapshot_id in found if snapshot_id is not None)

    def few_are_whole(self, most: int) -> bool:
        """Return whether no more than so many snapshots live, without a gap, and LATEST is there: one listing.

        EARLIEST is written then, if it is not there.
        """
        names = {entry.name for entry in self._file_io.list_names(self._paths.snapshot_dir) if not entry.is_dir}
        ids = [found for name in names if (found := numbered_name_id(name, SNAPSHOT_PREFIX)) is not None]
        if not 0 < len(ids) <= most or max(ids) - min(ids) >= len(ids) or LATEST_HINT not in names:
            return False
        if EARLIEST_HINT not in names:
            self.write_earliest_hint(min(ids))
        return True

    def newest_first(self) -> Iterator[Snapshot]:
        """Yield the living snapshots, the newest first; those that expire meanwhile are passed over.

        Raises:
            CorruptTableError: a snapshot cannot be read.
        """
        for snapshot_id in reversed(self.ids()):
            found = self.find(snapshot_id)
            if found is not None:
                yield found

    def missing_ranges(self) -> list[tuple[int, int]]:
        """Return the first and the last id of each gap between living snapshots: the files of a gap are lost."""
        ids = self.ids()
        return [(low + 1, high - 1) for low, high in pairwise(ids) if high > low + 1]

    def exists(self, snapshot_id: int) -> bool:
        """Return whether the snapshot lives."""
        return self._file_io.file_exists(self._paths.snapshot_path(snapshot_id))

    def latest_id(self) -> int | None:
        """Return the highest snapshot id, None when nothing was committed.

        The hint is taken only if the snapshot it names exists and the next one does not. Where that snapshot is lost,
        the log says so (Java: fails).

        Raises:
            TableNotFoundError: the table has no schemas either: it was dropped.
            CorruptTableError: all snapshots are lost.
        """
        if self._server is not None:
            latest = self._server.latest(self._paths.branch)
            return None if latest is None else latest.id
        self._check_limits()
        listed, is_sure = self._listed() if self._is_listed else (None, False)
        return self._latest_id_unlisted(is_empty=is_sure) if listed is None else listed.id

    def _latest_id_unlisted(self, *, is_empty: bool) -> int | None:
        """As `latest_id`; ``is_empty``: a listing has shown that there is no snapshot."""
        found, lost = (None, None) if is_empty else self._look()
        if found is None:
            self.check_table_there()
        if lost is not None:
            if found is None:
                raise self._lost_error(lost, found, "There is nothing to read")
            _warn_once(
                f"{self._paths.snapshot_path(lost)} is missing, although LATEST names it: what was committed after "
                f"snapshot {found} is not read."
            )
        return found

    def _check_limits(self) -> None:
        if self._limits is not None:
            self._limits.check_free_of_limits()

    def lost_id(self) -> int | None:
        """Return the id that LATEST names although neither it nor a later snapshot is there; None nearly always."""
        return None if self._server is not None else self._look()[1]

    def check_not_lost(self, not_done: str) -> None:
        """Check that the latest snapshot is there.

        Args:
            not_done: what is not done, for the message (``Nothing is deleted``).

        Raises:
            CorruptTableError: it is lost; the message names the missing file and how to decide what is to be done.
        """
        if self._server is not None:
            return
        found, lost = self._look()
        if lost is not None:
            raise self._lost_error(lost, found, not_done)

    def give_up_lost(self) -> None:
        """Accept that the snapshots after the last existing one are lost: LATEST names an existing snapshot again."""
        ids = self.ids()
        if ids:
            self.write_latest_hint(ids[-1])
        else:
            self._file_io.delete_quietly(self._paths.latest_hint_path)

    def _hinted(self) -> tuple[Snapshot | None, bool]:
        """Read the snapshot that LATEST names; None where it is not there, or the next one is.

        Also return whether it is sure that this is the latest, and None that there is none.
        """
        if self._is_listed:
            return self._listed()
        hint = self._read_hint(self._paths.latest_hint_path)
        found = None if hint is None or self.exists(hint + 1) else self.find(hint)
        return found, found is not None

    @property
    def _is_listed(self) -> bool:
        """Whether one listing says which snapshot is the latest, and what of it was read before."""
        return self._file_io.lists_versions and self._paths.snapshot_dir not in _LONG

    def _listed(self) -> tuple[Snapshot | None, bool]:
        """As `_hinted`, by one listing: what it shows unchanged is not read again."""
        entries = {entry.name: entry for entry in self._file_io.list_names(self._paths.snapshot_dir)}
        if len(entries) > _MOST_LISTED:
            _LONG.add(self._paths.snapshot_dir)
        latest = entries.get(LATEST_HINT)
        if latest is None and all(numbered_name_id(name, SNAPSHOT_PREFIX) is None for name in entries):
            return None, True
        hint = None if latest is None else self._read_hint(self._paths.latest_hint_path, latest)
        if hint is None or f"{SNAPSHOT_PREFIX}{hint + 1}" in entries or f"{SNAPSHOT_PREFIX}{hint}" not in entries:
            return None, False
        found = self.find(hint, entries[f"{SNAPSHOT_PREFIX}{hint}"])
        return found, found is not None

    def _look(self) -> tuple[int | None, int | None]:
        """The highest snapshot id, and the id of the latest snapshot if that is lost.

        A commit that is slow writes its hint after a rollback has deleted its snapshot, then finds that and writes
        another one (`announce`). So a hint is believed only when it stays.
        """
        found, lost = self._look_once()
        for pause in _HINT_PAUSES_SECONDS:
            if lost is None or (self._paths.snapshot_dir, lost) in _KNOWN_LOST:
                return found, lost
            time.sleep(pause)
            found, lost = self._look_once()
        if lost is not None:
            _KNOWN_LOST.add((self._paths.snapshot_dir, lost))
        return found, lost

    def _look_once(self) -> tuple[int | None, int | None]:
        hint = self._read_hint(self._paths.latest_hint_path)
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint, None
        ids = self.ids()
        if ids and (hint is None or hint <= ids[-1]):
            return ids[-1], None
        if hint is not None and self._read_hint(self._paths.latest_hint_path) != hint:
            return self._look_once()  # a rollback has moved it meanwhile
        if ids and hint is not None and self._is_rolled_back(ids[-1], hint):
            return ids[-1], None
        return ids[-1] if ids else None, hint

    def _is_rolled_back(self, latest: int, hint: int) -> bool:
        """Whether a rollback to ``latest`` deleted the snapshot of a hint that a slower commit wrote after it."""
        return hint <= self._rolled_back_from(latest)

    def _rolled_back_from(self, kept_id: int) -> int:
        """Return the last snapshot that a late rollback to ``kept_id`` deleted; 0 if none of them went there."""
        return self._rollbacks().get(kept_id, 0)

    def _rollbacks(self) -> dict[int, int]:
        """Return the late rollbacks, the last first: the snapshot to which one went, the last one that it deleted."""
        try:
            numbers = self._file_io.read_bytes(self._rolled_back_path)[:_MAX_ROLLBACK_BYTES].split()
        except OSError:
            return {}
        if len(numbers) % 2 or not all(number.isdigit() for number in numbers):
            return {}
        return dict(zip(map(int, numbers[::2]), map(int, numbers[1::2]), strict=True))

    def _note_rollbacks(self, rollbacks: Mapping[int, int]) -> None:
        text = "\n".join(f"{kept_id} {newest_id}" for kept_id, newest_id in list(rollbacks.items())[:_MOST_ROLLBACKS])
        self._file_io.write_bytes(self._rolled_back_path, text.encode("ascii"), overwrite=True)

    @property
    def _rolled_back_path(self) -> str:
        return f"{self._paths.snapshot_dir}/{ROLLED_BACK}"

    def check_table_there(self) -> None:
        """Check that the table still exists: a table without snapshots looks like a dropped one. No cache keeps that.

        Raises:
            TableNotFoundError: the table has no schemas any more.
        """
        if not self._file_io.exists(self._paths.schema_dir):
            forget(self._paths.root)
            raise TableNotFoundError(f"There is no Paimon table at {self._paths.branch_root} any more: it was dropped.")

    def _lost_error(self, lost: int, found: int | None, not_done: str) -> CorruptTableError:
        path, branch = self._paths.snapshot_path(lost), self._paths.branch
        name = self._paths.root if branch == MAIN_BRANCH else f"{self._paths.root}$branch_{branch}"
        left = "no snapshot is left" if found is None else f"the latest one that is left is snapshot {found}"
        return CorruptTableError(
            f"{path} is missing, although LATEST names it: a commit is lost, {left}. {not_done} before somebody "
            "decides. Restore the file; or give that commit up, with the argument accept_lost_snapshot of any method "
            f"that deletes: CALL sys.rollback(table => '{name}', version => '{found or 1}', accept_lost_snapshot => "
            f"true), PaimonTable.rollback_to(snapshot_id={found or 1}, accept_lost_snapshot=True).",
            path=path,
        )

    def earliest_id(self) -> int | None:
        """Return the lowest snapshot id, None when there is none; the hint is taken only if its snapshot exists."""
        hint = self.earliest_by_hint()
        if hint is not None:
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def earliest_by_hint(self, most: int | None = None) -> int | None:
        """Return the lowest snapshot id if the hint names it; None where it does not, or names one above ``most``."""
        hint = self._read_hint(self._paths.earliest_hint_path)
        if hint is None or (most is not None and hint > most):
            return None
        return hint if self.exists(hint) and not (hint > 1 and self.exists(hint - 1)) else None

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot, None when nothing was committed; raises as `latest_id` and `get`."""
        if self._server is not None:
            return self._server.latest(self._paths.branch)
        self._check_limits()
        hinted, is_sure = self._hinted()
        if hinted is not None:
            return hinted
        snapshot_id = self._latest_id_unlisted(is_empty=is_sure)
        return None if snapshot_id is None else self.get(snapshot_id)

    def latest_to_follow(self, is_settled: Callable[[Snapshot, float], bool] = lambda _, __: True) -> Snapshot | None:
        """Return the snapshot that a commit would follow, None when it would be the first.

        Args:
            is_settled: asked about a snapshot that LATEST does not name, with the seconds since the first question;
                where it says no, the answer is looked for again.

        Raises:
            TableNotFoundError: the table was dropped.
            CorruptTableError: the latest snapshot is lost, so that the commit would take its id.
        """
        if self._server is not None:
            return self._server.latest(self._paths.branch)
        begun = None
        while True:
            hinted, is_sure = self._hinted()
            if hinted is not None:
                return hinted
            latest_id, lost = (None, None) if is_sure else self._look()
            if latest_id is None:
                self.check_table_there()
            if lost is not None:
                raise self._lost_error(lost, latest_id, "Nothing is committed")
            if latest_id is None:
                return None
            found = self.find(latest_id)
            begun = time.monotonic() if begun is None else begun
            if found is not None and is_settled(found, time.monotonic() - begun):
                return found
            if found is None and time.monotonic() - begun > _VANISHING_SECONDS:
                return self.get(latest_id)
            time.sleep(_SETTLE_PAUSE_SECONDS)

    def read_latest(self, read: Callable[[Snapshot | None], _Result]) -> _Result:
        """Return what ``read`` makes of the snapshot that a commit would follow; again where that expires meanwhile.

        Args:
            read: reads files of the snapshot that it is given (None: there is none yet), and changes nothing.

        Raises:
            ExpiredFileError: a file is missing that the latest snapshot needs.
            TableNotFoundError, CorruptTableError: as `latest_to_follow`.
        """
        while True:
            snapshot = self.latest_to_follow()
            try:
                return read(snapshot)
            except ExpiredFileError:
                if snapshot is None or not self.is_overtaken(snapshot):
                    raise

    def is_overtaken(self, snapshot: Snapshot) -> bool:
        """Whether there is a later snapshot now, so that an expiry may delete files of this one."""
        return (self.latest_id() or 0) > snapshot.id

    def find(self, snapshot_id: int, entry: FileStatus | None = None) -> Snapshot | None:
        """Return the snapshot ``snapshot_id``, None where its file is not there: one read.

        Args:
            snapshot_id: of the snapshot.
            entry: what a listing that was just made says of its file.

        Raises:
            CorruptTableError: its file cannot be read as a snapshot, or is that of another one.
        """
        path = self._paths.snapshot_path(snapshot_id)
        try:
            data = self._read(path, entry)
        except FileNotFoundError:
            return None
        snapshot = _SNAPSHOTS.find(data) or _SNAPSHOTS.keep(data, Snapshot.from_json(data, path=path))
        if snapshot.id != snapshot_id:
            raise CorruptTableError(f"Snapshot file {path} holds the snapshot id {snapshot.id}.", path=path)
        return snapshot

    def get(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot ``snapshot_id``.

        Raises:
            SnapshotNotFoundError: it does not exist (any more); the message names the range that does.
            CorruptTableError: its file cannot be read as a snapshot, or is that of another one.
        """
        found = self.find(snapshot_id)
        if found is None:
            raise SnapshotNotFoundError(self._missing(snapshot_id))
        return found

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the LATEST hint; a failure is no error, since a hint is only a hint."""
        self._write_hint(self._paths.latest_hint_path, snapshot_id)

    def announce(self, snapshot_id: int) -> None:
        """Write the LATEST hint of a snapshot that was just published; called once per commit.

        Where a rollback has deleted the snapshot meanwhile, the hint names the latest one that is left.
        """
        self.write_latest_hint(snapshot_id)
        for _ in range(_HINT_ATTEMPTS):
            if self.exists(snapshot_id):
                return
            ids = self.ids()
            if not ids:
                self._file_io.delete_quietly(self._paths.latest_hint_path)
                return
            if ids[-1] > snapshot_id:
                return  # it follows what was rolled back; its own commit withdraws it, or names it
            snapshot_id = ids[-1]
            self.write_latest_hint(snapshot_id)

    def take_back(self, kept_id: int, newest_id: int, *, later_id: int | None = None) -> None:
        """Let LATEST name an older snapshot, before those after it are deleted.

        Args:
            kept_id: the latest snapshot from then on.
            newest_id: the last of the snapshots that will be deleted.
            later_id: the latest snapshot when all is done, if it is another one (fast-forward).

        Raises:
            OSError: LATEST could not be written, or another writer has written it meanwhile; nothing may be deleted.
        """
        hint = self._paths.latest_hint_path
        final = later_id or kept_id
        others = self._rollbacks()
        newest = max(newest_id, final, others.pop(final, 0))  # a rollback that was stopped is run again
        try:
            self._note_rollbacks({final: newest, **others})
            self._file_io.write_bytes(hint, str(kept_id).encode("ascii"), overwrite=True)
            found = self._read_hint(hint)
            if found != kept_id or final not in self._rollbacks():
                raise OSError(f"{hint} names snapshot {found} after {kept_id} was written into it")
        except OSError:
            self._file_io.delete_quietly(self._rolled_back_path)
            if others:
                with contextlib.suppress(OSError):
                    self._note_rollbacks(others)
            raise

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the EARLIEST hint; a failure is no error, since a hint is only a hint."""
        self._write_hint(self._paths.earliest_hint_path, snapshot_id)

    def _write_hint(self, path: str, snapshot_id: int) -> None:
        with contextlib.suppress(OSError):
            self._file_io.write_bytes(path, str(snapshot_id).encode("ascii"), overwrite=True)

    def _read(self, path: str, entry: FileStatus | None) -> bytes:
        return self._file_io.read_bytes(path) if entry is None else self._file_io.read_listed(path, entry)

    def _read_hint(self, path: str, entry: FileStatus | None = None) -> int | None:
        try:
            text = self._read(path, entry)[:_MAX_HINT_BYTES].strip()
        except OSError:
            return None
        return int(text) if text.isdigit() and int(text) > 0 else None

    def _missing(self, snapshot_id: int) -> str:
        ids = self.ids()
        if not ids and not self._file_io.exists(self._paths.schema_dir):
            return f"Snapshot {snapshot_id} does not exist: table {self._paths.branch_root} was dropped."
        if not ids:
            return f"Snapshot {snapshot_id} does not exist: table {self._paths.branch_root} has no snapshot yet."
        if ids[0] < snapshot_id < ids[-1]:
            return (
                f"Snapshot {snapshot_id} of table {self._paths.branch_root} is missing, although snapshots {ids[0]} to "
                f"{ids[-1]} live: its file {self._paths.snapshot_path(snapshot_id)} is lost. Restore it, or read "
                "another snapshot; the others are whole without it."
            )
        return (
            f"The specified scan snapshotId {snapshot_id} is out of available snapshotId range [{ids[0]}, {ids[-1]}] "
            f"of table {self._paths.branch_root}."
        )


@lru_cache(maxsize=1000)
def _warn_once(text: str) -> None:
    """Warn of something once in this process: a query looks for the latest snapshot several times."""
    _LOG.warning(text)
