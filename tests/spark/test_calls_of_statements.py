"""A statement loads each table that it names once, plans each read once, and reads once what its write follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark import PaimonTable, register_catalog, sql
from paimon_spark.read.snapshot_reader import plan_snapshot
from paimon_spark.table import table as tables
from paimon_spark.table.paths import parse_table_path
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
def table(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Iterator[str]:
    name = f"calls.db.{request.param}"
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) TBLPROPERTIES ({KINDS[request.param]})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_each_statement_loads_and_plans_once(spark: SparkSession, warehouse: Path, table: str) -> None:
    path = f"{warehouse}/db.db/{table.rpartition('.')[2]}"
    rewrites = table.endswith("append")  # then one read finds the files, another reads them whole

    def statement(text: str) -> Callable[[], object]:
        return lambda: spark.sql(text.format(t=table)).collect()

    def save() -> None:
        spark.createDataFrame([(5, "p")], "id int, v string").write.format("paimon").mode("append").save(path)

    loads, paths, reads, writes = "_load", "parse_table_path", "plan_snapshot", "_known_of_files"
    change = {loads: 1, paths: 1, reads: 1 + rewrites, writes: 1}
    name = table.removeprefix("calls.")
    cases: list[tuple[Callable[[], object], dict[str, int]]] = [
        (statement("SELECT * FROM {t}"), {loads: 1, paths: 1, reads: 1}),
        (statement("SELECT count(*) FROM {t} WHERE id = 1"), {loads: 1, paths: 1, reads: 1}),
        (statement("SELECT sum(id) FROM {t}"), {loads: 1, paths: 1, reads: 1}),
        (statement("SELECT sum(id) FROM {t} WHERE id > 1"), {loads: 1, paths: 1, reads: 1}),
        (statement("SELECT v, avg(id) FROM {t} GROUP BY v"), {loads: 1, paths: 1, reads: 1}),
        (statement("DESCRIBE {t}"), {loads: 1, paths: 1}),
        (statement("INSERT INTO {t} VALUES (3, 'c')"), {loads: 1, paths: 1, writes: 1}),
        (statement("INSERT INTO {t} SELECT id + 10, v FROM {t}"), {loads: 2, paths: 2, reads: 1, writes: 1}),
        (statement("UPDATE {t} SET v = 'u' WHERE id = 3"), change),
        (statement("DELETE FROM {t} WHERE id = 3"), change),
        (statement(MERGE), {loads: 1, paths: 1, writes: 1} | ({reads: 1} if rewrites else {})),
        (statement(f"CALL calls.sys.create_tag(table => '{name}', tag => 'x')"), {loads: 1, paths: 1}),
        (lambda: spark.read.format("paimon").load(path).collect(), {loads: 1, paths: 1, reads: 1}),
        (save, {loads: 1, paths: 1, writes: 1}),
    ]
    check(cases)


CALLS = {
    "DESCRIBE {t}": 1,
    "SHOW TBLPROPERTIES {t}": 1,
    "SHOW TABLES IN alone.db": 1,
    "SELECT * FROM {t} WHERE id = 1": 4,
    "CALL alone.sys.compact(table => 'db.keyed')": 2,
    "INSERT INTO {t} VALUES (7, 'v')": 8,
    "INSERT INTO {t} SELECT id + 10, v FROM VALUES (1, 'a'), (2, 'b') s(id, v) WHERE rand() < 2": 8,
    "UPDATE {t} SET v = 'u' WHERE id = 1": 6,
    "DELETE FROM {t} WHERE id = 9": 6,
    MERGE: 3,
}
"""How often Java asks Python, the second time."""


@pytest.mark.parametrize("table", ["keyed"], indirect=True)
def test_what_java_asks_python(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Where no catalog of the session keeps views, their names are of tables: nothing is to be asked before."""
    from py4j.clientserver import ClientServerConnection

    call, asked = ClientServerConnection._call_proxy, []

    def counting(self: object, target: str, stream: object) -> object:
        asked.append(target)
        return call(self, target, stream)

    alone = SparkSession.newSession(spark)  # without the catalogs of other tests, of which some keep views
    register_catalog(alone, "alone", warehouse=str(warehouse))
    monkeypatch.setattr(ClientServerConnection, "_call_proxy", counting)
    found = {}
    for statement in CALLS:
        for _ in range(2):
            asked.clear()
            alone.sql(statement.format(t=table.replace("calls.", "alone."))).collect()
        found[statement] = len(asked)
    assert found == CALLS


@pytest.mark.parametrize("table", ["keyed", "append"], indirect=True)
def test_methods_and_texts_load_little(spark: SparkSession, warehouse: Path, table: str) -> None:
    """A query's rows come by a load of Spark's, and saves are saves of Spark's: these open the table by its path."""
    name = table.removeprefix("calls.")
    path = f"{warehouse}/db.db/{name.removeprefix('db.')}"
    rewrites = table.endswith("append")
    paimon = PaimonTable.for_path(spark, path)
    rows = spark.createDataFrame([(5, "p")], "id int, v string")

    def text(statement: str) -> Callable[[], object]:
        return lambda: sql(spark, statement.format(t=f"paimon.{name}"), warehouse=str(warehouse)).collect()

    loads, paths, reads, writes = "_load", "parse_table_path", "plan_snapshot", "_known_of_files"
    cases: list[tuple[Callable[[], object], dict[str, int]]] = [
        (lambda: paimon.to_df().collect(), {loads: 1, paths: 1, reads: 1}),
        (lambda: paimon.append(rows), {loads: 2, paths: 2, writes: 1}),
        (
            lambda: paimon.update({"v": "'w'"}, "id = 5"),
            {loads: 1, paths: 2 + rewrites, reads: 1 + rewrites, writes: 1},
        ),
        (
            lambda: paimon.delete("id = 5"),
            {loads: 1, paths: 2 + rewrites, reads: 1 + rewrites, writes: 1},
        ),
        (text("SELECT * FROM {t}"), {loads: 2, paths: 2, reads: 1}),
        (text("INSERT INTO {t} VALUES (9, 'q')"), {loads: 2, paths: 4, writes: 1}),
        (
            text("UPDATE {t} SET v = 'z' WHERE id = 1"),
            {loads: 1, paths: 3 + 2 * rewrites, reads: 1 + rewrites, writes: 1},
        ),
        (text("DELETE FROM {t} WHERE id = 1"), {loads: 1, paths: 3 + 2 * rewrites, reads: 1 + rewrites, writes: 1}),
    ]
    check(cases)


def check(cases: list[tuple[Callable[[], object], dict[str, int]]]) -> None:
    """Run statements, each of which must load, parse paths and plan exactly as often as is said."""
    wrong = []
    for number, (run, most) in enumerate(cases):
        with counted(tables._load, parse_table_path, plan_snapshot, write_plans._known_of_files) as calls:
            run()
        if dict(calls) != most:
            wrong.append((number, dict(calls), most))
    assert not wrong, "\n".join(map(str, wrong))
