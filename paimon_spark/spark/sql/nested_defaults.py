"""The texts that schemas keep for defaults of arrays, maps and structs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark.errors import DataError, SchemaError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.casts import cast_array, cast_default

NESTED = (t.ArrayType, t.MapType, t.RowType)
CONSTRUCTORS = ("array", "map", "struct", "named_struct")
"""Functions of which the default of a nested column may be made."""
_STRING = t.VarCharType(length=t.VarCharType.MAX)


def nested_default(sql: str, value: Any, field: t.DataField) -> str | None:
    """Return the text that Paimon keeps for the default of a nested column; None for NULL.

    Args:
        sql: the expression of the statement.
        value: what Spark makes of it, of the column's type.
        field: the column.

    Raises:
        UnsupportedError: no text means the value (elements with quotes, commas or brackets in them).
    """
    if value is None:
        return None
    arrow_type = to_arrow_type(field.type)
    scalar = pa.scalar(_plain(value, field.type), arrow_type)
    bracketed = cast_array(pa.array([scalar.as_py()], arrow_type), field.type, _STRING)[0].as_py()
    for text in (sql, _called(scalar.as_py(), field.type), bracketed):
        try:
            if cast_default(text, field.type).as_py() == scalar.as_py():
                return str(text)
        except (DataError, SchemaError):
            continue
    raise UnsupportedError(
        f"the default {sql} of column {field.name} cannot be kept: schemas keep a text, in which elements cannot hold "
        "commas, brackets, quotes, or blanks at their ends"
    )


def _plain(value: Any, data_type: t.DataType) -> Any:
    """Return a value of Spark as pyarrow takes it."""
    if value is None:
        return None
    match data_type:
        case t.ArrayType():
            return [_plain(item, data_type.element) for item in value]
        case t.MapType():
            return [(_plain(key, data_type.key), _plain(item, data_type.value)) for key, item in value.items()]
        case t.RowType():
            return {field.name: _plain(item, field.type) for field, item in zip(data_type.fields, value, strict=True)}
    return value


def _called(value: Any, data_type: t.DataType) -> str:
    """Return a value as the function call that makes it; strings have no quotes."""
    if value is None:
        return "null"
    match data_type:
        case t.ArrayType():
            return f"array({', '.join(_called(item, data_type.element) for item in value)})"
        case t.MapType():
            pairs = [part for k, v in value for part in (_called(k, data_type.key), _called(v, data_type.value))]
            return f"map({', '.join(pairs)})"
        case t.RowType():
            return f"struct({', '.join(_called(value[f.name], f.type) for f in data_type.fields)})"
    return str(cast_array(pa.array([value], to_arrow_type(data_type)), data_type, _STRING)[0].as_py())
