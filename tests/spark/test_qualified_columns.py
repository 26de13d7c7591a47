"""Columns that statements qualify by a table's whole name mean the same by both fronts: Spark says what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError
from tests.support.warehouses import FRONTS, Run, run_by, session_of

pytestmark = pytest.mark.spark
_KEYS = "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')"
TABLES = {
    "q.a.t": (
        f"(k INT NOT NULL, v STRING, n STRUCT<f: INT, k: INT>) {_KEYS}",
        "(1, 'a', named_struct('f', 10, 'k', 100)), (2, 'b', named_struct('f', 20, 'k', 200)), (3, 'c', NULL)",
    ),
    "q.b.t": (f"(k INT NOT NULL, v STRING) {_KEYS}", "(2, 'B'), (4, 'D')"),
    "q.a.s": ("(k INT, v STRING)", "(1, 'x'), (9, 'y')"),
    # columns with the names of the table and of its database
    "q.a.u": (
        f"(k INT NOT NULL, u STRUCT<k: INT, v: STRING>, a STRUCT<u: STRUCT<z: INT>>, v STRING) {_KEYS}",
        "(1, named_struct('k', 7, 'v', 'in'), named_struct('u', named_struct('z', 5)), 'o')",
    ),
}


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    found = session_of(spark, "q", warehouse)
    for database in ("a", "b"):
        found.sql(f"CREATE DATABASE q.{database}")
    return found


@pytest.fixture(scope="module", params=FRONTS)
def front(request: pytest.FixtureRequest, session: SparkSession) -> Run:
    return run_by(session, request.param)


@pytest.fixture(scope="module")
def filled(front: Run) -> Iterator[Run]:
    """Runs queries over the tables."""
    _fill(front)
    yield front
    _drop(front)


@pytest.fixture
def run(filled: Run) -> Iterator[Run]:
    """Runs statements that change the tables, which are made anew then."""
    yield filled
    _drop(filled)
    _fill(filled)


def _fill(run: Run) -> None:
    for name, (columns, rows) in TABLES.items():
        run(f"CREATE TABLE {name} {columns}")
        run(f"INSERT INTO {name} VALUES {rows}")


def _drop(run: Run) -> None:
    for name in TABLES:
        run(f"DROP TABLE {name}")


def rows(run: Run, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in run(query).collect()), key=repr)


KEYS = [(1,), (2,), (3,)]
QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT q.a.t.k FROM q.a.t": KEYS,
    "SELECT a.t.k FROM q.a.t": KEYS,
    "SELECT Q.`A`.T.K FROM q.a.t": KEYS,
    "SELECT q.a.t.n.f FROM q.a.t WHERE a.t.k = 1": [(10,)],
    "SELECT b.t.* FROM q.b.t": [(2, "B"), (4, "D")],
    "SELECT q.a.t.k, q.b.t.v FROM q.a.t JOIN q.b.t ON a.t.k = b.t.k": [(2, "B")],
    "SELECT t.k FROM q.a.t UNION ALL SELECT t.k FROM q.b.t": [(1,), (2,), (2,), (3,), (4,)],
    "SELECT * FROM (SELECT max(t.v) FROM q.a.t) x, (SELECT min(t.v) FROM q.b.t) y": [("c", "B")],
    "SELECT t.k FROM q.a.t WHERE EXISTS (SELECT 1 FROM q.b.t WHERE t.k = 4)": KEYS,
    "SELECT q.a.t.k FROM q.a.t WHERE EXISTS (SELECT 1 FROM q.b.t WHERE q.b.t.k = q.a.t.k)": [(2,)],
    "SELECT t.k FROM q.a.t WHERE k IN (SELECT t.k FROM q.b.t WHERE t.v = 'B')": [(2,)],
    "WITH w AS (SELECT t.k FROM q.a.t) SELECT t.k, w.k FROM w JOIN q.b.t ON t.k = w.k": [(2, 2)],
    "SELECT u.k, u.v, a.u.k, a.u.z, u.u.v, q.a.u.u.v FROM q.a.u": [(1, "o", 1, 5, "in", "in")],
    "SELECT a.t.k FROM (SELECT named_struct('t', named_struct('k', 77)) AS a) "
    "WHERE EXISTS (SELECT 1 FROM q.a.t WHERE a.t.k = 1)": [(77,)],
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries(filled: Run, query: str) -> None:
    assert rows(filled, query) == QUERIES[query]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.k FROM q.a.t JOIN q.b.t ON a.t.k = b.t.k",
        "SELECT q.b.t.k FROM q.a.t",
        "SELECT q.a.t.k FROM q.a.t x",
    ],
)
def test_what_qualifies_no_column_or_two_is_refused(filled: Run, query: str) -> None:
    with pytest.raises(AnalysisException, match=r"AMBIGUOUS_REFERENCE|UNRESOLVED_COLUMN"):
        filled(query).collect()


CHANGES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "UPDATE q.a.t SET q.a.t.v = concat(a.t.v, '!') WHERE t.k = 1": (
        "SELECT k, v FROM q.a.t",
        [(1, "a!"), (2, "b"), (3, "c")],
    ),
    "UPDATE q.a.t SET A.T.n.f = q.a.t.n.k WHERE Q.A.T.K = 2": (
        "SELECT k, n.f FROM q.a.t",
        [(1, 10), (2, 200), (3, None)],
    ),
    # the table qualifies before a struct of its name does
    "UPDATE q.a.u SET u.v = 'new' WHERE u.k = 1": ("SELECT v, u.u.v AS w FROM q.a.u", [("new", "in")]),
    "UPDATE q.a.u SET u.u.v = 'new', a.u.z = 6 WHERE a.u.z = 5": (
        "SELECT v, u.u.v AS w, a.u.z FROM q.a.u",
        [("o", "new", 6)],
    ),
    "UPDATE q.a.u x SET u.v = 'new' WHERE u.k = 7": ("SELECT x.v, x.u.v AS w FROM q.a.u x", [("o", "new")]),
    "DELETE FROM q.a.t WHERE q.a.t.n.f = 10": ("SELECT k FROM q.a.t", [(2,), (3,)]),
    "DELETE FROM q.a.t WHERE EXISTS (SELECT 1 FROM q.b.t WHERE q.b.t.k = q.a.t.k)": (
        "SELECT k FROM q.a.t",
        [(1,), (3,)],
    ),
    "DELETE FROM q.a.t WHERE k IN (SELECT t.k FROM q.b.t)": ("SELECT k FROM q.a.t", [(1,), (3,)]),
    "DELETE FROM q.a.s WHERE a.s.k = 1 AND EXISTS (SELECT 1 FROM q.a.t WHERE t.k = s.k)": (
        "SELECT k FROM q.a.s",
        [(9,)],
    ),
    "UPDATE q.a.s SET v = (SELECT max(q.a.t.v) FROM q.a.t WHERE q.a.t.k = q.a.s.k)": (
        "SELECT k, v FROM q.a.s",
        [(1, "a"), (9, None)],
    ),
    "MERGE INTO q.a.t USING q.a.s ON q.a.t.k = q.a.s.k WHEN MATCHED AND q.a.t.v = 'a' THEN "
    "UPDATE SET q.a.t.v = concat(t.v, q.a.s.v) WHEN NOT MATCHED THEN INSERT (t.k, q.a.t.v) VALUES (s.k, a.s.v)": (
        "SELECT k, v FROM q.a.t",
        [(1, "ax"), (2, "b"), (3, "c"), (9, "y")],
    ),
    "MERGE INTO q.a.t USING q.b.t ON q.a.t.k = q.b.t.k WHEN MATCHED THEN UPDATE SET v = b.t.v "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (q.b.t.k, q.b.t.v) "
    "WHEN NOT MATCHED BY SOURCE AND a.t.k = 3 THEN DELETE": (
        "SELECT k, v FROM q.a.t",
        [(1, "a"), (2, "B"), (4, "D")],
    ),
    "MERGE INTO q.a.t AS x USING q.b.t ON x.k = b.t.k WHEN MATCHED THEN UPDATE SET x.v = t.v": (
        "SELECT k, v FROM q.a.t",
        [(1, "a"), (2, "B"), (3, "c")],
    ),
    "MERGE INTO q.a.t USING q.a.s s ON a.t.k = s.k WHEN MATCHED AND EXISTS "
    "(SELECT 1 FROM q.b.t WHERE q.b.t.k = s.k + 1) THEN UPDATE SET q.a.t.n.f = 5": (
        "SELECT k, n.f FROM q.a.t",
        [(1, 5), (2, 20), (3, None)],
    ),
    "MERGE INTO q.a.u USING q.a.s s ON u.k = s.k WHEN MATCHED THEN UPDATE SET u.v = s.v, u.u.v = 'w'": (
        "SELECT v, u.u.v AS w FROM q.a.u",
        [("x", "w")],
    ),
}


@pytest.mark.parametrize("statement", CHANGES)
def test_changes(run: Run, statement: str) -> None:
    query, expected = CHANGES[statement]
    run(statement)
    assert rows(run, query) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE q.a.t x SET t.v = 'z'",
        "UPDATE q.a.t SET b.t.v = 'z'",
        "DELETE FROM q.a.t x WHERE q.a.t.k = 1",
        "DELETE FROM q.a.s WHERE k IN (SELECT a.t.k FROM q.a.t JOIN q.b.t ON t.k = b.t.k)",
        "MERGE INTO q.a.t USING q.b.t ON t.k = b.t.k WHEN MATCHED THEN DELETE",
        "MERGE INTO q.a.t USING (SELECT 1 AS k, 'v' AS v) t ON q.a.t.k = t.k WHEN MATCHED THEN DELETE",
    ],
)
def test_a_change_by_a_name_that_qualifies_no_column_or_two_is_refused(filled: Run, statement: str) -> None:
    with pytest.raises((AnalysisException, PaimonError)):
        filled(statement)
    assert rows(filled, "SELECT k, v FROM q.a.t") == [(1, "a"), (2, "b"), (3, "c")]
