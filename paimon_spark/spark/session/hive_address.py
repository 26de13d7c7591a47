"""Where the Hive metastore of a catalog is that names none: what the session has set for Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_spark.metastore.opening import kind_of
from paimon_spark.spark.session.session_settings import every_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.hadoop.hive.metastore.uris"
_NAMED_BY = ("uri", "hive-conf-dir", "hive.metastore.uris")


def with_hive_address(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog, a Hive catalog's with the address of its metastore where the session has one."""
    if kind_of(options) != "hive" or any(options.get(key) for key in _NAMED_BY):
        return dict(options)
    known = every_setting(spark).get(_SETTING)
    return {**options, "uri": known} if known else dict(options)
