"""Streams into tables: what a micro-batch costs alongside a batch append.

`python -m benchmarks.stream_sink [batches]` writes so many micro-batches of 10,000 rows into a primary-key table, and
appends the same rows in as many batch writes, after each other in one session; the aim is 1.3.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import spark_session

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


if __name__ == "__main__":
    speed(*map(int, sys.argv[1:2] or [str(BATCHES)]))
