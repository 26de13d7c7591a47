"""Installs a catalog and the hooks of its statements in a session; `register` does not import them.

The format needs less (see `install`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from paimon_spark.metastore.opening import kind_of
from paimon_spark.spark.catalog.catalog import CatalogProxy
from paimon_spark.spark.catalog.native_scan import load_store_client
from paimon_spark.spark.hooks import java_rules
from paimon_spark.spark.hooks.install import PLAN_HOOKS, Contents, Hook, is_whole, put_into
from paimon_spark.spark.hooks.parser import install_parser
from paimon_spark.spark.hooks.row_level import install_row_level
from paimon_spark.spark.hooks.table_functions import install_functions
from paimon_spark.spark.hooks.write_columns import (
    install_insert_columns,
    install_widened_merges,
    install_widened_writes,
)
from paimon_spark.spark.jvm import features
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.session.session_settings import remember_catalog
from paimon_spark.spark.sql.table_definitions import keeps_format_tables
from paimon_spark.storage.store_options import scheme_of
from paimon_spark.table.catalog_views import keeps_functions, keeps_views
from paimon_spark.table.metastore_catalog import open_catalog

HOOKS: tuple[Hook, ...] = (
    (features.TABLE_FUNCTIONS, install_functions),
    (features.ROW_FUNCTIONS, java_rules.install_row_functions),
    *PLAN_HOOKS,
    (features.LEFT_OUT_COLUMNS, install_insert_columns),
    (features.STREAMED_TABLES, java_rules.install_streamed_tables),
    (features.WIDENED_WRITES, install_widened_writes),
    (features.WIDENED_MERGES, install_widened_merges),
    (features.ROW_LEVEL, install_row_level),
)
"""What is put into each session state alongside the catalog, and the feature that is lost without it."""


def install_catalog(
    spark: SparkSession, name: str, warehouse: str, options: Mapping[str, str], *, parser: bool = True
) -> CatalogProxy:
    """Make `name` a catalog of this session over a warehouse directory; with `parser`, it knows Paimon's statements.

    Clones of the session, which ``foreachBatch`` is given, have the catalog too. Where this Spark lacks a private
    member, the session goes without the feature that needs it, and the log says so.

    Raises:
        UnsupportedError: this Spark does not let a catalog be added.
    """
    gateway = gateway_of(spark)
    features.check_whole(gateway, features.CATALOG)
    catalog = open_catalog(warehouse, options)
    catalog.make_default_database()
    proxy = CatalogProxy(gateway, name, catalog)
    hooks = (*HOOKS, (features.PARSER, install_parser)) if parser else HOOKS
    hooks = (*hooks, (features.VIEWS, java_rules.install_view_columns)) if keeps_views(catalog) else hooks
    if keeps_functions(catalog):
        hooks = (*hooks, (features.SQL_FUNCTIONS, java_rules.install_sql_functions))
    if keeps_format_tables(catalog):
        hooks = (*hooks, (features.FORMAT_TABLES, java_rules.install_format_overwrites))
    for feature in (
        features.NATIVE_READS,
        features.DATABASES,
        features.FRAMES,
        features.SMALL_READS,
        features.WRITES,
        features.VIEWS,
        features.SQL_FUNCTIONS,
        features.FORMAT_TABLES,
    ):
        is_whole(gateway, feature)

    put_into(gateway, java_state(spark), Contents(hooks, {name: java_proxy(proxy)}))
    remember_catalog(spark, name, catalog)
    if kind_of(options) != "rest" and scheme_of(catalog.warehouse) not in ("", "file"):
        load_store_client(gateway, catalog)
    return proxy
