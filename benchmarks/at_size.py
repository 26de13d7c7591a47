"""Tables with keys of millions of rows beside the official connector: write, read, group, compact.

`python -m benchmarks.at_size --official JAR --official-python PYTHON` runs the same statements by both connectors, each
in a session of its own, statement by statement in turn, so that both meet the same load (`--official-python`: an
interpreter with the PySpark that the jar is made for; start this one with the same). Rows have six columns, one of them
a string of 40 bytes. A table gets all rows, then three updates of a tenth each; a read merges them. Reads and groups
are run twice, the second time counts; a small table of the same kind warms each session up first. "rows, not written"
is what Spark takes for the rows alone, a part of each write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.stores import Row, in_turn, worker

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

COLUMNS = "id BIGINT NOT NULL, g BIGINT, a DOUBLE, b STRING, c INT, d DATE"
VALUES = (
    "id, id % 1000 AS g, id / 3.0D AS a, concat('row-', md5(cast(id AS STRING)), '----') AS b, "
    "cast(id % 100000 AS INT) AS c, date_add(DATE'2026-01-01', cast(id % 365 AS INT)) AS d"
)
KINDS = {"deduplicate": "", "partial-update": "'merge-engine'='partial-update', "}
WARM_UP = 200_000


def session(warehouse: str, official: str | None) -> Any:
    """A session with a catalog ``c``, ours or the official one's."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.driver.memory": "4g",
    }
    if official:
        settings["spark.jars"] = official
        settings["spark.sql.extensions"] = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
        settings["spark.sql.catalog.c"] = "org.apache.paimon.spark.SparkCatalog"
        settings["spark.sql.catalog.c.warehouse"] = f"file:{warehouse}"
    builder = SparkSession.builder.master("local[2]").appName("at size")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not official:
        import paimon_spark

        paimon_spark.register_catalog(spark, "c", warehouse=warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS c.d")
    return spark


def steps(spark: Any, kind: str, rows: int, buckets: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The statements over one table, in order."""
    name = f"c.d.t_{kind.replace('-', '_')}_{rows}"

    def insert(count: int, start: int = 0) -> None:
        spark.sql(f"INSERT INTO {name} SELECT {VALUES} FROM range({start}, {start + count}, 1, 8)")

    def updates() -> None:
        for turn in range(3):
            insert(rows // 10, turn * rows // 4)

    def read() -> None:
        spark.table(name).write.format("noop").mode("overwrite").save()

    def compact() -> None:
        table = name.removeprefix("c.")
        spark.sql(f"CALL c.sys.compact(table => '{table}', compact_strategy => 'full')").collect()

    spark.sql(
        f"CREATE TABLE {name} ({COLUMNS}) TBLPROPERTIES "
        f"({KINDS[kind]}'primary-key'='id', 'bucket'='{buckets}', 'write-only'='true')"
    )
    made = f"SELECT {VALUES} FROM range(0, {rows}, 1, 8)"
    yield "rows, not written", lambda: spark.sql(made).write.format("noop").mode("overwrite").save()
    yield "write", lambda: insert(rows)
    yield "3 updates of a tenth", updates
    yield "first read", read
    yield "read", read
    yield "", spark.sql(f"SELECT g, sum(a), max(c) FROM {name} GROUP BY g").collect
    yield "group", lambda: spark.sql(f"SELECT g, sum(a), max(c) FROM {name} GROUP BY g").collect()
    yield "full compaction", compact
    yield "", read
    yield "read, compacted", read
    spark.sql(f"DROP TABLE {name}")


def work(warehouse: str, sizes: list[int], kinds: list[str], buckets: int, official: str | None) -> None:
    """Measure one connector: a line of JSON for each statement, a line of input before the next."""
    sys.stdin.readline()
    spark = session(warehouse, official)
    for kind in kinds:
        for _, run in steps(spark, kind, WARM_UP, buckets):
            run()
    for rows in sizes:
        for kind in kinds:
            for name, run in steps(spark, kind, rows, buckets):
                start = time.perf_counter()
                run()
                if name:
                    seconds = time.perf_counter() - start
                    print(json.dumps([f"{kind} | {rows / 1e6:g} M | {name}", {"seconds": seconds}]), flush=True)
                    sys.stdin.readline()  # the other one's turn
    spark.stop()


@contextmanager
def _worker(python: str, arguments: list[str], official: str | None) -> Iterator[subprocess.Popen[str]]:
    with tempfile.TemporaryDirectory() as warehouse:
        given = ["benchmarks.at_size", "--worker", warehouse, *arguments]
        with worker(python, given, official) as process:
            yield process


def _line(name: str, row: Row, other: Row | None) -> str:
    cells = f"{other['seconds']:.2f} | **{row['seconds'] / other['seconds']:.2f}**" if other else "- | -"
    return f"| {name} | {row['seconds']:.2f} | {cells} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 10_000_000, 40_000_000])
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=[*KINDS])
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--official", help="the official connector's jar")
    parser.add_argument("--official-python", default=sys.executable)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.rows, given.kinds, given.buckets, given.official)
        return
    arguments = ["--rows", *map(str, given.rows), "--kinds", *given.kinds, "--buckets", str(given.buckets)]
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(sys.executable, arguments, None))]
        if given.official:
            workers.append(stack.enter_context(_worker(given.official_python, arguments, given.official)))
        ours, theirs = [*in_turn(workers), {}][:2]
    print("| merge engine | rows | statement | s | official s | ratio |")
    print("|---|---|---|---|---|---|")
    for name, row in ours.items():
        print(_line(name, row, theirs.get(name)))


if __name__ == "__main__":
    main()
