"""Streams into tables: what a micro-batch costs beside a batch append, and a soak with kills.

`python -m benchmarks.stream_sink [batches]` writes so many micro-batches of 10,000 rows into a primary-key table, and
appends the same rows in as many batch writes, after each other in one session; the aim is 1.3.

`python -m benchmarks.stream_sink soak [batches]` runs the query in a process of its own, which is killed at a random
moment after its first micro-batch and started again, while another writer appends to the same table: at the end the
rows of both are there once. It prints sums, kills, and the largest memory of the query's Python and JVM.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import spark_session
from paimon_spark.commit.stream_batch import StreamBatch
from paimon_spark.read.row_views import ROWS as ALL_ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.source.table_write import planned
from paimon_spark.table.table import load_table

BATCHES, ROWS = 100, 10_000
AT_MOST = 1.3
SCHEMA = "k BIGINT, v BIGINT, note STRING"
KEYED = {"primary-key": "k", "bucket": "2"}


def feed(folder: Path, batches: int, rows: int = ROWS) -> None:
    """Write the files of a source, one for each micro-batch."""
    folder.mkdir()
    for number in range(batches):
        keys = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
        table = pa.table({"k": keys, "v": keys, "note": pa.array([f"batch {number}"] * rows)})
        pq.write_table(table, folder / f"part-{number:05}.parquet")
        os.utime(folder / f"part-{number:05}.parquet", (number, number))


def speed(batches: int) -> None:
    """Print the seconds of a micro-batch and of a batch append."""
    spark = spark_session()
    root = Path(tempfile.mkdtemp(prefix="paimon_sink_"))
    try:
        feed(root / "source", batches)
        seconds = {}
        for name in ("warm-up", "stream", "appends", "stream again", "appends again"):
            path, begin = str(root / name), time.perf_counter()
            if "append" in name:
                for number in range(batches):
                    rows = spark.read.schema(SCHEMA).parquet(str(root / "source" / f"part-{number:05}.parquet"))
                    rows.write.format("paimon").options(**KEYED).mode("append").save(path)
            else:
                stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / "source"))
                writer = stream.writeStream.format("paimon").options(**KEYED)
                writer = writer.option("checkpointLocation", str(root / f"{name} checkpoint"))
                writer.trigger(availableNow=True).start(path).awaitTermination()
            seconds[name] = time.perf_counter() - begin
            assert spark.read.format("paimon").load(path).count() == batches * ROWS
        stream_s, append_s = (min(seconds[name], seconds[f"{name} again"]) / batches for name in ("stream", "appends"))
        print(
            f"a micro-batch {stream_s:.3f} s, an append {append_s:.3f} s: {stream_s / append_s:.2f} (at most {AT_MOST})"
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


QUERY = """
import sys
from benchmarks.common import spark_session
from benchmarks.stream_sink import KEYED, SCHEMA
spark = spark_session()
stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(sys.argv[1])
writer = stream.writeStream.format("paimon").options(**KEYED).option("checkpointLocation", sys.argv[3])
writer.trigger(availableNow=True).start(sys.argv[2]).awaitTermination()
"""


def soak(batches: int) -> None:
    """Run the query, killed again and again, beside another writer; compare the sums."""
    root, chance = Path(tempfile.mkdtemp(prefix="paimon_sink_soak_")), random.Random(7)
    try:
        feed(root / "source", batches, 1000)
        command = [sys.executable, "-c", QUERY, *(str(root / name) for name in ("source", "t", "checkpoint"))]
        kills, written, most, done = 0, 0, 0, False
        while not done:
            with (root / "log").open("wb") as log:
                query = subprocess.Popen(command, start_new_session=True, stderr=log)
            before, end = _committed(root / "checkpoint"), None
            while query.poll() is None and (end is None or time.monotonic() < end):
                time.sleep(0.25)
                if end is None and _committed(root / "checkpoint") > before:  # it runs: the start takes long
                    end = time.monotonic() + chance.uniform(0, 6)
                most = max(most, _memory_of_group(query.pid))
                if (root / "t" / "schema").exists() and end is not None:
                    _append(str(root / "t"), written)
                    written += 1
            done = query.poll() == 0
            assert query.poll() in (None, 0), (root / "log").read_text()[-3000:]
            if not done:
                kills += 1
                os.killpg(query.pid, signal.SIGKILL)
                query.wait()
        rows, total = _sums(str(root / "t"))
        expected = batches * 1000
        others = -sum(range(1, written + 1))
        print(
            f"{batches} micro-batches, {kills} kills, {written} appends beside them: "
            f"{rows} rows of {expected + written}, sum {total} of {sum(range(expected)) + others}, "
            f"at most {most >> 20} MB"
        )
        assert (rows, total) == (expected + written, sum(range(expected)) + others)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _committed(checkpoint: Path) -> int:
    """The last micro-batch that Spark knows to be committed; -1 without one."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def _append(path: str, number: int) -> None:
    """Append a row of a negative key, in this process, as a stream of another name."""
    key = -1 - number
    batch = pa.record_batch({"k": [key], "v": [key], "note": ["beside"]})
    write = planned(load_table(path), batch.schema, shuffled=True)
    replace(write, stream=StreamBatch("beside", number)).commit([write.write_task([batch], 0)])


def _sums(path: str) -> tuple[int, int]:
    plan = TableScan.of(load_table(path), ALL_ROWS).select(columns=["v"]).plan()
    values = [
        batch.column(0).to_numpy()
        for split in plan.splits
        for batch in plan.read(plan.table, split, plan.fields, plan.residual)
    ]
    return sum(map(len, values)), sum(int(part.sum()) for part in values)


def _memory_of_group(group: int) -> int:
    """Resident bytes of the processes of a group."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        soak(*map(int, sys.argv[2:3] or ["300"]))
    else:
        speed(*map(int, sys.argv[1:2] or [str(BATCHES)]))
