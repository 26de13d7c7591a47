"""An append table of 2 M rows, 10 % of them deleted by deletion vectors, against `spark.read.parquet` of its files.

Prints seconds as all benchmarks do, and CPU seconds of the JVM and its Python workers, which are steadier.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from common import ROWS_BASE, Ratio, data_files, in_turn, key_rows, noop, scratch, spark_session

import paimon_spark

LIMIT = 1.2
OPTIONS = {"deletion-vectors.enabled": "true"}
_TICKS = os.sysconf("SC_CLK_TCK")


def make_table(path: str) -> None:
    """2 M rows in four files; each tenth row, by a hash, is deleted."""
    spark = spark_session()
    key_rows(spark, 0, ROWS_BASE).write.format("paimon").mode("append").options(**OPTIONS).save(path)
    paimon_spark.PaimonTable.for_path(spark, path).delete("pmod(hash(id), 10) = 0")


def cpu_seconds() -> float:
    """CPU seconds of the processes that this one has started, and of theirs: the JVM and the Python workers."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            spent[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    todo, total = [os.getpid()], 0.0
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0.0)
        todo += children.get(pid, [])
    return total


def cpu_in_turn(name: str, measured: Callable[[], object], yardstick: Callable[[], object], repeat: int = 6) -> Ratio:
    """As `in_turn`, in CPU seconds."""
    best = [float("inf"), float("inf")]
    for turn in range(repeat + 1):
        for which, run in enumerate((measured, yardstick)):
            start = cpu_seconds()
            run()
            if turn:
                best[which] = min(best[which], cpu_seconds() - start)
    return Ratio(f"{name} (CPU)", best[0], best[1])


def run() -> list[tuple[Ratio, float]]:
    """Measure whole reads and reads of two columns."""
    spark = spark_session()
    path = scratch("deletion_vectors")
    if not Path(path).exists():
        make_table(path)
    files = data_files(path)
    results = []
    for what, columns in (("all columns", ["*"]), ("two columns", ["id", "d"])):

        def ours(columns: list[str] = columns) -> None:
            noop(spark.read.format("paimon").load(path).select(*columns))

        def parquet(columns: list[str] = columns) -> None:
            noop(spark.read.parquet(*files).select(*columns))

        for measure in (in_turn, cpu_in_turn):
            results.append((measure(f"10 % deleted, {what} ÷ spark.read.parquet", ours, parquet), LIMIT))
    return results


if __name__ == "__main__":
    for ratio, limit in run():
        print(ratio.line(limit))
