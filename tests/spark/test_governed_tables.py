"""Tables of which a REST catalog hides rows or values: no entry point shows any of them, each says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.cli.main import main
from tests.support.rest_server import RestProxy, RestServer, rest_proxy
from tests.support.warehouses import FRONTS, Run, run_by, session_of_rest

pytestmark = pytest.mark.spark
REFUSED = r"governed \('query-auth\.enabled'\).* hides "
SECRET = "hidden-value"
LIMITS: dict[str, dict[str, object]] = {"rows": {"filter": ["{}"]}, "values": {"columnMasking": {"v": "{}"}}}
ROOT = "rest://wh/gov.db/g"


@pytest.fixture(scope="module")
def proxy(rest: RestServer) -> Iterator[RestProxy]:
    with rest_proxy(rest) as found:
        yield found


@pytest.fixture(scope="module")
def options(rest: RestServer, proxy: RestProxy) -> dict[str, str]:
    return rest.options(proxy.uri)


@pytest.fixture(scope="module")
def limits(proxy: RestProxy) -> dict[str, object]:
    """What the server answers whoever asks for a table's rights; empty for all of it."""
    told: dict[str, object] = {}

    def fault(_method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        is_asked = path.endswith("/auth") and "/tables/g" in path
        return (200, json.dumps(told).encode()) if is_asked else pass_on()

    proxy.fault = fault
    return told


@pytest.fixture(scope="module")
def session(
    spark: SparkSession,
    options: dict[str, str],
    limits: dict[str, object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkSession]:
    """A session with the governed table gov.g, its branch b, its tag one, and a view of it, made before limits."""
    found = session_of_rest(spark, "r", {key: text for key, text in options.items() if key != "warehouse"})
    found.sql("CREATE DATABASE r.gov")
    properties = "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1'"
    found.sql(f"CREATE TABLE r.gov.g (k INT NOT NULL, v STRING) {properties}, 'query-auth.enabled' = 'true')")
    outside = f"{tmp_path_factory.mktemp('outside')}/t"
    found.sql(
        f"CREATE TABLE r.gov.g_outside (k INT) TBLPROPERTIES ('query-auth.enabled' = 'true') LOCATION '{outside}'"
    )
    found.sql("INSERT INTO r.gov.g_outside VALUES (1)")
    found.sql(f"CREATE TABLE r.gov.free (k INT NOT NULL, v STRING) {properties})")
    for table in ("g", "free"):
        found.sql(f"INSERT INTO r.gov.{table} VALUES (1, '{SECRET}')")
    found.sql("CALL r.sys.create_tag(table => 'gov.g', tag => 'one')")
    found.sql("CALL r.sys.create_branch(table => 'gov.g', branch => 'b', tag => 'one')")
    found.sql("CREATE VIEW r.gov.seen AS SELECT * FROM r.gov.g")
    yield found
    limits.clear()
    found.sql("DROP DATABASE r.gov CASCADE")


@pytest.fixture(params=LIMITS)
def hidden(request: pytest.FixtureRequest, session: SparkSession, limits: dict[str, object]) -> Iterator[str]:
    """The server hides rows, or values."""
    limits.update(LIMITS[request.param])
    yield request.param
    limits.clear()


STATEMENTS = (
    "SELECT * FROM r.gov.g",
    "SELECT count(*) FROM r.gov.g",
    "SELECT * FROM r.gov.g VERSION AS OF 1",
    "SELECT * FROM r.gov.g VERSION AS OF 'one'",
    "SELECT * FROM r.gov.g TIMESTAMP AS OF current_timestamp()",
    "SELECT * FROM r.gov.`g$branch_b`",
    "SELECT * FROM r.gov.seen",
    "SELECT * FROM r.gov.free WHERE k IN (SELECT k FROM r.gov.g)",
    "INSERT INTO r.gov.free SELECT * FROM r.gov.g",
    "INSERT INTO r.gov.g SELECT * FROM r.gov.free",
    "UPDATE r.gov.g SET v = 'x' WHERE k = 1",
    "DELETE FROM r.gov.g WHERE v = 'x'",
    "MERGE INTO r.gov.free t USING r.gov.g s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
    "MERGE INTO r.gov.g t USING r.gov.free s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
    "CREATE TABLE r.gov.copied AS SELECT * FROM r.gov.g",
    "CALL r.sys.compact(table => 'gov.g')",
    "CALL r.sys.create_tag(table => 'gov.g', tag => 'two')",
    "ANALYZE TABLE r.gov.g COMPUTE STATISTICS FOR ALL COLUMNS",
    "TRUNCATE TABLE r.gov.g",
    *(
        f"SELECT * FROM r.gov.`g${name}`"
        for name in (
            *("snapshots", "files", "partitions", "manifests", "schemas", "options", "tags", "branches", "consumers"),
            *("buckets", "statistics", "audit_log", "binlog", "ro", "row_tracking", "table_indexes"),
        )
    ),
)


@pytest.mark.parametrize("front", FRONTS)
def test_statements(session: SparkSession, hidden: str, front: str, tmp_path: Path) -> None:
    run = run_by(session, front)
    copies = (
        f"COPY INTO '{tmp_path}/out' FROM r.gov.g FILE_FORMAT = (TYPE = CSV)",
        f"COPY INTO '{tmp_path}/out' FROM (SELECT * FROM r.gov.g) FILE_FORMAT = (TYPE = CSV)",
    )
    for statement in (*STATEMENTS, *copies):
        with pytest.raises(Exception, match=REFUSED + hidden) as refused:
            run(statement).collect()
        assert SECRET not in str(refused.value), statement
    assert not (tmp_path / "out").exists()
    assert {row.tableName for row in run("SHOW TABLES IN r.gov").collect()} == {"free", "g", "g_outside"}
    assert [tuple(row) for row in run("SELECT * FROM r.gov.free").collect()] == [(1, SECRET)]


@pytest.mark.parametrize("front", FRONTS)
def test_the_option_is_shown(session: SparkSession, limits: dict[str, object], front: str) -> None:
    shown = dict(run_by(session, front)("SHOW TBLPROPERTIES r.gov.g").collect())
    assert shown["query-auth.enabled"] == "true"


def test_the_system_database_leaves_a_governed_table_out(
    session: SparkSession, hidden: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = session.sql("SELECT table_name FROM r.sys.tables WHERE database_name = 'gov'").collect()
    assert [row[0] for row in names] == ["free"]
    assert {row.table_name for row in session.table("r.sys.all_table_options").collect()} >= {"free"}
    assert SECRET not in str(session.table("r.sys.partitions").collect())
    assert f"gov.g is left out of the catalog's system tables: Table gov.g is {REFUSED[:8]}" in caplog.text
    assert f"hides {hidden}" in caplog.text


def test_frames_methods_and_streams(
    session: SparkSession, options: dict[str, str], hidden: str, tmp_path: Path, run_free: Run
) -> None:
    given = {key: text for key, text in options.items() if key != "warehouse"}
    doors: dict[str, Callable[[], object]] = {
        "table": lambda: session.table("r.gov.g").collect(),
        "load": lambda: session.read.format("paimon").options(**options).load(ROOT).collect(),
        "load of files": lambda: session.read.format("paimon").options(**options).load(f"{ROOT}$files").collect(),
        "save": lambda: (
            run_free("SELECT 5 AS k, 'x' AS v").write.format("paimon").options(**options).mode("append").save(ROOT)
        ),
        "saveAsTable": lambda: (
            run_free("SELECT 5 AS k, 'x' AS v").write.format("paimon").mode("append").saveAsTable("r.gov.g")
        ),
        "for_name": lambda: PaimonTable.for_name(session, "r.gov.g").to_df().collect(),
        "for_path": lambda: PaimonTable.for_path(session, ROOT, **options).to_df().collect(),
        "open_table": lambda: paimon_spark.open_table("gov.g", catalog="wh", **given).scan().to_arrow(),
        "open_table of a branch": lambda: (
            paimon_spark.open_table("gov.g$branch_b", catalog="wh", **given).scan().to_arrow()
        ),
        "stream of a table": lambda: (
            session.readStream.table("r.gov.g")
            .writeStream.format("noop")
            .option("checkpointLocation", f"{tmp_path}/one")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        ),
        "stream of a path": lambda: (
            session.readStream.format("paimon")
            .options(**options)
            .load(ROOT)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{tmp_path}/two")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        ),
    }
    for door, opened in doors.items():
        with pytest.raises(Exception, match=REFUSED + hidden) as refused:
            opened()
        assert SECRET not in str(refused.value), door


@pytest.fixture
def run_free(session: SparkSession) -> Run:
    return run_by(session, "catalog")


@pytest.mark.parametrize("by", ["table", "path", "external"])
def test_a_stream_that_runs_ends_where_rows_are_hidden_by_now(
    session: SparkSession, options: dict[str, str], limits: dict[str, object], tmp_path: Path, by: str
) -> None:
    """Also that of an external table, whose snapshots the server does not have."""
    reader = session.readStream
    if by == "path":
        frame = reader.format("paimon").options(**options).load(ROOT)
    else:
        frame = reader.table("r.gov.g" if by == "table" else "r.gov.g_outside")
    query = (
        frame.writeStream.format("memory")
        .queryName(f"governed_{by}")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .start()
    )
    try:
        query.processAllAvailable()
        before = session.table(f"governed_{by}").count()
        assert before >= 1
        limits.update(LIMITS["rows"])
        with pytest.raises(Exception, match=REFUSED + "rows"):
            query.awaitTermination(120)
        assert session.table(f"governed_{by}").count() == before
    finally:
        limits.clear()
        query.stop()


def test_the_command_line(
    session: SparkSession, options: dict[str, str], hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word for key, text in options.items() if key != "warehouse" for word in ("-o", f"{key}={text}")]
    for command in (
        ["read", "gov.g"],
        ["read", "gov.g$files"],
        ["info", "gov.g"],
        ["files", "gov.g"],
        ["tags", "gov.g"],
    ):
        assert main([*command, "--warehouse", "wh", *given]) != 0
        told = capsys.readouterr()
        text = " ".join((told.out + told.err).split())
        assert "is governed" in text, (command, text)
        assert SECRET not in text
    assert hidden in LIMITS
    assert session is not None
