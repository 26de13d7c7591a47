"""A table in long use: 200 upserts, deletes, updates and merges, each followed by the compaction that it makes due.

`python -m benchmarks.soak [commits]` prints, as a plot, what must stay flat: the time of a read, the number of data
files and of manifests. Rows are checked against a model (a dictionary) at the end.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

import paimon_spark
from benchmarks.common import noop, spark_session
from paimon_spark.table.table import load_table

COMMITS = 200
KEYS = 300_000
ROWS = 20_000
EVERY = 5
_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class State:
    """What is seen after some commits."""

    commits: int
    read_seconds: float
    files: int
    manifests: int


def main(commits: int = COMMITS) -> None:
    """Run the soak and print its plot."""
    spark = spark_session()
    warehouse = tempfile.mkdtemp(prefix="paimon_soak_")
    paimon_spark.register_catalog(spark, "soak", warehouse=warehouse)
    try:
        spark.sql("CREATE DATABASE soak.d")
        spark.sql(
            "CREATE TABLE soak.d.t (k INT NOT NULL, v BIGINT, note STRING) TBLPROPERTIES ('primary-key' = 'k', "
            "'bucket' = '2', 'snapshot.num-retained.max' = '10', 'snapshot.num-retained.min' = '5')"
        )
        rng, model, states = random.Random(7), dict[int, int](), list[State]()
        for number in range(1, commits + 1):
            _commit(spark, rng, model, number)
            if number % EVERY == 0:
                states.append(_state(spark, f"{warehouse}/d.db/t", number))
        found = spark.sql("SELECT count(*), sum(v) FROM soak.d.t").first()
        assert found is not None
        assert tuple(found) == (len(model), sum(model.values())), "rows were lost or doubled"
        kinds = spark.sql("SELECT commit_kind, count(*) FROM soak.d.`t$snapshots` GROUP BY ALL").collect()
        print(f"{commits} commits, {len(model):,} rows; kinds of the snapshots kept: {dict(map(tuple, kinds))}")
        print_plot(states)
    finally:
        shutil.rmtree(warehouse, ignore_errors=True)
        spark.stop()


def _commit(spark: SparkSession, rng: random.Random, model: dict[int, int], number: int) -> None:
    """One statement of a random kind, on the table and on the model."""
    kind = rng.choice(["upsert"] * 6 + ["delete", "update", "merge"])
    start = rng.randrange(KEYS)
    keys = range(start, min(start + ROWS, KEYS))
    values = f"SELECT CAST(id AS INT) k, id * {number} v, 'commit {number}' note FROM range({keys.start}, {keys.stop})"
    if kind == "delete":
        spark.sql(f"DELETE FROM soak.d.t WHERE k BETWEEN {keys.start} AND {keys.start + ROWS // 10}")
        for key in range(keys.start, keys.start + ROWS // 10 + 1):
            model.pop(key, None)
    elif kind == "update":
        stop = keys.start + ROWS // 10
        spark.sql(f"UPDATE soak.d.t SET v = v + 1 WHERE k BETWEEN {keys.start} AND {stop}")
        model.update({key: model[key] + 1 for key in range(keys.start, stop + 1) if key in model})
    elif kind == "merge":
        spark.sql(
            f"MERGE INTO soak.d.t t USING ({values}) s ON t.k = s.k WHEN MATCHED AND s.k % 10 = 0 THEN DELETE WHEN "
            "MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
        for key in keys:
            if key in model and key % 10 == 0:
                del model[key]
            else:
                model[key] = key * number
    else:
        spark.sql(f"INSERT INTO soak.d.t {values}")
        model.update({key: key * number for key in keys})


def _state(spark: SparkSession, path: str, commits: int) -> State:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        noop(spark.read.format("paimon").load(path))
        seconds.append(time.perf_counter() - start)
    table = load_table(path)
    latest = table.snapshots.latest()
    assert latest is not None
    files = table.manifests.live_columns(latest, statistics=False)
    return State(commits, min(seconds), len(files), len(table.manifests.data_manifests(latest)))


def print_plot(states: Sequence[State]) -> None:
    """Print a line of bars for each figure, and the largest of the second half by that of the first."""
    for name in ("read_seconds", "files", "manifests"):
        numbers = [float(getattr(state, name)) for state in states]
        top = max(numbers)
        half = len(numbers) // 2
        growth = max(numbers[half:]) / max(numbers[:half] or numbers)
        shown = f"{min(numbers):.2f} to {top:.2f}" if name == "read_seconds" else f"{min(numbers):.0f} to {top:.0f}"
        print(f"{name.replace('_', ' '):<13} {bars(numbers, top)}  {shown}; second half / first: {growth:.2f}")


def bars(numbers: Sequence[float], top: float) -> str:
    """Return one bar for each number, the highest for `top`."""
    return "".join(_BLOCKS[max(1, round(number / top * (len(_BLOCKS) - 1)))] for number in numbers)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
