"""Catalogs whose names are in a database or in Hive's metastore, with a warehouse on S3: the statements of a day."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from conftest import absent
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.hive_server import hive_server
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server
from tests.support.warehouses import FRONTS, Run, run_by

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def _hadoop(server: StoreServer) -> dict[str, str]:
    return {
        "fs.s3a.endpoint": server.url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "of-the-metastore",
    }


@pytest.fixture(scope="module", params=["jdbc", "hive"])
def session(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    with ExitStack() as started:
        server = started.enter_context(store_server("s3"))
        if request.param == "jdbc":
            metastore = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path_factory.mktemp('names')}/catalog.db"}
        else:
            try:
                hive = started.enter_context(hive_server(more_jars=hadoop_aws_jars(), hadoop=_hadoop(server)))
            except (OSError, RuntimeError) as error:
                absent(f"Hive's metastore ({' '.join(str(error).split())[:300]})")
            metastore = {"metastore": "hive", "uri": hive.uri}
        options = {**server.options, **metastore, "lock.enabled": "true"}
        found = spark.newSession()
        paimon_spark.register_catalog(found, "far", warehouse=server.root, **options)
        paimon_spark.sql(found, "SELECT 1", warehouse=server.root, catalog="far", **options)
        yield found


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, session: SparkSession) -> Run:
    return run_by(session, request.param)


def test_the_statements_of_a_day(run: Run) -> None:
    def rows(text: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in run(text).collect())

    run("CREATE DATABASE far.d")
    run(
        "CREATE TABLE far.d.t (id INT NOT NULL, v STRING) USING paimon TBLPROPERTIES ('primary-key'='id', 'bucket'='2')"
    )
    run("INSERT INTO far.d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run("UPDATE far.d.t SET v = 'u' WHERE id = 2")
    run(
        "MERGE INTO far.d.t USING (SELECT 3 AS id, 'm' AS v UNION ALL SELECT 4, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    run("CALL far.sys.create_tag(table => 'd.t', tag => 'one')")
    run("DELETE FROM far.d.t WHERE id = 1")
    run("CALL far.sys.compact(table => 'd.t')")
    late = [(2, "u"), (3, "m"), (4, "n")]
    assert rows("SELECT * FROM far.d.t") == late
    assert rows("SELECT * FROM far.d.t VERSION AS OF 'one'") == [(1, "a"), *late]
    assert rows("SELECT * FROM far.d.t VERSION AS OF 1") == [(1, "a"), (2, "b"), (3, "c")]
    run("ALTER TABLE far.d.t ADD COLUMN w INT")
    run("ALTER TABLE far.d.t RENAME TO far.d.r")
    assert rows("SELECT * FROM far.d.r") == [(*row, None) for row in late]
    run("INSERT INTO far.d.r VALUES (5, 'z', 1)")
    assert rows("SELECT w FROM far.d.r WHERE id = 5") == [(1,)]
    run("DROP TABLE far.d.r")
    assert rows("SHOW TABLES IN far.d") == []
    run("DROP DATABASE far.d")
    assert ("d",) not in rows("SHOW DATABASES IN far")
