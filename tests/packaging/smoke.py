"""Run by test_wheel.py in other environments: writes and reads, with no register() call before."""

import datetime
import decimal
import sys

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

warehouse = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "America/New_York")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
print("PySpark", pyspark.__version__)

instant = datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC)
local = datetime.datetime(2024, 5, 1, 12, 30, 0, 123456)
columns = (
    "k long, s string, d decimal(20,3), l timestamp, n timestamp_ntz, day date, b binary, "
    "a array<int>, m map<string,double>, r struct<x:int,y:string>"
)
row = (
    1,
    "one",
    decimal.Decimal("1.500"),
    instant,
    local,
    local.date(),
    b"\x00\x01",
    [1, None],
    {"a": 1.5},
    (7, "seven"),
)
nulls = (2, *[None] * 9)

path = f"{warehouse}/db.db/append"
df = spark.createDataFrame([row, nulls], columns)
df.write.format("paimon").mode("append").save(path)
read = spark.read.format("paimon").load(path)
assert read.schema == df.schema, (read.schema, df.schema)
assert sorted(read.collect()) == sorted(df.collect()), read.collect()
assert read.filter("l = timestamp'2024-05-01 08:30:00'").count() == 1
only = spark.read.format("paimon").option("columns", "s").option("filter", "k = 1").load(path)
assert [tuple(r) for r in only.collect()] == [("one",)]

path = f"{warehouse}/db.db/keyed"
options = {"primary-key": "id", "bucket": "2", "merge-engine": "partial-update"}
first = spark.createDataFrame([(1, "a", None), (2, "b", None)], "id long, x string, y string")
first.write.format("paimon").options(**options).mode("append").save(path)
second = spark.createDataFrame([(1, "A"), (3, "C")], "id long, y string")
second.write.format("paimon").mode("append").save(path)
rows = sorted(tuple(r) for r in spark.read.format("paimon").load(path).collect())
assert rows == [(1, "a", "A"), (2, "b", None), (3, None, "C")], rows

import paimon_spark  # noqa: E402 - only now, since all of the above works without it

paimon_spark.register(spark)
paimon_spark.register(spark)
table = paimon_spark.PaimonTable.for_path(spark, path)
table.create_tag("two-commits")
table.overwrite(spark.createDataFrame([(9, "z", "Z")], "id long, x string, y string"))
assert [tuple(r) for r in table.to_df().collect()] == [(9, "z", "Z")]
assert table.to_df(scan_tag_name="two-commits").count() == 3
assert [r.tag_name for r in table.tags().collect()] == ["two-commits"]
try:
    spark.read.format("paimon").option("scan.tag-nam", "x").load(path)
    message = ""
except PySparkException as error:
    message = str(error)
assert "Did you mean 'scan.tag-name'" in message, message

paimon_spark.register_catalog(spark, "paimon", warehouse=warehouse)  # compiles Java from what is in the package
spark.sql("CREATE TABLE paimon.db.made (id INT, v STRING)")
spark.sql("INSERT INTO paimon.db.made VALUES (1, 'a'), (2, 'b')")
assert [tuple(r) for r in spark.sql("SELECT v FROM paimon.db.made WHERE id = 2").collect()] == [("b",)]

from paimon_spark.spark.jvm import features  # noqa: E402
from paimon_spark.spark.jvm.gateway import Gateway  # noqa: E402

gateway = Gateway(spark)
missing = {name for feature in features.FEATURES for name in features.missing_of(gateway, feature)}
assert not missing, f"Spark {pyspark.__version__} lacks {sorted(missing)}"
spark.sql(f"UPDATE paimon.`{path}` SET y = 'W' WHERE id = 9")
spark.sql(f"ALTER TABLE paimon.`{path}` CREATE TAG changed")
assert spark.sql(f"SELECT y FROM paimon.`{path}` VERSION AS OF 'changed'").first() == ("W",)
spark.stop()
print("smoke test passed")
