"""A Connect client whose own methods name Paimon tables: run by `test_connect_catalog` with a server's URL.

`python connect_catalog_program.py sc://… <directory> <address of a REST catalog> <its token> <address of a Hive
metastore>` prints what failed, each on a line of its own, then "done".
"""

import io
import logging
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import paimon_spark
from paimon_spark.errors import PaimonError

CHECKS: list[Callable[[], None]] = []
spark: Any = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
root = Path(sys.argv[2])
FORMATS = ("csv", "json", "orc", "parquet")


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Run a function among the checks, in their order."""
    CHECKS.append(function)
    return function


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows, sorted."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def ids(name: str) -> list[int]:
    """Return the first column of a table."""
    return sorted(row[0] for row in spark.table(name).collect())


def equal(found: object, wanted: object) -> None:
    """Fail where two values differ."""
    assert found == wanted, f"{found} is not {wanted}"


def fails(kind: type[BaseException], words: str, deed: Callable[[], Any]) -> None:
    """Fail where a deed raises no such error."""
    text = "no error"
    try:
        deed()
    except kind as error:
        text = str(error)
    assert words in text, text


def frame(*values: tuple[Any, ...], columns: str = "id long, name string") -> DataFrame:
    """Return given rows."""
    made: DataFrame = spark.createDataFrame(list(values), columns)
    return made


def scans(frame: DataFrame) -> list[str]:
    """What a DataFrame says of its scans, up to the snapshot."""
    text = io.StringIO()
    with redirect_stdout(text):
        frame.explain()
    lines = text.getvalue().partition("== Paimon Scans ==")[2].split("\n")
    return [line.partition(", files=")[0].removeprefix("lake.shop.t ") for line in lines if line]


@check
def statements() -> None:
    """``spark.sql`` takes statements of both worlds."""
    spark.sql("CREATE DATABASE lake.shop")
    spark.sql(
        "CREATE TABLE lake.shop.t (id BIGINT NOT NULL, name STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    spark.sql("INSERT INTO lake.shop.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("ALTER TABLE lake.shop.t CREATE TAG first")
    spark.sql("UPDATE lake.shop.t SET name = 'B' WHERE id = 2")
    equal(rows(spark.sql("SELECT * FROM lake.shop.t")), [(1, "a"), (2, "B")])
    equal(rows(spark.sql("SELECT name FROM lake.shop.t VERSION AS OF 'first' WHERE id = ?", args=[2])), [("b",)])
    equal(rows(spark.sql("SELECT name FROM lake.shop.t WHERE id = :n", args={"n": 1})), [("a",)])
    given = spark.sql("SELECT t.name FROM {some} s JOIN lake.shop.t t ON t.id = s.id + {n}", some=frame((0, "x")), n=1)
    equal(rows(given), [("a",)])
    equal(rows(spark.sql("SELECT {n} + 1", n=1)), [(2,)])


@check
def joins_with_the_server() -> None:
    """Tables of the server and views stand alongside ours."""
    for table in ("theirs", "both", "theirs_too", "theirs_new"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql("CREATE TABLE theirs AS SELECT 2L AS id, 'x' AS more")
    frame((1, "v")).createOrReplaceTempView("view")
    joined = "SELECT t.name, s.more FROM lake.shop.t t JOIN theirs s USING (id)"
    equal(rows(spark.sql(joined)), [("B", "x")])
    equal(rows(spark.table("lake.shop.t").join(spark.table("theirs"), "id").select("name", "more")), [("B", "x")])
    equal(rows(spark.sql("SELECT t.name FROM view JOIN lake.shop.t t USING (id)")), [("a",)])
    spark.sql("CREATE TABLE both USING parquet AS SELECT id FROM lake.shop.t")
    equal(ids("both"), [1, 2])
    spark.sql("INSERT INTO lake.shop.t SELECT id + 10, more FROM theirs")
    spark.sql("DELETE FROM lake.shop.t WHERE id > 10")


@check
def tables() -> None:
    """``spark.table`` and ``read.table``, with options."""
    equal(rows(spark.table("lake.shop.t").where("t.id = 1").select("name")), [("a",)])
    table = spark.table("lake.shop.t")
    for name in ("id", "t.id", "shop.t.id", "lake.shop.t.id", "`lake`.SHOP.`t`.Id"):
        equal(rows(table.where(f"{name} = 1").select(sf.col(name), "lake.shop.t.name")), [(1, "a")])
    equal(rows(table.alias("x").where("x.id = 1").select("x.name")), [("a",)])
    equal(rows(table.where(table.id == 1).drop("id")), [("a",)])
    equal(rows(spark.read.option("scan.tag-name", "first").table("lake.shop.t").where("id = 2")), [(2, "b")])
    equal([row.snapshot_id for row in spark.table("lake.shop.`t$snapshots`").collect()], [1, 2, 3, 4])
    equal(ids(f"lake.`{root}/wh/shop.db/t`"), [1, 2])
    plan = spark.sql("EXPLAIN SELECT name FROM lake.shop.t VERSION AS OF 2 WHERE id = 2").head()[0]
    said = "lake.shop.t columns=[id, name], filter=[`id` = 2], snapshot=2, files=2, splits=1"
    equal(plan.partition("== Paimon Scans ==")[2].strip(), said)
    equal(rows(spark.table("lake.shop.t").select("name")), [("B",), ("a",)])
    fails(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", lambda: spark.table("lake.shop.none").collect())
    fails(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", lambda: spark.table("none").collect())
    fails(AnalysisException, "`name`", lambda: spark.sql("SELECT nmae, id FROM lake.shop.t").collect())


@check
def explains() -> None:
    """``df.explain`` says what is read of a table, and what a client tells a load."""
    table = spark.table("lake.shop.t")
    equal(scans(table), ["columns=[id, name], snapshot=4"])
    equal(scans(table.where("id = 2 AND upper(name) = 'B'")), ["columns=[id, name], filter=[`id` = 2], snapshot=4"])
    equal(
        scans(table.alias("x").where(sf.col("x.id") == 2).select("x.id")),
        ["columns=[id], filter=[`id` = 2], snapshot=4"],
    )
    joined = table.join(spark.table("lake.shop.t").alias("y"), "id").select("y.name")
    equal(scans(joined), ["columns=[id, name], snapshot=4"])
    both = ["columns=[id, name], filter=[`id` = 2], snapshot=4", "columns=[id, name], snapshot=4"]
    equal(scans(table.where("id = 2").union(table)), both)
    kept = table.where("id = 2").cache()
    equal(scans(kept.select("id")), ["columns=[id, name], snapshot=4"])
    equal((kept.is_cached, rows(kept)), (True, [(2, "B")]))
    kept.unpersist()
    equal(scans(kept.select("id")), ["columns=[id], filter=[`id` = 2], snapshot=4"])
    loaded = spark.read.format("paimon").option("scan.snapshot-id", 2).load(f"{root}/wh/shop.db/t").where("id = 2")
    at = f"{root}/wh/shop.db/t columns=[id, name], filter=[`id` = 2], snapshot=2"
    equal(scans(loaded), [at])
    # twice: neither is told a filter, and both are under the name that the plan has for the path
    equal(scans(loaded.union(table)), ["columns=[id, name], snapshot=2", "columns=[id, name], snapshot=4"])
    loaded.createOrReplaceTempView("seen")
    equal(scans(spark.table("seen")), [at.replace("filter=[`id` = 2], ", "")])
    spark.catalog.dropTempView("seen")
    equal((scans(spark.table("lake.shop.`t$snapshots`")), scans(spark.range(1))), ([], []))
    fails(AnalysisException, "[`id`, `name`]", lambda: table.select("id", "nmae").collect())


@check
def snapshots_of_actions() -> None:
    """As on a classic session a load by a path stays on its snapshot; names and statements follow the table."""
    spark.sql("CREATE TABLE lake.shop.acts (id BIGINT NOT NULL)")
    path = f"{root}/wh/shop.db/acts"
    table = paimon_spark.open_table(path)
    one = pa.table({"id": pa.array([1], pa.int64())}, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    table.append(one)
    loaded, named, text = _loaded(path), spark.table("lake.shop.acts"), spark.sql("SELECT id FROM lake.shop.acts")
    for count in (2, 3):
        table.append(one)
        equal([len(loaded.collect()), len(named.collect()), len(text.collect())], [1, count, count])
        equal(named.union(text).union(loaded.select(loaded["id"])).count(), 2 * count + 1)
        named.write.mode("overwrite").parquet(f"{root}/acts")
        equal(spark.read.parquet(f"{root}/acts").count(), count)
    spark.sql("ALTER TABLE lake.shop.acts ADD COLUMN more STRING")
    equal([loaded.columns, _loaded(path).columns], [["id"], ["id", "more"]])
    loaded.write.format("paimon").mode("overwrite").save(path)  # the rows of the table itself, as they are by now
    equal(spark.table("lake.shop.acts").count(), 3)
    spark.sql("DROP TABLE lake.shop.acts")


def _loaded(path: str) -> Any:
    return spark.read.format("paimon").load(path)


@check
def times_to_come() -> None:
    """A client's own log says that a time is still to come: the server's says it to nobody who reads here."""
    log, said = logging.getLogger("paimon_spark"), io.StringIO()
    log.addHandler(handler := logging.StreamHandler(said))
    try:
        path = f"{root}/wh/shop.db/t"
        late = spark.read.format("paimon").load(path, timestampAsOf="2999-01-01")
        equal((rows(late), said.getvalue().count("is in the future: ")), ([(1, "a"), (2, "B")], 1))
        spark.read.format("paimon").load(path, timestampAsOf="2001-01-01")
        spark.read.format("paimon").load(path, timestampAsOf="when")
        equal(said.getvalue().count("is in the future: "), 1)
        equal(rows(spark.sql("SELECT * FROM lake.shop.t TIMESTAMP AS OF '2999-01-01'")), [(1, "a"), (2, "B")])
        equal(said.getvalue().count("is in the future: "), 2)
    finally:
        log.removeHandler(handler)


@check
def current_catalog() -> None:
    """USE, and names without catalog."""
    equal(spark.catalog.currentCatalog(), "spark_catalog")
    spark.sql("USE lake.shop")
    equal((spark.catalog.currentCatalog(), spark.catalog.currentDatabase()), ("lake", "shop"))
    equal(ids("t"), [1, 2])
    equal(rows(spark.sql("SELECT count(*) FROM t")), [(2,)])
    frame((5, "e")).write.saveAsTable("unqualified")
    equal(ids("lake.shop.unqualified"), [5])
    spark.sql("DROP TABLE unqualified")
    spark.sql("USE spark_catalog")
    equal(spark.catalog.currentCatalog(), "spark_catalog")
    equal(ids("theirs"), [2])
    spark.catalog.setCurrentCatalog("lake")
    spark.catalog.setCurrentDatabase("shop")
    equal(ids("t"), [1, 2])
    spark.catalog.setCurrentCatalog("spark_catalog")
    equal(ids("theirs"), [2])


@check
def writers() -> None:
    """``write.saveAsTable`` and ``insertInto`` in each mode."""
    some = frame((1, "a"), (2, "b"))
    some.write.format("paimon").partitionBy("name").option("bucket", "-1").saveAsTable("lake.shop.w")
    equal(spark.sql("SHOW PARTITIONS lake.shop.w").count(), 2)
    fails(AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS", lambda: some.write.saveAsTable("lake.shop.w"))
    some.write.mode("ignore").saveAsTable("lake.shop.w")
    frame(("c", 3), columns="name string, id long").write.mode("append").saveAsTable("lake.shop.w")
    equal(ids("lake.shop.w"), [1, 2, 3])
    frame((4, "d")).write.insertInto("lake.shop.w")
    equal(ids("lake.shop.w"), [1, 2, 3, 4])
    replaced = frame((9, "d")).write.option("partitionOverwriteMode", "dynamic")
    replaced.insertInto("lake.shop.w", overwrite=True)
    equal(ids("lake.shop.w"), [1, 2, 3, 9])
    some.write.partitionBy("name").mode("overwrite").saveAsTable("lake.shop.w")
    equal(ids("lake.shop.w"), [1, 2])
    some.write.mode("overwrite").saveAsTable("theirs_too")
    equal(ids("theirs_too"), [1, 2])


@check
def second_writers() -> None:
    """``writeTo``: each of its deeds."""
    some = frame((1, "a"), (2, "b"))
    new = some.writeTo("lake.shop.v").using("paimon").partitionedBy(sf.col("name")).tableProperty("bucket", "-1")
    new.create()
    fails(AnalysisException, "TABLE_OR_VIEW_ALREADY_EXISTS", lambda: some.writeTo("lake.shop.v").create())
    frame(("c", 3), columns="name string, id long").writeTo("lake.shop.v").append()
    equal(ids("lake.shop.v"), [1, 2, 3])
    frame((7, "c")).writeTo("lake.shop.v").overwritePartitions()
    equal(ids("lake.shop.v"), [1, 2, 7])
    frame((8, "a")).writeTo("lake.shop.v").overwrite((sf.col("name") == "a") & sf.col("name").isNotNull())
    equal(ids("lake.shop.v"), [2, 7, 8])
    frame((9, "z")).writeTo("lake.shop.v").overwrite(sf.lit(True))
    equal(ids("lake.shop.v"), [9])
    some.writeTo("lake.shop.v").partitionedBy("name").createOrReplace()
    equal(ids("lake.shop.v"), [1, 2])
    fails(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", lambda: some.writeTo("lake.shop.none").append())
    some.writeTo("theirs_new").using("parquet").create()
    equal(ids("theirs_new"), [1, 2])


@check
def merges() -> None:
    """``mergeInto``, conditions by alias, by whole name and by DataFrame."""
    source = frame((2, "two"), (3, "three")).alias("s")
    merge = source.mergeInto("lake.shop.t", sf.col("lake.shop.t.id") == sf.col("s.id"))
    merge = merge.whenMatched(sf.col("t.name") == "B").update({"t.name": sf.concat("t.name", "s.name")})
    merge.whenNotMatched().insertAll().whenNotMatchedBySource(sf.col("shop.t.id") == 1).delete().merge()
    equal(rows(spark.table("lake.shop.t")), [(2, "Btwo"), (3, "three")])
    other = frame((3, "again"))
    other.mergeInto("lake.shop.t", sf.col("t.id") == other["id"]).whenMatched().updateAll().merge()
    equal(rows(spark.table("lake.shop.t")), [(2, "Btwo"), (3, "again")])
    merge = other.mergeInto("lake.shop.t", sf.expr("t.id = idd")).whenMatched().updateAll().merge
    fails(AnalysisException, "[`t`.`id`, `t`.`name`, `id`, `name`]", merge)


@check
def merges_of_keyed_tables() -> None:
    """``mergeInto`` of tables with keys: rows match, however a condition names columns."""
    columns = "id long, `order no` string, `a``b.c` string"
    whole = "lake.shop.keyed"
    make = "CREATE TABLE lake.shop.{} (id BIGINT, `order no` STRING, `a``b.c` STRING) TBLPROPERTIES ({})"
    spark.sql(make.format("keyed", "'primary-key' = 'id', 'bucket' = '1'"))
    spark.sql("CREATE DATABASE lake.other")
    spark.sql(make.replace("shop", "other").format("keyed", "'bucket' = '-1'"))
    spark.sql("INSERT INTO lake.other.keyed VALUES (1, 'n', 'm'), (3, 'n', 'm')")
    source = frame((1, "n", "m"), (3, "n", "m"), columns=columns).alias("s")
    own, other = sf.col(f"{whole}.id"), sf.col("s.id")
    conditions = [
        sf.expr("keyed.id = s.id"),
        sf.expr("s.id = shop.keyed.id"),
        sf.expr("lake.shop.keyed.id = s.id"),
        sf.expr("LAKE.Shop.Keyed.ID = S.Id"),
        sf.expr("`lake`.`shop`.`keyed`.`id` = `s`.`id`"),
        own == other,
        other == own,
        sf.col("KEYED.id") == source["id"],
        (own == other) & sf.expr("lake.shop.keyed.`order no` <> 'q'"),
        sf.expr("lake.shop.keyed.`a``b.c` <> s.`a``b.c`")
        & (sf.col("`lake`.`shop`.keyed.`order no`").isNotNull())
        & (own == other),
    ]
    for condition in conditions:
        spark.sql(f"INSERT OVERWRITE {whole} VALUES (1, 'x', 'y'), (2, 'x', 'y')")
        source.mergeInto(whole, condition).whenMatched().updateAll().whenNotMatched().insertAll().merge()
        equal(rows(spark.table(whole)), [(1, "n", "m"), (2, "x", "y"), (3, "n", "m")])
    matched = sf.expr("lake.shop.keyed.`a``b.c` = 'm'") & (sf.col("shop.keyed.`order no`") == sf.col("s.`order no`"))
    merge = source.mergeInto(whole, sf.expr("lake.shop.keyed.id = s.id")).whenMatched(matched)
    merge = merge.update({"lake.shop.keyed.`order no`": sf.expr("concat(lake.shop.keyed.`a``b.c`, s.`order no`)")})
    merge.whenNotMatchedBySource(sf.expr("lake.shop.keyed.id > 1")).update(
        {"`a``b.c`": sf.col(f"{whole}.`order no`")}
    ).merge()
    equal(rows(spark.table(whole)), [(1, "mn", "m"), (2, "x", "x"), (3, "mn", "m")])
    same_name = spark.table("lake.other.keyed").where("id = 1")
    same = same_name.mergeInto(whole, sf.col(f"{whole}.id") == same_name["id"])
    same.whenMatched(sf.col(f"{whole}.id") > 0).update({"id": same_name["id"], "order no": sf.lit("same")}).merge()
    equal(rows(spark.table(whole))[0], (1, "same", "m"))
    theirs = spark.table("lake.other.keyed")
    joined = sf.expr("lake.other.keyed.id = lake.shop.keyed.id")
    for number, kept in enumerate(
        [
            theirs,
            theirs.where("id = 1"),
            theirs.where("keyed.id = 1").where("id > 0").limit(5).orderBy("id").distinct(),
            theirs.select("id", "order no").where("id < 2").repartition(1).hint("broadcast"),
            theirs.select("*").drop("a`b.c").dropDuplicates(["id"]).where(theirs["id"] == 1),
        ]
    ):
        value = sf.concat(sf.col("lake.other.keyed.`order no`"), theirs["order no"], sf.lit(number))
        kept.mergeInto(whole, joined).whenMatched(sf.expr("other.keyed.id = 1")).update({"order no": value}).merge()
        equal(rows(spark.table(whole))[0], (1, f"nn{number}", "m"))
    fails(
        AnalysisException,
        "`lake`.`other`.`keyed`.`id`",
        theirs.withColumn("order no", sf.lit("made"))
        .mergeInto(whole, joined)
        .whenMatched()
        .update({"order no": sf.col("lake.other.keyed.`order no`")})
        .merge,
    )
    fails(
        AnalysisException,
        "`lake`.`shop`.`keyed`.`nmae`",
        source.mergeInto(whole, own == other).whenMatched(sf.expr(f"{whole}.nmae = 1")).updateAll().merge,
    )
    fails(
        PaimonError,
        "Can't update the primary key column id",
        source.mergeInto(whole, sf.expr(f"{whole}.id = s.id - 1")).whenMatched().updateAll().merge,
    )
    spark.sql("DROP TABLE lake.shop.keyed")
    spark.sql("DROP DATABASE lake.other CASCADE")


@check
def streams() -> None:
    """``readStream.table`` and ``writeStream.toTable``."""
    frame((1, "a")).writeTo("lake.shop.source").create()
    stream = spark.readStream.table("lake.shop.source")
    writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", str(root / "cp"))
    query = writer.toTable("lake.shop.sink")
    query.awaitTermination()
    equal(rows(spark.table("lake.shop.sink")), [(1, "a")])
    fails(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", lambda: spark.readStream.table("lake.shop.none"))


@check
def catalog() -> None:
    """``spark.catalog``."""
    own = spark.catalog
    equal([c.name for c in own.listCatalogs("l*")], ["lake"])
    equal(own.tableExists("lake.shop.t"), True)
    equal(own.tableExists("lake.shop.none"), False)
    equal(own.tableExists("theirs"), True)
    equal(own.tableExists("nothing"), False)
    equal(own.databaseExists("lake.shop"), True)
    equal(own.databaseExists("default"), True)
    equal(own.getDatabase("lake.shop").name, "shop")
    found = {table.name for table in own.listTables("lake.shop") if not table.isTemporary}
    equal(found, {path.name for path in (root / "wh/shop.db").iterdir()})
    equal(found >= {"t"}, True)
    equal(own.getTable("lake.shop.t")[:3], ("t", "lake", ["shop"]))
    equal(next((c.name, c.dataType, c.nullable) for c in own.listColumns("lake.shop.t")), ("id", "bigint", False))
    own.refreshTable("lake.shop.t")
    equal(own.isCached("lake.shop.t"), False)
    fails(paimon_spark.UnsupportedError, ".cache()", lambda: own.cacheTable("lake.shop.t"))
    own.uncacheTable("lake.shop.t")
    equal("theirs" in {table.name for table in own.listTables()}, True)
    schema = spark.table("lake.shop.t").schema
    own.createTable("lake.shop.made", source="paimon", schema=schema, description="by 'hand'")
    equal(own.getTable("lake.shop.made").description, "by 'hand'")
    spark.sql("USE lake.shop")
    equal("made" in {table.name for table in own.listTables()}, True)
    frame((77, "v")).createOrReplaceTempView("made")
    equal(ids("made"), [77])
    equal(own.getTable("made").isTemporary, True)
    spark.sql("USE spark_catalog")
    own.dropTempView("made")


@check
def other_sessions() -> None:
    """A new session has the catalog."""
    for method in ("newSession", "cloneSession"):
        if hasattr(spark, method):
            other = getattr(spark, method)()
            equal(other.table("lake.shop.t").count(), 2)
            other.client.close()


def views_of(database: str) -> None:
    """Views of a database whose table t has the keys 1 and 3."""
    spark.sql(
        f"CREATE VIEW {database}.v (id COMMENT 'a key', n) AS SELECT k, 'x' AS m FROM {database}.t VERSION AS OF 1"
    )
    spark.sql(f"CREATE VIEW {database}.w AS SELECT max(id) AS top FROM {database}.v")
    equal(rows(spark.sql(f"SELECT v.*, w.top FROM {database}.v CROSS JOIN {database}.w WHERE id = 1")), [(1, "x", 2)])
    equal(rows(spark.table(f"{database}.v")), [(1, "x"), (2, "x")])
    spark.sql(f"ALTER VIEW {database}.v SET TBLPROPERTIES ('a' = 'b')")
    spark.sql(f"ALTER VIEW {database}.w AS SELECT count(*) AS number FROM {database}.v")
    equal(rows(spark.sql(f"SELECT number FROM {database}.w")), [(2,)])
    equal([row.viewName for row in spark.sql(f"SHOW VIEWS IN {database}").collect()], ["v", "w"])
    equal(rows(spark.sql(f"DESCRIBE {database}.v"))[0][2], "a key")
    equal(spark.catalog.tableExists(f"{database}.v"), True)
    fails(Exception, "is a view", lambda: spark.sql(f"INSERT INTO {database}.v VALUES (1, 'y')"))
    for name in ("v", "w"):
        spark.sql(f"DROP VIEW {database}.{name}")
    fails(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", lambda: spark.table(f"{database}.v").collect())


@check
def a_catalog_of_a_database() -> None:
    """Its tables have names there, whatever makes them."""
    uri = f"jdbc:sqlite:{root}/catalog.db"
    options = {"metastore": "jdbc", "uri": uri, "lock.enabled": "true"}
    paimon_spark.register_catalog(spark, "named", warehouse=str(root / "named"), **options)
    spark.sql("CREATE DATABASE named.d")
    spark.sql("CREATE TABLE named.d.t (k INT NOT NULL) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    spark.sql("INSERT INTO named.d.t VALUES (1), (2)")
    spark.createDataFrame([(3,)], "k int").writeTo("named.d.t").append()
    spark.table("named.d.t").write.saveAsTable("named.d.saved")
    writer = spark.readStream.table("named.d.t").writeStream.option("checkpointLocation", str(root / "named-points"))
    writer.trigger(availableNow=True).toTable("named.d.streamed").awaitTermination()
    for name in ("t", "saved", "streamed"):
        equal(ids(f"named.d.{name}"), [1, 2, 3])
    views_of("named.d")
    with closing(sqlite3.connect(root / "catalog.db")) as database:
        names = database.execute("SELECT table_name FROM paimon_tables ORDER BY 1").fetchall()
        equal(names, [("saved",), ("streamed",), ("t",)])
        equal(database.execute("SELECT * FROM paimon_distributed_locks").fetchall(), [])


def functions_of(database: str) -> None:
    """Functions of SQL: a query that calls one is planned anew by each action."""
    spark.sql(f"CREATE FUNCTION {database}.twice(x INT) RETURNS INT RETURN 2 * x")
    body = f"SELECT sum(k) FROM {database}.t WHERE k > d"
    spark.sql(f"CREATE FUNCTION {database}.total(d INT) RETURNS BIGINT RETURN {body}")
    frame = spark.sql(f"SELECT {database}.twice(k) AS k FROM {database}.t")
    equal(rows(frame), [(2,), (6,)])
    equal(rows(frame.where("k > 2")), [(6,)])
    equal(rows(spark.sql(f"SELECT {database}.total(0), {database}.total(1)")), [(4, 3)])
    spark.sql(f"CREATE OR REPLACE FUNCTION {database}.twice(x INT) RETURNS INT RETURN 20 * x")
    equal(rows(spark.sql(f"SELECT {database}.twice(k) FROM {database}.t")), [(20,), (60,)])
    spark.sql(f"INSERT INTO {database}.t SELECT {database}.twice(5)")
    equal(rows(spark.sql(f"SELECT {database}.total(3)")), [(100,)])
    spark.sql(f"DELETE FROM {database}.t WHERE k = {database}.twice(5)")
    spark.sql(f"CREATE TEMPORARY VIEW doubled AS SELECT {database}.twice(k) AS k FROM {database}.t")
    equal(ids("doubled"), [20, 60])
    equal(rows(spark.sql(f"SHOW USER FUNCTIONS IN {database}")), [(f"{database}.total",), (f"{database}.twice",)])
    for name in ("twice", "total"):
        spark.sql(f"DROP FUNCTION {database}.{name}")
    fails(AnalysisException, "twice", lambda: spark.sql(f"SELECT {database}.twice(1)").collect())


def files_of(database: str, *kinds: str) -> None:
    """Tables of plain files, which Spark's own sources on the server read and write."""
    for kind in kinds:
        name = f"{database}.of_{kind}"  # the server leaves the files of a table that is dropped
        spark.sql(f"CREATE TABLE {name} (id INT, v STRING, p INT) USING {kind} PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 2)")
        more = spark.createDataFrame([(3, "c", 2)], "id int, v string, p int")
        fails(PaimonError, "a format-table is by SQL", more.writeTo(name).append)
        more.createOrReplaceTempView("more")
        spark.sql(f"INSERT INTO {name} SELECT * FROM more")
        equal(ids(name), [1, 2, 3])
        spark.sql(f"INSERT OVERWRITE {name} PARTITION (p = 2) VALUES (4, 'd')")
        equal(rows(spark.table(name).where("p = 2").select("v")), [("d",)])
        spark.sql(f"TRUNCATE TABLE {name} PARTITION (p = 1)")
        equal(ids(name), [4])
        fails(Exception, "format-table", lambda name=name: spark.sql(f"DELETE FROM {name} WHERE id = 4"))
        spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {database}.lines (line STRING) USING text")
    spark.sql(f"INSERT INTO {database}.lines VALUES ('a, b')")
    equal(rows(spark.table(f"{database}.lines")), [("a, b",)])
    spark.sql(f"DROP TABLE {database}.lines")


