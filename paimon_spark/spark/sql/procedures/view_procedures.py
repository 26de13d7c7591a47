"""Statements about views of a classic session, run as procedures that no list shows, and `alter_view_dialect`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import OptionError, PaimonError, SchemaError, TableNotFoundError
from paimon_spark.spark.session.pyspark_members import analyzed_text
from paimon_spark.spark.sql.procedures.procedure import DONE, Argument, CallContext, Procedure
from paimon_spark.spark.sql.views import VIEW_COLUMNS, ViewContext, run_view_statement
from paimon_spark.spark.sql.warehouses import table_not_found
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.view_statements import ViewStatement, parse_view_statement
from paimon_spark.spec.view import SPARK_DIALECT, ViewChange
from paimon_spark.table.catalog_views import alter_view, find_view
from paimon_spark.table.filesystem_catalog import DEFAULT_DATABASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TEMPORARY = re.compile(r"(?:^|[ +:-])View \(`((?:[^`]|``)+)`,", re.MULTILINE)
"""In an analysed plan; the name of a view that stays has several parts."""
_NEEDS_QUERY = ("add", "update")
_DESCRIPTION = "Statements about views of Paimon's catalogs."


def _procedure_name(action: str) -> str:
    return f"__view_{action.lower().replace(' ', '_')}" if action in VIEW_COLUMNS else "__view"


def view_call(statement: ViewStatement) -> str:
    """The name of the procedure that runs a statement; its argument is the text."""
    return _procedure_name(statement.action)


def _run(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    statement = parse_view_statement(arguments["statement"])
    if statement is None:
        raise PaimonError(f"This is no statement about views: {arguments['statement']}")
    spark, catalog_name = context.spark, arguments["catalog"]
    current = (str(spark.catalog.currentCatalog()), str(spark.catalog.currentDatabase()))
    parts = statement.name[1:] if statement.name[:1] == (catalog_name,) and len(statement.name) > 1 else statement.name
    name = "" if statement.action == "SHOW" else parts[-1]
    above = parts if statement.action == "SHOW" else parts[:-1]
    database = above[0] if above else current[1] if current[0] == catalog_name else DEFAULT_DATABASE
    if len(above) > 1:
        raise table_not_found(statement.name)
    found = ViewContext(
        context.warehouse(),
        catalog_name,
        database,
        name,
        current,
        lambda query: spark.sql(query).schema,
        partial(_temporary_views, spark),
    )
    try:
        return run_view_statement(found, statement)
    except CapturedException:
        raise
    except AnalysisException as error:  # made here: Java has no such exception to show
        kind = TableNotFoundError if "NOT_FOUND" in (error.getCondition() or "") else SchemaError
        raise kind(str(error)) from None


def _temporary_views(spark: SparkSession, query: str) -> list[str]:
    return sorted(set(_TEMPORARY.findall(analyzed_text(spark.sql(query)))))


def _alter_dialect(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    name = context.named(arguments["view"])
    action, query = arguments["action"], arguments["query"]
    dialect = (arguments["engine"] or "").strip() or SPARK_DIALECT
    if action not in (*_NEEDS_QUERY, "drop"):
        raise OptionError(f"Unsupported action: {action}. It is one of add, update, drop.")
    if action in _NEEDS_QUERY and not (query or "").strip():
        raise OptionError(f"query is required for {action} action.")
    catalog = context.warehouse()
    if find_view(catalog, name.database, name.table) is None:
        raise table_not_found(split_name(arguments["view"]))
    value = query if action in _NEEDS_QUERY else None
    alter_view(catalog, name.database, name.table, [ViewChange(f"{action}Dialect", dialect, value)])
    return [(True,)]


_ARGUMENTS = (Argument("statement", required=True), Argument("catalog", required=True))
VIEW_PROCEDURES = (
    Procedure("__view", _ARGUMENTS, (), _run, _DESCRIPTION),
    *(
        Procedure(_procedure_name(action), _ARGUMENTS, columns, _run, _DESCRIPTION)
        for action, columns in VIEW_COLUMNS.items()
    ),
    Procedure(
        "alter_view_dialect",
        (Argument("view", required=True), Argument("action", required=True), Argument("engine"), Argument("query")),
        DONE,
        _alter_dialect,
        "Adds, updates or drops the query that a view has for an engine (default spark).",
    ),
)
