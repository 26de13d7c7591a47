"""Random MERGE statements: the rows are those of a model that Spark computes by joins of copies; Java reads them."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.spark.sql import merge_strategy
from tests.support import seeds

pytestmark = [pytest.mark.spark, pytest.mark.peer, pytest.mark.catalog("merged")]

Row = tuple[Any, ...]
STEPS = 2
"""Few in one run: the seed, and so the statements, are others each day."""
COLUMNS = {"k": "INT NOT NULL", "p": "STRING NOT NULL", "v": "STRING", "n": "BIGINT"}
NAMES = tuple(COLUMNS)
REMOVES = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
SUMS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "aggregation.remove-record-on-delete": "true",
}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {"bucket": "2"},
    "deduplicate, dynamic, partitioned": {"bucket": "-1", "partition": "p"},
    "deduplicate, changelog of the input": {"bucket": "2", "changelog-producer": "input"},
    "deduplicate, changelog by lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "deduplicate, vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "partial-update": {"bucket": "2", **REMOVES},
    "aggregation": {"bucket": "2", **SUMS},
    "first-row": {"bucket": "1", "merge-engine": "first-row"},
    "append": {},
    "append, partitioned": {"partition": "p"},
    "append, vectors": {"deletion-vectors.enabled": "true"},
    "append, tracked": {"row-tracking.enabled": "true"},
}
KEYED_ON = ("t.k = s.k AND t.p = s.p", "t.p = s.p AND s.k <=> t.k AND t.n > 3")
ON = (*KEYED_ON, "t.k = s.k", "t.k % 4 = s.k AND s.n IS NOT NULL")
CONDITIONS = (None, None, "s.n > 5", "t.n IS NULL OR t.n < s.n", "t.v = s.v", "s.v IN (SELECT v FROM {target})")
SOURCE_CONDITIONS = (None, None, "s.n > 5", "s.v IS NOT NULL")
TARGET_CONDITIONS = (None, "t.n > 4", "t.v IS NULL", "t.k % 2 = 0")
SETS: tuple[dict[str, str], ...] = (
    {"v": "s.v"}, {"n": "coalesce(t.n, 0) + coalesce(s.n, 1)"}, {"v": "concat(t.v, s.p)", "n": "s.n"},
    {"k": "t.k", "n": "s.k"},
)  # fmt: skip
STAR = {"k": "s.k", "p": "s.p", "v": "s.v", "n": "s.n"}


@dataclass
class Clause:
    """One WHEN clause."""

    deed: str
    condition: str | None
    values: dict[str, str] = field(default_factory=dict)
    star: bool = False

    def text(self, when: str) -> str:
        condition = "" if self.condition is None else f" AND {self.condition}"
        if self.deed == "INSERT" and not self.star:
            names, values = ", ".join(self.values), ", ".join(self.values.values())
            return f"WHEN {when}{condition} THEN INSERT ({names}) VALUES ({values})"
        sets = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        tail = {"DELETE": "", "INSERT": " *", "UPDATE": " SET *" if self.star else f" SET {sets}"}[self.deed]
        return f"WHEN {when}{condition} THEN {self.deed}{tail}"


def clauses_of(chance: random.Random, engine: str, *, keyed: bool, plain: bool) -> dict[str, list[Clause]]:
    """Clauses by chance, those that the engine takes.

    Args:
        chance: the choices.
        engine: the merge engine; an append table's is "".
        keyed: whether rows have keys, which stay.
        plain: whether no key of the source can be in a row of the table that it does not match.
    """
    updates, deletes = engine in ("", "deduplicate", "partial-update"), engine != "first-row"

    def changing(conditions: tuple[str | None, ...], sets: tuple[dict[str, str], ...], *, star: bool) -> list[Clause]:
        found = []
        for _ in range(chance.choice((0, 1, 1, 2))):
            deed = chance.choice([d for d, can in (("UPDATE", updates), ("DELETE", deletes)) if can] or ["none"])
            if deed == "none":
                continue
            whole = star and deed == "UPDATE" and chance.random() < 0.4
            values = STAR if whole else chance.choice(sets) if deed == "UPDATE" else {}
            found.append(Clause(deed, chance.choice(conditions), dict(values), whole))
        return reachable(found)

    def reachable(found: list[Clause]) -> list[Clause]:
        for clause in found[:-1]:
            clause.condition = clause.condition or "1 = 1"
        return found

    inserts = [
        Clause("INSERT", chance.choice(SOURCE_CONDITIONS), STAR, star=True)
        if chance.random() < 0.5
        else Clause("INSERT", chance.choice(SOURCE_CONDITIONS), {"p": "s.p", "k": "s.k + 20", "n": "s.n"})
        for _ in range(chance.choice((0, 1, 2)))
    ]
    own = tuple({n: v for n, v in values.items() if "s." not in v} or {"v": "'alone'"} for values in SETS)
    found = {
        "MATCHED": changing(CONDITIONS, SETS, star=plain or not keyed),
        "NOT MATCHED": reachable(inserts),
        "NOT MATCHED BY SOURCE": changing(TARGET_CONDITIONS, own, star=False) if plain else [],
    }
    if not any(found.values()):
        found["NOT MATCHED"] = [Clause("INSERT", None, STAR, star=True)]
    return found


class Model:
    """The rows of a table by the official semantics, from joins of plain DataFrames."""

    def __init__(self, spark: SparkSession, engine: str) -> None:
        self.spark = spark
        self.engine = engine
        self.rows: list[Row] = []
        self.graves: dict[Row, Row] = {}
        """Rows that were deleted: a partial update or an aggregation that comes later goes on from them, as in Java."""

    def merge(self, source: list[Row], on: str, clauses: dict[str, list[Clause]]) -> bool:
        """Do what a MERGE does; False where a row is changed twice, which it must not."""
        schema = ", ".join(
            f"{name} {'INT' if name == 'k' else 'BIGINT' if name == 'n' else 'STRING'}" for name in NAMES
        )
        numbered = [(*row, at) for at, row in enumerate(self.rows)]
        self.spark.createDataFrame(numbered, f"{schema}, at INT").createOrReplaceTempView("merge_target")
        self.spark.createDataFrame(source, schema).selectExpr("*", "true AS there").createOrReplaceTempView(
            "merge_source"
        )
        flat = [(when, clause) for when, found in clauses.items() for clause in found]
        when = {"MATCHED": "t.at IS NOT NULL AND s.there", "NOT MATCHED": "t.at IS NULL",
                "NOT MATCHED BY SOURCE": "s.there IS NULL"}  # fmt: skip
        columns = [
            f"coalesce({when[kind]} AND ({clause.condition or 'true'}), false) AS c{at}".format(target="merge_target")
            for at, (kind, clause) in enumerate(flat)
        ]
        for at, (_, clause) in enumerate(flat):
            values = {**{name: f"t.{name}" for name in NAMES}, **clause.values} if clause.deed != "INSERT" else {
                **dict.fromkeys(NAMES, "NULL"), **clause.values}  # fmt: skip
            columns.append(f"struct({', '.join(f'{values[name]} AS {name}' for name in NAMES)}) AS v{at}")
        found = self.spark.sql(
            f"SELECT t.at, {', '.join(columns)} FROM merge_target t FULL JOIN merge_source s ON {on}"
        ).collect()
        return self._apply([row for row in found if any(row[f"c{at}"] for at in range(len(flat)))], flat)

    def _apply(self, found: list[Any], flat: list[tuple[str, Clause]]) -> bool:
        first = [next(at for at in range(len(flat)) if row[f"c{at}"]) for row in found]
        times = Counter(row.at for row, at in zip(found, first, strict=True) if flat[at][0] == "MATCHED")
        matched = [clause for when, clause in flat if when == "MATCHED"]
        only_deletes = len(matched) == 1 and matched[0].deed == "DELETE" and matched[0].condition is None
        if max(times.values(), default=0) > 1 and not only_deletes:
            return False
        gone, new = set(), []
        for row, at in zip(found, first, strict=True):
            deed = flat[at][1].deed
            value = tuple(row[f"v{at}"])
            if deed != "INSERT":
                gone.add(row.at)
            if deed == "DELETE" and self.engine in ("partial-update", "aggregation"):
                self.graves[self.rows[row.at][:2]] = self.rows[row.at]
            if deed != "DELETE":
                new.append((row.at, value))
        old = dict(enumerate(self.rows))
        self.rows = [row for at, row in old.items() if at not in gone or self.engine == "partial-update"]
        if self.engine == "partial-update":
            dead = set(self.graves) - {value[:2] for _, value in new}
            self.rows = [row for row in self.rows if row[:2] not in dead]
        for _, value in new:
            self._put(value)
        return True

    def _put(self, value: Row) -> None:
        if not self.engine:
            self.rows.append(value)
            return
        old = next((row for row in self.rows if row[:2] == value[:2]), None)
        if old is None and self.engine in ("partial-update", "aggregation"):
            old = self.graves.pop(value[:2], None)
        elif old is not None:
            self.rows.remove(old)
        if old is not None and self.engine == "first-row":
            value = old
        elif old is not None and self.engine == "partial-update":
            value = tuple(o if n is None else n for o, n in zip(old, value, strict=True))
        elif old is not None and self.engine == "aggregation":
            total = None if old[3] is None and value[3] is None else (old[3] or 0) + (value[3] or 0)
            value = (*value[:2], old[2] if value[2] is None else value[2], total)
        self.rows.append(value)


def rows_by_chance(chance: random.Random, count: int, *, twice: bool) -> list[Row]:
    keys = chance.choices(range(12), k=count) if twice else chance.sample(range(12), count)
    return [(k, "xy"[k % 2], chance.choice((None, "a", "b")), chance.choice((None, *range(10)))) for k in keys]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small tables, too, only what the source can match is read."""
    monkeypatch.setattr(merge_strategy, "_LEAST_ROWS", 0)


