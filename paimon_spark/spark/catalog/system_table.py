"""Answers Spark's ``Table``, ``ScanBuilder`` and ``Scan`` for system tables: ``SELECT * FROM `t$snapshots` ``.

Rows are made on the driver when the scan is planned; only columns are pushed down, Spark filters. Few rows are
constants of the query (`LocalScan`), which no task reads. The system tables of a catalog are here too:
``SELECT * FROM paimon.sys.all_table_options``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from paimon_spark.errors import OptionError
from paimon_spark.read.row_views import AUDIT_LOG
from paimon_spark.read.table_scan import RowView
from paimon_spark.spark.catalog.basic_scan import LocalRowsProxy, ReaderScanProxy
from paimon_spark.spark.catalog.loading import LoadedTable, loaded_for_read
from paimon_spark.spark.catalog.named_table import NamedTableProxy
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.source.table_read import SystemTableReader
from paimon_spark.spark.sql.read_version import with_read_options
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.system.definition import SystemTable
from paimon_spark.table.system.registry import GlobalTable

_CATALOG = "org.apache.spark.sql.connector.catalog"
MOST_LOCAL_ROWS = 1000
_READ = "org.apache.spark.sql.connector.read"


class SystemTableProxy(NamedTableProxy):
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

    def _capabilities(self) -> Sequence[str]:
        streams = ("MICRO_BATCH_READ",) if self.system is AUDIT_LOG else ()
        return (*super()._capabilities(), *streams)

    def scan_builder(self, options: Mapping[str, str]) -> AnswerProxy:
        """A builder for one scan with the options of the read."""
        if isinstance(self.system, RowView):
            builder = ScanBuilderProxy(self.gateway, self.loaded, options, self.system)
            refuse_other_columns(self.struct, builder.struct, self.table_name)
            return builder
        system, loaded = self.system, loaded_for_read(self.loaded, options)
        table = with_read_options(loaded.table, options, pinned=loaded.pinned)
        return SystemScanBuilderProxy(self.gateway, self.table_name, self.struct, lambda: system.read(table))

    def toString(self) -> str:
        """The text that `equals` compares: the table and its version."""
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


class SystemScanBuilderProxy(AnswerProxy):
    """Takes the columns that a scan needs."""

    interfaces = (f"{_READ}.ScanBuilder", f"{_READ}.SupportsPushDownRequiredColumns")
    noted: ClassVar[Mapping[str, tuple[str, Value]]] = {"pruneColumns": ("_prune", None)}
    asked: ClassVar[Mapping[str, str]] = {"build": "_asked_scan"}

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.struct = struct
        self.rows = rows

    def _prune(self, required: str) -> None:
        struct = StructType.fromJson(json.loads(required))
        self.struct = struct if len(struct) else StructType(self.struct.fields[:1])

    def _asked_scan(self, _question: Question) -> Reply:
        """The scan; few rows are made now and become constants of the query, so that no task is run for them."""
        rows = self.rows().select(self.struct.names)
        if rows.num_rows <= MOST_LOCAL_ROWS and not _holds_maps(self.struct):
            text, values = _description(self.table_name, self.struct), _internal_rows(self.struct, rows)
            return Reply(described_proxy(LocalRowsProxy(self.gateway, self.struct, text, values)))
        return Reply(described_proxy(SystemScanProxy(self.gateway, self.table_name, self.struct, lambda: rows)))


class SystemScanProxy(ReaderScanProxy):
    """One scan of a system table, whose rows are read when its batch is made."""

    interfaces = (f"{_READ}.Scan",)

    def __init__(self, gateway: Gateway, name: str, struct: StructType, rows: Callable[[], pa.Table]) -> None:
        super().__init__(gateway, struct)
        self.table_name = name
        self.rows = rows

    def description(self) -> str:
        """For EXPLAIN."""
        return _description(self.table_name, self.struct)

    def _reader(self) -> SystemTableReader:
        return SystemTableReader(self.rows().select(self.struct.names), spark_arrow_schema(self.struct))


def _description(name: str, struct: StructType) -> str:
    return f"paimon system table {name} {struct.simpleString()}"


def _internal_rows(struct: StructType, rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as Spark keeps them."""
    batches = convert_batches(rows.to_batches(), struct.names, spark_arrow_schema(struct))
    values = (row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    return [struct.toInternal(row) for row in values]


def _holds_maps(data_type: DataType) -> bool:
    """Whether a type holds a map, which Arrow and Spark's internal rows give to Python in different ways."""
    match data_type:
        case StructType():
            return any(_holds_maps(field.dataType) for field in data_type.fields)
        case ArrayType():
            return _holds_maps(data_type.elementType)
    return isinstance(data_type, MapType)


class GlobalTableProxy(SystemTableProxy):
    """One table of the database ``sys``. It cannot be written, and no option of a read changes it."""

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog, table: GlobalTable) -> None:
        super(SystemTableProxy, self).__init__(gateway)
        self.table_name = f"{catalog_name}.{SYSTEM_DATABASE}.{table.name}"
        self.struct = to_spark_struct(table.fields)
        self.catalog = catalog
        self.global_table = table

    def _capabilities(self) -> Sequence[str]:
        return ("BATCH_READ",)

    def scan_builder(self, options: Mapping[str, str]) -> AnswerProxy:
        """A builder for one scan."""
        table, catalog = self.global_table, self.catalog
        return SystemScanBuilderProxy(self.gateway, self.table_name, self.struct, lambda: table.read(catalog))

    def toString(self) -> str:
        """The text that `equals` compares: the warehouse and the table."""
        return f"{self.catalog.warehouse}${self.table_name}"
