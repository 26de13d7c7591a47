"""Answers what makes, changes and drops tables and databases; called on the driver, once per statement.

- ``TableCatalog``: CREATE and REPLACE come as columns, transforms and properties up to Spark 4.0, as one ``TableInfo``
  from 4.1 on; ALTER TABLE and COMMENT ON TABLE as ``TableChange`` objects, which become changes of a Paimon schema.
- ``StagingTableCatalog`` and ``StagedTable``: CREATE … AS SELECT and CREATE OR REPLACE. As in the official connector
  the table is there (or emptied, with its new schema) before the query runs: its path and its snapshots are kept, and a
  query that reads the table it replaces reads the snapshot before.
- ``SupportsNamespaces``: the databases of a warehouse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakSet

from pyspark.sql.types import StructField, StructType

from paimon_spark.commit.iceberg_metadata import republish_renamed
from paimon_spark.errors import (
    PaimonError,
    SchemaChangeError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.options import Scope, find_option
from paimon_spark.spark.catalog.column_definitions import OPTION_PREFIX, schema_of_create, struct_from_columns
from paimon_spark.spark.catalog.format_table import format_table_proxy, staged_format_table
from paimon_spark.spark.catalog.loading import LoadedTable, load_catalog_table
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.types import from_spark_field
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, called_by
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.jvm.spark_errors import (
    namespace_already_exists,
    namespace_not_empty,
    no_such_namespace,
    no_such_table,
    table_already_exists,
    unsupported_table_change,
)
from paimon_spark.spark.source.write_target import of_one_write
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.table_definitions import (
    check_database_location,
    check_default_column,
    check_drop,
    check_rename,
    copied_options,
    create_named_table,
    keeps_format_tables,
    key_option,
    location_option,
    option_key,
    refuse_added_default,
    refuse_replaced_columns,
    replace_table,
    unsupported_constraint,
)
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.schema import TableSchema, is_format_table
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table import schema_change as change
from paimon_spark.table.catalog_views import views_of
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.new_schema import undo_create
from paimon_spark.table.paths import is_path_name, parse_table_path, system_table_in
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import table_exists

_EXECUTION = "spark.sql.execution.id"
"""What a thread has while it executes a statement."""


class NamespacesProxy(AnswerProxy):
    """The part of a catalog about databases, whose names have one part."""

    interfaces: ClassVar[tuple[str, ...]] = ("org.apache.spark.sql.connector.catalog.SupportsNamespaces",)

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog) -> None:
        super().__init__(gateway)
        self.catalog_name = catalog_name
        self.catalog = catalog
        self._found: tuple[JavaObject, list[str], dict[str, str] | StorageError] | None = None
        """The statement that Spark planned last, and the database that it found, or why the store gave none."""

    def listNamespaces(self, *parent: Any) -> JavaObject:
        """SHOW DATABASES: all databases; below a database there is none."""
        parts = list(parent[0]) if parent else []
        if parts:
            self._database(parts)
        names = [] if parts else self.catalog.databases()
        return self.gateway.array("[Ljava.lang.String;", [self.gateway.strings([name]) for name in names])

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a database."""
        parts = list(namespace)
        return len(parts) == 1 and self.catalog.has_database(parts[0])

    def loadNamespaceMetadata(self, namespace: Any) -> JavaObject:
        """Properties of a database, its location. While it plans one statement Spark asks many times.

        It passes over errors then. So a store that does not answer is asked once.
        """
        statement, parts = self._statement(), list(namespace)
        properties = self._known(statement, parts)
        if properties is None:
            try:
                properties = self.catalog.database_properties(parts[0]) if len(parts) == 1 else None
            except StorageError as error:
                self._found = None if statement is None else (statement, parts, error)
                raise
            if properties is None:
                raise no_such_namespace(self.gateway, parts)
            self._found = None if statement is None else (statement, parts, properties)
        return self.gateway.string_map(properties)

    def _known(self, statement: JavaObject | None, parts: list[str]) -> dict[str, str] | None:
        """What this statement was told of a database before.

        Raises:
            StorageError: that the store does not answer.
        """
        found = self._found
        if statement is None or found is None or found[1] != parts or not found[0].equals(statement):
            return None
        if isinstance(found[2], StorageError):
            raise found[2]
        return found[2]

    def _check_answered(self, parts: list[str]) -> None:
        """Do not ask a store for a table where the statement got no answer for the table's database.

        Spark has planned the statement then, and executes it: the answer is of this statement, and is told once.

        Raises:
            StorageError: it has got none.
        """
        _, asked, error = self._found or (None, [], {})
        if asked != parts or not isinstance(error, StorageError):
            return
        if compat.SPARK_CONTEXT.of(self.gateway).getOrCreate().getLocalProperty(_EXECUTION) is not None:
            self._found = None
            raise error

    def createNamespace(self, namespace: Any, metadata: Any) -> None:
        """CREATE DATABASE; a directory keeps no comment and properties, as in the official filesystem catalog."""
        parts, properties = list(namespace), dict(metadata)
        if len(parts) != 1:
            raise PaimonError(f"a database has a name of one part, not {'.'.join(parts)}")
        if "location" in properties:
            check_database_location(self.catalog.options, self.catalog.database_path(parts[0]))
        if self.catalog.has_database(parts[0]):
            raise namespace_already_exists(self.gateway, parts)
        self.catalog.create_database(parts[0], properties=properties)

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """ALTER DATABASE … SET, UNSET: refused where the catalog keeps no properties."""
        database = self._database(namespace)
        updates, removals = dict[str, str](), list[str]()
        for each in changes:
            if each.getClass().getSimpleName() == "SetProperty":
                updates[each.property()] = each.value()
            else:
                removals.append(each.property())
        self.catalog.alter_database(database, updates, removals)

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """DROP DATABASE [CASCADE]."""
        parts = list(namespace)
        if not self.namespaceExists(parts):
            return False
        if not cascade and (self.catalog.tables(parts[0]) or views_of(self.catalog, parts[0])):
            raise namespace_not_empty(self.gateway, parts)
        self.catalog.drop_database(parts[0], cascade=bool(cascade))
        return True

    def _statement(self) -> JavaObject | None:
        """What stands for the statement that Spark is planning, where a store is asked over the network."""
        if not self.catalog.is_remote or features.missing_of(self.gateway, features.DATABASES):
            return None
        tracker = compat.PLANNING_TRACKER.of(self.gateway).get()
        return tracker.get() if tracker.isDefined() else None

    def _database(self, namespace: Any) -> str:
        parts = list(namespace)
        if not self.namespaceExists(parts):
            raise no_such_namespace(self.gateway, parts)
        return str(parts[0])