def source_frame(spark: SparkSession, source: list[Row], *, cached: bool) -> DataFrame:
    """The rows as view `merge_rows`; where they are cached, their range is looked up."""
    frame = spark.createDataFrame(source, "k INT, p STRING, v STRING, n BIGINT")
    (frame.cache() if cached else frame).createOrReplaceTempView("merge_rows")
    return frame


@pytest.mark.parametrize("kind", TABLES)
def test_random_merges(spark: SparkSession, oracle: Any, warehouse: Path, kind: str) -> None:
    chance = seeds.chance("merge", kind)
    options = dict(TABLES[kind])
    number = list(TABLES).index(kind)
    name = f"merged.db.t{number}"
    keyed = not kind.startswith("append")
    partition = options.pop("partition", None)
    if keyed:
        options["primary-key"] = "k,p"
    properties = ", ".join(f"'{k}'='{v}'" for k, v in {"file.format": "parquet", **options}.items())
    by = f"PARTITIONED BY ({partition})" if partition else ""
    columns = ", ".join(f"{column} {sql}" for column, sql in COLUMNS.items())
    spark.sql(f"CREATE TABLE {name} ({columns}) {by} TBLPROPERTIES ({properties})")
    engine = options.get("merge-engine", "deduplicate") if keyed else ""
    model = Model(spark, engine)
    for step in range(STEPS + 1):
        source = rows_by_chance(
            chance, 8 if not step else chance.randint(0, 8), twice=step > 0 and chance.random() < 0.3
        )
        on = chance.choice(KEYED_ON if keyed else ON)
        plain = on == KEYED_ON[0]
        clauses = clauses_of(chance, engine, keyed=keyed, plain=plain)
        if not step:
            clauses = {"NOT MATCHED": [Clause("INSERT", None, STAR, star=True)]}
        elif keyed and len({row[:2] for row in source}) < len(source):
            clauses["NOT MATCHED"] = []  # which of two rows of one key is inserted last is not said
            clauses["MATCHED"] = clauses["MATCHED"] or [Clause("DELETE", None)] if engine != "first-row" else []
            if not any(clauses.values()):
                continue
        frame = source_frame(spark, source, cached=chance.random() < 0.7)
        parts = [clause.text(when) for when, found in clauses.items() for clause in found]
        text = f"MERGE INTO {name} t USING merge_rows s ON {on} {' '.join(parts)}".format(target=name)
        said = f"{step}: {text}\n{source}\n{model.rows}"
        if model.merge(source, on, clauses):
            spark.sql(text).collect()
        else:
            with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
                spark.sql(text).collect()
        frame.unpersist()
        found = sorted((tuple(row) for row in spark.table(name).collect()), key=repr)
        assert found == sorted(model.rows, key=repr), said
    assert sorted(oracle.rows(str(warehouse / "db.db" / f"t{number}")), key=repr) == sorted(model.rows, key=repr)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["deduplicate", "append", "append, vectors"])
def test_counters_of_threads_count_every_merge(spark: SparkSession, warehouse: Path, kind: str) -> None:
    name = f"merged.db.counters{list(TABLES).index(kind)}"
    options = {**TABLES[kind], "commit.max-retries": "50"}
    if kind == "deduplicate":
        options["primary-key"] = "k"
    properties = ", ".join(f"'{k}'='{v}'" for k, v in options.items())
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, n BIGINT) TBLPROPERTIES ({properties})")

    def count(thread: int) -> None:
        for _ in range(2):
            spark.sql(
                f"MERGE INTO {name} t USING (SELECT id AS k FROM range({thread}, {thread} + 2)) s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 1)"
            ).collect()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count, range(2)))
    assert sorted(tuple(row) for row in spark.table(name).collect()) == [(0, 2), (1, 4), (2, 2)]
