"""Making, deleting and renaming branches.

Equals Java's ``FileSystemBranchManager`` (docs/internals/format.md §9), in another order, so that an interrupted
process leaves only what can be read or finished. The newest schema makes a branch visible: it is written after the
snapshot and before the older schemas, and is deleted last. A process claims a new branch by creating, exclusively, a
file that says what the branch begins with. A process that would begin it otherwise fails. A half-made branch is
finished if it holds only files of its beginning. Making a branch deletes and replaces nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, PaimonError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.maintain.files.lease import one_at_a_time
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.maintain.refs.tags import create_tag, snapshot_to_tag
from paimon_spark.spec.json_text import flat_json
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.ref_store import check_new_branch_name
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.paths import TablePaths
    from paimon_spark.table.table import FileStoreTable

_CLAIM = ".begins-with"
"""In the branch's directory while it is made; no engine looks at it."""
_READ_FROM = ("scan.fallback-branch", "scan.primary-branch")


@one_at_a_time("create_branch")
def create_branch(
    table: FileStoreTable,
    name: str,
    *,
    tag: str | None = None,
    snapshot_id: int | None = None,
    ignore_if_exists: bool = False,
) -> bool:
    """Make a branch that begins at a tag or a snapshot of this one, or without rows; return whether it was made.

    Args:
        table: the branch to begin from, nearly always ``main``.
        name: of the new branch.
        tag: the new branch begins with the snapshot that this tag holds, and has a copy of the tag.
        snapshot_id: the same for a snapshot. A tag ``branch-<name>`` is made for it first, in both branches: expiry in
            this branch by other engines would take the rows away otherwise. Not in Java.
        ignore_if_exists: do nothing instead of failing when there is such a branch.

    Raises:
        SnapshotNotFoundError: there is no such tag or snapshot.
        OptionError: both are given.
        PaimonError: there is such a branch, or a part of one that begins elsewhere; or its name is not allowed.
    """
    if tag is not None and snapshot_id is not None:
        raise OptionError("A branch begins at a tag or at a snapshot: give one of tag and snapshot_id, not both.")
    if ignore_if_exists and _is_made(table, name):
        return False
    check_new_branch_name(name)
    paths = table.paths.for_branch(name)
    _check_not_made(table, name)
    if table.server is not None:
        _create_by_server(table, table.server, name, tag, snapshot_id)
        return True
    begin: Snapshot | None = None
    if snapshot_id is not None:
        begin, tag = snapshot_to_tag(table, snapshot_id, "create"), f"branch-{name}"
    elif tag is not None:
        begin = table.tags.get(tag).snapshot
    claim, content = f"{paths.branch_root}/{_CLAIM}", _claim(tag, begin)
    first = table.file_io.create_exclusive(claim, content)
    try:
        held = content if first else _claimed(table, claim)
        _check_not_made(table, name)  # another process may have made it all meanwhile
        if held != content:
            raise _not_ours(table, paths, claim)
        if snapshot_id is not None and tag is not None and not _is_tagged(table, tag, snapshot_id):
            create_tag(table, tag, snapshot_id=snapshot_id)
        files = _files_to_copy(table, tag, paths)
        _check_no_others(table, paths, set(files))
    except PaimonError:
        if first:
            table.file_io.delete_quietly(claim)
            table.file_io.delete_empty_directory(paths.branch_root)
        raise
    for path, data in files.items():
        if not table.file_io.create_exclusive(path, data) and table.file_io.read_bytes(path) != data:
            raise _not_ours(table, paths, path)
    if begin is not None and tag is not None and not (table.tags.exists(tag) or table.snapshots.exists(begin.id)):
        _delete_directory(table, paths)
        raise SnapshotNotFoundError(
            f"Branch '{name}' is not made: tag '{tag}' was deleted meanwhile, perhaps with the files of its snapshot."
        )
    table.file_io.delete_quietly(claim)
    return True


def _create_by_server(
    table: FileStoreTable, server: TableServer, name: str, tag: str | None, snapshot_id: int | None
) -> None:
    """Let the server make a branch; of a snapshot by way of a tag that is made first."""
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(
            f"Branch '{name}' is not made: a REST catalog makes branches of the main branch alone, and this is branch "
            f"'{table.branch}'."
        )
    if tag is not None:
        table.tags.get(tag)
    if snapshot_id is not None:
        snapshot_to_tag(table, snapshot_id, "create")
        tag = f"branch-{name}"
        if not _is_tagged(table, tag, snapshot_id):
            create_tag(table, tag, snapshot_id=snapshot_id)
    server.create_branch(name, tag)


def _is_made(table: FileStoreTable, name: str) -> bool:
    """Return whether the branch is complete; delete the claim of a process that ended right after its work."""
    made = table.branches.exists(name) and not _is_half_made(table, name)
    if made and name != MAIN_BRANCH:
        table.file_io.delete_quietly(f"{table.paths.for_branch(name).branch_root}/{_CLAIM}")
    return made


def _check_not_made(table: FileStoreTable, name: str) -> None:
    if _is_made(table, name):
        raise PaimonError(f"Branch name '{name}' already exists.")


def _claim(tag: str | None, begin: Snapshot | None) -> bytes:
    return flat_json({"tag": tag, "snapshotId": None if begin is None else begin.id}).encode()


def _claimed(table: FileStoreTable, claim: str) -> bytes | None:
    """Return what another process's claim says the branch begins with; None if it has just finished."""
    try:
        return table.file_io.read_bytes(claim)
    except FileNotFoundError:
        return None


