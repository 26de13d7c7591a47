"""What automatic compaction costs a writer and gives a reader: 50 upsert commits of 100,000 rows.

The mean time of a commit with it, by that of the same commits into a write-only table (at most 1.5); then a read of the
table, by one of a copy that is compacted in full (at most 1.3). Seconds of the clock, and CPU seconds of all processes.

`python -m benchmarks.automatic_compaction [commits [keys]]`: of a million keys; more make a longer read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from benchmarks.common import in_turn, noop, spark_session
from benchmarks.lookup_writes import cpu_of_tree
from paimon_spark.spark.jobs.table_compaction import compact_table
from paimon_spark.table.table import load_table

COMMITS = 50
ROWS = 100_000
KEYS = 1_000_000
AT_MOST_WRITE, AT_MOST_READ = 1.5, 1.3


def main(commits: int = COMMITS, keys: int = KEYS) -> None:
    """Print the two ratios."""
    spark = spark_session()
    root = Path(tempfile.mkdtemp(prefix="paimon_automatic_"))
    try:
        paths = {kind: str(root / kind) for kind in ("without", "with")}
        for kind, path in paths.items():
            options = {"bucket": "2", "write-only": str(kind == "without").lower()}
            paimon_spark.PaimonTable.create(
                spark, path, "k INT NOT NULL, v BIGINT, note STRING", primary_key="k", options=options
            )
        clock, cpu = dict.fromkeys(paths, 0.0), dict.fromkeys(paths, 0.0)
        for number in range(-2, commits):  # two for warm-up
            for kind, path in paths.items():
                rows = spark.range(0, ROWS, 1, 2).selectExpr(
                    f"CAST(pmod(hash(id, {number}), {keys}) AS INT) k", f"id * {number} v", f"'commit {number}' note"
                )
                seconds, used = timed(lambda rows=rows, path=path: _append(rows, path))
                if number >= 0:
                    clock[kind] += seconds
                    cpu[kind] += used
        for name, spent in (("clock", clock), ("CPU", cpu)):
            mean = {kind: seconds / commits for kind, seconds in spent.items()}
            print(
                f"{name}: a commit {mean['with']:.2f} s with, {mean['without']:.2f} s without: "
                f"{mean['with'] / mean['without']:.2f} (at most {AT_MOST_WRITE})"
            )
        compacted = str(root / "compacted")
        shutil.copytree(paths["with"], compacted)
        compact_table(spark, load_table(compacted).with_options({"write-only": "false"}))
        read = in_turn(
            "read after",
            lambda: _read(spark, paths["with"]),
            lambda: _read(spark, compacted),
        )
        print(read.line(AT_MOST_READ))
        for name, path in (("read after", paths["with"]), ("read of the write-only table", paths["without"])):
            used = [min(timed(lambda at=at: _read(spark, at))[1] for _ in range(4)) for at in (path, compacted)]
            print(f"{name}, CPU: {used[0]:.2f} s, {used[1]:.2f} s of a compacted copy: {used[0] / used[1]:.2f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


def _append(rows: DataFrame, path: str) -> None:
    rows.write.format("paimon").mode("append").save(path)


def _read(spark: SparkSession, path: str) -> None:
    noop(spark.read.format("paimon").load(path))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and CPU seconds of all processes."""
    start, used = time.perf_counter(), cpu_of_tree()
    work()
    return time.perf_counter() - start, cpu_of_tree() - used


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
