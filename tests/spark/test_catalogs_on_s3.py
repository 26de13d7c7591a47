"""Catalogs whose names are kept elsewhere (JDBC, Hive, REST), with a warehouse on S3: the statements of a day."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from conftest import ROOT, absent
from paimon_spark.spark.catalog import driver_read
from paimon_spark.table.format_table import FormatTable
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.day_of_statements import run_day
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.hive_server import hive_server
from tests.support.programs import run_program
from tests.support.rest_server import rest_server
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server
from tests.support.warehouses import FRONTS, run_by

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def _hadoop(server: StoreServer) -> dict[str, str]:
    return {
        "fs.s3a.endpoint": server.url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "of-the-metastore",
    }


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """The options of a catalog of each kind; the server of a REST catalog gives out the store's keys in one of two."""
    with ExitStack() as started:
        server = started.enter_context(store_server("s3"))
        try:
            jars = hadoop_aws_jars()
            hive = started.enter_context(hive_server(more_jars=jars, hadoop=_hadoop(server)))
            rest = started.enter_context(rest_server(server.root, more_jars=jars, hadoop=_hadoop(server)))
        except (OSError, RuntimeError) as error:
            absent(f"Hive's metastore or Java's REST server ({' '.join(str(error).split())[:300]})")
        rest.give_tokens(server.options, 7200)
        reached = {**server.options, "warehouse": server.root, "lock.enabled": "true"}
        yield {
            "jdbc": {**reached, "metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path_factory.mktemp('c')}/catalog.db"},
            "hive": {**reached, "metastore": "hive", "uri": hive.uri},
            "rest": {**server.options, **rest.options()},
            "token": {**rest.options(), "data-token.enabled": "true"},
        }


RUNS = "jdbc-catalog jdbc-text hive-catalog hive-text rest-text token-catalog"


@pytest.mark.parametrize(("kind", "front"), [run.split("-") for run in RUNS.split()])
def test_the_statements_of_a_day(
    spark: SparkSession, catalogs: dict[str, dict[str, str]], kind: str, front: str
) -> None:
    session = spark.newSession()
    paimon_spark.register_catalog(session, "far", **catalogs[kind])
    paimon_spark.sql(session, "SELECT 1", catalog="far", **catalogs[kind])
    run_day(run_by(session, front), renames=catalogs[kind]["metastore"] != "rest")


def test_the_plan_says_that_only_paimon_renews_keys(
    spark: SparkSession, catalogs: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_read, "_MOST_FAR_FILES", 0)
    session = spark.newSession()
    paimon_spark.register_catalog(session, "renewed", **catalogs["token"])
    session.sql("CREATE DATABASE renewed.plans")
    session.sql("CREATE TABLE renewed.plans.t AS SELECT id FROM range(3)")
    assert session.sql("SELECT sum(id) FROM renewed.plans.t").collect() == [(3,)]
    plan = "\n".join(row[0] for row in session.sql("EXPLAIN SELECT * FROM renewed.plans.t").collect())
    assert "reader=paimon (the catalog gives out keys of the store that end, which Spark's reader cannot renew)" in plan
    session.sql("DROP DATABASE renewed.plans CASCADE")


@pytest.mark.parametrize("kind", ["hive", "rest"])
def test_format_tables_say_what_hadoop_lacks(
    spark: SparkSession, catalogs: dict[str, dict[str, str]], kind: str
) -> None:
    session = spark.newSession()
    paimon_spark.register_catalog(session, "bare", **catalogs[kind])
    paimon_spark.sql(session, "SELECT 1", catalog="bare", **catalogs[kind])
    session.sql("CREATE DATABASE bare.files")
    for front in FRONTS:
        run = run_by(session, front)
        run("CREATE TABLE bare.files.t (id INT, p INT) USING csv PARTITIONED BY (p)")
        if front == "catalog":  # by text nothing is read of a table without files
            with pytest.raises(Exception, match=r"no file system of s3a?://: add hadoop-aws to the session"):
                run("SELECT * FROM bare.files.t").collect()
        with pytest.raises(Exception, match=r"no file system of s3a?://: add hadoop-aws to the session"):
            run("INSERT INTO bare.files.t VALUES (1, 1)")
        table = open_catalog(catalogs[kind]["warehouse"], catalogs[kind]).load_table("files", "t")
        files = FormatTable.of(table)
        assert [name for name in files.file_io.list_names(files.path) if name.name.startswith(".staging")] == []
        files.file_io.mkdirs(f"{files.path}/p=1")
        files.file_io.write_bytes(f"{files.path}/p=1/part-0.csv", b"1\n")
        with pytest.raises(Exception, match=r"no file system of s3a?://: add hadoop-aws to the session"):
            run("SELECT * FROM bare.files.t").collect()
        run("TRUNCATE TABLE bare.files.t")
        assert files.files() == []
        run("DROP TABLE bare.files.t")
    session.sql("DROP DATABASE bare.files")


@pytest.mark.turns("connect")
def test_the_statements_of_a_day_on_connect(connect: str, catalogs: dict[str, dict[str, str]]) -> None:
    program = [sys.executable, "-X", "faulthandler", "-m", "tests.spark.connect_catalogs_program"]
    done = run_program([*program, connect, json.dumps(catalogs)], ROOT, os.environ)
    assert done.code == 0, done.err[-3000:]
    assert done.out.split() == [*catalogs]
