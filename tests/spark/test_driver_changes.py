"""UPDATE, DELETE and MERGE of few rows are done by the driver: no job runs, and the rows are those that jobs leave."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonTable
from paimon_spark.spark.catalog import driver_read
from paimon_spark.spark.session import rows_at_hand
from tests.support import seeds
from tests.support.calls import jobs_of

pytestmark = [pytest.mark.spark, pytest.mark.catalog("changes", current=True)]

KINDS = {
    "keyed": "'primary-key' = 'id', 'bucket' = '2'",
    "dynamic": "'primary-key' = 'id'",
    "vectors": "'primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
    "lookup": "'primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'lookup'",
    "input": "'primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'input'",
    "sequence": "'primary-key' = 'id', 'bucket' = '1', 'sequence.field' = 'n'",
    "partial": "'primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update', "
    "'partial-update.remove-record-on-delete' = 'true'",
    "append": "'bucket' = '-1'",
    "marked": "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'",
    "tracked": "'bucket' = '-1', 'row-tracking.enabled' = 'true'",
    "buckets": "'bucket' = '2', 'bucket-key' = 'id'",
}
COLUMNS = "id INT NOT NULL, c CHAR(4), v STRING, n DECIMAL(9, 2), ts TIMESTAMP, a ARRAY<STRUCT<x: INT, y: STRING>>"
ROW = (
    "SELECT CAST(id AS INT) AS id, IF(id % 5 = 0, NULL, CAST(id % 3 AS STRING)) AS c, concat('v', id) AS v, "
    "CAST(id / 4 AS DECIMAL(9, 2)) AS n, timestamp_micros(id * 1000003) AS ts, "
    "array(named_struct('x', CAST(id AS INT), 'y', 'é')) AS a FROM range({rows})"
)
SOURCE = "(SELECT * FROM VALUES {rows} AS x(id, v, n)) s"


@contextmanager
def by_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let jobs do all that the block runs."""
    with monkeypatch.context() as patched:
        patched.setattr(rows_at_hand, "FINDERS", {})
        patched.setattr(driver_read, "is_changed_here", lambda *_: False)
        yield


def jobs(spark: SparkSession, run: Callable[[], object]) -> int:
    """Run something; return the number of Spark's jobs."""
    with jobs_of(spark) as found:
        run()
    return len(found)


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def made(spark: SparkSession, table: str, options: str, count: int = 12) -> str:
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) TBLPROPERTIES ({options})")
    spark.sql(f"INSERT INTO {table} {ROW.format(rows=count)}")
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_no_job_runs(spark: SparkSession, warehouse: Path, kind: str) -> None:
    table = made(spark, f"no_job_{kind}", KINDS[kind])
    source = SOURCE.format(rows="(2, 'm', 9.5), (77, 'i', 1)")
    statements = [
        f"UPDATE {table} SET v = concat(v, c), n = n + 1 WHERE id = 1",
        f"UPDATE {table} SET c = 'x' WHERE c = '2' AND v < 'v5'",
        f"DELETE FROM {table} WHERE id IN (3, 4)",
        f"MERGE INTO {table} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n "
        "WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.v, s.n)",
    ]
    for statement in statements:
        assert jobs(spark, lambda text=statement: spark.sql(text)) == 0, statement
    found = {row.id: (row.c, row.v, row.n) for row in spark.table(table).collect()}
    assert {*found} == {0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 77}
    assert [str(value) for value in found[1][1:]] == ["v11   ", "1.25"]
    assert [str(value) for value in found[2]] == ["x   ", "m", "9.50"]
    assert found[77][1] == "i"


