"""Building the next snapshot from changes and the latest snapshot, once for each attempt of a commit.

Equals Java's ``FileStoreCommitImpl.tryCommitOnce`` up to the moment of publishing (docs/internals/format.md §8).

Whether the statistics of the latest snapshot still hold for the next one.

Equals the rule of Java's ``FileStoreCommitImpl``: statistics are inherited as long as the schema stays.

What a commit stamps on new files: row ids, and snapshot ids as sequence numbers.

Equals Java's ``RowTrackingCommitUtils`` (docs/internals/format.md §12) and ``stampSequenceWithSnapshotId`` (§7).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from paimon_spark.commit.changes import Changes, CommitOrder
from paimon_spark.commit.conflict_detection import (
    CommittedChanges,
    ConcurrentChanges,
    ConflictContext,
    RowsRead,
    another_table,
    check_buckets_kept,
    check_conflicts,
    check_deletion_vectors,
    check_rows_exist,
    check_strict,
)
from paimon_spark.commit.manifest_merge import (
    Hashes,
    HashIndexFiles,
    ManifestAccess,
    combine_index_entries,
    merge_hash_indexes,
    merge_manifests,
)
from paimon_spark.commit.overwrite import PartitionScope, deleted_entries, deleted_index_entries
from paimon_spark.commit.settings import CommitSettings, writer_version
from paimon_spark.errors import CommitError, PaimonError, SnapshotNotFoundError, TableNotFoundError
from paimon_spark.spec.file_names import is_blob_file, is_vector_file
from paimon_spark.spec.hashing import decode_hash_index
from paimon_spark.spec.manifest import (
    DataFileMeta,
    FileKind,
    FileSource,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.snapshot import CommitKind, Operation, Snapshot
from paimon_spark.table.partitions import range_predicate
from paimon_spark.table.statistics import statistics_of
from paimon_spark.table.time_travel import next_commit_millis

if TYPE_CHECKING:
    from paimon_spark.commit.manifest_write import ManifestWriter
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable

_MAX_SEQUENCE = "sequence.generation.max-sequence-number"

_ROW_ID = "_ROW_ID"


@dataclass(frozen=True, slots=True)
class CommitPart:
    """One of the snapshots of a commit, before anything is read."""

    kind: CommitKind
    changes: Changes
    user: str
    identifier: int
    watermark: int | None
    properties: Mapping[str, str] | None
    """Written into the snapshot; None keeps those of the latest one."""
    operation: Operation | None
    scope: PartitionScope | None = None
    """The partitions to replace; None for commits that are no overwrite."""
    planned_on: SnapshotIdentity | None = None
    """Latest snapshot when the write was planned, if the caller knows it."""
    rows_read: bool = False
    """Whether the changes were made of rows of that snapshot."""
    statistics: str | None = None
    """Name of the statistics file that the snapshot gets; None keeps that of the latest one while it holds."""
    of_rows: RowsRead | None = None
    """Which rows and columns these are, in a table with data evolution."""

    @property
    def checked(self) -> bool:
        """Whether conflicts are looked for in the live files. Plain appends read no base manifest."""
        replaces = self.kind is not CommitKind.APPEND and (self.scope is not None or bool(self.changes))
        return replaces or self.changes.holds_columns


class SnapshotBuilder:
    """Builds the next snapshot of a part, once per attempt; keeps what later attempts can use again."""

    def __init__(
        self, table: FileStoreTable, part: CommitPart, settings: CommitSettings, writer: ManifestWriter
    ) -> None:
        self._table = table
        self._part = part
        self._settings = settings
        self.writer = writer
        """What it writes with."""
        self._strict_after = settings.strict_after
        self._merged: tuple[list[ManifestFileMeta], list[ManifestFileMeta]] | None = None
        self._written: dict[str, tuple[tuple[ManifestEntry, ...], list[ManifestFileMeta]]] = {}
        self._indexed: tuple[str | None, str | None, frozenset[str]] | None = None
        self._buckets_checked_to = None if part.planned_on is None else part.planned_on.id
        self._since = (
            None
            if part.planned_on is None
            else ConcurrentChanges(table, part.planned_on, part.changes, rows_read=part.rows_read, of_rows=part.of_rows)
        )
        self._order = None if part.planned_on is None else CommitOrder(table, part.planned_on, part.changes.files)
        self.names: set[str] = set()
        """Names of all files that the snapshot made last refers to."""
        self.files: Sequence[ManifestEntry] = ()
        """What it adds and deletes."""
        self.has_all_changes = True

    def next_snapshot(self, latest: Snapshot | None) -> Snapshot:
        """Write the manifests of the snapshot after ``latest`` and return it, not yet published.

        Raises:
            CommitConflictError: the changes do not fit ``latest``.
        """
        new_id = 1 if latest is None else latest.id + 1
        schema_id = self._schema_id(latest)
        index = [] if latest is None else self._index_entries(latest)
        live = self._replaced_files(latest)
        changes = self._changes_at(live, index)
        changes = self._check(changes, latest, live, index, new_id)
        files, next_row_id = self._stamped(changes.files, latest, new_id)
        self.files = tuple(files)
        before = [] if latest is None else self._table.manifests.data_manifests(latest)
        base = self._merge(before, revives=self._revives(before, files))
        delta = self._write("delta", files)
        changelog = self._write("changelog", changes.changelog)
        base_name, base_size = self.writer.write_list(base)
        delta_name, delta_size = self.writer.write_list(delta)
        changelog_name, changelog_size = self.writer.write_list(changelog) if changelog else (None, None)
        lists = {base_name, delta_name, *([changelog_name] if changelog_name else ())}
        self.names = lists | {meta.file_name for meta in (*base, *delta, *changelog)}
        index_manifest = self._index_manifest(latest, index, changes)
        delta_rows = sum(entry.row_change for entry in files)
        return Snapshot(
            id=new_id,
            uuid=str(uuid.uuid4()),
            schema_id=schema_id,
            base_manifest_list=base_name,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_name,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_name,
            changelog_manifest_list_size=changelog_size,
            index_manifest=index_manifest,
            commit_user=self._part.user,
            writer_version=writer_version(),
            commit_identifier=self._part.identifier,
            commit_kind=self._part.kind,
            time_millis=next_commit_millis(latest),
            total_record_count=(latest.total_record_count if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(e.file.row_count for e in changes.changelog) if changes.changelog else None,
            watermark=self._watermark(latest),
            statistics=self._part.statistics or inherited_statistics(self._table, latest, schema_id),
            properties=self._properties(latest, before, files) or None,
            next_row_id=next_row_id,
            operation=self._part.operation,
        )

    def keeps_manifests(self, latest: Snapshot) -> bool:
        """Return whether merging the manifests of the latest snapshot leaves them as they are."""
        before = self._table.manifests.data_manifests(latest)
        return {meta.file_name for meta in self._merge(before)} == {meta.file_name for meta in before}

    # -- what changes -------------------------------------------------------------------------------------------------

    def _replaced_files(self, latest: Snapshot | None) -> list[ManifestEntry] | None:
        """Return the live files that an overwrite takes out; None when the part is no overwrite of partitions."""
        scope = self._part.scope
        if scope is None or latest is None:
            return None
        live = self._table.manifests.live_entries(latest, partitions=scope.partitions, predicate=scope.predicate)
        if self._table.schema.kind.postpones_buckets:
            return live
        return [entry for entry in live if entry.bucket >= 0]

    def _changes_at(self, live: list[ManifestEntry] | None, index: Sequence[IndexManifestEntry]) -> Changes:
        """Return the part's changes, with those of replaced files and of their indexes."""
        changes, scope = self._part.changes, self._part.scope
        if scope is None or live is None:
            return changes
        return replace(
            changes,
            files=(*deleted_entries(live, drop_stats=self._settings.drop_delete_stats), *changes.files),
            index=(*deleted_index_entries(index, scope), *changes.index),
        )

    def _stamped(
        self, files: tuple[ManifestEntry, ...], latest: Snapshot | None, new_id: int
    ) -> tuple[tuple[ManifestEntry, ...], int]:
        """Return the files with what depends on the snapshots before, and ``nextRowId``."""
        next_row_id = (latest.next_row_id if latest else None) or 0
        if self._settings.row_tracking:
            by_partition = self._settings.row_ids_by_partition
            files, next_row_id = with_row_ids(
                files, snapshot_id=new_id, next_row_id=next_row_id, by_partition=by_partition
            )
        if self._order is not None:
            files = self._order.stamped(files, latest)
        if self._settings.snapshot_ordering and self._part.kind is not CommitKind.COMPACT:
            files = with_snapshot_sequences(files, snapshot_id=new_id)
        return files, next_row_id

    def _watermark(self, latest: Snapshot | None) -> int | None:
        known = [mark for mark in (self._part.watermark, latest.watermark if latest else None) if mark is not None]
        return max(known, default=None)

    def _properties(
        self, latest: Snapshot | None, before: Sequence[ManifestFileMeta], files: Sequence[ManifestEntry]
    ) -> dict[str, str]:
        """Return the snapshot's properties; Java: ``SequenceSnapshotProperties``."""
        given = self._part.properties
        properties = dict(((latest.properties if latest else None) or {}) if given is None else given)
        if not self._settings.sequence_in_properties:
            return properties
        known = [entry.file.max_sequence_number for entry in files if entry.kind == FileKind.ADD]
        recorded = (latest.properties or {}).get(_MAX_SEQUENCE) if latest else None
        if recorded is not None:
            known.append(int(recorded))
        else:
            read = self._table.manifests.read_manifest
            known += [e.file.max_sequence_number for m in before for e in read(m) if e.kind == FileKind.ADD]
        return {**properties, _MAX_SEQUENCE: str(max(known))} if known else properties

    def _schema_id(self, latest: Snapshot | None) -> int:
        """Return the latest schema of the table that was planned for, not of one made anew in its place."""
        table = self._table
        schema, is_same = table.schemas.latest_and_given(table.schema.id)
        if schema is None:
            raise TableNotFoundError(f"The table {table.path} was dropped while it was written: no schema file.")
        if not is_same:
            raise another_table(table.path, table.schema.id)
        return schema.id

    # -- conflicts ----------------------------------------------------------------------------------------------------

    def _check(
        self,
        changes: Changes,
        latest: Snapshot | None,
        live: list[ManifestEntry] | None,
        index: Sequence[IndexManifestEntry],
        new_id: int,
    ) -> Changes:
        """Check the changes against the latest snapshot; return them, without duplicates where those are discarded."""
        part, table = self._part, self._table
        partitions = changes.changed_partitions()
        if self._strict_after is not None:
            check_strict(
                self._strict_after,
                new_id,
                kind=part.kind,
                partitions=partitions,
                user=part.user,
                locations=CommittedChanges(table.snapshots.get, self._changed_files, self._changed_index),
            )
            self._strict_after = new_id - 1
        context = self._conflict_context(latest)
        if self._since is not None:
            self._since.check(latest, context)
        overwrite = part.kind is CommitKind.OVERWRITE
        if not overwrite:
            check_buckets_kept(((entry.partition, entry.total_buckets) for entry in changes.files), context)
        if latest is None:
            return changes
        discard = self._settings.discard_duplicate_files and part.kind is CommitKind.APPEND
        if not part.checked and not discard:
            self._check_buckets_since_plan(changes, latest, context)
            return changes
        base = live if live is not None else self._live_in(latest, partitions)
        if discard:
            known = {entry.identifier() for entry in base}
            changes = replace(changes, files=tuple(e for e in changes.files if e.identifier() not in known))
        check_conflicts(base, changes.files, context, overwrite=overwrite)
        if changes.holds_columns and part.kind is not CommitKind.COMPACT:
            check_rows_exist(base, changes.files, context)
        if part.scope is None:
            bucketed = table.schema.kind.has_buckets
            check_deletion_vectors(base, index, changes.files, changes.index, context, bucketed=bucketed)
        return changes

    def _live_in(self, latest: Snapshot, partitions: frozenset[bytes]) -> list[ManifestEntry]:
        within = range_predicate(self._table, partitions)
        return self._table.manifests.live_entries(latest, partitions=partitions, predicate=within)

    def _conflict_context(self, latest: Snapshot | None) -> ConflictContext:
        schema = self._table.schema
        return ConflictContext(
            table_path=self._table.path,
            partition_text=self._table.paths.partition_path,
            key_types=tuple(schema.field(name).type for name in schema.trimmed_primary_keys),
            base_user=latest.commit_user if latest else "",
            user=self._part.user,
            data_evolution=schema.kind.has_data_evolution,
        )

    def _check_buckets_since_plan(self, changes: Changes, latest: Snapshot, context: ConflictContext) -> None:
        """Check that no overwrite since the plan gave a partition of an append another number of buckets."""
        if self._buckets_checked_to is None or all(entry.total_buckets <= 0 for entry in changes.files):
            return
        manifests = self._table.manifests
        postponed = self._table.schema.kind.postpones_buckets  # each new partition gets its own number
        for snapshot_id in range(self._buckets_checked_to + 1, latest.id + 1):
            try:
                snapshot = self._table.snapshots.get(snapshot_id)
            except SnapshotNotFoundError:  # expired: the write took longer than snapshots are kept
                continue
            if snapshot.commit_kind is not CommitKind.OVERWRITE and not postponed:
                continue
            changed = changes.changed_partitions()
            since = [
                (entry.partition, entry.total_buckets)
                for meta in manifests.delta_manifests(snapshot)
                for entry in manifests.read_manifest(meta)
                if entry.kind == FileKind.ADD and entry.partition in changed
            ]
            ours = ((entry.partition, entry.total_buckets) for entry in changes.files)
            check_buckets_kept((*since, *ours), context)
        self._buckets_checked_to = latest.id

    def _changed_files(self, snapshot: Snapshot) -> set[tuple[bytes, int]]:
        manifests = self._table.manifests
        return {
            (entry.partition, entry.bucket)
            for meta in manifests.delta_manifests(snapshot)
            for entry in manifests.read_manifest(meta)
        }

    def _changed_index(self, snapshot: Snapshot) -> set[bytes]:
        snapshots = self._table.snapshots
        before = snapshots.get(snapshot.id - 1) if snapshots.exists(snapshot.id - 1) else None
        if before is not None and before.index_manifest == snapshot.index_manifest:
            return set()
        return {entry.partition for entry in self._table.manifests.index_entries(snapshot)}

    # -- files ---------------------------------------------------------------------------------------------------------

    def _revives(self, before: Sequence[ManifestFileMeta], files: Sequence[ManifestEntry]) -> bool:
        """Return whether a file gets a level that it had before: readers would miss it alongside its old DELETE.

        Java's rollback as latest leaves such an entry.
        """
        left = {entry.file.file_name for entry in files if entry.kind == FileKind.DELETE}
        raised = {
            (e.file.file_name, e.file.level) for e in files if e.kind == FileKind.ADD and e.file.file_name in left
        }
        if not raised:
            return False
        deletes = [meta for meta in before if meta.num_deleted_files]
        found = self._table.manifests.read_columns(deletes, statistics=False)
        return any((name, level) in raised for part in found for name, _, _, level, *_ in part.deleted())

    def _merge(self, before: list[ManifestFileMeta], *, revives: bool = False) -> list[ManifestFileMeta]:
        """Merge the manifests of the latest snapshot; on retries only if what was merged is still their beginning."""
        if self._merged is not None and not revives:
            merged_before, merged_after = self._merged
            if before[: len(merged_before)] == merged_before:
                return [*merged_after, *before[len(merged_before) :]]
            return before
        access = ManifestAccess(
            read=self._table.manifests.raw_entries,
            write=self.writer.write_raw,
            may_hold=self._manifests_that_may_hold,
        )
        after = merge_manifests(before, replace(self._settings.manifest_merge, always=revives), access)
        self._merged = (before, after)
        return after

    def _manifests_that_may_hold(
        self, manifests: Sequence[ManifestFileMeta], partitions: frozenset[bytes]
    ) -> list[ManifestFileMeta]:
        return self._table.manifests.prune_manifests(manifests, range_predicate(self._table, partitions))

    def _write(self, what: str, entries: tuple[ManifestEntry, ...]) -> list[ManifestFileMeta]:
        """Write manifests of ``entries``, once for all attempts that have the same entries."""
        known = self._written.get(what)
        if known is None or known[0] != entries:
            known = self._written[what] = (entries, self.writer.write_manifests(entries))
        return known[1]

    def _index_entries(self, latest: Snapshot) -> list[IndexManifestEntry]:
        """Return the latest index files, read only when the part can change them."""
        changes = self._part.changes
        if self._part.scope is None and not changes.index and not changes.hashes and not self._part.checked:
            return []
        return self._table.manifests.index_entries(latest)

    def _index_manifest(
        self, latest: Snapshot | None, index: Sequence[IndexManifestEntry], changes: Changes
    ) -> str | None:
        """Return the name of the index manifest: a new one only if index files change."""
        previous = latest.index_manifest if latest else None
        if not changes.index and not changes.hashes:
            return previous
        if self._indexed is None or self._indexed[0] != previous:
            bucketed = self._table.schema.kind.has_buckets
            combined = combine_index_entries(index, changes.index, bucketed=bucketed)
            assigned = merge_hash_indexes(combined, changes.hashes, self._hash_index_files()) if changes.hashes else []
            name, names = previous, frozenset[str]()
            if changes.index or assigned:
                combined = combine_index_entries(combined, assigned, bucketed=bucketed)
                name = self.writer.write_index_manifest(combined)
                names = frozenset({name, *(entry.file_name for entry in combined)})
            self._indexed = (previous, name, names)
        self.names |= self._indexed[2]
        return self._indexed[1]

    def _hash_index_files(self) -> HashIndexFiles:
        paths, file_io = self._table.paths, self._table.file_io

        def load(entry: IndexManifestEntry) -> Hashes:
            path = paths.index_file_path(entry)
            return decode_hash_index(file_io.read_bytes(path), path=path)

        return HashIndexFiles(
            read_side_file=lambda name: file_io.read_bytes(paths.index_path(name)),
            load=load,
            write=self.writer.write_hash_index,
            adopts=not self._table.options.value("index-file-in-data-file-dir"),
        )


