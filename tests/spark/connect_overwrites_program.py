"""A Connect client that overwrites tables from themselves, by views too: run by `test_self_overwrites`.

`python connect_overwrites_program.py sc://… <directory>` prints what differs, each on a line of its own, then "done".
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonError, PaimonTable, UnsupportedError
from paimon_spark.spark.session.pyspark_members import plain
from paimon_spark.spark.table import rows as table_rows

spark: Any = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
root = Path(sys.argv[2])
numbers = itertools.count()
NEW = "k", "n + 1 AS n"
KINDS: dict[str, tuple[str, object]] = {
    "vectors": ("'bucket'='1', 'deletion-vectors.enabled'='true'", [(1, 11), (2, 22), (3, 31)]),
    "first_row": ("'bucket'='1', 'merge-engine'='first-row'", [(1, 11), (2, 21), (3, 31)]),
    "merged": ("'bucket'='-2', 'postpone.merge-on-read'='true'", [(1, 11), (2, 22), (3, 31)]),
    "postponed": ("'bucket'='-2'", "postponed, and an overwrite of the table from itself"),
}


def create(properties: str) -> tuple[str, str]:
    """Make a table with two rows and two more that plain reads may not see."""
    name = f"t{next(numbers)}"
    path = f"{root}/db.db/{name}"
    spark.sql(f"CREATE TABLE c.db.{name} (k INT NOT NULL, n INT) TBLPROPERTIES ('primary-key'='k', {properties})")
    spark.sql(f"INSERT INTO c.db.{name} VALUES (1, 10), (2, 20)")
    options = {"postpone.batch-write-fixed-bucket": "false"} if "'-2'" in properties else {"write-only": "true"}
    PaimonTable.for_path(spark, path).append(spark.sql("SELECT 2 k, 21 n UNION ALL SELECT 3, 30"), **options)
    return f"c.db.{name}", path


def of_load(_name: str, path: str) -> str:
    spark.read.format("paimon").load(path).createOrReplaceTempView("v")
    return "v"


def of_table(name: str, _path: str) -> str:
    spark.table(name).createOrReplaceTempView("V")
    return "v"


def using(_name: str, path: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING paimon OPTIONS (path '{path}')")
    return "v"


def by_query(name: str, _path: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM {name}")
    return "v"


def nested(name: str, path: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v2 (k, n) AS SELECT k, n FROM {by_query(name, path)} WHERE k > 0")
    spark.table("v2").createOrReplaceTempView("v3")
    return "v3"


def replaced(name: str, path: str) -> str:
    spark.table(by_query(name, path)).where("k > 0").createOrReplaceTempView("v")
    return "v"


def cached(name: str, path: str) -> str:
    spark.catalog.cacheTable(by_query(name, path))
    spark.table("v").count()
    return "v"


def everywhere(name: str, _path: str) -> str:
    spark.table(name).createOrReplaceGlobalTempView("g")
    return "global_temp.g"


def by_statement(name: str, _path: str, source: str) -> None:
    spark.sql(f"INSERT OVERWRITE {name} SELECT k, n + 1 FROM {source}")


def by_subquery(name: str, _path: str, source: str) -> None:
    spark.sql(
        f"INSERT OVERWRITE {name} SELECT k, n + 1 AS n FROM {source} AS a "
        f"WHERE a.k IN (SELECT k FROM {source}) AND a.k IN (SELECT k FROM {name})"
    )


def by_method(_name: str, path: str, source: str) -> None:
    PaimonTable.for_path(spark, path).overwrite(spark.table(source).selectExpr(*NEW))


def by_save(_name: str, path: str, source: str) -> None:
    writer = spark.table(source).selectExpr(*NEW).write.format("paimon").mode("overwrite")
    writer.option("postpone.batch-write-fixed-bucket", "false").save(path)
    PaimonTable.for_path(spark, path).compact()


def by_replacing(name: str, _path: str, source: str) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE {name} TBLPROPERTIES ('primary-key'='k') AS SELECT k, n + 1 AS n FROM {source}")


def by_saving_table(name: str, _path: str, source: str) -> None:
    rows = spark.table(source).selectExpr(*NEW)
    rows.write.format("paimon").mode("overwrite").option("primary-key", "k").saveAsTable(name)


def by_insert(name: str, _path: str, source: str) -> None:
    spark.table(source).selectExpr(*NEW).write.insertInto(name, overwrite=True)


def by_partitions(name: str, _path: str, source: str) -> None:
    spark.table(source).selectExpr(*NEW).writeTo(name).overwritePartitions()


WAYS = (by_statement, by_subquery, by_method, by_save, by_replacing, by_saving_table, by_insert, by_partitions)
VIEWS = (of_load, of_table, using, nested, replaced, cached, everywhere)


def shown(name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table."""
    return sorted(tuple(row) for row in spark.table(name).collect())


