"""Random steps of ours and of Java, by turns, in one table of postponed buckets: postponed rows, rows in real buckets.

Either side writes postponed rows, writes to real buckets, deletes, and compacts. We alone take postponed rows in, since
Java does that in its engines. After each step the rows are those of a dict, for us and for Java, also with the rows
that wait merged into them.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark import PaimonTable
from paimon_spark.table.table import load_table
from tests.support.cross_partition import COLUMNS, Model, Row
from tests.support.levels import check_files
from tests.support.seeds import chance

pytestmark = [pytest.mark.spark, pytest.mark.peer]

FIXED = "postpone.batch-write-fixed-bucket"
POSTPONED = {"bucket": "-2", FIXED: "false", "postpone.default-bucket-num": "2", "write-only": "true"}
REAL = {"bucket": "2", "write-only": "false", "num-sorted-run.compaction-trigger": "3"}
"""With these, Java's writers and compactions work on the real buckets, as its own batch writes do."""
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
}
STEPS = 5


class Postponed:
    """The table, and what it holds by a model: the rows in buckets, and those that wait, in order."""

    def __init__(self, spark: SparkSession, oracle: Any, engine: str, options: dict[str, str]) -> None:
        self.spark, self.oracle, self.engine = spark, oracle, engine
        self.name = oracle.fresh_name("postponed")
        oracle.create(self.name, COLUMNS, pk=["k", "p"], partition=["p"], options={**POSTPONED, **options})
        self.path = oracle.location(self.name).removeprefix("file:")
        self.table = PaimonTable.for_path(spark, self.path)
        self.model, self.pending = Model(engine, cross_partition=False), list[tuple[Row, str]]()

    def rows(self, rng: random.Random) -> list[tuple[Row, str]]:
        """Some rows, all of other keys, and their kinds."""
        keys = rng.sample([(k, p) for k in range(6) for p in range(3)], rng.randint(1, 8))
        kinds = ("+I", "+U", "-D") if self.engine == "deduplicate" else ("+I",)
        values = [(rng.choice([None, "a", "b"]), rng.choice([None, 1, 2])) for _ in keys]
        return [((*key, *value), rng.choice(kinds)) for key, value in zip(keys, values, strict=True)]

    def write(self, rng: random.Random, *, java: bool, real: bool) -> None:
        given = self.rows(rng)
        if java:
            options = REAL | {"write-only": rng.choice(["true", "false"])} if real else {}
            kinds = [kind for _, kind in given]
            self.oracle.write(self.name, [row for row, _ in given], kinds=kinds, options=options)
        else:
            given = [(row, "+I") for row, _ in given]
            df = self.spark.createDataFrame([row for row, _ in given], "k int, p int, v string, n int").coalesce(1)
            self.table.append(df, **{FIXED: str(real).lower()})
        if not real:
            self.pending += given
            return
        for row, kind in given:
            put(self.model, row, kind)

    def delete(self, rng: random.Random) -> None:
        """Delete what readers see: as any write of this table, it waits."""
        k = rng.randrange(6)
        self.table.delete(f"k = {k}")
        self.pending += [(row, "-D") for key, row in self.model.rows.items() if key[0] == k]

    def compact(self, rng: random.Random, *, java: bool) -> None:
        if java and not self.pending:
            self.oracle.compact(self.name, full=rng.random() < 0.5, options=REAL)
            return
        self.table.compact(compact_strategy=rng.choice(["full", "minor"]))
        for row, kind in self.pending:
            put(self.model, row, kind)
        self.pending = []

    def step(self, rng: random.Random) -> str:
        """Do something; return what."""
        java = rng.random() < 0.5
        chosen = rng.choice(["wait", "wait", "real", "compact", "delete"])
        if chosen == "delete" and self.engine == "deduplicate":
            self.delete(rng)
        elif chosen == "compact":
            self.compact(rng, java=java)
        else:
            self.write(rng, java=java, real=chosen == "real")
        return f"{chosen} by {'Java' if java else 'us'}"

    def check(self, done: str) -> None:
        want = self.model.sorted_rows()
        assert sorted((tuple(row) for row in self.table.to_df().collect()), key=repr) == want, done
        assert sorted(self.oracle.rows(self.name), key=repr) == want, done
        check_files(self.path)
        entries = load_table(self.path).manifests.live_entries(load_table(self.path).snapshots.latest())
        assert {entry.total_buckets for entry in entries if entry.bucket >= 0} <= {2}
        assert any(entry.bucket == -2 for entry in entries) == bool(self.pending), done
        if self.pending:
            both = Model(self.engine, cross_partition=False)
            both.rows = dict(self.model.rows)
            for row, kind in self.pending:
                put(both, row, kind)
            merged = self.table.to_df(**{"postpone_merge_on_read": "true"}).collect()
            assert sorted(map(tuple, merged), key=repr) == both.sorted_rows(), done


def put(model: Model, row: Row, kind: str) -> None:
    if kind == "-D":
        model.rows.pop((row[0], row[1]), None)
    else:
        model.put(row)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_steps_by_turns(spark: SparkSession, oracle: Any, file_format: str) -> None:
    rng = chance("postponed", file_format)
    engine = rng.choice(list(ENGINES))
    options = {**ENGINES[engine], "file.format": file_format, "changelog-producer": rng.choice(["none", "input"])}
    table = Postponed(spark, oracle, engine, options)
    done = [engine]
    table.write(rng, java=rng.random() < 0.5, real=rng.random() < 0.5)
    for _ in range(STEPS):
        done.append(table.step(rng))
        table.check(", ".join(done))
    table.compact(rng, java=False)
    table.check("all taken in")
    table.write(rng, java=True, real=True)
    table.compact(rng, java=True)
    table.check("Java compacted last")
