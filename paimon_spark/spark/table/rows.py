"""The part of a `PaimonTable` that changes rows: deletes, updates, and merges of a DataFrame.

A source that reads the target itself reads the snapshot that the statement reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.commit.row_counts import RowCounts, counting
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options.core_options import OPENED_AT, READS_LEVEL_0
from paimon_spark.options.registry import column_names
from paimon_spark.read.postponed_read import hides_rows, refuse_self_overwrite
from paimon_spark.spark.columns.types import padded
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.pushdown.connect_loads import unpinned
from paimon_spark.spark.session.connect_plans import is_paimon_load, load_options, unknown_views, with_loads
from paimon_spark.spark.session.session_options import (
    POINTS_OF_TIME,
    SESSION_PREFIX,
    options_for_path,
    refuse_older_state,
)
from paimon_spark.spark.session.session_settings import activate, is_connect, settings_of
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.spark.sql.column_conditions import as_sql
from paimon_spark.spark.sql.matched_frames import FrameRows, assigned_values
from paimon_spark.spark.sql.merge import rules_of, run_frame_merge
from paimon_spark.spark.sql.merge_frames import FrameMerge, GivenClause, equal_columns
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic, run_delete, run_update
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.expressions import Named
from paimon_spark.spark.statements.query_trees import named_tables
from paimon_spark.spark.table.handle import TableHandle, TablePart, user_methods
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.table.table import FileStoreTable


def pinned_source(
    source: DataFrame, table: FileStoreTable, snapshot_id: int | None, *, replaced: bool = False
) -> DataFrame:
    """Return a source whose loads of the target read a snapshot, where they name no version.

    On Connect a temporary view is followed where this client has made it.

    Args:
        source: the rows.
        table: the target.
        snapshot_id: None where it has none.
        replaced: whether it gets another schema before the rows are read.
    """
    if snapshot_id is None:
        return source
    if not is_connect(source.sparkSession):
        from paimon_spark.spark.catalog.frames import frame_at  # needs py4j, which a Connect client may lack

        return frame_at(source, table, snapshot_id)

    def pin(load: Any) -> bool:
        if not _is_plain_load(load, table):
            return False
        unpinned(load)
        load.options["scan.snapshot-id"] = str(snapshot_id)
        if table.options.batch_scan_skips_level_0:
            load.options[READS_LEVEL_0] = "true"
        if replaced:
            load.options[OPENED_AT] = str(table.latest.id)
        return True

    return with_loads(source, pin, named_tables)


def replacing_rows(
    rows: DataFrame, table: FileStoreTable, *, replaced: bool = False
) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows of an overwrite, and options of the write that go with them; arguments as of `pinned_source`.

    Rows that are made of the table itself are made of one snapshot, with those of level 0, and the overwrite is a
    conflict if another commit has changed the partitions that it replaces since then.

    Raises:
        UnsupportedError: rows of the table are postponed, and would be dropped unread.
    """
    latest = table.snapshots.latest()
    pinned = pinned_source(rows, table, None if latest is None else latest.id, replaced=replaced)
    if latest is None:
        return pinned, {}
    unknown = unknown_views(pinned) if is_connect(rows.sparkSession) else []
    if pinned is rows and not unknown:
        return pinned, {}
    if unknown and hides_rows(table, latest):
        raise UnsupportedError(
            f"Temporary view {unknown[0]} reads a Paimon table, and was not made by this client since it registered "
            f"Paimon. If that is table {table.path}, its rows that are postponed or not compacted would be dropped "
            "unread: make the view again, name the table, or compact it (CALL sys.compact)."
        )
    if pinned is not rows:
        refuse_self_overwrite(table, latest)
    return pinned, {LAST_SAFE: str(latest.id)}


def _is_plain_load(load: Any, table: FileStoreTable) -> bool:
    """Whether it loads the rows of a table, and names no version."""
    if not is_paimon_load(load) or len(load.paths) > 1:
        return False
    request = read_request(load_options(load))
    if request.name.system_table is not None or any(key in POINTS_OF_TIME for key in request.options):
        return False
    own = load_table(request.name, options=request.options)
    return own.place == table.place


_Values = Mapping[str, "str | Column"]


class Merges(TablePart):
    """Methods that merge rows into the table, each in one commit."""

    def merge(
        self,
        source: DataFrame,
        on: str | Column | Sequence[str],
        *,
        alias: str = "target",
        source_alias: str = "source",
    ) -> Merge:
        """Begin a merge, to which clauses are added; its method ``execute()`` runs it.

        ``t.merge(df, on="target.id = source.id").when_matched_update().when_not_matched_insert().execute()``

        Args:
            source: the rows, evaluated once by each attempt. Where it reads the table itself, at no
                version that it names, it reads the snapshot that the merge reads.
            on: which rows of both sides match: an SQL condition or a Column, over the columns of ``target`` and
                ``source``; or names of columns that are equal on both sides, in a list or between commas.
            alias: the name of the table in conditions and values.
            source_alias: the name of `source` there, whatever alias it had.
        """
        condition = on
        names = self._names(on)
        if names is not None:
            if not names:
                raise OptionError("a merge needs at least one column that is equal on both sides")
            condition = equal_columns((alias, source_alias), names)
        return Merge(self.table, source, condition, (alias, source_alias))  # type: ignore[arg-type]

    def _names(self, on: str | Column | Sequence[str]) -> Sequence[str] | None:
        """The columns that are equal on both sides; None where `on` is a condition."""
        if isinstance(on, str):
            if "=" in on:
                return None
            names = column_names(on)
            schema = self.table.load().schema
            return names if names and all(schema.has_field(name) for name in names) else None
        return on if isinstance(on, Sequence) else None


