"""Which columns of a table get which index: the ``file-index.…`` options (Java: ``FileIndexOptions``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_spark.errors import OptionError
from paimon_spark.options.option import parse_memory_size
from paimon_spark.spec.data_types import (
    CharType,
    DataField,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    MapType,
    TimestampType,
    VarCharType,
)
from paimon_spark.spec.file_index.values import KeyKind, key_kind

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


def supports(index_type: str, data_type: DataType) -> bool:
    """Whether an index type is over values of a data type."""
    kind = key_kind(data_type)
    if kind not in _KINDS.get(index_type, ()):
        return False
    if isinstance(data_type, TimestampType | LocalZonedTimestampType):
        return index_type != RANGE_BITMAP or data_type.precision <= 6
    return not isinstance(data_type, DecimalType) or kind is not None


def chunk_bytes(setting: IndexSetting, data_type: DataType) -> int:
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


def value_type(setting: IndexSetting, data_type: DataType) -> DataType:
    """The type that an index of a column of this type is over.

    Raises:
        OptionError: there is no such index of the column.
    """
    given = f"'{_PREFIX}{setting.index_type}{_COLUMNS}'"
    if setting.key is not None:
        if not isinstance(data_type, MapType):
            raise OptionError(
                f"Column '{setting.column}' is configured as nested column in {given} but is not a map type. "
                "Only map type supports nested column."
            )
        if not isinstance(data_type.key, CharType | VarCharType):
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


def validate_index_settings(options: Mapping[str, str], fields: Sequence[DataField]) -> None:
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
