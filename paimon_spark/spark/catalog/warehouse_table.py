"""Answers Spark's ``Table`` for the system tables of a catalog: ``SELECT * FROM paimon.sys.all_table_options``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.spark.catalog.system_table import SystemScanBuilderProxy, SystemTableProxy
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.system.global_tables import GlobalTable


class GlobalTableProxy(SystemTableProxy):
    """One table of the database ``sys``. It cannot be written, and no option of a read changes it."""

    def __init__(self, gateway: Gateway, catalog_name: str, catalog: FilesystemCatalog, table: GlobalTable) -> None:
        super(SystemTableProxy, self).__init__(gateway)
        self.table_name = f"{catalog_name}.{SYSTEM_DATABASE}.{table.name}"
        self.struct = to_spark_struct(table.fields)
        self.catalog = catalog
        self.global_table = table

    def _capabilities(self) -> Sequence[str]:
        return ("BATCH_READ",)

    def scan_builder(self, options: Mapping[str, str]) -> AnswerProxy:
        """A builder for one scan."""
        table, catalog = self.global_table, self.catalog
        return SystemScanBuilderProxy(self.gateway, self.table_name, self.struct, lambda: table.read(catalog))

    def toString(self) -> str:
        """The text that `equals` compares: the warehouse and the table."""
        return f"{self.catalog.warehouse}${self.table_name}"
