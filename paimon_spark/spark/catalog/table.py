"""Answers Spark's ``Table`` with reads, writes and metadata columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark.sql.types import StructType

from paimon_spark.read.change_range import asks_for_changes
from paimon_spark.spark.catalog.defaults import struct_with_defaults
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.metadata import MetadataColumnProxy
from paimon_spark.spark.catalog.partitions import PARTITION_INTERFACES, PartitionsProxy
from paimon_spark.spark.catalog.scan import ScanBuilderProxy, quoted
from paimon_spark.spark.catalog.scan_plan import metadata_struct
from paimon_spark.spark.catalog.schemas import declared_struct, java_struct
from paimon_spark.spark.catalog.write import WriteBuilderProxy
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.faces import Question, Reply, Value, face_of, faced, none_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.table.nullability import fields_as_stored

_CATALOG = "org.apache.spark.sql.connector.catalog"
_CAPABILITIES = ("BATCH_READ", "BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
STATEMENT_MARK = " <- "
"""Stands in plans behind a table that a statement changes, before the statement."""


class TableProxy(PartitionsProxy):
    """One table at one version, as one statement sees it."""

    interfaces: ClassVar[tuple[str, ...]] = (
        f"{_CATALOG}.Table",
        f"{_CATALOG}.SupportsRead",
        f"{_CATALOG}.SupportsWrite",
        f"{_CATALOG}.SupportsMetadataColumns",
        *PARTITION_INTERFACES,
    )

    asked: ClassVar[Mapping[str, str]] = {"newScanBuilder": "_asked_scan_builder"}

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable) -> None:
        super().__init__(gateway)
        self.pinned_snapshot_id: int | None = None
        """What is read of the table once the statement that reads it has replaced it."""
        self.catalog_name = catalog_name
        self.loaded = loaded
        fields = fields_as_stored(loaded.table)
        self.struct: StructType = declared_struct(struct_with_defaults(fields), fields)

    def answers(self) -> dict[str, Value]:
        """What a table is, apart from its partitions."""
        struct, keys = self.struct.json(), self.loaded.table.schema.partition_keys
        return {
            "name": self.name(),
            "id": None,
            "version": None,
            "schema": ["struct", struct],
            "columns": ["columns", struct],
            "constraints": none_of(f"{_CATALOG}.constraints.Constraint"),
            "partitioning": ["identity", [quoted(key) for key in keys]],
            "properties": ["map", self._properties()],
            "capabilities": ["constants", f"{_CATALOG}.TableCapability", list(_CAPABILITIES)],
            "metadataColumns": [
                "metadata",
                [[f.name, f.dataType.json(), f.nullable] for f in metadata_struct(self.loaded.table).fields],
            ],
            "canRenameConflictingMetadataColumns": False,
        }

    def name(self) -> str:
        """The name in plans and messages."""
        return f"{self.catalog_name}.{self.loaded.name}"

    def id(self) -> None:
        """Identity over time: none is kept."""

    def version(self) -> None:
        """Version for transactions: none."""

    def schema(self) -> JavaObject:
        """Columns with nullability and comments."""
        return java_struct(self.gateway, self.struct)

    def columns(self) -> JavaObject:
        """The same as ``Column[]``."""
        util = compat.V2_COLUMNS.of(self.gateway)
        struct = self.schema()
        try:
            return util.structTypeToV2Columns(struct, False)  # 4.3: whether to keep ids
        except Py4JError:
            return util.structTypeToV2Columns(struct)

    def constraints(self) -> JavaObject:
        """Constraints: Spark has no use for an unenforced primary key."""
        return self.gateway.array(f"{_CATALOG}.constraints.Constraint", [])

    def partitioning(self) -> JavaObject:
        """The partition columns as identity transforms."""
        expressions = self.gateway.jvm.org.apache.spark.sql.connector.expressions.Expressions
        keys = self.loaded.table.schema.partition_keys
        return self.gateway.array(
            "org.apache.spark.sql.connector.expressions.Transform", [expressions.identity(quoted(k)) for k in keys]
        )

    def properties(self) -> JavaObject:
        """What SHOW TBLPROPERTIES shows."""
        return self.gateway.string_map(self._properties())

    def _properties(self) -> dict[str, str]:
        """Options, keys, comment, provider and location, as the official connector shows them.

        What SHOW CREATE TABLE gives makes the same table again.
        """
        schema, path = self.loaded.table.schema, self.loaded.table.path
        values = {**self.loaded.own_options, "provider": "paimon", "location": path, "path": path}
        if schema.primary_keys:
            values["primary-key"] = ",".join(schema.primary_keys)
        if schema.comment:
            values["comment"] = schema.comment
        return values

    def capabilities(self) -> JavaObject:
        """What reads and writes may ask for."""
        return self.gateway.enum_set(
            f"{_CATALOG}.TableCapability",
            _CAPABILITIES,
        )

    def metadataColumns(self) -> JavaObject:
        """Columns that say where a row comes from."""
        columns = [MetadataColumnProxy(self.gateway, field) for field in metadata_struct(self.loaded.table).fields]
        return self.gateway.array(f"{_CATALOG}.MetadataColumn", columns)

    def canRenameConflictingMetadataColumns(self) -> bool:
        """A column of the table hides a metadata column of its name."""
        return False

    def newScanBuilder(self, options: JavaObject) -> Any:
        """A builder for one scan."""
        return faced(self.scan_builder(self.gateway.string_dict(options.asCaseSensitiveMap())))

    def _asked_scan_builder(self, question: Question) -> Reply:
        return Reply(face_of(self.scan_builder(question.arguments[0])))

    def scan_builder(self, options: Mapping[str, str]) -> ScanBuilderProxy:
        """A builder for one scan with the options of the read."""
        given = dict(options)
        if self.pinned_snapshot_id is not None and not self.loaded.options and not asks_for_changes(given):
            given.setdefault("scan.snapshot-id", str(self.pinned_snapshot_id))
        return ScanBuilderProxy(self.gateway, self.loaded, given)

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write."""
        return WriteBuilderProxy(self.gateway, self.loaded, info)

    def toString(self) -> str:
        """What equality compares: the same table at the same version is the same relation."""
        version = ",".join(f"{k}={v}" for k, v in sorted(self.loaded.options.items()))
        return f"{self.loaded.table.path}@{self.loaded.table.branch}?{version}"

    def equals(self, other: Any) -> bool:
        """Whether it is the same table at the same version, also one that a statement changes (see `row_level`)."""
        return other is not None and (
            other is self or str(other.toString()).partition(STATEMENT_MARK)[0] == self.toString()
        )
