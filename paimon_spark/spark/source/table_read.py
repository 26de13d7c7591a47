"""A planned read of a table's rows, or of a system table: which columns it has, and the reader that tasks run.

The rows of system tables are made once on the driver, handed to the tasks as Arrow bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.metastore.opening import root_of
from paimon_spark.read.metadata_columns import (
    FILE_PATH,
    file_names_of,
    metadata_fields,
    prune_by_metadata,
    refuse_merged_splits,
)
from paimon_spark.read.row_views import ROWS, find_view
from paimon_spark.read.table_scan import TableScan, describe_source
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.source.reader import PaimonReader, task_slots
from paimon_spark.spark.source.source_options import match_columns, read_columns, row_condition
from paimon_spark.spark.source.worker_process import UnpickledInTask
from paimon_spark.spec.predicate import Leaf, evaluate
from paimon_spark.spec.sql_text import short_filter_text
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.paths import DATABASE_SUFFIX, system_table_in
from paimon_spark.table.system.registry import GLOBAL_TABLES, system_table
from paimon_spark.table.table import load_table, reopened

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.read.table_scan import ReadPlan, RowView
    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.system.definition import SystemTable
    from paimon_spark.table.table import FileStoreTable

_BATCH_ROWS = 8192


@dataclass(frozen=True)
class SystemRows(InputPartition):
    """Some rows of a system table, as an Arrow stream."""

    data: bytes


class SystemTableReader(UnpickledInTask, DataSourceReader):
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


@dataclass(frozen=True)
class TableRead:
    """What a request reads, with one snapshot or range of changes chosen."""

    request: ReadRequest
    scan: TableScan
    metadata: tuple[DataField, ...]
    """Metadata columns that the request can name."""

    @classmethod
    def of(cls, request: ReadRequest, opened: FileStoreTable | None = None) -> TableRead:
        """Open the table, and choose what is read of its history.

        Args:
            request: the load.
            opened: the table, if the statement has opened it already.

        Raises:
            TableNotFoundError: there is no table at the path.
            UnsupportedError: the table cannot be read yet.
        """
        table = opened_for(request, opened)
        scan = replace(TableScan.of(table, row_view_of(request), snapshot_id=request.snapshot_id), whole_files=False)
        own = {field.name for field in scan.columns}
        fields = metadata_fields(table.schema) if scan.view is ROWS else ()
        return cls(request, scan, tuple(field for field in fields if field.name not in own))

    def fields(self) -> list[DataField]:
        """The columns that the request chooses from: metadata columns come where it names them."""
        return [*self.scan.columns, *(() if self.request.columns is None else self.metadata)]

    def locations(self, *names: str) -> list[DataField]:
        """Metadata columns by their names; those are missing whose names columns of the table have."""
        return [field for name in names for field in self.metadata if field.name == name]

    def reader(self, schema: StructType, files: Collection[str] | None = None) -> PaimonReader:
        """Plan the tasks.

        Args:
            schema: the columns to read.
            files: paths of the data files to read; None for all.

        Raises:
            SchemaMismatchError: a column of `schema` is not in the table, or has another type there.
        """
        by_path = () if files is None else (Leaf("in", FILE_PATH, tuple(files)),)
        plan, names, metadata = self._planned(schema, file_names_of(by_path))
        if by_path:
            plan = prune_by_metadata(plan, by_path)
        refuse_merged_splits(plan.table, plan.splits, metadata)
        return PaimonReader(plan, spark_arrow_schema(schema), names=names, metadata=metadata)

    def describe(self) -> str:
        """For EXPLAIN: columns, the filter, the snapshot, the files that are left."""
        plan, names, _ = self._planned(to_spark_struct(read_columns(self.fields(), self.request.columns)))
        parts = [f"columns=[{', '.join(names)}]"]
        if plan.residual is not None:
            parts.append(f"filter=[{short_filter_text(plan.residual)}]")
        parts.append(describe_source(self.scan.source))
        files = {file.path for split in plan.splits for file in split.files}
        return f"{', '.join(parts)}, files={len(files)}, splits={len(plan.splits)}"

    def _planned(
        self, schema: StructType, file_names: frozenset[str] | None = None
    ) -> tuple[ReadPlan, list[str], list[str]]:
        """The plan of a read, the columns of its rows, and the metadata columns among them."""
        scan, condition = self.scan, self.request.filter
        names = match_columns([*scan.columns, *self.metadata], schema)
        own = {field.name for field in scan.columns}
        metadata = [name for name in names if name not in own]
        predicate = None if condition is None else row_condition(condition, scan.columns, self.request.settings)
        columns = [name for name in names if name in own]
        scan = replace(scan, file_names=file_names)
        plan = scan.select(columns=columns, predicate=predicate, parallelism=task_slots()).plan()
        return plan, names, metadata


def scans_text(lines: Iterable[str]) -> str:
    """What stands behind Spark's plan on Connect, whose scans of Python sources say nothing: a line for each scan."""
    return "\n".join(["== Paimon Scans ==", *lines, ""])


def opened_for(request: ReadRequest, opened: FileStoreTable | None) -> FileStoreTable:
    """The table that a load names, with its options; `opened` if the statement has opened it already.

    Raises:
        TableNotFoundError: there is no table at the path.
    """
    if opened is None:
        return load_table(request.name, options=request.options)
    return reopened(opened, request.options)
