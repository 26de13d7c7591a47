"""UPDATE, DELETE and MERGE whose conditions and values name metadata columns: with an alias and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

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
def placed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return session_of(spark, "placed", tmp_path_factory.mktemp("placed"))


@pytest.fixture(params=["catalog", "text"])
def run(request: pytest.FixtureRequest, placed: SparkSession) -> Run:
    return run_by(placed, request.param)


def changed(session: SparkSession, run: Run, kind: str, alias: str, statement: str) -> list[tuple[object, ...]]:
    """The rows of a table of (1, a), (2, b), (3, c) after a statement."""
    name = f"placed.db.t{next(_numbers)}"
    session.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING) {KINDS[kind]}")
    session.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')").collect()
    run(statement.replace("{T}", name).replace("{A}", alias).replace("{a}", alias or name.split(".")[-1])).collect()
    return [tuple(row) for row in session.sql(f"SELECT * FROM {name} ORDER BY id").collect()]


@pytest.mark.parametrize("alias", ["", "t"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_and_positions(placed: SparkSession, run: Run, kind: str, alias: str) -> None:
    assert changed(placed, run, kind, alias, "DELETE FROM {T} {A} WHERE __paimon_row_index = 1") == [(1, "a"), (3, "c")]
    found = changed(placed, run, kind, alias, "UPDATE {T} {A} SET v = concat(v, {a}.__paimon_bucket) WHERE id > 1")
    assert found == [(1, "a"), (2, "b0"), (3, "c0")]


@pytest.mark.parametrize("alias", ["", "t"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_with_itself_by_position(placed: SparkSession, kind: str, alias: str) -> None:
    merge = f"MERGE INTO {{T}} {{A}} {SELF} WHEN MATCHED AND s.at > 0 THEN UPDATE SET v = concat('at', s.at)"
    assert changed(placed, placed.sql, kind, alias, merge) == [(1, "a"), (2, "at1"), (3, "at2")]


@pytest.mark.parametrize("alias", ["", "t"])
def test_row_ids(placed: SparkSession, run: Run, alias: str) -> None:
    assert changed(placed, run, "tracked", alias, "DELETE FROM {T} {A} WHERE _ROW_ID = 1") == [(1, "a"), (3, "c")]
    value = "concat(_ROW_ID, '-', _SEQUENCE_NUMBER)"
    found = changed(placed, run, "tracked", alias, f"UPDATE {{T}} {{A}} SET v = {value} WHERE _ROW_ID >= 1")
    assert found == [(1, "a"), (2, "1-1"), (3, "2-1")]
    merge = "MERGE INTO {T} {A} USING (SELECT 1L AS rid) s ON {a}._ROW_ID = s.rid WHEN MATCHED THEN UPDATE SET v = 'x'"
    assert changed(placed, run, "tracked", alias, merge) == [(1, "a"), (2, "x"), (3, "c")]
