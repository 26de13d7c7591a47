"""Option `write.merge-schema` through every entry point: new columns of writes by name are added to the table."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import paimon_spark
from paimon_spark.table.table import load_table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.catalog("wide", current=True, by_text=True),
    pytest.mark.usefixtures("warehouse"),
]

KEY = "write.merge-schema"
_numbers = itertools.count()


@pytest.fixture
def name(spark: SparkSession, warehouse: Path) -> str:
    """A table (k INT, v STRING, dt STRING) with one row."""
    found = f"t{next(_numbers)}"
    properties = "TBLPROPERTIES ('primary-key' = 'k,dt', 'bucket' = '2')"
    spark.sql(f"CREATE TABLE {found} (k INT NOT NULL, v STRING, dt STRING) PARTITIONED BY (dt) {properties}")
    spark.sql(f"INSERT INTO {found} VALUES (1, 'a', 'x')")
    return found


@pytest.fixture
def wide(spark: SparkSession) -> DataFrame:
    """A row with a column that the table lacks, in another order, and without one that it has."""
    return spark.sql("SELECT 'x' AS dt, 2.5D AS w, 2 AS k")


def rows(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(f"wide.db.{name}").collect())


WIDE = [(1, "a", "x", None), (2, None, "x", 2.5)]
WRITES: dict[str, Callable[[DataFrame, str], object]] = {
    "writeTo": lambda wide, name: wide.writeTo(name).option(KEY, "true").append(),
    "overwrite": lambda wide, name: wide.writeTo(name).option(KEY.upper(), "TRUE").overwrite(lit(True)),
    "another word": lambda wide, name: wide.writeTo(name).option("mergeSchema", "true").append(),
    "saveAsTable": lambda wide, name: wide.write.option(KEY, "true").mode("append").saveAsTable(name),
}


@pytest.mark.parametrize("entry_point", WRITES)
def test_as_an_option_of_a_writer(
    spark: SparkSession, warehouse: Path, name: str, wide: DataFrame, entry_point: str
) -> None:
    with pytest.raises(PySparkException, match="EXTRA_COLUMNS"):
        wide.writeTo(f"wide.db.{name}").append()
    WRITES[entry_point](wide, f"wide.db.{name}")
    assert rows(spark, name) == (WIDE[1:] if entry_point == "overwrite" else WIDE)
    schema = load_table(str(warehouse / "db.db" / name)).schema
    assert (schema.id, [field.type.sql() for field in schema.fields][-1]) == (1, "DOUBLE")
    wide.writeTo(f"wide.db.{name}").option(KEY, "true").append()
    assert load_table(str(warehouse / "db.db" / name)).schema.id == 1


@pytest.mark.thorough
def test_as_a_setting_of_the_session(spark: SparkSession, warehouse: Path, name: str, wide: DataFrame) -> None:
    spark.conf.set(f"spark.paimon.{KEY}", "true")
    try:
        explained = spark.sql(f"EXPLAIN INSERT INTO {name} BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w").head()
        assert explained is not None
        assert load_table(str(warehouse / "db.db" / name)).schema.id == 0
        spark.sql(f"INSERT INTO {name} BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w")
        assert rows(spark, name) == WIDE
        paimon_spark.sql(spark, f"INSERT INTO {name} BY NAME SELECT DATE'2024-01-31' AS day, 'x' AS dt, 3 AS k")
        assert spark.table(name).columns == ["k", "v", "dt", "w", "day"]
        wide.selectExpr("*", "true AS b").writeTo(f"wide.db.{name}").append()
        assert spark.table(name).columns == ["k", "v", "dt", "w", "day", "b"]
        assert spark.table(name).where("b").count() == 1
        with pytest.raises(PySparkException, match="TOO_MANY_DATA_COLUMNS"):  # by position nothing is added
            spark.sql(f"INSERT INTO {name} SELECT 1, 'a', 'x', 1D, DATE'2024-01-31', true, 7")
        with pytest.raises(PySparkException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
            spark.sql(f"INSERT INTO {name} BY NAME SELECT 5 AS k, 'x' AS dt, map(1, 2) AS w, 1 AS more")
        assert load_table(str(warehouse / "db.db" / name)).schema.id == 3
    finally:
        spark.conf.unset(f"spark.paimon.{KEY}")


def test_as_an_option_of_a_statement(spark: SparkSession, warehouse: Path, name: str) -> None:
    query = "BY NAME SELECT 2 AS k, 'x' AS dt, 2.5D AS w"
    with pytest.raises(PySparkException):
        paimon_spark.sql(spark, f"INSERT INTO {name} {query}")
    paimon_spark.sql(spark, f"INSERT INTO {name} WITH ('{KEY}' = 'true') {query}")
    assert rows(spark, name) == WIDE
    if not spark.version.startswith("4.0."):
        spark.sql(f"INSERT INTO {name} WITH ('{KEY}' = 'true') BY NAME SELECT 3 AS k, 'x' AS dt, 1 AS n")
        assert spark.table(name).columns == ["k", "v", "dt", "w", "n"]


WIDENING = {KEY: "true", f"{KEY}.type-widening": "true"}
LOSSY = {**WIDENING, f"{KEY}.explicit-cast": "true"}


@pytest.fixture
def typed(spark: SparkSession, warehouse: Path) -> str:
    """A table with dynamic buckets and columns that rows may bring wider."""
    found = f"t{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE {found} (k INT NOT NULL, i INT, d DECIMAL(6, 2), s STRING, r STRUCT<a: INT>) "
        "TBLPROPERTIES ('primary-key' = 'k')"
    )
    spark.sql(f"INSERT INTO {found} VALUES (1, 1, 1.5, '2024-01-31', named_struct('a', 1))")
    return found


BIG = (
    "SELECT 2 AS k, 3000000000L AS i, cast(99999.25 AS DECIMAL(8, 2)) AS d, "
    "named_struct('b', 'x', 'a', 5000000000L) AS r"
)
WIDER_TYPES = ["INT NOT NULL", "BIGINT", "DECIMAL(8, 2)", "STRING", "ROW<`a` BIGINT, `b` STRING>"]


def inserted(statement: Callable[[str], object]) -> Callable[[DataFrame, str], object]:
    """An INSERT by name with the options behind the table."""
    options = ", ".join(f"'{key}' = '{value}'" for key, value in WIDENING.items())
    return lambda _, name: statement(f"INSERT INTO {name} WITH ({options}) BY NAME {BIG}")


WIDENED: dict[str, Callable[[DataFrame, str, str], object]] = {
    "writeTo": lambda big, name, _: big.writeTo(name).options(**WIDENING).append(),
    "saveAsTable": lambda big, name, _: big.write.options(**WIDENING).mode("append").saveAsTable(name),
    "save": lambda big, _, path: big.write.format("paimon").options(**WIDENING).mode("append").save(path),
    "text": lambda big, name, _: inserted(lambda sql: paimon_spark.sql(big.sparkSession, sql))(big, name),
}


@pytest.mark.parametrize("entry_point", WIDENED)
def test_columns_take_wider_types(spark: SparkSession, warehouse: Path, typed: str, entry_point: str) -> None:
    path = str(warehouse / "db.db" / typed)
    WIDENED[entry_point](spark.sql(BIG), typed, path)
    schema = load_table(path).schema
    assert [field.type.sql() for field in schema.fields] == WIDER_TYPES
    assert (schema.id, schema.highest_field_id) == (1, 6)
    found = [
        tuple(row)
        for row in spark.sql(f"SELECT k, i, string(d), s, r.a, r.b FROM wide.db.{typed} ORDER BY k").collect()
    ]
    assert found == [(1, 1, "1.50", "2024-01-31", 1, None), (2, 3000000000, "99999.25", None, 5000000000, "x")]


def test_lossy_types_need_their_option(spark: SparkSession, warehouse: Path, typed: str) -> None:
    rows = spark.sql("SELECT 3 AS k, 7S AS i, DATE'2024-02-01' AS s")
    with pytest.raises(PySparkException, match="Failed to merge data types: column i is INT"):
        rows.writeTo(typed).options(**WIDENING).append()
    assert load_table(str(warehouse / "db.db" / typed)).schema.id == 0
    rows.writeTo(typed).options(**LOSSY).append()
    assert spark.table(typed).selectExpr("typeof(i)", "typeof(s)").distinct().collect() == [("smallint", "date")]
    assert [tuple(map(str, row)) for row in spark.sql(f"SELECT k, i, s FROM {typed} ORDER BY k").collect()] == [
        ("1", "1", "2024-01-31"),
        ("3", "7", "2024-02-01"),
    ]


def test_keys_keep_their_types(spark: SparkSession, typed: str) -> None:
    rows = spark.sql("SELECT 3L AS k, 1 AS i")
    with pytest.raises(PySparkException, match=r"Cannot update primary key: \[k\]"):
        rows.writeTo(typed).options(**WIDENING).append()
    spark.conf.set(f"spark.paimon.{KEY}", "true")
    spark.conf.set(f"spark.paimon.{KEY}.type-widening", "true")
    try:
        spark.sql(f"INSERT INTO {typed} BY NAME SELECT 3 AS k, 8589934592L AS i")
    finally:
        spark.conf.unset(f"spark.paimon.{KEY}")
        spark.conf.unset(f"spark.paimon.{KEY}.type-widening")
    assert spark.table(typed).agg({"i": "max"}).head() == (8589934592,)


def test_fields_of_structs_go_by_name_too(spark: SparkSession, warehouse: Path) -> None:
    """The text front has no analyzer of Spark's behind it: it must not store them by position."""
    spark.sql("CREATE TABLE nested (k INT, r STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>)")
    query = "BY NAME SELECT array(named_struct('b', 2, 'a', 1)) AS l, named_struct('B', 2, 'a', 1) AS r, {} AS k"
    spark.sql(f"INSERT INTO nested {query.format(1)}")
    paimon_spark.sql(spark, f"INSERT INTO nested {query.format(2)}")
    assert spark.sql("SELECT r.a, r.b, l[0].a, l[0].b FROM nested").distinct().collect() == [(1, 2, 1, 2)]
    with pytest.raises(PySparkException, match="CANNOT_FIND_DATA"):
        paimon_spark.sql(spark, "INSERT INTO nested BY NAME SELECT 3 AS k, named_struct('a', 1, 'c', 2) AS r")