@check
def a_catalog_of_a_server() -> None:
    """A REST catalog: its server has each commit."""
    options = {"metastore": "rest", "uri": sys.argv[3], "token.provider": "bear", "token": sys.argv[4]}
    paimon_spark.register_catalog(spark, "served", warehouse="wh", **options)
    spark.sql("CREATE DATABASE served.c")
    spark.sql("CREATE TABLE served.c.t (k INT NOT NULL) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    spark.sql("INSERT INTO served.c.t VALUES (1), (2)")
    spark.createDataFrame([(3,)], "k int").writeTo("served.c.t").append()
    spark.sql("MERGE INTO served.c.t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE")
    writer = spark.readStream.table("served.c.t").writeStream.option("checkpointLocation", str(root / "served-points"))
    writer.trigger(availableNow=True).toTable("served.c.streamed").awaitTermination()
    for name in ("t", "streamed"):
        equal(ids(f"served.c.{name}"), [1, 3])
    views_of("served.c")
    functions_of("served.c")
    files_of("served.c", *FORMATS)
    for name in ("t", "streamed"):
        spark.sql(f"DROP TABLE served.c.{name}")
    spark.sql("DROP DATABASE served.c")


@check
def a_catalog_of_hive() -> None:
    """Its tables have names in Hive's metastore, and lie where they are asked to."""
    options = {"metastore": "hive", "uri": sys.argv[5], "lock.enabled": "true"}
    paimon_spark.register_catalog(spark, "hive", warehouse=str(root / "of_hive"), **options)
    spark.sql("CREATE DATABASE hive.by_connect")
    spark.sql("CREATE TABLE hive.by_connect.t (k INT NOT NULL) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    spark.sql("INSERT INTO hive.by_connect.t VALUES (1), (2)")
    spark.createDataFrame([(3,)], "k int").writeTo("hive.by_connect.t").append()
    spark.sql("MERGE INTO hive.by_connect.t USING (SELECT 2 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE")
    spark.sql(f"CREATE TABLE hive.by_connect.x LOCATION '{root}/outside' AS SELECT * FROM hive.by_connect.t")
    for name in ("t", "x"):
        equal(ids(f"hive.by_connect.{name}"), [1, 3])
    equal((root / "outside/snapshot/snapshot-1").exists(), True)
    views_of("hive.by_connect")
    files_of("hive.by_connect", *FORMATS)
    spark.sql("DROP DATABASE hive.by_connect CASCADE")


def failures(checks: Iterable[Callable[[], None]]) -> Iterable[str]:
    """Run checks, and give what is wrong."""
    for function in checks:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - of whatever class: the check has failed
            frames = traceback.extract_tb(error.__traceback__)
            location = [f"{at.name}:{at.lineno}" for at in frames if at.filename == __file__]
            yield f"{function.__name__} {location}: {type(error).__name__} {str(error)[:600]}"
            if "-v" in sys.argv:
                traceback.print_exc()


if __name__ == "__main__":
    paimon_spark.register_catalog(spark, "lake", warehouse=str(root / "wh"))
    for failure in failures(CHECKS):
        print(" ".join(failure.split()), flush=True)
    print("done")
    spark.stop()
