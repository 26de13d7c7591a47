"""Queries through the SQL catalog: a row by its key, ``count(*)``, and how many py4j calls a plan takes.

`python benchmarks/catalog_queries.py` prints what `RESULTS.md` shows. The yardstick of the one-row query is the plain
data source with the same filter, which plans and reads the same file; CPU seconds are of this process and all its
children (the JVM and the workers), which other work on the machine disturbs far less than the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common import KEY_TABLES, ROWS_APPEND, append_rows, make_key_table, scratch, spark_session
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

import paimon_spark

KEY = 1_234_560
REPEAT = 15
_RELEASE = "m\nd\n"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Calls:
    """py4j calls of a piece of work."""

    to_jvm: int = 0
    from_jvm: int = 0

    def __str__(self) -> str:
        """For the table."""
        return f"{self.to_jvm} + {self.from_jvm}"


@contextmanager
def counted(spark: SparkSession) -> Iterator[Calls]:
    """Count the calls from Python into the JVM (releases of objects apart) and from the JVM into Python."""
    calls = Calls()
    client = spark.sparkContext._gateway._gateway_client
    send, call_proxy = client.send_command, ClientServerConnection._call_proxy

    def counting_send(command: str, *arguments: Any, **named: Any) -> Any:
        calls.to_jvm += not command.startswith(_RELEASE)
        return send(command, *arguments, **named)

    def counting_call(self: Any, *arguments: Any) -> Any:
        calls.from_jvm += 1
        return call_proxy(self, *arguments)

    client.send_command, ClientServerConnection._call_proxy = counting_send, counting_call
    try:
        yield calls
    finally:
        del client.send_command
        ClientServerConnection._call_proxy = call_proxy


def cpu_seconds() -> float:
    """CPU time of this process and of all its descendants, living and dead."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            times[int(folder.name)] = sum(int(field) for field in fields[11:15]) / _TICKS
    total, found = 0.0, [os.getpid()]
    while found:
        pid = found.pop()
        total += times.get(pid, 0.0)
        found += [child for child, parent in parents.items() if parent == pid]
    return total


@dataclass
class Cost:
    """Of one query: best and median seconds, and CPU seconds of all processes."""

    best: float
    middle: float
    cpu: float


def costs(queries: dict[str, Callable[[], object]], repeat: int = REPEAT) -> dict[str, Cost]:
    """Run the queries in turn, after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    cpu = dict.fromkeys(queries, 0.0)
    for turn in range(repeat + 3):
        for name, run in queries.items():
            start, start_cpu = time.perf_counter(), cpu_seconds()
            run()
            if turn > 2:
                seconds[name].append(time.perf_counter() - start)
                cpu[name] += cpu_seconds() - start_cpu
    return {name: Cost(min(taken), median(taken), cpu[name] / repeat) for name, taken in seconds.items()}


def one_row(spark: SparkSession) -> None:
    """A row by its key out of 2 M: the catalog against the plain data source."""
    path = scratch("deduplicate")
    if not Path(path).exists():
        make_key_table(spark, path, KEY_TABLES["deduplicate"])
    table = f"bench.`{path}`"

    def plain() -> Any:
        return spark.read.format("paimon").option("filter", f"id = {KEY}").load(path).collect()

    def catalog() -> Any:
        return spark.sql(f"SELECT * FROM {table} WHERE id = {KEY}").collect()

    assert catalog() == plain(), "the two ways read different rows"
    found = costs({"plain": plain, "catalog": catalog})
    print("| a row by its key, 2 M rows | best s | median s | CPU s |\n|---|---|---|---|")
    for name, cost in found.items():
        print(f"| {name} | {cost.best:.3f} | {cost.middle:.3f} | {cost.cpu:.3f} |")
    ours, theirs = found["catalog"], found["plain"]
    print(
        f"| **catalog ÷ plain** (at most 2) | **{ours.best / theirs.best:.2f}** | {ours.middle / theirs.middle:.2f} "
        f"| **{ours.cpu / theirs.cpu:.2f}** |"
    )


def count_star(spark: SparkSession) -> None:
    """``count(*)`` of 5 M rows, and the tasks that it runs."""
    path = scratch("append")
    if not Path(path).exists():
        append_rows(spark).write.format("paimon").save(path)
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("count", "count(*)")
    (row,) = spark.sql(f"SELECT count(*) FROM bench.`{path}`").collect()
    jobs = list(tracker.getJobIdsForGroup("count"))
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert row[0] == ROWS_APPEND, row
    cost = costs({"count": lambda: spark.sql(f"SELECT count(*) FROM bench.`{path}`").collect()})["count"]
    print(f"\n`count(*)` of {row[0]:,} rows: {len(jobs)} Spark jobs, {cost.best:.3f} s (CPU {cost.cpu:.3f})")


def py4j_calls(spark: SparkSession) -> None:
    """Calls of one plan, over tables of few and of many files and columns."""
    print(
        "\n| py4j calls of one plan (into the JVM + from it) | SELECT * | with a filter | count(*) |\n|---|---|---|---|"
    )
    spark.sql("CREATE DATABASE IF NOT EXISTS bench.calls")
    for files, columns in ((1, 3), (40, 3), (1, 200), (40, 200)):
        name = f"bench.calls.t_{files}_{columns}"
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        names = [f"id % 7 AS c{number}" for number in range(columns - 1)]
        rows = spark.range(40).selectExpr("id", *names, f"id % {files} AS p")
        rows.writeTo(name).partitionedBy("p").create()
        counts = []
        for query in ("", " WHERE id = 5 AND p = 0", None):
            text = f"SELECT count(*) FROM {name}" if query is None else f"SELECT * FROM {name}{query}"
            spark.sql(text)._jdf.queryExecution().executedPlan()
            with counted(spark) as calls:
                spark.sql(text)._jdf.queryExecution().executedPlan()
            counts.append(str(calls))
        print(f"| {files} files, {columns} columns | {' | '.join(counts)} |")


def main() -> None:
    """Print everything."""
    spark = spark_session()
    paimon_spark.register_catalog(spark, "bench", warehouse=scratch("catalog_warehouse"))
    py4j_calls(spark)
    one_row(spark)
    count_star(spark)
    spark.stop()


if __name__ == "__main__":
    main()
