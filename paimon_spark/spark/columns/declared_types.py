"""CHAR(n) and VARCHAR(n) columns as they were declared; Spark shows both as STRING where it only reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from paimon_spark.spec import data_types as paimon

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField

_READABLE_TYPE = re.compile(r"[\w<>:,()]+", re.ASCII)


def declared_struct(struct: StructType, fields: Sequence[DataField]) -> StructType:
    """The columns with CHAR(n) and VARCHAR(n) as they were declared: Spark then pads and checks lengths itself.

    Args:
        struct: the columns as Spark shows them, strings.
        fields: the same columns of the table.
    """
    return StructType(
        [
            StructField(column.name, _readable(column.dataType, field.type), column.nullable, column.metadata)
            for column, field in zip(struct.fields, fields, strict=True)
        ]
    )


def _readable(shown: DataType, data_type: paimon.DataType) -> DataType:
    """Return the declared type; the shown one where Spark cannot parse the declared type's text (names need quotes)."""
    declared = _declared(shown, data_type)
    return declared if _READABLE_TYPE.fullmatch(declared.simpleString()) else shown


def _declared(shown: DataType, data_type: paimon.DataType) -> DataType:
    match shown, data_type:
        case StringType(), paimon.CharType():
            return CharType(data_type.length)
        case StringType(), paimon.VarCharType() if data_type.length != paimon.VarCharType.MAX:
            return VarcharType(data_type.length)
        case ArrayType(), paimon.ArrayType():
            return ArrayType(_declared(shown.elementType, data_type.element), shown.containsNull)
        case MapType(), paimon.MapType():
            key, value = _declared(shown.keyType, data_type.key), _declared(shown.valueType, data_type.value)
            return MapType(key, value, shown.valueContainsNull)
        case StructType(), paimon.RowType():
            return declared_struct(shown, data_type.fields)
    return shown
