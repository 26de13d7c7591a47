"""ANALYZE TABLE: reading the statement, and running it as a procedure that no list shows.

::

    ANALYZE TABLE t COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jobs.analyze import analyze
from paimon_spark.spark.sql.procedures.procedure import STATEMENT, Arguments, CallContext, procedure, statement_argument
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.statements.cursor import Cursor, read_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.table.table import FileStoreTable

ANALYZE = "__analyze"


@dataclass(frozen=True, slots=True)
class AnalyzeStatement:
    """ANALYZE TABLE of one table."""

    table: tuple[str, ...]
    """The parts of the table's name."""
    columns: tuple[str, ...] = ()
    all_columns: bool = False
    refusal: str | None = None
    """Why it cannot be run, in Java's words."""

    @property
    def procedure(self) -> str:
        """The name of the procedure that runs it."""
        return ANALYZE


def parse_analyze_statement(text: str | Cursor) -> AnalyzeStatement | None:
    """Read an ANALYZE TABLE; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _analyze_statement)


def _analyze_statement(cursor: Cursor) -> AnalyzeStatement | None:
    if not cursor.take("ANALYZE", "TABLE"):
        return None
    table = cursor.name()
    if cursor.take("PARTITION"):
        return AnalyzeStatement(table, refusal="Analyze table partition is not supported: analyze the whole table.")
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.take("NOSCAN"):
        return AnalyzeStatement(table, refusal="NOSCAN is ineffective with paimon: leave it out.")
    statement = AnalyzeStatement(table)
    if cursor.take("FOR", "ALL", "COLUMNS"):
        statement = AnalyzeStatement(table, all_columns=True)
    elif cursor.take("FOR", "COLUMNS"):
        names = [cursor.identifier()]
        while cursor.take(","):
            names.append(cursor.identifier())
        statement = AnalyzeStatement(table, tuple(names))
    cursor.finish()
    return statement


def run_analyze_statement(spark: SparkSession, table: FileStoreTable, statement: AnalyzeStatement) -> int | None:
    """Do what a statement says; return the id of the new snapshot.

    Raises:
        UnsupportedError: it asks for what Paimon's tables do not have.
        OptionError: it names a column that the table does not have.
    """
    if statement.refusal is not None:
        raise UnsupportedError(statement.refusal)
    return analyze(spark, table, statement.columns, all_columns=statement.all_columns)


@procedure("ANALYZE TABLE of Paimon's tables.", (STATEMENT,), result=(), name=ANALYZE)
def _analyze(context: CallContext, arguments: Arguments) -> None:
    statement = statement_argument(arguments, parse_analyze_statement, "ANALYZE TABLE")
    run_analyze_statement(context.spark, context.table(quoted(statement.table)), statement)
