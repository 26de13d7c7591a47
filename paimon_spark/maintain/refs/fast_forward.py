"""A branch joins another: by fast-forward the main branch becomes it, by a merge its files are appended.

Fast-forward: a branch's snapshots, schemas and tags become those of the main branch. The result equals that of Java's
``FileSystemBranchManager.fastForward`` (docs/internals/format.md §9). Java deletes first and then copies. Here the
table goes to the branch's first snapshot first: it can be read after every step, and a second run finishes the work.
Files that only the forgotten snapshots held stay for `remove_orphan_files`, as in Java.

Merging: the files that one branch of an append table has and another lacks are appended to the other. Equals Java's
``FileSystemBranchManager.mergeBranch`` and ``BranchMergeHandler``. Both branches must have all their snapshots from the
first on, appends only: no record says where a branch began, so other histories cannot be merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.iceberg_metadata import republish_iceberg
from paimon_spark.commit.publish import tell_watchers
from paimon_spark.errors import CommitError, PaimonError, StorageError, UnsupportedError
from paimon_spark.maintain.files.lease import one_at_a_time
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.maintain.refs.rollback import delete_later, forget_changelogs
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.ref_store import TagStore
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.paths import TablePaths
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class _Side:
    """The metadata of one branch, nothing of it cached."""

    io: FileIO
    paths: TablePaths

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.io, self.paths)

    @property
    def tags(self) -> TagStore:
        return TagStore(self.io, self.paths)

    def schema_ids(self) -> list[int]:
        return SchemaStore(self.io, self.paths).ids()

    def read(self, path: str) -> bytes | None:
        try:
            return self.io.read_bytes(path)
        except FileNotFoundError:
            return None

    def snapshot_bytes(self, snapshot_id: int) -> bytes | None:
        return self.read(self.paths.snapshot_path(snapshot_id))

    def schema_bytes(self, schema_id: int) -> bytes | None:
        return self.read(self.paths.schema_path(schema_id))


@one_at_a_time("a fast-forward")
def fast_forward(table: FileStoreTable, name: str) -> int:
    """Bring the table to the state of a branch; return the id of its latest snapshot.

    What was committed to the table since the branch began is forgotten: its snapshots and tags from the branch's
    earliest snapshot on, and schemas that the branch does not have. The branch stays.

    Args:
        table: the branch to be moved, nearly always ``main``.
        name: of the branch to move to.

    Raises:
        PaimonError: there is no such branch, it is this one or ``main``, or it has no snapshot; or older snapshots
            that stay have a schema that the branch has not. Nothing has changed.
        CommitError: another writer committed meanwhile, or something could not be deleted; the same call, run again,
            goes on.
    """
    if name == MAIN_BRANCH or not name.strip():
        raise PaimonError(f"Branch name '{name}' cannot be used in fast-forward.")
    if name == table.branch:
        raise PaimonError(f"Fast-forward from the current branch '{name}' is not allowed.")
    table.branches.check(name)
    if table.server is not None:
        return _forward_by_server(table, table.server, name)
    check_nothing_lost(table)
    ours, theirs = _Side(table.file_io, table.paths), _Side(table.file_io, table.paths.for_branch(name))
    their_ids = theirs.snapshots.ids()
    if not their_ids:
        raise PaimonError(f"Cannot fast forward branch {name}, because it does not have a snapshot.")
    first = their_ids[0]
    _check_schemas_of_kept(ours, theirs, first)
    _bring_first_snapshot(ours, theirs, first)
    kept = _shared_up_to(ours, theirs, first)
    _forget_later(table, ours, theirs, kept, first)
    forget_changelogs(table, max(kept, first))
    _take_schemas(ours, theirs, theirs.snapshots.get(first).schema_id)
    _take_snapshots(table, ours, theirs, [number for number in their_ids if number > kept])
    for tag in theirs.tags.names():
        data = theirs.read(theirs.paths.tag_path(tag))
        if data is not None and data != ours.read(ours.paths.tag_path(tag)):
            ours.io.write_bytes(ours.paths.tag_path(tag), data, overwrite=True)
    forget(table.path)
    tell_watchers(table)
    republish_iceberg(table)
    return their_ids[-1]


def _forward_by_server(table: FileStoreTable, server: TableServer, name: str) -> int:
    if table.branch != MAIN_BRANCH:
        raise PaimonError(f"A REST catalog moves the main branch alone, and this is branch '{table.branch}'.")
    if server.latest(name) is None:
        raise PaimonError(f"Cannot fast forward branch {name}, because it does not have a snapshot.")
    server.fast_forward(name)
    forget(table.path)
    tell_watchers(table)
    republish_iceberg(table)
    latest = server.latest("")
    return 0 if latest is None else latest.id


def _check_schemas_of_kept(ours: _Side, theirs: _Side, first: int) -> None:
    """Check that the older snapshots that stay can be read with the branch's schemas.

    It cannot where a rollback to an older schema was committed as a new snapshot, and the branch began there.
    """
    begin = theirs.snapshots.get(first).schema_id
    later = [number for number in ours.schema_ids() if number > begin]
    lost = {number for number in later if ours.schema_bytes(number) != theirs.schema_bytes(number)}
    if not lost:
        return
    kept = [(f"snapshot {number}", ours.snapshots.get(number)) for number in ours.snapshots.ids() if number < first]
    kept += [(f"tag '{name}'", tag.snapshot) for name, tag in ours.tags.list().items() if tag.snapshot.id < first]
    for what, snapshot in kept:
        if snapshot.schema_id in lost:
            raise PaimonError(
                f"Cannot fast forward {ours.paths.branch_root} to branch '{theirs.paths.branch}': {what} has schema "
                f"{snapshot.schema_id}, which the branch has not. Expire the snapshots and delete the tags of that "
                "schema first."
            )


def _bring_first_snapshot(ours: _Side, theirs: _Side, first: int) -> None:
    """Write the branch's first snapshot if it has expired here and the schemas agree, so that the table has one."""
    ids = ours.snapshots.ids()
    if not ids or first >= ids[0] or not _schemas_agree(ours, theirs, theirs.snapshots.get(first).schema_id):
        return
    data = theirs.snapshot_bytes(first)
    if data is not None:
        ours.io.create_exclusive(ours.paths.snapshot_path(first), data)
        ours.snapshots.write_earliest_hint(first)


