"""Stores that cannot be used, through every API: one sentence with what to do, within 30 seconds, without a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from conftest import ROOT
from paimon_spark.errors import StorageError
from paimon_spark.storage.file_io import FsspecFileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.spark.refused_stores_program import fronts, told
from tests.support.faulty_server import S3_REFUSALS, Fault, faulty
from tests.support.pauses import pauses
from tests.support.store_server import BUCKET
from tests.support.store_servers import store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

SECRET = "aGlkZGVu"
AWAY = "http://127.0.0.1:1"
KEYS = {"s3.access-key": "key", "s3.secret-key": SECRET, "s3.path-style-access": "true"}
AZURE = f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={SECRET};BlobEndpoint={AWAY}/account;"
AWAY_WORDS = r"(does not answer|No NameNode answers).*(Check|Give)"
Case = tuple[str, dict[str, str], str]
"""A warehouse, options that reach it, and words of the error."""
CASES: dict[str, Case] = {
    "s3": ("s3://b/wh", {"s3.endpoint": AWAY, **KEYS}, AWAY_WORDS),
    "s3a": ("s3a://b/wh", {"fs.s3a.endpoint": AWAY, **KEYS}, AWAY_WORDS),
    "gcs": ("gs://b/wh", {"fs.endpoint_url": AWAY, "fs.token": "anon"}, AWAY_WORDS),
    "azure": ("abfs://c/wh", {"fs.connection_string": AZURE}, AWAY_WORDS),
    "hdfs": ("hdfs://127.0.0.1:1/wh", {}, AWAY_WORDS),
    "no bucket": ("s3:///wh", KEYS, "names no bucket"),
    "no container": ("abfs:///wh", {"fs.connection_string": AZURE}, "names no container"),
}
MISSING = "does not exist.*Create"
OF_SERVERS: dict[str, tuple[str, str, Fault | None, str]] = {
    "missing bucket": ("s3", "missing", None, MISSING),
    "missing bucket of gcs": ("gcs", "missing", None, MISSING),
    "missing container": ("azure", "missing", None, MISSING),
    "keys": ("s3", BUCKET, *S3_REFUSALS["keys"]),
    "keys of azure": ("azure", BUCKET, None, "may not be read"),
    "clock": ("s3", BUCKET, *S3_REFUSALS["clock"]),
    "region": ("s3", BUCKET, *S3_REFUSALS["region"]),
    "silent": ("s3", BUCKET, "silent", AWAY_WORDS),
}
"""The server, a bucket there, what it answers of its own accord, and words of the error."""
SHORTLY = {"s3.connection.timeout": "1 s", "s3.attempts.maximum": "1"}


@contextmanager
def refusing(name: str) -> Iterator[Case]:
    """A case, with a server where it needs one."""
    if name not in OF_SERVERS:
        yield CASES[name]
        return
    store, bucket, fault, words = OF_SERVERS[name]
    with store_server(store) as server, faulty(server) as (front, faults):
        faults.rule = lambda *_: fault
        options = {**front.options, **(SHORTLY if store == "s3" else {})}
        if "keys" in name and store == "azure":
            options = {key: re.sub("AccountKey=[^;]+", f"AccountKey={SECRET}", it) for key, it in options.items()}
        yield front.root.replace(BUCKET, bucket, 1), options, words


def fronts_of(session: SparkSession, catalog: str, root: str, options: dict[str, str]) -> list[Callable[[], object]]:
    """Ways to name a table of a warehouse."""
    read, text = fronts(session, root, options).values()
    writer = session.range(1).write.format("paimon").options(**options).mode("append")
    return [
        lambda: session.sql(f"SELECT * FROM {catalog}.d.t"),
        lambda: session.sql(f"CREATE TABLE {catalog}.d.t (k INT)"),
        read,
        lambda: session.sql(f"INSERT INTO {catalog}.d.t VALUES (1)"),
        lambda: writer.save(f"{root}/d.db/t"),
        text,
    ]


def check(text: str, words: str) -> None:
    sentence = next((line for line in text.splitlines() if re.search(words, line)), None)
    assert sentence is not None, text
    assert SECRET not in text
    assert "hidden" not in text


@pytest.mark.parametrize("case", [*CASES, *OF_SERVERS])
def test_what_a_classic_session_is_told(spark: SparkSession, case: str) -> None:
    """By one front in turn: each case, and each front."""
    number = [*CASES, *OF_SERVERS].index(case)
    session, catalog = spark.newSession(), f"refused_{number}"
    with refusing(case) as (root, options, words):
        paimon_spark.register_catalog(session, catalog, warehouse=root, **options)
        ways = fronts_of(session, catalog, root, options)
        with pauses() as paused:
            text = told(ways[number % len(ways)])
        assert sum(pause.seconds for pause in paused) < 30
    check(text, words)
    assert len(text.splitlines()) == 1


def test_a_save_asks_a_store_that_does_not_answer_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def silent(_: object, path: str) -> list[str]:
        asked.append(path)
        raise StorageError(f"The store of {path} does not answer")

    monkeypatch.setattr(FsspecFileIO, "list_names", silent)
    with pytest.raises(StorageError, match="does not answer"):
        spark.range(1).write.format("paimon").options(**CASES["s3"][1]).mode("append").save("s3://b/wh/d.db/t")
    assert len(asked) == 1


@pytest.mark.turns("connect")
def test_what_a_connect_client_is_told(connect: str) -> None:
    with refusing("missing bucket") as missing:
        cases = {**CASES, "missing bucket": missing}
        given = [(root, options) for root, options, _ in cases.values()]
        program = [sys.executable, "-m", "tests.spark.refused_stores_program", connect, json.dumps(given)]
        done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for (_, _, words), found in zip(cases.values(), json.loads(done.stdout.splitlines()[-1]), strict=True):
        for text in found.values():
            check(text, words)


def test_a_statement_asks_a_store_that_does_not_answer_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks for the database many times while it plans CREATE TABLE, and passes over errors."""
    paimon_spark.register_catalog(spark, "away", warehouse="s3://b/wh", **CASES["s3"][1])
    asked: list[str] = []

    def silent(_: object, name: str) -> bool:
        asked.append(name)
        raise StorageError(f"The store of {name} does not answer")

    monkeypatch.setattr(FilesystemCatalog, "database_exists", silent)
    for number in (1, 2):
        with pytest.raises(StorageError, match="does not answer"):
            spark.sql("CREATE TABLE away.d.t (k INT)")
        assert asked == ["d"] * number
