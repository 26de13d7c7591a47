"""Golden tables as Spark reads them."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import VariantType, VariantVal

from tests.support.golden import follows_a_java_bug, golden_reads, not_yet

READS = [case for case in golden_reads() if not follows_a_java_bug(case)]

OF_ROWS = [case for case in READS if not case.error and not_yet(case) is None]

FULL = [case for case in OF_ROWS if not case.columns and not case.read.get("filter") and not case.options]


def as_spark_shows(rows: pa.Table) -> pa.Table:
    """Java's rows in Spark's types: microseconds, times as numbers."""
    return pa.table(
        [_shown(column.combine_chunks()) for column in rows.columns],
        schema=pa.schema([(name, _shown_type(rows.schema.field(name).type)) for name in rows.schema.names]),
    )


def _shown_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if pa.types.is_time(data_type):
        return pa.int32()
    if pa.types.is_map(data_type):
        return pa.map_(_shown_type(data_type.key_type), _shown_type(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_shown_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([(f.name, _shown_type(f.type)) for f in data_type])
    return data_type


def _shown(array: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        plain = array.cast(pa.timestamp("ns"))
        return pc.floor_temporal(plain, unit="microsecond").cast(pa.timestamp("us")).cast(_shown_type(array.type))
    if pa.types.is_time(array.type):
        return array.view(pa.int32())
    return array.cast(_shown_type(array.type), safe=False)


def collected(df: DataFrame) -> pa.Table:
    """Rows as Arrow, so that neither Python's time zones nor its floats come between."""
    if not any(isinstance(field.dataType, VariantType) for field in df.schema.fields):
        return df.toArrow()
    # Spark 4.3: toArrow() fails on a null variant ("nulls in input cannot be viewed as non-nullable")
    columns = list(zip(*df.collect(), strict=True))
    plain = [
        [{"value": v.value, "metadata": v.metadata} if isinstance(v, VariantVal) else v for v in c] for c in columns
    ]
    parts = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    types = [parts if isinstance(field.dataType, VariantType) else to_arrow_type(field.dataType) for field in df.schema]
    return pa.table([pa.array(c, t) for c, t in zip(plain, types, strict=True)], names=df.columns)
