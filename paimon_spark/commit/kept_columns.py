"""Whether a commit keeps all columns of the rows that it writes anew.

A job that opened the table before ALTER TABLE ADD COLUMN (or before a type was widened) reads files that others wrote
since without the new column. Files or rows made of such a read would lose its values without a word.
"""

# Java: rewrites such files and loses the values

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.commit.conflict_detection import newer_columns
from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.spec.manifest import FileKind

if TYPE_CHECKING:
    from paimon_spark.commit.changes import Changes, CollectedChanges
    from paimon_spark.table.snapshot_identity import SnapshotIdentity
    from paimon_spark.table.table import FileStoreTable


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
        schema_id = max(schema_id, _schema_of(table, rows_of))
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


def _schema_of(table: FileStoreTable, identity: SnapshotIdentity) -> int:
    try:
        found = identity.find(table.snapshots)
    except SnapshotNotFoundError:
        return 0  # the check of conflicts names it
    return 0 if found is None else found.schema_id
