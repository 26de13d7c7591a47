"""The consumers of one branch: named readers with the snapshot that each reads next, how they are reset and expired.

Equals Java's ``ConsumerManager`` and ``Consumer`` (docs/internals/format.md §9): one file ``consumer/consumer-<id>``
each. A snapshot that a consumer has not read yet is kept from expiry.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SnapshotNotFoundError
from paimon_spark.spec.file_names import CONSUMER_PREFIX
from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json
from paimon_spark.spec.sql_text import NamePatterns
from paimon_spark.table.paths import LONGEST_FILE_PART, is_plain_name, why_no_new_name

if TYPE_CHECKING:
    from paimon_spark.storage.directory_entries import FileStatus
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.paths import TablePaths
    from paimon_spark.table.table import FileStoreTable


class ConsumerStore:
    """Looks up, resets and deletes the consumers of one branch. Nothing is cached."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def statuses(self) -> dict[str, FileStatus]:
        """Return the files of the consumers by consumer id, sorted."""
        listed = self._file_io.list_names(self._paths.consumer_dir)
        found = {
            entry.name[len(CONSUMER_PREFIX) :]: entry
            for entry in listed
            if not entry.is_dir and entry.name.startswith(CONSUMER_PREFIX) and entry.name != CONSUMER_PREFIX
        }
        return dict(sorted(found.items()))

    def get(self, consumer_id: str) -> int | None:
        """Return the id of the snapshot that a consumer reads next, None when there is no such consumer.

        Raises:
            CorruptTableError: its file cannot be read.
        """
        path = self._path(consumer_id)
        try:
            data = self._file_io.read_bytes(path)
        except FileNotFoundError:
            return None
        return JsonFields(parse_json_object(data, what="consumer", path=path), "consumer", path).integer("nextSnapshot")

    def list(self) -> dict[str, int]:
        """Return the snapshot that each consumer reads next, by consumer id, sorted.

        Raises:
            CorruptTableError: a file of a consumer cannot be read.
        """
        found = {consumer_id: self.get(consumer_id) for consumer_id in self.statuses()}
        return {consumer_id: snapshot for consumer_id, snapshot in found.items() if snapshot is not None}

    def min_next_snapshot(self) -> int | None:
        """Return the earliest snapshot that a consumer still has to read, None without consumers."""
        return min(self.list().values(), default=None)

    def reset(self, consumer_id: str, next_snapshot_id: int) -> None:
        """Let a consumer, a new one if need be, read a snapshot next."""
        reason = why_no_new_name(consumer_id, longest_bytes=LONGEST_FILE_PART)
        if reason is not None:
            raise PaimonError(f"Consumer id '{consumer_id[:LONGEST_FILE_PART]}' is not allowed: {reason}.")
        data = pretty_json({"nextSnapshot": next_snapshot_id}).encode()
        self._file_io.write_bytes(self._path(consumer_id), data, overwrite=True)

    def delete(self, consumer_id: str) -> None:
        """Delete a consumer; one that is not there is no error."""
        if not self._file_io.delete_quietly(self._path(consumer_id)):
            self._file_io.check_deletes(self._path(consumer_id))
            raise PaimonError(
                f"Consumer '{consumer_id}' could not be deleted: the file {self._path(consumer_id)} is still there. "
                "See that its directory can be written."
            )

    def _path(self, consumer_id: str) -> str:
        if not is_plain_name(consumer_id):
            raise PaimonError(f"Consumer id '{consumer_id}' is not allowed: it must not be blank nor hold a slash.")
        return f"{self._paths.consumer_dir}/{CONSUMER_PREFIX}{consumer_id}"


def reset_consumer(table: FileStoreTable, consumer_id: str, next_snapshot_id: int | None = None) -> None:
    """Set the snapshot that a consumer reads next; without a snapshot, delete the consumer.

    Raises:
        SnapshotNotFoundError: there is no such snapshot.
        PaimonError: the consumer's id cannot be a file's name.
    """
    store = ConsumerStore(table.file_io, table.paths)
    if next_snapshot_id is None:
        store.delete(consumer_id)
        return
    if not table.snapshots.exists(next_snapshot_id):
        ids = table.snapshots.ids()
        living = f"the snapshots are {ids[0]} to {ids[-1]}" if ids else "the table has no snapshot"
        raise SnapshotNotFoundError(
            f"Consumer '{consumer_id}' cannot read snapshot {next_snapshot_id} next, which does not exist: {living}."
        )
    store.reset(consumer_id, next_snapshot_id)


def clear_consumers(table: FileStoreTable, *, including: str | None = None, excluding: str | None = None) -> list[str]:
    """Delete consumers; return their ids.

    Args:
        table: the branch.
        including: a regular expression that the whole id matches; all of them when not given.
        excluding: consumers whose whole id matches this one stay.

    Raises:
        OptionError: one of them is no regular expression.
    """
    store = ConsumerStore(table.file_io, table.paths)
    patterns = NamePatterns.of(including, excluding)
    cleared = [consumer_id for consumer_id in store.statuses() if patterns.match(consumer_id)]
    for consumer_id in cleared:
        store.delete(consumer_id)
    return cleared


def expire_consumers(table: FileStoreTable, age: timedelta) -> list[str]:
    """Delete the consumers whose files have not changed for a time; return their ids."""
    store = ConsumerStore(table.file_io, table.paths)
    before = time.time_ns() // 1_000_000 - age // timedelta(milliseconds=1)
    expired = [consumer_id for consumer_id, status in store.statuses().items() if 0 < status.mtime_millis < before]
    for consumer_id in expired:
        store.delete(consumer_id)
    return expired
