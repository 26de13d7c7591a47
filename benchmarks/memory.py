"""The most memory of each Python process while rows of 2 kB are upserted, merged and read at the default budget.

`python benchmarks/memory.py [rows] [steps]`: steps are some of insert, upsert, read, merge and compact, with commas;
all when not given. All processes of one session are measured: its own, which plans and commits, and those of its tasks.
The kernel's own peak of each is read (Linux).
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession

import paimon_spark

ROWS = 1_500_000
STEPS = ("insert", "upsert", "read", "merge", "compact")
VALUE = "concat({})".format(", ".join(f"sha2(cast(id * 16 + {n} + {{seed}} as string), 512)" for n in range(16)))
TABLE = "paimon.db.t"


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process; nothing once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def python_children(root: int) -> Iterator[tuple[int, int]]:
    """Yield each Python process below this one, and its peak in kB since it was last forgotten."""
    parents, peaks = {}, {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        found = status(pid)
        if "PPid" in found:
            parents[pid] = int(found["PPid"])
            if "python" in found["Name"]:
                peaks[pid] = int(found.get("VmHWM", "0 kB").split()[0])
    for pid, peak in peaks.items():
        above = parents[pid]
        while above > 1 and above != root:
            above = parents.get(above, 0)
        if above == root:
            yield pid, peak


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print the time, and the peaks of the process of the session and of the largest task.

    Files of shuffles of earlier steps go before it.
    """
    SparkSession.active().sparkContext._jvm.System.gc()  # type: ignore[union-attr]
    ended, peaks = threading.Event(), {"task": 0}

    def look() -> None:
        while not ended.wait(0.2):
            peaks["task"] = max([peaks["task"], *(peak for _, peak in python_children(os.getpid()))])

    for pid in (os.getpid(), *(child for child, _ in python_children(os.getpid()))):
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
    watching, started = threading.Thread(target=look), time.perf_counter()
    watching.start()
    yield
    ended.set()
    watching.join()
    own = int(status(os.getpid())["VmHWM"].split()[0])
    took = time.perf_counter() - started
    print(f"{name:45} {took:6.1f} s  task {peaks['task'] >> 10:5} MB  driver {own >> 10:5} MB", flush=True)


def rows_of(spark: SparkSession, rows: int, seed: int, step: int = 1) -> DataFrame:
    """Rows in another order than that of their keys."""
    keys = spark.range(0, rows, step, 8).selectExpr(f"pmod(id * 7919, {rows}) as id")
    return keys.selectExpr("id as k", f"{VALUE.format(seed=seed)} as v", f"{seed} as n")


def main(rows: int, steps: Collection[str]) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as warehouse:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "3g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", warehouse)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        paimon_spark.register_catalog(spark, "paimon", warehouse=warehouse)
        spark.sql("CREATE NAMESPACE paimon.db")
        options = "'primary-key' = 'k', 'bucket' = '2', 'num-sorted-run.compaction-trigger' = '30', "
        options += "'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '3'"  # so disks need less
        spark.sql(f"CREATE TABLE {TABLE} (k BIGINT, v STRING, n INT) TBLPROPERTIES ({options})")

        def read(python: bool) -> None:
            spark.conf.set("spark.paimon.read.spark-parquet", str(not python).lower())
            spark.table(TABLE).write.format("noop").mode("overwrite").save()
            spark.conf.unset("spark.paimon.read.spark-parquet")

        print(f"{rows} rows of 2 kB, 2 buckets, budgets of 256 MB")
        with measured("INSERT"):
            rows_of(spark, rows, 1).writeTo(TABLE).append()
        if "upsert" in steps:
            with measured("upsert of all rows"):
                rows_of(spark, rows, 2).writeTo(TABLE).append()
        if "read" in steps:
            with measured("read, merged in tasks"):
                read(python=True)
            with measured("read by Spark, keys merged in the driver"):
                read(python=False)
        if "merge" in steps:
            rows_of(spark, rows, 3).createOrReplaceTempView("source")
            merge = f"MERGE INTO {TABLE} t USING source s ON t.k = s.k WHEN MATCHED AND s.k % 5 > 0 THEN UPDATE SET * "
            with measured("MERGE of as many rows, a read next to it"):
                reading = threading.Thread(target=read, args=(True,))
                reading.start()
                spark.sql(merge + "WHEN NOT MATCHED THEN INSERT *")
                reading.join()
        if "merge" in steps and "read" in steps:
            with measured("read again, merged in tasks"):
                read(python=True)
        if "compact" in steps:
            with measured("full compaction"):
                spark.sql("CALL paimon.sys.compact(table => 'db.t', compact_strategy => 'full')")
        assert spark.table(TABLE).count() == rows
        spark.stop()


if __name__ == "__main__":
    chosen = sys.argv[2].split(",") if len(sys.argv) > 2 else STEPS
    if unknown := {*chosen} - {*STEPS}:
        raise SystemExit(f"There is no step {', '.join(sorted(unknown))}. Steps are {', '.join(STEPS)}.")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS, chosen)
