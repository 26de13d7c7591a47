"""Columns of nested types as Python values with temporals as integers, as `binary_row_values` takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import DataType


def _integers(arrow_type: pa.DataType) -> pa.DataType:
    """The Arrow type with every temporal replaced by the integer that holds it."""
    types = pa.types
    if types.is_date32(arrow_type) or types.is_time32(arrow_type):
        return pa.int32()
    if types.is_timestamp(arrow_type):
        return pa.int64()
    if types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(_integers(arrow_type.value_type)))
    if types.is_map(arrow_type):
        return pa.map_(
            arrow_type.key_field.with_type(_integers(arrow_type.key_type)),
            arrow_type.item_field.with_type(_integers(arrow_type.item_type)),
        )
    if types.is_struct(arrow_type):
        return pa.struct([f.with_type(_integers(f.type)) for f in arrow_type])
    return arrow_type


def nested_values(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the column's values: dicts for rows, lists of pairs for maps, integers for temporals inside them."""
    wanted = to_arrow_type(data_type)
    if column.type != wanted:
        column = column.cast(wanted)
    plain = _integers(wanted)
    return (column if plain == wanted else column.cast(plain)).to_pylist()  # type: ignore[no-any-return]
