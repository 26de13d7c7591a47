"""Rows of append tables that a statement deletes become deletion vectors of one commit. Runs on the driver.

Equals what Java's Spark connector does with ``deletion-vectors.enabled``: DELETE deletes rows, UPDATE the old rows
and adds files with the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paimon_spark.commit.conflict_detection import RowsRead
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.row_counts import RowCounts, report
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.deletion_vector import Positions, decode_vector, encode_vector, positions_of
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors, delete_index_files
from paimon_spark.write.message import CommitMessage, TaskMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

DeletedPositions = tuple[str, bytes]
"""Path of a data file, and positions of deleted rows as `encode_positions` gives them."""


def encode_positions(positions: Positions) -> bytes:
    """Pack positions, ascending and each once, for the way from a task to the driver."""
    return encode_vector(positions, wide=True)[0]


def commit_deletions(
    table: FileStoreTable,
    messages: Sequence[TaskMessage | CommitMessage],
    snapshot_id: int,
    deleted: Sequence[DeletedPositions],
    *,
    columns_read: Iterable[str] | None = None,
    ranges: Sequence[tuple[int, int]] = (),
    after_commit: Callable[[Snapshot], None] | None = None,
    **how: Any,
) -> int | None:
    """Commit deleted rows together with what tasks wrote; index files of a commit that is void are deleted.

    Args:
        table: without primary key, with deletion vectors.
        messages: of the tasks.
        snapshot_id: the snapshot in which the rows were found.
        deleted: the deleted rows; a file may come several times.
        columns_read: with data evolution: columns by which the rows were found; None for all.
        ranges: with data evolution: first row ids and numbers of rows of other files that were read.
        after_commit: as of `commit`.
        how: further arguments of `commit`.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile.
        CommitConflictError: another commit changed the vectors of the same file, or took the file away.
        CorruptTableError: an index file is missing or damaged.
    """
    entries = _deleted_files(table, snapshot_id, deleted)
    rows = _deleted_rows_of(entries, deleted)
    changes = changed_vectors(table, table.manifests.index_entries(table.snapshots.get(snapshot_id)), rows)
    if table.schema.kind.has_data_evolution:
        files = [entry.file for entry in entries.values()]
        known = [(file.first_row_id, file.row_count) for file in files if file.first_row_id is not None]
        how["of_rows"] = RowsRead.of(table.schema, [*known, *ranges], columns_read)
    index = [CommitMessage(changes[-1].partition, changes[-1].bucket, -1, (), index_changes=changes)]
    with undone_where_void(lambda: delete_index_files(table, changes)):
        made = commit(table, [*messages, *index], after_commit=after_commit, **how)
    report(replace(RowCounts.deleted(sum(len(each.positions) for each in rows)), snapshot_id=made))
    return made


def _deleted_files(
    table: FileStoreTable, snapshot_id: int, deleted: Sequence[DeletedPositions]
) -> dict[str, ManifestEntry]:
    names = {path.rpartition("/")[2] for path, _ in deleted}
    live = table.manifests.live_entries(table.snapshots.get(snapshot_id))
    entries = {entry.file.file_name: entry for entry in live if entry.file.file_name in names}
    missing = names - entries.keys()
    if missing:
        raise CommitConflictError(f"Snapshot {snapshot_id} of table {table.path} has no file {min(missing)}.")
    return entries


def _deleted_rows_of(entries: Mapping[str, ManifestEntry], deleted: Sequence[DeletedPositions]) -> list[DeletedRows]:
    parts: dict[str, list[bytes]] = {}
    for path, positions in deleted:
        parts.setdefault(path.rpartition("/")[2], []).append(positions)
    return [_deleted_rows(entries[name], packed) for name, packed in parts.items()]


def _deleted_rows(entry: ManifestEntry, packed: Iterable[bytes]) -> DeletedRows:
    rows, name = entry.file.row_count, entry.file.file_name
    found = [positions_of(decode_vector(data, len(data), rows, path=name), rows) for data in packed]
    positions = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
    return DeletedRows(entry.partition, entry.bucket, name, rows, positions)
