"""The columns of a load or save as other engines than Spark give them to a Python data source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_struct(schema: StructType | pa.Schema) -> StructType:
    """Return the columns as Spark has them; Sail gives them as an Arrow schema."""
    if not isinstance(schema, pa.Schema):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    plain: Any = pa.schema([field.with_type(_plain(field.type)) for field in schema])
    return from_arrow_schema(plain, prefer_timestamp_ntz=True)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without what Spark's own conversion does not know: views, and dictionaries."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    return kind
