"""What an overwrite replaces, by every entry point: the write's option decides, then the session, then the table."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import paimon_spark
from paimon_spark import OptionError, PaimonTable
from paimon_spark.spark.session.overwrite_mode import Named, asks_for_dynamic, is_dynamic_overwrite

pytestmark = pytest.mark.catalog("modes")

SPARK, PAIMON = "spark.sql.sources.partitionOverwriteMode", "spark.paimon.dynamic-partition-overwrite"
_numbers = itertools.count()


def test_the_nearest_decides() -> None:
    yes, no = {"dynamic-partition-overwrite": "true"}, {"dynamic-partition-overwrite": "false"}
    assert is_dynamic_overwrite(None, {}) is False
    assert is_dynamic_overwrite(None, {SPARK: "dynamic"}, None, no) is True
    assert is_dynamic_overwrite(False, {SPARK: "dynamic"}, yes, yes) is False
    assert is_dynamic_overwrite(None, {}, {}, yes) is True
    assert is_dynamic_overwrite(None, {SPARK: "static", "k": "v"}, None, yes) is False
    assert is_dynamic_overwrite(None, {SPARK: "static", PAIMON: "true"}) is True
    assert is_dynamic_overwrite(None, {PAIMON: "false"}, yes) is True
    assert is_dynamic_overwrite(None, {PAIMON: "true"}, yes, yes, named=Named.PARTITION) is False
    assert is_dynamic_overwrite(None, {SPARK: "dynamic"}, named=Named.PARTITION) is True
    assert is_dynamic_overwrite(None, {SPARK: "dynamic"}, yes, yes, named=Named.CONDITION) is False
    assert is_dynamic_overwrite(True, {}, named=Named.CONDITION) is True
    assert asks_for_dynamic({"partitionoverwritemode": "DYNAMIC"}) is True
    assert asks_for_dynamic({"dynamic-partition-overwrite": "false", "k": "v"}) is False
    assert asks_for_dynamic({}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitionOverwriteMode": "some"}, "'partitionOverwriteMode' is static or dynamic, not 'some'"),
        ({"dynamic-partition-overwrite": "1"}, "'dynamic-partition-overwrite' is false or true, not '1'"),
        ({"partitionOverwriteMode": "static", "dynamic-partition-overwrite": "true"}, "contradict each other"),
    ],
)
def test_what_is_no_answer_is_an_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        asks_for_dynamic(options)


@contextmanager
def session(spark: SparkSession, /, **settings: str) -> Iterator[None]:
    named = {{"own": SPARK, "paimon": PAIMON}[key]: value for key, value in settings.items()}
    for key, value in named.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in named:
            spark.conf.unset(key)


EntryPoint = Callable[[SparkSession, DataFrame, str, Path, dict[str, str]], object]


def by_statement(spark: SparkSession, rows: DataFrame, name: str, warehouse: Path, options: dict[str, str]) -> None:
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    rows.createOrReplaceTempView("new_rows")
    text = f"INSERT OVERWRITE modes.db.{name} {f'WITH ({given})' if given else ''} SELECT k, p FROM new_rows"
    paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="modes").collect()


def by_sql(spark: SparkSession, rows: DataFrame, name: str, warehouse: Path, options: dict[str, str]) -> None:
    rows.createOrReplaceTempView("new_rows")
    spark.sql(f"INSERT OVERWRITE modes.db.{name} SELECT k, p FROM new_rows").collect()


def by_path(spark: SparkSession, rows: DataFrame, name: str, warehouse: Path, options: dict[str, str]) -> None:
    path = str(warehouse / "db.db" / name)
    rows.write.format("paimon").mode("overwrite").options(**options).save(path)


ENTRY_POINTS: dict[str, EntryPoint] = {
    "save": by_path,
    "method": lambda spark, rows, name, warehouse, options: PaimonTable.for_path(
        spark, str(warehouse / "db.db" / name)
    ).overwrite(rows, **options),
    "sql": by_sql,
    "statement": by_statement,
    "insertInto": lambda spark, rows, name, warehouse, options: rows.write.options(**options).insertInto(
        f"modes.db.{name}", overwrite=True
    ),
    "saveAsTable": lambda spark, rows, name, warehouse, options: (
        rows.write.format("paimon").mode("overwrite").options(**options).saveAsTable(f"modes.db.{name}")
    ),
}


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_every_entry_point_replaces_what_was_asked_for(spark: SparkSession, warehouse: Path, entry_point: str) -> None:
    rows = spark.createDataFrame([(9, "a")], "k int, p string")
    keyed = "TBLPROPERTIES ('primary-key' = 'k, p', 'bucket' = '1')" if entry_point in ("method", "sql") else ""
    name = f"t{next(_numbers)}"

    def left(new: DataFrame = rows, **options: str) -> str:
        """The partitions and keys that are there when the entry point has overwritten a table of (1, a) and (2, b)."""
        spark.sql(f"INSERT OVERWRITE modes.db.{name} PARTITION (p = 'a') VALUES (1)")
        spark.sql(f"INSERT OVERWRITE modes.db.{name} PARTITION (p = 'b') VALUES (2)")
        ENTRY_POINTS[entry_point](
            spark, new, name, warehouse, {key.replace("_", "-"): value for key, value in options.items()}
        )
        return " ".join(sorted(f"{row.p}{row.k}" for row in spark.table(f"modes.db.{name}").collect()))

    spark.sql(f"CREATE TABLE modes.db.{name} (k INT NOT NULL, p STRING NOT NULL) PARTITIONED BY (p) {keyed}")
    assert left() == "a9"
    with session(spark, own="dynamic"):
        assert left() == "a9 b2"
        assert left(rows.where("k < 0")) == "a1 b2"
        if entry_point != "sql":  # which has no place for options before Spark 4.1
            assert left(partitionOverwriteMode="static") == "a9"
    with session(spark, paimon="true"):
        assert left() == "a9 b2"
    if entry_point != "sql":
        assert left(dynamic_partition_overwrite="true") == "a9 b2"
    spark.sql(f"ALTER TABLE modes.db.{name} SET TBLPROPERTIES ('dynamic-partition-overwrite' = 'true')")
    assert left() == "a9 b2"
    with session(spark, own="static"):
        assert left() == "a9"


@pytest.mark.spark
def test_what_is_named_is_replaced_whatever_the_session_says(spark: SparkSession, warehouse: Path) -> None:
    name = f"modes.db.t{next(_numbers)}"
    spark.sql(f"CREATE TABLE {name} (k INT, p STRING) PARTITIONED BY (p)")
    rows = spark.createDataFrame([(9, "a")], "k int, p string")
    with session(spark, own="dynamic", paimon="true"):
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
        spark.sql(f"INSERT INTO {name} REPLACE WHERE p = 'b' SELECT 1, 'b' WHERE false")
        assert [tuple(row) for row in spark.table(name).collect()] == [(1, "a")]
        spark.sql(f"INSERT INTO {name} VALUES (2, 'b')")
        rows.writeTo(name).overwrite(lit(True))
        assert [tuple(row) for row in spark.table(name).collect()] == [(9, "a")]
        with pytest.raises(Exception, match="contradicts an overwrite of the partitions in the data"):
            rows.writeTo(name).option("partitionOverwriteMode", "static").overwritePartitions()


@pytest.mark.spark
@pytest.mark.parametrize("by_text", [True, False], ids=["statement", "sql"])
def test_a_named_partition_without_rows_is_emptied_in_the_static_mode_only(
    spark: SparkSession, warehouse: Path, *, by_text: bool
) -> None:
    name = f"modes.db.t{next(_numbers)}"
    spark.sql(f"CREATE TABLE {name} (k INT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")

    def left() -> list[int]:
        text = f"INSERT OVERWRITE {name} PARTITION (p = 'a') SELECT 9 WHERE false"
        if by_text:
            paimon_spark.sql(spark, text, warehouse=str(warehouse), catalog="modes").collect()
        else:
            spark.sql(text)
        return sorted(row.k for row in spark.table(name).collect())

    with session(spark, own="dynamic"):
        assert left() == [1, 2]
    assert left() == [2]
