"""Answers Spark's ``WriteBuilder``, ``Write`` and ``BatchWrite``: appends and the three kinds of overwrite.

A builder learns what INSERT OVERWRITE, REPLACE WHERE or ``writeTo().overwrite(condition)`` replaces, which become
options of our source, and where rows go first. Spark's own Python tasks write. Spark would start a Python process to
plan a write and another one to commit it. Here both happen where the proxies live, so that a small INSERT is quick and
an error arrives as one sentence instead of a traceback of a worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from paimon_spark.commit.overwrite import check_partition_condition
from paimon_spark.commit.row_counts import CommitMetrics, measured_commits, reporting_to
from paimon_spark.errors import CommitError, OptionError, PaimonError, UnsupportedError
from paimon_spark.options import canonical_options, reaching_options
from paimon_spark.spark.catalog.basic_scan import python_write_builder
from paimon_spark.spark.catalog.distributed_rows import (
    DistributedRows,
    Parallelism,
    WriteDistribution,
    write_distribution,
)
from paimon_spark.spark.catalog.pushed_expressions import to_predicate, tree_of
from paimon_spark.spark.catalog.row_write import RowWriteProxy, local_rows, takes_rows
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value, none_of
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject, called_by
from paimon_spark.spark.jvm.node_metrics import reported_write_metrics, supported_write_metrics
from paimon_spark.spark.jvm.plan_tables import active_session, python_struct
from paimon_spark.spark.session.overwrite_mode import (
    OVERWRITE_MODE,
    Named,
    asks_for_dynamic,
    is_dynamic_overwrite,
    overwrite_option,
    without_modes,
)
from paimon_spark.spark.session.session_options import MERGE_KEYS, SAME_AS, merge_options
from paimon_spark.spark.session.session_settings import PARTITION_OVERWRITE_MODE
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.spark.source.source_options import OPERATION, REPLACE_WHERE, REPORT_TO, known_to_writes
from paimon_spark.spark.source.writer import PaimonWriter
from paimon_spark.spec.predicate import all_of
from paimon_spark.spec.sql_text import filter_text, quoted_name
from paimon_spark.table.support import check_writable

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.loading import LoadedTable
    from paimon_spark.spark.source.table_write import TableWrite
    from paimon_spark.table.table import FileStoreTable


_WRITER_MODULE = "pyspark.sql.worker.write_into_data_source"


class BatchWriteProxy(AnswerProxy):
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
        self.metrics: CommitMetrics | None = None
        """Of the commit, once it was tried."""
        self.struct = python_struct(schema)
        rows.batches.begin(self.struct)

    def createBatchWriterFactory(self, _info: JavaObject) -> JavaObject:
        """Plan the write; what this gives is all that travels to tasks. Called once, before the first task."""
        self.write = PaimonDataSource(self.options).planned_write(
            self.struct,
            overwrite=self.overwrite,
            rows=self.rows.of_tasks(),
            opened=self.rows.opened,
        )
        provider = compat.PYTHON_SOURCE(self.gateway)
        provider.setShortName(PaimonDataSource.name())
        answer = python_struct(compat.USER_SOURCE.of(self.gateway).writeOutputSchema())
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
            with reporting_to(self.options.get(REPORT_TO)), measured_commits() as self.metrics:
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


def overwrite_options(gateway: Gateway, table: FileStoreTable, predicates: Sequence[JavaObject]) -> dict[str, str]:
    """The options of a write that replaces the partitions for which all of Spark's predicates are true.

    Raises:
        OptionError: a predicate is about columns that are no partition columns.
        UnsupportedError: a predicate cannot be evaluated for partitions.
    """
    parts = []
    for predicate in predicates:
        part = to_predicate(tree_of(gateway, predicate), table.schema.fields)
        if part is None:
            raise UnsupportedError(
                f"An overwrite where {predicate.toString()} is not supported: compare partition columns with literals "
                f"(=, <>, <, <=, >, >=, IN, IS NULL, LIKE 'a%', AND, OR, NOT)"
            )
        check_partition_condition(part, table, f"An overwrite where {filter_text(part)}")
        parts.append(part)
    return {**overwrite_option(dynamic=False), REPLACE_WHERE: filter_text(all_of(parts))}


_WRITE = "org.apache.spark.sql.connector.write"
_EXPRESSIONS = "org.apache.spark.sql.connector.expressions"


class WriteBuilderProxy(AnswerProxy):
    """Collects what one write replaces and hands the rows to our data source."""

    interfaces = (f"{_WRITE}.WriteBuilder", f"{_WRITE}.SupportsOverwriteV2", f"{_WRITE}.SupportsDynamicOverwrite")

    def __init__(self, gateway: Gateway, loaded: LoadedTable, info: JavaObject) -> None:
        super().__init__(gateway)
        self.loaded = loaded
        self.info = info
        self.given = gateway.string_dict(info.options().asCaseSensitiveMap())
        self.overwriting: dict[str, str] | None = None

    def truncate(self) -> Any:
        """Replace the whole table, or the partitions that appear in the rows where somebody wants that.

        ``writeTo(t).overwrite(lit(True))`` names what is replaced; then only an option of the write says otherwise.
        """
        settings = self.gateway.string_dict(compat.SQL_CONF.of(self.gateway).get().settings())
        option = asks_for_dynamic(self.given)
        conditional = option is None and called_by(self.gateway, "DataFrameWriterV2")
        named = Named.CONDITION if conditional else Named.NOTHING
        dynamic = is_dynamic_overwrite(option, settings, self.loaded.options, self.loaded.own_options, named=named)
        self.overwriting = overwrite_option(dynamic=dynamic)
        return self

    def overwrite(self, predicates: Any) -> Any:
        """Replace the partitions for which all predicates are true.

        Raises:
            OptionError: a predicate is about columns that are no partition columns.
            UnsupportedError: a predicate cannot be evaluated for partitions.
        """
        self.overwriting = overwrite_options(self.gateway, self.loaded.table, list(predicates))
        return self

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that appear in the rows.

        Raises:
            OptionError: an option of the write says otherwise, and a PARTITION clause that Spark keeps to itself may
                say what is replaced.
        """
        static = asks_for_dynamic(self.given) is False
        if static and not called_by(self.gateway, "DataFrameWriter"):  # insertInto has no such clause
            raise OptionError(
                f"option '{OVERWRITE_MODE}' = 'static' contradicts an overwrite of the partitions in the data, which "
                f"overwritePartitions() or the session's {PARTITION_OVERWRITE_MODE} asks for: leave the option out, or "
                f"set that to static"
            )
        self.overwriting = overwrite_option(dynamic=not static)
        return self

    def build(self) -> Any:
        """The write, behind the shuffle that the table's keys need."""
        check_writable(self.loaded.table.schema)
        table = self.loaded.table.as_if(canonical_options(known_to_writes(self.given)))  # the write checks them
        own = {key.lower() for key in self.given}
        session = {k: v for k, v in known_to_writes(self.loaded.options).items() if k.lower() not in own}
        options = {**session, **self.given, **self.loaded.source_options}
        if self.overwriting is not None:
            options = {**without_modes(options), **self.overwriting}
        if self.loaded.operation is not None:
            options[OPERATION] = self.loaded.operation.value
        if self.loaded.widened is not None:  # the options as they were given say so too
            options = {
                key: value for key, value in options.items() if SAME_AS.get(key.lower(), key.lower()) not in MERGE_KEYS
            }
            options |= merge_options(self.loaded.widened)
        if takes_rows(table.schema):
            return RowWriteProxy.of(self, options)
        return WriteProxy(self, options, write_distribution(table, session_parallelism(self.gateway)))

    def opened(self) -> FileStoreTable | None:
        """The table as the statement opened it, unless options of the write say how the store is reached."""
        return None if reaching_options(self.given) else self.loaded.table


