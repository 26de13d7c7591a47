"""The changes that a table's schema can undergo, as records (Java ``SchemaChange``), and what they do to options.

`table.schema_evolution` makes the next schema of them. Options that name columns, in their value or in their key,
follow renamed columns: equals Java's ``SchemaManager.applyRenameColumnsToOptions``, as far as Java follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.spec.data_types import DataType

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

# Options whose value is a list of columns. Java renames columns in bucket-key and sequence.field only and then refuses
# the schema for the others; here all follow.
_COLUMN_LISTS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "vector-field",
)
_FIELDS, _GROUP, _INDEX = "fields.", ".sequence-group", "file-index."
_OF_GROUPS = "partial-update.remove-record-on-sequence-group"

Names = Mapping[str, str | None]
"""The new name of each column; None for a missing column."""


class _MissingColumnError(Exception):
    """An option names a column that is not there."""


def renamed_options(options: Mapping[str, str], names: Names) -> dict[str, str]:
    """The options with the columns' new names in every key and value that names a column."""
    return dict(_renamed(key, value, names) for key, value in options.items())


def options_at(latest: TableSchema, options: Mapping[str, str], then: TableSchema) -> dict[str, str]:
    """The options to read an older state of a table with: the latest ones, with the columns' names of then.

    Java takes the latest options as they are: it cannot read a state before the renaming of a column that they name, or
    takes another column for it. An option that names a column which the older schema lacks gets its value of then;
    so do all options ``fields.…`` together.

    Args:
        latest: the schema that the options belong to.
        options: its options, and those of the reader, which are left as they are.
        then: the older schema.
    """
    by_id = {field.id: field.name for field in then.fields}
    names: Names = {field.name: by_id.get(field.id) for field in latest.fields}
    own = {key: value for key, value in options.items() if latest.options.get(key) == value}
    result: dict[str, str] = {}
    missing: set[str] = set()
    for key, value in own.items():
        try:
            new_key, result_value = _renamed(key, value, names)
        except _MissingColumnError:
            missing.add(_family(key))
        else:
            result[new_key] = result_value
    if missing:
        result = {key: value for key, value in result.items() if _family(key) not in missing}
        result |= {key: value for key, value in then.options.items() if _family(key) in missing}
    return result | {key: value for key, value in options.items() if key not in own}


def _family(key: str) -> str:
    """The options that are replaced together, since options of single columns could contradict each other."""
    return _FIELDS if key.startswith(_FIELDS) or key == _OF_GROUPS else key


def _renamed(key: str, value: str, names: Names) -> tuple[str, str]:
    if key in _COLUMN_LISTS or key.endswith((_GROUP, ".columns")):
        value = _renamed_list(value, names)
    if key.startswith(_FIELDS) and key.endswith(_GROUP):
        columns = key.removeprefix(_FIELDS).removesuffix(_GROUP)
        return f"{_FIELDS}{_renamed_list(columns, names)}{_GROUP}", value
    if key.startswith(_FIELDS):
        return _FIELDS + _renamed_start(key.removeprefix(_FIELDS), names), value
    if key.startswith(_INDEX) and not key.endswith(".columns"):
        kind, dot, rest = key.removeprefix(_INDEX).partition(".")
        return f"{_INDEX}{kind}{dot}{_renamed_start(rest, names)}", value
    return key, value


def _renamed_list(text: str, names: Names) -> str:
    return ",".join(_renamed_entry(entry, names) for entry in text.split(","))


def _renamed_entry(entry: str, names: Names) -> str:
    """A column of a list, or ``column[key]`` of a map."""
    name, bracket, key = (entry, "", "") if entry.strip() in names else entry.partition("[")
    if name.strip() not in names:
        return entry
    blanks = name[: len(name) - len(name.lstrip())]
    return f"{blanks}{_other_name(name.strip(), names)}{bracket}{key}"


def _renamed_start(text: str, names: Names) -> str:
    """The text with the column in front of its first dots; names may hold dots: the longest counts."""
    found = [name for name in names if text.startswith(f"{name}.")]
    if not found:
        return text
    name = max(found, key=len)
    return _other_name(name, names) + text[len(name) :]


def _other_name(name: str, names: Names) -> str:
    other = names[name]
    if other is None:
        raise _MissingColumnError(name)
    return other


Path = tuple[str, ...]
"""Name of a column, or of a field in it: ``("v", "element", "f")``; what an array or map holds is called
``element`` and ``value``."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column goes: behind another one of the same row, or to the first place."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """Gives an option a value; the option `comment` is the table's comment."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Takes an option back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class UpdateComment:
    """Gives the table a comment, or takes it away."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Adds a nullable column, at the end unless a position is given."""

    path: Path
    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Gives a column another name; keys and options that name it follow."""

    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Removes a column; its id is never used again."""

    path: Path


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Gives a column another type and keeps its nullability."""

    path: Path
    type: DataType


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Makes a column nullable or NOT NULL."""

    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """Gives a column a comment, or takes it away."""

    path: Path
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Moves a column within its row."""

    path: Path
    position: Position


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """Gives a column a default (the text that schemas keep), or takes it away."""

    path: Path
    default_value: str | None


SchemaChange = (
    SetOption
    | RemoveOption
    | UpdateComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnPosition
    | UpdateColumnDefault
)
