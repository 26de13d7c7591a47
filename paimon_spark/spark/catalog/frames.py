"""A DataFrame of a table by its path, as a catalog would give it, without any catalog: `PaimonTable.to_df` asks for it.

It is made only where Spark's own reader finds the rows; filters, columns, limits and counts are then pushed down too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import ReadSource, resolve_source
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.native_scan import REFUSALS, is_native, note_refusal
from paimon_spark.spark.catalog.scan import quoted
from paimon_spark.spark.catalog.scan_plan import ScanPlan, partition_columns_last
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.char_columns import padded_by_spark
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, gateway_of
from paimon_spark.spark.source.read_columns import read_columns
from paimon_spark.spark.source.system_read import metadata_source, row_view_of
from paimon_spark.spark.sql.read_version import POINTS_OF_TIME
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.nullability import fields_as_stored
from paimon_spark.table.support import check_readable
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from paimon_spark.spark.source.source_options import ReadRequest

_CATALOG = "org.apache.spark.sql.connector.catalog"


class PathTableProxy(TableProxy):
    """A table that is only read, on one snapshot, with the columns that ``format("paimon")`` shows."""

    interfaces: ClassVar[tuple[str, ...]] = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsRead")

    def __init__(
        self, gateway: Gateway, loaded: LoadedTable, snapshot: Snapshot, planned: ScanPlan, *, pads: bool
    ) -> None:
        super().__init__(gateway, "paimon", loaded)
        self.planned = planned
        self.pads = pads
        """Whether Spark pads CHAR columns."""
        fields = fields_as_stored(loaded.table)
        self.struct = to_spark_struct(fields)
        if pads:
            self.struct = padded_by_spark(self.struct, fields)
        self.snapshot = snapshot

    def newScanBuilder(self, options: JavaObject) -> Any:
        """A builder for one scan, which need not look for the files again where it reads all rows."""
        builder = super().newScanBuilder(options)
        builder.known = self.planned
        return builder

    def toString(self) -> str:
        """What equality compares: the same columns of the same snapshot, read in the same way."""
        schema = self.loaded.table.schema
        options = ",".join(f"{key}={value}" for key, value in sorted(schema.options.items()))
        return f"{super().toString()}#{self.snapshot.id},{self.snapshot.uuid},{schema.id}?{options}&{self.pads}"


def native_frame(spark: SparkSession, request: ReadRequest) -> DataFrame | None:
    """The rows that a load asks for, of the snapshot that it means now.

    Args:
        spark: a classic session.
        request: a load of ``format("paimon")``.

    Returns:
        None where ``format("paimon")`` must read: rows need our reader, or a filter is given in Paimon's own words.

    Raises:
        TableNotFoundError: there is no table at the path.
        OptionError: an option has a value that cannot be used.
        UnsupportedError: the table cannot be read yet.
    """
    if request.filter is not None or metadata_source(request) is not None:
        return None
    if row_view_of(request.path) is not ROWS:
        return None
    table = load_table(request.path, options=request.options)
    check_readable(table.schema)
    snapshot: ReadSource
    if request.snapshot_id is None:
        table, snapshot = resolve_source(table)
    else:
        table, snapshot = table.without_options(POINTS_OF_TIME), table.snapshots.get(request.snapshot_id)
        table = table.with_options({"scan.snapshot-id": str(snapshot.id)})
    if not isinstance(snapshot, Snapshot):
        return None
    columns = read_columns(fields_as_stored(table), request.columns)
    try:
        gateway = gateway_of(spark)
        struct = partition_columns_last(to_spark_struct(columns), table.schema.partition_keys)
        planned = ScanPlan(table, struct).on(snapshot)
        if not is_native(gateway, planned):
            return None
        proxy = PathTableProxy(
            gateway, LoadedTable(table, table.path), snapshot, planned, pads=request.snapshot_id is None
        )
        if not any(key in table.options for key in POINTS_OF_TIME):
            proxy.pinned_snapshot_id = snapshot.id
        nothing = gateway.jvm.scala.Option.empty()
        relation = compat.RELATION.of(gateway).create(proxy, nothing, nothing)
        dataset = compat.DATASET.of(gateway).ofRows(spark._jsparkSession, relation)
    except REFUSALS as error:
        note_refusal(error)
        return None
    frame = DataFrame(dataset, spark)
    return frame if request.columns is None else frame.select([quoted(column.name) for column in columns])
