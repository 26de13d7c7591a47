"""Where the Iceberg metadata of a table is: in the table, or in the directory of an Iceberg catalog in the warehouse.

Equals Java's ``IcebergCommitCallback.catalogTableMetadataPath``.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spec.iceberg.metadata import (
    DELETES,
    LOCATION,
    STORAGE,
    VERSIONS_KEPT,
    is_iceberg_name,
    is_shared,
)
from paimon_spark.storage.confinement import confined
from paimon_spark.table.paths import DATABASE_SUFFIX, MAIN_BRANCH, TablePaths
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from paimon_spark.metastore.iceberg_hive import IcebergHive
    from paimon_spark.metastore.iceberg_rest import IcebergRest
    from paimon_spark.options import CoreOptions
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_DIRECTORY = "metadata"
_CATALOG = "iceberg"


def publishes(table: FileStoreTable) -> bool:
    """Whether commits to this branch of a table write Iceberg metadata.

    # Java: commits to any branch write it, over that of the main branch
    """
    return table.branch == MAIN_BRANCH and is_shared(table.options)


def check_location(table: FileStoreTable) -> None:
    """Refuse a table whose Iceberg metadata has no place, before anything is committed.

    Raises:
        UnsupportedError: its option asks for a catalog, and the table is not in the directory of a database.
        OptionError: no option says where Iceberg's Hive metastore or REST catalog is.
    """
    if publishes(table):
        catalog_directory(table.path, table.options)
        hive_entries(table)
        rest_entry(table)


def hive_entries(table: FileStoreTable) -> IcebergHive | None:
    """The entries of a table in Iceberg's Hive metastore; None where its option asks for none.

    Raises:
        OptionError: no option says where the metastore is.
        UnsupportedError: the metastore wants what this client cannot do.
    """
    if table.options.value(STORAGE) != "hive-catalog":
        return None
    from paimon_spark.metastore.iceberg_hive import IcebergHive  # few tables have one

    return IcebergHive.of(table.options.to_dict(), *_names(table))


def rest_entry(table: FileStoreTable) -> IcebergRest | None:
    """The table in Iceberg's REST catalog; None where its option asks for none.

    Raises:
        OptionError: no option says where the catalog is.
        UnsupportedError: an option of the catalog cannot be obeyed.
    """
    options = table.options
    if options.value(STORAGE) != "rest-catalog":
        return None
    kept = int(options.value(VERSIONS_KEPT)), bool(options.value(DELETES))
    from paimon_spark.metastore.iceberg_rest import IcebergRest  # few tables have one

    return IcebergRest.of(options.to_dict(), *_names(table), kept)


def _names(table: FileStoreTable) -> tuple[str, str]:
    """The database and the name of a table, by its directory."""
    database_path, _, name = table.path.rpartition("/")
    return database_path.rpartition("/")[2].removesuffix(DATABASE_SUFFIX), name


def catalog_directory(root: str, options: CoreOptions) -> str | None:
    """The directory of a table in the Iceberg catalog of its warehouse; None where its metadata is in the table.

    Raises:
        UnsupportedError: the table is not in the directory of a database.
    """
    stored = options.value(LOCATION) or ("table-location" if options.value(STORAGE) == "table-location" else "")
    if stored == "table-location":
        return None
    database_path, _, name = root.rpartition("/")
    warehouse, _, database = database_path.rpartition("/")
    if not database.endswith(DATABASE_SUFFIX) or not warehouse or database == DATABASE_SUFFIX:
        raise UnsupportedError(
            f"Option '{STORAGE}' = '{options.value(STORAGE)}' needs a table in the directory <database>.db of a "
            f"warehouse, which {root} is not in. Set '{LOCATION}' to 'table-location'."
        )
    return f"{warehouse}/{_CATALOG}/{database.removesuffix(DATABASE_SUFFIX)}/{name}"


def metadata_directory(root: str, options: CoreOptions) -> str:
    """The directory of the Iceberg metadata of a table; errors as of `catalog_directory`."""
    return f"{catalog_directory(root, options) or root}/{_DIRECTORY}"


def metadata_io(file_io: FileIO, root: str, options: CoreOptions) -> FileIO:
    """The store of a table, in which the Iceberg metadata can be written; errors as of `catalog_directory`."""
    elsewhere = catalog_directory(root, options)
    return file_io if elsewhere is None else confined(file_io, elsewhere)


def metadata_in_catalog(file_io: FileIO, root: str) -> str | None:
    """The directory of a table in the Iceberg catalog of its warehouse; None where it has none, or is damaged."""
    try:
        schema = SchemaStore(file_io, TablePaths(root)).latest()
        if schema is None or not is_shared(schema.core_options):
            return None
        return catalog_directory(root, schema.core_options)
    except (PaimonError, OSError):  # a damaged table can be dropped too
        return None


def delete_catalog_metadata(file_io: FileIO, elsewhere: str | None) -> None:
    """Delete the Iceberg metadata of a table that was dropped or renamed, and nothing else that may be there.

    # Java: leaves it, so that readers of Iceberg go on finding a table without files

    Args:
        file_io: the store.
        elsewhere: what `metadata_in_catalog` returned before.
    """
    if elsewhere is None:
        return
    directory, io = f"{elsewhere}/{_DIRECTORY}", confined(file_io, elsewhere)
    with contextlib.suppress(OSError, PaimonError):
        names = [entry.name for entry in io.list_names(directory) if is_iceberg_name(entry.name)]
        io.delete_files([f"{directory}/{name}" for name in names])
        io.delete_empty_directory(directory)
        io.delete_empty_directory(elsewhere)
