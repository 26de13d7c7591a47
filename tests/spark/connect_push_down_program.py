"""Random DataFrames of a Connect session, with and without what its client tells loads: `python … sc://… <directory>`.

Prints what failed, each on a line of its own, then how many loads were told something, then "done".
"""

import datetime as dt
import sys
import traceback
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.spark.pushdown import loads
from tests.support.seeds import chance

spark: Any = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
NAME = "lake.shop.`t`"
VALUES: dict[str, list[Any]] = {
    "id": [1, 5, 17, -3, 1.5, Decimal("2.5"), None, 2**40, "7"],
    "k": ["a", "b", "", "A", "it's", None, 1, "a\\b"],
    "v": [0, 3, -1, 1.0, None, "2"],
    "d": [Decimal("1.50"), 1, 2.25, "0.5", Decimal("123456.789")],
    "day": [dt.date(2024, 1, 2), "2024-01-03", dt.datetime(2024, 1, 2, 3), None],
    "ok": [True, False, "true"],
    "at": [dt.datetime(2024, 1, 2, 3), "2024-01-02 03:00:00"],
    "s.x": [1, 2, None],
    "a b": ["x", "y"],
    "c": ["a", "a  ", "b"],
}
TEXTS = {
    "id": ["id = 5", "t.id IN (1, 5)", "lake.shop.t.id > 3 AND v IS NOT NULL", "id + 1 = 6", "ID < 17.5", "5 <= id"],
    "k": ["k LIKE 'a%'", "k <> 'a' OR v = 3", "k = 'a' AND k = 'b'", "k IN ('a', 'it''s')", "k = upper('a')"],
    "v": ["v BETWEEN 0 AND 3", "NOT v = 3", "v IS NULL", "v <=> NULL", "v = '3'", "v > (SELECT 1)"],
    "d": ["d = 1.5", "d >= 1.55555", "`a b` = 'x'", "s.x = 2", "day = DATE '2024-01-02'", "day > '2024'", "ok"],
}


def fill() -> None:
    """Make the table: two partitions, two versions, a tag."""
    spark.sql("CREATE DATABASE lake.shop")
    spark.sql(
        "CREATE TABLE lake.shop.t (id BIGINT NOT NULL, k STRING, v INT, d DECIMAL(10, 2), day DATE, ok BOOLEAN, "
        "at TIMESTAMP, s STRUCT<x: INT>, `a b` STRING, c CHAR(3)) PARTITIONED BY (day) "
        "TBLPROPERTIES ('file.format' = 'parquet')"
    )
    for number in range(3):
        spark.sql(
            "INSERT INTO lake.shop.t SELECT id, CASE WHEN id % 7 = 0 THEN NULL ELSE element_at(array('a', 'b', '', "
            "'A', 'it''s'), cast(id % 5 + 1 AS INT)) END, cast(nullif(id % 6, 4) AS INT), cast(id * 0.25 AS "
            "DECIMAL(10, 2)), date_add(DATE '2024-01-01', cast(id % 4 AS INT)), id % 3 = 0, TIMESTAMP '2024-01-02 "
            "03:00:00', named_struct('x', cast(id % 3 AS INT)), element_at(array('x', 'y'), cast(id % 2 + 1 AS INT)), "
            "element_at(array('a', 'a  ', 'b'), cast(id % 3 + 1 AS INT)) "
            f"FROM range({number * 20}, {number * 20 + 20}, 1, 2)"
        )
    spark.sql("ALTER TABLE lake.shop.t CREATE TAG first")


def condition(rng: Random, frame: Any) -> Any:
    """A condition, as text or as a Column."""
    if rng.random() < 0.4:
        return rng.choice(TEXTS[rng.choice(list(TEXTS))])
    name = rng.choice(list(VALUES))
    value = rng.choice(VALUES[name])
    quoted = f"`{name}`" if " " in name else name
    column = sf.col(rng.choice(["", "", "t.", "lake.shop.t."]) + quoted)
    if "." not in name and rng.random() < 0.2:
        column = frame[quoted]
    compared: list[Callable[[], Any]] = [
        lambda: column == value,
        lambda: value == column,
        lambda: column != value,
        lambda: column < value,
        lambda: column >= value,
        lambda: column.isin(*[one for one in VALUES[name] if type(one) is type(value)]),
        column.isNull,
        column.isNotNull,
        lambda: column.between(value, value),
        lambda: column.eqNullSafe(value),
        lambda: ~(column == value),
    ]
    made = rng.choice(compared)()
    if rng.random() < 0.4:
        other = rng.choice(TEXTS["k"])
        made = made & sf.expr(other) if rng.random() < 0.6 else made | sf.expr(other)
    return made


