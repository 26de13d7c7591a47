"""Which columns of a table a load asks for: by option `columns`, or by a schema that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.spark.columns.types import to_spark_type

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField


def find_field(fields: Sequence[DataField], name: str) -> DataField:
    """Return the field of a name; case is ignored unless two names differ by case only.

    Raises:
        SchemaMismatchError: there is none, or several that differ by case only.
    """
    found = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    if len(found) > 1:
        raise SchemaMismatchError(f"column {name} could be each of {', '.join(field.name for field in found)}")
    if not found:
        raise SchemaMismatchError(
            f"there is no column {name} in the table; its columns are {', '.join(field.name for field in fields)}"
        )
    return found[0]


def read_columns(fields: Sequence[DataField], columns: Sequence[str] | None) -> list[DataField]:
    """The fields to read, in the order asked for; all without `columns`."""
    return list(fields) if columns is None else [find_field(fields, name) for name in columns]


def match_columns(fields: Sequence[DataField], schema: spark.StructType) -> list[str]:
    """Names of the table's columns that the columns of a Spark schema mean, in its order.

    Raises:
        SchemaMismatchError: a column is not in the table, or has another type there.
    """
    names = []
    for wanted in schema.fields:
        field = find_field(fields, wanted.name)
        shown = to_spark_type(field.type)
        if shown.simpleString() != wanted.dataType.simpleString():
            raise SchemaMismatchError(
                f"column {field.name} is of type {field.type.sql()}, which Spark shows as {shown.simpleString()}; "
                f"the schema given asks for {wanted.dataType.simpleString()}. Load it as it is and cast it afterwards"
            )
        names.append(field.name)
    return names
