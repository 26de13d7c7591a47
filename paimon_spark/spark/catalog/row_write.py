"""Writes of all rows at once: of keys that move between partitions, of postponed buckets, of rows put in order.

Such a write is a job of its own (`jobs.shuffled_write`). Spark hands it the rows as a DataFrame, as to a V1 write: the
rule that gives writes to themselves (`hooks.java_rules`) puts a table in a command's place that takes rows so.

A few rows that the driver has (VALUES, a small local relation) are taken so too, for every kind of table whose rows any
task can write: this process writes and commits them, without a job and without a Python worker.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.commit.row_counts import CommitMetrics, measured_commits, reporting_to
from paimon_spark.errors import CommitError, PaimonError, UnsupportedError
from paimon_spark.maintain.compact.row_order import clusters_writes
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value, java_proxy
from paimon_spark.spark.jvm.features import LOCAL_WRITES, missing_of
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import shared_object
from paimon_spark.spark.jvm.node_metrics import reported_write_metrics, supported_write_metrics
from paimon_spark.spark.jvm.plan_tables import active_session, python_struct
from paimon_spark.spark.jvm.spark_errors import JavaCallError
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.source_options import REPORT_TO, write_request
from paimon_spark.spark.source.table_write import SHUFFLED
from paimon_spark.spark.source.write_target import overwrite_of, target_table
from paimon_spark.spec.schema import BucketMode
from paimon_spark.storage.store_options import without_secrets

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.loading import LoadedTable
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_CATALOG = "org.apache.spark.sql.connector.catalog"
_DYNAMIC = "OverwritePartitionsDynamic"
_COMMANDS = "PaimonRowCommands"


class _Builder(Protocol):
    """What a builder of the catalog knows of its write."""

    gateway: Gateway
    loaded: LoadedTable
    overwriting: dict[str, str] | None
    names_errors: bool

    def opened(self) -> FileStoreTable | None:
        """The table as the statement opened it."""
        ...


def takes_rows(schema: TableSchema) -> bool:
    """Whether rows of a table are written so."""
    return schema.bucket_mode in (BucketMode.KEY_DYNAMIC, BucketMode.POSTPONE_MODE) or clusters_writes(schema)


def local_rows(gateway: Gateway, query: JavaObject) -> JavaObject | None:
    """The rows of a query as Spark's ``LocalRelation``, where they are at hand and few; else None."""
    if missing_of(gateway, LOCAL_WRITES):
        return None
    return shared_object(gateway, _COMMANDS).localRows(query)


def rows_of_plan(gateway: Gateway, dataset: JavaObject) -> list[pa.RecordBatch] | None:
    """The rows of a ``Dataset``, as `rows_at_hand` returns them."""
    stream = shared_object(gateway, _COMMANDS).rowsOf(dataset.queryExecution())
    return None if stream is None else _batches(stream)


def _batches(data: bytes) -> list[pa.RecordBatch]:
    """Streams of Arrow, one behind the other, as batches."""
    stream = io.BytesIO(data)
    batches: list[pa.RecordBatch] = []
    while stream.tell() < len(data):
        batches += pa.ipc.open_stream(stream)
    return batches


class RowWriteProxy(AnswerProxy):
    """A write of all rows at once. Spark asks while it optimises and executes the statement."""

    interfaces = ("org.apache.spark.sql.connector.write.V1Write", FUNCTION)

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        options: Mapping[str, str],
        *,
        overwrites: bool,
        names_errors: bool,
        in_driver: bool = False,
        opened: FileStoreTable | None = None,
    ) -> None:
        """Keep the write.

        Args:
            gateway: the JVM.
            name: of the table.
            options: of our data source.
            overwrites: whether something is replaced.
            names_errors: whether errors keep their class.
            in_driver: whether this process writes the rows, and no job does.
            opened: the table as the statement opened it; None where the write opens it by its own options.
        """
        super().__init__(gateway)
        self.name = name
        self.options = dict(options)
        self.overwrites = overwrites
        self.names_errors = names_errors
        self.in_driver = in_driver
        self.opened = opened
        self.metrics: CommitMetrics | None = None
        """Of the commit, once it was tried."""
        self.taken = False
        """Whether the command hands over a DataFrame already."""

    @classmethod
    def of(cls, builder: _Builder, options: Mapping[str, str], *, in_driver: bool = False) -> RowWriteProxy:
        """The write of a builder, by the options of our data source."""
        return cls(
            builder.gateway,
            builder.loaded.name,
            options,
            overwrites=builder.overwriting is not None,
            names_errors=builder.names_errors,
            in_driver=in_driver,
            opened=builder.opened() if in_driver else None,
        )

    def apply(self, command: JavaObject, rows: JavaObject | None = None) -> JavaObject:
        """The command that hands over a DataFrame; asked by a rule of Spark's optimizer (`hooks.java_rules`).

        Args:
            command: that is optimised.
            rows: of the command, where it has them itself; None: what its query gives.
        """
        if self.taken:
            return command
        table = RowTableProxy(self.gateway, command.table().table())
        query, made = command.query() if rows is None else rows, command
        if command.getClass().getSimpleName() == _DYNAMIC:
            made = self._overwrite(command.table(), query)
        taken = RowWriteProxy(
            self.gateway,
            self.name,
            self.options,
            overwrites=self.overwrites,
            names_errors=self.names_errors,
            in_driver=self.in_driver,
            opened=self.opened,
        )
        taken.taken = True  # another one: Spark keeps the command that it had where both are equal
        return shared_object(self.gateway, _COMMANDS).taken(
            made, query, java_proxy(table), java_proxy(taken), rows is not None
        )

    def _overwrite(self, target: JavaObject, query: JavaObject) -> JavaObject:
        """A static overwrite: of a dynamic one Spark hands over no DataFrame. The options say what is replaced."""
        command = compat.OVERWRITE.of(self.gateway)
        given = (
            target,
            query,
            compat.LITERAL.of(self.gateway).TrueLiteral(),
            self.gateway.jvm.scala.Predef.Map().empty(),
        )
        try:
            return command.byPosition(*given)
        except JavaCallError:
            return command.byPosition(*given, False)  # 4.2: whether the schema evolves

    def toInsertableRelation(self) -> Any:
        """What takes the rows."""
        return InsertProxy(self)

    def answers(self) -> dict[str, Value]:
        """What is known of every write."""
        return {
            "description": f"paimon {self.name}",
            "supportedCustomMetrics": supported_write_metrics(self.gateway),
        }

    def toString(self) -> str:
        """For EXPLAIN; no two writes are equal."""
        where = ", in the driver" if self.in_driver else ""
        return f"PaimonRowWrite({self.name}{where})@{id(self):x}"

    def toBatch(self) -> None:
        """Called where the rule is not in this session.

        Raises:
            UnsupportedError: names what to call.
        """
        raise UnsupportedError(
            f"This session cannot hand the rows of {self.name} over as a whole, which its keys or "
            f"'clustering.columns' need: write with PaimonTable.for_path(spark, path).append(df) or .overwrite(df)"
        )

    def toStreaming(self) -> None:
        """As `toBatch`."""
        self.toBatch()

    def reportDriverMetrics(self) -> JavaObject:
        """What Spark's UI shows of the commit."""
        return reported_write_metrics(self.gateway, self.metrics)


