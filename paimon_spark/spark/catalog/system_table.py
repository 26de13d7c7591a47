"""Answers Spark's ``Table``, ``ScanBuilder`` and ``Scan`` for system tables: ``SELECT * FROM `t$snapshots` ``.

Rows are made on the driver when the scan is planned; only columns are pushed down, Spark filters. Few rows are
constants of the query (`LocalScan`), which no task reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from paimon_spark.errors import OptionError
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.catalog.aggregates import LocalScanProxy
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.python_source import planned_batch, python_batch
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.schemas import java_struct
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.faces import FacedProxy, Question, Reply, Value, face_of, faced, none_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.source.system_read import SystemTableReader
from paimon_spark.spark.sql.read_version import with_read_options
from paimon_spark.table.system.definition import SystemTable

_CATALOG = "org.apache.spark.sql.connector.catalog"
MOST_LOCAL_ROWS = 1000
_READ = "org.apache.spark.sql.connector.read"


class SystemTableProxy(FacedProxy):
    """One system table of one table at one version, as one statement sees it. It cannot be written."""

    interfaces = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsRead")
    asked: ClassVar[Mapping[str, str]] = {"newScanBuilder": "_asked_scan_builder"}

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable, system: SystemTable | RowView) -> None:
        super().__init__(gateway)
        self.table_name = f"{catalog_name}.{loaded.name}"
        self.loaded = loaded
        self.table = loaded.table
        self.system = system
        fields = system.fields(loaded.table) if isinstance(system, RowView) else system.fields
        self.struct: StructType = to_spark_struct(fields)

    def answers(self) -> dict[str, Value]:
        """What the table is."""
        struct = self.struct.json()
        return {
            "name": self.table_name,
            "id": None,
            "version": None,
            "schema": ["struct", struct],
            "columns": ["columns", struct],
            "constraints": none_of(f"{_CATALOG}.constraints.Constraint"),
            "partitioning": none_of("org.apache.spark.sql.connector.expressions.Transform"),
            "properties": ["map", {"provider": "paimon"}],
            "capabilities": ["constants", f"{_CATALOG}.TableCapability", ["BATCH_READ"]],
        }

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
        return faced(self.scan_builder(self.gateway.string_dict(options.asCaseSensitiveMap())))

    def _asked_scan_builder(self, question: Question) -> Reply:
        return Reply(face_of(self.scan_builder(question.arguments[0])))

    def scan_builder(self, given: Mapping[str, str]) -> FacedProxy:
        """A builder for one scan with the options of the read."""
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
    """Refuse options of a read that change the columns that Spark was given.

    Raises:
        OptionError: there are other columns.
    """
    if expected.names != found.names:
        other = sorted(set(expected.names) ^ set(found.names))
        raise OptionError(
            f"Options of this read of {name} change its columns ({', '.join(other)}), which is not supported by hint: "
            "set them for the table, by ALTER TABLE … SET TBLPROPERTIES."
        )


class SystemScanBuilderProxy(FacedProxy):
    """Takes the columns that a scan needs."""

    interfaces = (f"{_READ}.ScanBuilder", f"{_READ}.SupportsPushDownRequiredColumns")
    noted: ClassVar[Mapping[str, tuple[str, Value]]] = {"pruneColumns": ("_prune", None)}
    asked: ClassVar[Mapping[str, str]] = {"build": "_asked_scan"}

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.struct = struct
        self.rows = rows

    def pruneColumns(self, required: JavaObject) -> None:
        """The columns that the query needs; without any the first, as Spark 4.0 counts no rows of no columns."""
        self._prune(required.json())

    def _prune(self, required: str) -> None:
        struct = StructType.fromJson(json.loads(required))
        self.struct = struct if len(struct) else StructType(self.struct.fields[:1])

    def build(self) -> Any:
        """The scan."""
        return faced(SystemScanProxy(self.gateway, self.table_name, self.struct, self.rows))

    def _asked_scan(self, _question: Question) -> Reply:
        """The scan; few rows are made now and become constants of the query, so that no task is run for them."""
        rows = self.rows().select(self.struct.names)
        if rows.num_rows <= MOST_LOCAL_ROWS and not _holds_maps(self.struct):
            return Reply(face_of(SystemRowsProxy(self.gateway, self.table_name, self.struct, rows)))
        return Reply(face_of(SystemScanProxy(self.gateway, self.table_name, self.struct, lambda: rows)))


class SystemRowsProxy(LocalScanProxy):
    """One scan of a system table whose rows are there already."""

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: pa.Table) -> None:
        super(LocalScanProxy, self).__init__(gateway)
        self.struct = struct
        self.table_name = name
        self.arrow = rows

    def description(self) -> str:
        """For EXPLAIN."""
        return _description(self.table_name, self.struct)

    def internal_rows(self) -> list[tuple[Any, ...]]:
        """The rows as Spark keeps them."""
        batches = convert_batches(self.arrow.to_batches(), self.struct.names, spark_arrow_schema(self.struct))
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        return [self.struct.toInternal(row) for row in rows]


class SystemScanProxy(FacedProxy):
    """One scan of a system table. Its batch is made once."""

    interfaces = (f"{_READ}.Scan",)
    asked: ClassVar[Mapping[str, str]] = {"toBatch": "_asked_batch"}

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.struct = struct
        self.rows = rows
        self._batch: JavaObject | None = None

    def answers(self) -> dict[str, Value]:
        """What does not depend on the rows."""
        return {
            "readSchema": ["struct", self.struct.json()],
            "description": self.description(),
            "supportedCustomMetrics": none_of("org.apache.spark.sql.connector.metric.CustomMetric"),
            "reportDriverMetrics": none_of("org.apache.spark.sql.connector.metric.CustomTaskMetric"),
            "columnarSupportMode": ["constant", f"{_READ}.Scan$ColumnarSupportMode", "PARTITION_DEFINED"],
        }

    def readSchema(self) -> JavaObject:
        """The columns that come out."""
        return java_struct(self.gateway, self.struct)

    def description(self) -> str:
        """For EXPLAIN."""
        return _description(self.table_name, self.struct)

    def toBatch(self) -> JavaObject:
        """Spark's own Python batch over rows that are read now."""
        if self._batch is None:
            self._batch = planned_batch(self.gateway, self.readSchema(), self.struct, self._reader())
        return self._batch

    def _asked_batch(self, _question: Question) -> Reply:
        return Reply(python_batch(self.struct, self._reader()), once=True)

    def _reader(self) -> SystemTableReader:
        return SystemTableReader(self.rows().select(self.struct.names), spark_arrow_schema(self.struct))

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


def _description(name: str, struct: StructType) -> str:
    return f"paimon system table {name} {struct.simpleString()}"


def _holds_maps(data_type: DataType) -> bool:
    """Whether a type holds a map, which Arrow and Spark's internal rows give to Python in different ways."""
    match data_type:
        case StructType():
            return any(_holds_maps(field.dataType) for field in data_type.fields)
        case ArrayType():
            return _holds_maps(data_type.elementType)
    return isinstance(data_type, MapType)
