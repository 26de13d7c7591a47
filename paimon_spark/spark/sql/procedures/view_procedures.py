"""Statements about views and functions of a classic session, as procedures that no list shows; `alter_view_dialect`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError
from paimon_spark.spark.session.pyspark_members import analyzed_text, java_state
from paimon_spark.spark.sql.functions import (
    FUNCTION_COLUMNS,
    FunctionContext,
    Surroundings,
    is_spark_function,
    run_function_statement,
    temporary_views_in,
)
from paimon_spark.spark.sql.procedures.procedure import (
    STATEMENT,
    Argument,
    Arguments,
    CallContext,
    Procedure,
    Rows,
    procedure,
    statement_argument,
)
from paimon_spark.spark.sql.views import VIEW_COLUMNS, ViewContext, run_view_statement
from paimon_spark.spark.sql.warehouses import table_not_found
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.function_statements import FunctionStatement, parse_function_statement
from paimon_spark.spark.statements.view_statements import ViewStatement, parse_view_statement
from paimon_spark.spec.view import SPARK_DIALECT, ViewChange
from paimon_spark.table.catalog_views import alter_view, find_view
from paimon_spark.table.filesystem_catalog import DEFAULT_DATABASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    database = above[0] if above else current[1] if current[0] == catalog else DEFAULT_DATABASE
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


def _run_view(context: CallContext, arguments: Arguments) -> Rows:
    statement = statement_argument(arguments, parse_view_statement, "statement about views")
    spark = context.spark
    named = _named(context, arguments["catalog"], statement.name, is_database=statement.action == "SHOW")
    schema_of, views_in = lambda query: spark.sql(query).schema, partial(_temporary_views, spark)
    found = ViewContext(context.warehouse(), *named, schema_of, views_in)
    return _answered(partial(run_view_statement, found, statement))


def _run_function(context: CallContext, arguments: Arguments) -> Rows:
    statement = statement_argument(arguments, parse_function_statement, "statement about functions")
    spark = context.spark
    registered = java_state(spark).catalogManager().isCatalogRegistered
    around = Surroundings(context.warehouse(), registered, partial(is_spark_function, spark))
    named = _named(context, arguments["catalog"], statement.name)
    views_in = partial(temporary_views_in, spark)
    found = FunctionContext(*named, spark.sql, lambda body, _is_query: body, views_in, around)
    return _answered(partial(run_function_statement, found, statement))


def _temporary_views(spark: SparkSession, query: str) -> list[str]:
    return sorted(set(_TEMPORARY.findall(analyzed_text(spark.sql(query)))))


@procedure(
    "Adds, updates or drops the query that a view has for an engine (default spark).",
    (Argument("view", required=True), Argument("action", required=True), Argument("engine"), Argument("query")),
)
def _alter_view_dialect(context: CallContext, arguments: Arguments) -> None:
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


_ARGUMENTS = (STATEMENT, Argument("catalog", required=True))
VIEW_PROCEDURES = (
    Procedure("__view", _ARGUMENTS, (), _run_view, _VIEWS),
    *(
        Procedure(_view_procedure(action), _ARGUMENTS, columns, _run_view, _VIEWS)
        for action, columns in VIEW_COLUMNS.items()
    ),
)
FUNCTION_PROCEDURES = (
    Procedure("__function", _ARGUMENTS, (), _run_function, _FUNCTIONS),
    Procedure("__function_describe", _ARGUMENTS, FUNCTION_COLUMNS["DESCRIBE"], _run_function, _FUNCTIONS),
)
