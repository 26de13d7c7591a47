"""The changes that a table's schema can undergo, as records (Java ``SchemaChange``).

`table.schema_evolution` makes the next schema of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.spec.data_types import DataType

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