def _schemas_agree(ours: _Side, theirs: _Side, schema_id: int) -> bool:
    """Return whether the schemas up to one id are the same in both branches."""
    return all(
        ours.schema_bytes(number) == theirs.schema_bytes(number)
        for number in theirs.schema_ids()
        if number <= schema_id
    )


def _shared_up_to(ours: _Side, theirs: _Side, first: int) -> int:
    """Return the last own snapshot that may stay: those before ``first``, then those equal to the branch's."""
    kept = first - 1
    for number in ours.snapshots.ids():
        if number == kept + 1 and ours.snapshot_bytes(number) == theirs.snapshot_bytes(number):
            kept = number
    return kept


def _forget_later(table: FileStoreTable, ours: _Side, theirs: _Side, kept: int, first: int) -> None:
    """Forget the snapshots after ``kept``, from the latest down, and the tags from ``first`` on."""
    ids = ours.snapshots.ids()
    remaining = [number for number in ids if number <= kept]
    if remaining:
        try:
            ours.snapshots.take_back(remaining[-1], ids[-1], later_id=theirs.snapshots.ids()[-1])
        except OSError as error:
            raise CommitError(
                f"{ours.paths.branch_root} was not moved to branch '{theirs.paths.branch}', and nothing was deleted: "
                f"the hint LATEST could not be written ({error}). See that {ours.paths.snapshot_dir} can be written "
                "and that nobody commits meanwhile, then fast-forward again."
            ) from error
    else:
        ours.io.delete_quietly(ours.paths.latest_hint_path)
        ours.io.delete_quietly(ours.paths.earliest_hint_path)
    delete_later(table, kept, [number for number in ids if number > kept], final_id=theirs.snapshots.ids()[-1])
    for tag, held in ours.tags.list().items():
        path = ours.paths.tag_path(tag)
        if held.snapshot.id >= first and ours.read(path) != theirs.read(theirs.paths.tag_path(tag)):
            _delete(ours, theirs, path, f"the tag '{tag}'")


def _take_schemas(ours: _Side, theirs: _Side, first_schema: int) -> None:
    """Take over the branch's schemas in ascending order, and drop the later ones that it does not have."""
    their_ids = theirs.schema_ids()
    for number in their_ids:
        data = theirs.schema_bytes(number)
        if data is not None and data != ours.schema_bytes(number):
            ours.io.write_bytes(ours.paths.schema_path(number), data, overwrite=True)
    for number in reversed(ours.schema_ids()):
        if number >= first_schema and number not in their_ids:
            _delete(ours, theirs, ours.paths.schema_path(number), f"schema {number}")


def _delete(ours: _Side, theirs: _Side, path: str, what: str) -> None:
    """Delete what the branch does not have: a later schema would stay the table's, a tag would name what is gone."""
    if ours.io.delete_quietly(path):
        return
    incomplete = f"Fast-forward of {ours.paths.branch_root} to branch '{theirs.paths.branch}' is not complete: {what}"
    try:
        ours.io.check_deletes(path)
    except StorageError as error:
        raise CommitError(f"{incomplete} is not deleted: {error}. Fast-forward again when the store answers") from error
    raise CommitError(f"{incomplete} could not be deleted. See that {path} may be deleted, then fast-forward again.")


def _take_snapshots(table: FileStoreTable, ours: _Side, theirs: _Side, numbers: list[int]) -> None:
    """Publish the branch's snapshots here, one after the other."""
    for number in numbers:
        data = theirs.snapshot_bytes(number)
        if data is None:
            raise CommitError(f"Snapshot {number} of branch '{theirs.paths.branch}' has expired meanwhile: try again.")
        if not ours.io.create_exclusive(ours.paths.snapshot_path(number), data):
            raise CommitError(
                f"Fast-forward of {table.path} to branch '{theirs.paths.branch}' is not complete: snapshot {number} "
                "was written meanwhile by another writer, or could not be deleted. Stop other writers and try again."
            )
        ours.snapshots.write_latest_hint(number)


