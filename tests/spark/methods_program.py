"""Checks on a server of Spark Connect what methods and statements answer: `… <sc://…> <directory>`."""

import sys

from pyspark.sql import SparkSession

import paimon_spark
from tests.support import method_checks

url, root = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
for kind in ("keyed", "plain"):
    method_checks.check_counts(spark, root, kind)
method_checks.check_text_statements(spark, f"{root}/wh")
paimon_spark.register_catalog(spark, "counted", warehouse=f"{root}/wh")
method_checks.check_statements(spark.sql, "counted.db.own")
method_checks.check_save_modes(spark, root)
method_checks.check_keys_by_catalog(spark, f"{root}/keys")
method_checks.check_definition(spark, f"{root}/named")
spark.stop()
print("done")
