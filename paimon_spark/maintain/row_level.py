"""DELETE and UPDATE: which tables take them row by row, and the commit that drops whole partitions.

In a primary-key table a changed row is written again: as -D, or with its new values as +U. In other tables, and where
the merge engine knows no -D, the files with such rows are rewritten, and one commit replaces the old files. Equals
Java's ``validatePKUpsertDeletable``, ``RowLevelOp`` and ``TruncatePaimonTableWithFilterExec``. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.commit.row_counts import report_dropped
from paimon_spark.errors import CommitConflictError, UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.column_update import check_updatable_columns
from paimon_spark.read.postponed_read import merges_postponed, postponed_entries
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.support import check_no_global_index, check_readable, check_writable
from paimon_spark.table.two_branches import other_branch, own_partitions
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_REMOVES = "partial-update.remove-record-on-delete"
_REMOVES_BY_GROUP = "partial-update.remove-record-on-sequence-group"
_AGGREGATION_REMOVES = "aggregation.remove-record-on-delete"
_UPDATABLE = ("deduplicate", "partial-update")


def check_row_delete(table: FileStoreTable) -> None:
    """Refuse a DELETE of single rows that neither a -D nor rewriting files can do.

    Raises:
        UnsupportedError: names the option that prevents it, and what to do.
    """
    _check_changeable(table, "DELETE")
    if table.schema.kind.is_keyed and _reason_against_deletes(table.schema) is None:
        _check_row_kinds(table.schema)


def deletes_by_rewriting(table: FileStoreTable) -> bool:
    """Whether a DELETE rewrites the files of a primary-key table, since a -D would not remove a row.

    Equals Java's ``usePKUpsertDelete``.
    """
    return table.schema.kind.is_keyed and _reason_against_deletes(table.schema) is not None


def only_compacted(table: FileStoreTable) -> UnsupportedError:
    """The error of a DELETE by rewriting that finds rows which are merged from several files."""
    return UnsupportedError(
        f"DELETE is not supported while rows of table {table.path} are merged from several files: only a compacted "
        f"table with merge engine {_merge_engine(table.schema)} can be deleted from, please use 'COMPACT' procedure "
        f"first (CALL sys.compact). {_reason_against_deletes(table.schema)}"
    )


def _check_deleted_rows(table: FileStoreTable) -> None:
    """Refuse to write rows as -D where that does not remove them."""
    reason = _reason_against_deletes(table.schema)
    if reason is not None:
        raise UnsupportedError(reason)
    _check_row_kinds(table.schema)


def _check_row_kinds(schema: TableSchema) -> None:
    """Refuse to write rows as -D where a column says of which kind they are."""
    kind_field = schema.core_options.rowkind_field
    if kind_field is not None:
        raise UnsupportedError(
            f"DELETE is not supported with option 'rowkind.field' = '{kind_field}': column {kind_field} of each row "
            f"says whether it is deleted. INSERT the rows with '-D' in it."
        )


def _reason_against_deletes(schema: TableSchema) -> str | None:
    """Why a -D does not remove a row; None where it does."""
    options, engine = schema.core_options, _merge_engine(schema)
    if engine == "partial-update":
        if not options.value(_REMOVES) and options.get(_REMOVES_BY_GROUP) is None:
            return _cannot_delete(
                engine,
                f"set {_REMOVES} to true when there is no fields.<field>.sequence-group, or set {_REMOVES_BY_GROUP}",
            )
    elif engine == "aggregation":
        if not options.value(_AGGREGATION_REMOVES):
            return _cannot_delete(engine, f"set {_AGGREGATION_REMOVES} to true")
    elif engine != "deduplicate":
        return (
            f"Merge engine {engine} does not support batch delete. Whole partitions can be deleted: "
            f"compare partition columns only."
        )
    return None


def check_update(table: FileStoreTable, columns: Collection[str]) -> None:
    """Refuse an UPDATE that cannot be done by writing the new rows.

    Args:
        table: the table.
        columns: names of the columns that get other values.

    Raises:
        UnsupportedError: names the column or the option that prevents it.
    """
    _check_changeable(table, "UPDATE")
    if table.schema.kind.has_data_evolution:
        check_updatable_columns(table, columns)
    if not table.schema.kind.is_keyed:
        return
    keys = [key for key in table.schema.primary_keys if key in columns]
    if keys:
        raise UnsupportedError(
            f"Can't update the primary key column. {', '.join(keys)} is in the primary key of table {table.path}: "
            "DELETE the rows and INSERT them with the new primary key."
        )
    engine = _merge_engine(table.schema)
    if engine not in _UPDATABLE:
        raise UnsupportedError(
            f"Merge engine {engine} does not support Update, currently only {', '.join(_UPDATABLE)} can support Update."
        )


def columns_kept_by_engine(schema: TableSchema) -> frozenset[str]:
    """The columns that keep their values where an updated row has none: it needs not repeat them.

    Engine partial-update does so, as long as no sequence group and no aggregate function looks at them, and no
    changelog shows the rows as they are written.
    """
    options = schema.core_options
    if _merge_engine(schema) != "partial-update" or options.changelog_producer == "input":
        return frozenset()
    if any(key.endswith((".sequence-group", "aggregate-function")) for key in schema.options):
        return frozenset()
    named = {*schema.primary_keys, *schema.partition_keys, *options.sequence_fields}
    free = (field for field in schema.fields if field.type.nullable and field.default_value is None)
    return frozenset(field.name for field in free if field.name not in named)


def check_merge(table: FileStoreTable, *, updates: bool, deletes: bool) -> None:
    """Refuse a MERGE that cannot be done by writing the rows that it makes (Java: ``RowLevelOp``).

    Raises:
        UnsupportedError: names the option that prevents it, and what to do.
    """
    _check_changeable(table, "MERGE INTO")
    if deletes and table.schema.kind.has_data_evolution:
        _check_changeable(table, "DELETE")
    if not table.schema.kind.is_keyed:
        return
    engine = _merge_engine(table.schema)
    if updates and engine not in _UPDATABLE:
        raise UnsupportedError(
            f"Merge engine {engine} does not support MERGE INTO with UPDATE, currently only {', '.join(_UPDATABLE)} "
            f"can support it. INSERT the rows instead: the merge engine updates those of equal keys."
        )
    if deletes:
        _check_deleted_rows(table)


def _check_changeable(table: FileStoreTable, statement: str) -> None:
    check_readable(table.schema)
    check_writable(table.schema)
    data_evolution, has_vectors = table.schema.kind.has_data_evolution, table.options.deletion_vectors_enabled
    if data_evolution and statement == "DELETE" and not has_vectors:
        raise UnsupportedError(
            "Can only perform deletion operation on data evolution tables with DeletionVector enabled. "
            "DELETE is not supported without. Set option 'deletion-vectors.enabled' = 'true'."
        )
    check_no_global_index(table, statement)
    snapshot = table.snapshots.latest_to_follow() if merges_postponed(table) else None
    if snapshot is not None and postponed_entries(table.manifests.live_entries(snapshot)):
        raise UnsupportedError(
            f"{statement} is not supported while rows are postponed and 'postpone.merge-on-read' shows them: "
            "they would replace the changed rows. Take them into buckets first: CALL sys.compact."
        )
    if other_branch(table) is not None:
        raise UnsupportedError(
            f"{statement} is not supported for a table that reads a second branch as well: change each branch by its "
            f"own name, <table>$branch_<branch>, without option scan.fallback-branch or scan.primary-branch."
        )


def _merge_engine(schema: TableSchema) -> str:
    return str(schema.options.get("merge-engine", "deduplicate")).strip().lower()


def _cannot_delete(engine: str, advice: str) -> str:
    return (
        f"Merge engine {engine} doesn't support batch delete by default. To support batch delete, please {advice}. "
        f"Whole partitions can be deleted: compare partition columns only."
    )


def replaced_files(table: FileStoreTable, snapshot: int, files: Sequence[str]) -> list[CommitMessage]:
    """Return the files that a commit removes because they were rewritten (Java: ``buildDeletedCommitMessage``).

    Args:
        table: without primary key.
        snapshot: id of the snapshot that was read.
        files: names or paths of files of that snapshot.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile.
        CommitConflictError: it has no such file.
    """
    names = {file.rsplit("/", 1)[-1] for file in files}
    found: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in table.manifests.live_entries(table.snapshots.get(snapshot), names=names):
        found.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
        names.remove(entry.file.file_name)
    if names:
        raise CommitConflictError(f"Snapshot {snapshot} of table {table.path} has no file {min(names)}.")
    return [CommitMessage(*location, new_files=(), deleted_files=tuple(gone)) for location, gone in found.items()]


def is_partition_delete(table: FileStoreTable) -> bool:
    """Whether a DELETE by partition columns only drops whole partitions without reading them."""
    schema = table.schema
    produces = bool(schema.core_options.value("delete.force-produce-changelog"))
    return bool(schema.partition_keys) and not produces and other_branch(table) is None


def live_partitions_of(table: FileStoreTable) -> list[dict[str, Any]]:
    """The values of each partition that has files, by the names of the partition columns."""
    rows: list[dict[str, Any]] = table.manifests.partition_batch(own_partitions(table)).to_pylist()
    return rows


def delete_partitions(table: FileStoreTable, partitions: Sequence[Mapping[str, Any]]) -> int | None:
    """Drop whole partitions in one commit; return its snapshot id, None without partitions.

    Args:
        table: the table.
        partitions: values of some or all partition columns each.

    Raises:
        CommitError: nothing was committed.
    """
    if not partitions:
        return None
    return truncate(table, *partitions)


def truncate(table: FileStoreTable, *partitions: Mapping[str, Any]) -> int | None:
    """Empty the table, or the partitions that match any of `partitions`; returns the id of the new snapshot.

    Raises:
        CommitError: nothing was committed.
    """
    spec = OverwriteSpec.truncate(*partitions)
    made = commit(table, [], overwrite=spec, operation=Operation.TRUNCATE, after_commit=maintenance(table))
    report_dropped(table, made)
    return made
