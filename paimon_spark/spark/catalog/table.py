"""Answers Spark's ``Table`` with reads, writes and metadata columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from paimon_spark.read.change_range import asks_for_changes
from paimon_spark.spark.catalog.driver_read import ChangedScans
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.named_table import NamedTableProxy, metadata_answers
from paimon_spark.spark.catalog.partition_management import PARTITION_INTERFACES, PartitionsProxy
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.scan_plan import metadata_struct
from paimon_spark.spark.catalog.write import WriteBuilderProxy
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.sql.table_descriptions import table_properties, table_struct
from paimon_spark.table.paths import is_path_name

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
        return _CAPABILITIES

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
