"""Answers Spark's ``Table``, ``ScanBuilder`` and ``Scan`` for system tables: ``SELECT * FROM `t$snapshots` ``.

Rows are made on the driver when the scan is planned; only columns are pushed down, Spark filters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql.types import StructType

from paimon_spark.errors import OptionError
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.python_source import planned_batch
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.schemas import java_struct
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.source.system_read import SystemTableReader
from paimon_spark.spark.sql.read_version import with_read_options
from paimon_spark.table.system.definition import SystemTable

_CATALOG = "org.apache.spark.sql.connector.catalog"
_READ = "org.apache.spark.sql.connector.read"


class SystemTableProxy(Proxy):
    """One system table of one table at one version, as one statement sees it. It cannot be written."""

    interfaces = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsRead")

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable, system: SystemTable | RowView) -> None:
        super().__init__(gateway)
        self.table_name = f"{catalog_name}.{loaded.name}"
        self.loaded = loaded
        self.table = loaded.table
        self.system = system
        fields = system.fields(loaded.table) if isinstance(system, RowView) else system.fields
        self.struct: StructType = to_spark_struct(fields)

    def name(self) -> str:
        """The name in plans and messages."""
        return self.table_name

    def id(self) -> None:
        """Identity over time: none is kept."""

    def version(self) -> None:
        """Version for transactions: none."""

    def schema(self) -> JavaObject:
        """Columns with nullability."""
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
        """None."""
        return self.gateway.array(f"{_CATALOG}.constraints.Constraint", [])

    def partitioning(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.expressions.Transform", [])

    def properties(self) -> JavaObject:
        """The provider only."""
        return self.gateway.string_map({"provider": "paimon"})

    def capabilities(self) -> JavaObject:
        """Batch reads."""
        return self.gateway.enum_set(f"{_CATALOG}.TableCapability", ["BATCH_READ"])

    def newScanBuilder(self, options: JavaObject) -> Any:
        """A builder for one scan."""
        given: Mapping[str, str] = dict(options.asCaseSensitiveMap())
        if isinstance(self.system, RowView):
            builder = ScanBuilderProxy(self.gateway, self.loaded, given, self.system)
            refuse_other_columns(self.struct, builder.struct, self.table_name)
            return builder
        system, table = self.system, with_read_options(self.table, given, pinned=self.loaded.pinned)
        return SystemScanBuilderProxy(self.gateway, self.table_name, self.struct, lambda: system.read(table))

    def toString(self) -> str:
        """What equality compares: the same table at the same version is the same relation."""
        version = ",".join(f"{k}={v}" for k, v in sorted(self.loaded.options.items()))
        return f"{self.loaded.table.path}@{self.loaded.table.branch}${self.system.name}?{version}"


def refuse_other_columns(expected: StructType, found: StructType, name: str) -> None:
    """Refuse options of a read that change the columns that Spark was told.

    Raises:
        OptionError: there are other columns.
    """
    if expected.names != found.names:
        other = sorted(set(expected.names) ^ set(found.names))
        raise OptionError(
            f"Options of this read of {name} change its columns ({', '.join(other)}), which is not supported by hint: "
            "set them for the table, by ALTER TABLE … SET TBLPROPERTIES."
        )


class SystemScanBuilderProxy(Proxy):
    """Takes the columns that a scan needs."""

    interfaces = (f"{_READ}.ScanBuilder", f"{_READ}.SupportsPushDownRequiredColumns")

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.struct = struct
        self.rows = rows

    def pruneColumns(self, required: JavaObject) -> None:
        """The columns that the query needs; without any the first, as Spark 4.0 counts no rows of no columns."""
        struct = StructType.fromJson(json.loads(required.json()))
        self.struct = struct if len(struct) else StructType(self.struct.fields[:1])

    def build(self) -> Any:
        """The scan."""
        return SystemScanProxy(self.gateway, self.table_name, self.struct, self.rows)


class SystemScanProxy(Proxy):
    """One scan of a system table. Its batch is made once."""

    interfaces = (f"{_READ}.Scan",)

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.struct = struct
        self.rows = rows
        self._batch: JavaObject | None = None

    def readSchema(self) -> JavaObject:
        """The columns that come out."""
        return java_struct(self.gateway, self.struct)

    def description(self) -> str:
        """For EXPLAIN."""
        return f"paimon system table {self.table_name} {self.struct.simpleString()}"

    def toBatch(self) -> JavaObject:
        """Spark's own Python batch over rows that are read now."""
        if self._batch is None:
            rows = self.rows().select(self.struct.names)
            reader = SystemTableReader(rows, spark_arrow_schema(self.struct))
            self._batch = planned_batch(self.gateway, self.readSchema(), self.struct, reader)
        return self._batch

    def supportedCustomMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def reportDriverMetrics(self) -> JavaObject:
        """None."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> JavaObject:
        """As Spark's Python reader says of each partition."""
        mode = self.gateway.java_class(f"{_READ}.Scan$ColumnarSupportMode")
        return self.gateway.jvm.java.lang.Enum.valueOf(mode, "PARTITION_DEFINED")
