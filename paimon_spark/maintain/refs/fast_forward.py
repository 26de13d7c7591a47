"""Fast-forward: a branch's snapshots, schemas and tags become those of the main branch.

The result equals that of Java's ``FileSystemBranchManager.fastForward`` (docs/internals/format.md §9). Java deletes
first and then copies. Here the table goes to the branch's first snapshot first: it can be read after every step, and a
second run finishes the work. Files that only the forgotten snapshots held stay for `remove_orphan_files`, as in Java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import republish_iceberg
from paimon_spark.errors import CommitError, PaimonError
from paimon_spark.maintain.files.lost_snapshot import check_nothing_lost
from paimon_spark.maintain.files.one_at_a_time import one_at_a_time
from paimon_spark.maintain.refs.rollback import delete_later, forget_changelogs
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.tag_store import TagStore
from paimon_spark.table.watchers import changed

if TYPE_CHECKING:
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
        CommitError: another writer committed meanwhile; try again when it has stopped.
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
    changed(table)
    republish_iceberg(table)
    return their_ids[-1]


def _forward_by_server(table: FileStoreTable, server: TableServer, name: str) -> int:
    if table.branch != MAIN_BRANCH:
        raise PaimonError(f"A REST catalog moves the main branch alone, and this is branch '{table.branch}'.")
    if server.latest(name) is None:
        raise PaimonError(f"Cannot fast forward branch {name}, because it does not have a snapshot.")
    server.fast_forward(name)
    changed(table)
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
            ours.io.delete_quietly(path)


def _take_schemas(ours: _Side, theirs: _Side, first_schema: int) -> None:
    """Take over the branch's schemas in ascending order, and drop the later ones that it does not have."""
    their_ids = theirs.schema_ids()
    for number in their_ids:
        data = theirs.schema_bytes(number)
        if data is not None and data != ours.schema_bytes(number):
            ours.io.write_bytes(ours.paths.schema_path(number), data, overwrite=True)
    for number in reversed(ours.schema_ids()):
        if number >= first_schema and number not in their_ids:
            ours.io.delete_quietly(ours.paths.schema_path(number))


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
