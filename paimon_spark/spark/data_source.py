"""The data source behind ``spark.read.format("paimon")`` and ``df.write.format("paimon")``, batch.

Spark makes one `PaimonDataSource` per load or save, in a Python worker on the driver, and pickles what it returns to
the tasks: readers and writers here hold plain values only. ``pushFilters`` is left out on purpose: Spark keeps one
reader per DataFrame, so filters pushed by one query would be applied to the next (rows go missing). `columns` and
`filter` are options instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.read.metadata_columns import read_with_metadata
from paimon_spark.read.row_view import plan_view, resolve_source
from paimon_spark.spark.arrow_cast import convert_batches
from paimon_spark.spark.read_columns import match_columns, read_columns
from paimon_spark.spark.source_options import read_request, row_condition, write_request
from paimon_spark.spark.splits import cores_here, even_batches, pack_splits
from paimon_spark.spark.system_read import metadata_reader, metadata_source, row_view_of
from paimon_spark.spark.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.write_target import overwrite_of, target_table
from paimon_spark.table.support import check_readable
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import OverwriteMode, WritePlan, plan_write
from paimon_spark.write.task_write import write_batches

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.commit.overwrite import OverwriteSpec
    from paimon_spark.read.plan import ReadPlan
    from paimon_spark.read.split import DataSplit


class PaimonDataSource(DataSource):
    """One load or save of a Paimon table, by the options that Spark gives."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "paimon"

    def schema(self) -> StructType:
        """Columns of the table at the version asked for. Called by Spark once per load without a schema of its own.

        Raises:
            TableNotFoundError: there is no table at the path.
            OptionError: an option is unknown or has a value that cannot be used.
            UnsupportedError: the table cannot be read yet.
        """
        request = read_request(self.options)
        source = metadata_source(request)
        if source is not None:
            return to_spark_struct(read_columns(source.fields, request.columns))
        view = row_view_of(request.path)
        table, _ = resolve_source(_open(request.path, request.options))
        return to_spark_struct(read_columns(view.fields(table), request.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan the read. Called by Spark once per loaded DataFrame, which stays on the snapshot planned here.

        Raises:
            SchemaMismatchError: a column of a user's schema is not in the table, or has another type there.
        """
        request = read_request(self.options)
        source = metadata_source(request)
        if source is not None:
            return metadata_reader(source, request, schema)
        view = row_view_of(request.path)
        table = _open(request.path, request.options)
        fields = view.fields(resolve_source(table)[0])
        names = match_columns(fields, schema)
        predicate = None if request.filter is None else row_condition(request.filter, fields)
        plan = plan_view(table, view, columns=names, predicate=predicate, parallelism=cores_here())
        return PaimonReader(plan, spark_arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> PaimonWriter:
        """Plan the write, creating the table where there is none. Called by Spark once per save.

        Raises:
            SchemaMismatchError: the rows do not fit the table's columns.
            OptionError: an option is unknown, or differs from what the table was created with.
            UnsupportedError: the table cannot be written yet.
        """
        request = write_request(self.options, overwrite=overwrite)
        table = target_table(request, schema)
        overwrite_spec = overwrite_of(request, table) if overwrite else None
        arrow_schema = spark_arrow_schema(schema)
        mode = None if overwrite_spec is None else OverwriteMode(overwrite_spec.kind.value)
        plan = plan_write(table, overwrite=mode, data_schema=arrow_schema, shuffled=request.one_task_per_bucket)
        return PaimonWriter(plan, overwrite_spec)


def _open(path: str, options: Mapping[str, str]) -> FileStoreTable:
    """The table with dynamic options, refused early where it cannot be read."""
    table = load_table(path, options=options)
    check_readable(table.schema)
    return table


@dataclass(frozen=True)
class PaimonPartition(InputPartition):
    """The splits of one task."""

    splits: tuple[DataSplit, ...]


class PaimonReader(DataSourceReader):
    """A planned read: made on the driver, pickled once to every task."""

    def __init__(
        self, plan: ReadPlan, target: pa.Schema, *, names: Sequence[str] | None = None, metadata: Sequence[str] = ()
    ) -> None:
        """Hold what tasks need.

        Args:
            plan: of the read.
            target: the schema that comes out.
            names: for each column of `target` the column of the plan or of `metadata`; those of the plan without.
            metadata: metadata columns that come with the rows.
        """
        self._table = plan.table
        self._metadata = tuple(metadata)
        self._names = [field.name for field in plan.fields] if names is None else list(names)
        self._fields = plan.fields
        self._residual = plan.residual
        self._read = plan.read
        self._target = target
        self._splits: Sequence[DataSplit] = plan.splits

    def partitions(self) -> list[InputPartition]:
        """Splits packed into tasks. Called once, on the driver; Spark wants a list, and one without splits is fine."""
        return [PaimonPartition(splits) for splits in self.packed_splits()]

    def packed_splits(self) -> list[tuple[DataSplit, ...]]:
        """The splits of each task."""
        options = self._table.options
        return pack_splits(
            self._splits,
            target_bytes=options.split_target_size_bytes,
            open_file_cost_bytes=options.split_open_file_cost_bytes,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in Spark's own Arrow types. Called in a task."""
        if not isinstance(partition, PaimonPartition):
            return iter(())  # what Spark makes of an empty list of partitions
        rows = (batch for split in partition.splits for batch in self._rows(split))
        return convert_batches(even_batches(rows), self._names, self._target)

    def _rows(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        if self._metadata:
            return read_with_metadata(self._table, split, self._fields, self._residual, self._metadata, read=self._read)
        return self._read(self._table, split, self._fields, self._residual)

    def __getstate__(self) -> dict[str, object]:
        """Leave the splits behind: each travels with its own partition."""
        return {**self.__dict__, "_splits": ()}


@dataclass
class PaimonCommitMessage(WriterCommitMessage):
    """What one task wrote: names and metadata of files."""

    task: TaskMessage


class PaimonWriter(DataSourceArrowWriter):
    """A planned write: made on the driver, pickled to every task and to the commit (which sees no state of tasks)."""

    def __init__(self, plan: WritePlan, overwrite: OverwriteSpec | None) -> None:
        self._plan = plan
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Called in every attempt, also without rows; one attempt per task is committed."""
        context = TaskContext.get()
        schema = self._plan.data_schema
        batches = convert_batches(iterator, schema.names, schema)
        return PaimonCommitMessage(write_batches(self._plan, batches, context.partitionId() if context else 0))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all that the tasks wrote one snapshot. Called once, on the driver.

        Raises:
            CommitConflictError: another commit changed what this one relies on; nothing was committed.
            CommitStateUnknownError: it is not known whether the commit took place.
        """
        tasks = [message.task for message in messages if isinstance(message, PaimonCommitMessage)]
        table = self._plan.table
        commit(
            table,
            tasks,
            overwrite=self._overwrite,
            planned_snapshot_id=self._plan.snapshot_id or 0,
            after_commit=maintenance(table),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: Spark also aborts after a commit whose outcome is unknown, so no file may go.

        Files of failed jobs are no part of any snapshot; `remove_orphan_files` takes them.
        """
