"""Iceberg metadata of a snapshot that was published: made of that of the snapshot before, or of all files anew.

Equals Java's ``IcebergCommitCallback``, but for what is marked ``# Java:``. Runs on the driver, after each commit. A
failure is logged and fails no commit: the next commit finds no metadata to go on with, and makes it anew.
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.commit.iceberg_entries import Changes, FileReader
from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spec.iceberg.manifests import (
    V3,
    Content,
    IcebergEntry,
    IcebergManifest,
    Status,
    order_of,
    with_own_row_ids,
    with_row_ids,
)
from paimon_spark.spec.iceberg.metadata import (
    RETIRE_PENDING,
    VERSION,
    Counts,
    IcebergMetadata,
    Inherited,
    TableState,
    commit_identity,
    compare_schemas,
    expired_count,
    iceberg_snapshot,
    is_avro_name,
    metadata_name,
    refs_of,
)
from paimon_spark.spec.iceberg.types import Json, iceberg_schema, is_nan, value_from_bytes
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind
from paimon_spark.table.iceberg_files import IcebergFiles, hive_entries, metadata_ids, publishes, rest_entry

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_SMALL: Final = 2 / 3
"""Manifests below this part of the target size are merged."""


def publish_iceberg(
    table: FileStoreTable,
    snapshot: Snapshot,
    *,
    follows: Snapshot | None = None,
    files: Sequence[ManifestEntry] | None = None,
) -> None:
    """Write the Iceberg metadata of the latest snapshot, if the table's options ask for it; never raises an error.

    Args:
        table: the table as it is written.
        snapshot: that was published, or is the latest one again after a rollback.
        follows: the snapshot before it; None where that is not known.
        files: all that differs from the snapshot before; None where that is not known.
    """
    if not publishes(table):
        return
    try:
        if table.snapshots.latest_id() == snapshot.id:  # else a later commit writes its own
            _Publication(table, snapshot, follows, files).run()
    except Exception as error:  # noqa: BLE001 - the snapshot is published
        _LOG.warning(
            "%s: snapshot %s is committed, but readers of Iceberg do not see it before the next commit: its Iceberg "
            "metadata could not be written: %s",
            table.path,
            snapshot.id,
            error,
        )


def republish_iceberg(table: FileStoreTable) -> None:
    """Write the Iceberg metadata of the latest snapshot after another one was it: a rollback, a fast-forward."""
    latest = table.snapshots.latest() if publishes(table) else None
    if latest is not None:
        publish_iceberg(table, latest)
        refresh_iceberg(table)


def republish_renamed(catalog: FilesystemCatalog, database: str, table: str) -> None:
    """Write the Iceberg metadata of a table at its new path; never raises an error, since the table was renamed.

    Args:
        catalog: where it is; the files of a server do not move.
        database: its new one.
        table: its new name.
    """
    if catalog.is_remote:
        return
    try:
        republish_iceberg(catalog.load_table(database, table))
    except Exception as error:  # noqa: BLE001 - the next commit writes the new paths
        _LOG.warning("%s.%s: readers of Iceberg do not see it before the next commit: %s", database, table, error)


def refresh_iceberg(table: FileStoreTable) -> None:
    """Tell readers of Iceberg which tags there are and which snapshots have expired; never raises an error."""
    if not publishes(table):
        return
    try:
        latest = table.snapshots.latest()
        store = IcebergFiles(table)
        found = None if latest is None else store.metadata(latest.id)
        if latest is None or found is None or not found.is_of(latest) or not store.spell_as(found):
            return
        earliest = min(table.snapshots.ids(), default=latest.id)
        kept = [each for each in found.snapshots if each["snapshot-id"] >= earliest]
        refs = refs_of(_tags(table), kept)
        if refs == found.json.get("refs") and len(kept) == len(found.snapshots):
            return
        now = found.with_refs(kept, refs, time.time_ns() // 1_000_000)
        _enter_rest(table, store, latest, now, found)  # first: what it does not see is tried again
        store.write_metadata(latest.id, now.to_bytes())
        lists = [each["manifest-list"] for each in found.snapshots]
        gone = set[str]()
        for location, after in itertools.pairwise(lists[: len(lists) - len(kept) + 1]):
            gone |= store.only_in(location, after)
        store.delete(gone)
    except Exception as error:  # noqa: BLE001 - what readers of Paimon see has changed already
        _LOG.warning("%s: tags and expired snapshots are not shown to readers of Iceberg: %s", table.path, error)


def _enter_rest(
    table: FileStoreTable,
    store: IcebergFiles,
    snapshot: Snapshot,
    metadata: IcebergMetadata,
    before: IcebergMetadata | None,
) -> None:
    """Let the REST catalog have this metadata, where the table's option asks for that."""
    entry = rest_entry(table)
    if entry is not None:
        entry.enter(
            metadata,
            before,
            lambda data: store.write_registered(snapshot.id, data),
            lambda: _is_latest(table, snapshot),
        )


