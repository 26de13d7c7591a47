"""Statements of a classic session that run as procedures that no list shows; and `alter_view_dialect`.

They are about views and functions of catalogs, COPY INTO, ``DESCRIBE … PARTITION``, ``ANALYZE TABLE``, ``MSCK REPAIR
TABLE`` and tags. DESCRIBE equals the official connector's ``PaimonDescribeTableExec``: the table's description, then
the partition, then the columns that are NOT NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import OptionError, PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.maintain.refs import tags
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jobs.analyze import analyze
from paimon_spark.spark.session.pyspark_members import analyzed_text, java_state
from paimon_spark.spark.sql.copy_into import LOADED, WRITTEN, copy_into_location, copy_into_table
from paimon_spark.spark.sql.format_tables import file_counts, repair_partitions
from paimon_spark.spark.sql.functions import (
    FUNCTION_COLUMNS,
    FunctionContext,
    Surroundings,
    is_spark_function,
    run_function_statement,
    temporary_views_in,
)
from paimon_spark.spark.sql.procedures.procedure import CallContext, ResultColumn, Rows, Text, procedure, read_as
from paimon_spark.spark.sql.table_definitions import partition_counts
from paimon_spark.spark.sql.table_descriptions import Row, partition_text, table_struct
from paimon_spark.spark.sql.views import VIEW_COLUMNS, ViewContext, run_view_statement
from paimon_spark.spark.sql.warehouses import quoted, table_not_found
from paimon_spark.spark.statements.catalog_statements import (
    FunctionStatement,
    ViewStatement,
    parse_function_statement,
    parse_view_statement,
)
from paimon_spark.spark.statements.cursor import Cursor, Kind, split_name
from paimon_spark.spark.statements.table_statements import (
    ALTER_TAGS,
    ANALYZE,
    REPAIR,
    SHOW_TAGS,
    AnalyzeStatement,
    CopyIntoLocation,
    CopyIntoTable,
    TagStatement,
    is_copy,
    parse_analyze_statement,
    parse_repair_statement,
    parse_tag_statement,
    read_copy,
)
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.sql_text import quoted_name, spark_literal
from paimon_spark.spec.view_records import SPARK_DIALECT, ViewChange
from paimon_spark.table.catalog_views import alter_view, find_view
from paimon_spark.table.format_table import FormatTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.table.table import FileStoreTable

_TEMPORARY = re.compile(r"(?:^|[ +:-])View \(`((?:[^`]|``)+)`,", re.MULTILINE)
"""In an analysed plan; the name of a view that stays has several parts."""
_NEEDS_QUERY = ("add", "update")
_VIEWS = "Statements about views of Paimon's catalogs."
_FUNCTIONS = "Statements about functions of Paimon's catalogs."


def _view_procedure(action: str) -> str:
    return f"__view_{action.lower().replace(' ', '_')}" if action in VIEW_COLUMNS else "__view"


def view_call(statement: ViewStatement) -> str:
    """The name of the procedure that runs a statement; its argument is the text."""
    return _view_procedure(statement.action)


def function_call(statement: FunctionStatement) -> str:
    """The name of the procedure that runs a statement; its argument is the text."""
    return f"__function_{statement.action.lower()}" if statement.action in FUNCTION_COLUMNS else "__function"


class _Named(NamedTuple):
    """What a statement is about, and where the session is."""

    catalog: str
    database: str
    name: str
    current: tuple[str, str]


def _named(context: CallContext, catalog: str, given: tuple[str, ...], *, is_database: bool = False) -> _Named:
    spark = context.spark
    current = (str(spark.catalog.currentCatalog()), str(spark.catalog.currentDatabase()))
    parts = given[1:] if given[:1] == (catalog,) and len(given) > 1 else given
    above, name = (parts, "") if is_database else (parts[:-1], parts[-1])
    if len(above) > 1:
        raise table_not_found(given)
    here = current[1] if current[0] == catalog else context.warehouse().default_database
    database = above[0] if above else here
    return _Named(catalog, database, name, current)


def _answered(run: Callable[[], Rows]) -> Rows:
    """What a statement shows; errors that are made here are Paimon's, since Java has no such exception to show."""
    try:
        return run()
    except CapturedException:
        raise
    except AnalysisException as error:
        kind = TableNotFoundError if "NOT_FOUND" in (error.getCondition() or "") else SchemaError
        raise kind(str(error)) from None


def _run_view(context: CallContext, statement: str, catalog: str) -> Rows:
    parsed = read_as(parse_view_statement, statement, "statement about views")
    spark = context.spark
    named = _named(context, catalog, parsed.name, is_database=parsed.action == "SHOW")
    schema_of, views_in = lambda query: spark.sql(query).schema, partial(_temporary_views, spark)
    found = ViewContext(context.warehouse(), *named, schema_of, views_in)
    return _answered(partial(run_view_statement, found, parsed))


