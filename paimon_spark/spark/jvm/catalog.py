"""Answers Spark's ``TableCatalog``, ``SupportsNamespaces``, ``ProcedureCatalog`` and ``FunctionCatalog`` for one warehouse.

Called on the driver while Spark analyses a statement. Signatures differ between Spark versions (`spark.md` §5): overloads of
one Java name arrive here as one method with a varying number of arguments.
"""

from __future__ import annotations

from typing import Any

from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.loading import TableVersion, load_catalog_table
from paimon_spark.spark.jvm.schemas import schema_of_create, struct_from_columns
from paimon_spark.spark.jvm.system_table import open_system_table
from paimon_spark.spark.jvm.table import TableProxy
from paimon_spark.table.filesystem_catalog import DEFAULT_DATABASE, FilesystemCatalog

_CATALOG = "org.apache.spark.sql.connector.catalog"


class CatalogProxy(Proxy):
    """The catalog object that Spark's catalog manager holds under its name."""

    interfaces = (
        f"{_CATALOG}.TableCatalog",
        f"{_CATALOG}.SupportsNamespaces",
    )

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog) -> None:
        super().__init__(gateway)
        self.catalog_name = catalog_name
        self.catalog = catalog

    def initialize(self, _name: str, _options: JavaObject) -> None:
        """Never called: the catalog is put in place ready."""

    def name(self) -> str:
        """The catalog's name."""
        return self.catalog_name

    def defaultNamespace(self) -> JavaObject:
        """The namespace after ``USE <catalog>``."""
        return self.gateway.strings([DEFAULT_DATABASE])

    def capabilities(self) -> JavaObject:
        """What CREATE TABLE may contain."""
        return self.gateway.enum_set(
            f"{_CATALOG}.TableCatalogCapability", ["SUPPORT_COLUMN_DEFAULT_VALUE"]
        )

    def tableStateOptionKeys(self) -> JavaObject:
        """Options that are part of a table's state: none."""
        return self.gateway.jvm.java.util.Collections.emptySet()

    def changelogStateOptionKeys(self) -> JavaObject:
        """Options that are part of a changelog's state: none."""
        return self.gateway.jvm.java.util.Collections.emptySet()

    def useNullableQuerySchema(self) -> bool:
        """CTAS gives nullable columns, as the official connector's does."""
        return True

    # namespaces

    def listNamespaces(self, *parent: Any) -> JavaObject:
        """All databases; below a database there is none."""
        names = [] if parent and list(parent[0]) else self.catalog.databases()
        return self.gateway.array("[Ljava.lang.String;", [self.gateway.strings([name]) for name in names])

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a database."""
        parts = list(namespace)
        return len(parts) == 1 and self.catalog.database_exists(parts[0])

    def loadNamespaceMetadata(self, namespace: Any) -> JavaObject:
        """Properties of a database: its location."""
        database = self._database(namespace)
        return self.gateway.string_map({"location": self.catalog.database_path(database)})

    def createNamespace(self, namespace: Any, _metadata: Any) -> None:
        """CREATE DATABASE."""
        parts = list(namespace)
        if len(parts) != 1:
            raise PaimonError(f"a database has a name of one part, not {'.'.join(parts)}")
        if self.catalog.database_exists(parts[0]):
            raise self._analysis("NamespaceAlreadyExistsException", self.gateway.strings(parts))
        self.catalog.create_database(parts[0])

    def alterNamespace(self, namespace: Any, _changes: Any) -> None:
        """ALTER DATABASE … SET: refused, a directory keeps no properties."""
        raise PaimonError(
            f"database {'.'.join(namespace)} keeps no properties: in a filesystem warehouse it is a directory"
        )

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """DROP DATABASE [CASCADE]."""
        parts = list(namespace)
        if not self.namespaceExists(parts):
            return False
        if not cascade and self.catalog.tables(parts[0]):
            raise self._analysis("NonEmptyNamespaceException", self.gateway.strings(parts))
        self.catalog.drop_database(parts[0], cascade=bool(cascade))
        return True

    # tables

    def listTables(self, namespace: Any) -> JavaObject:
        """SHOW TABLES."""
        database = self._database(namespace)
        return self.gateway.array(
            f"{_CATALOG}.Identifier",
            [self.gateway.identifier([database], name) for name in self.catalog.tables(database)],
        )

    def loadTable(self, ident: JavaObject, *more: Any) -> Any:
        """A table for a statement; with a version, a timestamp (microseconds), or write privileges."""
        version = TableVersion.from_arguments(more)
        try:
            system = open_system_table(self.gateway, self.catalog_name, self.catalog, ident, version)
            if system is not None:
                return system
            loaded = load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), version)
        except TableNotFoundError:
            raise self._analysis("NoSuchTableException", ident) from None
        return TableProxy(self.gateway, self.catalog_name, loaded)

    def tableExists(self, ident: JavaObject) -> bool:
        """Whether there is such a table."""
        try:
            load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), None)
        except TableNotFoundError:
            return False
        return True

    def invalidateTable(self, ident: JavaObject) -> None:
        """REFRESH TABLE: nothing is cached."""

    def createTable(self, ident: JavaObject, *definition: Any) -> Any:
        """CREATE TABLE: columns, partitioning, properties (in one TableInfo from Spark 4.1 on)."""
        if len(definition) == 1:
            info = definition[0]
            columns, transforms, properties = info.columns(), info.partitions(), info.properties()
        else:
            columns, transforms, properties = definition
        namespace = list(ident.namespace())
        if not self.namespaceExists(namespace):
            raise self._analysis("NoSuchNamespaceException", self.gateway.strings(namespace))
        if self.catalog.table_exists(namespace[0], ident.name()):
            raise self._analysis("TableAlreadyExistsException", ident)
        schema = schema_of_create(struct_from_columns(self.gateway, columns), transforms, dict(properties))
        try:
            self.catalog.create_table(namespace[0], ident.name(), schema)
        except SchemaError:
            if self.catalog.table_exists(namespace[0], ident.name()):
                raise self._analysis("TableAlreadyExistsException", ident) from None
            raise
        return self.loadTable(ident)

    def dropTable(self, ident: JavaObject) -> bool:
        """DROP TABLE."""
        namespace = list(ident.namespace())
        if len(namespace) != 1 or not self.catalog.table_exists(namespace[0], ident.name()):
            return False
        self.catalog.drop_table(namespace[0], ident.name())
        return True

    def purgeTable(self, ident: JavaObject) -> bool:
        """DROP TABLE … PURGE: the same, nothing is kept by DROP TABLE either."""
        return bool(self.dropTable(ident))

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        """ALTER TABLE … RENAME TO."""
        namespace, to_namespace = list(old.namespace()), list(new.namespace())
        if len(namespace) != 1 or not self.catalog.table_exists(namespace[0], old.name()):
            raise self._analysis("NoSuchTableException", old)
        to_database = to_namespace[0] if to_namespace else namespace[0]
        if self.catalog.table_exists(to_database, new.name()):
            raise self._analysis("TableAlreadyExistsException", new)
        self.catalog.rename_table(namespace[0], old.name(), to_database, new.name())

    def _database(self, namespace: Any) -> str:
        parts = list(namespace)
        if not self.namespaceExists(parts):
            raise self._analysis("NoSuchNamespaceException", self.gateway.strings(parts))
        return str(parts[0])

    def _analysis(self, name: str, subject: JavaObject) -> Exception:
        """One of Spark's own analysis exceptions, to be raised."""
        from py4j.protocol import Py4JJavaError

        java_class = getattr(self.gateway.jvm.org.apache.spark.sql.catalyst.analysis, name)
        return Py4JJavaError("", java_class(subject))