def test_explain_says_who_does_the_work(spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(spark, "explained", KINDS["append"])

    def explained(statement: str) -> str:
        return str(spark.sql(f"EXPLAIN {statement}").collect()[0][0])

    assert "in the driver" in explained(f"DELETE FROM {table} WHERE id = 1")
    assert "in the driver" in explained(f"UPDATE {table} SET v = 'x' WHERE id = 1")
    assert "the whole table is dropped" in explained(f"DELETE FROM {table}")
    with by_jobs(monkeypatch):
        assert "by tasks" in explained(f"DELETE FROM {table} WHERE id = 1")
    assert "by tasks" in explained(f"UPDATE {table} SET v = 'x' WHERE id IN (SELECT id FROM {table})")
    assert spark.table(table).count() == 12


@pytest.mark.parametrize("kind", ["keyed", "dynamic", "lookup"])
def test_no_job_runs_by_methods(spark: SparkSession, warehouse: Path, kind: str) -> None:
    table = PaimonTable.for_path(spark, f"{warehouse}/db.db/{made(spark, f'methods_{kind}', KINDS[kind])}")
    updated, deleted = [], []
    where = "id = 1 AND c = '1'"  # CHAR: as padded
    assert jobs(spark, lambda: updated.append(table.update({"v": "concat(v, c)"}, where=where))) == 0
    assert jobs(spark, lambda: deleted.append(table.delete("id IN (3, 4)"))) == 0
    assert (updated[0].num_updated_rows, deleted[0].num_deleted_rows) == (1, 2)
    found = {row.id: row.v for row in table.to_df().collect()}
    assert {*found} == {0, 1, 2, 5, 6, 7, 8, 9, 10, 11}
    assert found[1] == "v11   "


def random_statement(chance: random.Random, table: str) -> str:
    """A statement that all kinds of tables take."""
    key, other = chance.randrange(14), chance.randrange(14)
    where = chance.choice(
        [
            f"id = {key}", f"id IN ({key}, {other})", f"id BETWEEN {key} AND {other}", "c = '1'", "c IS NULL",
            f"n > {key}", f"id = {key} AND v LIKE 'v%'", f"a[0].x = {key}", "length(v) = 3", "id < 0",
            f"id = {key} OR date_format(ts, 's') = '3'",
        ]
    )  # fmt: skip
    sets = {
        "c": chance.choice(["NULL", "'z'", "concat(trim(c), 'q')"]),
        "v": chance.choice(["upper(v)", "concat(v, '-', c)", "CAST(n AS STRING)", "to_json(a[0])"]),
        "n": chance.choice(["n + 1", "n / 3", "CAST(id AS DECIMAL(9, 2))"]),
        "ts": chance.choice(["ts + INTERVAL 1 DAY", "NULL"]),
        "a": chance.choice(["array()", "array_append(a, named_struct('x', id, 'y', v))", "NULL"]),
    }
    chosen = ", ".join(f"{name} = {sets[name]}" for name in chance.sample([*sets], chance.randint(1, 3)))
    if chance.random() < 0.3:
        return f"DELETE FROM {table} WHERE {where}"
    if chance.random() < 0.5:
        return f"UPDATE {table} SET {chosen} WHERE {where}"
    values = ", ".join(f"({number}, 's{number}', {number}.5)" for number in chance.sample(range(16), 3))
    matched = chance.choice(
        [
            "WHEN MATCHED THEN UPDATE SET v = s.v, n = s.n",
            "WHEN MATCHED AND s.n > 6 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v",
            "WHEN MATCHED AND t.n < s.n THEN UPDATE SET v = concat(t.v, s.v)",
            "WHEN MATCHED THEN DELETE",
        ]
    )
    inserted = chance.choice(["", " WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.v, s.n)"])
    by_source = chance.choice(["", "", f" WHEN NOT MATCHED BY SOURCE AND t.id = {key} THEN DELETE"])
    return f"MERGE INTO {table} t USING {SOURCE.format(rows=values)} ON t.id = s.id {matched}{inserted}{by_source}"


@pytest.mark.parametrize("kind", ["dynamic", "input", "sequence", "append", "marked", "tracked"])
def test_random_statements_leave_what_jobs_leave(
    spark: SparkSession, warehouse: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = seeds.chance("driver changes", kind)
    options = f"{KINDS[kind]}, 'write-only' = 'true'"  # jobs leave more files, which are compacted sooner
    here, there = (made(spark, f"{kind}_{way}", options) for way in ("here", "there"))
    for _ in range(3):
        seed = chance.random()
        statement, other = (random_statement(random.Random(seed), table) for table in (here, there))
        spark.sql(statement)
        with by_jobs(monkeypatch):
            spark.sql(other)
        assert rows(spark.table(here)) == rows(spark.table(there)), statement
        counts = "commit_kind, total_record_count, changelog_record_count"
        of_here, of_there = (rows(spark.sql(f"SELECT {counts} FROM `{table}$snapshots`")) for table in (here, there))
        assert of_here == of_there, statement
