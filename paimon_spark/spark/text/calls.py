"""CALL statements and Paimon's statements about tags. They run the procedures of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import SchemaError, TableNotFoundError
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.format_tables import repair_partitions
from paimon_spark.spark.sql.procedures.procedure import (
    Argument,
    CallContext,
    Procedure,
    ResultColumn,
    argument_table,
    argument_tables,
    argument_warehouse,
)
from paimon_spark.spark.sql.procedures.registry import find_procedure
from paimon_spark.spark.sql.procedures.statement_procedures import run_analyze_statement, run_tag_statement
from paimon_spark.spark.sql.warehouses import (
    DEFAULT_CATALOG,
    analysis_error,
    resolve_text,
    table_not_found,
)
from paimon_spark.spark.statements.cursor import Cursor, split_name
from paimon_spark.spark.statements.table_statements import (
    TagStatement,
    parse_analyze_statement,
    parse_repair_statement,
    parse_tag_statement,
)
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.row_statements import empty, target
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.format_table import refuse_format_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable


def run_call(context: Context, cursor: Cursor) -> DataFrame:
    """Run ``CALL [catalog.]sys.procedure(…)``.

    Raises:
        UnsupportedError: there is no such procedure; the message names those there are.
        AnalysisException: the arguments do not fit.
    """
    text = cursor.source()
    cursor.expect("CALL")
    parts = cursor.name()
    catalog = parts[0] if len(parts) == 3 else context.known.catalog
    ours = context.known.means(catalog) or (len(parts) == 2 and catalog == DEFAULT_CATALOG)
    if not ours or len(parts) not in (2, 3) or parts[-2].lower() != SYSTEM_DATABASE:
        return context.spark_sql(text)
    procedure = find_procedure(parts[-1], namespace=parts[-2])
    given = _given(cursor, procedure, cursor.group())
    cursor.finish()
    arguments = _values(context, procedure, given)
    call = CallContext(
        context.spark,
        lambda text: _open(context, text, catalog),
        lambda text: argument_tables(context.known, text, catalog),
        lambda: argument_warehouse(context.known, catalog),
        lambda text: resolve_text(context.known, text, catalog),
    )
    rows = procedure.function(call, arguments)
    return rows_frame(context, procedure.result, list(rows))


def _open(context: Context, text: str, catalog: str) -> FileStoreTable:
    try:
        return argument_table(context.known, text, catalog)
    except (TableNotFoundError, SchemaError):
        raise table_not_found(split_name(text)) from None


def rows_frame(context: Context, columns: Sequence[ResultColumn], rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Return a DataFrame of given rows."""
    if not columns:
        return empty(context)
    schema = StructType([StructField(column.name, column.type, column.nullable) for column in columns])
    return context.spark.createDataFrame(list(rows), schema)


def _given(cursor: Cursor, procedure: Procedure, inside: Cursor) -> dict[str, str]:
    """Return the expressions of the arguments by name; the statement gives them by name or by position."""
    by_name = {argument.name.lower(): argument.name for argument in procedure.arguments}
    given: dict[str, str] = {}
    for position, piece in enumerate(inside.split()):
        if piece.peek(1) is not None and (piece.tokens[1].is_sign("=>") or piece.tokens[1].is_sign(":=")):
            written = piece.identifier()
            piece.at += 1
            name = by_name.get(written.lower())
            if name is None:
                raise analysis_error(
                    "UNRECOGNIZED_PARAMETER_NAME",
                    f"Cannot invoke routine {procedure.name}: it has no argument {written}; its arguments are "
                    f"{', '.join(by_name.values())}.",
                )
        elif position < len(procedure.arguments) and len(given) == position:
            name = procedure.arguments[position].name
        else:
            cursor.fail("there are too many arguments, or one without a name after one with a name")
        if name in given:
            raise analysis_error("DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT", f"Argument {name} is given twice.")
        given[name] = piece.rest().source()
    return given


def _values(context: Context, procedure: Procedure, given: dict[str, str]) -> dict[str, Any]:
    """Return the values of the arguments, which Spark evaluates."""
    known: dict[str, Argument] = {argument.name: argument for argument in procedure.arguments}
    values: dict[str, Any] = dict.fromkeys(known)
    if given:
        columns = ", ".join(f"CAST(({text}) AS {known[name].type.simpleString()})" for name, text in given.items())
        values |= dict(zip(given, context.spark_sql(f"SELECT {columns}").collect()[0], strict=True))
    missing = [name for name, argument in known.items() if argument.required and values[name] is None]
    if missing:
        raise analysis_error(
            "REQUIRED_PARAMETER_NOT_FOUND",
            f"Cannot invoke routine {procedure.name} because the parameter named {missing[0]} is required, but it was "
            "not given, or is NULL.",
        )
    return values


def run_tags(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run a statement about tags. Return None where the text is another statement, or the table is Spark's."""
    statement = parse_tag_statement(cursor)
    if statement is None:
        return None
    name = target(context, statement.table)
    if name is None:
        return None
    refuse_system_table(".".join(statement.table), name.system_table, "given to a procedure")
    return _run_tags(context, statement, refuse_format_table(name.load(), "a tag"))


def run_analyze(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run ANALYZE TABLE. Return None where the text is another statement, or the table is Spark's."""
    statement = parse_analyze_statement(cursor)
    name = None if statement is None else target(context, statement.table)
    if statement is None or name is None:
        return None
    refuse_system_table(".".join(statement.table), name.system_table, "analyzed")
    table = refuse_format_table(name.load(), "ANALYZE TABLE")
    run_analyze_statement(context.spark, table, statement)
    return empty(context)


def run_repair(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run MSCK REPAIR TABLE. Return None where the text is another statement, or the table is Spark's."""
    statement = parse_repair_statement(cursor)
    name = None if statement is None else target(context, statement.table)
    if statement is None or name is None:
        return None
    refuse_system_table(".".join(statement.table), name.system_table, "repaired")
    repair_partitions(name.load(), adds=statement.adds, drops=statement.drops)
    return empty(context)


def _run_tags(context: Context, statement: TagStatement, table: FileStoreTable) -> DataFrame:
    if statement.action != "SHOW":
        run_tag_statement(table, statement)
        return empty(context)
    return rows_frame(context, (ResultColumn("tag", nullable=False),), [(name,) for name in table.tags.names()])
