"""Uses the package on Sail, which runs Python data sources without a JVM: `… <directory>`, in the environment `sail`.

Prints what failed, each on a line of its own, then "done".
"""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import paimon_spark

CHECKS: list[Callable[[], None]] = []
root = Path(sys.argv[1])
spark: Any = None


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Run a function among the checks, in their order."""
    CHECKS.append(function)
    return function


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows, sorted."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def equal(found: object, wanted: object) -> None:
    """Fail where two values differ."""
    assert found == wanted, f"{found} is not {wanted}"


def load(name: str, **options: str) -> Any:
    """Return a table's rows."""
    return spark.read.format("paimon").options(**options).load(f"{root}/{name}")


def sql(statement: str, **more: Any) -> Any:
    """Run a statement of `paimon_spark.sql`."""
    return paimon_spark.sql(spark, statement, warehouse=f"{root}/wh", **more)


@check
def writes_and_reads() -> None:
    """Append and overwrite, columns, filters and nested types."""
    columns = "id bigint, name string, price decimal(10,2), day date, at timestamp_ntz, a array<int>, s struct<x: int>"
    values = "(1, 'a', 1.5, DATE '2024-01-01', TIMESTAMP_NTZ '2024-01-01 00:00:00', array(1, 2), named_struct('x', 1))"
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, name, price, day, at, a, s)")
    types = dict(part.strip().split(" ", 1) for part in columns.replace("10,2", "10;2").split(","))
    frame = frame.select(*(sf.col(name).cast(kind.replace(";", ",")) for name, kind in types.items()))
    frame.write.format("paimon").mode("append").save(f"{root}/t")
    frame.withColumn("id", sf.col("id") + 1).write.format("paimon").mode("append").save(f"{root}/t")
    found = rows(load("t").select("id", "name", "price", "a", "s.x"))
    equal(
        [(row[0], row[1], str(row[2]), list(row[3]), row[4]) for row in found],
        [(1, "a", "1.50", [1, 2], 1), (2, "a", "1.50", [1, 2], 1)],
    )
    equal(rows(load("t").where("id > 1").select("id")), [(2,)])
    equal(load("t", filter="id = 1", columns="id, name").columns, ["id", "name"])
    frame.write.format("paimon").mode("overwrite").save(f"{root}/t")
    equal(load("t").count(), 1)


@check
def system_tables() -> None:
    """Tables about a table."""
    equal(load("t$snapshots").count(), 3)
    equal([row.record_count for row in load("t$files").collect()], [1])
    equal(load("t$audit_log").count() > 0, True)


@check
def statements() -> None:
    """`paimon_spark.sql`."""
    sql("CREATE DATABASE paimon.db")
    sql("CREATE TABLE paimon.db.k (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO paimon.db.k VALUES (1, 'a'), (2, 'b')")
    sql("UPDATE paimon.db.k SET v = 'B' WHERE id = 2")
    sql(
        "MERGE INTO paimon.db.k AS t USING (SELECT 3 AS id, 'c' AS v UNION ALL SELECT 1, 'A') AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    equal(rows(sql("SELECT * FROM paimon.db.k")), [(1, "A"), (2, "B"), (3, "c")])
    sql("DELETE FROM paimon.db.k WHERE id = 3")
    sql("CALL paimon.sys.compact(table => 'db.k')")
    equal(rows(sql("SELECT * FROM paimon.db.k WHERE id < 3")), [(1, "A"), (2, "B")])


@check
def errors() -> None:
    """Of the rows that a function of tasks gets."""
    sql("CREATE TABLE paimon.db.e (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key' = 'id')")
    try:
        sql("INSERT INTO paimon.db.e SELECT CAST(NULL AS BIGINT)").collect()
    except paimon_spark.PaimonError as error:
        equal(str(error), "Cannot write null to non-null column(id).")
    else:
        raise AssertionError("a null key was written")


@check
def temporary_views() -> None:
    """They follow the tables that they name."""
    paimon_spark.register_catalog(spark, "sailed", warehouse=f"{root}/wh2")
    spark.sql("CREATE DATABASE sailed.db")
    spark.sql("CREATE TABLE sailed.db.t (id BIGINT)")
    spark.sql("INSERT INTO sailed.db.t VALUES (1)")
    spark.table("sailed.db.t").createOrReplaceTempView("v")
    equal(spark.table("v").count(), 1)
    spark.sql("INSERT INTO sailed.db.t VALUES (2)")
    equal(rows(spark.sql("SELECT * FROM v")), [(1,), (2,)])


@check
def methods() -> None:
    """`PaimonTable`."""
    table = paimon_spark.PaimonTable.create(
        spark, f"{root}/m", "id long not null, name string", primary_key="id", options={"bucket": "1"}
    )
    table.append(spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string"))
    table.create_tag("first")
    table.upsert(spark.createDataFrame([(2, "B"), (3, "c")], "id long, name string"))
    equal(rows(table.to_df()), [(1, "a"), (2, "B"), (3, "c")])
    equal(table.to_df(scan_tag_name="first").count(), 2)
    table.delete("id = 1")
    table.compact()
    equal(rows(table.to_df(columns=["id"])), [(2,), (3,)])


if __name__ == "__main__":
    server = SparkConnectServer(port=0)
    server.start()
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    paimon_spark.register(spark)
    for function in CHECKS:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - of whatever class: the check has failed
            print(" ".join(f"{function.__name__}: {type(error).__name__} {str(error)[:900]}".split()), flush=True)
            if "-v" in sys.argv:
                traceback.print_exc()
    print("done", flush=True)
    spark.stop()
    server.stop()
