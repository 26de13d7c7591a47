"""UPDATE, DELETE and MERGE whose conditions and values name metadata columns: with an alias and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.seeds import pairs
from tests.support.warehouses import run_by, session_of

pytestmark = pytest.mark.spark

Run = Callable[[str], DataFrame]
_numbers = itertools.count()
KINDS = {
    "append": "",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "tracked": "TBLPROPERTIES ('row-tracking.enabled' = 'true')",
    "keys": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')",
    "keyed vectors": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')",
}
SELF = "USING (SELECT {} AS at, {} AS file FROM {{T}}) s ON {{a}}.{} = s.at AND {{a}}.{} = s.file".format(
    "__paimon_row_index", "__paimon_file_path", "__paimon_row_index", "__paimon_file_path"
)


@pytest.fixture(scope="module")
def located(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return session_of(spark, "located", tmp_path_factory.mktemp("located"))


FRONTS = ("catalog", "text")


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, located: SparkSession) -> Run:
    return run_by(located, request.param)


def changed(session: SparkSession, run: Run, kind: str, alias: str, statement: str) -> list[tuple[object, ...]]:
    """The rows of a table of (1, a), (2, b), (3, c) after a statement."""
    name = f"located.db.t{next(_numbers)}"
    session.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) {KINDS[kind]}")
    session.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')").collect()
    run(statement.replace("{T}", name).replace("{A}", alias).replace("{a}", alias or name.split(".")[-1])).collect()
    return [tuple(row) for row in session.sql(f"SELECT * FROM {name} ORDER BY id").collect()]


@pytest.mark.parametrize(("kind", "alias", "run"), pairs(KINDS, ("", "t"), FRONTS), indirect=["run"])
def test_files_and_positions(located: SparkSession, run: Run, kind: str, alias: str) -> None:
    assert changed(located, run, kind, alias, "DELETE FROM {T} {A} WHERE __paimon_row_index = 1") == [
        (1, "a"),
        (3, "c"),
    ]
    found = changed(located, run, kind, alias, "UPDATE {T} {A} SET v = concat(v, {a}.__paimon_bucket) WHERE id > 1")
    assert found == [(1, "a"), (2, "b0"), (3, "c0")]


@pytest.mark.parametrize("alias", ["", "t"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_with_itself_by_position(located: SparkSession, kind: str, alias: str) -> None:
    merge = f"MERGE INTO {{T}} {{A}} {SELF} WHEN MATCHED AND s.at > 0 THEN UPDATE SET v = concat('at', s.at)"
    assert changed(located, located.sql, kind, alias, merge) == [(1, "a"), (2, "at1"), (3, "at2")]


@pytest.mark.parametrize("alias", ["", "t"])
def test_row_ids(located: SparkSession, run: Run, alias: str) -> None:
    assert changed(located, run, "tracked", alias, "DELETE FROM {T} {A} WHERE _ROW_ID = 1") == [(1, "a"), (3, "c")]
    value = "concat(_ROW_ID, '-', _SEQUENCE_NUMBER)"
    found = changed(located, run, "tracked", alias, f"UPDATE {{T}} {{A}} SET v = {value} WHERE _ROW_ID >= 1")
    assert found == [(1, "a"), (2, "1-1"), (3, "2-1")]
    merge = "MERGE INTO {T} {A} USING (SELECT 1L AS rid) s ON {a}._ROW_ID = s.rid WHEN MATCHED THEN UPDATE SET v = 'x'"
    assert changed(located, run, "tracked", alias, merge) == [(1, "a"), (2, "x"), (3, "c")]


SOURCES = {
    "table": "{T} AS s",
    "columns": "(SELECT id, v, _ROW_ID FROM {T}) s",
    "star": "(SELECT * FROM {T}) s",
    "filtered": "(SELECT id, v FROM {T} WHERE id > 0) s",
}


def merged_with_itself(located: SparkSession, run: Run, source: str, alias: str) -> list[list[tuple[object, ...]]]:
    merge = f"MERGE INTO {{T}} {{A}} USING {SOURCES[source]} ON {{a}}._ROW_ID = s._ROW_ID WHEN MATCHED AND "
    update = merge + "s.id > 1 THEN UPDATE SET v = concat(s._ROW_ID, s.v)"
    return [changed(located, run, "tracked", alias, text) for text in (update, merge + "s._ROW_ID = 1 THEN DELETE")]


@pytest.mark.parametrize(("source", "alias", "run"), pairs(("table", "columns"), ("", "t"), FRONTS), indirect=["run"])
def test_metadata_columns_of_a_source_that_is_the_target(
    located: SparkSession, run: Run, source: str, alias: str
) -> None:
    found = merged_with_itself(located, run, source, alias)
    assert found == [[(1, "a"), (2, "1b"), (3, "2c")], [(1, "a"), (3, "c")]]


@pytest.mark.parametrize("source", ["star", "filtered"])
def test_metadata_columns_behind_a_query_of_the_source(located: SparkSession, source: str) -> None:
    found = merged_with_itself(located, located.sql, source, "t")
    assert found == [[(1, "a"), (2, "1b"), (3, "2c")], [(1, "a"), (3, "c")]]


def test_metadata_columns_of_the_source_of_a_merge_into_no_rows(located: SparkSession, run: Run) -> None:
    located.sql("DROP TABLE IF EXISTS located.db.none")
    located.sql("DROP TABLE IF EXISTS located.db.some")
    for name in ("none", "some"):
        located.sql(f"CREATE TABLE located.db.{name} (id INT, v STRING) {KINDS['tracked']}")
    located.sql("INSERT INTO located.db.some VALUES (1, 'a')").collect()
    run(
        "MERGE INTO located.db.none t USING located.db.some s ON t.id = s._ROW_ID "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s._ROW_ID, s.v)"
    ).collect()
    assert [tuple(row) for row in located.sql("SELECT * FROM located.db.none").collect()] == [(0, "a")]
