"""Statements about views and functions that stay in a catalog, by this engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.spark.sql.functions import (
    FUNCTION_COLUMNS,
    FunctionContext,
    is_spark_function,
    run_function_statement,
    temporary_views_in,
)
from paimon_spark.spark.sql.views import VIEW_COLUMNS, ViewContext, run_view_statement
from paimon_spark.spark.sql.warehouses import is_temporary_view, resolve
from paimon_spark.spark.statements.catalog_statements import (
    FunctionStatement,
    ViewStatement,
    parse_function_statement,
    parse_view_statement,
)
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.statements.query_trees import NotUnderstoodError, read_query
from paimon_spark.spark.statements.version_clauses import version_clauses, without_clauses
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.databases import named_database
from paimon_spark.spark.text.function_calls import function_named, surroundings, with_tables
from paimon_spark.spark.text.queries import rows_of_text, with_temporary_views
from paimon_spark.table.catalog_views import find_view, keeps_functions, keeps_views
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

VIEW_WORDS = ("CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "DESC")
"""Words with which statements about views begin."""


def run_view(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement about a view; None for another statement, or a view of Spark's."""
    statement = parse_view_statement(cursor)
    found = None if statement is None else _context(context, statement)
    if statement is None or found is None:
        return None
    if not keeps_views(found.catalog) and statement.action not in ("SHOW", "DROP"):
        return None
    if statement.may_be_of_table and find_view(found.catalog, found.database, found.name) is None:
        return None
    return rows_frame(context, VIEW_COLUMNS.get(statement.action, ()), run_view_statement(found, statement))


def _context(context: Context, statement: ViewStatement) -> ViewContext | None:
    known, parts = context.known, statement.name
    if statement.action == "SHOW":
        named = named_database(context, parts or (known.catalog, known.database))
        if named is None:
            return None
        catalog, catalog_name, database = named
        name = ""
    else:
        is_new = statement.action == "CREATE"
        if len(parts) == 1 and not is_new and is_temporary_view(context.spark, parts[0]):
            return None
        table = resolve(known, parts)
        if table is None or table.is_path:
            return None
        catalog, catalog_name = known.catalogs[table.catalog_name], table.catalog_name
        database, name = table.database, table.table
    return ViewContext(
        catalog,
        catalog_name,
        database,
        name,
        (known.catalog, known.database),
        lambda query: _schema(context, query),
        lambda query: _temporary_views(context, query),
    )


def _schema(context: Context, query: str) -> StructType:
    return rows_of_text(context, query).schema


def _temporary_views(context: Context, query: str) -> list[str]:
    text = query
    try:
        tables = read_query(without_clauses(text, version_clauses(text, Cursor.of_query(text).tokens))).tables
    except NotUnderstoodError:
        return []
    names = [table.parts[0] for table in tables if len(table.parts) == 1]
    return [name for name in names if is_temporary_view(context.spark, name)]


FUNCTION_WORDS: Final = ("CREATE", "DROP", "SHOW", "DESCRIBE", "DESC")
"""Words with which statements about functions begin."""


def run_function(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement about a function; None for another statement, or a function of Spark's."""
    statement = parse_function_statement(cursor)
    found = None if statement is None else _function_context(context, statement)
    if statement is None or found is None:
        return None
    return rows_frame(context, FUNCTION_COLUMNS.get(statement.action, ()), run_function_statement(found, statement))


def _function_context(context: Context, statement: FunctionStatement) -> FunctionContext | None:
    known, parts = context.known, statement.name
    if statement.action == "SHOW":
        parts = (*(parts or (known.database,)), "")
    name = function_named(known, parts)
    if name is None or name[1] == SYSTEM_DATABASE:
        return None
    catalog_name, database, function = name
    if len(parts) < 3 and not keeps_functions(known.catalogs[catalog_name]):
        return None  # as other names without the catalog
    if len(parts) == 1 and is_spark_function(context.spark, function):
        return None
    return FunctionContext(
        catalog_name,
        database,
        function,
        (known.catalog, known.database),
        context.spark_sql,
        lambda body, is_query: with_tables(context, body, with_temporary_views, query=is_query),
        partial(temporary_views_in, context.spark),
        surroundings(context, catalog_name),
    )
