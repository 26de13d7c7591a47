"""The session of a thread, in which Spark looks for Python data sources, and the catalogs registered in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from paimon_spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.table.filesystem_catalog import FilesystemCatalog


def activate(spark: SparkSession) -> None:
    """Let the thread that calls this find the format: in a new thread, Spark looks for Python sources in no session."""
    if getattr(spark, "_sc", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "unused int")  # makes the session the thread's active one, as any query would


def check_session(given: Any, call: str) -> None:
    """Refuse what is no session.

    Args:
        given: what stands where the session belongs.
        call: how the function is called, as in ``register(spark)``.

    Raises:
        OptionError: it is none, such as a path that was given first.
    """
    if not hasattr(given, "createDataFrame"):
        raise OptionError(f"{call} takes the session first, and {given!r} is none")


_registered: WeakKeyDictionary[Any, dict[str, FilesystemCatalog]] = WeakKeyDictionary()


def remember_catalog(spark: SparkSession, name: str, catalog: FilesystemCatalog) -> None:
    """Keep a catalog by its name."""
    _registered.setdefault(spark, {})[name] = catalog


def catalogs_of(spark: SparkSession) -> Mapping[str, FilesystemCatalog]:
    """The catalogs that Spark itself asks for their tables, by their names; a copy."""
    return dict(_registered.get(spark, {}))


def source_options_of(spark: SparkSession, name: str, database: str, table: str) -> Mapping[str, str] | None:
    """The options by which the data source opens a table of a catalog, with its path; None for another catalog."""
    catalog = _registered.get(spark, {}).get(name)
    return None if catalog is None else {**catalog.options, "path": catalog.table_path(database, table)}
