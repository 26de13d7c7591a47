"""The live files of one version in chunks, with their paths: shared by the system tables about files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.spec.binary_row import decode_rows
from paimon_spark.table.system.texts import key_texts, partition_names, partition_texts
from paimon_spark.table.time_travel import travel
from paimon_spark.table.two_branches import partitions_with_files, two_branches

if TYPE_CHECKING:
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.table.data_layout import DataLayout
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.table.two_branches import BranchState

_ARITY_BYTES = 4


class LiveFiles:
    """The live files of one version of one branch, of every level.

    Partitions are numbered in the order in which their first file appears.
    """

    def __init__(self, state: BranchState) -> None:
        self.table, self.snapshot = state
        self.texts: list[str] = []
        """Each partition as ``{2024-01-01, a}``."""
        self.names: list[str] = []
        """Each partition as ``dt=2024-01-01/hh=1``."""
        self._numbers: dict[bytes, int] = {}
        self._directories: dict[tuple[bytes, int], str] = {}

    @property
    def partitions(self) -> list[bytes]:
        """The bytes of each partition."""
        return list(self._numbers)

    def chunks(self) -> Iterator[ManifestColumns]:
        """Yield the files in the order of the manifests, with those of the postpone bucket (``bucket`` = -2)."""
        if self.snapshot is not None:
            yield from self.table.manifests.live_chunks(self.snapshot)

    def chunks_in_buckets(self) -> Iterator[ManifestColumns]:
        """Yield the files without those of the postpone bucket, as in Java."""
        for chunk in self.chunks():
            yield chunk.filter(chunk.buckets >= 0)

    def partition_numbers(self, partitions: Sequence[bytes]) -> list[int]:
        """Number partitions; new ones get their texts and names."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._numbers]
        if new:
            self._numbers |= {partition: len(self._numbers) + i for i, partition in enumerate(new)}
            self.texts += partition_texts(self.table, new).to_pylist()
            self.names += partition_names(self.table, new)
        return [self._numbers[partition] for partition in partitions]

    def by_name(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The rank of each partition's name among all."""
        ranks = np.empty(len(self.names), dtype=np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        return ranks

    def paths(self, files: ManifestColumns) -> list[str]:
        """The path of each file.

        Raises:
            CorruptTableError: a file's name or external path leads out of where the table's files may lie.
        """
        layout = self._layout
        return [
            layout.data_file_path(self._directory(partition, bucket), name, external)
            for partition, bucket, name, external in zip(
                files.partitions,
                files.buckets.tolist(),
                files.file_names,
                files.file_values("_EXTERNAL_PATH"),
                strict=True,
            )
        ]

    def key_texts(self, files: ManifestColumns, key: str) -> pa.Array:
        """Least or greatest keys (``_MIN_KEY``, ``_MAX_KEY``) as ``[1, a]``; null of files without keys."""
        rows = files.file_values(key)
        texts = np.full(len(files), None, dtype=object)
        for schema_id in np.unique(files.schema_ids).tolist():
            schema = self.table.schemas.get(schema_id)
            types = [schema.field(name).type for name in schema.trimmed_primary_keys]
            arity = len(types).to_bytes(_ARITY_BYTES, "big")
            at = [i for i in np.flatnonzero(files.schema_ids == schema_id) if rows[i][:_ARITY_BYTES] == arity]
            if types and at:
                keys = decode_rows([rows[i] for i in at], types, serialized=True)
                texts[at] = key_texts(keys, types, len(at)).to_numpy(zero_copy_only=False)
        return pa.array(texts, pa.string())

    @property
    def _layout(self) -> DataLayout:
        layout = self.table.paths.layout
        assert layout is not None
        return layout

    def _directory(self, partition: bytes, bucket: int) -> str:
        found = self._directories.get((partition, bucket))
        if found is None:
            found = self.table.paths.bucket_dir(self.table.paths.partition_path(partition), bucket)
            self._directories[partition, bucket] = found
        return found


def own_files(table: FileStoreTable) -> LiveFiles:
    """The files of the version that a table's scan options name, of its own branch alone.

    Raises:
        SnapshotNotFoundError: there is no such version.
    """
    return LiveFiles(travel(table))


def partition_sources(table: FileStoreTable) -> list[LiveFiles]:
    """Where a read takes partitions from: a partition that the first has is not taken from the second.

    Raises:
        SnapshotNotFoundError: there is no such version.
        PaimonError: the branches that are read have not the same columns.
    """
    own = travel(table)
    both = two_branches(*own)
    return [LiveFiles(state) for state in ((own,) if both is None else (both.first, both.second))]


def files_shown(table: FileStoreTable) -> Iterator[tuple[LiveFiles, ManifestColumns]]:
    """Yield the files in buckets that tables of files show, some at a time.

    They are those of the partitions that the table's own branch has; where a read takes such a partition from another
    branch that comes first (`scan.primary-branch`), those of that branch, as in Java.

    Raises:
        SnapshotNotFoundError: there is no such version.
        PaimonError: the branches that are read have not the same columns.
    """
    own = travel(table)
    both = two_branches(*own)
    if both is None or both.own_first:
        live = LiveFiles(own)
        for files in live.chunks_in_buckets():
            yield live, files
        return
    mine, theirs = partitions_with_files(both.own), partitions_with_files(both.other)
    for state, wanted in ((both.other, mine & theirs), (both.own, mine - theirs)):
        live = LiveFiles(state)
        for files in live.chunks_in_buckets():
            yield live, files.filter(np.array([partition in wanted for partition in files.partitions], dtype=bool))


def wall_clock(millis: Sequence[int | None] | pa.Array) -> pa.Array:
    """Creation times of files, which are wall clock times already."""
    values = millis if isinstance(millis, pa.Array) else pa.array(millis, pa.int64())
    return values.view(pa.timestamp("ms"))


def epoch_millis(local: datetime | None) -> int | None:
    """Milliseconds since the epoch of a creation time, a wall clock time here."""
    if local is None:
        return None
    return int(local.replace(microsecond=0).timestamp()) * 1000 + local.microsecond // 1000
