"""Deleting many files of a table, and directories that are empty then."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.options import OPTIONS

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_THREADS = OPTIONS["file-operation.thread-num"]


def threads_of(table: FileStoreTable) -> int:
    """Return how many files of a table are worked on at once: as the option says, else as many as suit the store."""
    threads: int | None = table.options.get(_THREADS)
    return threads or table.file_io.threads


def delete_files(table: FileStoreTable, paths: Sequence[str], *, in_order: bool = False) -> list[str]:
    """Delete files; those that are missing are passed over.

    Args:
        table: whose they are; its options say how many are deleted at once.
        paths: quickest where files of one directory are together.
        in_order: delete one after the other, so that an interruption leaves the last ones.

    Returns:
        Those that could not be deleted; the log names one of them.
    """
    left = table.file_io.delete_files(paths, threads=1 if in_order else table.options.get(_THREADS))
    if left:
        _LOG.warning("%s: %s of %s files could not be deleted, such as %s", table.path, len(left), len(paths), left[0])
    return left


def delete_empty_directories(io: FileIO, buckets: Iterable[str], partition_keys: int) -> None:
    """Delete bucket directories that are empty, and above them the partition directories that become so."""
    level = {bucket for bucket in buckets if io.delete_empty_directory(bucket)}
    for _ in range(partition_keys):
        above = {directory.rpartition("/")[0] for directory in level}
        level = {directory for directory in above if io.delete_empty_directory(directory)}