class WriteProxy(AnswerProxy):
    """A write whose rows Spark brings together by key first. Spark asks while it optimises the statement."""

    interfaces = (f"{_WRITE}.RequiresDistributionAndOrdering", FUNCTION)

    def __init__(self, builder: WriteBuilderProxy, options: Mapping[str, str], distribution: WriteDistribution) -> None:
        super().__init__(builder.gateway)
        self.loaded = builder.loaded
        self.info = builder.info
        self.options = dict(options)
        self.overwrites = builder.overwriting is not None
        self.distribution = distribution
        self.rows = DistributedRows(
            builder.gateway,
            builder.loaded.table,
            distribution,
            self.options,
            overwrite=self.overwrites,
            opened=builder.opened(),
        )
        self.names_errors = builder.names_errors
        self._batch: BatchWriteProxy | None = None
        self._driver_write = RowWriteProxy.of(builder, options, in_driver=True)

    def answers(self) -> dict[str, Value]:
        """Where rows go: those of one key to one task, where the table has keys; writers sort.

        AQE must not split the rows of a key over tasks; those of a partition of an append table it may.
        """
        wanted = self.distribution
        return {
            "description": f"paimon {self.loaded.name}",
            "requiredDistribution": ["clustered", [quoted_name(column) for column in wanted.columns]],
            "distributionStrictlyRequired": not wanted.may_split,
            "requiredNumPartitions": wanted.num_partitions,
            "advisoryPartitionSizeInBytes": wanted.advisory_bytes,
            "requiredOrdering": none_of(f"{_EXPRESSIONS}.SortOrder"),
            "supportedCustomMetrics": supported_write_metrics(self.gateway),
        }

    def apply(self, command: JavaObject) -> JavaObject:
        """The write of rows that are shuffled by bucket; asked by a rule of Spark's optimizer (`hooks.java_rules`).

        A few rows that the driver has are written by it.
        """
        rows = local_rows(self.gateway, command.query())
        if rows is not None:
            return self._driver_write.apply(command, rows)
        return self.rows.distribute(command)

    def toString(self) -> str:
        """For EXPLAIN, where Spark shows this and not the description; no two writes are equal."""
        return f"PaimonWrite({self.loaded.name})@{id(self):x}"

    def toBatch(self) -> Any:
        """The write of one statement."""
        batch = BatchWriteProxy(self.gateway, self.info.schema(), self.options, self.rows, overwrite=self.overwrites)
        batch.names_errors = self.names_errors
        self._batch = batch
        return batch

    def toStreaming(self) -> JavaObject:
        """Spark's own streaming write over our data source."""
        struct = to_spark_struct(self.loaded.table.schema.fields)
        builder = python_write_builder(self.gateway, self.info, struct, self.options)
        return (builder.truncate() if self.overwrites else builder).build().toStreaming()

    def reportDriverMetrics(self) -> JavaObject:
        """What Spark's UI shows of the commit."""
        return reported_write_metrics(self.gateway, None if self._batch is None else self._batch.metrics)


def session_parallelism(gateway: Gateway) -> Parallelism:
    """What the active session says: Spark sets it while it plans a statement."""
    conf = compat.SQL_CONF.of(gateway).get()
    adaptive = conf.adaptiveExecutionEnabled() and conf.coalesceShufflePartitionsEnabled()
    context = compat.SPARK_CONTEXT.of(gateway).getOrCreate()
    return Parallelism(bool(adaptive), min(int(conf.numShufflePartitions()), int(context.defaultParallelism())))
