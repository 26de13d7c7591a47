"""Puts the catalog into a session."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError
from paimon_spark.spark.jvm.catalog import CatalogProxy
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.jvm.parser import install_parser
from paimon_spark.table.filesystem_catalog import FilesystemCatalog


def install_catalog(
    spark: SparkSession, name: str, warehouse: str, options: Mapping[str, str], *, parser: bool = True
) -> CatalogProxy:
    """Make `name` a catalog of this session over a warehouse directory; with `parser`, it knows Paimon's statements."""
    gateway = Gateway(spark)
    proxy = CatalogProxy(gateway, name, FilesystemCatalog(warehouse, dict(options)))
    manager = spark._jsparkSession.sessionState().catalogManager()  # type: ignore[attr-defined]
    for candidate in ("catalogs", "org$apache$spark$sql$connector$catalog$CatalogManager$$catalogs"):
        try:
            held = gateway.field(manager, candidate).get(manager)
        except PaimonError:
            continue
        break
    held.put(name, proxy)
    if parser:
        install_parser(spark, gateway)
    return proxy
