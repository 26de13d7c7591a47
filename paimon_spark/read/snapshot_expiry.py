"""Tells a snapshot that expired while it was read from a damaged table: in both a file is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, ExpiredFileError, PaimonError, SnapshotNotFoundError

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


@contextmanager
def snapshot_expiry_errors(table: FileStoreTable, snapshot_id: int) -> Iterator[None]:
    """Raise `SnapshotNotFoundError` where a file is missing because the snapshot that is read has expired.

    Where the snapshot is still there, the table is damaged: `CorruptTableError`.

    Args:
        table: the branch of the read.
        snapshot_id: of the snapshot that is read.
    """
    try:
        yield
    except ExpiredFileError as error:
        if _is_held(table, snapshot_id):
            raise CorruptTableError(str(error), path=error.path) from None
        raise SnapshotNotFoundError(
            f"Snapshot {snapshot_id} of table {table.path} has expired while it was read: {error.path} is deleted. "
            "Run the query again; to read that long, keep snapshots longer (snapshot.time-retained, "
            "snapshot.num-retained.min) or read a tag."
        ) from None


def _is_held(table: FileStoreTable, snapshot_id: int) -> bool:
    """Whether a snapshot file or a tag still holds the snapshot; assumed where that cannot be found out."""
    try:
        return table.snapshots.exists(snapshot_id) or any(
            tag.snapshot.id == snapshot_id for tag in table.tags.list().values()
        )
    except PaimonError:
        return True
