"""Undoing the creation of a table that a statement could not fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import TableNotFoundError
from paimon_spark.spec.file_locations import OWN_DIRECTORIES
from paimon_spark.spec.file_names import BUCKET_PREFIX
from paimon_spark.spec.partition_path import escape_path_name
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from collections.abc import Mapping


def undo_create(path: str, options: Mapping[str, str]) -> None:
    """Delete the files of a new table, unless it has a snapshot; other files in its directory stay.

    Args:
        path: the table directory; for a table named by its path it may hold other files.
        options: of the store.
    """
    try:
        table = load_table(path, options=options)
    except TableNotFoundError:
        return
    if table.snapshots.latest_id() is not None:
        return
    publisher = table.file_io.publisher
    if publisher is not None:
        publisher.forget()
        if publisher.adopts(table.schema):
            return  # the files may have been there before, and are taken in again
    io, root, keys = table.file_io, table.path, table.schema.partition_keys
    first = f"{escape_path_name(keys[0])}=" if keys else BUCKET_PREFIX
    inside = table.paths.layout.data_directory if table.paths.layout else None
    data = f"{root}/{inside}" if inside else root
    for entry in io.list_names(data):
        if entry.is_dir and entry.name.startswith(first):
            io.delete_quietly(f"{data}/{entry.name}", recursive=True)
    while data != root:
        io.delete_empty_directory(data)
        data = data.rpartition("/")[0]
    for name in OWN_DIRECTORIES:
        io.delete_quietly(f"{root}/{name}", recursive=True)
    io.delete_empty_directory(root)
