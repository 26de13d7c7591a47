"""``spark.catalog`` of Connect sessions, where it is about a registered catalog; the rest is the server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import catalog as listed
from pyspark.sql.types import StructType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.session.pyspark_members import plain, wrap_method
from paimon_spark.spark.session.session_settings import is_paimon_format
from paimon_spark.spark.source.source_options import refused_spark_table
from paimon_spark.spark.sql.warehouses import (
    SPARK_CATALOG,
    TableName,
    analysis_error,
    quoted,
    schema_not_found,
    use,
)
from paimon_spark.spark.text.catalog_objects import view_named
from paimon_spark.spark.text.context import Context, context_of, new_or_there, parts_of, there
from paimon_spark.spark.text.databases import named_database
from paimon_spark.spark.text.descriptions import struct_of
from paimon_spark.spark.text.queries import read_table
from paimon_spark.spark.text.statement import run_statement
from paimon_spark.spec.sql_text import literal_text, matching, quoted_name
from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_Answer = Callable[..., Any]
_Database = tuple[FilesystemCatalog, str, str]
_ELSEWHERE = object()
"""Given by an answer where Spark is to say it."""


def install_session_catalog() -> None:
    """Let ``spark.catalog`` of Connect sessions know registered catalogs. Calling it again does no harm."""
    from pyspark.sql.connect.catalog import Catalog

    for method, answer in _ANSWERS.items():
        wrap_method(Catalog, method, partial(_around, answer))


def _around(answer: _Answer, own: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        context = context_of(self._sparkSession)
        found = _ELSEWHERE if context is None else answer(context, *given, **named)
        return own(self, *given, **named) if found is _ELSEWHERE else found

    return call


def _current_catalog(context: Context) -> Any:
    return _ELSEWHERE if context.known.current is None else context.known.catalog


def _set_current_catalog(context: Context, catalogName: str) -> Any:
    if catalogName in context.known.catalogs:
        return use(context.spark, catalogName)
    plain(context.spark.catalog.setCurrentCatalog)(catalogName)
    return use(context.spark, SPARK_CATALOG)


def _list_catalogs(context: Context, pattern: str | None = None) -> Any:
    theirs = plain(context.spark.catalog.listCatalogs)(pattern)
    names = {catalog.name for catalog in theirs}
    ours = [name for name in matching(sorted(context.known.catalogs), pattern) if name not in names]
    return [*(listed.CatalogMetadata(name, None) for name in ours), *theirs]


def _current_database(context: Context) -> Any:
    return _ELSEWHERE if context.known.current is None else context.known.database


def _database(context: Context, name: str) -> _Database | None:
    parts = parts_of(name)
    return named_database(context, parts) if 0 < len(parts) < 3 else None


def _of_database(answer: _Answer) -> _Answer:
    """An answer about a database of ours: its catalog, the catalog's name and its own."""

    def call(context: Context, dbName: str, *given: Any, **named: Any) -> Any:
        found = _database(context, dbName)
        return _ELSEWHERE if found is None else answer(context, found, *given, **named)

    return call


def _set_current_database(context: Context, dbName: str) -> Any:
    if context.known.current is None:
        return _ELSEWHERE
    if not context.known.current.database_exists(dbName):
        raise schema_not_found((context.known.catalog, dbName))
    return use(context.spark, context.known.catalog, dbName)


def _list_databases(context: Context, pattern: str | None = None) -> Any:
    current = context.known.current
    if current is None:
        return _ELSEWHERE
    names = matching(current.databases(), pattern)
    return [_described(current, context.known.catalog, name) for name in names]


def _described(catalog: FilesystemCatalog, catalog_name: str, name: str) -> listed.Database:
    return listed.Database(name, catalog_name, None, catalog.database_path(name))


@_of_database
def _get_database(context: Context, found: _Database) -> Any:
    catalog, catalog_name, name = found
    if not catalog.database_exists(name):
        raise schema_not_found((catalog_name, name))
    return _described(catalog, catalog_name, name)


