"""Writes that are compacted before they return: 200 k updates of 2 M rows through Spark, with and without lookups.

CPU seconds of the driver, its JVM and its workers; the tables are those of `changelog.py`, compacted to the top level.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import paimon_spark
from benchmarks.changelog import make, rows, write
from paimon_spark.maintain.compact.compaction import compact

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

KINDS = {
    "without": {},
    "changelog-producer = lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "both": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
}
AT_MOST = 2.0
RUNS = 5


def cpu_of_tree() -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = Path(path).read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        process = int(path.split("/")[2])
        parents[process] = int(fields[1])
        seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(process: int) -> bool:
        while process not in (0, 1, os.getpid()):
            process = parents.get(process, 0)
        return process == os.getpid()

    return sum(used for process, used in seconds.items() if is_ours(process))


def copy_of(base: FileStoreTable, path: Path, options: dict[str, str]) -> str:
    """A copy of a table with more options in its schema."""
    shutil.copytree(base.path, path)
    schema = path / "schema" / "schema-0"
    stored = json.loads(schema.read_text())
    schema.write_text(json.dumps({**stored, "options": {**stored["options"], **options}}))
    return str(path)


def main() -> None:
    """Print a Markdown table."""
    root = Path(tempfile.mkdtemp(prefix="paimon-bench-"))
    base = make(root / "base", {})
    write(base, rows(0))
    compact(base)
    pq.write_table(rows(1), root / "update.parquet")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    paimon_spark.register(spark)
    best = dict.fromkeys(KINDS, (float("inf"), float("inf")))
    for run in range(RUNS):
        for kind, options in KINDS.items():
            path = copy_of(base, root / f"{kind.replace(' ', '')}{run}", options)
            table = paimon_spark.PaimonTable.for_path(spark, path)
            updates = spark.read.parquet(str(root / "update.parquet"))
            cpu, wall = cpu_of_tree(), time.perf_counter()
            table.append(updates)
            used = cpu_of_tree() - cpu, time.perf_counter() - wall
            best[kind] = min(best[kind][0], used[0]), min(best[kind][1], used[1])
            shutil.rmtree(path)
    print("| 200 k updates of 2 M rows | CPU s | s | ratio (CPU) | at most |\n|---|---|---|---|---|")
    for kind, (cpu, wall) in best.items():
        print(f"| {kind} | {cpu:.2f} | {wall:.2f} | **{cpu / best['without'][0]:.2f}** | {AT_MOST:g} |")
    spark.stop()
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
