"""Puts the catalog into a session, and into the sessions that are made of it.

Answers ``scala.Function2``: Spark clones the session of a streaming query, without the catalogs that were put into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError
from paimon_spark.spark.catalog.catalog import CatalogProxy
from paimon_spark.spark.hooks.functions import install_functions
from paimon_spark.spark.hooks.insert_columns import install_insert_columns
from paimon_spark.spark.hooks.local_rows import install_local_rows
from paimon_spark.spark.hooks.parser import install_parser
from paimon_spark.spark.hooks.placed_writes import install_placed_writes
from paimon_spark.spark.hooks.row_level import install_row_level
from paimon_spark.spark.hooks.widened_writes import install_widened_writes
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.table.filesystem_catalog import FilesystemCatalog

_CATALOG_FIELDS = ("catalogs", "org$apache$spark$sql$connector$catalog$CatalogManager$$catalogs")


def install_catalog(
    spark: SparkSession, name: str, warehouse: str, options: Mapping[str, str], *, parser: bool = True
) -> CatalogProxy:
    """Make `name` a catalog of this session over a warehouse directory; with `parser`, it knows Paimon's statements.

    Clones of the session, which ``foreachBatch`` is given, have the catalog too.
    """
    gateway = Gateway(spark)
    proxy = CatalogProxy(gateway, name, FilesystemCatalog(warehouse, dict(options)))
    state = spark._jsparkSession.sessionState()

    def install(session_state: JavaObject) -> None:
        _put(gateway, session_state, name, proxy)
        install_functions(gateway, session_state)
        install_local_rows(gateway, session_state)
        install_placed_writes(gateway, session_state)
        install_insert_columns(gateway, session_state)
        install_widened_writes(gateway, session_state)
        install_row_level(gateway, session_state)
        if parser:
            install_parser(gateway, session_state)

    install(state)
    _follow_clones(gateway, state, install)
    return proxy


def _put(gateway: Gateway, state: JavaObject, name: str, proxy: CatalogProxy) -> None:
    manager = state.catalogManager()
    for candidate in _CATALOG_FIELDS:
        try:
            held = gateway.field(manager, candidate).get(manager)
        except PaimonError:
            continue
        held.put(name, proxy)
        return
    raise PaimonError("This Spark version does not let Python add a catalog to a session")


def _follow_clones(gateway: Gateway, state: JavaObject, install: Callable[[JavaObject], None]) -> None:
    field = gateway.field(state, "createClone")
    field.set(state, CloningProxy(gateway, field.get(state), install))


class CloningProxy(Proxy):
    """Makes the state of a cloned session as Spark does and puts a catalog into it; clones of clones have it too."""

    interfaces = ("scala.Function2",)

    def __init__(self, gateway: Gateway, original: JavaObject, install: Callable[[JavaObject], None]) -> None:
        super().__init__(gateway)
        self.original = original
        self.install = install
        self._installing: set[int] = set()

    def apply(self, session: JavaObject, state: JavaObject) -> JavaObject:
        """Called on the driver when a streaming query starts, or a DataFrame is cached."""
        clone = self.original.apply(session, state)
        thread = threading.get_ident()
        if thread in self._installing:  # Spark 4.1 asks a session that is being cloned for its state: clones again
            return clone
        self._installing.add(thread)
        try:
            self.install(clone)
        finally:
            self._installing.discard(thread)
        _follow_clones(self.gateway, clone, self.install)
        return clone

    def curried(self) -> JavaObject:
        """Of the function that Spark made."""
        return self.original.curried()

    def tupled(self) -> JavaObject:
        """Of the function that Spark made."""
        return self.original.tupled()
