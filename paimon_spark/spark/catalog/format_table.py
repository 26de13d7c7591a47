"""Answers Spark's ``Table`` for a table of plain files, which Spark's own sources read and write.

A scan is one of Spark's (``CSVScanBuilder``, ``ParquetScanBuilder``, …): it prunes columns and partitions and pushes
filters as for every file of Spark's. A write is a ``V1Write``, which is given the rows as a DataFrame
(`sql.format_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.named_table import NamedTableProxy
from paimon_spark.spark.catalog.partition_management import (
    PARTITION_INTERFACES,
    OneByOneProxy,
    catalyst_array,
    partition_values,
)
from paimon_spark.spark.catalog.pushed_expressions import to_predicate, tree_of
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.jvm.spark_errors import thrown
from paimon_spark.spark.jvm.store_settings import has_file_system
from paimon_spark.spark.session.overwrite_mode import asks_for_dynamic, is_dynamic_overwrite
from paimon_spark.spark.session.pyspark_members import java_state
from paimon_spark.spark.sql import format_tables as files
from paimon_spark.spark.sql.table_descriptions import declared_struct, table_properties
from paimon_spark.spec.predicate import all_of, fields
from paimon_spark.storage.store_options import scheme_of
from paimon_spark.table.format_table import HIVE_DEFAULT_NAME, FormatPartition, FormatTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from paimon_spark.spark.catalog.loading import LoadedTable

_CATALOG: Final = "org.apache.spark.sql.connector.catalog"
_WRITE: Final = "org.apache.spark.sql.connector.write"
_CAPABILITIES: Final = ("BATCH_READ", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
_CLASSES: Final = {"csv": "CSV", "json": "Json", "orc": "Orc", "parquet": "Parquet", "text": "Text"}


def format_table_proxy(gateway: Gateway, catalog_name: str, loaded: LoadedTable) -> FormatTableProxy:
    """The table of plain files that was opened.

    Raises:
        UnsupportedError: it is of a format that Spark does not read.
    """
    return FormatTableProxy(gateway, catalog_name, loaded.name, FormatTable.of(loaded.table))


def staged_format_table(
    gateway: Gateway, catalog_name: str, loaded: LoadedTable, on_abort: Callable[[], object]
) -> StagedFormatTableProxy:
    """The same for a statement that fills it."""
    return StagedFormatTableProxy(gateway, catalog_name, loaded.name, FormatTable.of(loaded.table), on_abort)


class FormatTableProxy(NamedTableProxy, OneByOneProxy):
    """A table of plain files, as one statement sees it."""

    interfaces: ClassVar[tuple[str, ...]] = (
        f"{_CATALOG}.Table",
        f"{_CATALOG}.SupportsRead",
        f"{_CATALOG}.SupportsWrite",
        *PARTITION_INTERFACES,
    )

    def __init__(self, gateway: Gateway, catalog_name: str, name: str, table: FormatTable) -> None:
        super().__init__(gateway)
        self.table = table
        self.table_name = f"{catalog_name}.{name}"
        self.struct: StructType = declared_struct(to_spark_struct(table.schema.fields), table.schema.fields)

    def answers(self) -> dict[str, Value]:
        """What the table is; a rule of ours knows by `isFiles` that it is one of plain files."""
        return {**super().answers(), "isFiles": True}

    def _partition_keys(self) -> Sequence[str]:
        return self.table.schema.partition_keys

    def _properties(self) -> dict[str, str]:
        schema, path = self.table.schema, self.table.path
        comment = {"comment": schema.comment} if schema.comment is not None else {}
        own = table_properties(schema, schema.options, path)
        return {**own, "provider": self.table.format, "location": path, "is_managed_location": "true", **comment}

    def _capabilities(self) -> Sequence[str]:
        return _CAPABILITIES

    def _asked_scan_builder(self, question: Question) -> Reply:
        table, struct = self.table, files.plain_struct(self.table)
        if files.is_on_store(table):
            state = java_state(active_session(self.gateway))
            if not has_file_system(self.gateway, state, scheme_of(files.spark_path(table.path))):
                raise files.store_missing(table)
        keys = [field.name for field in table.partition_fields]
        data = StructType([field for field in struct.fields if field.name not in keys])
        partitions = StructType([struct[key] for key in keys])
        options = {**files.source_options(table), **question.arguments[0]}
        return Reply(
            [
                "file scan",
                {
                    "path": files.spark_path(table.path),
                    "listed": [files.spark_path(path) for path in _listed(table)],
                    "options": options,
                    "schema": StructType([*data.fields, *partitions.fields]).json(),
                    "data": data.json(),
                    "keys": partitions.json() if keys else None,
                    "valuesOnly": table.values_only,
                    "nullNames": [table.default_name, HIVE_DEFAULT_NAME],
                    "package": table.format,
                    "format": _CLASSES[table.format],
                },
            ]
        )

    def scan_builder(self, options: Mapping[str, str]) -> AnswerProxy:
        """Never called: Spark's own builder is the answer."""
        raise NotImplementedError

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write."""
        return FormatWriteProxy(self.gateway, self.table, info)

    def toString(self) -> str:
        """The text that `equals` compares."""
        return f"{self.table.path}@files"

    def partitionSchema(self) -> JavaObject:
        """The partition columns."""
        return java_struct(self.gateway, to_spark_struct(self.table.partition_fields))

    def listPartitionIdentifiers(self, names: Any, ident: JavaObject) -> JavaObject:
        """SHOW PARTITIONS: those whose columns `names` have the values of `ident`."""
        wanted = partition_values(ident, [self.table.schema.field(name) for name in names])
        shown = {each.values: self._named(each) for each in self.table.partitions()}  # several directories may have one
        rows = [values for values in shown.values() if wanted.items() <= values.items()]
        return catalyst_array(self.gateway, self.table.partition_fields, rows)

    def _named(self, partition: FormatPartition) -> dict[str, Any]:
        names = [field.name for field in self.table.partition_fields]
        return dict(zip(names, partition.values, strict=True))

    def _found(self, *idents: JavaObject) -> list[list[FormatPartition]]:
        """For each ident the partitions that begin with its values."""
        there = self.table.partitions()
        all_wanted = [partition_values(each, self.table.partition_fields[: each.numFields()]) for each in idents]
        return [[each for each in there if wanted.items() <= self._named(each).items()] for wanted in all_wanted]

    def partitionExists(self, ident: JavaObject) -> bool:
        """Whether a partition has a directory, or is known to the catalog that keeps them."""
        return any(self._found(ident))

    def loadPartitionMetadata(self, ident: JavaObject) -> JavaObject:
        """SHOW TABLE EXTENDED … PARTITION: how many files there are."""
        count = sum(len(self.table.files(each.path)) for each in self._found(ident)[0])
        return self.gateway.string_map({"numFiles": str(count)})

    def createPartitions(self, idents: Any, properties: Any) -> None:
        """ADD PARTITION of those that Spark has not found: where a catalog keeps them."""
        table = files.of_catalog(self.table, "ADD PARTITION")
        if any(map(dict, properties)):
            raise files.refuse_location()
        table.add_partitions([partition_values(each, table.partition_fields) for each in idents], tolerant=True)

    def dropPartitions(self, idents: Any) -> bool:
        """DROP PARTITION: where a catalog keeps them; their files go."""
        table = files.of_catalog(self.table, "DROP PARTITION")
        found = self._found(*idents)
        table.drop_partitions(list({each.path: each for some in found for each in some}.values()))
        return all(found)

    def renamePartition(self, _old: JavaObject, _new: JavaObject) -> bool:
        """RENAME PARTITION: refused, as by the official connector."""
        raise UnsupportedError("partitions of a format table cannot be renamed: INSERT the rows with the new values")

    def replacePartitionMetadata(self, _ident: JavaObject, _properties: Any) -> None:
        """Properties of partitions: there are none."""
        raise UnsupportedError("partitions of a format table have no properties")

    def truncatePartitions(self, idents: Any) -> bool:
        """TRUNCATE TABLE … PARTITION: the files go, the directories stay."""
        wanted = list(idents)
        found = self._found(*wanted)
        for ident, there in zip(wanted, found, strict=True):
            if not there and ident.numFields() == len(self.table.partition_fields):
                name = self.gateway.identifier([], self.table_name).name()
                raise thrown(compat.NO_SUCH_PARTITION(self.gateway, name, ident, self.partitionSchema()))
        self.table.truncate([each for some in found for each in some])
        return True

    def truncateTable(self, *_options: Any) -> bool:
        """TRUNCATE TABLE: the files go, the directories stay."""
        self.table.truncate()
        return True


def _listed(table: FormatTable) -> list[str]:
    """The directories in which Spark looks for files; it passes over those that are not there.

    It sees no partition ``__DEFAULT_PARTITION__`` by itself.
    """
    if table.partition_fields and (table.values_only or table.server is not None):
        return [each.path for each in table.partitions()]
    return [table.path]


class StagedFormatTableProxy(FormatTableProxy):
    """A table of plain files that the rest of a statement fills."""

    interfaces: ClassVar[tuple[str, ...]] = (*FormatTableProxy.interfaces, f"{_CATALOG}.StagedTable")

    def __init__(
        self, gateway: Gateway, catalog_name: str, name: str, table: FormatTable, on_abort: Callable[[], object]
    ) -> None:
        super().__init__(gateway, catalog_name, name, table)
        self.on_abort = on_abort

    def commitStagedChanges(self) -> None:
        """The statement succeeded: everything is in place already."""

    def abortStagedChanges(self) -> None:
        """The statement failed: the table that it made is removed."""
        self.on_abort()


class FormatWriteProxy(AnswerProxy):
    """Collects what one write replaces; answers ``WriteBuilder``, and what builds it."""

    interfaces = (f"{_WRITE}.WriteBuilder", f"{_WRITE}.SupportsOverwriteV2")

    def __init__(self, gateway: Gateway, table: FormatTable, info: JavaObject) -> None:
        super().__init__(gateway)
        self.table = table
        self.given = gateway.string_dict(info.options().asCaseSensitiveMap())
        self.replaced: files.Replaced | None = None

    def truncate(self) -> Any:
        """Replace the whole table, or the partitions that appear in the rows where an option or the session says so."""
        settings = self.gateway.string_dict(compat.SQL_CONF.of(self.gateway).get().settings())
        dynamic = is_dynamic_overwrite(asks_for_dynamic(self.given), settings)
        self.replaced = (files.written_partitions if dynamic else files.everything)(self.table)
        return self

    def overwrite(self, predicates: Any) -> Any:
        """Replace the partitions for which all predicates are true.

        Raises:
            UnsupportedError: a predicate is about other columns, or cannot be evaluated.
        """
        keys = {field.name for field in self.table.partition_fields}
        parts = []
        for predicate in predicates:
            part = to_predicate(tree_of(self.gateway, predicate), self.table.schema.fields)
            if part is None or not fields(part) <= keys:
                raise UnsupportedError(
                    f"An overwrite where {predicate.toString()} is not supported for a format table: compare its "
                    "partition columns with literals."
                )
            parts.append(part)
        self.replaced = files.where(self.table, all_of(parts))
        return self

    def build(self) -> Any:
        """The write."""
        return V1WriteProxy(self.gateway, self.table, self.replaced)


class V1WriteProxy(AnswerProxy):
    """A write that is given its rows as a DataFrame; answers ``V1Write`` and ``InsertableRelation``."""

    interfaces = (f"{_WRITE}.V1Write", "org.apache.spark.sql.sources.InsertableRelation")

    def __init__(self, gateway: Gateway, table: FormatTable, replaced: files.Replaced | None) -> None:
        super().__init__(gateway)
        self.table = table
        self.replaced = replaced

    def toInsertableRelation(self) -> Any:
        """What is given the rows."""
        return self

    def insert(self, rows: JavaObject, _overwrite: bool) -> None:
        """Write the rows, on the driver."""
        files.write_rows(self.table, DataFrame(rows, active_session(self.gateway)), self.replaced)

    def answers(self) -> dict[str, Value]:
        """For EXPLAIN."""
        return {"description": f"{self.table.format} {self.table.path}"}

    def toString(self) -> str:
        """For EXPLAIN; no two writes are equal."""
        return f"PaimonFormatWrite({self.table.path})@{id(self):x}"
