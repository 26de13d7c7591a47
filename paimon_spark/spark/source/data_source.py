"""The data source behind ``format("paimon")``: ``spark.read``, ``spark.readStream`` and ``df.write``.

Spark makes one `PaimonDataSource` per load or save, in a Python worker on the driver, and pickles what it returns to
the tasks: readers and writers here hold plain values only. ``pushFilters`` is left out on purpose: Spark keeps one
reader per DataFrame, so filters pushed by one query would be applied to the next (rows go missing). `columns` and
`filter` are options instead. ``pushLimit``, which Spark's next version asks, is left out for the same reason: the limit
of one query would cut the next, and a classic session's LIMIT is read by the driver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from paimon_spark.errors import PaimonError
from paimon_spark.spark.columns.types import (
    from_spark_struct,
    padded_by_spark,
    spark_arrow_schema,
    spark_struct,
    to_spark_struct,
)
from paimon_spark.spark.session.session_settings import OF_STREAM
from paimon_spark.spark.source.source_options import read_columns, read_request, write_request
from paimon_spark.spark.source.stream_source import PlannedStream, SelfPacedStreamReader, StreamSource
from paimon_spark.spark.source.table_read import TableRead, metadata_reader, metadata_source
from paimon_spark.spark.source.table_write import IN_ANY_TASK, TableWrite, TaskRows, planned
from paimon_spark.spark.source.worker_process import told_by_worker
from paimon_spark.spark.source.write_target import overwrite_of, target_table, with_columns
from paimon_spark.spark.source.writer import PaimonWriter
from paimon_spark.storage.store_options import without_secrets
from paimon_spark.write.plan import plan_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.plan import WritePlan

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _quiet(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a method so that its errors show no secrets of the options."""

    @functools.wraps(method)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        source = arguments[0]
        assert isinstance(source, DataSource)
        with without_secrets(source.options):
            return method(*arguments, **named)

    return call


class PaimonDataSource(DataSource):
    """One load or save of a Paimon table, by the options that Spark gives."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "paimon"

    @told_by_worker
    @_quiet
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
        fields = self._fields(request)
        return padded_by_spark(to_spark_struct(read_columns(fields, request.columns)), fields)

    def _fields(self, request: ReadRequest) -> list[DataField]:
        """The columns of rows, of the latest schema for a stream.

        In a session that was not registered nobody tells whether it is a stream: then it is one if only streams have
        its options.
        """
        if OF_STREAM in request.settings:
            return StreamSource.of(request).fields(request.columns)
        try:
            return TableRead.of(request).fields()
        except PaimonError as error:
            if request.settings:
                raise
            try:
                return StreamSource.of(request).fields(request.columns)
            except PaimonError:
                raise error from None

    @told_by_worker
    @_quiet
    def reader(self, schema: StructType | pa.Schema) -> DataSourceReader:
        """Plan the read. Called by Spark once per loaded DataFrame, which stays on the snapshot planned here.

        Raises:
            SchemaMismatchError: a column of a user's schema is not in the table, or has another type there.
        """
        request = read_request(self.options)
        source = metadata_source(request)
        struct = spark_struct(schema)
        if source is not None:
            return metadata_reader(source, request, struct)
        return TableRead.of(request).reader(struct)

    @told_by_worker
    @_quiet
    def writer(self, schema: StructType | pa.Schema, overwrite: bool) -> PaimonWriter:
        """Plan the write, creating the table where there is none. Called by Spark once per save.

        Raises:
            SchemaMismatchError: the rows do not fit the table's columns.
            OptionError: an option is unknown, or differs from what the table was created with.
            UnsupportedError: the table cannot be written yet.
        """
        return PaimonWriter(self.planned_write(spark_struct(schema), overwrite=overwrite))

    @_quiet
    def planned_write(
        self,
        schema: StructType,
        *,
        overwrite: bool,
        rows: TaskRows = IN_ANY_TASK,
        opened: FileStoreTable | None = None,
    ) -> TableWrite:
        """Plan a write that the caller commits; as `writer`.

        Args:
            schema: the columns of the rows.
            overwrite: whether something is replaced.
            rows: which rows come to one task.
            opened: the table, if the statement has opened it already.
        """
        request = write_request(self.options, overwrite=overwrite, opened=opened)
        table = target_table(request, schema, opened)
        spec = overwrite_of(request, table) if overwrite else None
        return planned(table, spark_arrow_schema(schema), spec, rows=rows, operation=request.operation)

    @_quiet
    def planned_assignment(
        self, schema: StructType, *, overwrite: bool, opened: FileStoreTable | None = None
    ) -> WritePlan:
        """Plan which task the bucket of a row has; changes nothing, also where the write adds columns to its table.

        Args:
            schema: the columns of the rows, in the types of the table.
            overwrite: whether something is replaced.
            opened: the table, if the statement has opened it already.
        """
        request = write_request(self.options, overwrite=overwrite, opened=opened)
        table = target_table(replace(request, merge_schema=None), schema, opened)
        mode = overwrite_of(request, table).kind if overwrite else None
        if request.merge_schema is not None:
            merged = with_columns(table.schema, from_spark_struct(schema), request.merge_schema)
            table = replace(table, schema=merged)
        return plan_write(table, overwrite=mode, data_schema=spark_arrow_schema(schema))

    @told_by_worker
    @_quiet
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Describe the stream. Called by Spark when a query starts, and once more for what tasks run.

        Raises:
            SchemaMismatchError: as of `reader`.
            UnsupportedError: the table cannot be read yet, or is a system table.
            OptionError: options of streams contradict each other.
        """
        request = read_request(self.options)
        return _stream_reader(StreamSource.of(request).stream(schema))

    @told_by_worker
    @_quiet
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Plan one micro-batch of a query. Called by Spark once for each of them.

        Raises:
            SchemaMismatchError: the rows do not fit the table's columns.
            OptionError: an option is unknown, or there is no checkpoint that can be read.
            UnsupportedError: the table cannot be written yet, or not without a shuffle.
        """
        from paimon_spark.spark.source.stream_writer import CHECKPOINT, query_id_of, stream_writer

        query_id_of(self.options)  # before a table is made
        of_table = {key: value for key, value in self.options.items() if key.lower() != CHECKPOINT.lower()}
        write = PaimonDataSource(of_table).planned_write(schema, overwrite=overwrite)
        return stream_writer(write, self.options, schema, overwrite=overwrite)


def _stream_reader(stream: PlannedStream) -> DataSourceStreamReader:
    """Return the reader that this PySpark understands."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return SelfPacedStreamReader(stream)
    from paimon_spark.spark.source.admitting_stream import AdmittingStreamReader  # imports what PySpark 4.0 lacks

    return AdmittingStreamReader(stream)
