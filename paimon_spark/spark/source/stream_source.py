"""What ``spark.readStream.format("paimon")`` reads, and the plain source of it: a reader over `StreamScan`.

The table, the view, the columns, and the scan behind them.

PySpark's ``DataSourceStreamReader``: Spark keeps one Python process per query that answers for it. From PySpark 4.2 on
Spark says where a batch starts and how much it may hold; before, the source has to know itself where it stands, from
what it answered last or from the offset that Spark shows it after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.options import find_option
from paimon_spark.read.audit_log import CHANGE_FEED
from paimon_spark.read.metadata_columns import metadata_fields, refuse_merged_splits
from paimon_spark.read.postponed_read import merges_postponed
from paimon_spark.read.row_views import AUDIT_LOG, ROWS, find_view
from paimon_spark.read.stream_offset import CONSUMER_ID, StreamOffset, stream_mode
from paimon_spark.read.stream_scan import StreamBatch, StreamScan, by_bucket
from paimon_spark.read.stream_split import stream_read
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.session.session_settings import time_zone
from paimon_spark.spark.source.reader import PaimonPartition, PaimonReader, pack_groups, task_slots
from paimon_spark.spark.source.source_options import match_columns, read_columns, row_condition
from paimon_spark.spark.source.worker_process import told_by_worker
from paimon_spark.spec.predicate import Predicate, all_of
from paimon_spark.spec.schema_validation import check_streamed_overwrites
from paimon_spark.table.support import check_readable
from paimon_spark.table.table import load_table
from paimon_spark.table.time_travel import CREATED_AFTER, MODE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan, RowView
    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

READ_CHANGELOG = "read.changelog"
_OF_STREAMS = (MODE, CONSUMER_ID, READ_CHANGELOG, *CREATED_AFTER.values())
"""Options of which batch reads refuse values."""


@dataclass(frozen=True)
class StreamSource:
    """What is read as a stream, before a query says which columns."""

    table: FileStoreTable
    """With the options of the stream."""
    view: RowView
    predicate: Predicate | None = None
    """Rows for which it is true are read."""
    zone: tzinfo | None = None
    """Of times in options."""

    @classmethod
    def of(cls, request: ReadRequest) -> StreamSource:
        """Open the table of a load. Which snapshots are read is found later.

        Raises:
            TableNotFoundError: there is no table at the path.
            UnsupportedError: the table cannot be read yet, or is a system table that does not stream.
            OptionError: options of streams contradict each other.
        """
        view = _view_of(request.name.system_table)
        table = stream_table(load_table(request.name, options=batch_options(request.options)), request.options)
        if table.options.value(READ_CHANGELOG):
            view = AUDIT_LOG
        condition, settings = request.filter, request.settings
        predicate = None if condition is None else row_condition(condition, view.fields(table), settings)
        return cls(table, view, predicate, time_zone(settings))

    @cached_property
    def columns(self) -> tuple[DataField, ...]:
        """The columns of the rows."""
        return self.view.fields(self.table)

    @cached_property
    def metadata(self) -> tuple[DataField, ...]:
        """Metadata columns that a query can name."""
        own = {field.name for field in self.columns}
        fields = metadata_fields(self.table.schema) if self.view is ROWS else ()
        return tuple(field for field in fields if field.name not in own)

    def fields(self, columns: Sequence[str] | None) -> list[DataField]:
        """The columns of a load with the option `columns`; metadata columns come where it names them."""
        return read_columns([*self.columns, *(() if columns is None else self.metadata)], columns)

    def stream(self, schema: StructType, predicate: Predicate | None = None) -> PlannedStream:
        """Describe the stream of these columns.

        Raises:
            SchemaMismatchError: a column of `schema` is not in the table, or has another type there.
        """
        names = match_columns([*self.columns, *self.metadata], schema)
        known = {field.name: field for field in self.columns}
        both = [found for found in (self.predicate, predicate) if found is not None]
        scan = StreamScan(
            self.table,
            view=self.view,
            columns=[known[name] for name in names if name in known],
            predicate=all_of(both) if both else None,
            zone=self.zone,
        )
        metadata = tuple(name for name in names if name not in known)
        return PlannedStream(scan, schema, tuple(names), metadata)


@dataclass(frozen=True)
class PlannedStream:
    """A stream, and what its tasks run."""

    scan: StreamScan
    schema: StructType
    """The columns that come out,"""
    names: tuple[str, ...]
    """and what they are called in the table."""
    metadata: tuple[str, ...]
    """Those that are metadata."""

    @cached_property
    def reader(self) -> PaimonReader:
        """What the tasks of a batch run that shows no commits."""
        return self._reader(self.scan.plan)

    def reader_of(self, batch: StreamBatch) -> PaimonReader:
        """What the tasks of a batch run."""
        if self.scan.view is not CHANGE_FEED:
            return self.reader
        return self._reader(replace(self.scan.plan, read=stream_read(self.scan.view, batch.snapshots)))

    def _reader(self, plan: ReadPlan) -> PaimonReader:
        return PaimonReader(plan, spark_arrow_schema(self.schema), names=self.names, metadata=self.metadata)

    def tasks(self, batch: StreamBatch) -> list[tuple[DataSplit, ...]]:
        """The splits of each task of a batch."""
        refuse_merged_splits(self.scan.table, batch.splits, self.metadata)
        groups = by_bucket(batch.splits) if batch.ordered else [(split,) for split in batch.splits]
        return pack_groups(groups, self.scan.table.options, cores=task_slots())


def stream_table(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """Return a table with those options of a stream that batch reads refuse.

    Raises:
        UnsupportedError: the table cannot be read yet.
        OptionError: options of streams contradict each other, or a value is invalid.
    """
    check_readable(table.without_options(_OF_STREAMS).schema)
    given = {key: value for key, value in options.items() if key in _OF_STREAMS}
    for key, value in given.items():
        option = find_option(key)
        assert option is not None
        option.parse(value)
    streamed = table.as_if(given)
    check_streamed_overwrites(streamed.options, streamed.schema)
    stream_mode(streamed.options)
    if merges_postponed(streamed):
        raise UnsupportedError("Option 'postpone.merge-on-read' is only supported for batch reads.")
    return streamed


def batch_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options of a stream that every read may have."""
    return {key: value for key, value in options.items() if key not in _OF_STREAMS}