_CATALOG = "org.apache.spark.sql.connector.catalog"


class StagedTableProxy(TableProxy):
    """A table that the rest of a statement fills."""

    interfaces: ClassVar[tuple[str, ...]] = (*TableProxy.interfaces, f"{_CATALOG}.StagedTable")

    def __init__(
        self,
        gateway: Gateway,
        catalog_name: str,
        loaded: LoadedTable,
        *,
        operation: Operation,
        redefine: Callable[[Mapping[str, str]], LoadedTable] | None = None,
        on_abort: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(gateway, catalog_name, replace(loaded, operation=operation))
        self.redefine = redefine
        self.on_abort = on_abort

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for the rows of the statement; table options of the writer make the table another one first.

        Spark hands ``df.write.option("primary-key", "k").saveAsTable(…)`` the option with the rows only.
        """
        options = table_options(dict(info.options().asCaseSensitiveMap()))
        if self.redefine is not None and options:
            self.loaded = replace(self.redefine(options), operation=self.loaded.operation)
        return super().newWriteBuilder(info)

    def commitStagedChanges(self) -> None:
        """The statement succeeded: everything is in place already."""

    def abortStagedChanges(self) -> None:
        """The statement failed: a table that it made is removed, one that it replaced stays empty."""
        if self.on_abort is not None:
            self.on_abort()


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options of a DataFrameWriter that a table keeps."""
    found = {key: find_option(key) for key in options}
    return {key: options[key] for key, option in found.items() if option is not None and option.scope is Scope.TABLE}


def schema_changes(
    gateway: Gateway, schema: TableSchema, java_changes: Iterable[JavaObject]
) -> list[change.SchemaChange]:
    """What one ALTER asks for.

    Args:
        gateway: to the JVM.
        schema: of the table, for the types of columns and the case of columns in options.
        java_changes: what ``TableCatalog.alterTable`` was given.

    Raises:
        SchemaChangeError: a change that Paimon tables do not have.
    """
    found = list(java_changes)
    kinds = [java_change.getClass().getSimpleName() for java_change in found]
    _refuse_replacing(schema, found, kinds)
    return [_change(gateway, schema, kind, java_change) for kind, java_change in zip(kinds, found, strict=True)]


def _refuse_replacing(schema: TableSchema, changes: Sequence[JavaObject], kinds: Sequence[str]) -> None:
    """REPLACE COLUMNS arrives as the removal of every column followed by additions."""
    dropped = {_path(c) for c, kind in zip(changes, kinds, strict=True) if kind == "DeleteColumn"}
    if "AddColumn" in kinds and all((name,) in dropped for name in schema.field_names):
        refuse_replaced_columns()


def _change(gateway: Gateway, schema: TableSchema, kind: str, found: JavaObject) -> change.SchemaChange:
    match kind:
        case "SetProperty":
            return change.SetOption(option_key(schema.field_names, found.property()), found.value())
        case "RemoveProperty":
            return change.RemoveOption(option_key(schema.field_names, found.property()))
        case "AddColumn":
            return _add(found)
        case "RenameColumn":
            return change.RenameColumn(_path(found), found.newName())
        case "DeleteColumn":
            return change.DropColumn(_path(found))
        case "UpdateColumnType":
            return change.UpdateColumnType(_path(found), _type(found.newDataType(), _path(found)))
        case "UpdateColumnNullability":
            return change.UpdateColumnNullability(_path(found), bool(found.nullable()))
        case "UpdateColumnComment":
            return change.UpdateColumnComment(_path(found), found.newComment() or None)
        case "UpdateColumnPosition":
            position = _position(found.position())
            return change.UpdateColumnPosition(_path(found), position or change.Position())
        case "UpdateColumnDefaultValue":
            return _default(gateway, schema, found)
    raise SchemaChangeError(f"Change is not supported: {kind}")


def _add(found: JavaObject) -> change.AddColumn:
    path = _path(found)
    if found.defaultValue() is not None:
        refuse_added_default(path)
    data_type = _type(found.dataType(), path).with_nullable(bool(found.isNullable()))
    return change.AddColumn(path, data_type, found.comment(), _position(found.position()))


def _default(gateway: Gateway, schema: TableSchema, found: JavaObject) -> change.UpdateColumnDefault:
    path, sql = _path(found), found.newDefaultValue()
    if not sql:
        return change.UpdateColumnDefault(path, None)
    check_default_column(path, schema.field_names)
    return change.UpdateColumnDefault(path, stored_default(active_session(gateway), sql, schema.field(path[0])))


def _path(found: JavaObject) -> change.Path:
    return tuple(found.fieldNames())


def _position(found: JavaObject) -> change.Position | None:
    if found is None:
        return None
    return change.Position(found.column() if found.getClass().getSimpleName() == "After" else None)


def _type(java_type: JavaObject, path: Sequence[str]) -> DataType:
    field = {"name": path[-1], "type": json.loads(java_type.json()), "nullable": True, "metadata": {}}
    column: StructField = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0]
    return from_spark_field(column, where="".join(f"{name}." for name in path[:-1])).type


