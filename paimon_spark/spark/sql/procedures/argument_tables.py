"""The tables and databases that arguments of a CALL name, for both fronts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.statement_tokens import split_name
from paimon_spark.spark.sql.warehouses import (
    Warehouses,
    resolve_text,
    schema_not_found,
    system_table_in,
    unknown_warehouse,
)
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable


def argument_table(known: Warehouses, text: str, catalog: str) -> FileStoreTable:
    """Open the table that an argument names, by its name or its path.

    Args:
        known: the catalogs, and where a name of one part is looked for.
        text: the argument.
        catalog: the one of the procedure.

    Raises:
        AnalysisException: there can be no such table.
        TableNotFoundError: there is no such table.
        UnsupportedError: it is a system table.
    """
    name = resolve_text(known, text, catalog)
    refuse_system_table(text, system_table_in(name), "given to a procedure")
    return load_table(name.path, options=name.options)


def argument_tables(known: Warehouses, text: str, catalog: str) -> list[FileStoreTable]:
    """Open all tables of the database that an argument names.

    Args:
        known: the catalogs.
        text: the argument: ``db``, or ``catalog.db``.
        catalog: the one of the procedure.

    Raises:
        AnalysisException: there is no such database.
    """
    parts = split_name(text)
    name = parts[0] if len(parts) > 1 and parts[0] in known.catalogs else catalog
    found, database = argument_warehouse(known, name), parts[-1]
    if not found.database_exists(database):
        raise schema_not_found((name, database))
    return [found.load_table(database, table) for table in found.tables(database)]


def argument_warehouse(known: Warehouses, catalog: str) -> FilesystemCatalog:
    """Return the catalog of a procedure.

    Raises:
        PaimonError: its warehouse is not known.
    """
    found = known.catalogs.get(catalog)
    if found is None:
        raise unknown_warehouse(catalog)
    return found
