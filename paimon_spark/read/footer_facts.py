"""What footers of Parquet files say for the planning of a read: keys of row groups, columns without nulls.

Runs on the driver, in as many threads as the store answers. Names of files are unique, so what was read stays true: the
last found are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paimon_spark.spec.kept_values import LastUsed
from paimon_spark.spec.special_fields import KEY_FIELD_PREFIX
from paimon_spark.storage.formats import open_data_file
from paimon_spark.storage.parquet_format import ParquetReader

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable

T = TypeVar("T")

MOST_FILES: Final = 4096
"""Footers of more files are not read for one query."""


_KEPT: Final = LastUsed[Any](2 * MOST_FILES)


@dataclass(frozen=True, slots=True)
class RowGroupKeys:
    """Of each row group of a file its rows, the least and greatest first column of its keys, and its first byte."""

    rows: tuple[int, ...]
    low: pa.Array
    high: pa.Array
    starts: tuple[int, ...]


def row_group_keys(table: FileStoreTable, files: Iterable[SplitFile]) -> dict[str, RowGroupKeys | None]:
    """Read which keys the row groups of files hold; None for a file that does not tell.

    Args:
        table: with a primary key.
        files: Parquet files.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    key = table.schema.field(table.schema.trimmed_primary_keys[0])
    return _of_each(table, files, ("keys", key.id, key.name, str(key.type)), _keys_of)


def null_counts(
    table: FileStoreTable, files: Iterable[SplitFile], columns: tuple[str, ...]
) -> dict[str, Mapping[str, int | None]]:
    """Read how many nulls each of these columns has in each file; None where that is not told.

    Args:
        table: whose files they are.
        files: Parquet files.
        columns: names that the files have for them.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """

    def nulls_of(reader: ParquetReader, _table: FileStoreTable, _file: SplitFile) -> Mapping[str, int | None]:
        return {name: reader.null_count(name) for name in columns}

    return _of_each(table, files, ("nulls", columns), nulls_of)


def _of_each(
    table: FileStoreTable,
    files: Iterable[SplitFile],
    what: Hashable,
    find: Callable[[ParquetReader, FileStoreTable, SplitFile], T],
) -> dict[str, T]:
    def of(file: SplitFile) -> T:
        def read() -> T:
            with open_data_file(table.file_io, file.path, file.format, file.size, rows=file.row_count) as reader:
                assert isinstance(reader, ParquetReader)
                return find(reader, table, file)

        found: T = _KEPT.of((what, table.file_io.address, file.path, file.size), read)
        return found

    by_path = {file.path: file for file in files}
    with ThreadPoolExecutor(table.file_io.threads) as pool:
        return dict(zip(by_path, pool.map(of, by_path.values()), strict=True))


def _keys_of(reader: ParquetReader, table: FileStoreTable, file: SplitFile) -> RowGroupKeys | None:
    key = table.schema.field(table.schema.trimmed_primary_keys[0])
    own = next((field for field in table.schemas.get(file.schema_id).fields if field.id == key.id), None)
    if own is None or own.type.with_nullable(True) != key.type.with_nullable(True):
        return None
    found = reader.row_group_bounds(KEY_FIELD_PREFIX + own.name) or reader.row_group_bounds(own.name)
    if found is None or found[0].null_count or found[1].null_count:
        return None
    return RowGroupKeys(tuple(reader.row_group_rows), *found, tuple(reader.row_group_starts()))
