"""``writeStream.format("paimon")``: every kind of table, restarts, replays, complete mode, refusals."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaObject
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import OptionError, PaimonTable, SchemaMismatchError, UnsupportedError
from paimon_spark.spark.jobs import bucket_shuffle, write_tasks
from paimon_spark.spark.jobs.stream_sink import StreamSink
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark
_numbers = itertools.count()
SCHEMA = "k long, v long, p string, ts timestamp"
COLUMNS = ("id % 8 AS k", "id AS v", "concat('p', id % 2) AS p", "timestamp_seconds(1700000000 + id) AS ts")

KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "partitioned": {"partition": "p"},
    "fixed": {"primary-key": "k", "bucket": "2"},
    "dynamic": {"primary-key": "k"},
    "cross_partition": {"primary-key": "k", "partition": "p", "bucket": "-1"},
    "postponed": {"primary-key": "k", "bucket": "-2"},
    "lookup": {"primary-key": "k", "bucket": "2", "changelog-producer": "lookup"},
    "vectors": {"primary-key": "k", "bucket": "2", "deletion-vectors.enabled": "true"},
    "sums": {"primary-key": "k", "bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}


class Source:
    """Files that a stream reads, one a micro-batch, and a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.checkpoint = str(folder / "checkpoint")
        self.path = str(folder / "t")
        self.fed = 0

    def feed(self, rows: int) -> None:
        numbers = self.spark.range(self.fed, self.fed + rows, 1, 1)
        numbers.selectExpr(*COLUMNS).write.mode("append").parquet(str(self.folder / "source"))
        self.fed += rows

    @property
    def rows(self) -> DataFrame:
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / "source"))

    def run(self, rows: DataFrame | None = None, *, mode: str = "append", **options: str) -> Any:
        """Write all that is there; return the query, which ended."""
        writer = (self.rows if rows is None else rows).writeStream.format("paimon").outputMode(mode)
        writer = writer.option("checkpointLocation", self.checkpoint).options(**options).trigger(availableNow=True)
        query = writer.start(self.path)
        query.awaitTermination()
        return query

    def forget(self, number: int) -> None:
        """Let Spark forget that a micro-batch was committed, as if it was killed before it could write so."""
        log = self.folder / "checkpoint" / "commits"
        for path in (log / str(number), log / f".{number}.crc"):
            path.unlink(missing_ok=True)

    @property
    def table(self) -> Any:
        return load_table(self.path)

    def read(self) -> list[tuple[Any, ...]]:
        frame = self.spark.read.format("paimon").load(self.path)
        return sorted(tuple(row) for row in frame.select("k", "v").collect())


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    made = Source(spark, tmp_path)
    made.feed(10)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables(source: Source, kind: str) -> None:
    query = source.run(**KINDS[kind])
    source.feed(6)
    source.run(**KINDS[kind])
    source.forget(1)
    source.run(**KINDS[kind])
    every = [(number % 8, number) for number in range(16)]
    if kind == "sums":
        expected = [(key, sum(value for k, value in every if k == key)) for key in range(8)]
    elif KINDS[kind].get("primary-key"):
        expected = sorted(dict(every).items())
    else:
        expected = sorted(every)
    assert source.read() == expected
    commits = list(map(source.table.snapshots.get, source.table.snapshots.ids()))
    own = [c.commit_identifier for c in commits if c.commit_kind.value == "APPEND"]
    assert own == [0, 1]
    assert {c.commit_user for c in commits} == {query.id}
    if kind == "fixed":
        files = source.spark.read.format("paimon").load(f"{source.path}$files").count()
        assert files == 4, "one file in each bucket of each micro-batch"


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
def test_a_small_micro_batch_of_one_task_is_not_shuffled(
    source: Source, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    plans = []

    def run_write(rows: DataFrame, *more: Any, **given: Any) -> int | None:
        plans.append(java_frame(rows).queryExecution().logical().toString())
        return write_tasks.run_write(rows, *more, **given)

    monkeypatch.setattr(bucket_shuffle, "run_write", run_write)
    source.run(**KINDS[kind])
    source.feed(3)
    source.feed(3)
    both = source.spark.readStream.schema(SCHEMA).parquet(str(source.folder / "source"))
    source.run(both, **KINDS[kind])
    assert ["RepartitionByExpression" in plan for plan in plans] == [False, True]
    assert source.read() == sorted({number % 8: number for number in range(16)}.items())


def test_a_micro_batch_leaves_no_thread_and_its_session_can_go(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j keeps the thread that a query called, and Arrow the memory of threads: megabytes for each query."""
    threads, plain = list[threading.Thread](), StreamSink._write

    def write(sink: StreamSink, rows: DataFrame, number: int) -> None:
        threads.append(threading.current_thread())
        plain(sink, rows, number)

    monkeypatch.setattr(StreamSink, "_write", write)
    source.run()
    assert [thread.is_alive() for thread in threads] == [False]
    pool = source.spark.sparkContext._gateway.gateway_property.pool
    held = {
        f"{type(proxy).__name__}.{name}": str(value.getClass().getName())
        for proxy in list(pool.dict.values())
        for name, value in getattr(proxy, "__dict__", {}).items()
        if isinstance(value, JavaObject)
    }
    assert "FormatPlansProxy._state_held_weakly" in held
    assert not [name for name, kind in held.items() if kind.endswith("SessionState")]


def test_no_warning_of_replaced_sources(source: Source) -> None:
    """A query starts in a copy of its session, where Spark finds our source a second time."""
    log4j = source.spark._jvm.org.apache.logging.log4j
    text = source.spark._jvm.java.io.StringWriter()
    context = log4j.LogManager.getContext(False)
    root = context.getRootLogger()
    name = "what a query says"
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, text, name, False, True)
    appender.start()
    root.addAppender(appender)
    levels, configurator = log4j.Level, log4j.core.config.Configurator
    configurator.setLevel("org", levels.WARN)  # pytest-spark has turned it off
    try:
        source.run()
        other = context.getLogger("org.apache.spark.sql.execution.datasources.DataSourceManager")
        other.error("The data source mine replaced a statically registered data source.")
    finally:
        configurator.setLevel("org", levels.OFF)
        root.removeAppender(appender)
    said = str(text.toString())
    assert "mine replaced" in said
    assert "paimon replaced" not in said


def test_two_queries_are_two_writers(source: Source) -> None:
    source.run()
    source.checkpoint = str(source.folder / "other")
    query = source.run()
    assert len(source.read()) == 20
    latest = source.table.snapshots.latest()
    assert (latest.commit_user, latest.commit_identifier) == (query.id, 0)


def test_complete_replaces_the_table(source: Source) -> None:
    counts = source.rows.groupBy("k").agg({"v": "sum"}).selectExpr("k", "`sum(v)` AS v")
    options = {"primary-key": "k", "bucket": "1", "partitionOverwriteMode": "dynamic"}
    source.run(counts, mode="complete", **{k: v for k, v in options.items() if k != "partitionOverwriteMode"})
    source.feed(6)
    source.run(counts, mode="complete", **{k: v for k, v in options.items() if k != "partitionOverwriteMode"})
    expected = [(key, sum(n for n in range(16) if n % 8 == key)) for key in range(8)]
    assert source.read() == expected
    kinds = [source.table.snapshots.get(number).commit_kind.value for number in source.table.snapshots.ids()]
    assert kinds == ["OVERWRITE", "OVERWRITE"]
    source.forget(1)
    source.run(counts, mode="complete", **{k: v for k, v in options.items() if k != "partitionOverwriteMode"})
    assert source.table.snapshots.latest_id() == 2


def test_watermarks_reach_the_snapshots(source: Source) -> None:
    for _ in range(2):
        source.feed(10)
    source.run(source.rows.withWatermark("ts", "1 second"))
    source.feed(10)
    source.run(source.rows.withWatermark("ts", "1 second"))
    marks = [source.table.snapshots.get(number).watermark for number in source.table.snapshots.ids()]
    late = [1_700_000_000_000 + 1000 * (number - 1 - 1) for number in (10, 20, 30)]
    assert marks == [None, *late], "a batch has the mark of all rows before it, after a restart too"


def test_columns_are_added(source: Source) -> None:
    source.run()
    source.feed(3)
    source.run(source.rows.selectExpr("*", "'new' AS more"), **{"write.merge-schema": "true"})
    assert source.table.schema.field_names[-1] == "more"
    assert len(source.read()) == 13


def test_full_compactions_are_counted_in_micro_batches(source: Source) -> None:
    options = {"primary-key": "k", "bucket": "1", "full-compaction.delta-commits": "2"}
    for _ in range(3):
        source.feed(3)
    source.run(**options)
    table = source.table
    kinds = [table.snapshots.get(number).commit_kind.value for number in table.snapshots.ids()]
    assert kinds == ["APPEND", "APPEND", "COMPACT", "APPEND", "APPEND", "COMPACT"]


def test_a_replay_finishes_the_compaction_that_makes_rows_visible(source: Source) -> None:
    options = {"primary-key": "k", "bucket": "1", "deletion-vectors.enabled": "true"}
    source.run(**options, **{"write-only": "true"})
    assert source.read() == []
    source.forget(0)
    source.run(**options, **{"write-only": "false"})
    assert len(source.read()) == 8
    assert source.table.snapshots.latest_id() == 2


def test_to_table(source: Source) -> None:
    spark, name = source.spark, f"sinks{next(_numbers)}"
    paimon_spark.register_catalog(spark, name, warehouse=str(source.folder / "wh"))
    spark.sql(f"CREATE DATABASE {name}.db")

    def run(**options: str) -> None:
        writer = source.rows.writeStream.partitionBy("p").option("checkpointLocation", source.checkpoint)
        writer.options(**options).trigger(availableNow=True).toTable(f"{name}.db.t").awaitTermination()

    run(**{"primary-key": "p,k", "bucket": "1"})
    table = load_table(str(source.folder / "wh" / "db.db" / "t"))
    assert (table.schema.partition_keys, table.schema.primary_keys) == (("p",), ("p", "k"))
    source.feed(4)
    run()
    assert spark.table(f"{name}.db.t").count() == 8
    assert table.snapshots.ids() == [1, 2]


def test_to_table_finds_the_table_that_is_named(source: Source) -> None:
    """A column called Location is none, a branch is not the main one, a system table is refused."""
    spark, name = source.spark, f"sinks{next(_numbers)}"
    paimon_spark.register_catalog(spark, name, warehouse=str(source.folder / "wh"))
    spark.sql(f"CREATE DATABASE {name}.db")
    spark.sql(f"CREATE TABLE {name}.db.t (Location STRING, k BIGINT)")
    spark.sql(f"INSERT INTO {name}.db.t VALUES ('there', 0)")
    path = str(source.folder / "wh" / "db.db" / "t")
    PaimonTable.for_path(spark, path).create_branch("b")
    for number, target in enumerate((f"{name}.db.t", f"{name}.db.`t$branch_b`", f"{name}.`{path}`")):
        writer = source.rows.selectExpr("p AS location", "k").writeStream
        writer = writer.option("checkpointLocation", f"{source.checkpoint}{number}").trigger(availableNow=True)
        writer.toTable(target).awaitTermination()
    assert spark.table(f"{name}.db.t").count() == 21
    assert spark.table(f"{name}.db.`t$branch_b`").count() == 10
    with pytest.raises(UnsupportedError, match="system table"):
        writer.toTable(f"{name}.db.`t$files`")


def test_inside_foreach_batch_batch_writes_stay_what_they_are(source: Source) -> None:
    path = str(source.folder / "t")

    def write(rows: DataFrame, _number: int) -> None:
        for _ in range(2):
            rows.write.format("paimon").mode("append").save(path)

    query = source.rows.writeStream.option("checkpointLocation", source.checkpoint).foreachBatch(write)
    query.trigger(availableNow=True).start().awaitTermination()
    assert len(source.read()) == 20


def test_other_formats_pass_through(source: Source) -> None:
    out = source.folder / "out"
    writer = source.rows.writeStream.format("parquet").partitionBy("p").option("checkpointLocation", source.checkpoint)
    writer.option("path", str(out)).trigger(availableNow=True).start().awaitTermination()
    assert {path.name for path in out.glob("p=*")} == {"p=p0", "p=p1"}


def test_refused_before_the_query_starts(source: Source) -> None:
    start: list[tuple[type[Exception], str, Callable[[Any], Any]]] = [
        (UnsupportedError, "Paimon supports only Complete and Append output mode", lambda w: w.outputMode("update")),
        (OptionError, "Did you mean 'bucket'", lambda w: w.option("bukket", "2")),
        (OptionError, "meaning for a write", lambda w: w.option("scan.snapshot-id", "2")),
    ]
    for error, text, change in start:
        writer = source.rows.writeStream.format("paimon").option("checkpointLocation", source.checkpoint)
        with pytest.raises(error, match=text):
            change(writer).start(source.path)
    with pytest.raises(OptionError, match=r"needs option\('checkpointLocation'"):
        source.rows.writeStream.format("paimon").start(source.path)
    with pytest.raises(OptionError, match="needs a path"):
        source.rows.writeStream.format("paimon").start()
    with pytest.raises(UnsupportedError, match="is in none"):
        source.rows.writeStream.format("paimon").toTable("db.t")
    assert not Path(source.path).exists()
    source.run()
    with pytest.raises(SchemaMismatchError, match="string does not become BIGINT"):
        source.run(source.rows.selectExpr("'x' AS k", "v", "p", "ts"))
    assert not any(query.isActive for query in source.spark.streams.active)


def test_an_error_of_a_micro_batch_ends_the_query(source: Source) -> None:
    source.run()
    bad = source.rows.selectExpr("k", "v", "p", "ts", "raise_error('broken') AS x").drop("x")
    source.feed(1)
    source.run(bad)  # a column that nobody reads is not computed
    source.feed(1)
    with pytest.raises(StreamingQueryException, match="broken"):
        source.run(source.rows.selectExpr("CAST(raise_error('broken') AS BIGINT) AS k", "v", "p", "ts"))
    assert len(source.read()) == 11
    source.run()
    assert len(source.read()) == 12


class TestPlainSink:
    """The sink of sessions that are not registered, and of Connect."""

    @pytest.fixture
    def options(self, tmp_path: Path) -> dict[str, str]:
        checkpoint = tmp_path / "plain_checkpoint"
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(json.dumps({"id": "the-query"}))
        return {"path": str(tmp_path / "plain"), "checkpointlocation": str(checkpoint)}

    def write(self, spark: SparkSession, options: dict[str, str], number: int, values: list[int]) -> None:
        schema = spark.range(0).schema
        writer = PaimonDataSource(dict(options)).streamWriter(schema, overwrite=False)
        batch = pa.record_batch([pa.array(values, pa.int64())], names=["id"])
        writer.commit([writer.write(iter([batch])), None], number)

    def test_a_micro_batch_counts_once(self, spark: SparkSession, options: dict[str, str]) -> None:
        self.write(spark, options, 0, [1, 2])
        self.write(spark, options, 1, [3])
        self.write(spark, options, 1, [3])
        self.write(spark, options, 0, [1, 2])
        table = load_table(options["path"])
        assert table.snapshots.ids() == [1, 2]
        assert {table.snapshots.get(number).commit_user for number in (1, 2)} == {"the-query"}
        assert len([*Path(options["path"]).glob("bucket-*/*.parquet")]) == 2, "files of replays are deleted"
        rows = spark.read.format("paimon").load(options["path"]).collect()
        assert sorted(row.id for row in rows) == [1, 2, 3]

    def test_rows_of_pyspark_4_0(self, spark: SparkSession, options: dict[str, str]) -> None:
        from paimon_spark.spark.source.stream_writer import PaimonRowStreamWriter

        frame = spark.range(3).selectExpr(
            "id", "CAST(id AS decimal(20, 3)) d", "timestamp_ntz'2024-05-01 01:02:03.4' n", "map('a', id) m",
            "timestamp'2024-05-01 01:02:03.4' t", "X'00ff' b", "array(id, null) a", "struct(id AS x) s",
        )  # fmt: skip
        source = PaimonDataSource({key: value for key, value in options.items() if key == "path"})
        write = source.planned_write(frame.schema, overwrite=False)
        writer = PaimonRowStreamWriter(write, "rows", frame.schema)
        writer.commit([writer.write(iter(frame.collect()))], 0)
        read = spark.read.format("paimon").load(options["path"])
        assert sorted(read.collect()) == sorted(frame.collect())

    def test_it_needs_the_checkpoint(self, spark: SparkSession, options: dict[str, str]) -> None:
        with pytest.raises(OptionError, match="needs option\\('checkpointLocation'"):
            self.write(spark, {"path": options["path"]}, 0, [1])
        with pytest.raises(OptionError, match="is not a checkpoint"):
            self.write(spark, {**options, "checkpointlocation": "/nowhere/at/all"}, 0, [1])