def inherited_statistics(table: FileStoreTable, latest: Snapshot | None, schema_id: int) -> str | None:
    """Return the name of the statistics file for the snapshot after ``latest``, None without one.

    Java fails when the file cannot be read. Here the statistics are dropped: they are no reason to refuse rows.
    """
    try:
        known = statistics_of(table, latest)
    except (OSError, PaimonError):
        return None
    return latest.statistics if latest and known and known.schema_id == schema_id else None


def with_row_ids(
    entries: Iterable[ManifestEntry], *, snapshot_id: int, next_row_id: int, by_partition: bool = False
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Give new files of a row-tracking table their sequence numbers and first row ids.

    Args:
        entries: the files of the snapshot, in their order.
        snapshot_id: id of the snapshot to be.
        next_row_id: the latest snapshot's ``nextRowId``.
        by_partition: files of a partition get ids next to each other (``row-tracking.partition-group-on-commit``).

    Returns:
        The stamped entries, and the new ``nextRowId``.

    Raises:
        CommitError: a blob file does not follow the file with the other columns of its rows.
    """
    if by_partition:
        groups: dict[bytes, list[ManifestEntry]] = {}
        for entry in entries:
            groups.setdefault(entry.partition, []).append(entry)
        entries = chain.from_iterable(groups.values())
    stamped = []
    of_last = next_row_id
    companion_starts: dict[tuple[str, ...] | None, int] = {}
    for entry in entries:
        file = _with_snapshot_sequence(entry.file, snapshot_id)
        has_row_ids = file.first_row_id is not None or _ROW_ID in (file.write_cols or ())
        if file.file_source == FileSource.APPEND and not has_row_ids:
            if is_blob_file(file.file_name) or is_vector_file(file.file_name):  # the rows of the file before it
                start = companion_starts.get(file.write_cols, of_last)
                companion_starts[file.write_cols] = start + file.row_count
                if start + file.row_count > next_row_id:
                    raise CommitError(f"File {file.file_name} has no rows before it to which its values belong.")
                file = replace(file, first_row_id=start)
            else:
                file = replace(file, first_row_id=next_row_id)
                of_last, companion_starts = next_row_id, {}
                next_row_id += file.row_count
        stamped.append(replace(entry, file=file))
    return tuple(stamped), next_row_id


def _with_snapshot_sequence(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    if file.max_sequence_number == 0:
        return replace(file, max_sequence_number=snapshot_id)
    return file


def with_snapshot_sequences(entries: Sequence[ManifestEntry], *, snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Set the sequence numbers of added files to the snapshot's id (``sequence.snapshot-ordering``, not in COMPACT)."""
    return tuple(
        replace(entry, file=replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id))
        if entry.kind == FileKind.ADD
        else entry
        for entry in entries
    )
