"""Stores that cannot be used, through every API: one sentence with what to do, within 30 seconds, without a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from conftest import ROOT
from paimon_spark.errors import StorageError
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.spark.refused_stores_program import fronts, told
from tests.support.store_servers import store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

SECRET = "aGlkZGVu"
AWAY = "http://127.0.0.1:1"
KEYS = {"s3.access-key": "key", "s3.secret-key": SECRET, "s3.path-style-access": "true"}
AZURE = f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={SECRET};BlobEndpoint={AWAY}/account;"
AWAY_WORDS = r"(does not answer|No NameNode answers).*(Check|Give)"
CASES: dict[str, tuple[str, dict[str, str], str]] = {
    "s3": ("s3://b/wh", {"s3.endpoint": AWAY, **KEYS}, AWAY_WORDS),
    "s3a": ("s3a://b/wh", {"fs.s3a.endpoint": AWAY, **KEYS}, AWAY_WORDS),
    "gcs": ("gs://b/wh", {"fs.endpoint_url": AWAY, "fs.token": "anon"}, AWAY_WORDS),
    "azure": ("abfs://c/wh", {"fs.connection_string": AZURE}, AWAY_WORDS),
    "hdfs": ("hdfs://127.0.0.1:1/wh", {}, AWAY_WORDS),
    "no bucket": ("s3:///wh", KEYS, "names no bucket"),
    "no container": ("abfs:///wh", {"fs.connection_string": AZURE}, "names no container"),
    "missing bucket": ("s3://missing/wh", {}, "does not exist.*Create"),
}


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, tuple[str, dict[str, str], str]]]:
    """The cases, of which one needs a server that answers."""
    with store_server("s3") as server:
        root, _, words = CASES["missing bucket"]
        yield {**CASES, "missing bucket": (root, dict(server.options), words)}


def check(text: str, words: str) -> None:
    sentence = next((line for line in text.splitlines() if re.search(words, line)), None)
    assert sentence is not None, text
    assert SECRET not in text


@pytest.mark.parametrize("case", CASES)
def test_what_a_classic_session_is_told(
    spark: SparkSession, cases: dict[str, tuple[str, dict[str, str], str]], case: str
) -> None:
    root, options, words = cases[case]
    session = spark.newSession()
    for run in fronts(session, root, options).values():
        begun = time.monotonic()
        check(told(run), words)
        assert time.monotonic() - begun < 30
    name = f"refused_{case.replace(' ', '_')}"

    def by_catalog() -> DataFrame:
        paimon_spark.register_catalog(session, name, warehouse=root, **options)
        return session.sql(f"SELECT * FROM {name}.d.t")

    begun = time.monotonic()
    check(told(by_catalog), words)
    assert time.monotonic() - begun < 30


def test_what_a_connect_client_is_told(connect: str, cases: dict[str, tuple[str, dict[str, str], str]]) -> None:
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
