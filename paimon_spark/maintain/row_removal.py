"""Files of append tables are written anew without some of their rows: those that a statement takes out.

The rows are told by file and position, as for deletion vectors; what becomes of them is written by the statement.
Equals the end of Java's copy-on-write commands. Runs on the driver; tasks rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CommitConflictError
from paimon_spark.maintain.compact.compaction import Executor, rewrite_here
from paimon_spark.maintain.compact.rewrite import Rewrite
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.deletion_vector import Positions, decode_vector, encode_vector, positions_of
from paimon_spark.spec.manifest import FileSource
from paimon_spark.spec.schema import BucketMode
from paimon_spark.table.deletion_vectors import VectorPlace
from paimon_spark.write.message import CommitMessage, TaskMessage

if TYPE_CHECKING:
    from paimon_spark.maintain.row_marks import MarkedFile
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class RowsOfFile:
    """Some rows of one data file."""

    entry: ManifestEntry
    positions: Positions
    repeated: bool
    """Whether one of them was told more than once."""


def rows_of_files(table: FileStoreTable, snapshot: Snapshot, marked: Sequence[MarkedFile]) -> list[RowsOfFile]:
    """Put together the rows that tasks have told, file by file.

    Args:
        table: without primary key.
        snapshot: the one in which the rows were found.
        marked: a file may come several times.

    Raises:
        CommitConflictError: the snapshot has no such file.
    """
    parts: dict[str, list[bytes]] = {}
    for path, packed in marked:
        parts.setdefault(path.rpartition("/")[2], []).append(packed)
    live = table.manifests.live_entries(snapshot)
    entries = {entry.file.file_name: entry for entry in live if entry.file.file_name in parts}
    missing = parts.keys() - entries.keys()
    if missing:
        raise CommitConflictError(f"Snapshot {snapshot.id} of table {table.path} has no file {min(missing)}.")
    return [_rows_of_file(entries[name], packed) for name, packed in parts.items()]


def _rows_of_file(entry: ManifestEntry, parts: Iterable[bytes]) -> RowsOfFile:
    rows, name = entry.file.row_count, entry.file.file_name
    found = [positions_of(decode_vector(data, len(data), rows, path=name), rows) for data in parts]
    positions = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
    return RowsOfFile(entry, positions, repeated=len(positions) < sum(map(len, found)))


def write_without(
    table: FileStoreTable, removed: Sequence[RowsOfFile], execute: Executor = rewrite_here
) -> TaskMessage:
    """Write files anew without some of their rows; return the files that come and go.

    Args:
        table: without primary key and deletion vectors.
        removed: the rows, at most once for each file.
        execute: does the rewriting.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    places: dict[tuple[bytes, int, int], list[RowsOfFile]] = {}
    for rows in removed:
        places.setdefault((rows.entry.partition, rows.entry.bucket, rows.entry.total_buckets), []).append(rows)
    units = [(place, pack) for place, found in places.items() for pack in _packs(table, found)]
    rewrites = [_rewrite(table, pack) for _, pack in units]
    made: Mapping[int, CommitMessage] = {
        at: CommitMessage(*units[at][0], tuple(replace(file, file_source=FileSource.APPEND) for file in result.files))
        for at, result in enumerate(execute(table, rewrites))
    }
    gone = [
        CommitMessage(*place, new_files=(), deleted_files=tuple(rows.entry.file for rows in found))
        for place, found in places.items()
    ]
    kept = sum(file.row_count for message in made.values() for file in message.new_files)
    return TaskMessage((*made.values(), *gone), kept)


def _packs(table: FileStoreTable, files: Sequence[RowsOfFile]) -> list[list[RowsOfFile]]:
    """Put files together up to the target size; those of which no row stays are left out."""
    target = table.options.target_file_size_bytes(False)
    packs: list[list[RowsOfFile]] = []
    size = target
    for rows in sorted(files, key=lambda rows: rows.entry.file.min_sequence_number):
        if len(rows.positions) == rows.entry.file.row_count:
            continue
        if size + rows.entry.file.file_size > target:
            packs.append([])
            size = 0
        packs[-1].append(rows)
        size += rows.entry.file.file_size
    return packs


def _rewrite(table: FileStoreTable, pack: Sequence[RowsOfFile]) -> Rewrite:
    entry = pack[0].entry
    counts = table.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE
    return Rewrite(
        entry.partition,
        entry.bucket,
        0,
        tuple((_file_without(table, rows),) for rows in pack),
        first_sequence=entry.file.min_sequence_number if counts else 0,
    )


def _file_without(table: FileStoreTable, rows: RowsOfFile) -> SplitFile:
    entry = rows.entry
    data, length = encode_vector(rows.positions, wide=True)
    path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
    vector = VectorPlace(path, 0, length, len(rows.positions), data)
    return SplitFile.of(entry.file, path)._replace(deletion_vector=vector)
