"""How many requests each statement sends to a store with S3's protocol, once a process knows the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.table import schema_store
from tests.support.s3_server import RequestLog, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

Run = Callable[[str], DataFrame]
KEYED = "(k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='4')"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("requests") / "log"


@pytest.fixture(scope="module")
def run(spark: SparkSession, log: Path) -> Iterator[Run]:
    """Runs statements in a database `d`, in which `t` has four buckets, and `four` as many files.

    Schemas count as read a moment ago, however slow the machine is: a read that begins later looks once more.
    """
    with s3_server(log) as server, pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema_store, "FRESH_SECONDS", float("inf"))
        session = spark.newSession()
        paimon_spark.register_catalog(session, "counted", warehouse=server.root, **server.options)
        session.sql("CREATE DATABASE counted.d")
        session.sql(f"CREATE TABLE counted.d.t {KEYED}")
        session.sql("INSERT INTO counted.d.t SELECT id, 'a' FROM range(1000)")
        session.sql("CREATE TABLE counted.d.four (k INT, v STRING)")
        for n in range(4):
            session.sql(f"INSERT INTO counted.d.four VALUES ({n}, 'x')")
        yield session.sql


@pytest.fixture
def sent(run: Run, log: Path) -> Callable[[str], list[str]]:
    """Runs a statement and returns its requests."""
    requests = RequestLog(log)

    def of(statement: str) -> list[str]:
        requests.new()
        run(statement).collect()
        return requests.new()

    return of


def test_each_statement_sends_few_requests(run: Run, sent: Callable[[str], list[str]]) -> None:
    """Upper bounds: fewer is better."""
    run("INSERT INTO counted.d.t VALUES (5, 'b')")
    for statement, most in [
        ("SELECT * FROM counted.d.t WHERE k = 5", 4),
        ("SELECT * FROM counted.d.four", 6),
        ("INSERT INTO counted.d.t VALUES (6, 'c')", 16),
        ("CALL counted.sys.create_tag(table => 'd.t', tag => 'one')", 4),
        ("DESCRIBE TABLE counted.d.t", 1),
        ("SHOW TABLES IN counted.d", 2),
        ("DELETE FROM counted.d.t WHERE k = 7", 18),
        (f"CREATE TABLE counted.d.u {KEYED}", 7),
    ]:
        run("SELECT * FROM counted.d.t").collect()
        run("SELECT * FROM counted.d.four").collect()
        found = sent(statement)
        assert len(found) <= most, (statement, found)
    assert len(sent("SHOW TABLES IN counted.d")) <= 2  # there are three now
    run("INSERT INTO counted.d.t SELECT id, 'c' FROM range(1000)")
    found = sent("CALL counted.sys.compact(table => 'd.t', compact_strategy => 'full')")
    written = {request.split("/")[-2] for request in found if request.startswith("PUT") and "/bucket-" in request}
    assert sorted(written) == [f"bucket-{n}" for n in range(4)]
    assert len(found) <= 40, found


def test_a_schema_that_was_read_a_while_ago_is_looked_at_once_more(
    sent: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT * FROM counted.d.four WHERE k >= 0"
    sent(statement)
    fresh = sent(statement)
    monkeypatch.setattr(schema_store, "FRESH_SECONDS", 0.0)
    late = sent(statement)
    assert late.count("GET wh/d.db/four/schema/schema-0") == 1
    assert sorted(late) == sorted([*fresh, "GET wh/d.db/four/schema/schema-0"])


def test_a_database_that_another_drops_is_gone_in_the_next_statement(
    run: Run, sent: Callable[[str], list[str]]
) -> None:
    run("CREATE DATABASE counted.e")
    assert sent("CREATE TABLE counted.e.t (a INT)").count("LIST wh/e.db") <= 4
    run("DROP DATABASE counted.e CASCADE")
    for statement in ("CREATE TABLE counted.e.t (a INT)", "DESCRIBE DATABASE counted.e", "SHOW TABLES IN counted.e"):
        with pytest.raises(Exception, match=r"SCHEMA_NOT_FOUND|NoSuchNamespace"):
            run(statement)


def test_a_stream_lists_snapshots_few_times(run: Run, log: Path, tmp_path: Path) -> None:
    """Where it ends, where it begins, and how far behind it is after each of two triggers."""
    frame = run("SELECT 1").sparkSession.readStream.table("counted.d.four")
    stream = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    requests = RequestLog(log)
    requests.new()
    stream.start().awaitTermination()
    found = requests.new()
    assert sum(request.startswith("LIST wh/d.db/four/snapshot") for request in found) <= 4, found
