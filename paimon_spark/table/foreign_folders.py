"""Directories that are no Paimon tables but something else: errors name it, and no table is made in one."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import PaimonError, SchemaError
from paimon_spark.metastore.rest_table import SCHEME as REST_SCHEME
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import DATABASE_SUFFIX

_ENDINGS = {".parquet": "Parquet", ".orc": "ORC", ".avro": "Avro", ".csv": "CSV", ".json": "JSON"}


def foreign_content(file_io: FileIO, root: str) -> str | None:
    """Return what is in a directory in place of a Paimon table, with what to do; None where it is nothing known."""
    try:
        entries = file_io.list_names(root)
    except (PaimonError, OSError):
        return None
    names = {entry.name for entry in entries}
    below = sorted(entry.name for entry in entries if entry.is_dir and not entry.name.startswith("."))
    databases = [name for name in below if name.endswith(DATABASE_SUFFIX)]
    if root.endswith(DATABASE_SUFFIX) and below:
        return f"the directory of a database, so name a table in it, as in {root}/{below[0]}"
    if databases:
        return f"a warehouse, so name a table in one of its databases, as in {root}/{databases[-1]}/orders"
    if "_delta_log" in names:
        return _copied("a Delta Lake table", "delta", root)
    if "metadata" in names and "schema" not in names and "snapshot" not in names:
        return _copied("an Iceberg table", "iceberg", root)
    kinds = {kind for name in names for ending, kind in _ENDINGS.items() if name.endswith(ending)}
    if len(kinds) == 1:
        [kind] = kinds
        return f"a folder of {kind} files, of which PaimonTable.migrate or CALL sys.migrate_table makes a table"
    return None


def _copied(kind: str, name: str, root: str) -> str:
    return (
        f"{kind}, which migrate does not take over (it takes folders of files alone). Where Spark has the format, "
        f"spark.read.format('{name}').load('{root}').write.format('paimon').save(…) copies its rows"
    )


def store_of_new_table(root: str, options: Mapping[str, str]) -> FileIO | None:
    """Return the store of a table that is to be made, and is named by its directory.

    Returns:
        The store; None where a server chooses the directory.

    Raises:
        SchemaError: the directory is a database, a table of another format, or a folder of files.
    """
    if root.startswith(REST_SCHEME):
        return None
    if root.endswith(DATABASE_SUFFIX):
        raise SchemaError(f"{root} is the directory of a database: name a table in it, as in {root}/orders")
    file_io = FileIO.for_path(root, options)
    found = foreign_content(file_io, root)
    if found is not None:
        raise SchemaError(f"No Paimon table can be made at {root}, which is {found}. Or choose another path")
    return file_io
