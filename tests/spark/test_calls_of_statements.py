"""A statement loads each table that it names once, plans each read once, and reads once what its write follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.read.snapshot_reader import plan_snapshot
from paimon_spark.table import table as tables
from paimon_spark.write import plan as write_plans
from tests.support.calls import counted

pytestmark = [pytest.mark.spark, pytest.mark.catalog("calls")]

KINDS = {
    "keyed": "'primary-key' = 'id', 'bucket' = '2'",
    "vectors": "'primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
    "dynamic": "'primary-key' = 'id'",
    "append": "'bucket' = '-1'",
}
MERGE = (
    "MERGE INTO {t} t USING (SELECT 1 id, 'm' v) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> str:
    name = f"calls.db.{request.param}"
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) TBLPROPERTIES ({KINDS[request.param]})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    return name


def test_each_statement_loads_and_plans_once(spark: SparkSession, warehouse: Path, table: str) -> None:
    path = f"{warehouse}/db.db/{table.rpartition('.')[2]}"
    rewrites = table.endswith("append")  # then one read finds the files, another reads them whole

    def statement(text: str) -> Callable[[], object]:
        return lambda: spark.sql(text.format(t=table)).collect()

    def save() -> None:
        spark.createDataFrame([(5, "p")], "id int, v string").write.format("paimon").mode("append").save(path)

    loads, reads, writes = "_load", "plan_snapshot", "_known_of_files"
    cases: list[tuple[Callable[[], object], dict[str, int]]] = [
        (statement("SELECT * FROM {t}"), {loads: 1, reads: 1}),
        (statement("SELECT count(*) FROM {t} WHERE id = 1"), {loads: 1, reads: 1}),
        (statement("DESCRIBE {t}"), {loads: 1}),
        (statement("INSERT INTO {t} VALUES (3, 'c')"), {loads: 1, writes: 1}),
        (statement("INSERT INTO {t} SELECT id + 10, v FROM {t}"), {loads: 2, reads: 1, writes: 1}),
        (statement("UPDATE {t} SET v = 'u' WHERE id = 3"), {loads: 1, reads: 1 + rewrites, writes: 1}),
        (statement("DELETE FROM {t} WHERE id = 3"), {loads: 1, reads: 1 + rewrites, writes: 1}),
        (statement(MERGE), {loads: 1, reads: 1, writes: 1}),
        (lambda: spark.read.format("paimon").load(path).collect(), {loads: 1, reads: 1}),
        (save, {loads: 1, writes: 1}),
    ]
    for number, (run, most) in enumerate(cases):
        with counted(tables._load, plan_snapshot, write_plans._known_of_files) as calls:
            run()
        assert calls[loads] == most[loads], (number, calls)
        assert not {name: count for name, count in calls.items() if count > most.get(name, 0)}, (number, calls)
