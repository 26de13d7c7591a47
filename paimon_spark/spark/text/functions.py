"""Statements about functions that stay in a catalog, by this engine."""

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
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.statements.function_statements import FunctionStatement, parse_function_statement
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.function_calls import function_named, surroundings, with_tables
from paimon_spark.spark.text.queries import with_temporary_views
from paimon_spark.table.catalog_views import keeps_functions
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FUNCTION_WORDS: Final = ("CREATE", "DROP", "SHOW", "DESCRIBE", "DESC")
"""Words with which statements about functions begin."""


def run_function(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement about a function; None for another statement, or a function of Spark's."""
    statement = parse_function_statement(cursor)
    found = None if statement is None else _context(context, statement)
    if statement is None or found is None:
        return None
    return rows_frame(context, FUNCTION_COLUMNS.get(statement.action, ()), run_function_statement(found, statement))


def _context(context: Context, statement: FunctionStatement) -> FunctionContext | None:
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
