"""CREATE, REPLACE, DROP, RENAME and TRUNCATE TABLE for tables of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructType

from paimon_spark.commit.iceberg_metadata import republish_renamed
from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spark.columns.types import from_spark_struct, saved_columns
from paimon_spark.spark.source.source_options import OPERATION, refuse_system_table
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.inserted_rows import Insert
from paimon_spark.spark.sql.table_definitions import (
    check_drop,
    check_rename,
    copied_options,
    create_named_table,
    format_of_provider,
    keeps_format_tables,
    key_option,
    location_option,
    replace_table,
    unsupported_constraint,
)
from paimon_spark.spark.sql.warehouses import (
    TableName,
    analysis_error,
    is_explicit,
    quoted,
    resolve,
    schema_not_found,
    table_not_found,
)
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spark.table.rows import replacing_rows
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.format_tables import insert_into_files
from paimon_spark.spark.text.queries import run_query
from paimon_spark.spark.text.row_statements import empty, target
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.format_table import format_schema
from paimon_spark.table.new_schema import new_table_schema, undo_create
from paimon_spark.table.paths import is_path_name
from paimon_spark.table.schema_store import columns_or_there

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
_AFTER_DEFAULT = ("NOT", "COMMENT", "GENERATED")


@dataclass(frozen=True)
class Definition:
    """What CREATE TABLE says of a table besides its name."""

    columns: tuple[DataField, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    query: Cursor | None = None
    location: str | None = None
    provider: str | None = None


def run_create_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run CREATE [OR REPLACE] TABLE or REPLACE TABLE, the cursor standing at its first word; None for one of Spark's.

    Raises:
        AnalysisException: the table is there, its database is not, or no table can be made of the columns.
        UnsupportedError: a clause that a Paimon table has no use for; the message says what to do.
    """
    creates = cursor.take("CREATE")
    replaces = cursor.take("OR", "REPLACE") if creates else cursor.take("REPLACE")
    cursor.expect("TABLE")
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    name = resolve(context.known, cursor.name())
    if name is None:
        return None
    if "$" in name.table:
        raise SchemaError(f"Table name {name.table} cannot contain '$', which separates system tables and branches.")
    if not name.is_path and not context.known.catalogs[name.catalog_name].has_database(name.database):
        raise schema_not_found((name.catalog_name, name.database))
    exists = name.exists()
    if exists and tolerant:
        return empty(context)
    if exists and not replaces:
        raise analysis_error(
            "TABLE_OR_VIEW_ALREADY_EXISTS",
            f"Cannot create table or view {quoted(name.parts)} because it already exists. Choose a different name, "
            "drop the existing object, or add the IF NOT EXISTS clause to tolerate pre-existing objects.",
        )
    if not exists and not creates:
        raise table_not_found(name.parts)
    like = cursor.take("LIKE")
    schema, rows = _like(context, cursor, name) if like else _new_schema(context, cursor, name, replaces=exists)
    catalog = context.known.catalogs.get(name.catalog_name)
    table = name.load() if exists else None
    if table is not None and (is_format_table(schema) or is_format_table(table.schema)) and catalog is not None:
        catalog.drop_table(name.database, name.table)
        create_named_table(catalog, name.database, name.table, schema, name.options)
    elif table is not None:
        replace_table(table, schema)
    else:
        create_named_table(catalog, name.database, name.table, schema, name.options)
    if rows is not None:
        _fill(context, name, rows, _operation(creates=creates, replaces=replaces), drop=not exists)
    return empty(context)


def _new_schema(
    context: Context, cursor: Cursor, name: TableName, *, replaces: bool
) -> tuple[TableSchema, DataFrame | None]:
    """Return the schema that a definition asks for, and the rows of its query; the query reads the replaced table."""
    definition = _definition(context, cursor)
    options = _with_defaults(context, name, _own_options(context, definition, name))
    rows = None
    columns = definition.columns
    if definition.query is not None:
        if columns:
            raise UnsupportedError("CREATE TABLE … AS SELECT takes its columns from the query: leave the list out")
        rows = run_query(context, definition.query)
        replaced = name.load() if replaces else None
        if replaced is not None and not is_format_table(replaced.schema):
            rows, _ = replacing_rows(rows, replaced, replaced=True)
        columns = saved_columns(rows.schema)
    keys, comment = definition.partition_by, definition.comment
    catalog = None if name.is_path else context.known.catalogs.get(name.catalog_name)
    found = format_of_provider(definition.provider, options, keeps_files=keeps_format_tables(catalog))
    if found is not None:
        return format_schema(columns, options, format_name=found, partition_keys=keys, comment=comment), rows
    fields = columns_or_there(columns, options, name.options)
    return new_table_schema(fields, options, partition_keys=keys, comment=comment), rows


