"""Statements about functions of a classic session, run as procedures that no list shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.sql.functions import (
    FUNCTION_COLUMNS,
    FunctionContext,
    Surroundings,
    is_spark_function,
    run_function_statement,
    temporary_views_in,
)
from paimon_spark.spark.sql.procedures.procedure import Argument, CallContext, Procedure
from paimon_spark.spark.sql.warehouses import table_not_found
from paimon_spark.spark.statements.function_statements import FunctionStatement, parse_function_statement
from paimon_spark.table.filesystem_catalog import DEFAULT_DATABASE

_DESCRIPTION = "Statements about functions of Paimon's catalogs."


def function_call(statement: FunctionStatement) -> str:
    """The name of the procedure that runs a statement; its argument is the text."""
    return f"__function_{statement.action.lower()}" if statement.action in FUNCTION_COLUMNS else "__function"


def _run(context: CallContext, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    statement = parse_function_statement(arguments["statement"])
    if statement is None:
        raise PaimonError(f"This is no statement about functions: {arguments['statement']}")
    spark, catalog_name = context.spark, arguments["catalog"]
    current = (str(spark.catalog.currentCatalog()), str(spark.catalog.currentDatabase()))
    parts = statement.name[1:] if statement.name[:1] == (catalog_name,) and len(statement.name) > 1 else statement.name
    if len(parts) > 2:
        raise table_not_found(statement.name)
    database = parts[0] if len(parts) > 1 else current[1] if current[0] == catalog_name else DEFAULT_DATABASE
    found = FunctionContext(
        catalog_name,
        database,
        parts[-1],
        current,
        spark.sql,
        lambda body, _is_query: body,
        partial(temporary_views_in, spark),
        Surroundings(
            context.warehouse(),
            java_state(spark).catalogManager().isCatalogRegistered,
            partial(is_spark_function, spark),
        ),
    )
    try:
        return run_function_statement(found, statement)
    except CapturedException:
        raise
    except AnalysisException as error:  # made here: Java has no such exception to show
        kind = TableNotFoundError if "NOT_FOUND" in (error.getCondition() or "") else SchemaError
        raise kind(str(error)) from None


_ARGUMENTS = (Argument("statement", required=True), Argument("catalog", required=True))
FUNCTION_PROCEDURES = (
    Procedure("__function", _ARGUMENTS, (), _run, _DESCRIPTION),
    Procedure("__function_describe", _ARGUMENTS, FUNCTION_COLUMNS["DESCRIBE"], _run, _DESCRIPTION),
)
