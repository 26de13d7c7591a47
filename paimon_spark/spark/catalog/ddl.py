"""Answers the parts of Spark's ``TableCatalog`` and ``StagingTableCatalog`` that make, change and drop tables.

Called on the driver, once per statement. CREATE and REPLACE come as columns, transforms and properties up to Spark 4.0,
as one ``TableInfo`` from 4.1 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakSet

from pyspark.sql.types import StructType

from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spark.catalog.column_definitions import OPTION_PREFIX, schema_of_create, struct_from_columns
from paimon_spark.spark.catalog.loading import LoadedTable, load_catalog_table
from paimon_spark.spark.catalog.namespaces import NamespacesProxy
from paimon_spark.spark.catalog.staging import StagedTableProxy
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.catalog.table_changes import schema_changes
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, called_by
from paimon_spark.spark.jvm.spark_errors import (
    no_such_namespace,
    no_such_table,
    table_already_exists,
    unsupported_table_change,
)
from paimon_spark.spark.source.write_target import of_one_write
from paimon_spark.spark.sql.replace_table import replace_table
from paimon_spark.spark.sql.table_definitions import (
    check_drop,
    check_location,
    check_rename,
    copied_options,
    create_named_table,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.paths import is_path_name, parse_table_path
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import table_exists
from paimon_spark.table.undo_create import undo_create


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

    def createTable(self, ident: JavaObject, *definition: Any) -> Any:
        """CREATE TABLE."""
        self._create(ident, self._schema(ident, definition))
        return self._table(ident)

    def createTableLike(self, ident: JavaObject, info: JavaObject, source: JavaObject) -> Any:
        """CREATE TABLE … LIKE (4.3): columns, partitions and options of a table, with properties on top."""
        given = {**_copied(dict(source.properties())), **dict(info.properties())}
        columns = struct_from_columns(self.gateway, source.columns())
        self._create(ident, schema_of_create(columns, source.partitioning(), self._own_path(ident, given)))
        return self._table(ident)

    def alterTable(self, ident: JavaObject, changes: Any) -> Any:
        """ALTER TABLE: all changes of a statement are one new schema."""
        loaded = self._load(ident)
        try:
            alter_table(loaded.table, schema_changes(self.gateway, loaded.table.schema, changes))
        except (SchemaError, OptionError, UnsupportedError) as error:
            raise unsupported_table_change(self.gateway, str(error)) from error
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
        if not self.catalog.database_exists(database):
            raise no_such_namespace(self.gateway, [database])
        if self.catalog.table_exists(database, new.name()):
            raise table_already_exists(self.gateway, new)
        self.catalog.rename_table(source[0], old.name(), database, new.name())

    def stageCreate(self, ident: JavaObject, *definition: Any) -> Any:
        """CREATE TABLE … AS SELECT: the table is made now and dropped if the query fails."""
        return self._new(ident, definition, Operation.CREATE_TABLE_AS_SELECT)

    def _new(self, ident: JavaObject, definition: tuple[Any, ...], operation: Operation) -> JavaObject:
        self._create(ident, self._schema(ident, definition))

        def redefine(options: Mapping[str, str]) -> LoadedTable:
            self._drop(ident)
            self._create(ident, self._schema(ident, definition, options))
            return self._load(ident)

        table, on_abort = self._load(ident), lambda: self._drop(ident)
        return java_proxy(
            StagedTableProxy(
                self.gateway, self.catalog_name, table, operation=operation, redefine=redefine, on_abort=on_abort
            )
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

    def supportedCustomMetrics(self) -> JavaObject:
        """No metrics."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def _replace(self, ident: JavaObject, definition: tuple[Any, ...], operation: Operation) -> JavaObject:
        table = self._load(ident).table
        latest = table.snapshots.latest_id()
        for other in list(self.handed_out):
            if latest is not None and other.loaded.table.path == table.path:
                other.pinned_snapshot_id = latest
        if not self._called_by("DataFrameWriter"):
            replace_table(table, self._schema(ident, definition))
            return java_proxy(StagedTableProxy(self.gateway, self.catalog_name, self._load(ident), operation=operation))
        staged = StagedTableProxy(self.gateway, self.catalog_name, self._load(ident), operation=operation)
        given = definition[0].columns() if len(definition) == 1 else definition[0]
        # Spark writes by position into a table that it takes for a new one of the rows' columns
        own = {field.name.lower(): field for field in staged.struct.fields}
        names = [name.lower() for name in struct_from_columns(self.gateway, given)[0].names]
        if len(set(names)) == len(names) and own.keys() >= set(names):
            staged.struct = StructType([own[name] for name in names])
        return java_proxy(staged)

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
        if not by_path and not self.namespaceExists(namespace):
            raise no_such_namespace(self.gateway, namespace)
        if self._is_table(ident):
            raise table_already_exists(self.gateway, ident)
        try:
            create_named_table(self.catalog, "" if by_path else namespace[0], name, schema, self.catalog.options)
        except SchemaError:
            if self._is_table(ident):  # another session was faster
                raise table_already_exists(self.gateway, ident) from None
            raise

    def _schema(
        self, ident: JavaObject, definition: tuple[Any, ...], more: Mapping[str, str] | None = None
    ) -> TableSchema:
        if len(definition) == 1:
            info = definition[0]
            columns, transforms, properties = info.columns(), info.partitions(), info.properties()
        else:
            columns, transforms, properties = definition
        given = self._own_path(ident, {**dict(properties), **(more or {})})
        if self._called_by("DataFrameWriter"):
            given = {key: text for key, text in given.items() if not of_one_write(key.removeprefix(OPTION_PREFIX))}
        if self._called_by("DataFrameWriter", "classic.Catalog") and given.get("provider") == self._default_source():
            del given["provider"]  # without a format, the catalog's is meant
        return schema_of_create(struct_from_columns(self.gateway, columns), transforms, given)

    def _default_source(self) -> str:
        conf = compat.SQL_CONF.of(self.gateway).get()
        return str(conf.getConfString("spark.sql.sources.default", "parquet"))

    def _own_path(self, ident: JavaObject, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties without a location, which cannot be any other than the table's own directory."""
        name, kept = ident.name(), dict(properties)
        own = name if is_path_name(name) else self.catalog.table_path(ident.namespace()[0], name)
        for key in ("location", "path"):
            given = kept.pop(key, None)
            check_location(self.catalog_name, own, given)
        return kept

    def _is_table(self, ident: JavaObject) -> bool:
        namespace, name = list(ident.namespace()), ident.name()
        if is_path_name(name):
            return table_exists(name, options=self.catalog.options)
        root = parse_table_path(name).root
        return len(namespace) == 1 and self.catalog.table_exists(namespace[0], root)

    def _load(self, ident: JavaObject) -> LoadedTable:
        """The table at its latest version, without options of the session."""
        if parse_table_path(ident.name()).system_table is not None:
            raise UnsupportedError(f"{ident.name()} is a system table, which is for reading: name the table itself")
        try:
            return load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), None)
        except TableNotFoundError:
            raise no_such_table(self.gateway, ident) from None

    def _table(self, ident: JavaObject) -> JavaObject:
        return java_proxy(TableProxy(self.gateway, self.catalog_name, self._load(ident)))

    def _drop(self, ident: JavaObject) -> None:
        """Drop a table that a failed statement created."""
        name = ident.name()
        path = name if is_path_name(name) else self.catalog.table_path(ident.namespace()[0], name)
        undo_create(path, self.catalog.options)


def _copied(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties that CREATE TABLE LIKE copies."""
    return copied_options(properties) if properties.get("provider", "paimon").lower() == "paimon" else {}
