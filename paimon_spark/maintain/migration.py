"""Files of another table become files of a new Paimon table, without being written anew (Java: ``HiveMigrator``).

Java renames the files, then commits, and renames them back when that fails. Here they get a second place in the table
first, by a hard link or a copy; the first place goes after the commit. So the source is whole whenever it stops. The
directory of the source is partitioned as Hive and Spark do it, by directories ``k=v``.

Data files of other tables: what columns they have, and how they come into a table.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import typed_value
from paimon_spark.commit.run_again import undone_where_void
from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import CharType, DecimalType, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.java_text import unescape_path_name
from paimon_spark.spec.manifest import DataFileMeta, FileSource
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import redact, scheme_of
from paimon_spark.write.data_file_spec import data_file_spec
from paimon_spark.write.message import CommitMessage
from paimon_spark.write.rolling import wall_clock_millis

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a null, of Hive's and Spark's tables."""

FORMATS = ("parquet", "orc")
"""Formats whose files can be taken over as they are."""
_CHUNK_BYTES = 8 << 20


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


_LOG = logging.getLogger(__name__)
_NOT_IN_ORC = (TimestampType, LocalZonedTimestampType, CharType, DecimalType)
"""Types that writers of ORC store in different ways."""


def footers_that_fit(
    file_io: FileIO, files: Sequence[SourceFile], file_format: str, schema: TableSchema, *, threads: int = 1
) -> list[ForeignFile] | None:
    """Return the footers of files that can be files of a table as they are; None where one of them cannot.

    Args:
        file_io: the source's store.
        files: of the source.
        file_format: ``parquet``, ``orc``, or one whose files are never taken over.
        schema: the table's.
        threads: how many files are opened at once.

    Raises:
        DataError: a file has a column that the table has not, or cannot be read.
    """
    if file_format not in FORMATS:
        return None
    wanted = {field.name: field.type for field in schema.fields if field.name not in schema.partition_keys}
    with ThreadPoolExecutor(max(1, threads)) as pool:
        footers = list(pool.map(lambda file: read_footer(file_io, file.path, file_format), files))
    fits = True
    for file, footer in zip(files, footers, strict=True):
        more = [name for name in footer.columns.names if name not in wanted]
        if more:
            raise DataError(
                f"{file.path} has columns that the table would not have: {', '.join(more)}. Its rows would lose them; "
                "migrate with the option source.mergeSchema=true."
            )
        for column in footer.columns:
            kind = wanted[column.name]
            if file_format == "orc" and isinstance(kind, _NOT_IN_ORC):
                fits = False
            fits = fits and is_stored_as(column.type, to_arrow_type(kind))
    return footers if fits else None


def take_over(
    table: FileStoreTable,
    file_io: FileIO,
    files: Sequence[SourceFile],
    footers: Sequence[ForeignFile],
    *,
    leaves: bool,
    threads: int = 1,
) -> int | None:
    """Make files the files of a new table; return the id of its snapshot. The source stays as it is.

    Args:
        table: without keys, buckets and rows.
        file_io: the store of the source, which is the table's.
        files: of the source.
        footers: of these files.
        leaves: whether the source goes afterwards, so that a link of a file will do.
        threads: how many files come at once.

    Raises:
        CommitStateUnknownError: it is not known whether the files belong to the table now; nothing is deleted.
    """
    names = data_file_spec(table.schema).file_names()
    assigned: dict[bytes, list[DataFileMeta]] = {}
    moves: list[tuple[str, str]] = []
    for file, footer in zip(files, footers, strict=True):
        partition = _partition_bytes(table, file)
        meta = DataFileMeta(
            file_name=names.next(),
            file_size=file.size_bytes,
            row_count=footer.row_count,
            value_stats_cols=(),
            schema_id=table.schema.id,
            creation_time_millis=wall_clock_millis(),
            delete_row_count=0,
            file_source=FileSource.APPEND,
        )
        assigned.setdefault(partition, []).append(meta)
        moves.append((file.path, table.paths.data_file_path(partition, 0, meta)))
    try:
        with ThreadPoolExecutor(max(1, threads)) as pool:
            for _ in pool.map(lambda move: bring(file_io, *move, link=leaves), moves):
                pass
    except BaseException:
        table.file_io.delete_files([target for _, target in moves])
        raise
    messages = [CommitMessage(partition, 0, -1, tuple(metas)) for partition, metas in assigned.items()]
    with undone_where_void(lambda: table.file_io.delete_files([target for _, target in moves])):
        return commit(table, messages)


