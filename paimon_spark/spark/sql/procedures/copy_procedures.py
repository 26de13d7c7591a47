"""COPY INTO of a classic session, run as procedures that no list shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import PaimonError
from paimon_spark.spark.sql.copy_into import LOADED, WRITTEN, copy_into_location, copy_into_table
from paimon_spark.spark.sql.procedures.procedure import STATEMENT, Arguments, CallContext, Procedure, Rows
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.statements.copy_statements import CopyIntoLocation, CopyIntoTable, is_copy, read_copy
from paimon_spark.spark.statements.cursor import Cursor, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTO_TABLE, _INTO_LOCATION = "__copy_into_table", "__copy_into_location"
_DESCRIPTION = "COPY INTO."


def copy_call(cursor: Cursor) -> str:
    """The name of the procedure that runs a COPY INTO; its argument is the text."""
    return _INTO_LOCATION if copies_out(cursor) else _INTO_TABLE


def copies_out(cursor: Cursor) -> bool:
    """Whether a COPY INTO writes files."""
    return cursor.tokens[2].kind is Kind.STRING


def _statement(text: str) -> CopyIntoTable | CopyIntoLocation:
    cursor = Cursor.of(text)
    if cursor is None or not is_copy(cursor):
        raise PaimonError(f"This is no COPY INTO: {text}")
    return read_copy(cursor)


def _into_table(context: CallContext, statement: CopyIntoTable) -> Rows:
    name = quoted(statement.table)

    def append(rows: DataFrame) -> None:
        rows.writeTo(name).append()

    return copy_into_table(context.spark, context.table(name), statement, append)


def _into_location(context: CallContext, statement: CopyIntoLocation) -> Rows:
    return copy_into_location(context.spark.sql(statement.query), statement)


def _run(run: Callable[[CallContext, Any], Rows], context: CallContext, arguments: Arguments) -> Rows:
    try:
        return run(context, _statement(arguments["statement"]))
    except CapturedException:
        raise
    except AnalysisException as error:  # made here: Java has no such exception to show
        raise PaimonError(str(error)) from None


COPY_INTO_PROCEDURES = (
    Procedure(_INTO_TABLE, (STATEMENT,), LOADED, partial(_run, _into_table), _DESCRIPTION),
    Procedure(_INTO_LOCATION, (STATEMENT,), WRITTEN, partial(_run, _into_location), _DESCRIPTION),
)
