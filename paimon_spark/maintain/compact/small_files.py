"""Partitions of tables without buckets that have small files enough to be joined: Java's ``AppendCompactCoordinator``.

Looked for after each write. So what a manifest says of small files is kept in this process: manifests never change, and
each is decoded once. It only decides whether a compaction is tried, which reads the manifests itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.commit.partition_ranges import range_predicate
from paimon_spark.maintain.compact.step import size_tier, small_file_bytes
from paimon_spark.spec.manifest_columns import Identity, ManifestColumns

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestFileMeta
    from paimon_spark.table.table import FileStoreTable

MOST_ENTRIES = 10_000
"""Entries of the newest manifests in which small files are counted."""
_MOST_KEPT = 20_000
"""Files of which this process remembers what manifests say: about 10 MB."""


@dataclass(frozen=True, slots=True)
class _SmallFiles:
    """What one manifest says."""

    added: Mapping[Identity, tuple[bytes, int]]
    """Partition and bytes of each small file."""
    deleted: frozenset[Identity]

    def __len__(self) -> int:
        return len(self.added) + len(self.deleted) + 1

    @staticmethod
    def of(columns: ManifestColumns, small_bytes: int) -> _SmallFiles:
        small = columns.take(np.flatnonzero((columns.kinds == 0) & (columns.file_sizes < small_bytes)))
        found = zip(small.identities(), zip(small.partitions, small.file_sizes.tolist(), strict=True), strict=True)
        return _SmallFiles(dict(found), frozenset(columns.deleted()))


class KeptSmallFiles:
    """What manifests say, by their path and the bytes below which a file is small; the oldest goes first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], _SmallFiles] = {}
        self._size = 0

    def get(self, key: tuple[str, int]) -> _SmallFiles | None:
        """Return what a manifest says; None where that is not known."""
        return self._kept.get(key)

    def put(self, key: tuple[str, int], found: _SmallFiles) -> None:
        """Keep what a manifest says, which nobody has kept."""
        self._kept[key] = found
        self._size += len(found)
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was quicker
            while len(self._kept) > 1 and self._size > _MOST_KEPT:
                self._size -= len(self._kept.pop(next(iter(self._kept))))


_KNOWN = KeptSmallFiles()


def partitions_to_join(table: FileStoreTable, partitions: Collection[bytes]) -> set[bytes]:
    """Return those of the partitions in which the newest manifests have small files enough to be joined.

    Args:
        table: without buckets, as it was written, with dynamic options.
        partitions: serialized, those of the write.

    Raises:
        CorruptTableError: a manifest cannot be read.
    """
    snapshot = table.snapshots.latest_to_follow()
    if snapshot is None:
        return set()
    newest: list[ManifestFileMeta] = []
    store, count = table.manifests, 0
    for meta in reversed(store.prune_manifests(store.data_manifests(snapshot), range_predicate(table, partitions))):
        count += meta.num_added_files + meta.num_deleted_files
        if newest and count > MOST_ENTRIES:
            break
        newest.append(meta)
    options = table.options
    small_bytes = small_file_bytes(options, keyed=False)
    parts = [_known(table, meta, small_bytes) for meta in newest]
    deleted = frozenset[Identity]().union(*(part.deleted for part in parts))
    counts, sizes = Counter[tuple[bytes, int]](), Counter[tuple[bytes, int]]()
    for part in parts:
        for identity, (partition, size) in part.added.items():
            if identity not in deleted:
                tier = partition, size_tier(options, size)
                counts[tier] += 1
                sizes[tier] += size + options.split_open_file_cost_bytes
    least, enough = max(2, int(options.value("compaction.min.file-num"))), 2 * options.target_file_size_bytes(False)
    due = {tier[0] for tier, count in counts.items() if count >= least or (count > 1 and sizes[tier] >= enough)}
    return due & set(partitions)


def _known(table: FileStoreTable, meta: ManifestFileMeta, small_bytes: int) -> _SmallFiles:
    key = table.paths.manifest_path(meta.file_name), small_bytes
    found = _KNOWN.get(key)
    if found is None:
        columns = ManifestColumns.concat(list(table.manifests.read_columns([meta], statistics=False)))
        found = _SmallFiles.of(columns, small_bytes)
        _KNOWN.put(key, found)
    return found
