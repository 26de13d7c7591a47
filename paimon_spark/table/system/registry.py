"""The system tables of a table by name, and those of a whole catalog, in its database ``sys``.

The latter are tables, partitions and options of all tables. They equal Java's ``AllTablesTable``,
``AllPartitionsTable``, ``AllTableOptionsTable`` and ``CatalogOptionsTable`` over a ``FileSystemCatalog``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import TableNotFoundError, UnsupportedError
from paimon_spark.options import is_secret
from paimon_spark.spec.data_types import BooleanType, DataField, DataType
from paimon_spark.spec.java_text import epoch_millis, partition_value_text
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE
from paimon_spark.table.system import files, groups, history
from paimon_spark.table.system.definition import LONG, STRING, Found, SystemTable, columns, required, table_of
from paimon_spark.table.system.files import LiveFiles
from paimon_spark.table.system.groups import partition_sums

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

SYSTEM_TABLES = {
    each.name: each
    for module in (history, files, groups)
    for each in vars(module).values()
    if isinstance(each, SystemTable)
}
"""Every system table that can be read."""

_WITH_ROWS = ("audit_log", "binlog", "ro", "row_tracking")
"""System tables that show rows of the table, which are read by tasks (`read/row_views.py`)."""


def system_table(name: str, *, of: str) -> SystemTable:
    """The system table of that name, one made from metadata alone.

    Args:
        name: as behind the ``$``; case does not count.
        of: the whole name or path, for messages.

    Raises:
        TableNotFoundError: there is no such system table.
    """
    found = SYSTEM_TABLES.get(name.lower())
    if found is None:
        known = ", ".join(f"${known}" for known in (*SYSTEM_TABLES, *_WITH_ROWS))
        raise TableNotFoundError(f"There is no system table ${name} ('{of}'); there are {known}.")
    return found


_HIDDEN = "******"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class GlobalTable:
    """One kind of system table of a catalog."""

    name: str
    fields: tuple[DataField, ...]
    found: Callable[[FilesystemCatalog], Found]

    def read(self, catalog: FilesystemCatalog) -> pa.Table:
        """Its rows."""
        return table_of(self.fields, self.found(catalog))


def _global_table(name: str, /, **types: DataType) -> Callable[[Callable[[FilesystemCatalog], Found]], GlobalTable]:
    return lambda found: GlobalTable(name, columns(**types), found)


def _every_table(catalog: FilesystemCatalog) -> Iterator[tuple[str, str, FileStoreTable]]:
    """Yield database, name and table of all tables; those that vanish meanwhile, or cannot be opened, are left out."""
    for database in catalog.databases():
        if database == SYSTEM_DATABASE:
            continue
        for name in catalog.tables(database):
            try:
                yield database, name, catalog.load_table(database, name)
            except TableNotFoundError:
                continue
            except UnsupportedError as error:  # a governed one, say, of which the server hides rows
                _LOG.warning("%s.%s is left out of the catalog's system tables: %s", database, name, error)


@_global_table(
    "tables",
    database_name=STRING,
    table_name=STRING,
    table_type=STRING,
    partitioned=BooleanType(),
    primary_key=BooleanType(),
    owner=STRING,
    created_at=LONG,
    created_by=STRING,
    updated_at=LONG,
    updated_by=STRING,
    record_count=LONG,
    file_size_in_bytes=LONG,
    file_count=LONG,
    last_file_creation_time=LONG,
)
def _tables(catalog: FilesystemCatalog) -> Found:
    """One row for each table. A filesystem keeps no sums, so the last four columns are null, as in Java."""
    return [_table_row(database, name, table) for database, name, table in _every_table(catalog)]


def _table_row(database: str, name: str, table: FileStoreTable) -> tuple[Any, ...]:
    options = table.schema.options
    return (
        database,
        name,
        options.get("type", "table"),
        bool(table.schema.partition_keys),
        table.schema.kind.is_keyed,
        options.get("owner"),
        _number(options, "createdAt"),
        options.get("createdBy"),
        _number(options, "updatedAt"),
        options.get("updatedBy"),
        *[None] * 4,
    )


def _number(options: Mapping[str, str], key: str) -> int | None:
    value = options.get(key, "")
    return int(value) if value.isdecimal() else None


@_global_table(
    "partitions",
    database_name=STRING,
    table_name=STRING,
    partition_name=STRING,
    record_count=LONG,
    file_size_in_bytes=LONG,
    file_count=LONG,
    last_file_creation_time=LONG,
    done=BooleanType(),
)
def _partitions(catalog: FilesystemCatalog) -> Found:
    """One row for each partition of each partitioned table."""
    return [
        (database, name, *row)
        for database, name, table in _every_table(catalog)
        if table.schema.partition_keys
        for row in _partition_rows(table)
    ]


def _partition_rows(table: FileStoreTable) -> Iterator[tuple[Any, ...]]:
    for live, row in ((live, row) for live, sums in partition_sums(table) for row in sums.to_pylist()):
        yield (
            _directory_name(live, row["partition"]),
            row["record_count"],
            row["file_size_in_bytes"],
            row["file_count"],
            None if row["last_update_time"] is None else epoch_millis(row["last_update_time"]),
            False,
        )


def _directory_name(live: LiveFiles, number: int) -> str:
    """The partition's name as its directory has it, with nothing escaped."""
    layout = live.table.paths.layout
    assert layout is not None
    texts = (
        partition_value_text(
            value, data_type, legacy=layout.legacy_partition_name, default_name=layout.default_partition_name
        )
        for value, data_type in zip(
            layout.partition_values(live.partitions[number]), layout.partition_types, strict=True
        )
    )
    return "/".join(f"{key}={text}" for key, text in zip(layout.partition_keys, texts, strict=True))


@_global_table(
    "all_table_options",
    database_name=STRING,
    table_name=STRING,
    key=STRING,
    value=STRING,
)
def _table_options(catalog: FilesystemCatalog) -> Found:
    """One row for each option of each table, its path among them."""
    return [
        (database, name, key, value)
        for database, name, table in _every_table(catalog)
        for key, value in {**table.schema.options, "path": table.path}.items()
    ]


@_global_table(
    "catalog_options",
    key=required(STRING),
    value=required(STRING),
)
def _catalog_options(catalog: FilesystemCatalog) -> Found:
    """The options that the catalog was registered with; of credentials only the keys."""
    options = {"warehouse": catalog.warehouse, **catalog.options}
    return [(key, _HIDDEN if is_secret(key) else value) for key, value in options.items()]


GLOBAL_TABLES = {each.name: each for each in (_tables, _partitions, _table_options, _catalog_options)}
"""The tables of the database ``sys`` by name."""


def global_table(name: str) -> GlobalTable:
    """The table of that name in the database ``sys``; case does not count.

    Raises:
        TableNotFoundError: there is none.
    """
    found = GLOBAL_TABLES.get(name.lower())
    if found is None:
        known = ", ".join(f"{SYSTEM_DATABASE}.{name}" for name in GLOBAL_TABLES)
        raise TableNotFoundError(f"There is no table {SYSTEM_DATABASE}.{name}; there are {known}.")
    return found
