"""The indexes of one data file, built from its rows as they are written (Java: ``DataFileIndexWriter``).

The ``file-index.…`` options say which columns of a table get which index (Java: ``FileIndexOptions``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import OptionError
from paimon_spark.options.option import parse_memory_size
from paimon_spark.spec import data_types as t
from paimon_spark.spec.file_index.range_bitmap import encode_bsi, encode_range_bitmap
from paimon_spark.spec.file_index.value_indexes import BloomFilterWriter, encode_bitmap_index
from paimon_spark.spec.file_index.values import (
    KeyCollector,
    KeyKind,
    column_hash,
    in_hash_map_order,
    key_kind,
    string_hash,
)

BLOOM_FILTER, BITMAP, BSI, RANGE_BITMAP = "bloom-filter", "bitmap", "bsi", "range-bitmap"
INDEX_SUFFIX = ".index"
"""How the name of a file with an index ends."""

_PREFIX, _COLUMNS = "file-index.", ".columns"
_NUMBERS = {KeyKind.BYTE, KeyKind.SHORT, KeyKind.INT, KeyKind.LONG}
_FLOATS = {KeyKind.FLOAT, KeyKind.DOUBLE}
_KINDS = {
    BLOOM_FILTER: {*_NUMBERS, *_FLOATS, KeyKind.STRING, KeyKind.BINARY},
    BITMAP: {*_NUMBERS, *_FLOATS, KeyKind.STRING, KeyKind.BOOLEAN},
    BSI: {*_NUMBERS, KeyKind.DECIMAL},
    RANGE_BITMAP: {*_NUMBERS, *_FLOATS, KeyKind.STRING, KeyKind.BOOLEAN, KeyKind.DECIMAL},
}
_UNCHUNKED = {KeyKind.BOOLEAN, KeyKind.BYTE, KeyKind.SHORT}


@dataclass(frozen=True, slots=True)
class IndexSetting:
    """One index of one column, or of one key of a map. Picklable."""

    column: str
    """The column of the table."""
    key: str | None
    """The key of the map; None of a column."""
    index_type: str
    options: Mapping[str, str] = field(default_factory=dict)
    """As given, such as ``items``."""

    @property
    def name(self) -> str:
        """What the container calls it: the column, or ``column[key]``."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"

    def text(self, option: str, default: str) -> str:
        """The text of a setting, or its default."""
        return self.options.get(option, default)

    def integer(self, option: str, default: int) -> int:
        """A number among the settings.

        Raises:
            OptionError: it is none.
        """
        text = self.options.get(option)
        try:
            return default if text is None else int(text.strip())
        except ValueError:
            raise OptionError(f"{self._named(option)} = '{text}' is no whole number.") from None

    def number(self, option: str, default: float) -> float:
        """As `integer`, with a fraction."""
        text = self.options.get(option)
        try:
            return default if text is None else float(text.strip())
        except ValueError:
            raise OptionError(f"{self._named(option)} = '{text}' is no number.") from None

    def size_bytes(self, option: str, default: str) -> int:
        """A size among the settings, in bytes."""
        try:
            return min(parse_memory_size(self.text(option, default)), 2**31 - 1)
        except OptionError as error:
            raise OptionError(f"{self._named(option)}: {error}") from None

    def _named(self, option: str) -> str:
        return f"'{_PREFIX}{self.index_type}.{self.name}.{option}'"


def supports(index_type: str, data_type: t.DataType) -> bool:
    """Whether an index type is over values of a data type."""
    kind = key_kind(data_type)
    if kind not in _KINDS.get(index_type, ()):
        return False
    if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType):
        return index_type != RANGE_BITMAP or data_type.precision <= 6
    return not isinstance(data_type, t.DecimalType) or kind is not None


def chunk_bytes(setting: IndexSetting, data_type: t.DataType) -> int:
    """The size of the chunks of a range-bitmap's dictionary."""
    return setting.size_bytes("chunk-size", "0b" if key_kind(data_type) in _UNCHUNKED else "16kb")