def _key_of_constraints(info: JavaObject, properties: Mapping[str, str]) -> dict[str, str]:
    """The option of the key that PRIMARY KEY (…) says (Spark 4.1 and later).

    Raises:
        UnsupportedError: another constraint, which Paimon tables do not have.
    """
    if not hasattr(info, "constraints"):
        return {}
    key: dict[str, str] = {}
    for constraint in info.constraints():
        text = str(constraint.toDDL())
        if constraint.getClass().getSimpleName() != "PrimaryKey":
            raise unsupported_constraint(text)
        names = [".".join(column.fieldNames()) for column in constraint.columns()]
        key = key_option(names, {name.removeprefix(OPTION_PREFIX): value for name, value in properties.items()})
    return key


class TableDefinitionsProxy(NamespacesProxy):
    """The part of a catalog that CREATE, ALTER, RENAME and DROP TABLE use."""

    interfaces: ClassVar[tuple[str, ...]] = (
        *NamespacesProxy.interfaces,
        "org.apache.spark.sql.connector.catalog.StagingTableCatalog",
    )

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog) -> None:
        super().__init__(gateway, catalog_name, catalog)
        self.handed_out: WeakSet[TableProxy] = WeakSet()
        """Tables of statements under way: what they read of a table is pinned when it is replaced."""

    def createTable(self, ident: JavaObject, *definition: Any) -> None:
        """CREATE TABLE. Spark loads the table if it needs it, as it does where a catalog gives none."""
        self._create(ident, self._schema(ident, definition))

    def createTableLike(self, ident: JavaObject, info: JavaObject, source: JavaObject) -> None:
        """CREATE TABLE … LIKE (4.3): columns, partitions and options of a table, with properties on top."""
        given = {**_copied(dict(source.properties())), **dict(info.properties())}
        columns = struct_from_columns(self.gateway, source.columns())
        given, keeps_files = self._own_path(ident, given), keeps_format_tables(self.catalog)
        store = self.catalog.options
        self._create(ident, schema_of_create(columns, source.partitioning(), given, store, keeps_files=keeps_files))

    def alterTable(self, ident: JavaObject, changes: Any) -> Any:
        """ALTER TABLE: all changes of a statement are one new schema."""
        loaded = self._load(ident)
        try:
            alter_table(loaded.table, schema_changes(self.gateway, loaded.table.schema, changes))
        except PaimonError as error:
            raise unsupported_table_change(self.gateway, error) from error
        return self._table(ident)

    def dropTable(self, ident: JavaObject) -> bool:
        """DROP TABLE: the table's directory is deleted."""
        if list(ident.namespace()) == [SYSTEM_DATABASE]:
            raise UnsupportedError(f"{SYSTEM_DATABASE}.{ident.name()} is a system table, which is for reading")
        if not self._is_table(ident):
            return False
        name = ident.name()
        check_drop(name, name)
        self.catalog.drop_table(ident.namespace()[0], name)
        return True

    def purgeTable(self, ident: JavaObject) -> bool:
        """DROP TABLE … PURGE: the same, nothing is kept by DROP TABLE either."""
        return bool(self.dropTable(ident))

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        """ALTER TABLE … RENAME TO: within the warehouse; the new name may start with the catalog's."""
        if not self._is_table(old):
            raise no_such_table(self.gateway, old)
        source, target = list(old.namespace()), list(new.namespace())
        if len(target) > 1 and target[0] == self.catalog_name:
            target = target[1:]
        same = len(source) == 1 and len(target) <= 1
        check_rename(old.name(), new.name(), shown=(str(old.toString()), str(new.toString())), same_catalog=same)
        database = target[0] if target else source[0]
        if not self.catalog.has_database(database):
            raise no_such_namespace(self.gateway, [database])
        if self.catalog.table_exists(database, new.name()):
            raise table_already_exists(self.gateway, new)
        self.catalog.rename_table(source[0], old.name(), database, new.name())
        republish_renamed(self.catalog, database, new.name())

    def stageCreate(self, ident: JavaObject, *definition: Any) -> Any:
        """CREATE TABLE … AS SELECT: the table is made now and dropped if the query fails."""
        return self._new(ident, definition, Operation.CREATE_TABLE_AS_SELECT)

    def _new(self, ident: JavaObject, definition: tuple[Any, ...], operation: Operation) -> AnswerProxy:
        self._create(ident, self._schema(ident, definition))

        def redefine(options: Mapping[str, str]) -> LoadedTable:
            self._drop(ident)
            self._create(ident, self._schema(ident, definition, options))
            return self._load(ident)

        table, on_abort = self._load(ident), lambda: self._drop(ident)
        if is_format_table(table.table.schema):
            return staged_format_table(self.gateway, self.catalog_name, table, on_abort)
        return StagedTableProxy(
            self.gateway, self.catalog_name, table, operation=operation, redefine=redefine, on_abort=on_abort
        )

    def stageReplace(self, ident: JavaObject, *definition: Any) -> Any:
        """REPLACE TABLE [AS SELECT]: the table is emptied and gets its new schema now."""
        if not self._is_table(ident):
            raise no_such_table(self.gateway, ident)
        return self._replace(ident, definition, Operation.REPLACE_TABLE_AS_SELECT)

    def stageCreateOrReplace(self, ident: JavaObject, *definition: Any) -> Any:
        """CREATE OR REPLACE TABLE [AS SELECT]."""
        if self._is_table(ident):
            return self._replace(ident, definition, Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT)
        return self._new(ident, definition, Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT)

    def _replace(self, ident: JavaObject, definition: tuple[Any, ...], operation: Operation) -> AnswerProxy:
        table = self._load(ident).table
        schema = self._schema(ident, definition)
        if is_format_table(table.schema) or is_format_table(schema):
            return self._replace_files(ident, schema)
        latest = table.snapshots.latest_id()
        for other in list(self.handed_out):
            if latest is not None and other.loaded.table.place == table.place:
                other.pinned_snapshot_id = latest
        if not self._called_by("DataFrameWriter"):
            replace_table(table, schema)
            return StagedTableProxy(self.gateway, self.catalog_name, self._load(ident), operation=operation)
        staged = StagedTableProxy(self.gateway, self.catalog_name, self._load(ident), operation=operation)
        given = definition[0].columns() if len(definition) == 1 else definition[0]
        # Spark writes by position into a table that it takes for a new one of the rows' columns
        own = {field.name.lower(): field for field in staged.struct.fields}
        names = [name.lower() for name in struct_from_columns(self.gateway, given)[0].names]
        if len(set(names)) == len(names) and own.keys() >= set(names):
            staged.struct = StructType([own[name] for name in names])
        return staged

    def _replace_files(self, ident: JavaObject, schema: TableSchema) -> AnswerProxy:
        """REPLACE TABLE of or by a format table: the old one is dropped, as by the official connector."""
        self.catalog.drop_table(ident.namespace()[0], ident.name())
        self._create(ident, schema)
        loaded, on_abort = self._load(ident), lambda: self._drop(ident)
        if is_format_table(schema):
            return staged_format_table(self.gateway, self.catalog_name, loaded, on_abort)
        operation = Operation.REPLACE_TABLE_AS_SELECT
        return StagedTableProxy(self.gateway, self.catalog_name, loaded, operation=operation, on_abort=on_abort)

    def _called_by(self, *classes: str) -> bool:
        """Return whether one of Spark's classes called this that mean another statement than they seem to.

        ``df.write.mode("overwrite").saveAsTable`` keeps the definition of the table; there and in
        ``spark.catalog.createTable`` a format that nobody gave is Spark's default.
        """
        return called_by(self.gateway, *classes)

    def _create(self, ident: JavaObject, schema: TableSchema) -> None:
        """Make a table, by name or by path.

        Raises:
            Py4JJavaError: Spark's exceptions for a table that is there and a database that is not.
        """
        namespace, name = list(ident.namespace()), ident.name()
        by_path = is_path_name(name)
        if not self.catalog.is_remote and self._is_table(ident):  # of a store Spark has just asked
            raise table_already_exists(self.gateway, ident)
        try:
            create_named_table(self.catalog, "" if by_path else namespace[0], name, schema, self.catalog.options)
        except StorageError:
            raise
        except PaimonError as error:
            if not by_path and not self.namespaceExists(namespace):
                raise no_such_namespace(self.gateway, namespace) from None
            if isinstance(error, SchemaError) and self._is_table(ident):  # another session was faster
                raise table_already_exists(self.gateway, ident) from None
            raise

    def _schema(
        self, ident: JavaObject, definition: tuple[Any, ...], more: Mapping[str, str] | None = None
    ) -> TableSchema:
        if len(definition) == 1:
            info = definition[0]
            columns, transforms, properties = info.columns(), info.partitions(), info.properties()
            more = {**(more or {}), **_key_of_constraints(info, dict(properties))}
        else:
            columns, transforms, properties = definition
        given = self._own_path(ident, {**dict(properties), **(more or {})})
        if self._called_by("DataFrameWriter"):
            given = {key: text for key, text in given.items() if not of_one_write(key.removeprefix(OPTION_PREFIX))}
        if self._called_by("DataFrameWriter", "classic.Catalog") and given.get("provider") == self._default_source():
            del given["provider"]  # without a format, the catalog's is meant
        if not is_path_name(ident.name()):
            given = self.catalog.with_defaults(given, prefix=OPTION_PREFIX)
        found, keeps_files = struct_from_columns(self.gateway, columns), keeps_format_tables(self.catalog)
        return schema_of_create(found, transforms, given, self.catalog.options, keeps_files=keeps_files)

    def _default_source(self) -> str:
        conf = compat.SQL_CONF.of(self.gateway).get()
        return str(conf.getConfString("spark.sql.sources.default", "parquet"))

    def _own_path(self, ident: JavaObject, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with a location only where the catalog lets a table lie elsewhere."""
        name, kept, elsewhere = ident.name(), dict(properties), dict[str, str]()
        own = name if is_path_name(name) else self.catalog.table_path(ident.namespace()[0], name)
        for key in ("location", "path"):
            elsewhere |= location_option(self.catalog_name, self.catalog.options, own, kept.pop(key, None))
        return {**kept, **elsewhere}

    def _is_table(self, ident: JavaObject) -> bool:
        namespace, name = list(ident.namespace()), ident.name()
        if is_path_name(name):
            return table_exists(name, options=self.catalog.options)
        root = parse_table_path(name).root
        return len(namespace) == 1 and self.catalog.table_exists(namespace[0], root)

    def _load(self, ident: JavaObject) -> LoadedTable:
        """The table at its latest version, without options of the session."""
        if system_table_in(ident.name()) is not None:
            raise UnsupportedError(f"{ident.name()} is a system table, which is for reading: name the table itself")
        try:
            return load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), None)
        except TableNotFoundError:
            raise no_such_table(self.gateway, ident) from None

    def _table(self, ident: JavaObject) -> AnswerProxy:
        loaded = self._load(ident)
        if is_format_table(loaded.table.schema):
            return format_table_proxy(self.gateway, self.catalog_name, loaded)
        return TableProxy(self.gateway, self.catalog_name, loaded)

    def _drop(self, ident: JavaObject) -> None:
        """Drop a table that a failed statement created."""
        name = ident.name()
        if not is_path_name(name) and is_format_table(self._load(ident).table.schema):
            self.catalog.drop_table(ident.namespace()[0], name)
            return
        path = name if is_path_name(name) else self.catalog.table_path(ident.namespace()[0], name)
        undo_create(path, self.catalog.options)


def _copied(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties that CREATE TABLE LIKE copies."""
    return copied_options(properties) if properties.get("provider", "paimon").lower() == "paimon" else {}
