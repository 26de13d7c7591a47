"""Data files of other tables: what columns they have, and how they come into a table."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from paimon_spark.errors import DataError
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import redact, scheme_of

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO

FORMATS = ("parquet", "orc")
"""Formats whose files can be taken over as they are."""
_CHUNK_BYTES = 8 << 20


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