def index_settings(options: Mapping[str, str]) -> tuple[IndexSetting, ...]:
    """Return the indexes that the options of a table ask for, in the order of the options.

    Raises:
        OptionError: an entry is empty, an index type is unknown, or a setting is of a column that has no such index.
    """
    found: dict[tuple[str, str | None, str], dict[str, str]] = {}
    of_maps: dict[tuple[str, str], dict[str, str]] = {}
    rest: list[tuple[str, str]] = []
    for key, text in options.items():
        if not key.startswith(_PREFIX):
            continue
        if not key.endswith(_COLUMNS):
            rest.append((key, text))
            continue
        index_type = key[len(_PREFIX) : -len(_COLUMNS)]
        if index_type not in _KINDS:
            raise OptionError(f"Can't find file index for type: {index_type}; '{key}' knows {', '.join(_KINDS)}.")
        for entry in text.split(","):
            if not entry.strip():
                raise OptionError(f"Wrong option in {key}, should not have empty column")
            column, nested = _split(entry.strip())
            found.setdefault((column, nested, index_type), {})
            if nested is not None:
                of_maps.setdefault((column, index_type), {})
    for key, text in rest:
        parts = key[len(_PREFIX) :].split(".")
        if len(parts) != 3:
            continue  # as Java
        index_type, name, option = parts
        own = found.get((*_split(name), index_type))
        target = of_maps.get((name, index_type)) if own is None else own
        if target is None:
            raise OptionError(
                f"Wrong file index option '{key}': column '{name}' is not declared in "
                f"'{_PREFIX}{index_type}{_COLUMNS}'. Please add '{_PREFIX}{index_type}{_COLUMNS}' = '{name}' "
                "before setting column options. "
                "For map nested index, declare it like '<map-column>[<map-key>]'."
            )
        target[option] = text
    return tuple(
        IndexSetting(column, nested, index_type, {**of_maps.get((column, index_type), {}), **own} if nested else own)
        for (column, nested, index_type), own in found.items()
    )


def _split(name: str) -> tuple[str, str | None]:
    column, bracket, rest = name.partition("[")
    return (column, rest[:-1]) if bracket and rest.endswith("]") else (name, None)


def value_type(setting: IndexSetting, data_type: t.DataType) -> t.DataType:
    """The type that an index of a column of this type is over.

    Raises:
        OptionError: there is no such index of the column.
    """
    given = f"'{_PREFIX}{setting.index_type}{_COLUMNS}'"
    if setting.key is not None:
        if not isinstance(data_type, t.MapType):
            raise OptionError(
                f"Column '{setting.column}' is configured as nested column in {given} but is not a map type. "
                "Only map type supports nested column."
            )
        if not isinstance(data_type.key, t.CharType | t.VarCharType):
            raise OptionError(
                f"Column '{setting.column}' is configured as nested column in {given}, but its map key type is "
                f"{data_type.key.sql()}. Only CHAR/VARCHAR/STRING is supported."
            )
        data_type = data_type.value
    if not supports(setting.index_type, data_type):
        raise OptionError(
            f"Column '{setting.column}' with type '{data_type.sql()}' is not supported by '{setting.index_type}' index."
        )
    return data_type


def validate_index_settings(options: Mapping[str, str], fields: Sequence[t.DataField]) -> None:
    """Check the index options of a table against its columns.

    Raises:
        OptionError: one of them asks for an index that cannot be.
    """
    known = {each.name: each.type for each in fields}
    for setting in index_settings(options):
        if setting.column not in known:
            raise OptionError(
                f"Column '{setting.column}' specified in '{_PREFIX}{setting.index_type}{_COLUMNS}' does not exist in "
                f"table schema. Existing columns: {list(known)}."
            )
        value_type(setting, known[setting.column])


def for_file(settings: Sequence[IndexSetting], old_names: Mapping[str, str]) -> tuple[IndexSetting, ...]:
    """Return the settings with the names that columns had when a file was written.

    Args:
        settings: with the names of now.
        old_names: for each name of now the one of the file; a column that the file lacks is not there.
    """
    return tuple(
        replace(setting, column=old_names[setting.column]) for setting in settings if setting.column in old_names
    )


Indexes = dict[str, dict[str, bytes | None]]
"""For each column the indexes of a file, by their type."""


class _Writer(Protocol):
    def add(self, column: pa.Array | pa.ChunkedArray) -> None: ...

    def finish(self) -> bytes: ...


class FileIndexBuilder:
    """Collects the indexed columns of one file.

    A bloom filter takes its bits alone; the other types keep the column, as Java keeps its values.
    """

    def __init__(self, settings: Sequence[IndexSetting], types: Mapping[str, t.DataType]) -> None:
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
                assert isinstance(data_type, t.MapType)
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


def values_of_key(column: pa.Array | pa.ChunkedArray, key: str, data_type: t.DataType) -> pa.Array:
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


def _writer(setting: IndexSetting, data_type: t.DataType) -> _Writer:
    if setting.index_type == BLOOM_FILTER:
        items, fpp = setting.integer("items", 1_000_000), setting.number("fpp", 0.1)
        return BloomFilterWriter(data_type, items=items, fpp=fpp)
    return _ColumnWriter(setting, data_type)


class _ColumnWriter:
    """An index that needs all values of a column at once."""

    def __init__(self, setting: IndexSetting, data_type: t.DataType) -> None:
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
