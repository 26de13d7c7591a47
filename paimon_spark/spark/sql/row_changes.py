"""What DELETE and UPDATE do, for every front: truncate, drop partitions, write rows with their kinds, rewrite files.

A front (the catalog, `paimon_spark.sql`, `PaimonTable`) finds the rows of a statement: it gives `MatchedRows`. The way
is chosen before anything is written (`delete_strategy`, `update_strategy`), and EXPLAIN shows it. Without a condition
the table is emptied; a condition over partition columns only drops partitions; rows of a primary-key table are written
with their row kind, or, where its merge engine has no deleted rows, left out of the files that held them; in other
tables deletion vectors delete the rows, and without vectors the files that hold such rows are written anew. Each is one
snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.row_level import (
    check_row_delete,
    check_update,
    columns_kept_by_engine,
    delete_partitions,
    deletes_by_rewriting,
    is_partition_delete,
    truncate,
)
from paimon_spark.spark.columns.types import stored, to_spark_type
from paimon_spark.spark.jobs.located_rows import delete_by_rewriting, rewrite_rows, update_rows, write_deletions
from paimon_spark.spark.jobs.shuffled_write import write_shuffled
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spark.session.rows_at_hand import rows_at_hand
from paimon_spark.spark.sql.merge_strategy import has_own_buckets
from paimon_spark.spark.statements.expressions import Named
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_NONDETERMINISTIC = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id"),
    )
)
_IN_DRIVER = "in the driver (few rows are read)"
_BY_TASKS = "by tasks"


def refuse_nondeterministic(*conditions: str | Column | None) -> None:
    """Refuse conditions that have another value at each evaluation: a task that is run again would disagree.

    Raises:
        UnsupportedError: names the function.
    """
    found = sorted(Named.by(*conditions).functions & _NONDETERMINISTIC)
    if found:
        raise UnsupportedError(
            f"{found[0]}() in the condition of a delete or update is not supported: it is not deterministic. Write "
            "the keys of the rows into a table first, and name that"
        )


class MatchedRows(ABC):
    """The rows for which the condition of a statement is true, as one front finds them."""

    @property
    @abstractmethod
    def matches_all(self) -> bool:
        """Whether the statement has no condition."""

    @abstractmethod
    def partitions(self, table: FileStoreTable) -> list[dict[str, Any]] | None:
        """The partitions for which the condition is true; None where it is about other columns."""

    @abstractmethod
    def rows(self, snapshot_id: int | None) -> DataFrame:
        """The matched rows of a snapshot (None: there is none yet), all columns, an UPDATE's with their new values."""

    @abstractmethod
    def paths(self, snapshot_id: int) -> DataFrame:
        """The column `FILE_PATH` of the matched rows of a snapshot."""

    @abstractmethod
    def rows_of_files(self, snapshot_id: int, files: Sequence[str]) -> DataFrame:
        """All rows of some files of a snapshot, as `rewrite_rows` needs them."""

    @abstractmethod
    def columns_read(self) -> Collection[str] | None:
        """The columns that the condition and the new values depend on, at least these; None for all."""

    @abstractmethod
    def located(self, snapshot_id: int) -> DataFrame:
        """The matched rows of a snapshot, an UPDATE's with their new values, as `write_deletions` needs them."""


class ChangeWay(Enum):
    """How rows are deleted or updated."""

    TRUNCATE = "the whole table is dropped"
    PARTITIONS = "whole partitions are dropped"
    ROW_KINDS = "row kinds"
    """The rows are written with their row kinds."""
    COMPANION_COLUMNS = "companion columns"
    """The changed columns are written into companion files."""
    DELETION_VECTORS = "deletion vectors"
    """Old rows are deleted by deletion vectors, new rows are appended."""
    FILE_REWRITE = "file rewrite"
    """The files that hold such rows are written anew."""


@dataclass(frozen=True, slots=True)
class ChangeStrategy:
    """The way of a DELETE or UPDATE, and why it is taken: chosen before anything is written."""

    way: ChangeWay
    reason: str
    statement: Operation
    partitions: Sequence[dict[str, Any]] = ()
    """What is dropped, where it is partitions."""
    columns: Collection[str] = ()
    """What an UPDATE assigns, as the table names it."""

    def __str__(self) -> str:
        return f"{self.way.value} ({self.reason})"


