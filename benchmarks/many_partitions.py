"""5,000 partitions in one INSERT of 50,000 rows into an append table without buckets: seconds, CPU seconds and files.

`python benchmarks/many_partitions.py` prints what `RESULTS.md` shows: rows as they come (``partition.sink-strategy`` =
none) against the default, in turn. CPU seconds are of all processes.
"""

from __future__ import annotations

import time
from pathlib import Path

from catalog_queries import cpu_seconds
from common import data_files, scratch, spark_session

import paimon_spark

PARTITIONS, ROWS, REPEAT = 5_000, 50_000, 3
CASES = {"default": "", "rows as they come": "TBLPROPERTIES ('partition.sink-strategy' = 'none')"}


def main() -> None:
    """Measure both cases; the first turn warms up."""
    spark = spark_session()
    root = Path(scratch("many_partitions"))
    paimon_spark.register_catalog(spark, "many", warehouse=str(root))
    spark.sql("CREATE DATABASE IF NOT EXISTS many.d")
    query = f"SELECT id, id % {PARTITIONS} AS p, concat('v', id) AS v FROM range(0, {ROWS}, 1, 2)"
    best: dict[str, tuple[float, float, int]] = {}
    for turn in range(REPEAT + 1):
        for case, properties in CASES.items():
            spark.sql(f"CREATE TABLE many.d.t (id BIGINT, p BIGINT, v STRING) PARTITIONED BY (p) {properties}")
            begin, begin_cpu = time.perf_counter(), cpu_seconds()
            spark.sql(f"INSERT INTO many.d.t {query}")
            taken = time.perf_counter() - begin, cpu_seconds() - begin_cpu, len(data_files(str(root / "d.db" / "t")))
            if turn:
                best[case] = min(best.get(case, taken), taken)
            spark.sql("DROP TABLE many.d.t")
    print(f"| {PARTITIONS:,} partitions, {ROWS:,} rows | s | CPU s | files |\n|---|---|---|---|")
    for case, (seconds, cpu, files) in best.items():
        print(f"| {case} | {seconds:.1f} | {cpu:.1f} | {files:,} |")


if __name__ == "__main__":
    main()
