"""Writing manifests, manifest lists and index files; each name is kept, so that a failed commit can delete them.

Equals Java's ``ManifestFile``, ``ManifestList``, ``IndexManifestFile`` and ``CommitCleaner`` (docs/internals/format.md
§3.1, §3.2, §4).

The statistics over the partitions of a manifest's entries equal those of Java's ``ManifestAvroWriter`` with full
statistics per partition column (docs/internals/format.md §13): each entry counts once.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pyarrow as pa

from paimon_spark.spec.avro_codec import RECORDS_PER_BLOCK, encode_index_manifest, encode_manifest, encode_manifest_list
from paimon_spark.spec.avro_container import pack_block, write_packed
from paimon_spark.spec.binary_row_decoder import column_ranks, decode_rows
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.file_names import index_file_names, index_manifest_names, manifest_list_names, manifest_names
from paimon_spark.spec.hashing import encode_hash_index
from paimon_spark.spec.manifest import (
    EMPTY_STATS,
    HASH_INDEX,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.commit.settings import CommitSettings
    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.manifest_raw import RawEntries
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_ARITY_BYTES = 4


def partition_stats(partitions: Sequence[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Return minimum, maximum and null count of each partition column over ``partitions``.

    Args:
        partitions: partition bytes, one per entry.
        types: types of the partition columns; none for an unpartitioned table.
    """
    if not types or not partitions:
        return EMPTY_STATS
    counts = Counter(partitions)
    entries = pa.array(counts.values(), pa.int64())
    lowest, highest, nulls = [], [], []
    for column in decode_rows(list(counts), types, serialized=True):
        known = column.drop_null()
        ranks = column_ranks(known)
        lowest.append(known.slice(int(ranks.argmin()), 1) if len(known) else pa.nulls(1, column.type))
        highest.append(known.slice(int(ranks.argmax()), 1) if len(known) else pa.nulls(1, column.type))
        nulls.append(sum(entries.filter(column.is_null()).to_pylist()))
    nullable = [data_type.with_nullable(True) for data_type in types]
    arity = len(types).to_bytes(_ARITY_BYTES, "big")
    return SimpleStats(
        arity + encode_rows(lowest, nullable).to_bytes_list()[0],
        arity + encode_rows(highest, nullable).to_bytes_list()[0],
        tuple(nulls),
    )


_ROLLING_CHECK_ROWS = 1000
"""Manifests roll at multiples of this number of entries (Java: ``RollingFileWriter.CHECK_ROLLING_RECORD_CNT``)."""


_MOST_BYTES = 64 << 20
"""Manifests also roll before their keys and statistics take more, however well those compress."""
_WRITTEN_AT_ONCE = 8


class _Codec(TypedDict):
    codec: str
    level: int


class _RawManifest:
    """A manifest that is being filled; its full blocks are compressed already."""

    def __init__(self, schema: bytes, codec: _Codec) -> None:
        self.schema = schema
        self._codec = codec
        self._blocks: list[tuple[int, bytes]] = []
        self._open: list[bytes] = []
        self._open_count = 0
        self._numbers: list[dict[str, npt.NDArray[np.int64]]] = []
        self.partitions: list[bytes] = []
        self.size = self.count = self._plain_bytes = 0

    def is_full(self, target_bytes: int) -> bool:
        """Whether the next entry belongs to another file."""
        rolls = self.count % _ROLLING_CHECK_ROWS == 0 and self.size >= target_bytes
        return rolls or self._plain_bytes >= _MOST_BYTES

    def take(self, part: RawEntries, at: int) -> int:
        """Take entries of a part up to the end of a block; return how many."""
        count = min(len(part) - at, RECORDS_PER_BLOCK - self._open_count)
        encoded = part.encoded(at, at + count)
        while count > 1 and len(encoded) > _MOST_BYTES:
            count //= 2
            encoded = part.encoded(at, at + count)
        self._open.append(encoded)
        self._plain_bytes += len(encoded)
        self._open_count += count
        self._numbers.append({name: values[at : at + count] for name, values in part.numbers.items()})
        self.partitions += [identity[0] for identity in part.identities[at : at + count]]
        self.count += count
        if self._open_count == RECORDS_PER_BLOCK:
            self._pack()
        return count

    def _pack(self) -> None:
        packed = pack_block(b"".join(self._open), **self._codec)
        self._blocks.append((self._open_count, packed))
        self.size += len(packed)
        self._open, self._open_count = [], 0

    def numbers(self) -> dict[str, npt.NDArray[np.int64]]:
        """The numbers of all entries."""
        return {name: np.concatenate([part[name] for part in self._numbers]) for name in self._numbers[0]}

    def close(self) -> bytes:
        """The file."""
        if self._open_count:
            self._pack()
        return write_packed(self.schema, self._blocks, self._codec["codec"])


