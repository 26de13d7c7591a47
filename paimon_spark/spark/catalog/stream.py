"""Answers Spark's ``MicroBatchStream``: a table as a stream, on a classic session of any version.

Planned on the driver, in this process. Spark asks a stream neither for columns nor for filters, so a rule of ours does
(`hooks/java_rules`): it asks the stream of a query for one that reads less, and puts that one into the plan of each
batch. Both have one text, by which Spark finds that they are one source. A batch whose files are its rows is left to
Spark's own Parquet reader.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import StructType

from paimon_spark.errors import OptionError
from paimon_spark.read.audit_log import CHANGE_FEED
from paimon_spark.read.stream_offset import StreamOffset
from paimon_spark.read.table_scan import residual_filter
from paimon_spark.spark.catalog.basic_scan import BasicScanProxy, python_batch
from paimon_spark.spark.catalog.named_table import NamedTableProxy, metadata_answers
from paimon_spark.spark.catalog.native_scan import WANTED_SETTINGS, is_native, note_refusal, parquet_batch
from paimon_spark.spark.catalog.pushed_expressions import Tree, pushed_down
from paimon_spark.spark.catalog.scan_plan import ScanPlan, partition_columns_last
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.source.reader import PaimonPartition, task_slots
from paimon_spark.spark.source.stream_source import READ_CHANGELOG, StreamSource, stream_table
from paimon_spark.spec.predicate import all_of
from paimon_spark.table.time_travel import INCREMENTAL_KEYS

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.predicate import Predicate

_READ = "org.apache.spark.sql.connector.read"
_CATALOG = "org.apache.spark.sql.connector.catalog"
_NO_LIMIT = (1 << 62) - 1
_MOST_PLANS = 16
_numbers = itertools.count(1)


class StreamProxy(AnswerProxy):
    """The stream of one query, or one that reads less of it."""

    interfaces: ClassVar[tuple[str, ...]] = (
        f"{_READ}.streaming.MicroBatchStream",
        f"{_READ}.streaming.SupportsTriggerAvailableNow",
        f"{_READ}.streaming.ReportsSourceMetrics",
        "java.util.function.Function",
    )
    names_errors = True
    settings = WANTED_SETTINGS
    settled = False
    """Whether it reads what the plan of a batch needs."""
    pushed: Sequence[Predicate] = ()
    """Predicates that Spark evaluates too."""
    kept: Sequence[int] = ()
    """Their positions among all that were offered."""
    asked: ClassVar[Mapping[str, str]] = {
        "initialOffset": "_asked_initial",
        "latestOffset": "_asked_latest",
        "deserializeOffset": "_asked_offset",
        "getDefaultReadLimit": "_asked_limit",
        "reportLatestOffset": "_asked_newest",
        "prepareForTriggerAvailableNow": "_asked_end",
        "planInputPartitions": "_asked_partitions",
        "refused": "_asked_own_batch",
        "commit": "_asked_commit",
        "metrics": "_asked_metrics",
        "apply": "_asked_less",
    }

    def __init__(self, gateway: Gateway, name: str, source: StreamSource, struct: StructType) -> None:
        """Describe the stream; nothing is read yet.

        Args:
            gateway: the JVM.
            name: of the table, in progress and messages.
            source: the table with the options of the stream.
            struct: the columns of the table.
        """
        super().__init__(gateway)
        self.table_name = name
        self.source = source
        self.struct = struct
        self.metadata = to_spark_struct(source.metadata)
        self.stream = source.stream(struct)
        self.text = f"paimon {name} [{', '.join(struct.names)}] stream={next(_numbers)}"
        self._less: dict[str, StreamProxy] = {}
        self._planned: dict[str, int] = {}
        self._tasks: list[tuple[DataSplit, ...]] = []
        self._reader = self.stream.reader
        self._native_fits = [True]

    def answers(self) -> dict[str, Value]:
        """Nothing is to be done at the end; one that reads less says in which order its columns come."""
        return {"stop": None, **({"isSettled": True, "columns": self.struct.names} if self.settled else {})}

    def toString(self) -> str:
        """What ``lastProgress`` shows; Spark distinguishes streams by it."""
        return self.text

    def _asked_initial(self, _question: Question) -> Reply:
        return _offset(self.stream.scan.initial())

    def _asked_latest(self, question: Question) -> Reply:
        start, take_all = question.arguments
        return _offset(self.stream.scan.next_offset(_parsed(start), take_all=take_all))

    def _asked_offset(self, question: Question) -> Reply:
        return Reply(["offset", question.arguments[0]])

    def _asked_limit(self, _question: Question) -> Reply:
        limits = self.stream.scan.limits
        return Reply(["limit", (limits.max_rows or _NO_LIMIT) if limits.any_given else None])

    def _asked_newest(self, _question: Question) -> Reply:
        return _offset(self.stream.scan.newest())

    def _asked_end(self, _question: Question) -> Reply:
        self.stream.scan.end_at_latest()
        return Reply()

    def _asked_partitions(self, question: Question) -> Reply:
        """The tasks of a batch, which Spark plans twice; what makes their readers is asked next, and known then."""
        start, end = map(_parsed, question.arguments)
        read = self.stream.scan.batch(start, end, task_slots())
        tasks = self._tasks = self.stream.tasks(read)
        self._reader = self.stream.reader_of(read)
        files = [file for splits in tasks for split in splits for file in split.files]
        self._planned.clear()
        self._planned.update(files=len(files), bytes=sum(file.share(file.size) for file in files))
        if self._native_fits[0] and self._filters_are_sparks:
            plain = ScanPlan(self.source.table, self.struct, view=self.source.view).of(self.stream.scan.plan, tasks)
            if is_native(self.gateway, plain, question.settings):
                batch = parquet_batch(self.gateway, plain, self.pushed, tasks=tasks)
                return Reply(["partitions of", batch], repeated=True)
        return self._own_batch()

    def _asked_own_batch(self, question: Question) -> Reply:
        """This Spark does not let its Parquet reader be made: ours reads, from now on."""
        note_refusal(str(question.arguments[0]))
        self._native_fits[0] = False
        return self._own_batch()

    def _own_batch(self) -> Reply:
        partitions = list(map(PaimonPartition, self._tasks))
        return Reply(["partitions of", python_batch(self.struct, self._reader, partitions)], repeated=True)

    @property
    def _filters_are_sparks(self) -> bool:
        """Whether Spark evaluates all filters that look at rows: it does not know the option `filter`."""
        return residual_filter(self.source.table.schema, self.source.predicate) is None

    def _asked_commit(self, question: Question) -> Reply:
        self.stream.scan.commit(_parsed(question.arguments[0]))
        return Reply()

    def _asked_metrics(self, question: Question) -> Reply:
        """Files and bytes of the last batch, and how many snapshots the stream is behind."""
        consumed = question.arguments[0]
        behind = 0 if consumed is None else self.stream.scan.newest().snapshot_id - _parsed(consumed).snapshot_id
        numbers = {**self._planned, "snapshotsBehind": max(0, behind)}
        return Reply(["map", {name: str(number) for name, number in numbers.items()}])

    def _asked_less(self, question: Question) -> Reply:
        """The stream with some of the columns and of the rows: names, and predicates of which rows make all true."""
        names, trees = question.arguments[0]
        key = json.dumps([names, trees])
        if key not in self._less:
            if len(self._less) >= _MOST_PLANS:  # a filter by the current time is another one in each batch
                self._less.clear()
            self._less[key] = self._with(names, trees)
        found = self._less[key]
        return Reply(described_proxy(found), keep=found.kept)

    def _with(self, names: Sequence[str], trees: Sequence[Tree]) -> StreamProxy:
        found = [pushed_down(self.source.view, self.source.table, tree)[0] for tree in trees]
        predicates = [predicate for predicate in found if predicate is not None]
        less = copy.copy(self)
        less.settled = True
        less.kept = [at for at, predicate in enumerate(found) if predicate is not None]
        less.pushed = predicates
        known = {f.name: f for f in (*self.struct.fields, *self.metadata.fields)}
        struct = StructType([known[name] for name in names])
        less.struct = partition_columns_last(struct, self.source.table.schema.partition_keys)
        less.stream = self.source.stream(less.struct, all_of(predicates) if predicates else None)
        return less


def stream_of_plan(gateway: Gateway, name: str, plan: ScanPlan) -> Reply:
    """The stream of a catalog's table: all of its columns, since Spark pushes nothing down into streams.

    Raises:
        OptionError: an option changes the columns that Spark was given, or options of streams contradict each other.
    """
    if plan.given.get(READ_CHANGELOG, "false").strip().lower() == "true":
        raise OptionError(
            f"Option '{READ_CHANGELOG}' adds a column, which Spark asks a catalog for without the options of a read: "
            "stream `<table>$audit_log`, or readStream.format('paimon').load(path) with the option."
        )
    table = plan.table
    if plan.view is CHANGE_FEED:
        if plan.stream_start is None:
            raise OptionError("A stream of changes has no end: leave out endingVersion and endingTimestamp.")
        table = table.without_options(INCREMENTAL_KEYS).with_options(plan.stream_start)
    source = StreamSource(stream_table(table, plan.given), plan.view)
    found = described_proxy(StreamProxy(gateway, name, source, to_spark_struct(source.columns)))
    # without these answers Spark would have a batch planned, to describe it
    no_batch = {"description": f"paimon {name} stream", "estimateStatistics": ["statistics", None, _NO_LIMIT]}
    return Reply(found, remember=no_batch)


class StreamScanProxy(BasicScanProxy):
    """Spark's ``Scan`` of a stream."""

    interfaces = (f"{_READ}.Scan",)
    asked: ClassVar[Mapping[str, str]] = {"toMicroBatchStream": "_asked_stream"}

    def __init__(self, gateway: Gateway, name: str, source: StreamSource, struct: StructType) -> None:
        super().__init__(gateway)
        self.table_name = name
        self.source = source
        self.struct = struct

    def answers(self) -> dict[str, Value]:
        """What does not depend on the query."""
        return {**super().answers(), "description": self.description()}

    def _struct(self) -> StructType:
        return self.struct

    def description(self) -> str:
        """For EXPLAIN."""
        return f"paimon {self.table_name} stream"

    def _asked_stream(self, _question: Question) -> Reply:
        return Reply(described_proxy(StreamProxy(self.gateway, self.table_name, self.source, self.struct)))


