"""The plain streaming sink: Spark's own stream writers of Python sources, on every session.

Rows are not shuffled: Spark gives a Python source no say. Sessions that are registered write better
(`jobs.stream_sink`); Spark Connect writes through this one. Each micro-batch is planned anew and committed once: the
commit's user is the query, whose id is read from its checkpoint.

``writeStream.format("paimon")`` of Connect sessions runs on the server; what is refused before the query starts, and
what the session has set, is seen to by the client.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark.sql.datasource as datasource
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from paimon_spark.commit.file_store_commit import StreamBatch, stream_user
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.session.session_settings import is_paimon, remember_format, settings_option
from paimon_spark.spark.source.partition_by import listed_columns
from paimon_spark.spark.source.worker_process import UnpickledInTask, told_by_worker
from paimon_spark.spark.source.writer import PaimonCommitMessage
from paimon_spark.storage.file_io import FileIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Row
    from pyspark.sql.types import StructType

    from paimon_spark.spark.source.table_write import TableWrite

CHECKPOINT = "checkpointLocation"
_ROWS_OF_A_BATCH = 8192
_ARROW_WRITER = getattr(datasource, "DataSourceStreamArrowWriter", None)
"""PySpark 4.0 has writers of rows only."""


class _StreamWriter(UnpickledInTask):
    """A planned micro-batch: pickled to every task and to the commit."""

    def __init__(self, write: TableWrite, user: str, schema: StructType) -> None:
        self._write = write
        self._user = user
        self._schema = schema

    @told_by_worker
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make all that the tasks of a micro-batch wrote one snapshot; a replayed micro-batch adds nothing.

        Raises:
            CommitConflictError: another commit changed what this one relies on; nothing was committed.
            CommitStateUnknownError: it is not known whether the commit took place.
        """
        write = replace(self._write, stream=StreamBatch(self._user, batchId))
        write.commit([message.task for message in messages if isinstance(message, PaimonCommitMessage)])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: see `PaimonWriter.abort`."""

    @told_by_worker
    def _written(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        return PaimonCommitMessage(self._write.write_task(batches, context.partitionId() if context else 0))


class PaimonRowStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """Takes rows, which PySpark 4.0 gives, as Arrow batches: no type is lost."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._written(_batches(iterator, self._schema))


if _ARROW_WRITER is None:
    PaimonStreamWriter: Any = PaimonRowStreamWriter
else:

    class PaimonArrowStreamWriter(_StreamWriter, _ARROW_WRITER):  # type: ignore[misc, valid-type]
        """Takes Arrow batches."""

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            """Write the rows of one task."""
            return self._written(iterator)

    PaimonStreamWriter = PaimonArrowStreamWriter


def refuse_output_mode(mode: str) -> None:
    """Refuse the output modes that a table cannot have, as Java does.

    Raises:
        UnsupportedError: the mode is ``update``.
    """
    if mode.lower() not in ("append", "complete"):
        raise UnsupportedError(
            f"Paimon supports only Complete and Append output mode, not {mode}. In a table with a primary key that is "
            "the grouping key, write the changed groups in foreachBatch: rows.write.format('paimon').mode('append')"
        )


def stream_writer(
    write: TableWrite, options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """Return the writer of one micro-batch.

    Args:
        write: planned for it.
        options: of the query's sink, the checkpoint among them.
        schema: of the rows.
        overwrite: whether the micro-batch is the whole result, which replaces the table.

    Raises:
        OptionError: there is no checkpoint that can be read.
    """
    user = stream_user(query_id_of(options), write.plan.table.options)
    if overwrite:
        write = replace(write, overwrite=OverwriteSpec.static())
    writer: DataSourceStreamWriter = PaimonStreamWriter(write, user, schema)
    return writer


def needs_checkpoint() -> str:
    """Say why the plain sink needs a checkpoint that is named."""
    return (
        f"writeStream to a Paimon table needs option('{CHECKPOINT}', …): a micro-batch that comes again after a "
        "restart is known by the query's checkpoint"
    )


def query_id_of(options: Mapping[str, str]) -> str:
    """Return the id of the query that has a checkpoint: Spark keeps it in the checkpoint's file ``metadata``.

    Raises:
        OptionError: the options do not say where the checkpoint is, or there is none.
    """
    given = {key.lower(): value for key, value in options.items()}
    location = given.get(CHECKPOINT.lower())
    if location is None:
        raise OptionError(needs_checkpoint())
    path = f"{location.rstrip('/')}/metadata"
    try:
        return str(json.loads(FileIO.for_path(location, dict(options)).read_bytes(path))["id"])
    except (OSError, ValueError, KeyError) as error:
        raise OptionError(
            f"option '{CHECKPOINT}' = '{location}' is not a checkpoint that this process can read "
            f"({type(error).__name__}): a micro-batch that comes again after a restart is known by its file 'metadata'"
        ) from error


def _batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows as Spark's own conversion to Arrow has them."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while some := list(islice(rows, _ROWS_OF_A_BATCH)):
        yield from LocalDataToArrowConversion.convert(some, schema, True).to_batches()


_MARK = "_paimon_writes_streams"


def install_connect_streams() -> None:
    """Let stream writers of Connect sessions write Paimon tables. Calling it again does no harm."""
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    kind: Any = DataStreamWriter
    if not hasattr(kind, _MARK):
        setattr(kind, _MARK, True)
        remember_format(kind)
        kind._start_internal = _starting(kind._start_internal)


def _starting(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def start(self: Any, path: str | None = None, tableName: str | None = None, **given: Any) -> Any:
        __tracebackhide__ = True
        if not is_paimon(self, (), {"format": given.get("format")}):
            return plain(self, path=path, tableName=tableName, **given)
        if tableName is not None:
            raise UnsupportedError(
                f"toTable('{tableName}') needs a catalog, which Spark Connect does not let Python add: write by the "
                "table's path, start(path)"
            )
        proto = self._write_proto
        refuse_output_mode(given.get("outputMode") or proto.output_mode or "append")
        columns = given.pop("partitionBy", None) or list(proto.partitioning_column_names)
        if columns:
            del proto.partitioning_column_names[:]
            self.option("partition", listed_columns([columns] if isinstance(columns, str) else columns))
        if CHECKPOINT.lower() not in {key.lower() for key in (*proto.options, *given)}:
            raise OptionError(needs_checkpoint())
        self.options(**settings_option(self._session))
        return plain(self, path=path, **given)

    return start
