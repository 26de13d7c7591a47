"""A session of which both fronts, `spark.sql` over a catalog and `paimon_spark.sql`, know one warehouse by one name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import paimon_spark

Run = Callable[[str], DataFrame]
FRONTS = ("catalog", "text")


def session_of(spark: SparkSession, catalog: str, warehouse: Path | str) -> SparkSession:
    """Return a new session that knows a warehouse, in which it makes the database ``db``, the current one by text."""
    found = spark.newSession()
    paimon_spark.register_catalog(found, catalog, warehouse=str(warehouse))
    found.sql(f"CREATE DATABASE {catalog}.db")
    paimon_spark.sql(found, "SELECT 1", warehouse=str(warehouse), catalog=catalog, database="db")
    return found


def run_by(session: SparkSession, front: str) -> Run:
    """Return what runs a statement by one of the `FRONTS`."""
    return session.sql if front == "catalog" else lambda text: paimon_spark.sql(session, text)
