"""The batches in which Spark hands the rows of a write to Python: small ones, which end with the statement."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from paimon_spark.spark.catalog.distributed_rows import MOST_ROWS, NO_LIMIT, WriteBatches, batch_properties
from paimon_spark.spark.jobs.arrow_functions import MOST_BYTES, collect_in_arrow

pytestmark = pytest.mark.spark


def struct(*types: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(str(at), kind) for at, kind in enumerate(types)])


def test_rows_of_a_batch_keep_within_the_limit_of_bytes() -> None:
    numbers = struct(t.LongType(), t.DoubleType(), t.DateType(), t.BooleanType(), t.DecimalType(38, 2))
    assert batch_properties(numbers, {}) == {MOST_BYTES: NO_LIMIT, MOST_ROWS: "1024"}
    assert batch_properties(numbers, {MOST_ROWS: "100"})[MOST_ROWS] == "100"
    assert batch_properties(numbers, {MOST_ROWS: "0"})[MOST_ROWS] == "1024"
    texts = [int(batch_properties(struct(*[t.StringType()] * count), {})[MOST_ROWS]) for count in (1, 2, 3, 300)]
    assert texts == sorted(texts, reverse=True)
    assert texts[1] << 17 <= 64 << 20 < texts[1] << 18
    assert texts[-1] == 256


@pytest.mark.parametrize(
    "kind", [t.BinaryType(), t.VariantType(), t.ArrayType(t.LongType()), struct(t.LongType())], ids=str
)
def test_values_that_may_be_large_keep_the_limit(kind: t.DataType) -> None:
    assert batch_properties(struct(t.LongType(), kind), {}) == {}
    assert batch_properties(struct(t.LongType()), {MOST_BYTES: "1m"}) == {}


def plain(spark: SparkSession) -> DataFrame:
    return spark.range(0, 300_000, 1, 2).selectExpr("id k", "id % 7 v")


QUERIES: dict[str, tuple[Callable[[SparkSession], DataFrame], str | None]] = {
    "rows of Spark": (plain, "1024"),
    "a Python function": (lambda s: plain(s).mapInArrow(lambda batches: batches, "k bigint, v bigint"), None),
    "cached rows of a Python function": (
        lambda s: plain(s).mapInArrow(lambda batches: batches, "k bigint, v bigint").cache(),
        None,
    ),
    "an RDD": (lambda s: s.createDataFrame(plain(s).rdd, "k bigint, v bigint"), None),
    "few rows": (lambda s: plain(s).limit(10).repartition(1), None),
    "a failure": (lambda s: plain(s).selectExpr("if(k = 77, raise_error('no'), k) k", "v"), "1024"),
}


OPTIONS = {"rows of Spark": {"primary-key": "k"}, "a failure": {"primary-key": "k"}}


@pytest.mark.parametrize("kind", QUERIES)
def test_batches_are_small_while_a_statement_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    context, found = spark.sparkContext, []
    begin, end = WriteBatches.begin, WriteBatches.end

    def beginning(self: WriteBatches, columns: t.StructType) -> None:
        begin(self, columns)
        found.append((context.getLocalProperty(MOST_ROWS), context.getLocalProperty(MOST_BYTES)))

    def ending(self: WriteBatches) -> None:
        end(self)
        found.append((context.getLocalProperty(MOST_ROWS), context.getLocalProperty(MOST_BYTES)))

    monkeypatch.setattr(WriteBatches, "begin", beginning)
    monkeypatch.setattr(WriteBatches, "end", ending)
    query, rows = QUERIES[kind]
    frame, path = query(spark), str(tmp_path / "t")
    writer = frame.write.format("paimon").options(**OPTIONS.get(kind, {})).mode("append")
    if kind == "a failure":
        with pytest.raises(Exception, match="no"):
            writer.save(path)
    else:
        writer.save(path)
        assert spark.read.format("paimon").load(path).count() == (10 if kind == "few rows" else 300_000)
    assert found[0] == ((rows, NO_LIMIT) if rows else (None, None))
    assert set(found[1:]) <= {(None, None)}
    context._jsc.sc().listenerBus().waitUntilEmpty()
    assert context.getLocalProperty(MOST_ROWS) is context.getLocalProperty(MOST_BYTES) is None
    frame.unpersist()


def test_a_limit_that_somebody_has_set_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    spark.conf.set(MOST_ROWS, "70")
    try:
        plain(spark).write.format("paimon").mode("append").save(str(tmp_path / "t"))
        assert spark.conf.get(MOST_ROWS) == "70"
        context._jsc.sc().listenerBus().waitUntilEmpty()
        assert context.getLocalProperty(MOST_ROWS) is context.getLocalProperty(MOST_BYTES) is None
    finally:
        spark.conf.unset(MOST_ROWS)


def sizes_of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows for batch in batches], pa.int32())], ["rows"])


def test_batches_of_a_job_in_python_are_small_where_the_session_says_nothing(spark: SparkSession) -> None:
    wide = spark.range(0, 40, 1, 1).selectExpr("repeat('x', 1024 * 1024) v")
    answer = t.StructType([t.StructField("rows", t.IntegerType())])

    def sizes() -> list[int]:
        return [row.rows for row in collect_in_arrow(wide, "sizes", sizes_of_batches, answer)]

    assert max(sizes()) <= 17
    assert spark.sparkContext.getLocalProperty(MOST_BYTES) is None
    spark.conf.set(MOST_BYTES, "100m")
    try:
        assert sizes() == [40]
    finally:
        spark.conf.unset(MOST_BYTES)
