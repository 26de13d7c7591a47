"""Committing: the messages of write tasks become one or two snapshots, or nothing at all.

Equals Java's ``FileStoreCommitImpl`` (docs/internals/format.md §8), with exclusive publishing in place of "exists? then
rename". Runs on the driver, once per write.

A commit must keep all columns of the rows that it writes anew. A job that opened the table before ALTER TABLE ADD
COLUMN (or before a type was widened) reads files that others wrote since without the new column. Files or rows made of
such a read would lose its values without a word.

Micro-batches of streaming queries: each is committed once, however often it is replayed.

A query is a commit user, and the number of a micro-batch is the identifier of its commit (Java: ``StreamTableCommit``).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from paimon_spark.commit.changes import CollectedChanges, collect_changes
from paimon_spark.commit.conflict_detection import newer_columns
from paimon_spark.commit.iceberg_metadata import publish_iceberg, republish_iceberg
from paimon_spark.commit.manifest_write import ManifestWriter
from paimon_spark.commit.overwrite import OverwriteSpec, overwrite_scope, upgraded_files
from paimon_spark.commit.publish import Publication, holds_files, publish_again, publish_snapshot, snapshot_to_follow
from paimon_spark.commit.row_counts import note_commit
from paimon_spark.commit.settings import CommitSettings, Retries
from paimon_spark.commit.snapshot_builder import CommitPart, SnapshotBuilder
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    CommittedError,
    ExpiredFileError,
    PaimonError,
)
from paimon_spark.spec.manifest import FileKind, ManifestEntry
from paimon_spark.spec.snapshot import BATCH_COMMIT_IDENTIFIER, FIRST_SNAPSHOT_ID, CommitKind, Operation, Snapshot
from paimon_spark.table.iceberg_files import check_location
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.bucket_filling import record_paths
from paimon_spark.write.message import CommitMessage, TaskMessage
from paimon_spark.write.plan import OverwriteMode, new_user

if TYPE_CHECKING:
    from paimon_spark.commit.changes import Changes
    from paimon_spark.commit.conflict_detection import RowsRead
    from paimon_spark.options import CoreOptions
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


def check_columns_kept(table: FileStoreTable, parts: CollectedChanges, rows_of: SnapshotIdentity | None) -> None:
    """Check that what was read for these changes has no column, and no type, that the table did not have when opened.

    Runs on the driver, once per commit; reads a schema only where a file is of a later one.

    Args:
        table: as it was opened.
        parts: the changes.
        rows_of: the snapshot of whose rows they were made (UPDATE, MERGE); None: files alone were rewritten.

    Raises:
        CommitConflictError: a column would be lost.
    """
    schema_id = max(_newest_rewritten(parts.append), _newest_rewritten(parts.compact))
    makes_rows = any(entry.kind == FileKind.ADD for entry in parts.append.files)
    if rows_of is not None and table.schema.kind.is_keyed and makes_rows:
        schema_id = max(schema_id, rows_of.schema_id)
    if schema_id <= table.schema.id:
        return
    ours = {field.id: field.type for field in table.schema.fields}
    changed = [field.name for field in table.schemas.get(schema_id).fields if ours.get(field.id) != field.type]
    if changed:
        raise newer_columns(table.path, schema_id, changed)


def _newest_rewritten(changes: Changes) -> int:
    """Return the newest schema of files that go, but for those that only change their level."""
    kept = {entry.file.file_name for entry in changes.files if entry.kind == FileKind.ADD}
    gone = [e.file for e in changes.files if e.kind == FileKind.DELETE and e.file.file_name not in kept]
    return max((file.schema_id for file in gone), default=0) if kept else 0


BATCH = BATCH_COMMIT_IDENTIFIER
"""Commit identifier of batch writes, which are never recognised as already done."""

_FOLLOWER_SECONDS = 10.0
_FOLLOWER_PAUSE_SECONDS = 0.05

__all__ = ["BATCH", "OverwriteSpec", "commit"]


def commit(
    table: FileStoreTable,
    messages: Sequence[TaskMessage | CommitMessage],
    *,
    commit_user: str | None = None,
    identifier: int = BATCH,
    overwrite: OverwriteSpec | None = None,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    operation: Operation | str | None = None,
    ignore_empty: bool = True,
    planned_on: SnapshotIdentity | None = None,
    rows_read: bool = False,
    of_rows: RowsRead | None = None,
    after_commit: Callable[[Snapshot], None] | None = None,
    searched: SnapshotIdentity | None = None,
) -> int | None:
    """Commit the changes of ``messages`` to ``table``, atomically.

    Changes of rows become an APPEND snapshot (OVERWRITE when they replace files), those of compactions a COMPACT
    snapshot after it. If another commit is published first, this one is retried on top of it, as the options
    ``commit.*`` say.

    Args:
        table: the table as it was written, with dynamic options.
        messages: of all tasks that succeeded, each once.
        commit_user: who commits; a new UUID when not given (after ``commit.user-prefix``, if that is set).
        identifier: numbers the commits of a user, ascending. A commit of a user with an identifier that the table has
            already is not applied again, unless it is `BATCH`.
        overwrite: what to replace; None adds to what is there.
        watermark: event-time watermark, in epoch milliseconds; the snapshot has the larger of this and the latest
            one's.
        properties: written into the snapshot.
        operation: WRITE, OVERWRITE, DELETE, …: what the engine did; None writes nothing.
        ignore_empty: make no snapshot when nothing changes (an overwrite always makes one).
        planned_on: latest snapshot when the write was planned (``WritePlan.snapshot``); with it, a commit is refused
            if the table was rolled back since, and an append if an overwrite has changed the number of buckets of its
            partitions.
        rows_read: the changes were made of rows that were read in ``planned_on`` (UPDATE, DELETE, MERGE): the commit is
            refused if a later snapshot changed rows of the buckets, in the range of the keys, that it changes itself.
        of_rows: with ``rows_read``, in a table with data evolution: the rows and columns that were read.
        after_commit: called with each published snapshot: the place for expiry, tags and notifications. What it raises
            is raised here, although the snapshot stands; an error of this package as `CommittedError`.
        searched: a snapshot; neither it nor one before it is of this user and identifier, or a later one of the user.

    Returns:
        Id of the last snapshot that holds these changes; None when there was nothing to commit.

    Raises:
        CommitConflictError: the changes do not fit what others have committed, or rivals won too often. Nothing of them
            is in the table, and their files may be deleted.
        CommitStateUnknownError: the store gave no clear answer; nothing may be deleted. The message says how to find
            out.
        CommittedError: the rows are committed; only their compaction, or what follows a commit, failed.
        CommitError: nothing was committed, for the reason given.
        UnsupportedError: an option asks for something that commits cannot do yet.
    """
    settings = CommitSettings.of(table.options)
    user = commit_user or new_user(table.options)
    parts = collect_changes(messages)
    check_columns_kept(table, parts, planned_on if rows_read else None)
    first = CommitPart(
        CommitKind.OVERWRITE if overwrite is not None or parts.append.makes_overwrite else CommitKind.APPEND,
        parts.append,
        user=user,
        identifier=identifier,
        watermark=watermark,
        properties=properties or {},
        operation=None if operation is None else Operation(operation),
        planned_on=planned_on,
        rows_read=rows_read,
        of_rows=of_rows,
    )
    keep_empty = not ignore_empty or settings.keep_empty
    if overwrite is not None:
        first = _overwriting(table, first, overwrite, parts, settings)
        wanted = (
            overwrite.kind is not OverwriteMode.DYNAMIC or bool(parts.append.files) or not table.schema.partition_keys
        )
    else:
        wanted = bool(parts.append) or keep_empty
    todo = [first] if wanted else []
    if parts.compact:
        compact = replace(first, kind=CommitKind.COMPACT, changes=parts.compact, scope=None, rows_read=False)
        todo.append(
            replace(compact, changes=replace(parts.compact, changelog=())) if overwrite is not None else compact
        )
    last = _commit_parts(table, todo, settings, after_commit, searched)
    _delete_assignment_logs(table, messages)
    return last


def _delete_assignment_logs(table: FileStoreTable, messages: Sequence[TaskMessage | CommitMessage]) -> None:
    """Delete the assignment logs of the tasks; a leftover is an orphan file."""
    seen = [m.assignment_log for m in messages if isinstance(m, TaskMessage) and m.assignment_log is not None]
    if seen:
        with contextlib.suppress(Exception):  # the commit has taken place
            table.file_io.delete_files(record_paths(table.paths, seen))


def _overwriting(
    table: FileStoreTable, part: CommitPart, overwrite: OverwriteSpec, parts: CollectedChanges, settings: CommitSettings
) -> CommitPart:
    """Return the part with its scope; changelog files are not committed (Java: "does not commit any changelog")."""
    scope = overwrite_scope(table, overwrite, part.changes.files)
    files = part.changes.files
    keys = table.schema.trimmed_primary_keys
    if settings.overwrite_upgrade and keys and not parts.compact:
        types = [table.schema.field(name).type for name in keys]
        replaced = scope.contains([entry.partition for entry in files])
        kept = tuple(entry for entry, inside in zip(files, replaced, strict=True) if not inside)
        own = [entry for entry, inside in zip(files, replaced, strict=True) if inside]
        files = (*upgraded_files(own, types, max_level=settings.max_level), *kept)
    return replace(part, changes=replace(part.changes, files=files, changelog=()), scope=scope)


def _commit_parts(
    table: FileStoreTable,
    parts: Sequence[CommitPart],
    settings: CommitSettings,
    after_commit: Callable[[Snapshot], None] | None,
    searched: SnapshotIdentity | None,
) -> int | None:
    with _storage_errors_named(table):
        done = _committed_before(table, parts, searched)
    last: int | None = None
    for part in parts:
        if part.kind in done:
            last = done[part.kind] or last
            republish_iceberg(table)  # an attempt that was killed may have written none
            continue
        try:
            snapshot = commit_part(table, part, settings)
        except CommitStateUnknownError:
            raise
        except PaimonError as error:
            if last is None:
                raise
            raise CommittedError(
                f"The rows of this write are committed, as snapshot {last}; do not write them again. Only the "
                f"compaction that belongs to it was given up: {error}"
            ) from error
        last = snapshot.id
        if after_commit is not None:
            try:
                after_commit(snapshot)
            except PaimonError as error:
                raise CommittedError(
                    f"Snapshot {last} of {table.path} holds what was written; do not write it again. What follows a "
                    f"commit failed: {error}"
                ) from error
    return last


def _committed_before(
    table: FileStoreTable, parts: Sequence[CommitPart], searched: SnapshotIdentity | None
) -> dict[CommitKind, int | None]:
    """Return which kinds of this commit are in the table already, with their snapshot ids where those live.

    Java drops a commit whose identifier is not above the user's latest; we also finish one that lacks its compaction.
    """
    if not parts or parts[0].identifier == BATCH:
        return {}
    user, identifier = parts[0].user, parts[0].identifier
    found: dict[CommitKind, int | None] = {}
    for snapshot in (searched or SnapshotIdentity()).later(table.snapshots):
        if snapshot.commit_user != user or snapshot.commit_identifier == BATCH:
            continue
        if snapshot.commit_identifier < identifier:
            break
        if snapshot.commit_identifier == identifier:
            found[snapshot.commit_kind] = max(snapshot.id, found.get(snapshot.commit_kind) or 0)
        else:
            for part in parts:
                found.setdefault(part.kind, None)
    return found


def _applied_since(
    table: FileStoreTable, part: CommitPart, seen: int | None, latest: Snapshot | None
) -> Snapshot | None:
    """Return the rival snapshot after ``seen`` that is this very commit, made by another driver of the same stream."""
    if part.identifier == BATCH or seen is None or latest is None:
        return None
    for snapshot_id in range(seen + 1, latest.id + 1):
        rival = table.snapshots.get(snapshot_id)
        if (rival.commit_user, rival.commit_identifier, rival.commit_kind) == (part.user, part.identifier, part.kind):
            return rival
    return None


@contextlib.contextmanager
def _storage_errors_named(table: FileStoreTable) -> Iterator[None]:
    """Turn errors of the store, before anything is published, into a CommitError that says so."""
    try:
        yield
    except OSError as error:
        raise CommitError(
            f"A snapshot of table {table.path} could not be prepared: {type(error).__name__}: {error}. Nothing was "
            f"committed; run the write again once the storage works."
        ) from error


class BuildsSnapshots(Protocol):
    """Makes the snapshot of a commit anew for each attempt."""

    writer: ManifestWriter
    names: set[str]
    """Names of all files that the snapshot made last refers to, of those that the commit made."""
    files: Sequence[ManifestEntry]
    """What it adds and deletes."""
    has_all_changes: bool
    """Whether these are all that differs from the snapshot before."""

    def next_snapshot(self, latest: Snapshot | None) -> Snapshot:
        """Write the manifests of the snapshot after ``latest`` and return it, not yet published."""


def commit_part(
    table: FileStoreTable, part: CommitPart, settings: CommitSettings, builder: BuildsSnapshots | None = None
) -> Snapshot:
    """Publish one snapshot; retry while other commits are published first.

    Args:
        table: what is committed to.
        part: what the snapshot holds.
        settings: options of the commit.
        builder: of this part, where it is made by another one, or has merged manifests already.

    Raises:
        CommitConflictError: the part does not fit the latest snapshot, or rivals won too often.
        CommitStateUnknownError: the store gave no clear answer; nothing may be deleted.
        CommitError: nothing was committed, for the reason given.
        UnsupportedError: the table's Iceberg metadata has no place.
    """
    check_location(table)
    builder = builder or SnapshotBuilder(table, part, settings, ManifestWriter(table, settings))
    writer = builder.writer
    retries = settings.retries()
    seen: int | None = None
    withdrawn: Snapshot | None = None
    begun = time.monotonic()
    while True:
        with _discarding(writer), _storage_errors_named(table):
            latest, is_followed = _latest_without(table, withdrawn, builder.files)
            if withdrawn is not None and is_followed:
                publish_again(table, withdrawn)
            applied = withdrawn if is_followed else _applied_since(table, part, seen, latest)
            if applied is not None:
                writer.discard(keep=builder.names if is_followed else ())
                return applied
            seen = latest.id if latest else 0
            try:
                snapshot = builder.next_snapshot(latest)
                writer.finish()
            except ExpiredFileError:
                if latest is None or retries.exhausted or not table.snapshots.is_overtaken(latest):
                    raise
                retries.wait()
                continue
        outcome = _published(table, snapshot, retries, follows=latest, builder=builder)
        withdrawn = snapshot if outcome is Publication.WITHDRAWN else None
        if outcome is Publication.DONE:
            writer.discard(keep=builder.names)
            _delete_side_files(table, part, keep=builder.names)
            note_commit(snapshot, builder.files, begun)
            publish_iceberg(table, snapshot, follows=latest, files=builder.files if builder.has_all_changes else None)
            return snapshot
        if retries.exhausted:
            writer.discard()
            raise _beaten(table, retries)
        retries.wait()


def _published(
    table: FileStoreTable, snapshot: Snapshot, retries: Retries, *, follows: Snapshot | None, builder: BuildsSnapshots
) -> Publication:
    """As `publish_snapshot`; what was written for the snapshot is deleted where it is not published, for certain."""
    try:
        return publish_snapshot(table, snapshot, retries, follows=follows, files=builder.files)
    except CommitStateUnknownError:
        raise
    except PaimonError:
        builder.writer.discard()
        raise


@contextlib.contextmanager
def _discarding(writer: ManifestWriter) -> Iterator[None]:
    """Delete all that was written for a snapshot that will not be, whatever the reason."""
    try:
        yield
    except BaseException:
        writer.discard()
        raise


def _beaten(table: FileStoreTable, retries: Retries) -> CommitConflictError:
    return CommitConflictError(
        f"Commit failed after {retries.elapsed_millis} millis with {retries.count} retries, there may be "
        f"commit conflicts between multiple jobs. Nothing of this commit is in table {table.path}: run it "
        f"again, with fewer jobs at once or with larger options 'commit.max-retries' and "
        f"'commit.max-retry-wait'."
    )


def _latest_without(
    table: FileStoreTable, withdrawn: Snapshot | None, files: Sequence[ManifestEntry]
) -> tuple[Snapshot | None, bool]:
    """Return the snapshot to follow, and whether it follows one that was withdrawn, and holds some of its new files.

    A commit that saw that snapshot for a moment will withdraw its own, and is waited for. Where it does not, since it
    looked before the withdrawal, it holds the changes of both.
    """
    end = time.monotonic() + _FOLLOWER_SECONDS
    while True:
        latest = snapshot_to_follow(table)
        if latest is None or withdrawn is None or latest.id <= withdrawn.id or not holds_files(table, latest, files):
            return latest, False
        if time.monotonic() > end:
            return latest, True
        time.sleep(_FOLLOWER_PAUSE_SECONDS)


def _delete_side_files(table: FileStoreTable, part: CommitPart, *, keep: set[str]) -> None:
    """Delete the files in which tasks handed over key hashes, unless they became index files of the snapshot."""
    for assigned in part.changes.hashes:
        name = assigned.hashes.file_name
        if name is not None and name not in keep:
            with contextlib.suppress(Exception):  # the commit has taken place; a leftover is an orphan file
                table.file_io.delete_quietly(table.paths.index_path(name))


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One micro-batch of a query."""

    user: str
    """The query: the same after each restart from its checkpoint, and of no other query."""
    identifier: int
    """Number of the micro-batch, ascending."""
    watermark: int | None = None
    """Event-time watermark of the query, in epoch milliseconds."""
    searched: SnapshotIdentity = field(default_factory=SnapshotIdentity)
    """Neither this snapshot nor one before it holds this micro-batch or a later one."""