class _FilesAtOnce:
    """Writes small files, several at once where each waits for a remote store."""

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._pool: ThreadPoolExecutor | None = None
        self._begun: deque[tuple[int, Future[None]]] = deque()
        self._begun_bytes = 0

    def write(self, path: str, data: bytes) -> None:
        """Write a new file; on a remote store only begin to, and raise what an earlier one has failed by."""
        if self._file_io.threads == 1:
            self._file_io.write_bytes(path, data, overwrite=False)
            return
        while self._begun and self._begun_bytes + len(data) > _MOST_BYTES:
            self._wait()
        self._pool = self._pool or ThreadPoolExecutor(min(self._file_io.threads, _WRITTEN_AT_ONCE))
        write = self._pool.submit(copy_context().run, self._file_io.write_bytes, path, data, overwrite=False)
        self._begun.append((len(data), write))
        self._begun_bytes += len(data)

    def finish(self) -> None:
        """Wait until all files are written, and raise the first error."""
        while self._begun:
            self._wait()
        self._close()

    def end(self) -> None:
        """Wait until no file is being written any more, whether it was or not."""
        for _, write in self._begun:
            write.exception()
        self._begun.clear()
        self._begun_bytes = 0
        self._close()

    def _wait(self) -> None:
        size, write = self._begun.popleft()
        self._begun_bytes -= size
        write.result()

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class ManifestWriter:
    """Writes the metadata files of one commit, over all its attempts. `finish` is called before they are published."""

    def __init__(self, table: FileStoreTable, settings: CommitSettings) -> None:
        self._table = table
        self._target_size_bytes = settings.manifest_merge.target_size_bytes
        self._codec: _Codec = {"codec": settings.manifest_codec, "level": settings.zstd_level}
        self._partition_types = [field.type for field in table.schema.partition_fields]
        self._manifest_names = manifest_names()
        self._list_names = manifest_list_names()
        self._index_manifest_names = index_manifest_names()
        self._index_names = index_file_names()
        self._created: set[str] = set()
        self._files = _FilesAtOnce(table.file_io)

    def write_manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write ``entries`` in their order, rolling at ``manifest.target-file-size``; no entry, no file."""
        if not entries:
            return []
        parts = list(_bounded(entries))
        if len(parts) > 1:
            return [meta for part in parts for meta in self.write_manifests(part)]
        data = encode_manifest(entries, **self._codec)
        if len(data) >= self._target_size_bytes and len(entries) > _ROLLING_CHECK_ROWS:
            per_file = len(entries) * self._target_size_bytes // len(data)
            per_file = -(-max(per_file, 1) // _ROLLING_CHECK_ROWS) * _ROLLING_CHECK_ROWS
            if per_file < len(entries):
                parts = [entries[start : start + per_file] for start in range(0, len(entries), per_file)]
                return [self._write_manifest(part, encode_manifest(part, **self._codec)) for part in parts]
        return [self._write_manifest(entries, data)]

    def write_raw(self, parts: Iterable[RawEntries]) -> list[ManifestFileMeta]:
        """Write entries in their order as they come, rolling as Java does; no entry, no file."""
        written: list[ManifestFileMeta] = []
        rolling: _RawManifest | None = None
        for part in parts:
            if rolling is not None and rolling.schema != part.schema:
                written.append(self._write_rolled(rolling))
                rolling = None
            at = 0
            while at < len(part):
                rolling = rolling or _RawManifest(part.schema, self._codec)
                at += rolling.take(part, at)
                if rolling.is_full(self._target_size_bytes):
                    written.append(self._write_rolled(rolling))
                    rolling = None
        if rolling is not None:
            written.append(self._write_rolled(rolling))
        return written

    def _write_rolled(self, manifest: _RawManifest) -> ManifestFileMeta:
        data = manifest.close()
        numbers = manifest.numbers()
        adds = int((numbers["_KIND"] == FileKind.ADD).sum())
        first, counts = numbers["_FIRST_ROW_ID"], numbers["_ROW_COUNT"]
        row_ids = bool((first >= 0).all())
        return ManifestFileMeta(
            file_name=self._write(self._table.paths.manifest_path(self._manifest_names.next()), data),
            file_size=len(data),
            num_added_files=adds,
            num_deleted_files=manifest.count - adds,
            partition_stats=partition_stats(manifest.partitions, self._partition_types),
            schema_id=int(numbers["_SCHEMA_ID"].max()),
            min_bucket=int(numbers["_BUCKET"].min()),
            max_bucket=int(numbers["_BUCKET"].max()),
            min_level=int(numbers["_LEVEL"].min()),
            max_level=int(numbers["_LEVEL"].max()),
            min_row_id=int(first.min()) if row_ids else None,
            max_row_id=int((first + counts - 1).max()) if row_ids else None,
        )

    def _write_manifest(self, entries: Sequence[ManifestEntry], data: bytes) -> ManifestFileMeta:
        name = self._write(self._table.paths.manifest_path(self._manifest_names.next()), data)
        files = [entry.file for entry in entries]
        added = sum(entry.kind == FileKind.ADD for entry in entries)
        row_ids = [
            (file.first_row_id, file.first_row_id + file.row_count - 1)
            for file in files
            if file.first_row_id is not None
        ]
        all_have_row_ids = len(row_ids) == len(files)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=partition_stats([entry.partition for entry in entries], self._partition_types),
            schema_id=max(file.schema_id for file in files),
            min_bucket=min(entry.bucket for entry in entries),
            max_bucket=max(entry.bucket for entry in entries),
            min_level=min(file.level for file in files),
            max_level=max(file.level for file in files),
            min_row_id=min(first for first, _ in row_ids) if all_have_row_ids else None,
            max_row_id=max(last for _, last in row_ids) if all_have_row_ids else None,
        )

    def write_list(self, manifests: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list (an empty one is a file too); return its name and size in bytes."""
        data = encode_manifest_list(manifests, **self._codec)
        return self._write(self._table.paths.manifest_path(self._list_names.next()), data), len(data)

    def write_index_manifest(self, entries: Sequence[IndexManifestEntry]) -> str:
        """Write an index manifest; return its name."""
        return self._write(
            self._table.paths.manifest_path(self._index_manifest_names.next()),
            encode_index_manifest(entries, **self._codec),
        )

    def write_hash_index(self, hashes: npt.NDArray[np.int32], partition: bytes, bucket: int) -> tuple[str, int]:
        """Write the HASH index file of a bucket; return its name and size in bytes."""
        data = encode_hash_index(hashes)
        entry = IndexManifestEntry(FileKind.ADD, partition, bucket, HASH_INDEX, self._index_names.next(), len(data), 0)
        return self._write(self._table.paths.index_file_path(entry), data), len(data)

    def _write(self, path: str, data: bytes) -> str:
        self._created.add(path)
        self._files.write(path, data)
        return path.rpartition("/")[2]

    def finish(self) -> None:
        """Wait until all files are written.

        Raises:
            OSError: one could not be.
        """
        self._files.finish()

    def discard(self, *, keep: Collection[str] = ()) -> None:
        """Delete every file written here whose name is not in ``keep``; a file that cannot be deleted is left.

        Only for files that no snapshot can refer to: after a commit that is void, or with all names of the new
        snapshot.
        """
        self._files.end()
        for path in sorted(self._created):
            if path.rpartition("/")[2] not in keep:
                with contextlib.suppress(Exception):  # what cannot be deleted now is an orphan file for later
                    self._table.file_io.delete_quietly(path)
                self._created.discard(path)


def _bounded(entries: Sequence[ManifestEntry]) -> Iterator[Sequence[ManifestEntry]]:
    """The entries in parts of at most about ``_MOST_BYTES``."""
    start = size = 0
    for at, entry in enumerate(entries):
        file = entry.file
        own = len(file.min_key) + len(file.max_key)
        own += sum(len(s.min_values) + len(s.max_values) for s in (file.key_stats, file.value_stats))
        if size + own > _MOST_BYTES and at > start:
            yield entries[start:at]
            start, size = at, 0
        size += own
    yield entries[start:]
