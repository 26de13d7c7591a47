"""Answers Spark's ``StagedTable``: tables that CREATE … AS SELECT and CREATE OR REPLACE make.

As in the official connector the table is there (or emptied, with its new schema) before the query runs: its path and
its snapshots are kept, and a query that reads the table it replaces reads the snapshot before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from paimon_spark.options import Scope, find_option
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spec.snapshot import Operation

_CATALOG = "org.apache.spark.sql.connector.catalog"


class StagedTableProxy(TableProxy):
    """A table that the rest of a statement fills."""

    interfaces: ClassVar[tuple[str, ...]] = (*TableProxy.interfaces, f"{_CATALOG}.StagedTable")

    def __init__(
        self,
        gateway: Gateway,
        catalog_name: str,
        loaded: LoadedTable,
        *,
        operation: Operation,
        redefine: Callable[[Mapping[str, str]], LoadedTable] | None = None,
        on_abort: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(gateway, catalog_name, replace(loaded, operation=operation))
        self.redefine = redefine
        self.on_abort = on_abort

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for the rows of the statement; table options of the writer make the table another one first.

        Spark hands ``df.write.option("primary-key", "k").saveAsTable(…)`` the option with the rows only.
        """
        options = table_options(dict(info.options().asCaseSensitiveMap()))
        if self.redefine is not None and options:
            self.loaded = replace(self.redefine(options), operation=self.loaded.operation)
        return super().newWriteBuilder(info)

    def commitStagedChanges(self) -> None:
        """The statement succeeded: everything is in place already."""

    def abortStagedChanges(self) -> None:
        """The statement failed: a table that it made is removed, one that it replaced stays empty."""
        if self.on_abort is not None:
            self.on_abort()

    def reportDriverMetrics(self) -> JavaObject:
        """No metrics."""
        return self.gateway.array("org.apache.spark.sql.connector.metric.CustomTaskMetric", [])


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options of a DataFrameWriter that a table keeps."""
    found = {key: find_option(key) for key in options}
    return {key: options[key] for key, option in found.items() if option is not None and option.scope is Scope.TABLE}