def _run_function(context: CallContext, statement: str, catalog: str) -> Rows:
    parsed = read_as(parse_function_statement, statement, "statement about functions")
    spark = context.spark
    registered = java_state(spark).catalogManager().isCatalogRegistered
    around = Surroundings(context.warehouse(), registered, partial(is_spark_function, spark))
    named = _named(context, catalog, parsed.name)
    views_in = partial(temporary_views_in, spark)
    found = FunctionContext(*named, spark.sql, lambda body, _is_query: body, views_in, around)
    return _answered(partial(run_function_statement, found, parsed))


def _temporary_views(spark: SparkSession, query: str) -> list[str]:
    return sorted(set(_TEMPORARY.findall(analyzed_text(spark.sql(query)))))


@procedure("Adds, updates or drops the query that a view has for an engine (default spark).")
def _alter_view_dialect(
    context: CallContext, view: str, action: str, engine: Text | None = None, query: Text | None = None
) -> None:
    name = context.named(view)
    if action not in (*_NEEDS_QUERY, "drop"):
        raise OptionError(f"Unsupported action: {action}. It is one of add, update, drop.")
    if action in _NEEDS_QUERY and query is None:
        raise OptionError(f"query is required for {action} action.")
    catalog = context.warehouse()
    if find_view(catalog, name.database, name.table) is None:
        raise table_not_found(split_name(view))
    dialect = SPARK_DIALECT if engine is None else engine.strip()
    value = query if action in _NEEDS_QUERY else None
    alter_view(catalog, name.database, name.table, [ViewChange(f"{action}Dialect", dialect, value)])


VIEW_PROCEDURES = (
    procedure(_VIEWS, result=(), name="__view")(_run_view),
    *(
        procedure(_VIEWS, result=shown, name=_view_procedure(action))(_run_view)
        for action, shown in VIEW_COLUMNS.items()
    ),
)
FUNCTION_PROCEDURES = (
    procedure(_FUNCTIONS, result=(), name="__function")(_run_function),
    procedure(_FUNCTIONS, result=FUNCTION_COLUMNS["DESCRIBE"], name="__function_describe")(_run_function),
)


_INTO_TABLE, _INTO_LOCATION = "__copy_into_table", "__copy_into_location"
_COPY = "COPY INTO."


def copy_call(cursor: Cursor) -> str:
    """The name of the procedure that runs a COPY INTO; its argument is the text."""
    return _INTO_LOCATION if copies_out(cursor) else _INTO_TABLE


def copies_out(cursor: Cursor) -> bool:
    """Whether a COPY INTO writes files."""
    return cursor.tokens[2].kind is Kind.STRING


def _copy_statement(text: str) -> CopyIntoTable | CopyIntoLocation:
    cursor = Cursor.of(text)
    if cursor is None or not is_copy(cursor):
        raise PaimonError(f"This is no COPY INTO: {text}")
    return read_copy(cursor)


@procedure(_COPY, result=LOADED, name=_INTO_TABLE)
def _copy_into_table(context: CallContext, statement: str) -> Rows:
    def load(parsed: Any) -> Rows:
        name = quoted(parsed.table)
        return copy_into_table(context.spark, context.table(name), parsed, lambda rows: rows.writeTo(name).append())

    return _copied(load, statement)


@procedure(_COPY, result=WRITTEN, name=_INTO_LOCATION)
def _copy_into_location(context: CallContext, statement: str) -> Rows:
    return _copied(lambda parsed: copy_into_location(context.spark.sql(parsed.query), parsed), statement)


def _copied(run: Callable[[Any], Rows], text: str) -> Rows:
    try:
        return run(_copy_statement(text))
    except CapturedException:
        raise
    except AnalysisException as error:  # made here: Java has no such exception to show
        raise PaimonError(str(error)) from None


DESCRIBE_PARTITION = "__describe_partition"
DESCRIPTION_COLUMNS = (
    ResultColumn("col_name", nullable=False),
    ResultColumn("data_type", nullable=False),
    ResultColumn("comment"),
)
"""The columns of what DESCRIBE shows."""


