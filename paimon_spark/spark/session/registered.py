"""Catalogs of ours that were registered in a session, for what finds tables by path and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from paimon_spark.table.filesystem_catalog import FilesystemCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_registered: WeakKeyDictionary[Any, dict[str, FilesystemCatalog]] = WeakKeyDictionary()


def remember_catalog(spark: SparkSession, name: str, catalog: FilesystemCatalog) -> None:
    """Keep a catalog by its name."""
    _registered.setdefault(spark, {})[name] = catalog


def source_options_of(spark: SparkSession, name: str, database: str, table: str) -> Mapping[str, str] | None:
    """The options by which the data source opens a table of a catalog, with its path; None for another catalog."""
    catalog = _registered.get(spark, {}).get(name)
    return None if catalog is None else {**catalog.options, "path": catalog.table_path(database, table)}
