"""Random inserts, updates and deletes by SQL: the rows are those of a dict, and Java's after the same row kinds."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark

pytestmark = [pytest.mark.spark, pytest.mark.peer]

Row = tuple[Any, ...]
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


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("row_level_random")
    paimon_spark.register_catalog(spark, "mixed", warehouse=str(path))
    spark.sql("CREATE DATABASE mixed.db")
    yield path


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


def _insert(chance: random.Random, rising: int) -> list[Row]:
    keys = chance.sample(range(14), chance.randint(1, 6))
    return [(k, "xy"[k % 2], chance.choice([None, "a", "b"]), chance.choice([None, rising + k])) for k in keys]


def _literal(row: Row) -> str:
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"


@pytest.mark.parametrize("kind", TABLES)
def test_random_statements(spark: SparkSession, oracle: Any, warehouse: Path, kind: str) -> None:
    chance = random.Random(f"{kind} 7")
    options = dict(TABLES[kind])
    number = list(TABLES).index(kind)
    name, theirs = f"mixed.db.t{number}", f"row_level.t{number}"
    partition = options.pop("partition", None)
    properties = ", ".join(f"'{k}'='{v}'" for k, v in {"primary-key": "k,p", **options}.items())
    columns = ", ".join(f"{column} {sql}" for column, sql in COLUMNS)
    by = f"PARTITIONED BY ({partition})" if partition else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {by} TBLPROPERTIES ({properties})")
    keys, parts = ["k", "p"], [partition] if partition else []
    oracle.create(theirs, COLUMNS, pk=keys, partition=parts, options={**options, "write-only": "true"})
    model = Model(partial="partial" in kind)
    by_sequence = "sequence.field" in options
    for step in range(9):
        action = "insert" if not step else chance.choice(["insert", "update", "delete", "delete"])
        chosen = chance.choice(list(CONDITIONS))
        hit = [row for row in model.rows.values() if CONDITIONS[chosen](*row)]
        if action == "insert":
            rows = [
                (k, p, v, n or 1000 * step) if by_sequence else (k, p, v, n) for k, p, v, n in _insert(chance, step)
            ]
            rows = [(*row[:3], 1000 * step + 500) for row in rows] if by_sequence else rows
            spark.sql(f"INSERT INTO {name} VALUES {', '.join(map(_literal, rows))}")
            oracle.write(theirs, rows)
            for row in rows:
                model.put(row)
        elif action == "update":
            change = "v = 'u'" if by_sequence else chance.choice(list(VALUES))
            spark.sql(f"UPDATE {name} SET {change} WHERE {chosen}")
            rows = [VALUES[change](*row) for row in hit]
            if rows:
                oracle.write(theirs, rows, kinds="+U")
            for row in rows:
                model.put(row)
        else:
            spark.sql(f"DELETE FROM {name} WHERE {chosen}")
            if hit:
                oracle.write(theirs, hit, kinds="-D")
            for row in hit:
                model.delete(row)
        found = sorted((tuple(row) for row in spark.table(name).collect()), key=repr)
        assert found == sorted(model.rows.values(), key=repr), (step, action, chosen)
    path = str(warehouse / "db.db" / f"t{number}")
    assert oracle.rows(path) == oracle.rows(theirs) == sorted(model.rows.values(), key=repr)
    last = oracle.latest(theirs)
    last = last if isinstance(last, int) else last["id"]
    for system in ("$audit_log", ""):
        span = {"incremental-between": f"1,{last}"}
        assert oracle.rows(path + system, options=span) == oracle.rows(theirs + system, options=span)
    for snapshot in range(1, last + 1):
        at = {"scan.snapshot-id": str(snapshot)}
        assert oracle.rows(path, options=at) == oracle.rows(theirs, options=at)