class StreamBuilderProxy(AnswerProxy):
    """Spark's ``ScanBuilder`` of a stream: nothing is pushed down into it."""

    interfaces = (f"{_READ}.ScanBuilder",)
    asked: ClassVar[Mapping[str, str]] = {"build": "_asked_scan"}

    def __init__(self, scan: StreamScanProxy) -> None:
        super().__init__(scan.gateway)
        self.scan = scan

    def _asked_scan(self, _question: Question) -> Reply:
        return Reply(described_proxy(self.scan))


class StreamedTableProxy(NamedTableProxy):
    """A table by its path, that a query streams."""

    interfaces = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsRead", f"{_CATALOG}.SupportsMetadataColumns")
    names_errors = True

    def __init__(self, gateway: Gateway, path: str, source: StreamSource, struct: StructType) -> None:
        """Describe the table.

        Args:
            gateway: the JVM.
            path: of the table, its name in progress and messages.
            source: the table with the options of the stream.
            struct: its columns.
        """
        super().__init__(gateway)
        self.table_name = path
        self.source = source
        self.struct = struct

    def answers(self) -> dict[str, Value]:
        """What the table is."""
        return {**super().answers(), **metadata_answers(to_spark_struct(self.source.metadata))}

    def _capabilities(self) -> Sequence[str]:
        return ["MICRO_BATCH_READ"]

    def scan_builder(self, options: Mapping[str, str]) -> StreamBuilderProxy:
        """A builder for the stream; the options are known already."""
        return StreamBuilderProxy(StreamScanProxy(self.gateway, self.table_name, self.source, self.struct))

    def toString(self) -> str:
        """The text that `equals` compares: two streams are never equal."""
        return f"{self.table_name}@{id(self):x}"


def _offset(offset: StreamOffset) -> Reply:
    return Reply(["offset", json.dumps(offset.to_json())])


def _parsed(text: str) -> StreamOffset:
    return StreamOffset.of_json(json.loads(text))