def stream_user(query_id: str, options: CoreOptions) -> str:
    """Return the commit user of a query, after the option ``commit.user-prefix``."""
    prefix = options.value("commit.user-prefix")
    return f"{prefix}_{query_id}" if prefix else query_id


def uncommitted(table: FileStoreTable, batch: StreamBatch) -> StreamBatch | None:
    """Return a micro-batch that tells how far it was searched for; None where the table has it, or a later one.

    Raises:
        CorruptTableError: a snapshot cannot be read.
    """
    newest = oldest = None
    for snapshot in batch.searched.later(table.snapshots):
        newest, oldest = newest or snapshot, snapshot
        if snapshot.commit_user == batch.user and snapshot.commit_identifier != BATCH:
            if snapshot.commit_identifier >= batch.identifier:
                return None
            break  # those before it are of earlier micro-batches
    else:
        if batch.identifier and not batch.searched.id and oldest is not None and oldest.id > FIRST_SNAPSHOT_ID:
            _LOG.warning(
                "%s: no snapshot of query %s lives any more. If its micro-batch %d was committed before the query "
                "stopped, the rows come once more. Let snapshots live longer than queries stand still: "
                "'snapshot.time-retained', 'snapshot.num-retained.min'.",
                table.path, batch.user, batch.identifier,
            )  # fmt: skip
    return batch if newest is None else replace(batch, searched=SnapshotIdentity.of(newest))