def delete_strategy(table: FileStoreTable, matched: MatchedRows) -> ChangeStrategy:
    """Choose how the matched rows are deleted.

    Args:
        table: the table with the options of the statement.
        matched: the rows.
    """
    delete = Operation.DELETE
    if matched.matches_all:
        return ChangeStrategy(ChangeWay.TRUNCATE, "no condition", delete)
    partitions = matched.partitions(table) if is_partition_delete(table) else None
    if partitions is not None:
        return ChangeStrategy(ChangeWay.PARTITIONS, "the condition is about partition columns", delete, partitions)
    if deletes_by_rewriting(table):
        return ChangeStrategy(ChangeWay.FILE_REWRITE, "the merge engine has no deleted rows", delete)
    return _strategy_of_rows(table, delete)


def update_strategy(table: FileStoreTable, columns: Collection[str]) -> ChangeStrategy:
    """Choose how rows are updated.

    Args:
        table: the table with the options of the statement.
        columns: those that get new values, as the table names them.
    """
    if table.options.data_evolution_enabled:
        reason = "data-evolution.enabled = true"
        return ChangeStrategy(ChangeWay.COMPANION_COLUMNS, reason, Operation.UPDATE, columns=columns)
    return _strategy_of_rows(table, Operation.UPDATE, columns)


def _strategy_of_rows(table: FileStoreTable, statement: Operation, columns: Collection[str] = ()) -> ChangeStrategy:
    if table.schema.kind.is_keyed:
        way, reason = ChangeWay.ROW_KINDS, "the table has a primary key"
    elif table.options.deletion_vectors_enabled:
        way, reason = ChangeWay.DELETION_VECTORS, "deletion-vectors.enabled = true"
    else:
        way, reason = ChangeWay.FILE_REWRITE, "the table has no primary key and no deletion vectors"
    return ChangeStrategy(way, reason, statement, columns=columns)


def run_delete(table: FileStoreTable, matched: MatchedRows) -> None:
    """Delete the matched rows; arguments and errors as of `change_by`."""
    change_by(delete_strategy(table, matched), table, matched)


def run_update(table: FileStoreTable, columns: Collection[str], matched: MatchedRows) -> None:
    """Write the matched rows with new values of `columns`; other arguments and errors as of `change_by`."""
    change_by(update_strategy(table, columns), table, matched)


def change_by(strategy: ChangeStrategy, table: FileStoreTable, matched: MatchedRows) -> None:
    """Delete or update the matched rows in the way that was chosen.

    Args:
        strategy: of `delete_strategy` or `update_strategy`.
        table: the table with the options of the statement.
        matched: the rows.

    Raises:
        UnsupportedError: a column or the table cannot be changed so; nothing was written.
        PaimonError: as of every write.
    """
    if strategy.way is ChangeWay.TRUNCATE:
        truncate(table)
        return
    if strategy.way is ChangeWay.PARTITIONS:
        delete_partitions(table, strategy.partitions)
        return
    check_change(strategy, table)
    if strategy.statement is Operation.DELETE and deletes_by_rewriting(table):
        _delete_by_rewriting(table, matched)
    elif strategy.way is ChangeWay.COMPANION_COLUMNS:
        _change_columns(table, strategy.columns, matched)
    elif strategy.statement is Operation.DELETE:
        change_rows(table, matched, sf.lit(RowKind.DELETE.value), Operation.DELETE)
    else:
        left_out = columns_kept_by_engine(table.schema) - set(strategy.columns)
        change_rows(table, matched, sf.lit(RowKind.UPDATE_AFTER.value), Operation.UPDATE, left_out)


