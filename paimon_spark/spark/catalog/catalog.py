"""Answers Spark's catalog interfaces for one warehouse: what is in it, and the tables that statements name.

``TableCatalog``, ``StagingTableCatalog`` (see `ddl`), ``SupportsNamespaces`` (see `ddl`), ``ProcedureCatalog``
(see `procedure_calls`) and ``FunctionCatalog`` (see `sql_functions`). Called on the driver while Spark analyses a
statement. Signatures differ between Spark versions (`docs/internals/spark.md` §5): overloads of one Java name arrive
here as one method with a varying number of arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spark.catalog.changes_clause import ChangelogProxy
from paimon_spark.spark.catalog.ddl import TableDefinitionsProxy
from paimon_spark.spark.catalog.format_table import format_table_proxy
from paimon_spark.spark.catalog.loading import (
    BRANCH,
    STREAMED,
    LoadRequest,
    load_catalog_table,
    session_options,
)
from paimon_spark.spark.catalog.sql_functions import FunctionCatalogProxy
from paimon_spark.spark.catalog.system_table import GlobalTableProxy, SystemTableProxy
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.catalog.view import KEEPS_VIEWS, view_value
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy
from paimon_spark.spark.jvm.gateway import JavaObject
from paimon_spark.spark.jvm.spark_errors import no_such_namespace, no_such_table
from paimon_spark.spark.session.session_options import SESSION_PREFIX
from paimon_spark.spark.source.table_read import named_system_table
from paimon_spark.spark.sql.read_version import POINTS_OF_TIME
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.catalog_views import find_view, keeps_views
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.paths import is_plain_name
from paimon_spark.table.system.registry import global_table

_CATALOG = "org.apache.spark.sql.connector.catalog"


_CAPABILITIES = ["SUPPORT_COLUMN_DEFAULT_VALUE", "SUPPORT_TABLE_CONSTRAINT"]
"""Of which Spark 4.0 has only the first."""


class CatalogProxy(TableDefinitionsProxy, FunctionCatalogProxy):
    """The catalog object that Spark's catalog manager holds under its name."""

    interfaces: ClassVar[tuple[str, ...]] = (*TableDefinitionsProxy.interfaces, *FunctionCatalogProxy.interfaces)

    asked: ClassVar[Mapping[str, str]] = {"loadTable": "_asked_table", "listTables": "_asked_tables"}
    settings = (SESSION_PREFIX,)

    def answers(self) -> dict[str, Value]:
        """What does not depend on the warehouse."""
        return {
            "name": self.catalog_name,
            "defaultNamespace": ["strings", [self.catalog.default_database]],
            "capabilities": ["constants", f"{_CATALOG}.TableCatalogCapability", _CAPABILITIES],
            # by which the columns of a table depend on the read: a point of time, the branch, whether it streams
            "tableStateOptionKeys": ["set", [*POINTS_OF_TIME, BRANCH, STREAMED]],
            "changelogStateOptionKeys": ["set", []],
            # CTAS gives nullable columns, as the official connector's does
            "useNullableQuerySchema": True,
            KEEPS_VIEWS: keeps_views(self.catalog),
        }

    def initialize(self, _name: str, _options: JavaObject) -> None:
        """Never called: the catalog is registered as a finished object."""

    def _asked_tables(self, question: Question) -> Reply:
        database, names = self._tables(question.arguments[0])
        return Reply(["identifiers", [database], names])

    def _tables(self, namespace: Any) -> tuple[str, list[str]]:
        parts = list(namespace)
        names = self.catalog.tables_if_there(parts[0]) if len(parts) == 1 else None
        if names is None:
            raise no_such_namespace(self.gateway, parts)
        return parts[0], names

    def _asked_table(self, question: Question) -> Reply:
        (namespace, name), *more = question.arguments
        request = LoadRequest.of(more)
        try:
            return Reply(described_proxy(self._loaded(namespace, name, request, question.settings)))
        except TableNotFoundError:
            view = find_view(self.catalog, namespace[0], name) if len(namespace) == 1 else None
            if view is None:
                raise no_such_table(self.gateway, self.gateway.identifier(namespace, name)) from None
        if request.write or request.version is not None:
            what = "written" if request.write else "read at a version; name the version in its query"
            raise UnsupportedError(f"{namespace[0]}.{name} is a view, which cannot be {what}.")
        return Reply(view_value(self.catalog_name, namespace[0], name, view))

    def _loaded(
        self, namespace: Sequence[str], name: str, request: LoadRequest, settings: Mapping[str, str]
    ) -> AnswerProxy:
        if list(namespace) == [SYSTEM_DATABASE]:
            return GlobalTableProxy(self.gateway, self.catalog_name, self.catalog, global_table(name))
        database = ".".join(namespace)
        session = session_options(settings, self.catalog_name, database, name, write=request.write)
        loaded = load_catalog_table(
            self.catalog,
            namespace,
            name,
            request.version,
            session=session,
            given=request.options,
            streams=request.streams,
        )
        if is_format_table(loaded.table.schema):
            return format_table_proxy(self.gateway, self.catalog_name, loaded)
        system = named_system_table(name)
        if system is not None:
            return SystemTableProxy(self.gateway, self.catalog_name, loaded, system)
        proxy = TableProxy(self.gateway, self.catalog_name, loaded)
        self.handed_out.add(proxy)
        return proxy

    def loadChangelog(self, ident: JavaObject, context: JavaObject, _options: JavaObject) -> Any:
        """``CHANGES FROM VERSION`` or ``TIMESTAMP``, from Spark 4.3 on: a table's changes."""
        try:
            loaded = load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), None)
            if named_system_table(ident.name()) is not None:
                raise OptionError(f"System tables such as {ident.name()} have no CHANGES.")
        except TableNotFoundError:
            raise no_such_table(self.gateway, ident) from None
        return ChangelogProxy(self.gateway, self.catalog_name, loaded, context)

    def tableExists(self, ident: JavaObject) -> bool:
        """Whether there is such a table."""
        try:
            if list(ident.namespace()) == [SYSTEM_DATABASE]:
                return bool(global_table(ident.name()))
            named_system_table(ident.name())
            self._check_answered(list(ident.namespace()))
            load_catalog_table(self.catalog, list(ident.namespace()), ident.name(), None)
        except (TableNotFoundError, SchemaError):
            return False
        return True

    def invalidateTable(self, ident: JavaObject) -> None:
        """REFRESH TABLE: what `cache-enabled` keeps of the table is looked for again."""
        names = [*ident.namespace(), ident.name()]
        if len(names) == 2 and all(is_plain_name(name) for name in names):
            forget(self.catalog.table_path(*names))
