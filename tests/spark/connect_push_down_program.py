"""Random DataFrames of a Connect session, with and without what its client tells loads: `python … sc://… <directory>`.

And random SELECT texts, with and without what is taken from them. Prints what failed, each on a line of its own, then
how many frames and how many texts told a load something, then "done".
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
from paimon_spark.spark.session.connect_plans import paimon_loads
from paimon_spark.spark.text import queries
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


CONDITIONS = {
    "id": ["{}id = 5", "{}id > 7", "{}id IN (1, 5, 9)", "{}id BETWEEN 3 AND 12", "3 < {}id", "{}ID <> 5"],
    "k": ["{}k = 'a'", "{}k IS NULL", "{}k IS NOT NULL", "NOT {}k = 'b'", "{}k <> 'a' OR {}v = 3"],
    "v": ["{}v < 3", "{}v IS NULL", "{}v = 3", "{}v + 1 = 2", "({}v >= 0 AND {}id <= 20)"],
    "day": ["{}day = '2024-01-02'", "{}day > DATE '2024-01-02'", "{}day IS NOT NULL", "{}c = 'a'", "{}d < 2.5"],
}
SOURCES = [
    *("lake.shop.t AS {}", "lake.shop.t AS {}", "(SELECT * FROM lake.shop.t WHERE v < 3) AS {}", "made AS {}"),
    *("(SELECT DISTINCT v AS id, k, day, id AS v, c, d FROM lake.shop.t) {}", "lake.shop.t VERSION AS OF 2 {}"),
    *("(SELECT *, v + 1 AS w FROM lake.shop.t) AS {}", "(SELECT * FROM lake.shop.t ORDER BY id LIMIT 9) {}"),
    "(SELECT id, k, max(v) AS v, day, c, d FROM lake.shop.t GROUP BY id, k, day, c, d) {}",
]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN", "CROSS JOIN", ","]


def text(rng: Random) -> str:
    """A query of one or two relations, perhaps in another one, with a CTE, or joined by UNION."""
    kind = rng.randrange(8)
    if kind == 0:
        return f"SELECT a.id, a.k {body(rng)} UNION {rng.choice(['', 'ALL '])}SELECT a.v, a.k {body(rng)}"
    if kind == 1:
        inner = f"SELECT {rng.choice(['a.*', 'a.v AS id, a.k, a.id AS v, a.day, a.c, a.d'])} {body(rng)}"
        return f"SELECT * FROM ({inner}) x WHERE {where(rng, ['', 'x.'])}"
    if kind == 2:
        return f"SELECT lake.shop.t.id, shop.t.k, v FROM lake.shop.t WHERE {where(rng, ['', 't.', 'lake.shop.t.'])}"
    if kind == 3:
        nested = f"SELECT id FROM lake.shop.t b WHERE b.v = a.v AND {where(rng, ['', 'b.', 'a.'])}"
        exists = f"{rng.choice(['', 'NOT '])}EXISTS ({nested})"
        return f"SELECT id, k FROM lake.shop.t a WHERE {exists} AND {where(rng, ['a.'])}"
    return f"SELECT {rng.choice(['a.id, a.k', 'a.*', 'count(*), sum(a.id)', '*'])} {body(rng)}"


def body(rng: Random) -> str:
    """FROM and WHERE of one relation, or of two."""
    one, two = rng.choice(SOURCES).format("a"), rng.choice(SOURCES).format("b")
    join = rng.choice([*JOINS, "", "", ""])
    if not join:
        return f"FROM {one} WHERE {where(rng, ['', 'a.'])}"
    hidden = "SEMI" in join or "ANTI" in join
    filtered = f"WHERE {where(rng, ['a.', '', 'a.'] if hidden else ['a.', 'b.'])}"
    if join in ("CROSS JOIN", ","):
        return f"FROM {one} {join} {two} {filtered} AND a.id = b.id"
    on = rng.choice(["USING (id)", f"ON a.id = b.id AND {where(rng, ['a.', 'b.'])}"])
    return f"FROM {one} {join} {two} {on} {filtered if rng.random() < 0.7 else ''}"


def where(rng: Random, qualifiers: list[str]) -> str:
    """One condition, or two."""
    chosen = [rng.choice(CONDITIONS[rng.choice(list(CONDITIONS))]) for _ in range(rng.randrange(1, 3))]
    return " AND ".join(one.format(*[rng.choice(qualifiers)] * 2) for one in chosen)


def answer(rng: Random) -> Callable[[], Any]:
    """What runs a text, and perhaps a filter above it."""
    query = text(rng)
    query = f"WITH made AS (SELECT * FROM lake.shop.t) {query}" if "made" in query else query
    above = "" if "count(" in query else rng.choice(["", "", "id > 3", "k = 'a'"])
    return lambda: spark.sql(query).where(above) if above else spark.sql(query)


def found(frame: Callable[[], Any]) -> str:
    """The rows, or the error's condition."""
    try:
        return repr(sorted(map(repr, frame().collect())))
    except PySparkException as error:  # both ways are to say the same
        return f"{type(error).__name__} {str(error).splitlines()[0]}"


