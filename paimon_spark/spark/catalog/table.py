"""Answers Spark's ``Table``: one of a catalog or a load, and one that ``df.write.format("paimon").save(path)`` makes.

The former has reads, writes and metadata columns. The latter answers ``WriteBuilder`` too: columns are matched, cast
and checked by our writer, as of the plain source; the table is made when the write is planned, where there is none. The
builder of the catalog shuffles the rows, plans and commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from paimon_spark.read.change_range import asks_for_changes
from paimon_spark.spark.catalog.distributed_rows import write_distribution
from paimon_spark.spark.catalog.driver_read import ChangedScans
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.named_table import NamedTableProxy, merged_scans, metadata_answers
from paimon_spark.spark.catalog.partition_management import PARTITION_INTERFACES, PartitionsProxy
from paimon_spark.spark.catalog.row_write import RowWriteProxy, takes_rows
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.scan_plan import metadata_struct
from paimon_spark.spark.catalog.write import WriteBuilderProxy, WriteProxy, session_parallelism
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import python_struct
from paimon_spark.spark.source.source_options import write_request
from paimon_spark.spark.source.write_target import has_keys_of, target_table
from paimon_spark.spark.sql.table_descriptions import table_properties, table_struct
from paimon_spark.storage.store_options import without_secrets
from paimon_spark.table.paths import is_path_name

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_CATALOG = "org.apache.spark.sql.connector.catalog"
_CAPABILITIES = (
    "BATCH_READ",
    "BATCH_WRITE",
    "TRUNCATE",
    "OVERWRITE_BY_FILTER",
    "OVERWRITE_DYNAMIC",
    "MICRO_BATCH_READ",
)


class TableProxy(NamedTableProxy, PartitionsProxy):
    """One table at one version, as one statement sees it."""

    interfaces: ClassVar[tuple[str, ...]] = (
        f"{_CATALOG}.Table",
        f"{_CATALOG}.SupportsRead",
        f"{_CATALOG}.SupportsWrite",
        f"{_CATALOG}.SupportsMetadataColumns",
        *PARTITION_INTERFACES,
    )

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable) -> None:
        super().__init__(gateway)
        self.pinned_snapshot_id: int | None = None
        """What is read of the table once the statement that reads it has replaced it."""
        self.catalog_name = catalog_name
        self.table_name = f"{catalog_name}.{loaded.name}"
        self.loaded = loaded
        self.struct: StructType = table_struct(loaded.table)
        self.changed = ChangedScans()
        """The scans of a statement that changes rows of this table."""

    def answers(self) -> dict[str, Value]:
        """What a table is, apart from its partitions."""
        return {**super().answers(), **metadata_answers(metadata_struct(self.loaded.table))}

    def _partition_keys(self) -> Sequence[str]:
        return self.loaded.table.schema.partition_keys

    def _properties(self) -> dict[str, str]:
        """Options, keys, comment, provider and location, as the official connector shows them.

        What SHOW CREATE TABLE gives makes the same table again, in any warehouse: it shows no LOCATION.
        """
        schema, path = self.loaded.table.schema, self.loaded.table.path
        comment = {"comment": schema.comment} if schema.comment is not None else {}
        governed = self.loaded.table.is_governed
        own = table_properties(schema, self.loaded.own_options, path, is_governed=governed)
        managed = {} if is_path_name(self.loaded.name) else {"is_managed_location": "true"}
        return {**own, "provider": "paimon", "location": path, **managed, **comment}

    def _capabilities(self) -> Sequence[str]:
        return _CAPABILITIES + merged_scans(self.gateway)

    def scan_builder(self, options: Mapping[str, str]) -> ScanBuilderProxy:
        """A builder for one scan with the options of the read."""
        given = dict(options)
        if self.pinned_snapshot_id is not None and not self.loaded.options and not asks_for_changes(given):
            given.setdefault("scan.snapshot-id", str(self.pinned_snapshot_id))
        return ScanBuilderProxy(self.gateway, self.loaded, given)

    def _configured(self, builder: AnswerProxy, *, is_changed: bool) -> AnswerProxy:
        if is_changed and isinstance(builder, ScanBuilderProxy):
            builder.changed = self.changed
        return builder

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write."""
        return WriteBuilderProxy(self.gateway, self.loaded, info)

    def toString(self) -> str:
        """The text that `equals` compares: the table and its version."""
        version = ",".join(f"{k}={v}" for k, v in sorted(self.loaded.options.items()))
        return f"{self.loaded.table.path}@{self.loaded.table.branch}?{version}"


class SavedTableProxy(AnswerProxy):
    """The target of a save, which accepts all columns; Spark knows nothing else of it."""

    names_errors = True
    interfaces: ClassVar[tuple[str, ...]] = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsWrite")

    def __init__(
        self,
        gateway: Gateway,
        struct: str,
        options: Mapping[str, str],
        opened: FileStoreTable | None,
    ) -> None:
        """Hold what Spark asks for.

        Args:
            gateway: the JVM.
            struct: the ``StructType`` of the rows, as JSON.
            options: of the save, where the write has none.
            opened: the table; None where there is none yet.
        """
        super().__init__(gateway)
        self.opened = opened
        self.struct = struct
        self.options = options

    def answers(self) -> dict[str, Value]:
        """The columns of the rows; writes may have any, as our writer matches, casts and checks them."""
        capabilities = ["BATCH_WRITE", "TRUNCATE", "ACCEPT_ANY_SCHEMA"]
        return {
            "name": "paimon",
            "schema": ["struct", self.struct],
            "columns": ["columns", self.struct],
            "properties": ["map", {"provider": "paimon"}],
            "capabilities": ["constants", f"{_CATALOG}.TableCapability", capabilities],
        }

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write."""
        return SaveBuilderProxy(self.gateway, info, self.options, self.opened)


class SaveBuilderProxy(WriteBuilderProxy):
    """Plans one save by its options; makes the table where there is none."""

    names_errors = True

    def __init__(
        self, gateway: Gateway, info: JavaObject, options: Mapping[str, str], opened: FileStoreTable | None = None
    ) -> None:
        AnswerProxy.__init__(self, gateway)
        self.info = info
        self.existing = opened
        self.given = gateway.string_dict(info.options().asCaseSensitiveMap()) or dict(options)
        self.overwriting: dict[str, str] | None = None

    def truncate(self) -> Any:
        """Replace what the options, the session and the table say."""
        self.overwriting = {}
        return self

    def opened(self) -> FileStoreTable | None:
        """The table, which the options of the save have opened."""
        return self.loaded.table

    def build(self) -> Any:
        """The write, behind the shuffle that the table's keys need.

        Raises:
            PaimonError: as of every save.
        """
        struct = python_struct(self.info.schema())
        with without_secrets(self.given):
            request = write_request(self.given, overwrite=self.overwriting is not None, opened=self.existing)
            table = target_table(request, struct, self.existing)
        self.loaded = LoadedTable(table, table.path)
        if takes_rows(table.schema):
            return RowWriteProxy.of(self, self.given)
        distribution = write_distribution(table, session_parallelism(self.gateway))
        if not has_keys_of(table.schema, struct):
            distribution = distribution.of_other_keys(struct.names)
        return WriteProxy(self, self.given, distribution)