def attempt(kind: str, view: Callable[[str, str], str], way: Callable[[str, str, str], None]) -> None:
    """Overwrite a new table; print what differs."""
    properties, wanted = KINDS[kind]
    name, path = create(properties)
    found: object
    try:
        way(name, path, view(name, path))
        found = shown(name)
    except PaimonError as error:
        found = str(error)
    if found != wanted and not (isinstance(wanted, str) and wanted in str(found)):
        print(kind, view.__name__, way.__name__, found)


def unknown_view() -> None:
    """A view that this client has not seen is refused where rows may go unread, and works where none can."""
    name, path = create(KINDS["vectors"][0])
    plain(spark.table(name).createOrReplaceTempView)("other")
    with pytest.raises(UnsupportedError, match="Temporary view other reads a Paimon table"):
        by_statement(name, path, "other")
    PaimonTable.for_path(spark, path).compact()
    by_statement(name, path, "other")
    assert shown(name) == [(1, 11), (2, 22), (3, 31)], shown(name)


def view_made_anew() -> None:
    """The plan of a view that was dropped, or replaced where this client does not look, is not taken for it."""
    name, path = create(KINDS["vectors"][0])
    view = of_load(name, path)
    plain(spark.range(7, 8).selectExpr("CAST(id AS INT) AS k", "1 AS n").createOrReplaceTempView)(view)
    by_statement(name, path, view)
    assert shown(name) == [(7, 2)], shown(name)


def rival() -> None:
    """A commit between the statement's snapshot and its own is a conflict."""
    name, path = create("'bucket'='1'")
    original = table_rows.pinned_source

    def late(*given: Any, **named: Any) -> Any:
        found = original(*given, **named)
        PaimonTable.for_path(spark, path).append(spark.sql("SELECT 5 k, 50 n"))
        return found

    view = by_query(name, path)
    table_rows.pinned_source = late
    with pytest.raises(PaimonError, match="the same partition"):
        by_statement(name, path, view)
    table_rows.pinned_source = original
    assert shown(name) == [(1, 10), (2, 21), (3, 30), (5, 50)], shown(name)


def self_join() -> None:
    """A view beside the DataFrame that it was made of: columns stay told apart."""
    name, path = create(KINDS["vectors"][0])
    rows = spark.read.format("paimon").load(path)
    rows.createOrReplaceTempView("v")
    both = rows.where(rows["k"] > 0).join(spark.table("v").alias("b"), "k").selectExpr("k", "b.n + 1 AS n")
    PaimonTable.for_path(spark, path).overwrite(both)
    assert shown(name) == [(1, 11), (2, 22), (3, 31)], shown(name)


paimon_spark.register(spark)
paimon_spark.register_catalog(spark, "c", warehouse=str(root))
spark.sql("CREATE DATABASE c.db")
for given in (
    *((kind, by_query, way) for kind in KINDS for way in WAYS),
    *(("vectors", view, by_statement) for view in VIEWS),
    *(("postponed", view, by_method) for view in VIEWS),
    ("merged", nested, by_replacing),
):
    attempt(*given)
for check in (unknown_view, view_made_anew, rival, self_join):
    check()
print("done")
