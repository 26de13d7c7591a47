"""Reads of system tables by the data source: rows made once on the driver, handed to the tasks as Arrow bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.metastore.opening import root_of
from paimon_spark.read.row_views import find_view
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.source.source_options import match_columns, row_condition
from paimon_spark.spark.source.worker_process import speed_up_worker
from paimon_spark.spec.predicate import evaluate
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.paths import DATABASE_SUFFIX, system_table_in
from paimon_spark.table.system.registry import GLOBAL_TABLES, system_table
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.read.table_scan import RowView
    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.system.definition import SystemTable

_BATCH_ROWS = 8192


@dataclass(frozen=True)
class SystemRows(InputPartition):
    """Some rows of a system table, as an Arrow stream."""

    data: bytes


class SystemTableReader(DataSourceReader):
    """A planned read of a system table. What it shows is what was there when it was planned."""

    def __init__(self, rows: pa.Table, target: pa.Schema) -> None:
        self._names = rows.schema.names
        self._target = target
        self._partitions: list[InputPartition] = [SystemRows(_stream(batch)) for batch in rows.to_batches(_BATCH_ROWS)]

    def pruneColumns(self, schema: pa.Schema) -> None:
        """Leave out all columns but these, as `PaimonReader.pruneColumns`."""
        self._names = schema.names
        self._target = pa.schema([self._target.field(name) for name in schema.names])

    def partitions(self) -> list[InputPartition]:
        """The rows in pieces. Called once, on the driver."""
        return self._partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece, in Spark's own Arrow types. Called in a task."""
        speed_up_worker()
        if not isinstance(partition, SystemRows):
            return iter(())  # what Spark makes of an empty list of partitions
        rows = pa.ipc.open_stream(partition.data)
        if not self._names:
            return (batch.select([]) for batch in rows)
        return convert_batches(rows, self._names, self._target)

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the rows: they are pickled with their partitions."""
        return {**self.__dict__, "_partitions": []}


def named_system_table(path: str) -> SystemTable | RowView | None:
    """The system table, or the view of the rows, that a name or a path means; None of a table itself.

    Raises:
        TableNotFoundError: there is no such system table.
        UnsupportedError: it cannot be read yet.
    """
    name = system_table_in(path)
    return None if name is None else find_view(name) or system_table(name, of=path)


@dataclass(frozen=True)
class MetadataSource:
    """What a path names whose rows come from metadata alone."""

    fields: tuple[DataField, ...]
    rows: Callable[[], pa.Table]
    """Makes the rows, as they are now."""


def metadata_source(request: ReadRequest) -> MetadataSource | None:
    """The system table that a load names, of a table (``/wh/db.db/t$files``) or a warehouse (``/wh/sys.db/tables``).

    None where the path names rows of a table.

    Raises:
        TableNotFoundError: there is no such system table, or no table of which it could tell.
    """
    parent, _, name = request.path.rstrip("/").rpartition("/")
    warehouse, _, database = parent.rpartition("/")
    of_warehouse = GLOBAL_TABLES.get(name.lower())
    if of_warehouse is not None and database == f"{SYSTEM_DATABASE}{DATABASE_SUFFIX}":
        named = request.options.get("warehouse", warehouse)
        catalog = open_catalog(named if root_of(named, request.options) == warehouse else warehouse, request.options)
        return MetadataSource(of_warehouse.fields, lambda: of_warehouse.read(catalog))
    if find_view(request.name.system_table) is not None:
        return None
    system = system_table(request.name.system_table or "", of=request.path)
    table = load_table(request.name, options=request.options)
    return MetadataSource(system.fields, lambda: system.read(table))


def row_view_of(request: ReadRequest) -> RowView:
    """Return the row view that a load names (``t``, ``t$ro``), where `metadata_source` finds none."""
    view = find_view(request.name.system_table)
    assert view is not None
    return view


def metadata_reader(source: MetadataSource, request: ReadRequest, schema: StructType) -> SystemTableReader:
    """Read the rows of a system table, filter them, and keep the columns of `schema`.

    Raises:
        SchemaMismatchError: a column is not in the system table, or has another type there.
    """
    names = match_columns(source.fields, schema)
    rows = source.rows()
    if request.filter is not None:
        rows = rows.filter(evaluate(row_condition(request.filter, source.fields, request.settings), rows))
    return SystemTableReader(rows.select(names), spark_arrow_schema(schema))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
