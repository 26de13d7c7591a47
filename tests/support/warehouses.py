"""Warehouses that a session knows, and sessions of which both fronts, `spark.sql` and `paimon_spark.sql`, know one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark.hooks.install import clone_follower
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.register import preparations_of
from paimon_spark.spark.session.pyspark_members import java_state

Run = Callable[[str], DataFrame]
FRONTS = ("catalog", "text")


def session_of(spark: SparkSession, catalog: str, warehouse: Path | str) -> SparkSession:
    """Return a new session that knows a warehouse, in which it makes the database ``db``, the current one by text."""
    found = spark.newSession()
    paimon_spark.register_catalog(found, catalog, warehouse=str(warehouse))
    found.sql(f"CREATE DATABASE {catalog}.db")
    paimon_spark.sql(found, "SELECT 1", warehouse=str(warehouse), catalog=catalog, database="db")
    return found


def session_of_rest(spark: SparkSession, catalog: str, options: Mapping[str, str]) -> SparkSession:
    """Return a new session of which both fronts know a REST catalog, with the warehouse ``wh``."""
    found = spark.newSession()
    paimon_spark.register_catalog(found, catalog, warehouse="wh", **options)
    paimon_spark.sql(found, "SELECT 1", warehouse="wh", catalog=catalog, **options)
    return found


def run_in_database(session: SparkSession, front: str, database: str) -> Iterator[Run]:
    """Yield what runs a statement by one of the `FRONTS`; a database is there meanwhile, ``catalog.name``."""
    run = run_by(session, front)
    run(f"CREATE DATABASE {database}")
    yield run
    for row in run(f"SHOW TABLES IN {database}").collect():
        run(f"DROP TABLE {database}.{row.tableName}")
    run(f"DROP DATABASE {database}")


def run_by(session: SparkSession, front: str) -> Run:
    """Return what runs a statement by one of the `FRONTS`."""
    return session.sql if front == "catalog" else lambda text: paimon_spark.sql(session, text)


def in_use(
    spark: SparkSession, catalog: str, path: Path, *, database: str = "db", current: bool = True, by_text: bool = False
) -> Iterator[Path]:
    """Let the shared session use a new warehouse for the tests of a module: see the fixture `warehouse`.

    Args:
        spark: the session.
        catalog: the name of the warehouse in it.
        path: of the warehouse.
        database: is made in it.
        current: whether the database is the current one meanwhile.
        by_text: whether `paimon_spark.sql` knows the warehouse too, where the database is the current one.

    Yields:
        The path.
    """
    paimon_spark.register(spark)
    follower = clone_follower(gateway_of(spark), java_state(spark))
    assert follower is not None
    contents, preparations = follower.contents, dict(preparations_of(spark))
    paimon_spark.register_catalog(spark, catalog, warehouse=str(path))
    spark.sql(f"CREATE DATABASE {catalog}.{database}")
    if current:
        spark.sql(f"USE {catalog}.{database}")
    if by_text:
        paimon_spark.sql(spark, "SELECT 1", warehouse=str(path), catalog=catalog, database=database)
    yield path
    if current:
        spark.sql("USE spark_catalog.default")
    # each catalog that new sessions and streams are given takes them time
    follower.contents = contents
    preparations_of(spark).clear()
    preparations_of(spark).update(preparations)
