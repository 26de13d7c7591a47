"""A Connect client whose temporary views follow their tables, run by `test_connect_views`.

`python connect_views_program.py sc://… <directory>` prints what differs, each on a line of its own, then "done".
"""

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spark.session.pyspark_members import plain

spark: Any = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
root = sys.argv[2]
numbers = itertools.count()


def create() -> str:
    """Make a table with a row."""
    name = f"v.db.t{next(numbers)}"
    spark.sql(f"CREATE TABLE {name} (id INT, s STRING)")
    add(name, 1)
    return name


def add(name: str, number: int) -> None:
    spark.sql(f"INSERT INTO {name} (id, s) VALUES ({number}, 's{number}')")


def rows(query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def by_method(name: str) -> str:
    spark.table(name).createOrReplaceTempView("By_method")
    return "by_method"


def by_statement(name: str) -> str:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `by statement` AS SELECT * FROM {name} WHERE id > 0")
    return "`by statement`"


def by_sql(name: str) -> str:
    spark.sql(f"SELECT id, s FROM {name} AS t WHERE t.id > 0").createOrReplaceTempView("by_sql")
    return "by_sql"


def everywhere(name: str) -> str:
    spark.table(name).createOrReplaceGlobalTempView("everywhere")
    return "global_temp.everywhere"


def nested(name: str) -> str:
    spark.table(by_method(name)).where("id > 0").createOrReplaceTempView("inner_view")
    spark.sql("SELECT * FROM inner_view AS i").createOrReplaceTempView("outer_view")
    spark.range(5).createOrReplaceTempView("inner_view")  # the outer one is of what it was
    return "outer_view"


def replaced(name: str) -> str:
    spark.table(by_method(name)).where("id > 0").createOrReplaceTempView("by_method")
    return "by_method"


def follows_the_table(make: Callable[[str], str]) -> None:
    name = create()
    view = make(name)
    frame, query = spark.table(view), spark.sql(f"SELECT id, s FROM {view}")
    assert frame.count() == len(query.collect()) == 1
    add(name, 2)
    assert sorted(map(tuple, query.collect())) == [(1, "s1"), (2, "s2")]
    assert [tuple(row) for row in frame.filter(frame.id == 2).select(frame.s).collect()] == [("s2",)]
    assert rows(f"SELECT count(*) FROM {view} AS a JOIN {name} AS b ON a.id = b.id") == [(2,)]


def a_write_takes_the_newest_rows() -> None:
    name, into = create(), create()
    view = by_method(name)
    assert spark.table(view).count() == 1
    add(name, 2)
    spark.sql(f"INSERT OVERWRITE {into} SELECT * FROM {view}")
    assert len(rows(f"SELECT * FROM {into}")) == 2
    add(name, 3)
    spark.sql(f"CREATE TABLE spark_catalog.default.of_view USING parquet AS SELECT * FROM {view}")
    assert len(rows("SELECT * FROM spark_catalog.default.of_view")) == 3
    spark.sql("DROP TABLE spark_catalog.default.of_view")


def columns_stay() -> None:
    name = create()
    view = by_method(name)
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (x INT)")
    spark.sql(f"INSERT INTO {name} VALUES (2, 's2', 9)")
    assert spark.table(view).columns == ["id", "s"]
    assert rows(f"SELECT * FROM {view}") == [(1, "s1"), (2, "s2")]
    spark.sql(f"ALTER TABLE {name} DROP COLUMN s")
    spark.sql(f"INSERT INTO {name} VALUES (3, 7)")
    for text in (f"SELECT id FROM {view}", f"CREATE TABLE spark_catalog.default.no USING parquet AS TABLE {view}"):
        with pytest.raises(AnalysisException, match="has no more: s"):
            rows(text)
    with pytest.raises(AnalysisException, match="has no more: s"):
        spark.table(view).collect()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT 1 AS one")
    assert rows(f"SELECT * FROM {view}") == [(1,)]


def what_names_a_snapshot_stays() -> None:
    name = create()
    spark.read.format("paimon").load(f"{root}/db.db/{name.rpartition('.')[2]}").createOrReplaceTempView("loaded")
    spark.sql(f"SELECT * FROM {name} VERSION AS OF 1").createOrReplaceTempView("first")
    add(name, 2)
    assert rows("SELECT id FROM loaded") == rows("SELECT id FROM first") == [(1,)]


def cached_rows_stay() -> None:
    name = create()
    spark.table(name).createOrReplaceTempView("cached_view")
    spark.catalog.cacheTable("cached_view")
    assert spark.table("cached_view").count() == 1
    add(name, 2)
    assert spark.table("cached_view").count() == 1
    spark.catalog.uncacheTable("cached_view")
    assert spark.table("cached_view").count() == 2
    frame = spark.table(name).cache()
    frame.createOrReplaceTempView("of_cached")
    assert spark.table("of_cached").count() == 2
    add(name, 3)
    assert spark.table("of_cached").count() == 2
    frame.unpersist()
    assert spark.table("of_cached").count() == 3


def other_names_are_left_alone() -> None:
    """A view of other tables besides stays the server's: names may mean something else by now."""
    name = create()
    spark.range(3).createOrReplaceTempView("dimension")
    spark.sql(f"SELECT t.id FROM {name} AS t JOIN dimension AS d ON t.id = d.id").createOrReplaceTempView("joined")
    assert rows("SELECT * FROM joined") == [(1,)]
    spark.range(0).createOrReplaceTempView("dimension")
    add(name, 2)
    assert (1,) in rows("SELECT * FROM joined")
    plain(spark.range(7, 8).createOrReplaceTempView)("by_method")  # made elsewhere
    assert rows("SELECT * FROM by_method") == [(7,)]


def a_table_of_the_same_name() -> None:
    name = create()
    view = by_method(name)
    assert rows(f"SELECT * FROM {view}") == [(1, "s1")]
    spark.sql(f"DROP TABLE {name}")
    with pytest.raises((paimon_spark.PaimonError, PySparkException)):
        rows(f"SELECT * FROM {view}")
    spark.sql(f"CREATE TABLE {name} (id INT, s STRING)")
    add(name, 8)
    assert rows(f"SELECT * FROM {view}") == [(8, "s8")]


def threads() -> None:
    name = create()
    view = by_method(name)
    wrong: list[str] = []

    def look() -> None:
        last = 0
        for _ in range(3):
            now = spark.table(view).count()
            if now < last:
                wrong.append(f"{last} rows, then {now}")
            last = now

    looking = [threading.Thread(target=look) for _ in range(2)]
    for thread in looking:
        thread.start()
    for number in range(2, 5):
        add(name, number)
    for thread in looking:
        thread.join()
    assert wrong == []
    assert spark.table(view).count() == 4


if __name__ == "__main__":
    paimon_spark.register_catalog(spark, "v", warehouse=root)
    spark.sql("CREATE DATABASE v.db")
    for make in (by_method, by_statement, by_sql, everywhere, nested, replaced):
        follows_the_table(make)
    a_write_takes_the_newest_rows()
    columns_stay()
    what_names_a_snapshot_stays()
    cached_rows_stay()
    other_names_are_left_alone()
    a_table_of_the_same_name()
    threads()
    spark.catalog.dropGlobalTempView("everywhere")
    print("done")
