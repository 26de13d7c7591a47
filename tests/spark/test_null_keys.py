"""`primary-key.nullable` in statements: keys with nulls are written to one place, changed, merged and found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark

pytestmark = pytest.mark.catalog("null_keys", database="d")

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TABLES = {
    "fixed": ("", "'primary-key' = 'a,b', 'bucket' = '3'"),
    "dynamic": (
        "PARTITIONED BY (p)",
        "'primary-key' = 'a,b,p', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '2'",
    ),
    "cross_partition": ("PARTITIONED BY (p)", "'primary-key' = 'a,b', 'bucket' = '-1'"),
}


@pytest.mark.parametrize(
    ("kind", "front"),
    [("fixed", "catalog"), ("dynamic", "text"), ("cross_partition", "catalog"), ("cross_partition", "text")],
)
def test_statements_of_null_keys(spark: SparkSession, warehouse: Path, oracle: Any, kind: str, front: str) -> None:
    run: Callable[[str], Any] = spark.sql
    if front == "text":
        run = lambda text: paimon_spark.sql(spark, text)  # noqa: E731
    name = f"null_keys.d.{kind}_{front}"
    parts, options = TABLES[kind]
    run(
        f"CREATE TABLE {name} (a INT, b STRING, p INT, v INT) {parts} "
        f"TBLPROPERTIES ('primary-key.nullable' = 'true', {options})"
    )
    assert spark.table(name).schema["a"].nullable

    def rows() -> list[tuple[Any, ...]]:
        found = sorted(map(tuple, run(f"SELECT a, b, p, v FROM {name}").collect()), key=repr)
        assert found == sorted(oracle.rows(f"{warehouse}/d.db/{kind}_{front}"), key=repr)
        return found

    run(f"INSERT INTO {name} VALUES (NULL, 'x', 1, 1), (1, NULL, 1, 2), (NULL, NULL, NULL, 3), (1, 'x', 1, 4)")
    run(f"INSERT INTO {name} VALUES (NULL, 'x', 1, 10), (1, NULL, 1, 20), (NULL, NULL, NULL, 30), (2, NULL, 1, 50)")
    assert rows() == [(1, "x", 1, 4), (1, None, 1, 20), (2, None, 1, 50), (None, "x", 1, 10), (None, None, None, 30)]
    run(f"UPDATE {name} SET v = v + 1 WHERE a IS NULL")
    assert [tuple(row) for row in run(f"SELECT v FROM {name} WHERE b IS NULL AND a IS NULL").collect()] == [(31,)]
    run(
        f"MERGE INTO {name} t USING (SELECT CAST(NULL AS INT) a, 'x' b, 1 p, 7 v UNION ALL SELECT 3, NULL, 1, 8) s "
        f"ON t.a <=> s.a AND t.b <=> s.b AND t.p <=> s.p WHEN MATCHED THEN UPDATE SET v = t.v + s.v "
        f"WHEN NOT MATCHED THEN INSERT *"
    )
    assert [tuple(row) for row in run(f"SELECT v FROM {name} WHERE a IS NULL AND b = 'x'").collect()] == [(18,)]
    run(f"DELETE FROM {name} WHERE b IS NULL AND a = 1")
    assert rows() == [(1, "x", 1, 4), (2, None, 1, 50), (3, None, 1, 8), (None, "x", 1, 18), (None, None, None, 31)]
    if kind == "cross_partition":
        run(f"INSERT INTO {name} VALUES (NULL, NULL, 5, 9)")
        assert (None, None, 5, 9) in rows()
        assert len(rows()) == 5
    run(f"CALL null_keys.sys.compact(table => 'd.{kind}_{front}')")
    assert len(rows()) == 5
