"""A Connect client of catalogs: the statements of a day in each. Arguments: the server, options of catalogs as JSON."""

from __future__ import annotations

import json
import sys

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import UnsupportedError
from tests.support.day_of_statements import run_day


def check_format_tables(spark: SparkSession) -> None:
    """The server's Hadoop has no file system of S3, which writes and reads of plain files say."""
    spark.sql("CREATE DATABASE far.files")
    spark.sql("CREATE TABLE far.files.t (id INT) USING csv")
    with pytest.raises(UnsupportedError, match="add hadoop-aws to the session"):
        spark.sql("INSERT INTO far.files.t VALUES (1)")
    spark.sql("DROP TABLE far.files.t")
    spark.sql("DROP DATABASE far.files")


if __name__ == "__main__":
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for kind, options in json.loads(sys.argv[2]).items():
        paimon_spark.register_catalog(spark, "far", **options)
        run_day(spark.sql, renames=options["metastore"] != "rest")
        if kind in ("hive", "rest") and not options["warehouse"].startswith("/"):
            check_format_tables(spark)
        print(kind)