def _is_latest(table: FileStoreTable, snapshot: Snapshot) -> bool:
    latest = table.snapshots.latest()
    return latest is not None and latest.id == snapshot.id and commit_identity(latest) == commit_identity(snapshot)


def _tags(table: FileStoreTable) -> dict[str, int]:
    return {name: tag.snapshot.id for name, tag in table.tags.list().items()}


@dataclass(frozen=True, slots=True)
class _Content:
    """What a snapshot has for readers of Iceberg."""

    manifests: list[IcebergManifest]
    operation: str
    counts: Counts


class _Publication:
    """One snapshot and its metadata."""

    def __init__(
        self,
        table: FileStoreTable,
        snapshot: Snapshot,
        follows: Snapshot | None,
        files: Sequence[ManifestEntry] | None,
    ) -> None:
        self._table = table
        self._snapshot = snapshot
        self._follows = follows
        self._files = files
        self._options = table.options
        self._version = int(self._options.value(VERSION))
        self._store = IcebergFiles(table)
        self._names = self._store.names()
        self._ids = metadata_ids(self._names)
        self._schemas = self._all_schemas()
        self._schema_id = max(self._schemas)

    def run(self) -> None:
        snapshot_id = self._snapshot.id
        if snapshot_id == FIRST_SNAPSHOT_ID and self._follows is None and self._files is not None:
            # the metadata of a table of this name that was dropped
            self._store.delete(self._names)
            self._names, self._ids = set(), []
        inherited = Inherited()
        if snapshot_id in self._ids:
            there = self._store.metadata(snapshot_id)
            ours = there is not None and there.names_identity() and there.is_of(self._snapshot)
            if there is not None and ours and self._store.spell_as(there):
                base = self._store.metadata(snapshot_id - 1) if snapshot_id - 1 in self._ids else None
                self._finish(set(), there, base)
                return
            if there is not None:
                inherited = inherited.with_that_of(there)
        newest = self._store.metadata(self._ids[-1]) if self._ids and self._ids[-1] > snapshot_id else None
        if newest is not None:
            inherited = inherited.with_that_of(newest)
        base = self._store.metadata(snapshot_id - 1) if snapshot_id - 1 in self._ids else None
        if base is not None and self._files is not None and self._fits(base):
            try:
                content = self._extended(base)
            except (PaimonError, OSError) as error:
                _LOG.info("%s: its Iceberg metadata is made anew: %s", self._table.path, error)
                self._store.delete(self._store.written)
                self._store = IcebergFiles(self._table)
            else:
                self._write_after(base, content, inherited)
                return
        if base is not None:
            inherited = inherited.with_that_of(base, keep_uuid=base.version == self._version)
        self._make_anew(inherited, base)

    def _all_schemas(self) -> dict[int, Json]:
        """The schemas of the table by id; earlier ones that Iceberg cannot express are left out."""
        found = dict[int, Json]()
        all_schemas = self._table.schemas.all()
        for schema in all_schemas:
            try:
                found[schema.id] = iceberg_schema(schema.id, schema.fields)
            except UnsupportedError:
                if schema.id == all_schemas[-1].id:
                    raise
        return found

    def _fits(self, base: IcebergMetadata) -> bool:
        """Whether metadata of the snapshot before is of that very snapshot, and can be gone on with."""
        before = self._follows
        if before is None or not base.is_of(before) or not self._store.spell_as(base):
            return False
        if base.version != self._version or (self._version >= V3 and base.next_row_id is None):
            return False
        return base.schema_id <= self._schema_id and compare_schemas(base.schemas, self._schemas)

    # -- going on with the metadata before ----------------------------------------------------------------------------

    def _extended(self, base: IcebergMetadata) -> _Content:
        """What was in the snapshot before, with the changes of this one.

        Raises:
            CorruptTableError: a manifest of it is missing or damaged, or is another one than those of the table.
        """
        snapshot, reader = self._snapshot, FileReader(self._table, self._store.location)
        listed = self._store.manifests(base.current["manifest-list"])
        data = [each for each in listed if each.content is Content.DATA]
        vectors = [each for each in listed if each.content is Content.DELETES]
        changes = reader.changes(self._files or ())
        before, operation = data, "append"
        if not changes.only_adds:
            data, operation = self._without_removed(reader, data, changes)
        counts = self._counts_after(base, before, changes)
        added = reader.entries(list(changes.added.values()), snapshot.id)
        data += self._store.write_manifests(added, snapshot.id)
        data = self._merged(data)
        if reader.vectors and (self._follows is None or self._follows.index_manifest != snapshot.index_manifest):
            vectors = self._store.write_manifests(reader.vector_entries(snapshot), snapshot.id, Content.DELETES)
        elif not reader.vectors:
            vectors = []
        counts.delete_files = sum(each.live_files for each in vectors)
        counts.position_deletes = sum(each.live_rows for each in vectors)
        return _Content([*data, *vectors], operation, counts)

    def _write_after(self, base: IcebergMetadata, content: _Content, inherited: Inherited) -> None:
        inherited = inherited.with_that_of(base)
        known = {each["schema-id"] for each in base.schemas}
        schemas = [*base.schemas, *(each for number, each in self._schemas.items() if number not in known)]
        self._write(content, replace(inherited, uuid=base.uuid), base, schemas)

    def _counts_after(self, base: IcebergMetadata, data: Sequence[IcebergManifest], changes: Changes) -> Counts:
        added, removed = changes.added.values(), changes.removed.values()
        counts = Counts(
            added_files=len(added),
            added_rows=sum(each.file.row_count for each in added),
            added_bytes=sum(each.file.file_size for each in added),
            deleted_files=len(removed),
            deleted_rows=sum(each.file.row_count for each in removed),
            deleted_bytes=sum(each.file.file_size for each in removed),
            partitions=len({each.partition for each in (*added, *removed)}),
        )
        files, rows, size = (base.total(f"total-{key}") for key in ("data-files", "records", "files-size"))
        if files is None or rows is None:
            files, rows = sum(each.live_files for each in data), sum(each.live_rows for each in data)
        if size is None:
            size = sum(entry.file.size for each in data for entry in self._store.entries(each) if entry.is_live)
        counts.total_files = max(0, files + counts.added_files - counts.deleted_files)
        counts.total_rows = max(0, rows + counts.added_rows - counts.deleted_rows)
        counts.total_bytes = max(0, size + counts.added_bytes - counts.deleted_bytes)
        return counts

    def _without_removed(
        self, reader: FileReader, manifests: Sequence[IcebergManifest], changes: Changes
    ) -> tuple[list[IcebergManifest], str]:
        """Return the manifests without the removed files, and what the snapshot does with them.

        Files that are there already are added no more, and files that are not there are not removed.
        """
        touched = {each.partition for each in (*changes.added.values(), *changes.removed.values())}
        values = reader.partition_values(touched)
        partitions = [values[each] for each in touched]
        found, operation, snapshot_id = list[IcebergManifest](), "append", self._snapshot.id
        seen = set[str]()
        for manifest in manifests:
            if not self._may_hold(manifest, partitions):
                found.append(manifest)
                continue
            entries = self._store.entries(manifest)
            live = {entry.file.path for entry in entries if entry.is_live}
            for path in live & changes.added.keys():
                del changes.added[path]
            if not live & changes.removed.keys():
                found.append(manifest)
                continue
            seen |= live & changes.removed.keys()
            operation = "replace" if self._snapshot.commit_kind is CommitKind.COMPACT else "overwrite"
            kept = [
                replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
                if entry.file.path in changes.removed
                else replace(entry, status=Status.EXISTING)
                for entry in with_own_row_ids(manifest, entries)
                if entry.is_live
            ]
            found += self._store.write_manifests(kept, snapshot_id)
        for path in changes.removed.keys() - seen:  # Java: counts files too that its readers never saw
            del changes.removed[path]
        return found, operation

    def _may_hold(self, manifest: IcebergManifest, partitions: Sequence[tuple[Any, ...]]) -> bool:
        """Whether a manifest may have files of one of the partitions, by its summaries."""
        fields = self._table.schema.partition_fields
        if not fields or len(manifest.partitions) != len(fields):
            return True
        positions = [
            tuple(_position(value, field.type) for value, field in zip(p, fields, strict=True)) for p in partitions
        ]
        bounds = []
        for summary, field in zip(manifest.partitions, fields, strict=True):
            low, high = (
                None if end is None else order_of(value_from_bytes(end, field.type), field.type)
                for end in (summary.lower_bound, summary.upper_bound)
            )
            bounds.append((summary.contains_null, low, high))
        return any(all(map(_is_within, position, bounds)) for position in positions)

    def _merged(self, manifests: list[IcebergManifest]) -> list[IcebergManifest]:
        """Merge small manifests when there are many (Java: ``compactMetadataIfNeeded``)."""
        target = int(self._options.value("manifest.target-file-size"))
        small = [each for each in manifests if each.length < target * _SMALL]
        least = int(self._options.value("metadata.iceberg.compaction.min.file-num"))
        most = int(self._options.value("metadata.iceberg.compaction.max.file-num"))
        if len(small) < least or (len(small) < most and sum(each.length for each in small) < target):
            return manifests
        entries, snapshot_id, made = list[IcebergEntry](), self._snapshot.id, list[str]()
        for manifest in small:
            for entry in with_own_row_ids(manifest, self._store.entries(manifest)):
                ours = snapshot_id in (entry.file_sequence_number, entry.snapshot_id)
                if ours or entry.status is Status.EXISTING:
                    entries.append(entry)
                elif entry.status is Status.ADDED:
                    entries.append(replace(entry, status=Status.EXISTING))
            if manifest.sequence_number == snapshot_id:
                made.append(manifest.path.rpartition("/")[2])
        merged = self._store.write_manifests(entries, snapshot_id)
        self._store.delete(made)
        return [each for each in manifests if each.length >= target * _SMALL] + merged

    # -- all files anew -----------------------------------------------------------------------------------------------

    def _make_anew(self, inherited: Inherited, base: IcebergMetadata | None) -> None:
        snapshot = self._snapshot
        if base is not None:
            self._store.spell_as(base)
        reader = FileReader(self._table, self._store.location)
        manifests, counts, partitions = list[IcebergManifest](), Counts(), set[bytes]()
        pending = list[IcebergEntry]()
        for part in reader.live(snapshot):
            pending += reader.entries(part, snapshot.id)
            partitions |= {entry.partition for entry in part}
            counts.added_files += len(part)
            counts.added_rows += sum(entry.file.row_count for entry in part)
            counts.added_bytes += sum(entry.file.file_size for entry in part)
            if len(pending) >= _ENTRIES_AT_ONCE:
                manifests += self._store.write_manifests(pending, snapshot.id)
                pending = []
        manifests += self._store.write_manifests(pending, snapshot.id)
        vectors = list[IcebergManifest]()
        if reader.vectors:
            vectors = self._store.write_manifests(reader.vector_entries(snapshot), snapshot.id, Content.DELETES)
        counts.partitions = len(partitions)
        counts.total_files, counts.total_rows = counts.added_files, counts.added_rows
        counts.total_bytes = counts.added_bytes
        counts.delete_files = sum(each.live_files for each in vectors)
        counts.position_deletes = sum(each.live_rows for each in vectors)
        content = _Content([*manifests, *vectors], "append", counts)
        self._write(content, inherited, None, list(self._schemas.values()))

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(
        self, content: _Content, inherited: Inherited, base: IcebergMetadata | None, schemas: Sequence[Json]
    ) -> None:
        snapshot, manifests, row_ids = self._snapshot, content.manifests, None
        if self._version >= V3:
            manifests, given = with_row_ids(manifests, inherited.next_row_id)
            row_ids = inherited.next_row_id, given
        manifest_list = self._store.write_list(manifests)
        summary = content.counts.summary(content.operation, snapshot)
        before = [] if base is None else base.snapshots
        snapshots = [*before, iceberg_snapshot(snapshot, summary, manifest_list, row_ids)]
        expired = expired_count(snapshots, snapshot.id, self._retained())
        state = TableState(
            version=self._version,
            uuid=inherited.uuid or str(uuid.uuid4()),
            location=self._store.location,
            schemas=schemas,
            schema_id=self._schema_id,
            partition_keys=self._table.schema.partition_keys,
            last_column_id=inherited.last_column_id,
            next_row_id=None if row_ids is None else sum(row_ids),
            refs=_tags(self._table),
            updated_millis=time.time_ns() // 1_000_000,
        )
        now = state.metadata(snapshots[expired:])
        self._store.write_metadata(snapshot.id, now.to_bytes())
        if base is None:  # nothing of the metadata that was there is named any more
            self._finish({name for name in self._names if is_avro_name(name)}, now, None)
            return
        lists = [each["manifest-list"] for each in snapshots[: expired + 1]]
        self._finish(lists, now, base)

    def _retained(self) -> tuple[int, int, int]:
        kept: timedelta = self._options.value("snapshot.time-retained")
        oldest = time.time_ns() // 1_000_000 - int(kept.total_seconds() * 1000)
        least, most = (int(self._options.value(f"snapshot.num-retained.{end}")) for end in ("min", "max"))
        return least, most, oldest

    def _enter(self, metadata: IcebergMetadata, base: IcebergMetadata | None) -> None:
        """Let Iceberg's catalog name this metadata, where the table's option asks for that."""
        entries, snapshot_id = hive_entries(self._table), self._snapshot.id
        if entries is not None:
            before = None if base is None else self._store.spelled(snapshot_id - 1)
            where = self._store.spelled(snapshot_id).rsplit("/", 3)[0]
            entries.enter(self._table.latest.fields, self._store.spelled(snapshot_id), before, where)
        _enter_rest(self._table, self._store, self._snapshot, metadata, base)

    def _finish(self, unneeded: set[str] | list[str], metadata: IcebergMetadata, base: IcebergMetadata | None) -> None:
        """Say which metadata is the latest, then delete what nobody needs any more.

        Args:
            unneeded: names of files; or the manifest lists of expired snapshots, and that of the first that is left.
            metadata: that was written.
            base: that of the snapshot before, whose snapshots this one has too.
        """
        snapshot_id = self._snapshot.id
        if not _is_latest(self._table, self._snapshot):
            return  # another commit, or a rollback, was faster, and does the same for its own snapshot
        self._store.write_hint(snapshot_id)
        self._enter(metadata, base)  # before the metadata that the entries still name is deleted
        gone = {RETIRE_PENDING} & self._names
        gone |= {metadata_name(each) for each in self._ids if each > snapshot_id}
        if self._options.value("metadata.iceberg.delete-after-commit.enabled"):
            kept = int(self._options.value("metadata.iceberg.previous-versions-max"))
            gone |= {metadata_name(each) for each in self._ids if each < snapshot_id - kept}
        if isinstance(unneeded, set):
            gone |= unneeded
        else:
            for location, after in itertools.pairwise(unneeded):
                gone |= self._store.only_in(location, after)
        self._store.delete(gone)


_ENTRIES_AT_ONCE = 50_000


def _position(value: Any, data_type: Any) -> Any:
    return None if value is None else order_of(value, data_type)


def _is_within(value: Any, bounds: tuple[bool, Any, Any]) -> bool:
    has_null, low, high = bounds
    if value is None:
        return has_null
    if is_nan(value):
        return True
    return low is None or high is None or low <= value <= high
