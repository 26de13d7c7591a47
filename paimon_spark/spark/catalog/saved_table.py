"""Answers Spark's ``Table`` and ``WriteBuilder`` for ``df.write.format("paimon").save(path)``.

Columns are matched, cast and checked by our writer, as of the plain source; the table is made when the write is
planned, where there is none. The catalog's builder shuffles the rows, plans and commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from paimon_spark.spark.catalog.distributed_rows import write_distribution
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.row_write import RowWriteProxy, takes_rows
from paimon_spark.spark.catalog.write import WriteBuilderProxy, WriteProxy, session_parallelism
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import python_struct
from paimon_spark.spark.source.shuffle_columns import has_keys_of
from paimon_spark.spark.source.source_options import write_request
from paimon_spark.spark.source.write_target import target_table
from paimon_spark.storage.store_options import without_secrets

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_CATALOG = "org.apache.spark.sql.connector.catalog"


class SavedTableProxy(AnswerProxy):
    """The target of a save, which accepts all columns; Spark knows nothing else of it."""

    names_errors = True
    interfaces: ClassVar[tuple[str, ...]] = (f"{_CATALOG}.Table", f"{_CATALOG}.SupportsWrite")

    def __init__(
        self,
        gateway: Gateway,
        struct: str,
        options: Mapping[str, str],
        opened: FileStoreTable | None,
    ) -> None:
        """Hold what Spark asks for.

        Args:
            gateway: the JVM.
            struct: the ``StructType`` of the rows, as JSON.
            options: of the save, where the write has none.
            opened: the table; None where there is none yet.
        """
        super().__init__(gateway)
        self.opened = opened
        self.struct = struct
        self.options = options

    def answers(self) -> dict[str, Value]:
        """The columns of the rows; writes may have any, as our writer matches, casts and checks them."""
        capabilities = ["BATCH_WRITE", "TRUNCATE", "ACCEPT_ANY_SCHEMA"]
        return {
            "name": "paimon",
            "schema": ["struct", self.struct],
            "columns": ["columns", self.struct],
            "properties": ["map", {"provider": "paimon"}],
            "capabilities": ["constants", f"{_CATALOG}.TableCapability", capabilities],
        }

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write."""
        return SaveBuilderProxy(self.gateway, info, self.options, self.opened)


class SaveBuilderProxy(WriteBuilderProxy):
    """Plans one save by its options; makes the table where there is none."""

    names_errors = True

    def __init__(
        self, gateway: Gateway, info: JavaObject, options: Mapping[str, str], opened: FileStoreTable | None = None
    ) -> None:
        AnswerProxy.__init__(self, gateway)
        self.info = info
        self.existing = opened
        self.given = gateway.string_dict(info.options().asCaseSensitiveMap()) or dict(options)
        self.overwriting: dict[str, str] | None = None

    def truncate(self) -> Any:
        """Replace what the options, the session and the table say."""
        self.overwriting = {}
        return self

    def opened(self) -> FileStoreTable | None:
        """The table, which the options of the save have opened."""
        return self.loaded.table

    def build(self) -> Any:
        """The write, behind the shuffle that the table's keys need.

        Raises:
            PaimonError: as of every save.
        """
        struct = python_struct(self.info.schema())
        with without_secrets(self.given):
            request = write_request(self.given, overwrite=self.overwriting is not None, opened=self.existing)
            table = target_table(request, struct, self.existing)
        self.loaded = LoadedTable(table, table.path)
        if takes_rows(table.schema):
            return RowWriteProxy.of(self, self.given)
        distribution = write_distribution(table, session_parallelism(self.gateway))
        if not has_keys_of(table.schema, struct):
            distribution = distribution.of_other_keys(struct.names)
        return WriteProxy(self, self.given, distribution)