def check_change(strategy: ChangeStrategy, table: FileStoreTable) -> None:
    """Refuse what a table does not take.

    Args:
        strategy: of `delete_strategy` or `update_strategy`.
        table: the table with the options of the statement.

    Raises:
        UnsupportedError: names the column or the option that prevents it.
    """
    if strategy.way in (ChangeWay.TRUNCATE, ChangeWay.PARTITIONS):
        return
    if strategy.statement is Operation.UPDATE:
        check_update(table, strategy.columns)
    else:
        check_row_delete(table)


def executor_of(table: FileStoreTable, strategy: ChangeStrategy, matched: MatchedRows) -> str | None:
    """Who does the work, for EXPLAIN; None where no row is read. As far as it takes, rows are read for the answer."""
    if strategy.way in (ChangeWay.TRUNCATE, ChangeWay.PARTITIONS):
        return None
    snapshot, kind = table.snapshots.latest_to_follow(), table.schema.kind
    if kind.has_data_evolution or snapshot is None or (kind.is_keyed and not has_own_buckets(table.schema)):
        return _BY_TASKS
    if strategy.way is ChangeWay.ROW_KINDS:
        rows = matched.rows(snapshot.id)
    elif kind.is_keyed or strategy.way is ChangeWay.DELETION_VECTORS:
        rows = matched.located(snapshot.id)
    else:
        rows = matched.paths(snapshot.id)
    return _BY_TASKS if rows_at_hand(rows) is None else _IN_DRIVER


def _delete_by_rewriting(table: FileStoreTable, matched: MatchedRows) -> None:
    """Write the files anew that hold matched rows: a row that is written as deleted would not remove them."""

    def attempt(snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            delete_by_rewriting(partial(matched.located, snapshot.id), table, snapshot)

    run_again(table, attempt)


def _change_columns(table: FileStoreTable, columns: Collection[str], matched: MatchedRows) -> None:
    """Write the new values of rows that are there, and nothing else of these rows (data evolution)."""

    def attempt(snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            rows = matched.located(snapshot.id)
            update_rows(rows, table, columns, snapshot, Operation.UPDATE, matched.columns_read())

    run_again(table, attempt)


def change_rows(
    table: FileStoreTable,
    matched: MatchedRows,
    kind: Column,
    operation: Operation,
    left_out: Collection[str] = (),
) -> None:
    """Read the rows of one snapshot, change and commit them. After a conflict, start again from the latest snapshot.

    Args:
        table: the table with the options of the statement.
        matched: the rows. In a primary-key table no two have one key.
        kind: the value of `RowKind` of each row of a primary-key table, over the columns of `matched.rows`.
        operation: the statement.
        left_out: columns of a primary-key table that keep their values where a row has none.

    Raises:
        CommitConflictError: other commits changed the same rows every time; nothing was committed.
        PaimonError: as of every write; nothing was committed then.
    """

    def attempt(snapshot: Snapshot | None) -> None:
        if table.schema.primary_keys:
            changed = matched.rows(None if snapshot is None else snapshot.id)
            _write_changes(changed, table, kind, operation, left_out, rows_of=SnapshotIdentity.of(snapshot))
        elif snapshot is not None and table.options.deletion_vectors_enabled:
            write_deletions(matched.located(snapshot.id), table, snapshot, operation, matched.columns_read())
        elif snapshot is not None:
            rows_of_files = partial(matched.rows_of_files, snapshot.id)
            rewrite_rows(matched.paths(snapshot.id), rows_of_files, table, snapshot.id, operation)

    run_again(table, attempt)


def _write_changes(
    rows: DataFrame,
    table: FileStoreTable,
    kind: Column,
    operation: Operation,
    left_out: Collection[str],
    *,
    rows_of: SnapshotIdentity,
) -> None:
    """Write rows with their kinds into a primary-key table, and commit them."""
    # no column of a table can have this name
    held = zip(table.schema.fields, stored(rows, table.schema.field_names), strict=True)
    columns = [
        sf.lit(None).cast(to_spark_type(field.type)).alias(field.name) if field.name in left_out else column
        for field, column in held
    ]
    changes = rows.select(*columns, kind.cast("tinyint").alias(VALUE_KIND.name))
    write_shuffled(RowsToWrite(changes, table, operation=operation, rows_of=rows_of))
