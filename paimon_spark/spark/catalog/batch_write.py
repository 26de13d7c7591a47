"""Answers Spark's ``BatchWrite``: planned and committed in this process, written by Spark's own Python tasks.

Spark would start a Python process to plan a write and another one to commit it. Here both happen where the proxies
live, so that a small INSERT is quick and an error arrives as one sentence instead of a traceback of a worker.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from paimon_spark.errors import CommitError, PaimonError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.writer import PaimonWriter

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.distributed_rows import DistributedRows
    from paimon_spark.spark.source.table_write import TableWrite

_WRITER_MODULE = "pyspark.sql.worker.write_into_data_source"


class BatchWriteProxy(Proxy):
    """One write of one statement, on the driver."""

    interfaces = ("org.apache.spark.sql.connector.write.BatchWrite",)

    def __init__(
        self,
        gateway: Gateway,
        schema: JavaObject,
        options: Mapping[str, str],
        rows: DistributedRows,
        *,
        overwrite: bool,
    ) -> None:
        """Plan nothing yet. Spark computes the rows from now on.

        Args:
            gateway: the JVM.
            schema: the ``StructType`` of the rows.
            options: of our data source.
            rows: what is known of the tasks that rows come to.
            overwrite: whether something is replaced.
        """
        super().__init__(gateway)
        self.schema = schema
        self.options = dict(options)
        self.overwrite = overwrite
        self.rows = rows
        self.write: TableWrite | None = None
        self.struct = StructType.fromJson(json.loads(schema.json()))
        rows.batches.begin(self.struct)

    def createBatchWriterFactory(self, _info: JavaObject) -> JavaObject:
        """Plan the write; what this gives is all that travels to tasks. Called once, before the first task."""
        self.write = PaimonDataSource(self.options).planned_write(
            self.struct,
            overwrite=self.overwrite,
            shuffled=self.rows.one_task_per_bucket,
            assignment=self.rows.assignment,
            packed=self.rows.packed,
            key_ranges=self.rows.key_ranges,
            opened=self.rows.opened,
        )
        provider = compat.PYTHON_SOURCE(self.gateway)
        provider.setShortName(PaimonDataSource.name())
        answer = StructType.fromJson(json.loads(compat.USER_SOURCE.of(self.gateway).writeOutputSchema().json()))
        function = _write_function(PaimonWriter(self.write), answer.names[0])
        command = cloudpickle.dumps((function, answer))  # type: ignore[no-untyped-call]
        constructor = self.gateway.java_class(compat.WRITER_FACTORY.name).getConstructors()[0]
        none = self.gateway.jvm.scala.Option.empty()
        session_ids = [none] * (constructor.getParameterCount() - 3)  # one in 4.0, two since 4.1
        return compat.WRITER_FACTORY(
            self.gateway, provider.source(), command, self.rows.written_schema(self.schema), *session_ids
        )

    def toString(self) -> str:
        """For Spark's log."""
        return f"PaimonBatchWrite({self.options['path']})@{id(self):x}"

    def useCommitCoordinator(self) -> bool:
        """One attempt of a task commits."""
        return True

    def onDataWriterCommit(self, _message: JavaObject) -> None:
        """A task is done: nothing to do before all are."""

    def commit(self, messages: Any, *_summary: Any) -> None:
        """Make what all tasks wrote one snapshot. Called once; Spark 4.1 and later add a summary of the rows.

        Raises:
            PaimonError: a commit error under its own name: nothing was committed, or (CommitStateUnknownError) nobody
                knows.
        """
        from paimon_spark.spark.jobs.compact_job import executor_of  # a plan is made without it

        assert self.write is not None
        self.rows.batches.end()
        try:
            tasks = [pickle.loads(bytes(message.pickledMessage())).task for message in messages]
            self.write.commit(tasks, executor_of(active_session(self.gateway)))
        except CommitError as error:
            if self.names_errors:
                raise
            raise PaimonError(f"{type(error).__name__}: {error}") from error

    def abort(self, _messages: Any) -> None:
        """Delete nothing: Spark also aborts after a commit whose outcome is unknown (see `PaimonWriter.abort`)."""
        self.rows.batches.end()


_Batches = Iterator[pa.RecordBatch]


def _write_function(writer: PaimonWriter, column: str) -> Callable[[_Batches], _Batches]:
    """What Spark runs in a task: it gets the rows and gives one batch with one value, the pickled commit message."""

    def write_rows(batches: _Batches) -> _Batches:
        message = pickle.dumps(writer.write(batches))
        yield pa.record_batch([pa.array([message], pa.binary())], names=[column])

    write_rows.__module__ = _WRITER_MODULE  # as Spark's own function says, which its worker looks at
    return write_rows
