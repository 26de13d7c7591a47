"""Changes of a schema that a catalog's server makes, as requests have them (Java ``SchemaChange``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.data_types import DataField, DataType, RowType
from paimon_spark.spec.schema import TableSchema
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    Path,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)


def change_json(change: SchemaChange) -> dict[str, Any]:
    """A change as Java writes it."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case RemoveOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case AddColumn(path, data_type, comment, position):
            move = None if position is None else _move(path[-1], position)
            named = _named(path)
            return {"action": "addColumn", **named, "dataType": _type(data_type), "comment": comment, "move": move}
        case RenameColumn(path, name):
            return {"action": "renameColumn", **_named(path), "newName": name}
        case DropColumn(path):
            return {"action": "dropColumn", **_named(path)}
        case UpdateColumnType(path, data_type):
            kept = {"newDataType": _type(data_type), "keepNullability": True}
            return {"action": "updateColumnType", **_named(path), **kept}
        case UpdateColumnNullability(path, nullable):
            return {"action": "updateColumnNullability", **_named(path), "newNullability": nullable}
        case UpdateColumnComment(path, comment):
            return {"action": "updateColumnComment", **_named(path), "newComment": comment}
        case UpdateColumnPosition(path, position):
            return {"action": "updateColumnPosition", "move": _move(path[-1], position)}
        case UpdateColumnDefault(path, value):
            return {"action": "updateColumnDefaultValue", **_named(path), "newDefaultValue": value}


def _named(path: Path) -> dict[str, Any]:
    return {"fieldNames": list(path)}


def _type(data_type: DataType) -> Any:
    return DataField(0, "f", data_type).to_json()["type"]


def _move(name: str, position: Position) -> dict[str, Any]:
    kind = "FIRST" if position.after is None else "AFTER"
    return {"fieldName": name, "referenceFieldName": position.after, "type": kind}


def changes_between(old: TableSchema, new: TableSchema) -> list[SchemaChange]:
    """The changes that make one schema of another.

    Raises:
        UnsupportedError: no changes do: keys differ, or the order of columns.
    """
    found = [*_column_changes((), old.fields, new.fields), *_option_changes(old.options, new.options)]
    if old.comment != new.comment:
        found.append(UpdateComment(new.comment))
    if (old.primary_keys, old.partition_keys) != (new.primary_keys, new.partition_keys):
        raise UnsupportedError("The keys of a table in a REST catalog cannot be changed.")
    return found


def _option_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[SchemaChange]:
    yield from (SetOption(key, value) for key, value in new.items() if old.get(key) != value)
    yield from (RemoveOption(key) for key in old if key not in new)


def _column_changes(above: Path, old: Sequence[DataField], new: Sequence[DataField]) -> Iterator[SchemaChange]:
    before, after = {each.id: each for each in old}, {each.id for each in new}
    yield from (DropColumn((*above, each.name)) for each in old if each.id not in after)
    last: str | None = None
    for column in new:
        known, path = before.get(column.id), (*above, column.name)
        if known is None:
            yield AddColumn(path, column.type, column.description, None if last is None else Position(last))
        else:
            if known.name != column.name:
                yield RenameColumn((*above, known.name), column.name)
            yield from _changes_of_column(path, known, column)
        last = column.name
    kept = [each.id for each in old if each.id in after]
    if kept != [each.id for each in new if each.id in before]:
        raise UnsupportedError("The order of columns is changed by ALTER TABLE in a REST catalog.")


def _changes_of_column(path: Path, old: DataField, new: DataField) -> Iterator[SchemaChange]:
    if isinstance(old.type, RowType) and isinstance(new.type, RowType):
        yield from _column_changes(path, old.type.fields, new.type.fields)
    elif old.type.with_nullable(True) != new.type.with_nullable(True):
        yield UpdateColumnType(path, new.type)
    if old.type.nullable != new.type.nullable:
        yield UpdateColumnNullability(path, new.type.nullable)
    if old.description != new.description:
        yield UpdateColumnComment(path, new.description)
    if old.default_value != new.default_value:
        yield UpdateColumnDefault(path, new.default_value)
