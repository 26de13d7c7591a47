"""Deleting many files of a table, also those that no snapshot came to refer to, and directories that are empty then."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.options import OPTIONS
from paimon_spark.write.bucket_assignment_log import record_paths

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

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


def delete_written(
    table: FileStoreTable, written: Iterable[tuple[bytes, int, DataFileMeta]], *, keep: Container[str] = ()
) -> None:
    """Delete files that were written and that no snapshot refers to."""
    paths = []
    for location in written:
        if location[2].file_name not in keep:
            path = table.paths.data_file_path(*location)
            paths += [path, *(f"{path.rpartition('/')[0]}/{name}" for name in location[2].extra_files)]
    if paths:
        delete_files(table, paths)


def delete_messages(table: FileStoreTable, messages: Iterable[TaskMessage]) -> None:
    """Delete all that the tasks of a write have written: no snapshot refers to it, and none will."""
    messages = list(messages)
    parts = [part for message in messages for part in message.messages]
    delete_written(table, [(p.partition, p.bucket, f) for p in parts for f in (*p.new_files, *p.changelog_files)])
    hashes = [p.new_index.file_name for p in parts if p.new_index is not None]
    assigned = record_paths(
        table.paths, [message.assignment_log for message in messages if message.assignment_log is not None]
    )
    blob_files = [path for message in messages for path in message.blob_files]
    other_files = [*(table.paths.index_path(name) for name in hashes if name is not None), *assigned, *blob_files]
    if other_files:
        delete_files(table, other_files)


def delete_empty_directories(io: FileIO, buckets: Iterable[str], partition_keys: int) -> None:
    """Delete bucket directories that are empty, and above them the partition directories that become so."""
    level = {bucket for bucket in buckets if io.delete_empty_directory(bucket)}
    for _ in range(partition_keys):
        above = {directory.rpartition("/")[0] for directory in level}
        level = {directory for directory in above if io.delete_empty_directory(directory)}
