"""What INSERT writes and replaces: which columns of a table the columns of a query become, and which rows go.

Spark decides this by itself for tables of a catalog; here it is for fronts that Spark's analyzer does not know. Rules
and errors are Spark's (``ResolveInsertInto``, ``TableOutputResolver``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from paimon_spark.spark.columns.types import from_spark_struct, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import numbered
from paimon_spark.spark.session.overwrite_mode import (
    Named,
    asks_for_dynamic,
    is_dynamic_overwrite,
    overwrite_option,
)
from paimon_spark.spark.session.session_options import merge_rules
from paimon_spark.spark.source.source_options import REPLACE_WHERE
from paimon_spark.spark.source.write_target import typed_columns, with_columns
from paimon_spark.spark.sql.store_assignment import assigned, assigned_literal, fields_by_name
from paimon_spark.spark.sql.warehouses import analysis_error, quoted
from paimon_spark.spec.sql_text import literal_text, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.schema_merge import MergeRules


@dataclass(frozen=True, slots=True)
class Insert:
    """What an INSERT says besides its query."""

    parts: tuple[str, ...]
    """The name of the table."""
    overwrite: bool
    options: Mapping[str, str] = field(default_factory=dict)
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Columns of the PARTITION clause: an expression as text, or None for those that the query gives."""
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: str | None = None

    @property
    def static(self) -> dict[str, str]:
        """The columns of the PARTITION clause that have a value."""
        return {column: value for column, value in self.partition.items() if value is not None}


@dataclass(frozen=True, slots=True)
class InsertTarget:
    """The table that an INSERT writes to, and what the session says of it."""

    shown: Sequence[str]
    """Its name in messages."""
    schema: TableSchema
    settings: Mapping[str, str]
    """What the session has set."""
    session_options: Mapping[str, str]
    """Options that the session has for the table by its name."""


def query_columns(schema: TableSchema, insert: Insert) -> list[str]:
    """Return the table's columns that the columns of a query mean by position.

    Raises:
        AnalysisException: there is no such column.
    """
    names = schema.field_names
    if insert.columns is not None:
        return [_own_name(names, name) for name in insert.columns]
    static = {_own_name(names, name).lower() for name in insert.static}
    return [name for name in names if name.lower() not in static]


def inserted_rows(target: InsertTarget, insert: Insert, rows: DataFrame, *, ansi: bool) -> DataFrame:
    """Return the rows of a query with the names and types of the table's columns.

    Args:
        target: the table.
        insert: the statement.
        rows: what its query gives.
        ansi: whether the session's casts fail where a value is lost.

    Raises:
        AnalysisException: the query does not fit the table.
    """
    rules = _merge_rules(target, insert)
    merged = target.schema
    if rules is not None:
        merged = with_columns(merged, from_spark_struct(typed_columns(rows.schema, merged)), rules)
    fields = {field.name: field for field in to_spark_struct(merged.fields).fields}
    static = static_values(target, insert)
    known = {column.lower() for column in target.schema.field_names}
    added = [] if rules is None else [column for column in rows.columns if column.lower() not in known]
    if insert.by_name:
        if added:  # behind the others
            rows = rows.select(*(quoted_name(column) for column in sorted(rows.columns, key=added.__contains__)))
        given = [_own_name([*fields], column) for column in rows.columns if column not in added]
    else:
        given = query_columns(target.schema, insert)
        _check_count(target, given, rows.columns)
    named = [*given, *static]
    twice = {column for column in named if named.count(column) > 1}
    if twice:
        raise analysis_error("COLUMN_ALREADY_EXISTS", f"The columns {', '.join(sorted(twice))} are given twice.")
    if insert.by_name:
        rows = fields_by_name(rows, [fields[column] for column in given], target.shown, fills=rules is not None)
    stored = rows.select(*(quoted_name(column) for column in rows.columns[: len(given)])) if added else rows
    columns: list[Column] = assigned(stored, [fields[column] for column in given], target.shown, ansi=ansi)
    columns += [assigned_literal(value, fields[column], ansi=ansi) for column, value in static.items()]
    columns += [sf.col(str(len(given) + number)).alias(column) for number, column in enumerate(added)]
    return numbered(rows).select(*columns)


def replaced_options(target: InsertTarget, insert: Insert, rows: DataFrame) -> dict[str, str]:
    """Return the options of a write that say what an INSERT OVERWRITE replaces.

    In the dynamic mode the partitions that appear in the rows are replaced, also where the PARTITION clause names one:
    without rows none.
    """
    if insert.replace_where is not None:
        return {REPLACE_WHERE: insert.replace_where}
    static = static_values(target, insert)
    dynamic = is_dynamic_overwrite(
        asks_for_dynamic(insert.options),
        target.settings,
        target.session_options,
        target.schema.options,
        named=Named.PARTITION if static else Named.NOTHING,
    )
    if dynamic or not static:
        return overwrite_option(dynamic=dynamic)
    values = literals_of(static, rows)
    return {REPLACE_WHERE: " AND ".join(_equals(column, values[column]) for column in static)}


def literals_of(static: Mapping[str, str], rows: DataFrame) -> dict[str, Any]:
    """Return the values of `static_values` in the types of the columns of rows; Spark evaluates them."""
    literals = [assigned_literal(value, rows.schema[column], ansi=True) for column, value in static.items()]
    found: dict[str, Any] = rows.sparkSession.range(1).select(*literals).collect()[0].asDict()
    return found


def static_values(target: InsertTarget, insert: Insert) -> dict[str, str]:
    """Return the values of the PARTITION clause as SQL, by the table's names of the columns."""
    static = {_own_name(target.schema.field_names, column): value for column, value in insert.static.items()}
    unknown = [column for column in static if column not in target.schema.partition_keys]
    if unknown:
        raise analysis_error(
            "NON_PARTITION_COLUMN", f"PARTITION clause cannot contain the non-partition column: {', '.join(unknown)}."
        )
    return static


def _check_count(target: InsertTarget, given: Sequence[str], columns: Sequence[str]) -> None:
    if len(given) != len(columns):
        kind = "NOT_ENOUGH_DATA_COLUMNS" if len(columns) < len(given) else "TOO_MANY_DATA_COLUMNS"
        raise analysis_error(
            f"INSERT_COLUMN_ARITY_MISMATCH.{kind}",
            f"Cannot write to {quoted(target.shown)}, the reason is {kind.lower().replace('_', ' ')}: table columns: "
            f"{', '.join(given)}; data columns: {', '.join(columns)}.",
        )


def _merge_rules(target: InsertTarget, insert: Insert) -> MergeRules | None:
    """How an INSERT … BY NAME may change the columns of the table."""
    return merge_rules(target.session_options, insert.options) if insert.by_name else None


def _own_name(names: Sequence[str], name: str) -> str:
    found = [own for own in names if own == name] or [own for own in names if own.lower() == name.lower()]
    if len(found) != 1:
        raise analysis_error(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            f"A column with name {quoted([name])} cannot be resolved. The table has {', '.join(names)}.",
        )
    return found[0]


def _equals(column: str, value: object) -> str:
    name = quoted_name(column)
    return f"{name} IS NULL" if value is None else f"{name} = {literal_text(value)}"