@_of_database
def _database_exists(context: Context, found: _Database) -> Any:
    return found[0].database_exists(found[2])


def _list_tables(context: Context, dbName: str | None = None, pattern: str | None = None) -> Any:
    if dbName is None and context.known.current is None:
        return _ELSEWHERE
    found = _database(context, dbName or f"{quoted((context.known.catalog, context.known.database))}")
    if found is None:
        return _ELSEWHERE
    catalog, catalog_name, name = found
    if not catalog.database_exists(name):
        raise schema_not_found((catalog_name, name))
    names = matching(catalog.tables(name), pattern)
    views = [table for table in plain(context.spark.catalog.listTables)(None, pattern) if table.isTemporary]
    return [*(_listed(catalog_name, name, table, None) for table in names), *views]


def _listed(catalog: str, database: str, table: str, comment: str | None) -> listed.Table:
    return listed.Table(table, catalog, [database], comment, "MANAGED", False)


def _table(context: Context, name: str, database: str | None = None) -> TableName | None:
    """Return the table that is there, and that no temporary view hides; None for one of Spark's."""
    whole = name if database is None else f"{quoted_name(database)}.{quoted_name(name)}"
    found = there(context, whole)
    if found is None or len(parts_of(whole)) > 1:
        return found
    catalog = context.spark.catalog
    hidden = plain(catalog.tableExists)(name) and plain(catalog.getTable)(name).isTemporary
    return None if hidden else found


def _of_table(answer: _Answer) -> _Answer:
    """An answer about a table of ours, by its name."""

    def call(context: Context, tableName: str, *given: Any, **named: Any) -> Any:
        name = _table(context, tableName)
        return _ELSEWHERE if name is None else answer(context, name, *given, **named)

    return call


@_of_table
def _get_table(context: Context, name: TableName) -> Any:
    return _listed(name.catalog_name, name.database, name.table, name.load().schema.comment)


def _list_columns(context: Context, tableName: str, dbName: str | None = None) -> Any:
    name = _table(context, tableName, dbName)
    if name is None:
        return _ELSEWHERE
    keys = name.load().schema.partition_keys
    columns = []
    for field in struct_of(name).fields:
        comment = (field.metadata or {}).get("comment")
        values: tuple[Any, ...] = (
            field.name,
            comment,
            field.dataType.simpleString(),
            field.nullable,
            field.name in keys,
            False,
            False,
        )
        columns.append(listed.Column(*values[: len(listed.Column._fields)]))
    return columns


def _table_exists(context: Context, tableName: str, dbName: str | None = None) -> Any:
    whole = tableName if dbName is None else f"{quoted_name(dbName)}.{quoted_name(tableName)}"
    name = new_or_there(context, whole)
    if name is None:
        return _ELSEWHERE
    if name.exists() or view_named(context, name) is not None:
        return True
    return len(parts_of(whole)) < 3 and _ELSEWHERE


def _create_table(
    context: Context,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    description: str | None = None,
    **options: str,
) -> Any:
    name = new_or_there(context, tableName)
    if name is None and is_paimon_format(source):
        raise refused_spark_table()
    if name is None:
        return _ELSEWHERE
    columns = ", ".join(f"{quoted_name(f.name)} {_type(f)}" for f in (schema or StructType()).fields)
    text = f"CREATE TABLE {quoted(name.parts)}" + (f" ({columns})" if columns else "")
    text += f" USING {quoted_name(source)}" if source else ""
    text += f" COMMENT {literal_text(description)}" if description else ""
    text += f" LOCATION {literal_text(path)}" if path else ""
    text += f" TBLPROPERTIES ({_pairs(options)})" if options else ""
    run_statement(context, text)
    return read_table(context, name.parts, {})


def _type(field: Any) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"


def _pairs(options: Mapping[str, str]) -> str:
    return ", ".join(f"{literal_text(key)} = {literal_text(str(value))}" for key, value in options.items())


