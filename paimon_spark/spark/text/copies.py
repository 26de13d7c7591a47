"""COPY INTO, by this engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.spark.sql.copy_statements import CopyFormat, CopyIntoTable, copy_into_place, copy_into_table
from paimon_spark.spark.sql.procedures.procedure import LONG, ResultColumn
from paimon_spark.spark.statements.cursor import Kind
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.inserts import target, written_table
from paimon_spark.spark.text.queries import run_query
from paimon_spark.storage.file_io import FileIO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.statements.cursor import Cursor
    from paimon_spark.spark.text.context import Context

_LOADED = (
    ResultColumn("file_name", nullable=False),
    ResultColumn("status", nullable=False),
    ResultColumn("rows_loaded", LONG, nullable=False),
    ResultColumn("rows_parsed", LONG, nullable=False),
    ResultColumn("errors_seen", LONG, nullable=False),
    ResultColumn("first_error"),
)
_ON_ERROR = ("ABORT_STATEMENT", "CONTINUE", "SKIP_FILE")


def is_copy(cursor: Cursor) -> bool:
    """Whether a statement is Paimon's COPY INTO; that of Databricks has FILEFORMAT instead of FILE_FORMAT."""
    return cursor.sees("COPY", "INTO") and any(token.is_word("FILE_FORMAT") for token in cursor.tokens)


def run_copy(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run COPY INTO, the cursor standing behind these words; None for a table of Spark's."""
    first = cursor.peek()
    if first is not None and first.kind is Kind.STRING:
        return _into_place(context, cursor)
    name = target(context, cursor.name())
    if name is None:
        return None
    columns = tuple(piece.identifier() for piece in cursor.group().split()) if cursor.sees("(") else None
    cursor.expect("FROM")
    found = CopyIntoTable(cursor.string(), _format(cursor), columns)
    if cursor.take("PATTERN"):
        cursor.expect("=")
        found = replace(found, pattern=cursor.string())
    if cursor.take("FORCE"):
        found = replace(found, force=_boolean(cursor))
    if cursor.take("ON_ERROR"):
        cursor.expect("=")
        mode = cursor.take_any(*_ON_ERROR)
        if mode is None:
            cursor.fail(f"one of {', '.join(_ON_ERROR)} is expected")
        found = replace(found, on_error=mode)
    cursor.finish()
    table = written_table(context, name)
    paimon = PaimonTable.for_path(context.spark, name.path, **name.options)
    latest = name.load().snapshots.latest_id
    return rows_frame(context, _LOADED, copy_into_table(context.spark, table, found, paimon.append, latest))


def _into_place(context: Context, cursor: Cursor) -> DataFrame:
    place = cursor.string()
    cursor.expect("FROM")
    query = cursor.group() if cursor.sees("(") else None
    if query is None:
        start = cursor.at
        cursor.name()
        query = type(cursor)(cursor.text, cursor.tokens[start : cursor.at])
        rows = run_query(context, _parsed(query, f"SELECT * FROM {query.source()}"))
    else:
        rows = run_query(context, query)
    file_format, overwrite = _format(cursor), False
    if cursor.take("OVERWRITE"):
        overwrite = _boolean(cursor)
    cursor.finish()
    found = copy_into_place(rows, place, file_format, overwrite=overwrite, store=FileIO.for_path(place, {}))
    return context.spark.createDataFrame(found, "output_path STRING, file_count INT, rows_written BIGINT")


def _parsed(cursor: Cursor, text: str) -> Cursor:
    found = type(cursor).of(text)
    assert found is not None
    return found


def _boolean(cursor: Cursor) -> bool:
    cursor.expect("=")
    word = cursor.take_any("TRUE", "FALSE")
    if word is None:
        cursor.fail("TRUE or FALSE is expected")
    return word == "TRUE"


def _format(cursor: Cursor) -> CopyFormat:
    cursor.expect("FILE_FORMAT")
    cursor.expect("=")
    kind, options, null_if = "", dict[str, str](), tuple[str, ...]()
    for piece in cursor.group().split():
        key = piece.identifier().upper()
        piece.expect("=")
        if piece.sees("("):
            null_if = tuple(each.string() for each in piece.group().split())
            if key != "NULL_IF":
                raise OptionError(f"{key} in FILE_FORMAT takes one value, not a list.")
            continue
        token = piece.peek()
        if token is None:
            piece.fail("a value is expected")
        value = piece.string() if token.kind is Kind.STRING else token.text
        if key == "TYPE":
            kind = value.upper()
        elif key == "NULL_IF":
            null_if = (value,)
        else:
            options[key] = value
    if not kind:
        raise OptionError("FILE_FORMAT must include TYPE = CSV, JSON or PARQUET.")
    return CopyFormat(kind, options, null_if)