def main() -> None:
    """Compare; the first answer of each frame or text is the one without push-down."""
    paimon_spark.register_catalog(spark, "lake", warehouse=f"{sys.argv[2]}/wh")
    fill()
    changed: list[str] = []
    own, of_text, columns = loads.push_down, queries.filter_option, queries.columns_option

    def counting(relation: Any, client: Any) -> bool:
        before = options(relation)
        prunes = own(relation, client)
        changed.extend(["changed"] * (before != options(relation)))
        return prunes

    def counting_text(*given: Any) -> str | None:
        condition = of_text(*given)
        changed.extend(["changed"] * (condition is not None))
        return condition

    def compare(kind: str, count: int, make: Callable[[Random], Callable[[], Any]]) -> None:
        told = 0
        for seed in range(count):
            try:
                frame = make(chance(kind, seed))
                loads.push_down = lambda relation, client: False
                queries.filter_option, queries.columns_option = (lambda *_: None), (lambda *_: {})
                plain = found(frame)
                loads.push_down = counting
                queries.filter_option, queries.columns_option = counting_text, columns
                changed.clear()
                pushed = found(frame)
                told += bool(changed)
                if plain != pushed:
                    print(f"{kind} {seed}: {plain[:300]} is not {pushed[:300]}")
            except (PySparkException, PaimonError, AttributeError, TypeError, ValueError):
                print(f"{kind} {seed}: {traceback.format_exc()}".replace("\n", " | "))
        print(f"told {told}")

    compare("connect push-down", int(sys.argv[3]), built)
    compare("text push-down", int(sys.argv[4]), answer)
    print("done")


HOW = ["inner", "inner", "left", "right", "full", "semi", "anti", "cross"]


def joined(rng: Random) -> Any:
    """A join, perhaps with a third table, under conditions on its sides."""
    one, two = base(rng).alias("t"), base(rng).alias("o")
    one = one.where("t.v < 3") if rng.random() < 0.3 else one
    frame = one.join(two, on(rng, one, two), rng.choice(HOW))
    if rng.random() < 0.3:
        three = spark.table(NAME).withColumnRenamed("v", "w") if rng.random() < 0.3 else base(rng).alias("p")
        frame = frame.join(three, sf.col("t.id") == three["id"], rng.choice(HOW))
    for _ in range(rng.randrange(1, 3)):
        frame = frame.where(sided(rng, one, two))
    return rng.choice([frame, frame.select("t.id", "t.k"), frame.select("t.id", sf.col("o.k"), "o.v")])


def on(rng: Random, one: Any, two: Any) -> Any:
    """The condition of a join."""
    both = rng.choice([one["id"] == two["id"], sf.expr("t.id = o.id"), sf.col("t.v") == sf.col("o.id")])
    return rng.choice(["id", ["id", "k"], both, both & sided(rng, one, two)])


def sided(rng: Random, one: Any, two: Any) -> Any:
    """A condition on a side."""
    if rng.random() < 0.4:
        return sf.expr(where(rng, ["t.", "o."]))
    side, other = rng.choice([(one, "t."), (two, "o.")]), rng.choice(["id", "k", "v"])
    column = side[0][other] if rng.random() < 0.5 else sf.col(side[1] + other)
    return rng.choice([column.isNull(), column.isNotNull(), column == rng.choice(VALUES[other]), column.isin(1, 5)])


def built(rng: Random) -> Callable[[], Any]:
    """A DataFrame."""
    if rng.random() < 0.4:
        frame = joined(rng)
        return lambda: frame
    frame = base(rng)
    for _ in range(rng.randrange(3)):
        frame = step(rng, frame)
    frame = ends(rng, frame)
    return lambda: frame


def options(relation: Any) -> list[tuple[str | None, str | None]]:
    """What loads are told, without the snapshot."""
    return [(load.options.get("columns"), load.options.get("filter")) for load in paimon_loads(relation)]


main()
