"""Random inserts, updates and deletes by SQL: the rows are those of a dict, and Java's after the same row kinds."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import seeds

pytestmark = [pytest.mark.spark, pytest.mark.peer, pytest.mark.catalog("mixed")]

Row = tuple[Any, ...]
STEPS = 5
"""Few in one run: the seed, and so the statements, are others each day."""
REMOVES = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
TABLES = {
    "fixed, parquet": {"bucket": "2"},
    "one bucket, orc, partitioned": {"bucket": "1", "file.format": "orc", "partition": "p"},
    "dynamic, avro": {"bucket": "-1", "file.format": "avro", "dynamic-bucket.target-row-num": "4"},
    "dynamic, partitioned": {"bucket": "-1", "partition": "p"},
    "partial update": {"bucket": "2", **REMOVES},
    "partial update, dynamic, partitioned": {"bucket": "-1", "partition": "p", **REMOVES},
    "sequence field": {"bucket": "1", "sequence.field": "n"},
}
COLUMNS = [("k", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "STRING"), ("n", "BIGINT")]
CONDITIONS: dict[str, Any] = {
    "k % 3 = 1": lambda k, p, v, n: k % 3 == 1,
    "v IS NULL": lambda k, p, v, n: v is None,
    "n > 20 OR v = 'b'": lambda k, p, v, n: (n is not None and n > 20) or v == "b",
    "p = 'x' AND k < 8": lambda k, p, v, n: p == "x" and k < 8,
    "k IN (2, 3, 5, 7, 11)": lambda k, p, v, n: k in (2, 3, 5, 7, 11),
}
VALUES: dict[str, Any] = {
    "v = 'u'": lambda k, p, v, n: (k, p, "u", n),
    "n = coalesce(n, 0) + k": lambda k, p, v, n: (k, p, v, (n or 0) + k),
    "n = n + 100, v = concat(v, p)": lambda k, p, v, n: (
        k, p, None if v is None else v + p, None if n is None else n + 100,
    ),
}  # fmt: skip


class Model:
    """The rows of a table as a dict, and what Java writes for each statement."""

    def __init__(self, *, partial: bool) -> None:
        self.partial = partial
        self.rows: dict[tuple[int, str], Row] = {}
        self.graves: dict[tuple[int, str], Row] = {}
        """Rows that were deleted: a partial update that comes later fills them in (Java does)."""

    def put(self, row: Row) -> None:
        key = row[:2]
        old = self.rows.get(key) or self.graves.pop(key, None) if self.partial else None
        self.rows[key] = row if old is None else tuple(o if n is None else n for o, n in zip(old, row, strict=True))

    def delete(self, row: Row) -> None:
        self.graves[row[:2]] = self.rows.pop(row[:2])


@dataclass
class Pair:
    """A table of ours and one of Java's, to which the same happens."""

    spark: SparkSession
    oracle: Any
    name: str
    theirs: str
    model: Model
    by_sequence: bool

    def insert(self, rows: list[Row]) -> None:
        self.spark.sql(f"INSERT INTO {self.name} VALUES {', '.join(map(_literal, rows))}")
        self._put(rows, "+I")

    def update(self, change: str, condition: str) -> None:
        rows = [VALUES[change](*row) for row in self._hit(condition)]
        if self.model.partial:  # Java: writes whole rows; ours the columns that are assigned, the others are kept
            rows = [(k, p, v if "v =" in change else None, n if "n =" in change else None) for k, p, v, n in rows]
        self.spark.sql(f"UPDATE {self.name} SET {change} WHERE {condition}")
        self._put(rows, "+U")

    def delete(self, condition: str) -> None:
        rows = self._hit(condition)
        self.spark.sql(f"DELETE FROM {self.name} WHERE {condition}")
        if rows:
            self.oracle.write(self.theirs, rows, kinds="-D")
        for row in rows:
            self.model.delete(row)

    def _hit(self, condition: str) -> list[Row]:
        return [row for row in self.model.rows.values() if CONDITIONS[condition](*row)]

    def _put(self, rows: list[Row], kind: str) -> None:
        if rows:
            self.oracle.write(self.theirs, rows, kinds=kind)
        for row in rows:
            self.model.put(row)

    def step(self, chance: random.Random, number: int) -> str:
        """Do something by chance, and say what."""
        action = "insert" if not number else chance.choice(["insert", "update", "delete", "delete"])
        condition = chance.choice(list(CONDITIONS))
        if action == "insert":
            keys = chance.sample(range(14), chance.randint(1, 6))
            values = [(chance.choice([None, "a", "b"]), chance.choice([None, number + k])) for k in keys]
            self.insert(
                [(k, "xy"[k % 2], v, number if self.by_sequence else n) for k, (v, n) in zip(keys, values, strict=True)]
            )
        elif action == "update":
            self.update("v = 'u'" if self.by_sequence else chance.choice(list(VALUES)), condition)
        else:
            self.delete(condition)
        return f"{number}: {action} {condition}"


def _literal(row: Row) -> str:
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"


@pytest.mark.parametrize("kind", TABLES)
def test_random_statements(spark: SparkSession, oracle: Any, warehouse: Path, kind: str) -> None:
    chance = seeds.chance("row level", kind)
    options = dict(TABLES[kind])
    number = list(TABLES).index(kind)
    name, theirs = f"mixed.db.t{number}", f"row_level.t{number}"
    partition = options.pop("partition", None)
    properties = ", ".join(f"'{k}'='{v}'" for k, v in {"primary-key": "k,p", **options}.items())
    columns = ", ".join(f"{column} {sql}" for column, sql in COLUMNS)
    by = f"PARTITIONED BY ({partition})" if partition else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {by} TBLPROPERTIES ({properties})")
    parts = [partition] if partition else []
    oracle.create(theirs, COLUMNS, pk=["k", "p"], partition=parts, options={**options, "write-only": "true"})
    model = Model(partial="partial" in kind)
    pair = Pair(spark, oracle, name, theirs, model, "sequence.field" in options)
    for step in range(STEPS):
        done = pair.step(chance, step)
        found = sorted((tuple(row) for row in spark.table(name).collect()), key=repr)
        assert found == sorted(model.rows.values(), key=repr), done
    path = str(warehouse / "db.db" / f"t{number}")
    assert oracle.rows(path) == oracle.rows(theirs) == sorted(model.rows.values(), key=repr)
    last = oracle.latest(theirs)
    last = last if isinstance(last, int) else last["id"]
    for system in ("$audit_log", ""):
        span = {"incremental-between": f"{min(1, last - 1)},{last}"}
        assert oracle.rows(path + system, options=span) == oracle.rows(theirs + system, options=span)
    for snapshot in range(1, last + 1):
        at = {"scan.snapshot-id": str(snapshot)}
        assert oracle.rows(path, options=at) == oracle.rows(theirs, options=at)