class InsertProxy(AnswerProxy):
    """Writes the rows of one statement and commits them."""

    interfaces = ("org.apache.spark.sql.sources.InsertableRelation",)

    def __init__(self, write: RowWriteProxy) -> None:
        super().__init__(write.gateway)
        self.write = write
        self.options = write.options
        self.overwrites = write.overwrites
        self.names_errors = write.names_errors
        self.in_driver = write.in_driver
        self.opened = write.opened

    def insert(self, rows: JavaObject, _overwrite: bool) -> None:
        """Write and commit. Called once, when the statement is executed.

        Raises:
            PaimonError: as of every write.
        """
        struct = python_struct(rows.schema())
        with without_secrets(self.options):
            try:
                with reporting_to(self.options.get(REPORT_TO)), measured_commits() as self.write.metrics:
                    if self.in_driver:
                        self._write_here(rows, struct)
                    else:
                        self._write_by_job(rows, struct)
            except CommitError as error:
                if self.names_errors:
                    raise
                raise PaimonError(f"{type(error).__name__}: {error}") from error

    def _write_by_job(self, rows: JavaObject, struct: StructType) -> None:
        from paimon_spark.spark.jobs.shuffled_write import write_shuffled  # most writes do without it
        from paimon_spark.spark.jobs.write_tasks import RowsToWrite

        frame = DataFrame(rows, SparkSession(self.gateway.context, rows.sparkSession()))
        request = write_request(self.options, overwrite=self.overwrites, opened=self.opened)
        table = target_table(request, struct, self.opened)
        replaced = overwrite_of(request, table) if self.overwrites else None
        write_shuffled(RowsToWrite(frame, table, replaced, request.operation))

    def _write_here(self, rows: JavaObject, struct: StructType) -> None:
        from paimon_spark.spark.jobs.compact_job import executor_of  # a plan is made without it

        source = PaimonDataSource(self.options)
        write = source.planned_write(struct, overwrite=self.overwrites, rows=SHUFFLED, opened=self.opened)
        batches = _batches(shared_object(self.gateway, _COMMANDS).arrow(rows.queryExecution().optimizedPlan()))
        write.commit([write.write_task(batches, 0)], executor_of(active_session(self.gateway)))


class RowTableProxy(AnswerProxy):
    """The table of a command, as one that takes DataFrames."""

    interfaces: ClassVar[tuple[str, ...]] = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsWrite")

    def __init__(self, gateway: Gateway, table: JavaObject) -> None:
        super().__init__(gateway)
        self.table = table

    def answers(self) -> dict[str, Value]:
        """Rows come as a DataFrame."""
        return {"capabilities": ["constants", f"{_CATALOG}.TableCapability", ["V1_BATCH_WRITE", "TRUNCATE"]]}

    def name(self) -> str:
        """As of the table itself."""
        return str(self.table.name())

    def schema(self) -> JavaObject:
        """As of the table itself."""
        return self.table.schema()

    def columns(self) -> JavaObject:
        """As of the table itself."""
        return self.table.columns()

    def partitioning(self) -> JavaObject:
        """As of the table itself."""
        return self.table.partitioning()

    def properties(self) -> JavaObject:
        """As of the table itself."""
        return self.table.properties()

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """As of the table itself."""
        return self.table.newWriteBuilder(info)

    def toString(self) -> str:
        """As of the table itself: it is the same relation, whose cached rows Spark forgets."""
        return str(self.table.toString())