_LACKING, _WIDER = "named_struct('a', 5)", "named_struct('c', 7, 'a', 6)"
NESTED = {
    "STRUCT": ("STRUCT<a: INT, b: INT>", _LACKING, _WIDER),
    "ARRAY": ("ARRAY<STRUCT<a: INT, b: INT>>", f"array({_LACKING})", f"array({_WIDER})"),
    "MAP": ("MAP<STRING, STRUCT<a: INT, b: INT>>", f"map('x', {_LACKING})", f"map('x', {_WIDER})"),
}


@pytest.mark.parametrize("kind", NESTED)
def test_fields_that_the_rows_lack_are_null(spark: SparkSession, warehouse: Path, kind: str) -> None:
    """As in the official connector, for an option and for the setting of a session, by each entry point."""
    column, lacking, wider = NESTED[kind]
    name, cell = f"wide.db.lacking_{kind.lower()}", {"STRUCT": "l", "ARRAY": "l[0]", "MAP": "l['x']"}[kind]
    spark.sql(f"CREATE TABLE {name} (k INT, l {column})")

    def frame(key: int, value: str) -> DataFrame:
        return spark.sql(f"SELECT {key} AS k, {value} AS l")

    frame(1, lacking).writeTo(name).option(KEY, "true").append()
    frame(2, lacking).write.option(KEY, "true").mode("append").saveAsTable(name)
    with pytest.raises(PySparkException, match="CANNOT_FIND_DATA"):
        frame(0, lacking).writeTo(name).append()
    spark.conf.set(f"spark.paimon.{KEY}", "true")
    try:
        spark.sql(f"INSERT INTO {name} BY NAME SELECT {lacking} AS l, 3 AS k")
        paimon_spark.sql(spark, f"INSERT INTO {name} BY NAME SELECT {lacking} AS l, 4 AS k")
        spark.sql(f"INSERT INTO {name} BY NAME SELECT NULL AS l, 5 AS k")
        paimon_spark.sql(spark, f"INSERT INTO {name} BY NAME SELECT NULL AS l, 5 AS k")
        spark.sql(f"INSERT INTO {name} BY NAME SELECT {wider} AS l, 6 AS k")
        spark.sql(f"INSERT INTO {name} BY NAME SELECT {lacking} AS l, 7 AS k")
    finally:
        spark.conf.unset(f"spark.paimon.{KEY}")
    found = spark.sql(f"SELECT k, {cell}.a, {cell}.b, {cell}.c, l IS NULL FROM {name} ORDER BY k").collect()
    filled = (5, None, None, False)
    assert [tuple(row) for row in found] == [
        *((key, *filled) for key in (1, 2, 3, 4)),
        *[(5, None, None, None, True)] * 2,
        (6, 6, None, 7, False),
        (7, *filled),
    ]


