"""Manifest lists, manifests and index manifests of a snapshot, and the files that live in it.

Equals Java's ``ManifestList``, ``ManifestFile``, ``ManifestsReader`` and
``AbstractFileStoreScan.readAndMergeFileEntries``: deletes of all manifests first, then the adds that none of them
names, in the order of the manifests.

Manifests by the row ids of their files, in tables where the rows of each file follow each other (data evolution).

Reading many small files of one table: several at once from a remote store, and decoded together.

What planning a scan looked at, for whoever shows it (Java: ``ScanMetrics``, ``ScanStats``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, tee
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from paimon_spark.errors import ExpiredFileError
from paimon_spark.spec import avro_codec
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.kept_values import ScopedValue
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.manifest_columns import Identity, ManifestColumns
from paimon_spark.spec.manifest_raw import RawEntries, decode_raw
from paimon_spark.spec.predicate import evaluate
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.special_fields import ROW_ID
from paimon_spark.table.metadata_checks import (
    check_kinds,
    check_list_size,
    check_manifest,
    check_manifest_size,
    check_none_revived,
    check_once,
    checked_changes,
    checked_kinds,
    checked_manifests,
    checked_rows,
    may_repeat,
)

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest import FileChange, IndexManifestEntry, ManifestEntry, ManifestFileMeta, RecordedFile
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.paths import TablePaths

FileFilter = Callable[[ManifestColumns], ManifestColumns]
"""Drops entries that a read does not need, never a DELETE."""

_DECODED_AT_ONCE = 16 << 20
_JUDGED_AT_ONCE = 20_000
_ARITY_BYTES = 4

_Decoded = TypeVar("_Decoded")
_FILES_AT_ONCE = 1024
_BYTES_AT_ONCE = 8 << 20


class ManifestStore:
    """Reads the metadata files of one table, each time it is asked."""

    def __init__(self, file_io: FileIO, paths: TablePaths, schema: TableSchema) -> None:
        self._file_io = file_io
        self._paths = paths
        self._rows_are_counted = schema.options.get("data-evolution.enabled", "").lower() != "true"
        self._partition_fields: tuple[DataField, ...] = tuple(schema.field(name) for name in schema.partition_keys)

    def manifest_list(self, name: str, size: int | None = None) -> list[ManifestFileMeta]:
        """Return the manifests that the manifest list ``name`` names.

        Args:
            name: of the file.
            size: its bytes as the snapshot says; None where it does not say.

        Raises:
            CorruptTableError: the file is missing or cannot be read.
        """
        path = self._paths.manifest_path(name)
        data = self._read(path, "Manifest list")
        check_list_size(path, data, size)
        return avro_codec.decode_manifest_list(data, path=path)

    def manifests_of(self, listed: RecordedFile) -> list[RecordedFile]:
        """Return the manifests that a manifest list names, without their statistics.

        Raises:
            CorruptTableError: the file is missing, cannot be read, or is another than its snapshot says.
        """
        path = self._paths.manifest_path(listed.name)
        data = self._read(path, "Manifest list")
        check_list_size(path, data, listed.size)
        return avro_codec.decode_recorded_manifests(data, path=path)

    def files_of(self, manifests: Iterable[RecordedFile]) -> Iterator[list[FileChange] | None]:
        """Yield which files the entries of many manifests are about, None for those that are missing.

        Some are read ahead.

        Raises:
            CorruptTableError: a manifest cannot be read, or is another than its manifest list says.
        """
        wanted, recorded = tee(manifests)
        found = decode_ahead(
            self._file_io, self._located(wanted), check_manifest_size, avro_codec.decode_manifest_files
        )
        for (path, each), changes in zip(self._located(recorded), found, strict=True):
            yield None if changes is None else checked_changes(path, changes, each)

    def manifests_of_lists(self, lists: Iterable[RecordedFile]) -> Iterator[list[RecordedFile] | None]:
        """Yield the manifests that each of many manifest lists names, None for lists that are missing.

        Raises:
            CorruptTableError: a list cannot be read, or is another than its snapshot says.
        """
        return decode_ahead(self._file_io, self._located(lists), check_list_size, avro_codec.decode_manifest_lists)

    def _located(self, files: Iterable[RecordedFile]) -> Iterator[tuple[str, RecordedFile]]:
        return ((self._paths.manifest_path(each.name), each) for each in files)

    def base_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of everything before ``snapshot``'s own changes."""
        return self.manifest_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def delta_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of ``snapshot``'s own changes."""
        return self.manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return all manifests of ``snapshot``: base, then delta."""
        return self.base_manifests(snapshot) + self.delta_manifests(snapshot)

    def changelog_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of ``snapshot``'s changelog files; empty when it has none."""
        name = snapshot.changelog_manifest_list
        return [] if name is None else self.manifest_list(name, snapshot.changelog_manifest_list_size)

    def read_manifest(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        """Return the entries of a manifest.

        Raises:
            CorruptTableError: the file is missing, cannot be read, or is another than its manifest list says.
        """
        path = self._paths.manifest_path(meta.file_name)
        data = self._read(path, "Manifest")
        check_manifest(path, data, meta.recorded)
        entries = avro_codec.decode_manifest(data, path=path)
        check_kinds(path, sum(entry.kind == FileKind.ADD for entry in entries), meta.num_added_files)
        return entries

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """Return the index files of ``snapshot``; empty when it has none."""
        return [] if snapshot.index_manifest is None else self._index_entries(snapshot.index_manifest)

    def _index_entries(self, name: str) -> list[IndexManifestEntry]:
        path = self._paths.manifest_path(name)
        return avro_codec.decode_index_manifest(self._read(path, "Index manifest"), path=path)

    def index_names(self, index_manifest: str) -> list[str]:
        """Return the names of the index files of an index manifest; a CorruptTableError where it is not there."""
        path = self._paths.manifest_path(index_manifest)
        return avro_codec.decode_index_names(self._read(path, "Index manifest"), path=path)

    def index_paths(self, index_manifest: str) -> list[str]:
        """Return the paths of the index files that an index manifest names; errors as of `index_names`."""
        if self._paths.layout is None or not self._paths.layout.index_with_data:
            return [self._paths.index_path(name) for name in self.index_names(index_manifest)]
        return list(map(self._paths.index_file_path, self._index_entries(index_manifest)))

    def live_entries(
        self,
        snapshot: Snapshot | None,
        *,
        partitions: Collection[bytes] | None = None,
        predicate: Predicate | None = None,
        names: Collection[str] | None = None,
    ) -> list[ManifestEntry]:
        """Return the ADD entry of every file that lives in ``snapshot``, in the order of the manifests.

        Args:
            snapshot: None gives no files.
            partitions: only files of these partitions (partition bytes).
            predicate: only files of partitions for which this predicate over the partition columns is true.
            names: only files of these names.

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
        """
        if snapshot is None:
            return []
        found = self.live_columns(snapshot, predicate=predicate)
        if partitions is not None:
            found = found.filter(np.array([partition in partitions for partition in found.partitions], dtype=bool))
        if names is not None:
            found = found.filter(np.array([name in names for name in found.file_names], dtype=bool))
        return list(found)

    def prune_manifests(
        self, manifests: Sequence[ManifestFileMeta], predicate: Predicate | None
    ) -> list[ManifestFileMeta]:
        """Return the manifests that may hold files of partitions matching ``predicate``, by their partition statistics.

        Args:
            manifests: of one snapshot.
            predicate: over partition columns only; None keeps all.
        """
        if predicate is None or not manifests or not self._partition_fields:
            return list(manifests)
        types = [field.type.with_nullable(True) for field in self._partition_fields]
        stats = [meta.partition_stats for meta in manifests]
        usable = np.array([len(s.null_counts) == len(types) for s in stats])
        if not usable.all():
            known = [meta for meta, ok in zip(manifests, usable, strict=True) if ok]
            kept = {id(meta) for meta in self.prune_manifests(known, predicate)}
            return [meta for meta, ok in zip(manifests, usable, strict=True) if not ok or id(meta) in kept]
        low = decode_rows([s.min_values[_ARITY_BYTES:] for s in stats], types)
        high = decode_rows([s.max_values[_ARITY_BYTES:] for s in stats], types)
        columns = {
            field.name: (low[i], high[i], pa.array([s.null_counts[i] for s in stats], pa.int64()))
            for i, field in enumerate(self._partition_fields)
        }
        counts = pa.array([meta.num_added_files + meta.num_deleted_files for meta in manifests], pa.int64())
        keep = prune_stats(predicate, columns, counts)
        return [meta for meta, kept_here in zip(manifests, keep, strict=True) if kept_here]

    def partition_filter(self, predicate: Predicate | None) -> Callable[[Sequence[bytes]], list[bool]]:
        """Return a function from partition bytes (one per file) to whether ``predicate`` is true for them.

        Args:
            predicate: over partition columns only; None is always true.
        """
        if predicate is None or not self._partition_fields:
            return lambda partitions: [True] * len(partitions)
        known: dict[bytes, bool] = {}

        def keep(partitions: Sequence[bytes]) -> list[bool]:
            unseen = list({partition: None for partition in partitions if partition not in known})
            known.update(zip(unseen, self.match_partitions(unseen, predicate), strict=True))
            return [known[partition] for partition in partitions]

        return keep

    def match_partitions(self, partitions: Sequence[bytes], predicate: Predicate) -> list[bool]:
        """Say for each of the partition bytes whether ``predicate`` over partition columns is true."""
        if not partitions:
            return []
        mask = evaluate(predicate, self.partition_batch(partitions))
        return [bool(value) for value in mask.to_pylist()]

    def partition_batch(self, partitions: Sequence[bytes]) -> pa.RecordBatch:
        """Return the partition values of partition bytes as columns, one row each."""
        schema = to_arrow_schema(self._partition_fields)
        types = [field.type for field in self._partition_fields]
        columns = decode_rows([partition[_ARITY_BYTES:] for partition in partitions], types)
        return pa.RecordBatch.from_arrays(columns, names=schema.names)

    def read_columns(
        self, manifests: Sequence[ManifestFileMeta], *, statistics: bool = True, at_once_bytes: int = _DECODED_AT_ONCE
    ) -> Iterator[ManifestColumns]:
        """Yield the entries of manifests; as `columns_of`."""
        recorded = [meta.recorded for meta in manifests]
        return self.columns_of(recorded, statistics=statistics, at_once_bytes=at_once_bytes)

    def columns_of(
        self, manifests: Sequence[RecordedFile], *, statistics: bool = True, at_once_bytes: int = _DECODED_AT_ONCE
    ) -> Iterator[ManifestColumns]:
        """Yield the entries of manifests as columns, in order; the entries of several may come together.

        Several manifests are fetched at once from a remote store.

        Args:
            manifests: which.
            statistics: whether the statistics of keys and values are wanted: they take most of the memory.
            at_once_bytes: about how many bytes of entries are decoded at once.

        Raises:
            CorruptTableError: a manifest is missing, cannot be read, or is another than its manifest list says.
        """
        files = self._manifests(manifests)
        counts = [None if each.added is None else each.added + (each.deleted or 0) for each in manifests]
        entries = None if None in counts else sum(filter(None, counts))
        found = avro_codec.decode_manifests(files, statistics=statistics, at_once_bytes=at_once_bytes, entries=entries)
        return checked_kinds(found, manifests, self._paths.manifest_path)

    def raw_entries(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[RawEntries]:
        """Yield the entries of manifests as bytes, in order and some at a time.

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
        """
        return decode_raw(self._manifests([meta.recorded for meta in manifests]))

    def _manifests(self, manifests: Sequence[RecordedFile]) -> Iterator[tuple[str, bytes]]:
        return checked_manifests(self._files([self._paths.manifest_path(each.name) for each in manifests]), manifests)

    def _files(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        if self._file_io.threads == 1 or len(paths) < 2:
            for path in paths:
                yield path, self._read(path, "Manifest")
            return
        with ThreadPoolExecutor(self._file_io.threads) as pool:
            yield from zip(paths, pool.map(lambda path: self._read(path, "Manifest"), paths), strict=True)

    def live_columns(
        self,
        snapshot: Snapshot,
        *,
        predicate: Predicate | None = None,
        bucket: int | None = None,
        statistics: bool = True,
        file_filter: FileFilter | None = None,
        row_ids: Predicate | None = None,
    ) -> ManifestColumns:
        """Return the files that live in ``snapshot`` as columns, in the order of the manifests.

        Args:
            snapshot: which files.
            predicate: only files of partitions for which this predicate over the partition columns is true.
            bucket: only files of this bucket.
            statistics: whether the statistics of keys and values are wanted, by the caller or by ``file_filter``.
            file_filter: gets some entries at a time and returns those that are wanted, with every DELETE entry. It may
                drop their statistics.
            row_ids: no manifest is read whose rows have other ids (data evolution).

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
        """
        keep = self.partition_filter(predicate)
        parts: list[ManifestColumns] = []
        pending: list[ManifestColumns] = []
        listed = self.data_manifests(snapshot)
        manifests = self.prune_manifests(listed, predicate)
        if row_ids is not None:
            manifests = manifests_with_row_ids(manifests, row_ids)
        note_manifests(listed, len(manifests))
        entries = self.read_columns(manifests, statistics=statistics)
        if predicate is None and row_ids is None and self._rows_are_counted:
            entries = checked_rows(entries, snapshot, self._paths.snapshot_path(snapshot.id))
        for columns in entries:
            if predicate is not None:
                columns = columns.filter(np.array(keep(columns.partitions), dtype=bool))
            if bucket is not None:
                columns = columns.filter(columns.buckets == bucket)
            pending.append(columns)
            if sum(map(len, pending)) >= _JUDGED_AT_ONCE:
                parts.append(_filtered_files(pending, file_filter))
                pending = []
        parts.append(_filtered_files(pending, file_filter))
        changes = ManifestColumns.concat(parts)
        check_none_revived(changes.revived(), self._paths.snapshot_path(snapshot.id))
        found = changes.live()
        check_once(found.file_names, self._paths.snapshot_path(snapshot.id))
        return found

    def check_live(self, snapshot: Snapshot) -> None:
        """Check what `live_columns` checks, with little memory.

        Raises:
            CorruptTableError: a manifest cannot be read, or a read would refuse the files of ``snapshot``.
        """
        entries = self.read_columns(self.data_manifests(snapshot), statistics=False)
        if self._rows_are_counted:
            entries = checked_rows(entries, snapshot, self._paths.snapshot_path(snapshot.id))
        if may_repeat(entries):
            self.live_columns(snapshot, statistics=False)

    def live_chunks(
        self, snapshot: Snapshot, *, chunk_files: int = 5000, statistics: bool = True
    ) -> Iterator[ManifestColumns]:
        """Yield the files that live in ``snapshot`` some at a time, in the order of the manifests.

        Memory holds one chunk and the names of deleted files; manifests with deletes are read twice for it.

        Args:
            snapshot: which files.
            chunk_files: about how many files come at once.
            statistics: whether the statistics of keys and values are wanted.

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
        """
        manifests = self.data_manifests(snapshot)
        deleted, revived = set[Identity](), set[Identity]()
        for columns in self.read_columns([m for m in manifests if m.num_deleted_files], statistics=False):
            revived = (revived - columns.deleted()) | columns.revived(deleted)
            deleted |= columns.deleted()
        check_none_revived(revived, self._paths.snapshot_path(snapshot.id))
        pending: list[ManifestColumns] = []
        for columns in self.read_columns(manifests, statistics=statistics):
            living = columns.without(deleted)
            for start in range(0, len(living), chunk_files):
                pending.append(living[start : start + chunk_files])
                if sum(map(len, pending)) >= chunk_files:
                    yield ManifestColumns.concat(pending)
                    pending = []
        if any(map(len, pending)):
            yield ManifestColumns.concat(pending)

    def _read(self, path: str, what: str) -> bytes:
        try:
            return self._file_io.read_bytes(path)
        except FileNotFoundError as error:
            raise ExpiredFileError(
                f"{what} {path} is missing: the snapshot may have expired while it was read, or the table is damaged.",
                path=path,
            ) from error


def _filtered_files(parts: Sequence[ManifestColumns], file_filter: FileFilter | None) -> ManifestColumns:
    joined = ManifestColumns.concat(parts)
    return joined if file_filter is None else file_filter(joined)


def manifests_with_row_ids(manifests: Sequence[ManifestFileMeta], predicate: Predicate) -> list[ManifestFileMeta]:
    """Return the manifests that may hold files of rows whose ids match, in the same order.

    Manifests with common ids stay or go together: files of the same rows, and the DELETE of a file, may lie in either.
    All stay where one does not tell its ids.
    """
    ranges = [(meta.min_row_id, meta.max_row_id) for meta in manifests]
    known = np.array([pair for pair in ranges if None not in pair], dtype=np.int64).reshape(-1, 2)
    if len(known) < len(ranges) or not ranges:
        return list(manifests)
    order = np.argsort(known[:, 0], kind="stable")
    low, reach = known[order, 0], np.maximum.accumulate(known[order, 1])
    starts = np.flatnonzero(np.concatenate(([True], low[1:] > reach[:-1])))
    ends = np.concatenate((starts[1:], [len(order)])) - 1
    first, last = low[starts], reach[ends]
    bounds = pa.array(first), pa.array(last), pa.array(np.zeros(len(first), np.int64))
    wanted = prune_stats(predicate, {ROW_ID.name: bounds}, pa.array(last - first + 1))
    kept = np.empty(len(order), np.bool_)
    kept[order] = np.repeat(wanted, ends - starts + 1)
    return [meta for meta, keep in zip(manifests, kept.tolist(), strict=True) if keep]


def read_ahead(file_io: FileIO, paths: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield each path with the file's bytes, None for missing files; several requests run at once on a remote store."""

    def if_there(path: str) -> bytes | None:
        try:
            return file_io.read_bytes(path)
        except FileNotFoundError:
            return None

    if file_io.threads == 1:
        yield from ((path, if_there(path)) for path in paths)
        return
    with ThreadPoolExecutor(file_io.threads) as pool:
        while some := list(islice(paths, file_io.threads)):
            yield from zip(some, pool.map(if_there, some), strict=True)


def decode_ahead(
    file_io: FileIO,
    files: Iterable[tuple[str, RecordedFile]],
    check: Callable[[str, bytes, int | None], None],
    decode: Callable[[Sequence[tuple[str, bytes]]], Sequence[_Decoded]],
) -> Iterator[_Decoded | None]:
    """Yield what each of many files holds, None for those that are missing.

    Args:
        file_io: where they are.
        files: the path of each and what is recorded of it.
        check: gets path, bytes and recorded size of a file that is there.
        decode: gets path and bytes of some files.
    """
    pending: list[tuple[str, bytes | None]] = []
    size = 0
    wanted, recorded = tee(files)
    found = read_ahead(file_io, (path for path, _ in wanted))
    for (path, data), (_, each) in zip(found, recorded, strict=True):
        if data is not None:
            check(path, data, each.size)
        pending.append((path, data))
        size += len(data or b"")
        if len(pending) == _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield from _decode_some(pending, decode)
            pending, size = [], 0
    yield from _decode_some(pending, decode)


def _decode_some(
    files: Sequence[tuple[str, bytes | None]], decode: Callable[[Sequence[tuple[str, bytes]]], Sequence[_Decoded]]
) -> Iterator[_Decoded | None]:
    """Decode the files that are there together; None for each that is missing."""
    decoded = iter(decode([(path, data) for path, data in files if data is not None]))
    for _, data in files:
        yield None if data is None else next(decoded)


@dataclass(eq=False)
class ScanMetrics:
    """Sums over the snapshots that were looked at."""

    millis: int = 0
    manifests: int = 0
    """Manifests that were read."""
    live_files: int = 0
    """Data files of the snapshots, those included that were left out."""


_METRICS: ScopedValue[ScanMetrics] = ScopedValue("paimon_scan_metrics")


@contextlib.contextmanager
def measured_scan() -> Iterator[ScanMetrics]:
    """Measure the planning inside."""
    metrics, begun = ScanMetrics(), time.monotonic()
    try:
        with _METRICS.bound_to(metrics):
            yield metrics
    finally:
        metrics.millis = round((time.monotonic() - begun) * 1000)


def note_manifests(listed: Sequence[ManifestFileMeta], read: int) -> None:
    """Note the manifests of a snapshot, and how many of them are read."""
    metrics = _METRICS.get()
    if metrics is not None:
        metrics.manifests += read
        metrics.live_files += sum(each.num_added_files - each.num_deleted_files for each in listed)