def _is_tagged(table: FileStoreTable, tag: str, snapshot_id: int) -> bool:
    return table.tags.exists(tag) and table.tags.get(tag).snapshot.id == snapshot_id


def _files_to_copy(table: FileStoreTable, tag: str | None, target: TablePaths) -> dict[str, bytes]:
    """What a new branch consists of, in the order in which it is written: a tag, its snapshot, schemas."""
    files: dict[str, bytes] = {}
    schema_ids = table.schemas.ids()
    if tag is not None:
        snapshot = table.tags.get(tag).snapshot
        schema_ids = [number for number in schema_ids if number <= snapshot.schema_id]
        try:
            data = table.file_io.read_bytes(table.paths.snapshot_path(snapshot.id))
        except FileNotFoundError:  # it has expired
            data = snapshot.to_json().encode()
        files[target.snapshot_path(snapshot.id)] = data
        files[target.tag_path(tag)] = table.file_io.read_bytes(table.paths.tag_path(tag))
    for number in reversed(schema_ids):
        files[target.schema_path(number)] = table.file_io.read_bytes(table.paths.schema_path(number))
    return files


def _check_no_others(table: FileStoreTable, paths: TablePaths, expected: set[str]) -> None:
    """Check that the directory of a half-made branch holds no other files: they are never deleted."""
    for entry in table.file_io.list_names(paths.branch_root):
        path = f"{paths.branch_root}/{entry.name}"
        inside = [f"{path}/{each.name}" for each in table.file_io.list_names(path)] if entry.is_dir else [path]
        other = next((p for p in inside if p not in expected and not p.rpartition("/")[2].startswith(".")), None)
        if other is not None:
            raise _not_ours(table, paths, other)


def _not_ours(table: FileStoreTable, paths: TablePaths, path: str) -> PaimonError:
    return PaimonError(
        f"Branch name '{paths.branch}' already exists in part: {path} of {table.path} is not what this branch begins "
        "with. If no other process is making or deleting the branch right now, delete it first (delete_branch)."
    )


def _is_half_made(table: FileStoreTable, name: str) -> bool:
    """Return whether a branch lacks schemas, because the process that made or deleted it was ended."""
    there = SchemaStore(table.file_io, table.paths.for_branch(name)).ids()
    return not there or any(number < there[-1] and number not in there for number in table.schemas.ids())


@one_at_a_time("delete_branch")
def delete_branch(table: FileStoreTable, names: Sequence[str] | str, *, ignore_if_missing: bool = False) -> None:
    """Delete one branch, or several between commas or in a list; data files stay for `remove_orphan_files`.

    Raises:
        PaimonError: a branch does not exist, is read by the table's options, is this one or ``main``, or could not be
            deleted. In the first cases none is deleted.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    branches = table.branches
    chosen = [name for name in given if not ignore_if_missing or branches.exists(name)]
    for name in chosen:
        branches.check(name)
        if name in (MAIN_BRANCH, table.branch):
            which = "the main branch" if name == MAIN_BRANCH else "the branch by which the table was opened"
            raise PaimonError(f"Cannot delete branch '{name}': it is {which}.")
        _check_not_read(table, name, "delete")
    check_nothing_lost(table)
    for name in chosen:
        forget(table.path)
        if table.server is not None:
            table.server.delete_branch(name)
            continue
        _delete_directory(table, table.paths.for_branch(name))


def _check_not_read(table: FileStoreTable, name: str, verb: str) -> None:
    for key in _READ_FROM:
        if table.options.get(key) == name:
            raise PaimonError(
                f"Cannot {verb} branch '{name}' because it is configured as '{key}'. Unset '{key}' first."
            )


def _delete_directory(table: FileStoreTable, paths: TablePaths) -> None:
    """Delete a branch, its schemas last: until then it is a branch with fewer snapshots, and can be deleted again."""
    for directory in (paths.snapshot_dir, paths.changelog_dir, paths.tag_dir, paths.consumer_dir, paths.branch_root):
        table.file_io.delete_quietly(directory, recursive=True)
    if table.file_io.exists(paths.branch_root):
        table.file_io.check_deletes(paths.branch_root)
        raise PaimonError(f"Branch '{paths.branch}' of {table.path} could not be deleted completely. Please try again.")


@one_at_a_time("rename_branch")
def rename_branch(table: FileStoreTable, name: str, new_name: str) -> None:
    """Rename a branch, or finish a rename of these names that was stopped.

    Raises:
        PaimonError: there is no such branch, one of the new name, or that name is not allowed; or the table's options
            read the branch by its name.
    """
    if name == MAIN_BRANCH:
        raise PaimonError("Cannot rename the main branch.")
    branches = table.branches
    branches.check(name)
    check_new_branch_name(new_name)
    forget(table.path)
    if table.server is not None:
        if branches.exists(new_name):
            raise PaimonError(f"Branch name '{new_name}' already exists.")
        _check_not_read(table, name, "rename")
        if not (table.server.rename_branch(name, new_name) and branches.exists(new_name)):  # some take it for nothing
            raise UnsupportedError(
                f"Branch '{name}' is not renamed: the server of the REST catalog cannot do that. Create '{new_name}' "
                "of a tag of it instead."
            )
        return
    source, target = table.paths.for_branch(name).branch_root, table.paths.for_branch(new_name).branch_root
    if table.file_io.finish_rename(source, target):
        return
    if branches.exists(new_name):
        raise PaimonError(f"Branch name '{new_name}' already exists.")
    _check_not_read(table, name, "rename")
    table.file_io.rename(source, target)