@user_methods
@dataclass(frozen=True)
class Merge:
    """A merge that is being reported. Each method gives a longer one; `execute` runs it.

    Clauses of a kind are tried in their order: the first whose condition is true counts for a row. Conditions and
    values are SQL or Columns over the aliases of both sides; ``"s.y"`` is the column of this name, else a field of the
    struct s. Values are cast as Spark stores values.
    """

    table: TableHandle
    source: DataFrame
    on: str | Column | tuple[str | Column, ...]
    """A condition, or several that AND joins."""
    aliases: tuple[str, str]
    matched: tuple[GivenClause, ...] = ()
    not_matched: tuple[GivenClause, ...] = ()
    not_matched_by_source: tuple[GivenClause, ...] = ()
    evolves_schema: bool = False

    def with_schema_evolution(self) -> Merge:
        """Columns that only the source has are added to the table, as by ``MERGE WITH SCHEMA EVOLUTION``.

        All of them where a clause gives no values, else those that an update or insert assigns. A clause without values
        then assigns the columns that the source has. Option `write.merge-schema` of the session says the same.
        """
        return replace(self, evolves_schema=True)

    def when_matched_update(self, set: _Values | None = None, *, condition: str | Column | None = None) -> Merge:  # noqa: A002 - the word of SQL
        """Rows of the table that match get new values.

        Args:
            set: by column; None: each column gets that of its name in the source, which must have them all.
            condition: over both sides.
        """
        return replace(self, matched=(*self.matched, GivenClause(Action.UPDATE, condition, set)))

    def when_matched_delete(self, *, condition: str | Column | None = None) -> Merge:
        """Rows of the table that match go."""
        return replace(self, matched=(*self.matched, GivenClause(Action.DELETE, condition)))

    def when_not_matched_insert(self, values: _Values | None = None, *, condition: str | Column | None = None) -> Merge:
        """Rows of the source that match no row of the table are added.

        Args:
            values: by column, over the source; others get their defaults. None: each column gets that of its name.
            condition: over the source.
        """
        return replace(self, not_matched=(*self.not_matched, GivenClause(Action.INSERT, condition, values)))

    def when_not_matched_by_source_update(self, set: _Values, *, condition: str | Column | None = None) -> Merge:  # noqa: A002 - the word of SQL
        """Rows of the table that match no row of the source get new values.

        Args:
            set: by column, over the table.
            condition: over the table.
        """
        clause = GivenClause(Action.UPDATE, condition, set)
        return replace(self, not_matched_by_source=(*self.not_matched_by_source, clause))

    def when_not_matched_by_source_delete(self, *, condition: str | Column | None = None) -> Merge:
        """Rows of the table that match no row of the source go."""
        clause = GivenClause(Action.DELETE, condition)
        return replace(self, not_matched_by_source=(*self.not_matched_by_source, clause))

    def execute(self) -> RowCounts:
        """Run it, in one commit. After a conflict it starts again from a fresh read of the table.

        Returns:
            How many rows were updated, deleted and inserted. Where the merge is an upsert, whose rows are written
            without a look at the table, `num_updated_rows` and `num_inserted_rows` are None.

        Raises:
            OptionError: there is no clause, or one that cannot be reached.
            UnsupportedError: the table does not take such a merge; nothing was written.
            SchemaMismatchError: there is no such column, or the source lacks one.
            DataError: a row of the table is changed by several rows of the source; nothing was committed.
            CommitConflictError: other commits changed the same rows again and again; nothing was committed.
        """
        handle = self.table
        options = options_for_path(settings_of(handle.spark), handle.path)
        refuse_older_state(options, where=f": the session has set {SESSION_PREFIX}{{key}}; RESET it")
        activate(handle.spark)
        table = handle.load()
        statement = FrameMerge(
            table,
            partial(target_rows, handle, table),
            lambda snapshot_id: pinned_source(self.source, table, snapshot_id),
            self.aliases,
            tuple(map(as_sql, self.on)) if isinstance(self.on, tuple) else as_sql(self.on),
            tuple(clause.told() for clause in self.matched),
            tuple(clause.told() for clause in self.not_matched),
            tuple(clause.told() for clause in self.not_matched_by_source),
        )
        with counting() as reported:
            run_frame_merge(statement, rules_of(options, evolves_schema=self.evolves_schema))
        return reported.counts


def target_rows(
    handle: TableHandle,
    table: FileStoreTable,
    snapshot_id: int | None,
    columns: Sequence[str],
    locations: Sequence[str],
    where: str | None,
) -> DataFrame:
    """Return the rows of the target of a merge at a snapshot (None: there is none), with metadata columns."""
    if snapshot_id is None:
        rows = handle.to_df(columns=list(columns))
        missing = [sf.lit(None).cast("string" if name.endswith("path") else "bigint").alias(name) for name in locations]
        return padded(rows.select("*", *missing), table.schema.fields)
    rows = handle.snapshot_rows(snapshot_id, locations=locations, columns=list(columns), filter=where)
    return padded(rows, table.schema.fields)


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
            condition=where,
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
