"""The part of a `PaimonTable` that changes rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import RowCounts, counting
from paimon_spark.errors import OptionError
from paimon_spark.spark.columns.types import padded
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.session.session_options import SESSION_PREFIX, options_for_path, refuse_older_state
from paimon_spark.spark.session.session_settings import settings_of
from paimon_spark.spark.sql.matched_frames import FrameRows, assigned_values
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic, run_delete, run_update
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.expressions import Named
from paimon_spark.spark.table.handle import TablePart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.table.table import FileStoreTable


class Rows(TablePart):
    """Methods that delete and update rows, each in one commit. They run Spark jobs.

    Each reads one snapshot. When another commit has changed the same rows before it commits, it is run again from a
    fresh read, `commit.max-retries` times at most: no update is lost. A row that another commit makes fit the condition
    meanwhile, outside the keys that change, is not looked for again (snapshot isolation).
    """

    def delete(self, where: str | Column | None = None, *, condition: str | Column | None = None) -> RowCounts:
        """Delete the rows for which a condition is true.

        A condition on partition columns only takes whole partitions out, without reading them, as does no condition
        with the whole table. In primary-key tables the merge engine must know what a deleted row means
        (``deduplicate``; ``partial-update`` with ``partial-update.remove-record-on-delete``); in others
        deletion vectors delete the rows, where ``deletion-vectors.enabled`` is set; else files that have them are
        written anew.

        Args:
            where: an SQL condition over the table's columns, or a Column; None deletes all rows.
            condition: another word for `where`.

        Returns:
            How many rows were deleted, as ``num_affected_rows`` and ``num_deleted_rows``. None where whole partitions
            went, with a primary key or with deletion vectors: only a read could show.

        Raises:
            UnsupportedError: the table does not let single rows be deleted, or the condition is not deterministic.
            CommitConflictError: other commits changed the same rows again and again; nothing was committed.
        """
        where = _one_of(where, condition)
        refuse_nondeterministic(where)
        self._refuse_older_state()
        matched = self._matched(self.table.load(), where, {})
        with counting() as reported:
            run_delete(matched.table, matched)
        return reported.counts

    def update(
        self,
        set: Mapping[str, str | Column],  # noqa: A002 - the word of SQL
        where: str | Column | None = None,
        *,
        condition: str | Column | None = None,
    ) -> RowCounts:
        """Give columns new values, in the rows for which a condition is true.

        Values are cast as Spark stores values: what the column cannot hold is an error. Columns of the primary key
        keep their values.

        Args:
            set: the new values by column, as SQL expressions or Columns over the old row; ``"s.y"`` is the column of
                this name, else a field of the struct s.
            where: an SQL condition over the table's columns, or a Column; None updates all rows.
            condition: another word for `where`.

        Returns:
            How many rows were updated, as ``num_affected_rows`` and ``num_updated_rows``.

        Raises:
            UnsupportedError: a column of the primary key is among them, or the table cannot be updated.
            SchemaMismatchError: there is no such column.
            OptionError: the arguments are in the wrong order, or a value is neither SQL nor a Column.
            CommitConflictError: other commits changed the same rows again and again; nothing was committed.
        """
        if not isinstance(set, Mapping):
            raise OptionError(
                f"The new values come first, as a dict by column, not {set!r}: update({{'v': '1'}}, where='id = 1')."
            )
        if not set:
            raise OptionError("An update needs a new value at least: update({'v': '1'}, where='id = 1').")
        for name, value in set.items():
            _check_expression(f"The new value of {name}", value)
        where = _one_of(where, condition)
        refuse_nondeterministic(where)
        self._refuse_older_state()
        table = self.table.load()
        values = {
            (name,) if table.schema.has_field(name) else split_name(name): sf.expr(v) if isinstance(v, str) else v
            for name, v in set.items()
        }
        trees = assigned_values(values, table.schema.field_names)
        matched = self._matched(table, where, trees, given=tuple(set.values()))
        with counting() as reported:
            run_update(table, matched.values, matched)
        return reported.counts

    def _refuse_older_state(self) -> None:
        options = options_for_path(settings_of(self.table.spark), self.table.path)
        refuse_older_state(options, where=f": the session has set {SESSION_PREFIX}{{key}}; RESET it")

    def _matched(
        self,
        table: FileStoreTable,
        where: str | Column | None,
        values: dict[str, Any],
        given: Sequence[str | Column] = (),
    ) -> FrameRows:
        return FrameRows(
            self.table.spark,
            table,
            options={**self.table.options, "path": self.table.path},
            matching=lambda snapshot_id: self._matching(table, where, snapshot_id),
            marking=lambda rows: rows.withColumn(HIT, _marks(where)),
            filtering=None if where is None else lambda rows: rows.where(where),
            named=Named.by(where, *given),
            values=values,
            condition=where if isinstance(where, str) else None,
        )

    def _matching(self, table: FileStoreTable, where: str | Column | None, snapshot_id: int | None) -> DataFrame:
        if snapshot_id is None:
            rows = self.table.to_df()
        else:
            rows = padded(self.table.snapshot_rows(snapshot_id, opened=table), table.schema.fields)
        return rows if where is None else rows.where(where)


def _one_of(where: str | Column | None, condition: str | Column | None) -> str | Column | None:
    if where is not None and condition is not None:
        raise OptionError("where and condition are two words for one thing: give one of them")
    where = condition if where is None else where
    if where is not None:
        _check_expression("The condition", where)
    return where


def _check_expression(what: str, given: object) -> None:
    if not isinstance(given, str) and not hasattr(given, "cast"):  # as Columns of classic sessions and of Connect have
        raise OptionError(f"{what} is SQL, such as {str(given)!r}, or a Column, and not {given!r}")


def _marks(where: str | Column | None) -> Column:
    """Whether a condition is true, and not false or null."""
    condition = sf.lit(True) if where is None else sf.expr(where) if isinstance(where, str) else where
    return sf.coalesce(condition, sf.lit(False))