def _own_options(context: Context, definition: Definition, name: TableName) -> dict[str, str]:
    """Return the options of a definition with the owner. A location is one where tables lie anywhere."""
    options, elsewhere = dict(definition.options), dict[str, str]()
    for given in (definition.location, options.pop("path", None), options.pop("location", None)):
        elsewhere |= location_option(name.catalog_name, name.options, name.path, given)
    return {**elsewhere, "owner": str(context.spark_sql("SELECT current_user()").collect()[0][0]), **options}


def _with_defaults(context: Context, name: TableName, options: Mapping[str, str]) -> Mapping[str, str]:
    catalog = None if name.is_path else context.known.catalogs.get(name.catalog_name)
    return options if catalog is None else catalog.with_defaults(options)


def _like(context: Context, cursor: Cursor, name: TableName) -> tuple[TableSchema, None]:
    parts = cursor.name()
    source = target(context, parts)
    if source is None:
        raise UnsupportedError(f"CREATE TABLE … LIKE takes a Paimon table, which {quoted(parts)} is not")
    refuse_system_table(source.path, source.system_table, "copied by LIKE")
    given = _definition(context, cursor)
    schema = source.load().schema
    options = _with_defaults(context, name, copied_options(schema.options) | _own_options(context, given, name))
    catalog = None if name.is_path else context.known.catalogs.get(name.catalog_name)
    found = format_of_provider(given.provider, options, keeps_files=keeps_format_tables(catalog))
    if found is not None:
        keys, comment = schema.partition_keys, given.comment or schema.comment
        return format_schema(schema.fields, options, format_name=found, partition_keys=keys, comment=comment), None
    return new_table_schema(
        schema.fields,
        options,
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        comment=given.comment or schema.comment,
    ), None


def _operation(*, creates: bool, replaces: bool) -> Operation:
    """Return what the snapshot of the rows names."""
    if not replaces:
        return Operation.CREATE_TABLE_AS_SELECT
    return Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT if creates else Operation.REPLACE_TABLE_AS_SELECT


def _fill(context: Context, name: TableName, rows: DataFrame, operation: Operation, *, drop: bool) -> None:
    filled = False
    table = name.load()
    if is_format_table(table.schema):
        try:
            insert_into_files(context, name, table, Insert(name.parts, overwrite=False), rows)
            filled = True
        finally:
            if not filled:
                context.known.catalogs[name.catalog_name].drop_table(name.database, name.table)
        return
    try:
        PaimonTable.for_path(context.spark, name.path, **name.options).append(rows, **{OPERATION: operation.value})
        filled = True
    finally:
        if drop and not filled:
            undo_create(name.path, name.options)


def _definition(context: Context, cursor: Cursor) -> Definition:
    """Read the columns and clauses up to the end of the statement."""
    found = Definition()
    keys: list[list[str]] = []
    if cursor.sees("("):
        found = replace(found, columns=_columns(context, cursor.group(), keys))
    while not cursor.at_end():
        if cursor.take("USING"):
            found = replace(found, provider=cursor.identifier())
        elif cursor.take("PARTITIONED", "BY"):
            names, columns = _partition_columns(context, cursor.group())
            found = replace(found, partition_by=names, columns=(*found.columns, *columns))
        elif cursor.take("TBLPROPERTIES") or cursor.take("OPTIONS"):
            found = replace(found, options={**found.options, **cursor.properties()})
        elif cursor.take("COMMENT"):
            found = replace(found, comment=cursor.string())
        elif cursor.sees("AS") or cursor.sees("SELECT") or cursor.sees("WITH"):
            cursor.take("AS")
            found = replace(found, query=cursor.rest())
        elif cursor.take("LOCATION"):
            found = replace(found, location=cursor.string())
        elif cursor.take_any("CLUSTERED", "CLUSTER", "STORED", "ROW", "DEFAULT"):
            clause = cursor.tokens[cursor.at - 1].text.upper()
            raise UnsupportedError(
                f"{clause} is not supported for a Paimon table: it has its own directory in the warehouse (elsewhere "
                "name it by its path, paimon.`/path`), and options for all else, in TBLPROPERTIES"
            )
        else:
            cursor.fail("the statement should end")
    for key in keys:
        found = replace(found, options={**found.options, **key_option(key, found.options)})
    return found


