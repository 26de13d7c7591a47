"""The deletion vectors of a compaction's buckets: as the snapshot has them, and as each step leaves them.

Equals what Java's ``BucketedDvMaintainer`` does in a compaction: replaced rows are deleted, and a file that goes takes
its vector along. Java 1.4 leaves the vectors where a bucket has files of the highest level only
(``FileRewriteCompactTask``): what it left goes with the next change. Index files of steps in between are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.spec.deletion_vector import positions_of
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, FileKind, IndexManifestEntry
from paimon_spark.table.deletion_vectors import FileKey, Vectors, deleted_rows, vector_locations
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors, delete_index_files

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


class VectorChanges:
    """The vectors of a table while it is compacted; tables without have none."""

    def __init__(self, table: FileStoreTable, snapshot: Snapshot) -> None:
        """Read the index manifest of the snapshot that is compacted."""
        self._table = table
        found = table.manifests.index_entries(snapshot) if table.options.deletion_vectors_enabled else []
        self._before = [entry for entry in found if entry.index_type == DELETION_VECTORS_INDEX]
        self._now = list(self._before)
        self._written: list[IndexManifestEntry] = []
        self.locations: Vectors = vector_locations(table, self._now)
        live = set(table.manifests.live_columns(snapshot).file_names) if self.locations else set()
        self._stale = [key for key in self.locations if key[2] not in live]

    def apply(self, deleted: Sequence[DeletedRows], dropped: Collection[FileKey]) -> None:
        """Mark rows and forget files; writes index files."""
        staying = [rows for rows in deleted if (rows.partition, rows.bucket, rows.file_name) not in dropped]
        dropped = [key for key in dropped if key in self.locations]
        if not staying and not dropped:
            return
        changed = {(rows.partition, rows.bucket) for rows in staying} | {key[:2] for key in dropped}
        dropped += [key for key in self._stale if key[:2] in changed and key in self.locations]
        changes = changed_vectors(self._table, self._now, staying, dropped)
        added = [entry for entry in changes if entry.kind == FileKind.ADD]
        gone = {entry.file_name for entry in changes if entry.kind == FileKind.DELETE}
        self._written += added
        self._now = [entry for entry in self._now if entry.file_name not in gone] + added
        self.locations = vector_locations(self._table, self._now)

    def moved(self, partition: bytes, bucket: int, old: Sequence[DataFileMeta], new: DataFileMeta) -> list[DeletedRows]:
        """Return the deleted rows of a file that holds the rows of others, by row id; none where they have no vector.

        Raises:
            CorruptTableError: an index file is missing or damaged.
        """
        found = []
        for file in old:
            location = self.locations.get((partition, bucket, file.file_name))
            if location is not None:
                positions = positions_of(deleted_rows(self._table.file_io, location, file.row_count), file.row_count)
                found.append(positions + ((file.first_row_id or 0) - (new.first_row_id or 0)))
        if not found:
            return []
        return [DeletedRows(partition, bucket, new.file_name, new.row_count, np.unique(np.concatenate(found)))]

    def changes(self, partition: bytes, bucket: int) -> tuple[IndexManifestEntry, ...]:
        """Return how the commit changes the index files of a bucket: those to delete, then those to add."""
        before, now = (
            {entry.file_name: entry for entry in some if (entry.partition, entry.bucket) == (partition, bucket)}
            for some in (self._before, self._now)
        )
        return (
            *(replace(entry, kind=FileKind.DELETE) for name, entry in before.items() if name not in now),
            *(entry for name, entry in now.items() if name not in before),
        )

    def discard(self, *, superseded: bool) -> None:
        """Delete index files that were written: all of them, or those that a later step has replaced."""
        kept = {entry.file_name for entry in self._now} if superseded else set()
        delete_index_files(self._table, self._unneeded(kept))

    def _unneeded(self, kept: Collection[str]) -> Iterable[IndexManifestEntry]:
        return [entry for entry in self._written if entry.file_name not in kept]


def much_deleted(table: FileStoreTable, files: ManifestColumns, vectors: Vectors) -> npt.NDArray[np.bool_]:
    """Tell of which files a larger share is deleted than ``compaction.delete-ratio-threshold``, or nobody knows."""
    most = float(table.options.value("compaction.delete-ratio-threshold"))
    if not vectors:
        return np.zeros(len(files), dtype=bool)
    keys = zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True)
    locations = map(vectors.get, keys)
    shares = [
        0.0 if location is None else np.inf if location.cardinality is None else location.cardinality
        for location in locations
    ]
    due: npt.NDArray[np.bool_] = np.array(shares) > files.row_counts * most
    return due
