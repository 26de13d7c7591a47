"""Answers Spark's catalog interfaces for one warehouse: what is in it, and the tables that statements name.

``TableCatalog``, ``StagingTableCatalog`` (see `ddl`), ``SupportsNamespaces`` (see `ddl`), ``ProcedureCatalog``
(see `procedure_calls`) and ``FunctionCatalog`` (see `scalar_functions`). Called on the driver while Spark analyses a
statement. Signatures differ between Spark versions (`docs/internals/spark.md` §5): overloads of one Java name arrive
here as one method with a varying number of arguments.

Answers Spark's ``Changelog`` (from 4.3 on): ``SELECT * FROM t CHANGES FROM VERSION 3 TO VERSION 7``.

Also ``spark.read.changes("t")``, and ``spark.readStream.changes("t")``: Spark does not say which it is before it asks
for a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from paimon_spark.errors import OptionError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError
from paimon_spark.read.change_feed import CHANGE_FEED, feed_source, refuse_without_changelog
from paimon_spark.spark.catalog.ddl import TableDefinitionsProxy
from paimon_spark.spark.catalog.format_table import format_table_proxy
from paimon_spark.spark.catalog.loading import (
    BRANCH,
    STREAMED,
    LoadedTable,
    LoadRequest,
    load_catalog_table,
    session_options,
)
from paimon_spark.spark.catalog.scalar_functions import FunctionCatalogProxy
from paimon_spark.spark.catalog.scan import ScanBuilderProxy, ScanProxy
from paimon_spark.spark.catalog.system_table import GlobalTableProxy, SystemTableProxy
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.catalog.view import KEEPS_VIEWS, view_value
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy, java_proxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.spark_errors import no_such_namespace, no_such_table
from paimon_spark.spark.session.session_options import SESSION_PREFIX
from paimon_spark.spark.source.system_read import named_system_table
from paimon_spark.spark.sql.read_version import POINTS_OF_TIME
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.catalog_views import find_view, keeps_views
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.system.global_tables import global_table
from paimon_spark.table.table import FileStoreTable
from paimon_spark.table.time_travel import INCREMENTAL_KEYS, SNAPSHOT_ID, TIMESTAMP_MILLIS

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
        return java_proxy(ChangelogProxy(self.gateway, self.catalog_name, loaded, context))

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
        """REFRESH TABLE: nothing is cached."""


_BETWEEN, _BETWEEN_TIMESTAMP, _ = INCREMENTAL_KEYS
_NET_CHANGES = "NET_CHANGES"
_OF_CHANGES = frozenset(
    {
        "startingversion",
        "endingversion",
        "startingtimestamp",
        "endingtimestamp",
        "startingboundinclusive",
        "endingboundinclusive",
        "deduplicationmode",
        "computeupdates",
    }
)
"""Options of ``changes`` that Spark has read already, in lower case (Spark: ``ChangelogContextUtils``)."""


class ChangelogProxy(AnswerProxy):
    """The changes of one table in the range that one statement asks for."""

    interfaces = ("org.apache.spark.sql.connector.catalog.Changelog",)
    asked: ClassVar[Mapping[str, str]] = {"newScanBuilder": "_asked_scan_builder"}

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable, context: JavaObject) -> None:
        super().__init__(gateway)
        if context.deduplicationMode().name().upper() == _NET_CHANGES:
            raise OptionError(
                "CHANGES with deduplicationMode = 'netChanges' is not supported: leave it out, or compare two states "
                "by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', "
                "'incremental-between-scan-mode' = 'diff')."
            )
        refuse_without_changelog(loaded.table)
        self.table_name = f"{catalog_name}.{loaded.name}"
        self.range = str(context.range().toString())
        options = {
            **range_options(loaded.table, context.range()),
            "incremental-between-scan-mode": feed_source(loaded.table).value,
        }
        self.loaded = replace(loaded, table=loaded.table.with_options(options))
        self.stream_start = stream_start(loaded.table, context.range())

    def answers(self) -> dict[str, Value]:
        """The columns of the table, then the kind of the change, its snapshot and its time; how updates are shown."""
        keys = self.loaded.table.schema.primary_keys
        return {
            "name": f"{self.table_name} CHANGES",
            "columns": ["columns", to_spark_struct(CHANGE_FEED.fields(self.loaded.table)).json()],
            "containsCarryoverRows": False,  # no unchanged rows are among the changes
            "containsIntermediateChanges": bool(keys),  # a row that changed several times comes several times
            "representsUpdateAsDeleteAndInsert": False,  # it is the row before and the row after
            "rowId": ["references", [quoted_name(name) for name in keys]],
        }

    def _asked_scan_builder(self, question: Question) -> Reply:
        others = {key: value for key, value in question.arguments[0].items() if key.lower() not in _OF_CHANGES}
        return Reply(described_proxy(ChangesBuilderProxy(self.gateway, self.loaded, others, self.stream_start)))

    def rowVersion(self) -> JavaObject:
        """The snapshot."""
        return self.gateway.jvm.org.apache.spark.sql.connector.expressions.Expressions.column("_commit_version")

    def toString(self) -> str:
        """The text that `equals` compares: the table and the range."""
        return f"{self.loaded.table.path}@{self.loaded.table.branch} CHANGES {self.range}"


class ChangesBuilderProxy(ScanBuilderProxy):
    """A builder for a scan or a stream of changes."""

    def __init__(
        self, gateway: Gateway, loaded: LoadedTable, options: Mapping[str, str], stream_start: Mapping[str, str] | None
    ) -> None:
        super().__init__(gateway, loaded, options, CHANGE_FEED)
        self.stream_start = stream_start

    def _scan(self) -> AnswerProxy:
        scan = super()._scan()
        if isinstance(scan, ScanProxy):
            scan.plan = replace(scan.plan, stream_start=self.stream_start)
        return scan


def stream_start(table: FileStoreTable, given_range: JavaObject) -> dict[str, str] | None:
    """The options of a stream that begins where a ``ChangelogRange`` does; None if the range has an end.

    A range without a start is the state of the table, and then its changes.

    Raises:
        SnapshotNotFoundError: there is no such snapshot or tag.
    """
    kind = given_range.getClass().getSimpleName()
    if kind == "VersionRange" and not given_range.endingVersion().isPresent():
        behind = 1 - int(given_range.startingBoundInclusive())
        return {SNAPSHOT_ID: str(version_id(table, str(given_range.startingVersion())) + behind)}
    if kind == "TimestampRange" and not given_range.endingTimestamp().isPresent():
        first = int(given_range.startingTimestamp()) + 1 - int(given_range.startingBoundInclusive())
        return {TIMESTAMP_MILLIS: str(-(-first // 1000))}
    return {} if kind == "UnboundedRange" else None


def range_options(table: FileStoreTable, given_range: JavaObject) -> dict[str, str]:
    """The read options of a ``ChangelogRange``; ours leave out the start and take in the end.

    Raises:
        SnapshotNotFoundError: there is no such snapshot or tag.
        OptionError: the range is none of versions or timestamps.
    """
    kind = given_range.getClass().getSimpleName()
    if kind == "UnboundedRange":
        return {}  # a plan of a batch refuses it; a stream begins with the state of the table
    before, behind = int(given_range.startingBoundInclusive()), 1 - int(given_range.endingBoundInclusive())
    if kind == "VersionRange":
        start = version_id(table, str(given_range.startingVersion())) - before
        given = given_range.endingVersion()
        end = version_id(table, str(given.get())) - behind if given.isPresent() else table.snapshots.latest_id() or 0
        return {_BETWEEN: f"{start},{end}"}
    if kind == "TimestampRange":
        start = int(given_range.startingTimestamp()) // 1000 - before
        given = given_range.endingTimestamp()
        latest = table.snapshots.latest()
        end = int(given.get()) // 1000 - behind if given.isPresent() else latest.time_millis if latest else start
        return {_BETWEEN_TIMESTAMP: f"{start},{max(start, end)}"}
    raise OptionError(f"CHANGES takes versions or timestamps, not {kind}.")


def version_id(table: FileStoreTable, version: str) -> int:
    """The snapshot's id that a version means: a tag, or digits.

    Raises:
        SnapshotNotFoundError: it is neither.
    """
    if table.tags.exists(version):
        return table.tags.get(version).snapshot.id
    if version.isascii() and version.isdigit():
        return int(version)
    raise SnapshotNotFoundError(
        f"Version '{version}' is neither a snapshot's id nor a tag. The tags are: "
        f"{', '.join(table.tags.names()) or 'none'}."
    )
