"""Streams: one that is far behind against a batch read of the same rows, and what a poll costs that finds nothing.

5 M rows of 8 columns, 20 commits; the stream reads them as changes, 1 M rows a batch, to the noop sink. The other
yardstick is Spark's own stream of the same files: what is above it is ours, what is above the batch read is also what
Spark spends on each micro-batch, in logs and planning.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from common import ROWS_APPEND, Ratio, append_rows, in_turn, noop, scratch, spark_session
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.read.stream_scan import StreamScan
from paimon_spark.table.table import load_table

COMMITS = 20
MOST_ROWS = ROWS_APPEND // 5
POLLS = 200


def drain(stream: DataFrame, checkpoint: Path) -> int:
    """Run a query until it has caught up; return how many batches had rows."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


def write_history(spark: SparkSession, path: str) -> None:
    """Make the table where it is not there."""
    if not Path(path).exists():
        rows, each = append_rows(spark), ROWS_APPEND // COMMITS
        for first in range(0, ROWS_APPEND, each):
            some = rows.where(f"id >= {first} AND id < {first + each}").coalesce(1)
            some.write.format("paimon").mode("append").save(path)


def behind(spark: SparkSession, path: str) -> list[Ratio]:
    """A stream that reads all commits ÷ the batch read, and ÷ Spark's own stream of the files."""
    write_history(spark, path)
    options = {"scan.snapshot-id": "1", "read.stream.maxRowsPerTrigger": str(MOST_ROWS)}
    table = spark.read.format("paimon").load(path)
    stream = spark.readStream.format("paimon").options(**options).load(path)
    files = Path(path).parent / "streamed-files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    scan = StreamScan(load_table(path, options={"scan.snapshot-id": "1"}))
    for split in scan.batch(scan.initial(), scan.end_at_latest()).splits:
        for file in split.files:
            (files / file.name).hardlink_to(file.path)
    plain = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", str(COMMITS // 5)).parquet(str(files))
    checkpoint = Path(path).parent / "streamed-checkpoint"
    batches = [drain(each, checkpoint) for each in (stream, plain)]
    assert batches == [5, 5], batches
    yardsticks = {"batch read": lambda: noop(table), "Spark's stream of the files": lambda: drain(plain, checkpoint)}
    return [
        in_turn(f"5 M rows behind, 5 batches ÷ {name}", lambda: drain(stream, checkpoint), yardstick, repeat=4)
        for name, yardstick in yardsticks.items()
    ]


def poll_seconds(path: str) -> float:
    """Mean seconds of a poll that finds nothing."""
    scan = StreamScan(load_table(path))
    end = scan.latest(scan.initial())
    start = time.perf_counter()
    for _ in range(POLLS):
        assert scan.latest(end) == end
    return (time.perf_counter() - start) / POLLS


def run() -> list[tuple[Ratio, float]]:
    """Measure the stream that is behind."""
    return [(ratio, 1.3) for ratio in behind(spark_session(), scratch("streamed"))]


if __name__ == "__main__":
    table = scratch("streamed")
    for ratio in behind(spark_session(), table):
        print(ratio.line(1.3))
    print(f"empty poll: {poll_seconds(table) * 1000:.2f} ms (aim 50)", file=sys.stderr)
