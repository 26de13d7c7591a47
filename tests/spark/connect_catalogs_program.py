"""A Connect client of catalogs: the statements of a day in each. Arguments: the server, options of catalogs as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import paimon_spark
from tests.support.day_of_statements import run_day

if __name__ == "__main__":
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for kind, options in json.loads(sys.argv[2]).items():
        paimon_spark.register_catalog(spark, "far", **options)
        run_day(spark.sql, renames=options["metastore"] != "rest")
        print(kind)