def _view_of(name: str | None) -> RowView:
    view = find_view(name)
    if view is not ROWS and view is not AUDIT_LOG:
        raise UnsupportedError(
            f"readStream of the system table ${name} is not supported: streams are read of tables, and of "
            "<table>$audit_log."
        )
    return view


class PaimonStreamReader(DataSourceStreamReader):
    """One stream. Made in the process that answers for the query, and once more to be pickled to its tasks."""

    def __init__(self, stream: PlannedStream) -> None:
        self._stream: PlannedStream | None = stream
        self._reader = stream.reader

    @property
    def stream(self) -> PlannedStream:
        """The stream, on the driver."""
        assert self._stream is not None, "tasks have no stream"
        return self._stream

    @told_by_worker
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self.stream.scan.initial().to_json()

    @told_by_worker
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""
        batch = self.stream.scan.batch(StreamOffset.of_json(start), StreamOffset.of_json(end), task_slots())
        return [PaimonPartition(splits) for splits in self.stream.tasks(batch)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._reader.read(partition)

    @told_by_worker
    def commit(self, end: Mapping[str, Any]) -> None:
        """Note what is done for good."""
        self.stream.scan.commit(StreamOffset.of_json(end))

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the stream, which tasks have no use for."""
        return {**self.__dict__, "_stream": None}


class SelfPacedStreamReader(PaimonStreamReader):
    """For PySpark 4.0 and 4.1, which say a source neither the start of a batch nor the trigger.

    A new query asks for the latest offset before all else. One of ``availableNow`` ends there, so it is all that there
    is; later batches keep to the limits, and so does a restarted query, which is shown where it stands.
    """

    _at: StreamOffset | None = None

    @told_by_worker
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next batch, from where the last one ended."""
        self._at = self._newest() if self._at is None else self.stream.scan.next_offset(self._at)
        return self._at.to_json()

    def _newest(self) -> StreamOffset:
        """The offset behind the latest snapshot, or where the options begin if that is later."""
        scan = self.stream.scan
        with suppress(PaimonError):  # a restarted query needs nothing of what its options name
            return max(scan.newest(), scan.initial())
        return scan.newest()

    @told_by_worker
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch. After a restart Spark asks first for an empty one, where it stands."""
        if self._at is None:
            self._at = StreamOffset.of_json(end)
        return super().partitions(start, end)
