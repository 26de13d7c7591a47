"""Fields of STRUCTs are assigned by their names in UPDATE and MERGE: with an alias and without, deep inside too."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonTable
from tests.support.seeds import pairs
from tests.support.warehouses import run_by, session_of

pytestmark = pytest.mark.spark

Run = Callable[[str], DataFrame]
_numbers = itertools.count()
KINDS = {
    "append": "",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keys": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')",
    "partial-update": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update')",
    "evolution": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
}
COLUMNS = (
    "id INT NOT NULL, s STRUCT<city: STRING, zip: STRING>, l ARRAY<STRUCT<a: INT, b: VARCHAR(5)>>, "
    "m MAP<STRING, STRUCT<a: INT, b: STRUCT<x: INT, y: INT>>>"
)
OLD = (
    "named_struct('city', 'C', 'zip', '1'), array(named_struct('a', 1, 'b', '2')), "
    "map('k', named_struct('a', 1, 'b', named_struct('x', 1, 'y', 2)))"
)
SWAPPED = (
    "named_struct('zip', '9', 'city', 'D')",
    "array(named_struct('b', '20', 'a', 10))",
    "map('k', named_struct('b', named_struct('y', 4, 'x', 3), 'a', 2))",
)
SOURCE = "(SELECT n AS id, {} AS s, {} AS l, {} AS m FROM VALUES (1), (2) AS v(n))".format(*SWAPPED)
NEW = (("D", "9"), [(10, "20")], {"k": (2, (3, 4))})


FRONTS = ("catalog", "text")


@pytest.fixture(params=FRONTS)
def run(request: pytest.FixtureRequest, structs: SparkSession) -> Run:
    return run_by(structs, request.param)


@pytest.fixture(scope="module")
def structs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return session_of(spark, "structs", tmp_path_factory.mktemp("structs"))


def made(session: SparkSession, kind: str) -> str:
    name = f"structs.db.t{next(_numbers)}"
    session.sql(f"CREATE TABLE {name} ({COLUMNS}) {KINDS[kind]}")
    session.sql(f"INSERT INTO {name} VALUES (1, {OLD})").collect()
    return name


def rows(session: SparkSession, name: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(f"SELECT * FROM {name} ORDER BY id").collect()]


@pytest.mark.parametrize(("kind", "alias", "run"), pairs(KINDS, ("", "t"), FRONTS), indirect=["run"])
def test_update(structs: SparkSession, run: Run, kind: str, alias: str) -> None:
    name = made(structs, kind)
    run("UPDATE {} {} SET s = {}, l = {}, m = {}".format(name, alias, *SWAPPED)).collect()
    assert rows(structs, name) == [(1, *NEW)]


@pytest.mark.parametrize(
    ("kind", "alias", "clause", "run"),
    pairs(KINDS, ("", "t"), ("*", "s = s.s, l = s.l, m = s.m"), FRONTS),
    indirect=["run"],
)
def test_merge(structs: SparkSession, run: Run, kind: str, alias: str, clause: str) -> None:
    name = made(structs, kind)
    own = alias or name.rsplit(".", 1)[1]
    insert = "*" if clause == "*" else "(id, s) VALUES (s.id, s.s)"
    run(
        f"MERGE INTO {name} {alias} USING {SOURCE} AS s ON {own}.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET {clause} WHEN NOT MATCHED THEN INSERT {insert}"
    ).collect()
    second = NEW if clause == "*" else (NEW[0], None, None)
    assert rows(structs, name) == [(1, *NEW), (2, *second)]


def test_methods(structs: SparkSession) -> None:
    name = made(structs, "keys")
    path = structs.sql(f"SHOW TBLPROPERTIES {name}").where("key = 'path'").first()
    assert path is not None
    table = PaimonTable.for_path(structs, path["value"])
    table.update(dict(zip("slm", SWAPPED, strict=True)))
    assert rows(structs, name) == [(1, *NEW)]


@pytest.mark.parametrize("value", ["named_struct('city', 'D')", "named_struct('city', 'D', 'zip', '9', 'more', 1)"])
@pytest.mark.parametrize("kind", ["append", "keys"])
def test_other_fields_are_refused(structs: SparkSession, run: Run, kind: str, value: str) -> None:
    name = made(structs, kind)
    before = rows(structs, name)
    with pytest.raises(PySparkException, match=r"INCOMPATIBLE_DATA_FOR_TABLE"):
        run(f"UPDATE {name} SET s = {value}").collect()
    assert rows(structs, name) == before


NARROW = "(SELECT n AS id, named_struct('zip', '9') AS s, array(named_struct('b', '20')) AS l, {} AS m FROM {})".format(
    "map('k', named_struct('b', named_struct('y', 4)))", "VALUES (1), (2) AS v(n)"
)
DATA_EVOLUTION = "MERGE WITH SCHEMA EVOLUTION INTO {} t USING {} n ON t.id = n.id WHEN {}"


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_the_source_lacks(structs: SparkSession, run: Run, kind: str) -> None:
    """UPDATE * keeps those of STRUCTs, as in the official connector; elsewhere they are null."""
    name = made(structs, kind)
    stars = "MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    run(DATA_EVOLUTION.format(name, NARROW, stars)).collect()
    deep = ([(None, "20")], {"k": (None, (None, 4))})
    assert rows(structs, name) == [(1, ("C", "9"), *deep), (2, (None, "9"), *deep)]
    explicit = "MATCHED AND t.id = 1 THEN UPDATE SET s = n.s, l = n.l WHEN MATCHED THEN UPDATE SET id = t.id"
    run(DATA_EVOLUTION.format(name, NARROW, explicit)).collect()
    assert rows(structs, name)[0] == (1, (None, "9"), *deep)


def test_nulls_and_fields_that_the_source_lacks(structs: SparkSession, run: Run) -> None:
    name = f"structs.db.t{next(_numbers)}"
    kind = "STRUCT<a: INT, r: STRUCT<b: INT, c: INT>>"
    structs.sql(f"CREATE TABLE {name} (id INT, s {kind})")
    old = "named_struct('a', 1, 'r', named_struct('b', 2, 'c', 3))"
    structs.sql(f"INSERT INTO {name} VALUES (1, {old}), (2, NULL), (3, {old}), (4, NULL)").collect()
    new = "named_struct('r', named_struct('c', 30), 'a', 10)"
    source = f"(SELECT * FROM VALUES (1, {new}), (2, {new}), (3, NULL), (4, NULL), (5, NULL) AS v(id, s))"
    stars = "MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    run(DATA_EVOLUTION.format(name, source, stars)).collect()
    assert rows(structs, name) == [
        (1, (10, (2, 30))),
        (2, (10, (None, 30))),
        (3, (None, (2, None))),
        (4, None),
        (5, None),
    ]


def test_fields_that_the_source_lacks_are_an_error_without_evolution(structs: SparkSession, run: Run) -> None:
    name = made(structs, "append")
    merge = f"MERGE INTO {name} t USING {NARROW} n ON t.id = n.id WHEN MATCHED THEN UPDATE SET s = n.s"
    with pytest.raises(PySparkException, match=r"Cannot find data|has the fields"):
        run(merge).collect()