def delete_source(file_io: FileIO, root: str, files: Iterable[SourceFile]) -> None:
    """Delete files that belong to a table now, their check sums, marks of success, and directories that are empty then.

    Every other file stays.
    """
    directories = {root.rstrip("/")}
    paths = []
    for file in files:
        directory, _, name = file.path.rpartition("/")
        paths += [file.path, f"{directory}/.{name}.crc"]
        while len(directory) > len(root.rstrip("/")):
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    paths += [f"{directory}/{mark}" for directory in directories for mark in ("_SUCCESS", "._SUCCESS.crc")]
    left = file_io.delete_files(paths)
    if left:
        _LOG.warning("%d files of %s could not be deleted; their rows are in the table now.", len(left), root)
    for directory in sorted(directories, key=len, reverse=True):
        with contextlib.suppress(OSError):
            file_io.delete_empty_directory(directory)


def _partition_bytes(table: FileStoreTable, file: SourceFile) -> bytes:
    schema = table.schema
    texts = dict(file.partition)
    values = [
        None if texts[name] == HIVE_NULL else typed_value(name, texts[name], schema.field(name).type)
        for name in schema.partition_keys
    ]
    return serialize_row(values, [schema.field(name).type for name in schema.partition_keys])


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """What the footer of a file says."""

    columns: pa.Schema
    row_count: int


def read_footer(file_io: FileIO, path: str, file_format: str) -> ForeignFile:
    """Read the columns and the number of rows of a Parquet or ORC file.

    Raises:
        DataError: it is no such file.
    """
    try:
        with file_io.open_input(path) as source:
            if file_format == "orc":
                orc = pyarrow.orc.ORCFile(source)
                return ForeignFile(orc.schema, orc.nrows)
            parquet = pyarrow.parquet.ParquetFile(source)
            return ForeignFile(parquet.schema_arrow, parquet.metadata.num_rows)
    except pa.ArrowException as error:
        raise DataError(f"{path} cannot be read as a file of format {file_format}: {error}") from error


def is_stored_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a file are stored as a table stores values of a type."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_large_string(found):
        found = pa.string()
    if pa.types.is_large_binary(found):
        found = pa.binary()
    if pa.types.is_list(wanted):
        named = pa.types.is_list(found) and found.value_field.name == "element"
        return named and is_stored_as(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        same = pa.types.is_map(found) and is_stored_as(found.key_type, wanted.key_type)
        return same and is_stored_as(found.item_type, wanted.item_type)
    if pa.types.is_struct(wanted):
        if not pa.types.is_struct(found) or [f.name for f in found] != [f.name for f in wanted]:
            return False
        return all(is_stored_as(one.type, other.type) for one, other in zip(found, wanted, strict=True))
    return bool(found == wanted)


def bring(file_io: FileIO, source: str, target: str, *, link: bool) -> None:
    """Give a file a second place: by a hard link where the disk can, else by a copy.

    Args:
        file_io: the store of both.
        source: the file, which stays.
        target: where there is no file yet.
        link: whether a link will do, since nobody changes the file in its old place any more.

    Raises:
        DataError: the file became shorter or longer meanwhile.
    """
    if link and scheme_of(target) in ("", "file") and scheme_of(source) in ("", "file"):
        here, there = local_path(source), local_path(target)
        os.makedirs(os.path.dirname(there), exist_ok=True)
        with contextlib.suppress(OSError):  # another disk, or one without links
            os.link(here, there, follow_symlinks=False)
            return
    try:
        copied = 0
        with file_io.open_input(source) as reading, file_io.open_output(target) as writing:
            size = reading.size()
            while chunk := reading.read(_CHUNK_BYTES):
                writing.write(chunk)
                copied += len(chunk)
        if copied != size:
            raise DataError(f"File {redact(source)} had {size} bytes, and {copied} when it was copied. Try again.")
    except BaseException:
        with contextlib.suppress(Exception):
            file_io.delete_quietly(target)
        raise