LACKING: dict[str, Callable[[DataFrame, str, str], object]] = {
    "writeTo": lambda rows, name, path: rows.writeTo(name).option(KEY, "true").append(),
    "saveAsTable": lambda rows, name, path: rows.write.option(KEY, "true").mode("append").saveAsTable(name),
    "save": lambda rows, name, path: rows.write.format("paimon").option(KEY, "true").mode("append").save(path),
    "method": lambda rows, name, path: paimon_spark.PaimonTable.for_path(rows.sparkSession, path).append(
        rows, **{KEY: "true"}
    ),
}


@pytest.mark.parametrize("entry_point", LACKING)
def test_fields_that_structs_of_the_rows_lack_are_null(spark: SparkSession, warehouse: Path, entry_point: str) -> None:
    name = f"lacking{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE {name} (k INT, r STRUCT<a: INT, n: STRUCT<b: INT, c: INT>>, l ARRAY<STRUCT<a: INT, b: INT>>)"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, (1, (2, 3)), array((4, 5)))")
    with pytest.raises(PySparkException, match="CANNOT_FIND_DATA"):
        spark.sql(f"INSERT INTO {name} BY NAME SELECT 2 AS k, named_struct('a', 1) AS r")
    for k, struct in ((2, "named_struct('n', named_struct('c', 6))"), (3, "named_struct('d', 7, 'a', 8)")):
        given = spark.sql(f"SELECT array(named_struct('b', 9)) AS l, {struct} AS r, {k} AS k")
        LACKING[entry_point](given, f"wide.db.{name}", str(warehouse / "db.db" / name))
    found = spark.sql(f"SELECT to_json(struct(k, r, l), map('ignoreNullFields', 'false')) FROM {name} ORDER BY k")
    assert [row[0] for row in found.collect()] == [
        '{"k":1,"r":{"a":1,"n":{"b":2,"c":3},"d":null},"l":[{"a":4,"b":5}]}',
        '{"k":2,"r":{"a":null,"n":{"b":null,"c":6},"d":null},"l":[{"a":null,"b":9}]}',
        '{"k":3,"r":{"a":8,"n":null,"d":7},"l":[{"a":null,"b":9}]}',
    ]


@pytest.mark.parametrize("front", ["spark.sql", "paimon_spark.sql"])
def test_fields_that_structs_of_a_statement_lack_are_null(spark: SparkSession, front: str) -> None:
    name = f"lacking{next(_numbers)}"
    spark.sql(f"CREATE TABLE {name} (k INT, r STRUCT<a: INT, b: INT>, m MAP<INT, STRUCT<a: INT, b: INT>>)")
    run = spark.sql if front == "spark.sql" else lambda text: paimon_spark.sql(spark, text)
    spark.conf.set(f"spark.paimon.{KEY}", "true")
    try:
        run(f"INSERT INTO {name} BY NAME SELECT 1 AS k, named_struct('b', 2) AS r, map(1, named_struct('b', 3)) AS m")
    finally:
        spark.conf.unset(f"spark.paimon.{KEY}")
    assert spark.sql(f"SELECT k, r.a, r.b, m[1].a, m[1].b FROM {name}").collect() == [(1, None, 2, None, 3)]
