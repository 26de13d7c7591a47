"""What the SQL catalog makes of columns: CHAR and VARCHAR, defaults of nested columns, metadata columns in filters."""

import datetime
import itertools
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.spark.catalog.scan import ScanProxy
from paimon_spark.spark.catalog.scan_plan import ScanPlan
from paimon_spark.spark.jvm.answer_proxy import Question, Reply

pytestmark = [pytest.mark.spark, pytest.mark.catalog("columns", current=True)]

_numbers = itertools.count()


@pytest.fixture
def name(warehouse: Path) -> str:
    """A name that no table has yet."""
    return f"t{next(_numbers)}"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def files_planned(frame: DataFrame) -> int:
    """How many files the scan of a query reads."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    found = re.search(r"files=(\d+)", plan)
    assert found is not None, plan
    return int(found[1])


def test_char_is_padded_by_spark_as_with_the_official_connector(
    spark: SparkSession, warehouse: Path, name: str
) -> None:
    """The official connector shows CHAR(n) to Spark: values are stored padded, compared and shown padded."""
    spark.sql(
        f"CREATE TABLE {name} (c CHAR(5), v VARCHAR(4), s STRUCT<c: CHAR(3)>, a ARRAY<CHAR(2)>, p CHAR(2)) "
        "PARTITIONED BY (p)"
    )
    spark.sql(f"INSERT INTO {name} VALUES ('ab', 'x', named_struct('c', 'q'), array('z'), 'p')")
    (file,) = (warehouse / "db.db" / name).glob("p=p */*/*.parquet")
    assert pq.read_table(file, partitioning=None).to_pylist() == [
        {"c": "ab   ", "v": "x", "s": {"c": "q  "}, "a": ["z "], "p": "p "}
    ]
    assert [tuple(r) for r in spark.table(name).collect()] == [("ab   ", "x", ("q  ",), ["z "], "p ")]
    for condition in ("c = 'ab'", "c = 'ab   '", "'ab ' = c", "c IN ('x', 'ab')", "p = 'p'", "s.c = 'q  '"):
        assert spark.sql(f"SELECT v FROM {name} WHERE {condition}").count() == 1, condition
    assert spark.sql(f"SELECT v FROM {name} WHERE v = 'x '").count() == 0
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE {name}").collect()}
    assert (described["c"], described["v"], described["s"]) == ("char(5)", "varchar(4)", "struct<c:char(3)>")
    for values in ("'abcdef', 'x'", "'a', 'xxxxx'"):
        with pytest.raises(PySparkException) as error:
            spark.sql(f"INSERT INTO {name} VALUES ({values}, NULL, NULL, 'p')")
        assert error.value.getCondition() == "EXCEED_LIMIT_LENGTH"


def test_char_that_another_engine_did_not_pad(spark: SparkSession, warehouse: Path, name: str) -> None:
    """Reads pad it, so that it is found; filters on the column itself must not be pushed down then."""
    spark.sql(f"CREATE TABLE {name} (c CHAR(5), v VARCHAR(4))")
    path = str(warehouse / "db.db" / name)
    spark.sql("SELECT 'ab' AS c, 'x' AS v").write.format("paimon").mode("append").save(path)
    assert rows(spark.sql(f"SELECT c FROM {name} WHERE c = 'ab'")) == [("ab   ",)]
    assert rows(spark.sql(f"SELECT min(c), max(c), count(c) FROM {name}")) == [("ab   ", "ab   ", 1)]


def test_char_in_a_struct_whose_fields_have_odd_names(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<c: CHAR(3), `a b`: INT>)")
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('c', 'q', 'a b', 2))")
    assert rows(spark.sql(f"SELECT id, s.`a b` FROM {name}")) == [(1, 2)]


@pytest.mark.thorough
def test_nested_defaults(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (k INT, a ARRAY<INT> DEFAULT array(1, 2), s ARRAY<STRING> DEFAULT array('a', 'b'), "
        'm MAP<BIGINT, STRING> DEFAULT map(9999, "hello"), e MAP<INT, DOUBLE> DEFAULT map(99, 99.99D), '
        "t STRUCT<x: INT, y: STRING> DEFAULT struct(1, 'z'), n ARRAY<DATE> DEFAULT array(DATE'2024-01-31', NULL), "
        "o ARRAY<INT> DEFAULT NULL)"
    )
    schema = json.loads((warehouse / "db.db" / name / "schema" / "schema-0").read_text())
    assert [field.get("defaultValue") for field in schema["fields"]] == [
        *(None, "array(1, 2)", "array(a, b)", 'map(9999, "hello")', "map(99, 99.99D)", "struct(1, z)"),
        *("array(2024-01-31, null)", None),
    ]
    spark.sql(f"INSERT INTO {name} (k) VALUES (1)")
    spark.sql(f"INSERT INTO {name} VALUES (2, NULL, DEFAULT, NULL, NULL, NULL, DEFAULT, array(1))")
    values = ([1, 2], ["a", "b"], {9999: "hello"}, {99: 99.99}, (1, "z"), [datetime.date(2024, 1, 31), None])
    assert rows(spark.table(name)) == [(1, *values, None), (2, *values, [1])]
    shown = spark.sql(f"SHOW CREATE TABLE {name}").head()[0]
    spark.sql(f"DROP TABLE {name}")
    spark.sql(shown)
    assert spark.sql(f"SHOW CREATE TABLE {name}").head()[0] == shown


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("ARRAY<STRING> DEFAULT array('a,b')", "cannot be kept"),
        ("ARRAY<STRING> DEFAULT array('null')", "cannot be kept"),
        ("ARRAY<DATE> DEFAULT array(current_date())", "must be an array, a map or a struct of literals"),
        ("ARRAY<INT> DEFAULT array('x')", "DEFAULT value"),
        ("STRUCT<a: INT, b: INT> DEFAULT struct(1)", "DEFAULT value"),
    ],
)
def test_nested_defaults_that_are_refused(spark: SparkSession, name: str, column: str, words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"CREATE TABLE {name} (k INT, v {column})")
    assert not spark.catalog.tableExists(name)


def test_nested_default_of_a_column_that_is_there(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, v ARRAY<INT>)")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN v SET DEFAULT array(7)")
    spark.sql(f"INSERT INTO {name} (k) VALUES (1)")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN v DROP DEFAULT")
    spark.sql(f"INSERT INTO {name} (k) VALUES (2)")
    assert rows(spark.table(name)) == [(1, [7]), (2, None)]


@pytest.mark.thorough
def test_filters_on_metadata_columns_leave_out_files(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ('bucket'='4', 'bucket-key'='k')")
    spark.sql(f"INSERT INTO {name} SELECT id, id % 2 FROM range(40)")
    assert files_planned(spark.table(name)) == 8
    everything = f"SELECT k, p, __paimon_bucket, __paimon_file_path FROM {name}"
    all_rows = rows(spark.sql(everything))
    path = next(row[3] for row in all_rows if row[1] == 1 and row[2] == 2)
    for condition, files, wanted in (
        ("__paimon_bucket = 2", 2, [row for row in all_rows if row[2] == 2]),
        ("__paimon_bucket IN (0, 3) AND p = 1", 2, [row for row in all_rows if row[2] in (0, 3) and row[1] == 1]),
        ("__paimon_bucket > 9", 0, []),
        (f"__paimon_file_path = '{path}'", 1, [row for row in all_rows if row[3] == path]),
        ("__paimon_file_path LIKE '%/bucket-1/%'", 2, [row for row in all_rows if row[2] == 1]),
        ("__paimon_partition.p = 1", 4, [row for row in all_rows if row[1] == 1]),
        ("__paimon_partition.p = 1 OR p IS NULL", 4, [row for row in all_rows if row[1] == 1]),
    ):
        frame = spark.sql(f"{everything} WHERE {condition}")
        assert (condition, files_planned(frame), rows(frame)) == (condition, files, wanted)


@pytest.mark.parametrize(("column", "value", "left"), [("p", "1", 4), ("b", "2", 5), ("file", None, 1)])
def test_a_join_leaves_out_files(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch, column: str, value: str | None, left: int
) -> None:
    """What the small side of a join holds keeps whole files of the large side from being read, on the same snapshot."""
    spark.sql(f"CREATE TABLE {name} (k INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ('bucket'='4', 'bucket-key'='k')")
    spark.sql(f"INSERT INTO {name} SELECT id, id % 5 FROM range(1000)")
    large = f"(SELECT *, __paimon_bucket AS b, __paimon_file_path AS file FROM {name})"
    file = spark.sql(f"SELECT min(file) FROM {large} WHERE p = 3").head()[0]
    spark.sql(f"CREATE TABLE {name}_small AS SELECT {value or repr(file)} AS c, 10 AS w UNION ALL SELECT NULL, 20")
    batches: list[ScanPlan] = []
    to_batch = ScanProxy._asked_batch

    def noted(scan: ScanProxy, question: Question) -> Reply:
        if scan.name == f"db.{name}":
            batches.append(scan.plan)
        return to_batch(scan, question)

    expected = rows(spark.sql(f"SELECT k FROM {large} WHERE {column} = {value or repr(file)}"))
    monkeypatch.setattr(ScanProxy, "_asked_batch", noted)
    frame = spark.sql(f"SELECT k FROM {large} t JOIN {name}_small s ON t.{column} = s.c WHERE s.w = 10")
    frame._jdf.queryExecution().executedPlan()
    spark.sql(f"INSERT INTO {name} VALUES (-1, 1)")
    assert rows(frame) == expected
    assert batches[0].source == batches[-1].source
    assert (len(batches[0].file_names), len(batches[-1].file_names)) == (20, left)
    assert batches[-1].row_count == len(expected)