_PLAIN = (CommitKind.APPEND, CommitKind.ANALYZE)


def merge_branch(table: FileStoreTable, source: str, target: str = MAIN_BRANCH) -> int | None:
    """Append to ``target`` the rows that ``source`` has got since it began; return the new snapshot's id.

    Data files are shared, not copied. None is returned when there is nothing to merge.

    Raises:
        PaimonError: a branch does not exist, has no snapshot or has not only appended since its first snapshot; or
            schemas differ.
        UnsupportedError: the table has primary keys, or data evolution.
        CommitConflictError: rivals won too often.
    """
    for what, name in (("Source", source), ("Target", target)):
        if not name.strip():
            raise PaimonError(f"{what} branch name '{name}' is blank.")
    if source == target:
        raise PaimonError(f"Cannot merge branch '{source}' into itself.")
    for name in (source, target):
        if not table.branches.exists(name):
            raise PaimonError(f"Branch '{name}' doesn't exist.")
    ours, theirs = table.on_branch(target), table.on_branch(source)
    _check_kinds(theirs, f"Cannot merge branch '{source}', because it does not have a snapshot.")
    _check_kinds(ours, f"Cannot merge into branch '{target}', because it does not have a snapshot.")
    _check_tables(theirs, ours)
    known = {entry.identifier() for entry in ours.manifests.live_entries(ours.snapshots.latest())}
    new = [
        entry for entry in theirs.manifests.live_entries(theirs.snapshots.latest()) if entry.identifier() not in known
    ]
    _check_schemas_of_files(theirs, ours, new)
    if not new:
        return None
    return commit(ours.with_options({"commit.discard-duplicate-files": "true"}), _messages(new))


def _check_kinds(table: FileStoreTable, without_snapshot: str) -> None:
    """Check that a branch has all its snapshots, and that all of them only append."""
    ids = table.snapshots.ids()
    if not ids:
        raise PaimonError(without_snapshot)
    need = "Branch merge requires complete append-only snapshot history."
    if ids[0] != FIRST_SNAPSHOT_ID:
        raise PaimonError(
            f"Cannot merge: branch '{table.branch}' does not start at snapshot {FIRST_SNAPSHOT_ID} "
            f"(earliest is {ids[0]}). {need}"
        )
    for number in range(FIRST_SNAPSHOT_ID, ids[-1] + 1):
        if number not in ids:
            raise PaimonError(f"Cannot merge: snapshot {number} is missing on branch '{table.branch}'. {need}")
        kind = table.snapshots.get(number).commit_kind
        if kind not in _PLAIN:
            raise PaimonError(
                f"Cannot merge: snapshot {number} on branch '{table.branch}' has commit kind '{kind.value}'. {need}"
            )


def _check_tables(source: FileStoreTable, target: FileStoreTable) -> None:
    for table in (source, target):
        if table.schema.kind.is_keyed:
            raise UnsupportedError(
                f"Branch merge is only supported for append-only tables, but branch '{table.branch}' has primary keys."
            )
        if table.schema.kind.has_data_evolution:
            raise UnsupportedError(
                f"Branch merge is not supported for data-evolution tables (branch '{table.branch}')."
            )
    tracked = [str(table.options.row_tracking_enabled).lower() for table in (source, target)]
    between = f"Cannot merge branch '{source.branch}' into '{target.branch}'"
    if tracked[0] != tracked[1]:
        raise PaimonError(f"{between}: row-tracking settings must match (source={tracked[0]}, target={tracked[1]}).")
    if source.schema.fields != target.schema.fields:
        raise PaimonError(f"{between}, schema mismatch.")


def _check_schemas_of_files(source: FileStoreTable, target: FileStoreTable, new: list[ManifestEntry]) -> None:
    between, there = f"Cannot merge branch '{source.branch}' into '{target.branch}'", target.schemas.ids()
    for schema_id in sorted({entry.file.schema_id for entry in new}):
        if schema_id not in there:
            raise PaimonError(
                f"{between}, because target branch does not contain schema id {schema_id} required by source files."
            )
        if source.schemas.get(schema_id) != target.schemas.get(schema_id):
            raise PaimonError(f"{between}, schema history mismatch for schema id {schema_id}.")


def _messages(new: list[ManifestEntry]) -> list[CommitMessage]:
    """Return the files by partition and bucket; row ids are given anew by the commit."""
    groups: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in new:
        location = (entry.partition, entry.bucket, entry.total_buckets)
        groups.setdefault(location, []).append(replace(entry.file, first_row_id=None))
    return [
        CommitMessage(partition, bucket, total, tuple(files)) for (partition, bucket, total), files in groups.items()
    ]
