"""COPY INTO: files into a table, and rows into files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.warehouses import FRONTS, Run, run_by, session_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=FRONTS)
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Run:
    return run_by(session_of(spark, "cp", tmp_path_factory.mktemp("copies")), request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("1,one\n2,NULL\n")
    (tmp_path / "b.csv").write_text("3,three\nx,four\n5\n")
    (tmp_path / "ignored.txt").write_text("9,nine\n")
    return tmp_path


def _shown(run: Run, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in run(text).collect()]


def test_csv_by_each_way_of_errors(run: Run, place: Path) -> None:
    run("CREATE TABLE cp.db.c (k INT, v STRING, w INT DEFAULT 7)")
    copy = f"COPY INTO cp.db.c (k, v) FROM '{place}' FILE_FORMAT = (TYPE = CSV, NULL_IF = ('NULL')) PATTERN = '[.]csv$'"
    with pytest.raises(Exception, match=r"nothing is loaded: file b\.csv: Malformed record"):
        run(copy)
    assert _shown(run, "SELECT * FROM cp.db.c") == []
    skipped = _shown(run, f"{copy} ON_ERROR = SKIP_FILE")
    assert [row[:5] for row in skipped] == [("a.csv", "LOADED", 2, 2, 0), ("b.csv", "LOAD_FAILED", 0, 3, 2)]
    assert sorted(_shown(run, "SELECT * FROM cp.db.c")) == [(1, "one", 7), (2, None, 7)]
    continued = _shown(run, f"{copy} ON_ERROR = CONTINUE")
    assert [row[:5] for row in continued] == [("b.csv", "PARTIALLY_LOADED", 1, 3, 2), ("a.csv", "SKIPPED", 0, 0, 0)]
    assert [row[1] for row in _shown(run, f"{copy} ON_ERROR = CONTINUE")] == ["SKIPPED", "SKIPPED"]
    assert [row[1] for row in _shown(run, f"{copy} FORCE = TRUE ON_ERROR = SKIP_FILE")] == ["LOADED", "LOAD_FAILED"]
    assert sorted(row[0] for row in _shown(run, "SELECT k FROM cp.db.c")) == [1, 1, 2, 2, 3]
    assert _shown(run, "SELECT count(*) FROM cp.db.`c$snapshots`") == [(3,)]


def test_texts_keep_their_backslashes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;\\N\n2;it's\n3;N\n")
    (tmp_path / "acsv").write_text("9;nine\n")
    run("CREATE TABLE cp.db.b (k INT, v STRING)")
    given = r"""FIELD_DELIMITER = ';', NULL_IF = ('\N', 'it\'s')) PATTERN = '\.csv$'"""
    run(f"COPY INTO cp.db.b FROM '{tmp_path}' FILE_FORMAT = (TYPE = CSV, {given}")
    assert sorted(_shown(run, "SELECT k, v FROM cp.db.b"), key=str) == [(1, None), (2, None), (3, "N")]


def test_rows_go_out_and_come_in_by_name(run: Run, tmp_path: Path) -> None:
    run("CREATE TABLE cp.db.s AS SELECT id AS k, CAST(id AS STRING) AS v FROM range(3)")
    run("CREATE TABLE cp.db.t (v STRING, k BIGINT)")
    for kind in ("JSON", "PARQUET"):
        out = f"{tmp_path}/{kind}"
        place, _, written = _shown(run, f"COPY INTO '{out}' FROM cp.db.s FILE_FORMAT = (TYPE = {kind})")[0]
        assert (place, written) == (out, 3)
        with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
            run(f"COPY INTO '{out}' FROM cp.db.s FILE_FORMAT = (TYPE = {kind})")
        query = "(SELECT k, v FROM cp.db.s WHERE k > 0)"
        run(f"COPY INTO '{out}' FROM {query} FILE_FORMAT = (TYPE = {kind}) OVERWRITE = TRUE")
        loaded = _shown(run, f"COPY INTO cp.db.t FROM '{out}' FILE_FORMAT = (TYPE = {kind})")
        assert {row[1] for row in loaded} == {"LOADED"}
    assert sorted(_shown(run, "SELECT k, v FROM cp.db.t")) == [(1, "1"), (1, "1"), (2, "2"), (2, "2")]


@pytest.mark.parametrize(
    "query", ["VALUES (1, 'a'), (2, 'b')", "SELECT id FROM range(2)", "SELECT * FROM some_of_spark"]
)
def test_rows_of_values_go_out(run: Run, tmp_path: Path, query: str) -> None:
    run("CREATE OR REPLACE TEMPORARY VIEW some_of_spark AS SELECT * FROM range(2)")
    out = f"{tmp_path}/values"
    assert _shown(run, f"COPY INTO '{out}' FROM ({query}) FILE_FORMAT = (TYPE = PARQUET)")[0][::2] == (out, 2)


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE cp.db.kept",
        "INSERT INTO cp.db.kept VALUES (2)",
        "WITH w AS (SELECT 2 AS k) INSERT INTO cp.db.kept SELECT k FROM w",
        "FROM (SELECT 2 AS k) INSERT INTO cp.db.kept SELECT k",
        "WITH w AS (SELECT 1 AS k) DELETE FROM cp.db.kept WHERE k IN (SELECT k FROM w)",
        "SET x.y = 1",
    ],
)
def test_rows_come_of_no_statement_that_changes_something(run: Run, tmp_path: Path, query: str) -> None:
    run("CREATE OR REPLACE TABLE cp.db.kept (k INT)")
    run("INSERT INTO cp.db.kept VALUES (1)")
    with pytest.raises(Exception, match="only supports read-only queries"):
        run(f"COPY INTO '{tmp_path}/out' FROM ({query}) FILE_FORMAT = (TYPE = CSV)")
    with pytest.raises(Exception, match="requires a non-empty query"):
        run(f"COPY INTO '{tmp_path}/out' FROM () FILE_FORMAT = (TYPE = CSV)")
    assert _shown(run, "SELECT k FROM cp.db.kept") == [(1,)]
    assert not (tmp_path / "out").exists()


def test_what_is_refused(run: Run, place: Path) -> None:
    run("CREATE TABLE cp.db.n (k INT NOT NULL, v STRING)")
    for statement, message in {
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = ORC)": "Unsupported file format type: ORC",
        f"COPY INTO cp.db.n FROM '{place}' FILEFORMAT = CSV": "COPY INTO is no statement of Paimon",
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = CSV, HEADER = TRUE)": "options for import: HEADER",
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = CSV, type = JSON)": "Duplicate FILE_FORMAT option",
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 2)": "only 0 or 1",
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = CSV SKIP_HEADER = 1)": "PARSE_SYNTAX_ERROR",
        f"COPY INTO cp.db.n FROM '{place}' FILE_FORMAT = (TYPE = CSV, ESCAPE = 'x' QUOTE = 'y')": "PARSE_SYNTAX_ERROR",
        f"COPY INTO cp.db.n (v) FROM '{place}' FILE_FORMAT = (TYPE = CSV)": "Non-nullable column 'k'",
        f"COPY INTO cp.db.n (k, K) FROM '{place}' FILE_FORMAT = (TYPE = CSV)": "Duplicate columns",
        f"COPY INTO cp.db.n (z) FROM '{place}' FILE_FORMAT = (TYPE = CSV)": "Column 'z' does not exist",
        f"COPY INTO cp.db.n FROM '{place}/no' FILE_FORMAT = (TYPE = CSV)": "there is no such directory",
    }.items():
        with pytest.raises(Exception, match=message):
            run(statement)
