"""DELETE and UPDATE as DataFrames: rows with their row kind become one write, in one snapshot. On any session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StructField, StructType

from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import OptionError, SchemaMismatchError, UnsupportedError
from paimon_spark.maintain.row_level import (
    check_row_delete,
    check_update,
    delete_partitions,
    is_partition_delete,
    live_partitions_of,
    truncate,
)
from paimon_spark.read.metadata_columns import FILE_PATH
from paimon_spark.spark.columns.char_columns import padded, stored
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jobs.row_rewrites import HIT, rewrite_rows, rows_of_files
from paimon_spark.spark.jobs.shuffled_write import can_shuffle, write_shuffled
from paimon_spark.spark.session.active_session import activate
from paimon_spark.spark.source.source_options import OPERATION, ROWS_OF
from paimon_spark.spark.sql.store_assignment import assigned
from paimon_spark.spec.row_kind import RowKind
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.special_fields import VALUE_KIND
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

__all__ = ["change_rows", "delete_rows", "refuse_nondeterministic", "update_rows"]

Rows = Callable[[int | None], "DataFrame"]
"""Gives rows of a snapshot; None where the table has none yet."""

_Tree = dict[str, Any]
"""New values by name: of a column, or a tree of those of its fields."""

_NUMBER = "_paimon_partition"
_BY_CHANCE = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id)\s*\(", re.I
)


def refuse_nondeterministic(condition: str) -> None:
    """Refuse a condition that says something else whenever it is asked: a task that is run again would disagree.

    Raises:
        UnsupportedError: names the function.
    """
    found = _BY_CHANCE.search(condition)
    if found is not None:
        raise UnsupportedError(
            f"{found[1]}() in the condition of a delete or update is not supported: it is not deterministic. Write "
            "the keys of the rows into a table first, and name that"
        )


def delete_rows(
    spark: SparkSession,
    table: FileStoreTable,
    *,
    rows: Rows,
    marked: Callable[[DataFrame], DataFrame],
    condition: Callable[[DataFrame], DataFrame] | None,
    text: str,
    options: Mapping[str, str],
) -> None:
    """Delete rows: whole partitions, unread, where the condition is about partition columns only; else one by one.

    Args:
        spark: the session.
        table: the table with the options of the statement.
        rows: gives the rows to delete of a snapshot, with all columns of the table.
        marked: adds the column `HIT` to rows of the table.
        condition: filters rows that have the partition columns, and none other, by the statement's condition; what it
            gives cannot be analysed where the condition needs other columns. None deletes everything.
        text: the condition as text.
        options: what ``format("paimon")`` needs to open the same table.

    Raises:
        UnsupportedError: the table does not let single rows be deleted; nothing was written.
        PaimonError: as of every write.
    """
    if condition is None:
        truncate(table)
        return
    tries = is_partition_delete(table) and not _is_about_rows(table, text)
    partitions = _partitions(spark, table, condition) if tries else None
    if partitions is not None:
        delete_partitions(table, partitions)
        return
    check_row_delete(table)

    def old(snapshot_id: int, files: Sequence[str] | None) -> DataFrame:
        return marked(padded(rows_of_files(spark, options, snapshot_id, files), table.schema.fields))

    change_rows(table, RowKind.DELETE, Operation.DELETE, rows=rows, marked=old, options=options)


def _is_about_rows(table: FileStoreTable, text: str) -> bool:
    """Whether a condition seems to need more than partitions: Spark logs each try that cannot be analysed."""
    words = {word.lower() for word in re.findall(r"\w+", re.sub(r"'[^']*'", "", text))}
    others = {name.lower() for name in table.schema.field_names if name not in table.schema.partition_keys}
    return not words.isdisjoint(others)


def _partitions(
    spark: SparkSession, table: FileStoreTable, condition: Callable[[DataFrame], DataFrame]
) -> list[dict[str, Any]] | None:
    """The partitions for which a condition is true; None when it is about other columns."""
    activate(spark)
    found = live_partitions_of(table)
    fields = to_spark_struct(table.schema.partition_fields).fields
    schema = StructType([*fields, StructField(_NUMBER, IntegerType(), nullable=False)])
    numbered = [(*values.values(), number) for number, values in enumerate(found)]
    try:
        chosen = condition(padded(spark.createDataFrame(numbered, schema), table.schema.fields))
        return [found[row[0]] for row in chosen.select(_NUMBER).collect()]
    except AnalysisException:
        return None


def update_rows(
    spark: SparkSession,
    table: FileStoreTable,
    values: Mapping[tuple[str, ...], Column],
    *,
    rows: Rows,
    marked: Callable[[DataFrame], DataFrame],
    options: Mapping[str, str],
) -> None:
    """Give columns new values, which are cast as Spark stores values.

    Args:
        spark: the session.
        table: the table with the options of the statement.
        values: the new values by column, or by the names that lead to a field of a struct.
        rows: gives the rows to change of a snapshot: all columns of the table, and whatever `values` are made of.
        marked: adds the column `HIT` to rows of the table, and whatever `values` are made of.
        options: what ``format("paimon")`` needs to open the same table.

    Raises:
        AnalysisException: a value cannot be stored in its column.
        UnsupportedError: a column or the table cannot be updated; nothing was written.
        PaimonError: as of every write.
    """
    trees = _trees(values, table.schema.field_names)
    check_update(table, trees)

    def new(snapshot_id: int | None) -> DataFrame:
        return _updated(rows(snapshot_id), table, trees)

    def with_new(snapshot_id: int, files: Sequence[str] | None) -> DataFrame:
        rows = padded(rows_of_files(spark, options, snapshot_id, files), table.schema.fields)
        return _updated(marked(rows), table, trees)

    change_rows(table, RowKind.UPDATE_AFTER, Operation.UPDATE, rows=new, marked=with_new, options=options)


def _updated(rows: DataFrame, table: FileStoreTable, trees: _Tree) -> DataFrame:
    """The rows with their new values; of rows that are marked only those have them that `HIT` says."""
    fields = to_spark_struct(table.schema.fields).fields
    old = stored(rows, [field.name for field in fields])
    marks = [name for name in (HIT, FILE_PATH) if name in rows.columns]
    new = [
        _assigned_field(column, field, trees[field.name]) if field.name in trees else column
        for column, field in zip(old, fields, strict=True)
    ]
    if marks:  # a value is worked out for the rows that get it, and for none other
        new = [
            sf.when(sf.col(HIT), value) if field.name in trees else value
            for value, field in zip(new, fields, strict=True)
        ]
    count = len(fields)
    both = rows.select(*new, *old, *marks).toDF(*(str(number) for number in range(2 * count)), *marks)
    ansi = str(rows.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    values = assigned(both.select(*(str(number) for number in range(count))), fields, [table.path], ansi=ansi)
    if marks:
        values = [
            sf.when(sf.col(HIT), value).otherwise(sf.col(str(number + count))).alias(field.name)
            if field.name in trees
            else value
            for number, (value, field) in enumerate(zip(values, fields, strict=True))
        ]
    return both.select(*values, *marks)


def _trees(values: Mapping[tuple[str, ...], Column], columns: Sequence[str]) -> _Tree:
    """The new values by top-level column, the names as the table has them."""
    trees: _Tree = {}
    for path, value in values.items():
        names = [_own_name(path[0], columns), *path[1:]]
        place = trees
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or names[-1] in place:
            raise OptionError(f"{'.'.join(path)} is assigned twice")
        place[names[-1]] = value
    return trees


def _assigned_field(old: Column, field: StructField, new: Any) -> Column:
    """A column with its new value; of a struct those fields that `new` names are replaced, the others stay."""
    if not isinstance(new, dict):
        value: Column = new
        return value
    if not isinstance(field.dataType, StructType):
        raise SchemaMismatchError(f"{field.name} is no struct, but {', '.join(new)} of it is assigned")
    names = [child.name for child in field.dataType.fields]
    own = {_own_name(name, names): value for name, value in new.items()}
    children = [
        _assigned_field(old.getField(child.name), child, own[child.name]) if child.name in own
        else old.getField(child.name)
        for child in field.dataType.fields
    ]  # fmt: skip
    return sf.struct(*(column.alias(name) for column, name in zip(children, names, strict=True)))


def _own_name(name: str, columns: Sequence[str]) -> str:
    found = [own for own in columns if own == name] or [own for own in columns if own.lower() == name.lower()]
    if len(found) != 1:
        raise SchemaMismatchError(f"there is no column {name} to assign: the columns are {', '.join(columns)}")
    return found[0]


def change_rows(
    table: FileStoreTable,
    kind: RowKind,
    operation: Operation,
    *,
    rows: Rows,
    marked: Callable[[int, Sequence[str] | None], DataFrame],
    options: Mapping[str, str],
) -> None:
    """Read the rows of one snapshot, and commit what becomes of them; again from a fresh read where others were faster.

    Args:
        table: the table with the options of the statement.
        kind: the kind of all rows: -D for the rows as they were, +U for what became of them.
        operation: the statement.
        rows: gives the changed rows of a snapshot of a primary-key table, with all its columns. No two have one key.
        marked: gives the rows of some files of a snapshot of another table, as `rewrite_rows` needs them.
        options: what ``format("paimon")`` needs to open the same table.

    Raises:
        CommitConflictError: other commits changed the same rows every time; nothing was committed.
        PaimonError: as of every write; nothing was committed then.
    """

    def attempt(snapshot: Snapshot | None) -> None:
        if table.schema.primary_keys:
            changed = rows(None if snapshot is None else snapshot.id)
            read = SnapshotIdentity.of(snapshot)
            _write_changes(changed, table, kind, operation, rows_of=read, options=options)
        elif snapshot is not None:
            rewrite_rows(partial(marked, snapshot.id), table, snapshot.id, operation, options=options)

    run_again(table, attempt)


def _write_changes(
    rows: DataFrame,
    table: FileStoreTable,
    kind: RowKind,
    operation: Operation,
    *,
    rows_of: SnapshotIdentity,
    options: Mapping[str, str],
) -> None:
    """Write rows of one kind into a primary-key table, and commit them."""
    # no column of a table can have this name
    columns = stored(rows, table.schema.field_names)
    changes = rows.select(*columns, sf.lit(kind.value).cast("tinyint").alias(VALUE_KIND.name))
    if can_shuffle(table):
        write_shuffled(changes, table, None, operation=operation.value, rows_of=rows_of)
        return
    activate(rows.sparkSession)
    writer = changes.write.format("paimon").mode("append").options(**options)  # the path is among them
    writer.option(OPERATION, operation.value).option(ROWS_OF, rows_of.to_text()).save()