def _partition_columns(context: Context, inside: Cursor) -> tuple[tuple[str, ...], tuple[DataField, ...]]:
    names: list[str] = []
    columns: list[DataField] = []
    for piece in inside.split():
        following = piece.peek(1)
        if following is None:
            names.append(piece.identifier())
        elif following.is_sign("("):
            raise UnsupportedError(
                f"Unsupported partition transform: {piece.source()}. Paimon partitions by columns as they are"
            )
        else:
            columns += _columns(context, piece, [])
            names.append(columns[-1].name)
    return tuple(names), tuple(columns)


def _columns(context: Context, inside: Cursor, keys: list[list[str]]) -> tuple[DataField, ...]:
    """Read the definitions of columns between commas; what PRIMARY KEY names is added to `keys`."""
    texts, defaults = [], {}
    for piece in inside.split():
        first = piece.peek()
        if first is None or first.is_word(*_CONSTRAINTS):
            keys.append(_key(piece))
            continue
        if (own := _column_key(piece)) is not None:
            piece, name = own
            keys.append([name])
        text, default = without_default(piece)
        texts.append(text)
        if default is not None:
            defaults[first.text] = default
    struct = DataType.fromDDL(", ".join(texts))
    assert isinstance(struct, StructType)
    fields = from_spark_struct(struct)
    return tuple(
        replace(column, default_value=stored_default(context.spark, defaults[column.name].source(), column))
        if column.name in defaults
        else column
        for column in fields
    )


def _key(piece: Cursor) -> list[str]:
    """Read ``[CONSTRAINT name] PRIMARY KEY (a, b) [NOT ENFORCED] [RELY]``."""
    whole = piece.source()
    if piece.take("CONSTRAINT"):
        piece.identifier()
    if not piece.take("PRIMARY", "KEY"):
        raise unsupported_constraint(whole)
    names = [each.identifier() for each in piece.group().split()]
    while piece.take_any("NOT", "ENFORCED", "RELY", "NORELY"):
        pass
    piece.finish()
    return names


def _column_key(piece: Cursor) -> tuple[Cursor, str] | None:
    """Return a column's definition without PRIMARY KEY, and its name; None where it is no key."""
    whole = piece.again()
    before = whole.until("PRIMARY")
    if not whole.sees("PRIMARY", "KEY"):
        return None
    whole.take("PRIMARY", "KEY")
    found = Cursor.of_query(f"{before.source()} {whole.rest().source()}")
    return found, found.again().identifier()


def without_default(piece: Cursor) -> tuple[str, Cursor | None]:
    """Return a column's definition without its DEFAULT clause, and the expression of the clause."""
    before = piece.until("DEFAULT")
    if piece.at_end():
        return piece.source(), None
    piece.take("DEFAULT")
    default = piece.until(*_AFTER_DEFAULT)
    if piece.sees("GENERATED"):
        raise UnsupportedError("GENERATED columns are not supported by Paimon: leave the clause out")
    return f"{before.source()} {piece.rest().source()}", default


def run_drop_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run DROP TABLE, the cursor standing behind these words; None for one of Spark's."""
    tolerant = cursor.take("IF", "EXISTS")
    parts = cursor.name()
    cursor.take("PURGE")
    cursor.finish()
    name = resolve(context.known, parts) if tolerant else target(context, parts)
    if name is None or not name.exists():
        explicit = name is not None and len(parts) > 1 and parts[0] == name.catalog_name
        return empty(context) if explicit else None
    check_drop(name.table, quoted(parts))
    context.known.catalogs[name.catalog_name].drop_table(name.database, name.table)
    return empty(context)


def rename_table(context: Context, name: TableName, new: Sequence[str]) -> None:
    """ALTER TABLE … RENAME TO: a name without a catalog is one of the table's catalog, as it is for Spark."""
    named = is_path_name(name.table) or len(new) > 2 or is_explicit(context.known, new)
    other = resolve(context.known, new if named else (name.catalog_name, *(name.database, *new)[-2:]))
    shown, same = (quoted(name.parts), quoted(new)), other is not None and other.catalog_name == name.catalog_name
    check_rename(name.table, new[-1], shown=shown, same_catalog=same)
    assert other is not None  # of this catalog
    catalog = context.known.catalogs[name.catalog_name]
    if not catalog.has_database(other.database):
        raise schema_not_found((other.catalog_name, other.database))
    if other.exists():
        raise analysis_error(
            "TABLE_OR_VIEW_ALREADY_EXISTS",
            f"Cannot create table or view {quoted(other.parts)} because it already exists.",
        )
    catalog.rename_table(name.database, name.table, other.database, other.table)
    republish_renamed(catalog, other.database, other.table)
