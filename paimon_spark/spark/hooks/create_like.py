"""CREATE TABLE … LIKE before Spark 4.2, whose catalogs are not asked: Spark's parser takes it for its own tables.

The statement becomes the CREATE TABLE of the same definition, which Spark then gives to the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import active_session, ident_of, is_proxy, python_object, scala_seq
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.sql.table_definitions import copied_options
from paimon_spark.spark.sql.table_descriptions import (
    defined_columns,
    defined_partitions,
    properties_clause,
    shown_properties,
)
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.statements.cursor import Cursor, read_statement
from paimon_spark.spec.sql_text import literal_text


@dataclass(frozen=True, slots=True)
class CreateLike:
    """What the statement says."""

    target: tuple[str, ...]
    source: tuple[str, ...]
    tolerant: bool
    """IF NOT EXISTS."""
    clauses: str
    """USING and LOCATION, as given."""
    options: dict[str, str]


def parse_create_like(text: str | Cursor) -> CreateLike | None:
    """Read the statement; None where the text is anything else."""
    return read_statement(text, _create_like)


def _create_like(cursor: Cursor) -> CreateLike | None:
    if not cursor.take("CREATE", "TABLE"):
        return None
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    target = cursor.name()
    if not cursor.take("LIKE"):
        return None
    source, provider, location = cursor.name(), "paimon", ""
    options: dict[str, str] = {}
    while not cursor.at_end():
        if cursor.take("USING"):
            provider = cursor.identifier()
        elif cursor.take("LOCATION"):
            location = f" LOCATION {literal_text(cursor.string())}"
        elif cursor.take("TBLPROPERTIES"):
            options |= cursor.properties()
        else:
            return None
    return CreateLike(target, source, tolerant, f"USING {quoted((provider,))}{location}\n", options)


def create_text(gateway: Gateway, state: JavaObject, statement: CreateLike) -> str:
    """Return the CREATE TABLE of the same definition.

    Where there is no source, DESCRIBE of it, by which Spark says so.
    """
    head = f"CREATE TABLE {'IF NOT EXISTS ' if statement.tolerant else ''}{quoted(statement.target)} "
    if len(statement.source) == 1 and state.catalog().isTempView(scala_seq(gateway, list(statement.source))):
        view = active_session(gateway).table(quoted(statement.source))
        return f"{head}({_ddl(java_frame(view).schema())}) {statement.clauses}{properties_clause(statement.options)}"
    source = _source(gateway, state, statement.source)
    if source is None:
        return f"DESCRIBE TABLE {quoted(statement.source)}"
    proxy = python_object(gateway, source) if is_proxy(gateway, source) else None
    if isinstance(proxy, TableProxy):
        table = proxy.loaded.table
        options = copied_options(dict(shown_properties(table))) | statement.options
        definition = defined_columns(table) + statement.clauses + defined_partitions(table.schema)
        return head + definition + properties_clause(options)
    columns = _ddl(compat.V2_COLUMNS.of(gateway).v2ColumnsToStructType(source.columns()))
    keys = ", ".join(str(transform.describe()) for transform in source.partitioning())
    partitions = f"PARTITIONED BY ({keys})\n" if keys else ""
    return f"{head}({columns}) {statement.clauses}{partitions}{properties_clause(statement.options)}"


def _source(gateway: Gateway, state: JavaObject, name: Sequence[str]) -> JavaObject | None:
    """The table of any catalog; None where there is none."""
    try:
        catalog, ident = ident_of(gateway, state, name)
        return catalog.loadTable(ident)
    except CALL_ERRORS:
        return None


def _ddl(struct: JavaObject) -> str:
    return str(struct.toDDL())
