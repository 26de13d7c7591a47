"""Merging: the files that one branch of an append table has and another lacks are appended to the other.

Equals Java's ``FileSystemBranchManager.mergeBranch`` and ``BranchMergeHandler``. Both branches must have all their
snapshots from the first on, appends only: no record says where a branch began, so other histories cannot be merged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.table import load_table
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
    from paimon_spark.table.table import FileStoreTable

_PLAIN = (CommitKind.APPEND, CommitKind.ANALYZE)


def merge_branch(table: FileStoreTable, source: str, target: str = MAIN_BRANCH) -> int | None:
    """Append to ``target`` the rows that ``source`` has got since it began; return the new snapshot's id.

    Data files are shared, not copied. None is returned when there is nothing to merge.

    Args:
        table: any branch of the table.
        source: the branch with the rows.
        target: the branch to get them.

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
    ours, theirs = _opened(table, target), _opened(table, source)
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


def _opened(table: FileStoreTable, branch: str) -> FileStoreTable:
    return load_table(table.path, branch=branch, file_io=table.file_io)


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
