"""The error of a stream whose next snapshot has expired: on the driver, or while a task reads its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.read.snapshot_expiry import snapshot_expiry_errors

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def expired_error(table: FileStoreTable, snapshot_id: int, *, full: bool) -> SnapshotNotFoundError:
    """Return the error that names the options by which a stream keeps its snapshots.

    Args:
        table: of the stream.
        snapshot_id: that was to be read.
        full: whether its state was to be read, not its changes.
    """
    ids = table.snapshots.ids()
    what = "state at" if full else "changes of"
    living = f"{ids[0]} to {ids[-1]}" if ids else "none"
    return SnapshotNotFoundError(
        f"The {what} snapshot {snapshot_id} of table {table.path}, which the stream is to read next, cannot be read "
        f"any more: it has expired. The snapshots are {living}. Option 'consumer-id' = '<a name>' of a stream keeps "
        "the snapshots that it has not read; the table's options 'snapshot.time-retained' and "
        "'snapshot.num-retained.min' keep snapshots longer, 'changelog.time-retained' their changelogs. To go on "
        "without what is lost, start with a new checkpoint directory, with 'scan.mode' = 'latest-full' or with "
        f"'scan.snapshot-id' = '{ids[0] if ids else 1}'."
    )


@contextmanager
def stream_expiry_errors(table: FileStoreTable, snapshot_id: int, *, full: bool) -> Iterator[None]:
    """Raise `expired_error` where a file is missing because the snapshot has expired; arguments as of `expired_error`.

    Raises:
        CorruptTableError: the file is missing although the snapshot is there.
    """
    try:
        with snapshot_expiry_errors(table, snapshot_id):
            yield
    except SnapshotNotFoundError as error:
        raise expired_error(table, snapshot_id, full=full) from error
