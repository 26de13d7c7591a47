"""Deleting many files of a table, and directories that are empty then."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from paimon_spark.options import OPTIONS
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.storage.local_files import delete_all

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_REMOTE_THREADS = 16
_THREADS = OPTIONS["file-operation.thread-num"]


def threads_of(table: FileStoreTable) -> int:
    """Return how many files of a table are worked on at once: as the option says, else many on a remote store."""
    threads: int | None = table.options.get(_THREADS)
    return threads or (1 if isinstance(table.file_io, LocalFileIO) else _REMOTE_THREADS)


def delete_files(table: FileStoreTable, paths: Collection[str], *, in_order: bool = False) -> None:
    """Delete files, those that are missing or cannot be deleted left aside; several at once on a remote store.

    Args:
        table: whose they are.
        paths: quickest where files of one directory are together.
        in_order: one after the other wherever they are, so that an end on the way leaves the last ones.
    """
    io, threads = table.file_io, 1 if in_order else threads_of(table)
    if isinstance(io, LocalFileIO) and threads == 1:
        delete_all(paths)
        return
    if threads == 1 or len(paths) < 2:
        for path in paths:
            io.delete_quietly(path)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(io.delete_quietly, paths))


def delete_empty_directories(io: FileIO, buckets: Iterable[str], partition_keys: int) -> None:
    """Delete bucket directories that are empty, and above them the partition directories that become so."""
    level = {bucket for bucket in buckets if io.delete_empty_directory(bucket)}
    for _ in range(partition_keys):
        above = {directory.rpartition("/")[0] for directory in level}
        level = {directory for directory in above if io.delete_empty_directory(directory)}