def base(rng: Random) -> Any:
    """A load, with or without a name and a version."""
    kind = rng.randrange(5)
    if kind == 0:
        return spark.read.format("paimon").load(f"{sys.argv[2]}/wh/shop.db/t").alias("t")
    if kind == 1:
        return spark.read.option("scan.snapshot-id", "2").table(NAME)
    if kind == 2:
        return (
            spark.read.format("paimon")
            .option(rng.choice(["filter", "FILTER"]), "id > 4")
            .load(f"{sys.argv[2]}/wh/shop.db/t")
            .alias("t")
        )
    return spark.table(NAME)


def step(rng: Random, frame: Any) -> Any:
    """One more operation."""
    key = rng.choice(["k", "v", "id"])
    return rng.choice(
        [
            lambda: frame.where(condition(rng, frame)),
            lambda: frame.where(condition(rng, frame)).where(condition(rng, frame)),
            lambda: frame.withColumn("v", sf.col("v") + 1),
            lambda: frame.withColumnRenamed("v", "w").withColumn("v", sf.lit(1)),
            lambda: frame.sort("id").limit(7),
            lambda: frame.alias("x").where("x.id > 3"),
            lambda: frame.drop("s"),
            lambda: frame.join(spark.table(NAME).select("id", sf.col("k").alias("k2")), "id"),
            lambda: frame.dropDuplicates([key]).drop("at"),
            lambda: frame.union(frame),
            lambda: frame.randomSplit([0.5, 0.5], seed=3)[rng.randrange(2)],
            lambda: frame.withColumn("n", sf.row_number().over(Window.orderBy("id"))),
        ]
    )()


def ends(rng: Random, frame: Any) -> Any:
    """What is read in the end: rows that have an order of their own."""
    return rng.choice(
        [
            lambda: frame,
            lambda: frame.select("id", "k"),
            lambda: frame.select(sf.sum("id"), sf.count("*")),
            lambda: frame.selectExpr("id * 2 AS i", "`a b`"),
            lambda: frame.select("id").where(frame.k == "a"),
            lambda: frame.select("nmae"),
            lambda: frame.groupBy("k").agg(sf.count(sf.lit(1)).alias("n"), sf.sum("d")),
            lambda: frame.groupBy("v").count(),
            lambda: frame.select("*", sf.lit(1).alias("one")),
            lambda: frame.selectExpr("s.x", "s.*"),
            lambda: frame.selectExpr("struct(*) AS all"),
            lambda: frame.select(sf.count(sf.lit(1))),
            lambda: frame.select("day", "v").unionByName(frame.select("v", "day")),
        ]
    )()


def found(frame: Any) -> str:
    """The rows, or the error's condition."""
    try:
        return repr(sorted(map(repr, frame.collect())))
    except PySparkException as error:  # both ways are to say the same
        return f"{type(error).__name__} {str(error).splitlines()[0]}"


def main() -> None:
    """Compare; the first answer of each frame is the one without push-down."""
    paimon_spark.register_catalog(spark, "lake", warehouse=f"{sys.argv[2]}/wh")
    fill()
    changed: list[str] = []
    own, told = loads.push_down, 0

    def counting(relation: Any, client: Any) -> bool:
        before = relation.SerializeToString(deterministic=True)
        prunes = own(relation, client)
        changed.extend(["changed"] * (before != relation.SerializeToString(deterministic=True)))
        return prunes

    for seed in range(int(sys.argv[3])):
        rng = chance("connect push-down", seed)
        try:
            frame = base(rng)
            for _ in range(rng.randrange(3)):
                frame = step(rng, frame)
            frame = ends(rng, frame)
            loads.push_down = lambda relation, client: False
            plain = found(frame)
            loads.push_down = counting
            changed.clear()
            pushed = found(frame)
            told += bool(changed)
            if plain != pushed:
                print(f"seed {seed}: {plain[:300]} is not {pushed[:300]}")
        except (PySparkException, PaimonError, AttributeError, TypeError, ValueError):
            print(f"seed {seed}: {traceback.format_exc()}".replace("\n", " | "))
    print(f"told {told}")
    print("done")


main()
