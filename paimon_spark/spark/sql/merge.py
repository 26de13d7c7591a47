"""What MERGE does, for every front: the rows of target and source are joined once, and each becomes what a clause says.

A front (the catalog, `PaimonTable`, `paimon_spark.sql`) tells the statement once, as Columns over the join of both
sides: it is a `MergeStatement`. Rows of a primary-key table are written with their row kinds; of other tables the old
rows are deleted by deletion vectors, or the files that hold them are written anew. One job evaluates the source, one
snapshot of the table is read, and one snapshot comes of it.

A MERGE by the primary key may need no join (`merge_strategy` says which): what each clause would make of a row of the
source goes to the task that writes its bucket, which finds out whether the key is there (`spark.jobs.keyed_merges`).

MERGE WITH SCHEMA EVOLUTION over DataFrames, and option `write.merge-schema`: columns of the source that are added.

The statement is analysed over the columns that the table will have before it gets them, so one that Spark refuses
changes nothing. Equals Java's ``MergeSchemaEvolutionHelper``. On any session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from paimon_spark.commit.row_counts import report_upsert
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.maintain.row_level import check_merge, columns_kept_by_engine
from paimon_spark.read.metadata_columns import FILE_PATH, ROW_INDEX, tracked_names
from paimon_spark.read.superseded_rows import has_key_twice
from paimon_spark.spark.columns.types import from_spark_struct, to_spark_struct, to_spark_type
from paimon_spark.spark.jobs.keyed_merges import (
    KeyedMerge,
    merged_rows,
    overlapping_files,
)
from paimon_spark.spark.jobs.lookup_joins import FOUND, LookupJoin
from paimon_spark.spark.jobs.row_merges import CARDINALITY_VIOLATION, merge_columns, merge_rows
from paimon_spark.spark.jobs.shuffled_write import write_shuffled
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spark.session.session_options import merge_rules
from paimon_spark.spark.source.write_target import merge_schema, with_columns
from paimon_spark.spark.sql.merge_frames import GIVEN, FrameMerge
from paimon_spark.spark.sql.merge_lookups import keyed_merge, lookup_join
from paimon_spark.spark.sql.merge_strategy import (
    Action,
    Clause,
    ClauseShape,
    MergeRows,
    MergeWay,
    columns_of_deletes,
    first_clause,
    has_own_buckets,
    kept_if_small,
    matching_rows,
    strategy_of,
)
from paimon_spark.spark.sql.store_assignment import lacks_fields
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spec.schema_merge import MergeRules
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import VALUE_KIND
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spark.sql.merge_strategy import MergeStatement, MergeStrategy
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage


_TARGET, _SOURCE, _CLAUSE, _MATCHES = "_paimon_target", "_paimon_source", "_paimon_clause", "_paimon_matches"
_KEY_CHANGED = "Can't update the primary key column"


def run_merge(table: FileStoreTable, statement: MergeStatement) -> None:
    """Run a MERGE and commit it. After a conflict, start again from the latest snapshot.

    Args:
        table: the target with the options of the statement.
        statement: what is merged.

    Raises:
        UnsupportedError: the table does not take such a statement; nothing was written.
        DataError: a row of the target is matched by several rows of the source; nothing was committed.
        CommitConflictError: other commits changed the same rows every time; nothing was committed.
        PaimonError: as of every write; nothing was committed then.
    """
    check_actions(table, statement.actions)
    locations = () if table.schema.kind.is_keyed else (FILE_PATH, ROW_INDEX, *tracked_names(table.schema))
    _check_names(table, locations)

    def attempt(snapshot: Snapshot | None) -> None:
        rows = statement.rows(None if snapshot is None else snapshot.id, locations)
        strategy = strategy_of(table, rows.shape)
        each_key_once = True
        if strategy.way is MergeWay.UPSERT:
            if _was_written(table, _Changes(table.schema, rows, locations).source_rows()):
                report_upsert()
                return
            each_key_once = False
        elif strategy.way in (MergeWay.KEY_LOOKUP, MergeWay.LOOKUP_JOIN):
            if _look_up(table, rows, snapshot, joins=strategy.way is MergeWay.LOOKUP_JOIN):
                return
            each_key_once = False
        with _narrowed(rows, table, snapshot) as narrowed:
            changes = _Changes(table.schema, narrowed, locations)
            if table.schema.kind.is_keyed:
                _write_keyed(table, changes, SnapshotIdentity.of(snapshot), each_key_once=each_key_once)
            elif strategy.way is MergeWay.COMPANION_COLUMNS and snapshot is not None:
                changes = _Changes(table.schema, _without_matched_partitions(table.schema, narrowed), locations)
                columns = changes.updated_columns
                merge_columns(changes.assigned(of_updates=columns), table, columns, snapshot, checked=changes.checked)
            else:
                merge_rows(changes.assigned(), table, snapshot, checked=changes.checked)

    try:
        run_again(table, attempt)
    except PySparkException as error:
        raise _row_error(table, error) or error from None


def check_actions(table: FileStoreTable, actions: Collection[Action]) -> None:
    """Refuse a MERGE of which a table does not take a clause.

    Args:
        table: the target with the options of the statement.
        actions: those of its clauses.

    Raises:
        UnsupportedError: names the option that prevents it, and what to do.
    """
    check_merge(table, updates=Action.UPDATE in actions, deletes=Action.DELETE in actions)


def _without_matched_partitions(schema: TableSchema, rows: MergeRows) -> MergeRows:
    """Both sides without assignments to partition columns of the value by which rows match: they change nothing."""
    compared = {part.column: part.value for part in rows.shape.compared if part.same_type}

    def changing(clause: Clause, shape: ClauseShape) -> Clause:
        given = {name: shape.values[name] for name in schema.partition_keys if name in shape.values}
        same = {name for name, value in given.items() if name in compared and compared[name] == value}
        values = {name: value for name, value in clause.values.items() if name not in same}
        return replace(clause, values=values or clause.values)

    return replace(rows, matched=list(map(changing, rows.matched, rows.shape.matched)))


def _look_up(table: FileStoreTable, rows: MergeRows, snapshot: Snapshot | None, *, joins: bool) -> bool:
    """Write the changes of a MERGE whose tasks look up the keys of their rows; False as of `_was_written`."""

    def changes(both: MergeRows, others: Sequence[str]) -> DataFrame:
        return _Changes(table.schema, both, ()).looked_up(others)

    source, merge = lookup_join(table, rows, snapshot, changes) if joins else keyed_merge(table, rows, snapshot)
    checked = _Changes(table.schema, rows, ()).checked
    return _was_written(table, source, SnapshotIdentity.of(snapshot), merge=merge, checked=checked)


def _write_keyed(table: FileStoreTable, changes: _Changes, rows_of: SnapshotIdentity, *, each_key_once: bool) -> None:
    """Write the changes of a primary-key table; `each_key_once` where that is likely.

    What was written tells that it does, if it does: then no row was matched twice, and nothing had to be counted.
    """
    tries = each_key_once and changes.checked and has_own_buckets(table.schema)
    if not tries or not _was_written(table, changes.keyed(counted=False), rows_of):
        write_shuffled(RowsToWrite(changes.keyed(), table, operation=Operation.MERGE, rows_of=rows_of))


@contextlib.contextmanager
def _narrowed(rows: MergeRows, table: FileStoreTable, snapshot: Snapshot | None) -> Iterator[MergeRows]:
    """Both sides of a MERGE without rows of the target that no row of the source can match, as far as that is known.

    What is left out is read by nothing and changed by nothing, so no check for concurrent changes needs it.
    """
    if snapshot is None or rows.narrow is None or not rows.equalities or rows.not_matched_by_source:
        yield rows
        return
    with kept_if_small(rows.source, snapshot.total_record_count) as is_cheap:
        if is_cheap:
            target = matching_rows(rows.target, rows.narrow, rows.source, rows.equalities, table.schema)
            rows = replace(rows, target=target)
        yield rows


@dataclass
class _EachKeyOnce:
    """Accepts what the tasks of a write wrote if each key came once.

    Where the files of a bucket overlap, since its buffer was full several times, their keys are merged on the driver.
    """

    table: FileStoreTable
    accepted: bool = True

    def __call__(self, messages: Sequence[TaskMessage]) -> bool:
        came_twice = merged_rows(messages) or has_key_twice(self.table, overlapping_files(self.table.schema, messages))
        self.accepted = not came_twice
        return self.accepted


def _was_written(
    table: FileStoreTable,
    rows: DataFrame,
    rows_of: SnapshotIdentity | None = None,
    *,
    merge: KeyedMerge | LookupJoin | None = None,
    checked: bool = True,
) -> bool:
    """Write rows as they are, or what `merge` makes of them; False where a key came twice, and nothing was committed.

    Then one of the rows may change what another has changed, which has to be counted by the keys of the table.
    """
    check = _EachKeyOnce(table)
    written = RowsToWrite(rows, table, operation=Operation.MERGE, rows_of=rows_of, merge=merge)
    write_shuffled(replace(written, accepts=check) if checked else written)
    return check.accepted


def _check_names(table: FileStoreTable, locations: Collection[str]) -> None:
    hidden = next((name for name in locations if table.schema.has_field(name)), None)
    if hidden is not None:
        raise UnsupportedError(
            f"MERGE INTO is not supported for table {table.path}: its column {hidden} has the name of the metadata "
            "column by which rows are found. Rename the column."
        )


def _row_error(table: FileStoreTable, error: Exception) -> Exception | None:
    """Return our own error for one that a task has raised by one of the sentences below; None for any other."""
    if isinstance(error, AnalysisException):
        return None  # the plan that it shows has these sentences too
    text = str(error)
    if CARDINALITY_VIOLATION in text:
        return DataError(CARDINALITY_VIOLATION)
    at = text.find(_KEY_CHANGED)
    return None if at < 0 else UnsupportedError(f"{text[at:].partition(chr(10))[0].partition(' SQLSTATE')[0]}")


class _Changes:
    """The rows that the clauses of a MERGE make of its two sides."""

    def __init__(self, schema: TableSchema, rows: MergeRows, locations: Sequence[str]) -> None:
        self._schema = schema
        self._rows = rows
        self._locations = locations
        self._clauses = (*rows.matched, *rows.not_matched, *rows.not_matched_by_source)

    @property
    def checked(self) -> bool:
        """Whether it matters that several rows of the source match one row of the target."""
        matched = self._rows.matched
        is_plain_delete = len(matched) == 1 and matched[0].action is Action.DELETE and matched[0].condition is None
        return bool(matched) and not is_plain_delete

    @property
    def updated_columns(self) -> frozenset[str]:
        """The columns that an UPDATE clause assigns."""
        return frozenset(name for clause in self._clauses if clause.action is Action.UPDATE for name in clause.values)

    def keyed(self, *, counted: bool = True) -> DataFrame:
        """The new rows of a primary-key table with their row kinds; of deleted rows only the columns that count.

        Args:
            counted: whether a row that several rows of the source change is looked for, which takes a sort.
        """
        schema, joined = self._schema, self._joined()
        kept = columns_of_deletes(schema)
        counted = counted and self.checked
        if counted:
            same_key = Window.partitionBy(*(self._value(schema.field(key), kept) for key in schema.primary_keys))
            is_match = sf.col(_CLAUSE) <= len(self._rows.matched)
            joined = joined.withColumn(_MATCHES, sf.sum(is_match.cast("int")).over(same_key))
        values = [self._value(column, kept).alias(column.name) for column in schema.fields]
        return joined.select(*values, self._checked_kind(counted=counted).cast("tinyint").alias(VALUE_KIND.name))

    def looked_up(self, others: Sequence[str]) -> DataFrame:
        """The new rows of a primary-key table with their row kinds, where the target is `BesideOldRows.over`.

        Args:
            others: columns that stay behind them.
        """
        schema, rows = self._schema, self._rows
        number = sf.when(sf.col(FOUND), first_clause(rows.matched, 0)).otherwise(
            first_clause(rows.not_matched, len(rows.matched))
        )
        changed = rows.target.withColumn(_CLAUSE, number).where(sf.col(_CLAUSE) > 0)
        values = [self._value(column, columns_of_deletes(schema)).alias(column.name) for column in schema.fields]
        kind = self._checked_kind(counted=False).cast("tinyint").alias(VALUE_KIND.name)
        return changed.select(*values, kind, *(sf.col(name) for name in others))

    def source_rows(self) -> DataFrame:
        """The rows of the source as INSERT makes them rows of the table."""
        values = self._rows.not_matched[0].values
        names = self._schema.field_names
        return self._rows.source.select(*(values[name].alias(name) for name in names))

    def assigned(self, of_updates: Collection[str] | None = None) -> DataFrame:
        """The new rows of any other table, with the locations of the old ones; of deleted rows only these count.

        The columns: those of the table, then the metadata columns, then the row kind.

        Args:
            of_updates: the columns of updated rows that count; None for all.
        """
        joined = self._joined()
        values = [self._value(column, (), of_updates).alias(column.name) for column in self._schema.fields]
        has_old = self._rows.matched or self._rows.not_matched_by_source
        locations = [self._rows.old[name] if has_old else sf.lit(None) for name in self._locations]
        types = {FILE_PATH: "string"}
        shown = [
            column.cast(types.get(name, "bigint")).alias(name)
            for column, name in zip(locations, self._locations, strict=True)
        ]
        return joined.select(*values, *shown, self._kind().cast("tinyint").alias(VALUE_KIND.name))

    def _joined(self) -> DataFrame:
        """The rows for which a clause does something, with the number of the clause, from 1."""
        rows = self._rows
        both, source_only, target_only = map(bool, (rows.matched, rows.not_matched, rows.not_matched_by_source))
        if not both and source_only != target_only:
            first, second = (rows.source, rows.target) if source_only else (rows.target, rows.source)
            joined = first.join(second, rows.on, "left_anti")
            number = first_clause(rows.not_matched or rows.not_matched_by_source, 0)
        else:
            kind = {(False, False): "inner", (True, False): "right", (False, True): "left"}
            target = rows.target.withColumn(_TARGET, sf.lit(True))
            source = rows.source.withColumn(_SOURCE, sf.lit(True))
            joined = target.join(source, rows.on, kind.get((source_only, target_only), "full"))
            number = (
                sf.when(sf.col(_TARGET).isNull(), first_clause(rows.not_matched, len(rows.matched)))
                .when(
                    sf.col(_SOURCE).isNull(),
                    first_clause(rows.not_matched_by_source, len(rows.matched) + len(rows.not_matched)),
                )
                .otherwise(first_clause(rows.matched, 0))
            )
        return joined.withColumn(_CLAUSE, number).where(sf.col(_CLAUSE) > 0)

    def _by_clause(self, choose: Callable[[Clause], Column]) -> Column:
        """A value for each clause."""
        chosen = [choose(clause) for clause in self._clauses]
        return reduce(
            lambda others, numbered: sf.when(sf.col(_CLAUSE) == numbered[0], numbered[1]).otherwise(others),
            reversed(list(enumerate(chosen[:-1], start=1))),
            chosen[-1],
        )

    def _value(
        self, column: DataField, of_deletes: Collection[str], of_updates: Collection[str] | None = None
    ) -> Column:
        """What a column becomes. A key keeps its value."""
        name, data_type = column.name, to_spark_type(column.type)
        is_key = name in self._schema.primary_keys
        by_engine = columns_kept_by_engine(self._schema)

        def choose(clause: Clause) -> Column:
            updates = clause.action is Action.UPDATE and name in clause.values and not is_key
            if clause.action is Action.INSERT or updates:
                return clause.values[name]
            counting = of_deletes if clause.action is Action.DELETE else of_updates
            if clause.action is Action.UPDATE and name in by_engine:
                return sf.lit(None).cast(data_type)
            if counting is not None and name not in counting:
                return sf.lit(None).cast(data_type)
            return self._rows.old[name]

        return self._by_clause(choose)

    def _kind(self) -> Column:
        return self._by_clause(lambda clause: sf.lit(clause.action.value.value))

    def _checked_kind(self, *, counted: bool) -> Column:
        """The row kind; an error where another key is assigned, or a row is matched twice and that was counted."""

        def choose(clause: Clause) -> Column:
            kind = sf.lit(clause.action.value.value)
            if clause.action is not Action.UPDATE:
                return kind
            for key in self._schema.primary_keys:
                if key in clause.values:
                    text = (
                        f"{_KEY_CHANGED} {key} in a MERGE: a row that is matched would get another key. DELETE it and "
                        "INSERT it anew."
                    )
                    same = clause.values[key].eqNullSafe(self._rows.old[key])
                    kind = sf.when(same, kind).otherwise(sf.raise_error(sf.lit(text)).cast("int"))
            return kind

        kind = self._by_clause(choose)
        if not counted:
            return kind
        twice = sf.raise_error(sf.lit(CARDINALITY_VIOLATION)).cast("int")
        is_match = sf.col(_CLAUSE) <= len(self._rows.matched)
        return sf.when(is_match & (sf.col(_MATCHES) > 1), twice).otherwise(kind)


def rules_of(options: Mapping[str, str], *, evolves_schema: bool) -> MergeRules | None:
    """How the columns of a target change; None where they stay.

    Args:
        options: of the session, for the target.
        evolves_schema: whether the statement says WITH SCHEMA EVOLUTION.
    """
    return merge_rules(options) or (MergeRules(widen=False, explicit=False) if evolves_schema else None)


def run_frame_merge(merge: FrameMerge, rules: MergeRules | None) -> None:
    """Check a MERGE and run it; with rules the table gets the columns that only the source has.

    Raises:
        SchemaChangeError: a type cannot become that of the source.
        PaimonError: as of `run_merge`.
    """
    merge.check()
    merge = merge if rules is None else _widened(merge, rules)
    try:
        run_merge(merge.table, merge)
    except AnalysisException as error:
        raise merge.error_of_columns() or error from None


def strategy_of_frame_merge(merge: FrameMerge, rules: MergeRules | None) -> MergeStrategy:
    """Check a MERGE, and tell which way it goes; nothing is changed. Arguments and errors as of `run_frame_merge`."""
    check_actions(merge.table, merge.actions)
    merge.check()
    if rules is None:
        return strategy_of(merge.table, merge.shape())
    evolved, schema = _evolved(merge, rules)[:2]
    known = _as_if(evolved, schema)
    return strategy_of(known.table, known.shape())


def _widened(merge: FrameMerge, rules: MergeRules) -> FrameMerge:
    """The MERGE into the table with its new columns, which it has from now on."""
    evolved, schema, columns, snapshot_id = _evolved(merge, rules)
    if schema is merge.table.schema:
        return evolved
    _analyse(_as_if(evolved, schema).rows(snapshot_id, ()))
    return replace(evolved, table=merge_schema(merge.table, columns, rules))


def _evolved(merge: FrameMerge, rules: MergeRules) -> tuple[FrameMerge, TableSchema, StructType, int | None]:
    """The MERGE of the columns that its source has; the schema that it needs; the columns for it; the snapshot read."""
    latest = merge.table.snapshots.latest_to_follow()
    snapshot_id = None if latest is None else latest.id
    source = merge.source(snapshot_id)
    source = source.select(*(sf.col(quoted_name(name)) for name in source.columns if not name.startswith(GIVEN)))
    columns = _new_columns(merge, source)
    schema = with_columns(merge.table.schema, from_spark_struct(columns), rules)
    evolved = replace(
        merge, star=frozenset(name.lower() for name in source.columns), partly=_partly_given(schema, source)
    )
    return evolved, schema, columns, snapshot_id


def _partly_given(schema: TableSchema, source: DataFrame) -> frozenset[str]:
    """The columns of a table whose STRUCTs lack fields in the source."""
    given = {field.name.lower(): field.dataType for field in source.schema.fields}
    fields = [field for field in to_spark_struct(schema.fields).fields if field.name.lower() in given]
    return frozenset(field.name for field in fields if lacks_fields(given[field.name.lower()], field.dataType))


def _new_columns(merge: FrameMerge, source: DataFrame) -> StructType:
    """The columns of the source that count: all where a clause has a star, else those that are assigned."""
    clauses = [clause for clause in (*merge.matched, *merge.not_matched) if clause.action is not Action.DELETE]
    if any(clause.values is None for clause in clauses):
        return source.schema
    known = merge.table.schema.field_names
    names = {(name if name in known else split_name(name)[0]).lower() for c in clauses for name in c.values or {}}
    return StructType([field for field in source.schema.fields if field.name.lower() in names])


def _as_if(merge: FrameMerge, schema: TableSchema) -> FrameMerge:
    """The MERGE into a table as if it had a schema already."""

    def target(
        snapshot_id: int | None, columns: Sequence[str], locations: Sequence[str], where: str | None
    ) -> DataFrame:
        own = merge.table.schema
        there = [name for name in columns if own.has_field(name)] or [own.field_names[0]]
        rows = merge.target(snapshot_id, there, locations, where)
        for name in columns:
            wanted = to_spark_type(schema.field(name).type)
            if not own.has_field(name):
                rows = rows.withColumn(name, sf.lit(None).cast(wanted))
            elif schema.field(name).type != own.field(name).type:
                rows = rows.withColumn(name, sf.col(quoted_name(name)).cast(wanted))
        return rows

    return replace(merge, table=replace(merge.table, schema=schema), target=target)


def _analyse(rows: MergeRows) -> None:
    """Let Spark refuse conditions that it cannot resolve; values are looked up before."""
    clauses = (*rows.matched, *rows.not_matched, *rows.not_matched_by_source)
    conditions = [clause.condition for clause in clauses if clause.condition is not None]
    joined = rows.target.join(rows.source, rows.on)
    assert joined.select(*(condition.alias(str(at)) for at, condition in enumerate(conditions))).schema is not None
