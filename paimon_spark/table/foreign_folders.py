"""Directories that are no Paimon tables but something else: errors name it, and no table is made in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SchemaError
from paimon_spark.table.paths import DATABASE_SUFFIX

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO

_ENDINGS = {".parquet": "Parquet", ".orc": "ORC", ".avro": "Avro", ".csv": "CSV", ".json": "JSON"}


def foreign_content(file_io: FileIO, root: str) -> str | None:
    """Return what is in a directory in place of a Paimon table, with what to do; None where it is nothing known."""
    try:
        names = {entry.name for entry in file_io.list_names(root)}
    except (PaimonError, OSError):
        return None
    if "_delta_log" in names:
        return "a Delta Lake table, which format('delta') reads"
    if "metadata" in names and "schema" not in names and "snapshot" not in names:
        return "an Iceberg table, which format('iceberg') reads"
    kinds = {kind for name in names for ending, kind in _ENDINGS.items() if name.endswith(ending)}
    if len(kinds) == 1:
        [kind] = kinds
        return f"a folder of {kind} files, of which PaimonTable.migrate or CALL sys.migrate_table makes a table"
    return None


def refuse_foreign_folder(file_io: FileIO, root: str) -> None:
    """Refuse to make a table in a directory that is something else.

    Raises:
        SchemaError: it is a database, a table of another format, or a folder of files.
    """
    if root.endswith(DATABASE_SUFFIX):
        raise SchemaError(f"{root} is the directory of a database: name a table in it, as in {root}/orders")
    found = foreign_content(file_io, root)
    if found is not None:
        raise SchemaError(f"No Paimon table can be made at {root}, which is {found}: choose another path")
