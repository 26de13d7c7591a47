"""Where the Iceberg metadata of a table is: in the table, or in the directory of an Iceberg catalog in the warehouse.

Equals Java's ``IcebergCommitCallback.catalogTableMetadataPath``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.iceberg.publishable import LOCATION, STORAGE, is_shared
from paimon_spark.storage.confinement import confined
from paimon_spark.table.paths import DATABASE_SUFFIX, MAIN_BRANCH

if TYPE_CHECKING:
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


def catalog_directory(root: str, options: CoreOptions) -> str | None:
    """The directory of a table in the Iceberg catalog of its warehouse; None where its metadata is in the table.

    Args:
        root: the table directory.
        options: of the table.

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