def described_partition(
    table: FileStoreTable, name: Sequence[str], values: Mapping[str, Any], *, extended: bool
) -> list[Row]:
    """Return what DESCRIBE shows of a partition behind the description of its table.

    Raises:
        PaimonError: not all partition columns are given, or there is no such partition.
    """
    keys = table.schema.partition_keys
    if set(values) != set(keys):
        raise PaimonError(
            f"[PARTITIONS_NOT_FOUND] Partition spec is invalid. The spec ({', '.join(values)}) must match the "
            f"partition spec ({', '.join(keys)}) defined in table {quoted(name)}."
        )
    values = {key: values[key] for key in keys}
    shown = partition_text(table, values).replace("/", ", ")
    of_files = is_format_table(table.schema)
    counts = file_counts(FormatTable.of(table), values) if of_files else partition_counts(table, values)
    if counts is None:
        raise PaimonError(
            f"[PARTITIONS_NOT_FOUND] The partition(s) PARTITION ({shown}) cannot be found in table {quoted(name)}."
        )
    if not extended:
        return []
    created, measured = [], f"{counts['fileSizeInBytes']} bytes"
    if not of_files:
        time = datetime.fromtimestamp(counts["lastFileCreationTime"] // 1000).astimezone()
        created, measured = (
            [("Created Time", f"{time:%a %b %d %H:%M:%S %Z %Y}", "")],
            f"{measured}, {counts['recordCount']} rows",
        )
    parameters = ", ".join(f"{key}={value}" for key, value in counts.items())
    rows: list[Row] = [
        ("", "", ""),
        ("# Detailed Partition Information", "", ""),
        ("Database", name[-2], ""),
        ("Table", name[-1], ""),
        ("Partition Values", f"[{shown}]", ""),
        ("Partition Parameters", f"{{{parameters}}}", ""),
        *created,
        ("Last Access", "UNKNOWN", ""),
        ("Partition Statistics", measured, ""),
        ("", "", ""),
    ]
    required = [field for field in table_struct(table).fields if not field.nullable]
    if required:
        rows.append(("# Column Not Null", "", ""))
        rows += [(field.name, field.dataType.simpleString(), "NOT NULL") for field in required]
    return rows


@procedure("DESCRIBE TABLE … PARTITION of Paimon's tables.", result=DESCRIPTION_COLUMNS, name=DESCRIBE_PARTITION)
def _describe(context: CallContext, table: str, partition: str, extended: bool) -> Rows:
    name = context.named(table)
    found = name.load()
    words = "EXTENDED " if extended else ""
    shown = context.spark.sql(f"DESCRIBE TABLE {words}{'.'.join(map(quoted_name, name.parts))}")
    values = _typed(context.spark, found, json.loads(partition))
    rows = described_partition(found, name.parts, values, extended=extended)
    return [*map(tuple, shown.collect()), *rows]


def _typed(spark: SparkSession, table: FileStoreTable, given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values that a PARTITION clause has as texts in the types of the columns; Spark casts them."""
    fields = {field.name.lower(): field for field in table.schema.partition_fields}
    columns = {name: fields.get(name.lower()) for name in given}
    if not given or None in columns.values():
        return dict(given)
    casts = [
        f"CAST({'NULL' if given[name] is None else spark_literal(given[name])} AS "
        f"{to_spark_type(field.type).simpleString()})"
        for name, field in columns.items()
        if field is not None
    ]
    row = spark.sql(f"SELECT {', '.join(casts)}").collect()[0]
    return {field.name: value for field, value in zip(columns.values(), row, strict=True) if field is not None}


def run_analyze_statement(spark: SparkSession, table: FileStoreTable, statement: AnalyzeStatement) -> int | None:
    """Do what a statement says; return the id of the new snapshot.

    Raises:
        UnsupportedError: it asks for what Paimon's tables do not have.
        OptionError: it names a column that the table does not have.
    """
    if statement.refusal is not None:
        raise UnsupportedError(statement.refusal)
    return analyze(spark, table, statement.columns, all_columns=statement.all_columns)


@procedure("ANALYZE TABLE of Paimon's tables.", result=(), name=ANALYZE)
def _analyze(context: CallContext, statement: str) -> None:
    parsed = read_as(parse_analyze_statement, statement, "ANALYZE TABLE")
    run_analyze_statement(context.spark, context.table(quoted(parsed.table)), parsed)


@procedure("MSCK REPAIR TABLE of format tables.", result=(), name=REPAIR)
def _repair(context: CallContext, statement: str) -> None:
    parsed = read_as(parse_repair_statement, statement, "MSCK REPAIR TABLE")
    repair_partitions(context.named(quoted(parsed.table)).load(), adds=parsed.adds, drops=parsed.drops)


_TAGS = "Paimon's own statements about tags."


def run_tag_statement(table: FileStoreTable, statement: TagStatement) -> None:
    """Do what a statement other than SHOW TAGS says.

    Raises:
        SnapshotNotFoundError: a tag or snapshot it names does not exist.
        PaimonError: the tag exists already, or its name is not allowed.
    """
    tag, snapshot_id, retained = statement.tag, statement.snapshot_id, statement.time_retained
    action = statement.action
    if action == "CREATE OR REPLACE":
        action = "REPLACE" if table.tags.exists(tag) else "CREATE"
    match action:
        case "CREATE":
            tolerant = statement.tolerant
            tags.create_tag(table, tag, snapshot_id=snapshot_id, time_retained=retained, ignore_if_exists=tolerant)
        case "REPLACE":
            tags.replace_tag(table, tag, snapshot_id=snapshot_id, time_retained=retained)
        case "DELETE":
            tags.delete_tags(table, tag, ignore_if_missing=True)  # Java: no error, with IF EXISTS or without it
        case "RENAME":
            tags.rename_tag(table, tag, statement.new_name)


@procedure(_TAGS, result=(), name=ALTER_TAGS)
def _alter_tags(context: CallContext, statement: str) -> None:
    parsed = read_as(parse_tag_statement, statement, "statement about tags")
    run_tag_statement(context.table(quoted(parsed.table)), parsed)


@procedure(_TAGS, result=(ResultColumn("tag", nullable=False),), name=SHOW_TAGS)
def _show_tags(context: CallContext, statement: str) -> Rows:
    parsed = read_as(parse_tag_statement, statement, "statement about tags")
    return [(name,) for name in context.table(quoted(parsed.table)).tags.names()]
