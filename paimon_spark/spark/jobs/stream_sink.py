"""Micro-batches of a streaming query as writes of a table, each committed once, whatever point the query was killed at.

The commit's user is the query, whose id stands in its checkpoint, its identifier the number of the micro-batch (Java:
``PaimonSink``, which does not recognise a replayed micro-batch). Rows are shuffled as those of a batch write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark import InheritableThread

from paimon_spark.commit.file_store_commit import StreamBatch, stream_user, uncommitted
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.errors import PaimonError
from paimon_spark.maintain.compact.due import compact_left_behind
from paimon_spark.spark.columns.types import spark_arrow_schema
from paimon_spark.spark.jobs.compact_job import executor_of
from paimon_spark.spark.jobs.shuffled_write import is_shuffled, write_as_is, write_shuffled
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spark.session.pyspark_members import batch_watermark, estimated_bytes, micro_batch_partitions
from paimon_spark.spark.source.source_options import write_request
from paimon_spark.spark.source.write_target import target_table, with_shuffle_columns
from paimon_spark.storage.store_options import without_secrets
from paimon_spark.write.rows import map_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQueryManager
    from pyspark.sql.types import StructType

    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
"""Spark: ``StreamExecution.QUERY_ID_KEY``, a local property of the thread that runs a micro-batch."""
_FEW_BYTES = 4 << 20
"""Rows of so many bytes are written by one task sooner than they are shuffled to several."""


@dataclass
class StreamSink:
    """Writes the micro-batches of one query into one table. Called by ``foreachBatch``."""

    options: Mapping[str, str] = field(repr=False)
    """Of the write, the path and the settings of the session among them."""
    complete: bool
    """Whether each micro-batch is the whole result, which replaces the table."""
    streams: StreamingQueryManager
    """Of the session that starts the query: it knows the query, and the query its watermark."""

    def prepare(self, schema: StructType) -> None:
        """Make the table where there is none, and refuse what cannot be written before the query starts.

        Raises:
            OptionError: an option is unknown, or differs from what the table was created with.
            SchemaMismatchError: the rows do not fit the table's columns.
            UnsupportedError: the table cannot be written yet.
        """
        map_columns(self._table(schema).schema, spark_arrow_schema(schema))

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write one micro-batch, unless the table has it."""
        run_apart(partial(self._write, rows, number))

    def _write(self, rows: DataFrame, number: int) -> None:
        with without_secrets(self.options):
            self._write_once(rows, number)

    def _write_once(self, rows: DataFrame, number: int) -> None:
        table = self._table(rows.schema)
        query = query_id(rows.sparkSession)
        running = self.streams.get(query)
        watermark = None if running is None else batch_watermark(running)
        batch = StreamBatch(stream_user(query, table.options), number, watermark)
        wanted = uncommitted(table, batch)
        if wanted is None:
            _LOG.info("%s has micro-batch %d of query %s already.", table.path, number, query)
            compact_left_behind(table, commit_user=batch.user, execute=executor_of(rows.sparkSession))
            rows.write.format("noop").mode("overwrite").save()  # the query's own state is made by running it
            return
        overwrite = OverwriteSpec.static() if self.complete else None
        written = RowsToWrite(rows, table, overwrite, stream=wanted)
        if is_shuffled(table):
            assigned = with_shuffle_columns(table.schema, rows)
            write_shuffled(replace(written, df=assigned, together=_are_together(rows)))
        else:
            write_as_is(written)

    def _table(self, schema: StructType) -> FileStoreTable:
        return target_table(write_request(self.options, overwrite=self.complete), schema)


def run_apart(work: Callable[[], None]) -> None:
    """Run work in a thread that ends with it, with the job group and the other local properties of this one.

    py4j keeps the thread that answers a query of the JVM long after the query, and Arrow keeps the memory of threads
    that live: some megabytes for each query.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            failures.append(error)

    thread = InheritableThread(run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _are_together(rows: DataFrame) -> bool:
    """Whether the rows of a micro-batch need no shuffle: one task reads them, and they are few."""
    return micro_batch_partitions(rows) == 1 and estimated_bytes(rows) <= _FEW_BYTES


def query_id(spark: SparkSession) -> str:
    """Return the id of the streaming query whose micro-batch this thread runs.

    Raises:
        PaimonError: it runs none.
    """
    found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if found is None:
        raise PaimonError(
            "A micro-batch is written by the thread of its streaming query; Spark does not say which this is"
        )
    return str(found)
