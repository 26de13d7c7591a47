"""USE, and the statements about what a catalog keeps: databases, and views and functions, by this engine.

Of databases: CREATE, DROP, DESCRIBE and SHOW DATABASES, SHOW TABLES.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.spark.sql.functions import (
    FUNCTION_COLUMNS,
    FunctionContext,
    is_spark_function,
    run_function_statement,
    temporary_views_in,
)
from paimon_spark.spark.sql.procedures.procedure import BOOLEAN, ResultColumn
from paimon_spark.spark.sql.table_definitions import check_database_location
from paimon_spark.spark.sql.views import VIEW_COLUMNS, ViewContext, run_view_statement
from paimon_spark.spark.sql.warehouses import (
    SPARK_CATALOG,
    analysis_error,
    is_temporary_view,
    quoted,
    resolve,
    schema_not_found,
    unknown_warehouse,
    use,
)
from paimon_spark.spark.statements.catalog_statements import (
    FunctionStatement,
    ViewStatement,
    parse_function_statement,
    parse_view_statement,
)
from paimon_spark.spark.statements.cursor import Cursor, Kind
from paimon_spark.spark.statements.query_trees import NotUnderstoodError, read_query
from paimon_spark.spark.statements.version_clauses import version_clauses, without_clauses
from paimon_spark.spark.text.calls import rows_frame
from paimon_spark.spark.text.catalog_objects import function_named, surroundings, with_tables
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.queries import rows_of_text, with_temporary_views
from paimon_spark.spark.text.row_statements import empty
from paimon_spark.spec.sql_text import matching
from paimon_spark.table.catalog_views import find_view, keeps_functions, keeps_views, views_of
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def run_use(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run USE or SET CATALOG, the cursor standing behind it; None where it is about Spark's own catalogs alone."""
    cursor.take_any(*DATABASE_WORDS)
    token = cursor.peek()
    parts = (cursor.string(),) if token is not None and token.kind is Kind.STRING else cursor.name()
    cursor.finish()
    known = context.known
    if parts[0] in known.catalogs:
        if len(parts) > 2:
            raise schema_not_found(parts)
        database = parts[1] if len(parts) == 2 else known.catalogs[parts[0]].default_database
        if len(parts) == 2:
            _database(known.catalogs[parts[0]], parts[0], database)
        use(context.spark, parts[0], database)
    elif len(parts) == 1 and known.means(parts[0]):
        raise unknown_warehouse(parts[0])
    elif known.current is not None and parts[0] != SPARK_CATALOG and len(parts) == 1:
        _database(known.current, known.catalog, parts[0])
        use(context.spark, known.catalog, parts[0])
    else:
        use(context.spark, parts[0] if parts[0] == SPARK_CATALOG or len(parts) > 1 else known.catalog)
        return None
    return empty(context)


