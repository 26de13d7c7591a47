"""A user's program, whose catalog is in ``spark-defaults.conf``. Arguments: its name, and ``connect`` for a client."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable

if __name__ == "__main__":
    name = sys.argv[1]
    builder = SparkSession.builder
    spark = (builder.remote("local[1]") if "connect" in sys.argv else builder).getOrCreate()
    paimon_spark.register(spark)
    spark.sql(f"CREATE DATABASE {name}.sales")
    spark.sql(f"CREATE TABLE {name}.sales.orders (id INT NOT NULL, city STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"INSERT INTO {name}.sales.orders VALUES (1, 'Berlin'), (2, 'Rome')")
    spark.sql(f"UPDATE {name}.sales.orders SET city = 'Bonn' WHERE id = 1")
    found = [tuple(row) for row in spark.table(f"{name}.sales.orders").orderBy("id").collect()]
    assert found == [(1, "Bonn"), (2, "Rome")], found
    assert PaimonTable.for_name(spark, f"{name}.sales.orders").to_df().count() == 2
    spark.sql(f"DROP DATABASE {name}.sales CASCADE")
    print("all done")
