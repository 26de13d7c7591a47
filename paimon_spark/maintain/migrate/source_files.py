"""The data files of a directory that is partitioned as Hive and Spark do it, by directories ``k=v``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import DataError
from paimon_spark.spec.partition_path import unescape_path_name
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import scheme_of

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a null, of Hive's and Spark's tables."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One data file."""

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str], ...]
    """Columns and values of the directories above it, as texts, unescaped."""


def list_source(file_io: FileIO, root: str) -> list[SourceFile]:
    """Return the data files below a directory; those whose names begin with ``_`` or a dot are none.

    Raises:
        DataError: there is no file; a directory is no partition; files lie in different depths or below other columns;
            a file or directory is a link.
    """
    files = list(_walk(file_io, root.rstrip("/"), ()))
    if not files:
        raise DataError(f"There is no data file in {root}.")
    columns = {tuple(name for name, _ in file.partition) for file in files}
    if len(columns) > 1:
        shown = " and ".join(sorted("/".join(names) or "none" for names in columns))
        raise DataError(f"The files in {root} are partitioned by different columns: {shown}.")
    return files


def partition_columns(files: Sequence[SourceFile]) -> list[str]:
    """Return the partition columns of the files, in the order of the directories."""
    return [name for name, _ in files[0].partition]


def _walk(file_io: FileIO, directory: str, partition: tuple[tuple[str, str], ...]) -> Iterator[SourceFile]:
    for entry in sorted(file_io.list_names(directory)):
        if entry.name.startswith(("_", ".")):
            continue
        path = f"{directory}/{entry.name}"
        _check_no_link(path)
        if not entry.is_dir:
            yield SourceFile(path, entry.size, partition)
            continue
        name, equals, value = entry.name.partition("=")
        if not equals or not name:
            raise DataError(f"{path} is no directory of a partition, such as dt=2024-01-31.")
        yield from _walk(file_io, path, (*partition, (unescape_path_name(name), unescape_path_name(value))))


def _check_no_link(path: str) -> None:
    if scheme_of(path) in ("", "file") and os.path.islink(local_path(path)):
        raise DataError(f"{path} is a link: what it leads to is not migrated. Give the real directory.")
