"""The indexes of one data file, built from its rows as they are written (Java: ``DataFileIndexWriter``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import OptionError
from paimon_spark.spec.data_types import DataType, MapType
from paimon_spark.spec.file_index.bitmap import encode_bitmap_index
from paimon_spark.spec.file_index.bloom_filter import BloomFilterWriter
from paimon_spark.spec.file_index.bsi import encode_bsi
from paimon_spark.spec.file_index.java_order import column_hash, in_hash_map_order, string_hash
from paimon_spark.spec.file_index.range_bitmap import encode_range_bitmap
from paimon_spark.spec.file_index.settings import (
    BITMAP,
    BLOOM_FILTER,
    BSI,
    IndexSetting,
    chunk_bytes,
    value_type,
)
from paimon_spark.spec.file_index.values import KeyCollector

Indexes = dict[str, dict[str, bytes | None]]
"""For each column the indexes of a file, by their type."""


class _Writer(Protocol):
    def add(self, column: pa.Array | pa.ChunkedArray) -> None: ...

    def finish(self) -> bytes: ...


class FileIndexBuilder:
    """Collects the indexed columns of one file.

    A bloom filter takes its bits alone; the other types keep the column, as Java keeps its values.
    """

    def __init__(self, settings: Sequence[IndexSetting], types: Mapping[str, DataType]) -> None:
        """Open the indexes.

        Raises:
            OptionError: there is no such index of a column.
        """
        self._settings = _in_java_order(settings)
        self._types = types
        self._writers = [_writer(each, value_type(each, types[each.column])) for each in self._settings]
        self._rows = 0

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Look at rows of the file, in their order."""
        self._rows += rows.num_rows
        for setting, writer in zip(self._settings, self._writers, strict=True):
            column = rows.column(setting.column)
            data_type = self._types[setting.column]
            if setting.key is not None:
                assert isinstance(data_type, MapType)
                column = values_of_key(column, setting.key, value_type(setting, data_type))
            writer.add(column)

    def finish(self) -> Indexes:
        """The indexes of the whole file, in the order in which Java writes them."""
        found: Indexes = {}
        for setting, writer in zip(self._settings, self._writers, strict=True):
            empty = setting.key is not None and not self._rows
            found.setdefault(setting.name, {})[setting.index_type] = None if empty else writer.finish()
        names = in_hash_map_order((setting.name for setting in self._settings), string_hash, computed=True)
        return {
            name: {kind: found[name][kind] for kind in in_hash_map_order(found[name], string_hash, computed=False)}
            for name in names
        }


def _in_java_order(settings: Sequence[IndexSetting]) -> list[IndexSetting]:
    """Settings in the order in which Java serializes their indexes: by type, then by column, then by key of a map."""
    entries = in_hash_map_order(
        ((each.column, each.key) for each in settings), lambda entry: column_hash(*entry), computed=True
    )
    by_entry = {
        entry: in_hash_map_order(
            (each.index_type for each in settings if (each.column, each.key) == entry), string_hash, computed=True
        )
        for entry in entries
    }
    types = in_hash_map_order((kind for entry in entries for kind in by_entry[entry]), string_hash, computed=True)
    found = {(each.column, each.key, each.index_type): each for each in settings}
    result = []
    for kind in types:
        columns = in_hash_map_order((c for c, k in entries if kind in by_entry[c, k]), string_hash, computed=False)
        for column in columns:
            keys = [k for c, k in entries if c == column and kind in by_entry[c, k]]
            nested = in_hash_map_order((k for k in keys if k is not None), string_hash, computed=False)
            result += [found[column, key, kind] for key in (*([None] if None in keys else []), *nested)]
    return result


def values_of_key(column: pa.Array | pa.ChunkedArray, key: str, data_type: DataType) -> pa.Array:
    """The value of one key in each map; null where a map has none."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.chunked_array([_values_of_key(chunk, key) for chunk in chunks] or [_no_rows(column)])


def _no_rows(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.nulls(0, column.type.item_type)


def _values_of_key(maps: pa.MapArray, key: str) -> pa.Array:
    offsets = np.asarray(maps.offsets, np.int64)
    found = np.flatnonzero(pc.fill_null(pc.equal(maps.keys, key), False).to_numpy(zero_copy_only=False))
    rows = np.searchsorted(offsets, found, side="right") - 1
    inside = (found >= offsets[0]) & (found < offsets[-1])
    take = np.full(len(maps), -1, np.int64)
    take[rows[inside]] = found[inside]
    missing = take < 0
    if maps.null_count:
        missing |= maps.is_null().to_numpy(zero_copy_only=False)
    return maps.items.take(pa.array(take, mask=missing))


def _writer(setting: IndexSetting, data_type: DataType) -> _Writer:
    if setting.index_type == BLOOM_FILTER:
        items, fpp = setting.integer("items", 1_000_000), setting.number("fpp", 0.1)
        return BloomFilterWriter(data_type, items=items, fpp=fpp)
    return _ColumnWriter(setting, data_type)


class _ColumnWriter:
    """An index that needs all values of a column at once."""

    def __init__(self, setting: IndexSetting, data_type: DataType) -> None:
        self._setting = setting
        self._type = data_type
        self._keys = KeyCollector(data_type)
        # a setting that cannot be is refused before the first row
        if setting.index_type == BITMAP:
            self._version = setting.integer("version", 2)
            self._block = setting.size_bytes("index-block-size", "16kb")
            if self._version not in (1, 2):
                raise OptionError(f"'file-index.bitmap.{setting.name}.version' is 1 or 2, not {self._version}.")
        elif setting.index_type != BSI:
            self._chunk = chunk_bytes(setting, data_type)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        self._keys.add(column)

    def finish(self) -> bytes:
        if self._setting.index_type == BSI:
            return encode_bsi(*self._keys.numbers())
        rows = self._keys.distinct()
        if self._setting.index_type == BITMAP:
            return encode_bitmap_index(rows, version=self._version, block_bytes=self._block)
        return encode_range_bitmap(rows, chunk_bytes=self._chunk)