def _statement(text: str) -> _Answer:
    """An answer that is a statement about a table: ``{}`` is its name, which comes first."""
    return _of_table(lambda context, name, *_, **__: _done(context, text.format(quoted(name.parts))))


def _done(context: Context, text: str) -> None:
    run_statement(context, text)


def _refuse_cache(context: Context, tableName: str, *_: Any, **__: Any) -> Any:
    name = _table(context, tableName)
    if name is None:
        return _ELSEWHERE
    raise UnsupportedError(
        f"Spark Connect caches nothing by the name {quoted(name.parts)}: df = spark.table('{tableName}').cache(), and "
        "df.unpersist(), do it"
    )


def _drop_table(context: Context, tableName: str, ifExists: bool = False, purge: bool = False) -> Any:
    name = new_or_there(context, tableName)
    if name is None or (not name.exists() and len(parts_of(tableName)) < 3):
        return _ELSEWHERE
    return _done(context, f"DROP TABLE {'IF EXISTS ' if ifExists else ''}{quoted(name.parts)}")


@_of_database
def _create_database(
    context: Context, found: _Database, ifNotExists: bool = False, properties: Mapping[str, str] | None = None
) -> Any:
    more = f" WITH DBPROPERTIES ({_pairs(properties)})" if properties else ""
    return _done(context, f"CREATE DATABASE {'IF NOT EXISTS ' if ifNotExists else ''}{quoted(found[1:])}{more}")


@_of_database
def _drop_database(context: Context, found: _Database, ifExists: bool = False, cascade: bool = False) -> Any:
    words = f"DROP DATABASE {'IF EXISTS ' if ifExists else ''}{quoted(found[1:])}{' CASCADE' if cascade else ''}"
    return _done(context, words)


@_of_table
def _list_partitions(context: Context, name: TableName) -> Any:
    rows = run_statement(context, f"SHOW PARTITIONS {quoted(name.parts)}").collect()
    return [listed.TablePartition(row[0]) for row in rows]  # type: ignore[attr-defined,unused-ignore]


@_of_table
def _recover_partitions(context: Context, name: TableName) -> Any:
    raise analysis_error(
        "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", f"{quoted(name.parts)}: a Paimon table knows its partitions."
    )


@_of_table
def _properties(context: Context, name: TableName) -> Any:
    return {row[0]: row[1] for row in run_statement(context, f"SHOW TBLPROPERTIES {quoted(name.parts)}").collect()}


@_of_table
def _create_text(context: Context, name: TableName, asSerde: bool = False) -> Any:
    return run_statement(context, f"SHOW CREATE TABLE {quoted(name.parts)}").collect()[0][0]


_ANSWERS: Mapping[str, _Answer] = {
    "currentCatalog": _current_catalog,
    "setCurrentCatalog": _set_current_catalog,
    "listCatalogs": _list_catalogs,
    "currentDatabase": _current_database,
    "setCurrentDatabase": _set_current_database,
    "listDatabases": _list_databases,
    "getDatabase": _get_database,
    "databaseExists": _database_exists,
    "listTables": _list_tables,
    "getTable": _get_table,
    "listColumns": _list_columns,
    "tableExists": _table_exists,
    "createTable": _create_table,
    "refreshTable": _of_table(lambda _context, _name: None),
    "cacheTable": _refuse_cache,
    "uncacheTable": _of_table(lambda _context, _name: None),  # nothing is cached
    "isCached": _of_table(lambda _context, _name: False),
    "dropTable": _drop_table,
    "createDatabase": _create_database,
    "dropDatabase": _drop_database,
    "listPartitions": _list_partitions,
    "recoverPartitions": _recover_partitions,
    "getTableProperties": _properties,
    "getCreateTableString": _create_text,
    "truncateTable": _statement("TRUNCATE TABLE {}"),
    "analyzeTable": _statement("ANALYZE TABLE {} COMPUTE STATISTICS"),
}
