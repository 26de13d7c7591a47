"""The part of a `PaimonTable` that merges a DataFrame into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from paimon_spark.commit.row_counts import RowCounts, counting
from paimon_spark.errors import OptionError
from paimon_spark.options.registry import column_names
from paimon_spark.spark.columns.types import padded
from paimon_spark.spark.session.session_options import SESSION_PREFIX, options_for_path, refuse_older_state
from paimon_spark.spark.session.session_settings import activate, settings_of
from paimon_spark.spark.sql.merge import rules_of, run_frame_merge
from paimon_spark.spark.sql.merge_frames import FrameMerge, GivenClause, equal_columns
from paimon_spark.spark.sql.merge_strategy import Action
from paimon_spark.spark.table.handle import TableHandle, TablePart, user_methods
from paimon_spark.spark.table.pinned_sources import pinned_source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.table.table import FileStoreTable

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
            self.on,
            self.matched,
            self.not_matched,
            self.not_matched_by_source,
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
