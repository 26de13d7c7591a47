"""Answers Spark's ``SupportsNamespaces``: the databases of a warehouse. Called on the driver, once per statement."""

from __future__ import annotations

from typing import Any, ClassVar

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.spark_errors import namespace_already_exists, namespace_not_empty, no_such_namespace
from paimon_spark.spark.sql.table_definitions import refuse_database_location
from paimon_spark.table.filesystem_catalog import FilesystemCatalog


class NamespacesProxy(AnswerProxy):
    """The part of a catalog about databases, whose names have one part."""

    interfaces: ClassVar[tuple[str, ...]] = ("org.apache.spark.sql.connector.catalog.SupportsNamespaces",)

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog) -> None:
        super().__init__(gateway)
        self.catalog_name = catalog_name
        self.catalog = catalog
        self._found: tuple[JavaObject, str] | None = None
        """The statement that Spark planned last, and the database that it found."""

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
        return len(parts) == 1 and self.catalog.database_exists(parts[0])

    def loadNamespaceMetadata(self, namespace: Any) -> JavaObject:
        """Properties of a database: its location. While it plans one statement Spark asks many times."""
        statement, parts = self._statement(), list(namespace)
        found = self._found if statement is not None else None
        if found is None or [found[1]] != parts or not found[0].equals(statement):
            found = (statement, self._database(parts))
            self._found = found if statement is not None else None
        database = found[1]
        return self.gateway.string_map({"location": self.catalog.database_path(database)})

    def createNamespace(self, namespace: Any, metadata: Any) -> None:
        """CREATE DATABASE; comment and properties are not kept, as in the official filesystem catalog."""
        parts = list(namespace)
        if len(parts) != 1:
            raise PaimonError(f"a database has a name of one part, not {'.'.join(parts)}")
        if "location" in dict(metadata):
            refuse_database_location(self.catalog.database_path(parts[0]))
        if self.catalog.database_exists(parts[0]):
            raise namespace_already_exists(self.gateway, parts)
        self.catalog.create_database(parts[0])

    def alterNamespace(self, namespace: Any, _changes: Any) -> None:
        """ALTER DATABASE … SET: refused, a directory keeps no properties."""
        database = self._database(namespace)
        raise UnsupportedError(
            f"Alter database is not supported: {database} is a directory of a filesystem warehouse and keeps no "
            "properties"
        )

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """DROP DATABASE [CASCADE]."""
        parts = list(namespace)
        if not self.namespaceExists(parts):
            return False
        if not cascade and self.catalog.tables(parts[0]):
            raise namespace_not_empty(self.gateway, parts)
        self.catalog.drop_database(parts[0], cascade=bool(cascade))
        return True

    def _statement(self) -> JavaObject | None:
        """What stands for the statement that Spark is planning, where a store is asked over the network."""
        if not self.catalog.file_io.lists_versions or features.missing_of(self.gateway, features.DATABASES):
            return None
        tracker = compat.PLANNING_TRACKER.of(self.gateway).get()
        return tracker.get() if tracker.isDefined() else None

    def _database(self, namespace: Any) -> str:
        parts = list(namespace)
        if not self.namespaceExists(parts):
            raise no_such_namespace(self.gateway, parts)
        return str(parts[0])