def run_create_database(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run CREATE DATABASE, the cursor standing behind these words; None for one of Spark's."""
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    found = named_database(context, cursor.name())
    if found is None:
        return None
    catalog, catalog_name, database = found
    properties: dict[str, str] = {}
    while not cursor.at_end():  # a directory does not keep them, as in the official filesystem catalog
        if cursor.take("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.take("WITH", "DBPROPERTIES") or cursor.take("WITH", "PROPERTIES"):
            properties |= cursor.properties()
        elif cursor.take("LOCATION") or cursor.take("MANAGED", "LOCATION"):
            check_database_location(catalog.options, catalog.database_path(database))
            properties["location"] = cursor.string()
        else:
            cursor.finish()
    if catalog.has_database(database) and not tolerant:
        raise analysis_error(
            "SCHEMA_ALREADY_EXISTS",
            f"Cannot create schema {quoted((catalog_name, database))} because it already exists.",
        )
    catalog.create_database(database, ignore_if_exists=tolerant, properties=properties)
    return empty(context)


def run_alter_database(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run ALTER DATABASE … SET, the cursor standing behind these words; None for one of Spark's."""
    found = named_database(context, cursor.name())
    if found is None:
        return None
    catalog, catalog_name, database = found
    updates: dict[str, str] = {}
    if cursor.take("SET", "DBPROPERTIES") or cursor.take("SET", "PROPERTIES"):
        updates = cursor.properties()
    else:
        cursor.finish()
    cursor.finish()
    _database(catalog, catalog_name, database)
    catalog.alter_database(database, updates, ())
    return empty(context)


def run_drop_database(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DROP DATABASE, the cursor standing behind these words; None for one of Spark's."""
    tolerant = cursor.take("IF", "EXISTS")
    found = named_database(context, cursor.name())
    if found is None:
        return None
    cascade = cursor.take_any("CASCADE", "RESTRICT") == "CASCADE"
    cursor.finish()
    catalog, catalog_name, database = found
    if not catalog.has_database(database):
        if tolerant:
            return empty(context)
        raise schema_not_found((catalog_name, database))
    if not cascade and (catalog.tables(database) or views_of(catalog, database)):
        raise analysis_error(
            "SCHEMA_NOT_EMPTY",
            f"Cannot drop a schema {quoted((catalog_name, database))} because it contains objects. Use DROP SCHEMA … "
            "CASCADE to drop the schema and all its objects.",
        )
    catalog.drop_database(database, cascade=cascade)
    return empty(context)


def run_describe_database(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DESCRIBE DATABASE, the cursor standing behind these words; None for one of Spark's."""
    is_extended = cursor.take("EXTENDED")
    found = named_database(context, cursor.name())
    if found is None:
        return None
    cursor.finish()
    catalog, catalog_name, database = found
    properties = catalog.database_properties(database)
    if properties is None:
        raise schema_not_found((catalog_name, database))
    location, comment = properties.pop("location", catalog.database_path(database)), properties.pop("comment", None)
    owner = properties.pop("owner", None)
    rows = [
        ("Catalog Name", catalog_name),
        ("Namespace Name", database),
        *([] if comment is None else [("Comment", comment)]),
        ("Location", location),
        *([] if owner is None else [("Owner", owner)]),
    ]
    if is_extended and properties:
        rows.append(("Properties", f"({','.join(f'({key},{text})' for key, text in sorted(properties.items()))})"))
    return rows_frame(context, (ResultColumn("info_name"), ResultColumn("info_value")), rows)


def run_show_databases(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW DATABASES, the cursor standing behind these words; None for those of Spark."""
    name = cursor.name()[0] if cursor.take_any("FROM", "IN") else context.known.catalog
    catalog = context.known.catalogs.get(name)
    if catalog is None:
        return None
    rows = [(database,) for database in matching(catalog.databases(), _pattern(cursor))]
    return rows_frame(context, (ResultColumn("namespace", nullable=False),), rows)


def run_show_tables(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run SHOW TABLES, the cursor standing behind these words; None for those of Spark."""
    parts = cursor.name() if cursor.take_any("FROM", "IN") else (context.known.catalog, context.known.database)
    found = named_database(context, parts)
    if found is None:
        return None
    catalog, catalog_name, database = found
    _database(catalog, catalog_name, database)
    columns = (
        ResultColumn("namespace", nullable=False),
        ResultColumn("tableName", nullable=False),
        ResultColumn("isTemporary", BOOLEAN, nullable=False),
    )
    rows = [(database, table, False) for table in matching(catalog.tables(database), _pattern(cursor))]
    return rows_frame(context, columns, rows)


def show_current(context: Context) -> DataFrame | None:
    """SHOW CURRENT NAMESPACE; None where it is Spark's."""
    known = context.known
    if known.current is None:
        return None
    columns = (ResultColumn("catalog", nullable=False), ResultColumn("namespace", nullable=False))
    return rows_frame(context, columns, [(known.catalog, known.database)])


def _pattern(cursor: Cursor) -> str | None:
    given = cursor.take("LIKE")
    pattern = cursor.string() if given or not cursor.at_end() else None
    cursor.finish()
    return pattern


def named_database(context: Context, parts: Sequence[str]) -> tuple[FilesystemCatalog, str, str] | None:
    """Return the catalog, its name and the database that a name means; None for a database of Spark's."""
    known = context.known
    if parts[0] in known.catalogs and len(parts) == 2:
        return known.catalogs[parts[0]], parts[0], parts[1]
    if len(parts) == 2 and known.means(parts[0]):
        raise unknown_warehouse(parts[0])
    if len(parts) != 1 or known.current is None:
        return None
    return known.current, known.catalog, parts[0]


def _database(catalog: FilesystemCatalog, catalog_name: str, database: str) -> None:
    if not catalog.database_exists(database):
        raise schema_not_found((catalog_name, database))


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
