"""Values as the texts that system tables show.

Two notations of Java's: the cast to STRING (partitions: ``{2024-01-01, a}``), and ``toString`` of the internal value
(keys and statistics: dates as day numbers, times as milliseconds, timestamps as ``2024-01-01T10:00``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.cast_numbers import map_distinct
from paimon_spark.spec.cast_text import to_text
from paimon_spark.spec.data_types import (
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    VarBinaryType,
)
from paimon_spark.spec.java_text import local_date_time_text
from paimon_spark.spec.partition_path import partition_value_text
from paimon_spark.table.system.definition import STRING

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def row_texts(columns: Sequence[pa.Array], types: Sequence[DataType], count: int) -> pa.Array:
    """Rows cast to STRING: ``{a, b}``, a null as ``null``; `count` rows of ``{}`` without columns."""
    return _enclosed("{", [_shown(to_text(c, t, STRING)) for c, t in zip(columns, types, strict=True)], "}", count)


def key_texts(columns: Sequence[pa.Array], types: Sequence[DataType], count: int) -> pa.Array:
    """Keys as Java prints arrays: ``[1, a]``."""
    return _enclosed("[", [_shown(object_texts(c, t)) for c, t in zip(columns, types, strict=True)], "]", count)


def map_texts(texts: Sequence[tuple[str, pa.Array]], count: int) -> pa.Array:
    """Texts by column name as Java prints a sorted map: ``{a=1, b=null}``."""
    ordered = sorted(texts, key=lambda pair: pair[0])
    entries = [pc.binary_join_element_wise(pa.scalar(f"{name}="), _shown(text), "") for name, text in ordered]
    return _enclosed("{", entries, "}", count)


def object_texts(array: pa.Array, data_type: DataType) -> pa.Array:
    """Java's ``toString`` of internal values; null stays null. Binaries, which Java cannot print, as hex digits."""
    match data_type:
        case FloatType() | DoubleType():
            return to_text(array, data_type, STRING)
        case DateType() | TimeType():
            return pc.cast(array.view(pa.int32()), pa.string())
        case TimestampType() | LocalZonedTimestampType():
            factor = _NANOS[array.type.unit]
            return map_distinct(
                array.view(pa.int64()), lambda v: None if v is None else local_date_time_text(v * factor), pa.string()
            )
        case BinaryType() | VarBinaryType():
            return map_distinct(array, lambda v: None if v is None else v.hex(), pa.string())
    if pa.types.is_nested(array.type):  # statistics have no nested bounds
        return pa.nulls(len(array), pa.string())
    return to_text(array, data_type, STRING)


def partition_texts(table: FileStoreTable, partitions: Sequence[bytes]) -> pa.Array:
    """Partition bytes cast to STRING, as ``files`` shows them: ``{2024-01-01, a}``."""
    batch = table.manifests.partition_batch(partitions) if table.schema.partition_keys else None
    types = [table.schema.field(name).type for name in table.schema.partition_keys]
    return row_texts([] if batch is None else batch.columns, types, len(partitions))


def partition_names(table: FileStoreTable, partitions: Sequence[bytes]) -> list[str]:
    """Partition bytes as ``partitions`` shows them: ``dt=2024-01-01/hh=1``, nothing escaped, dates as dates."""
    layout = table.paths.layout
    assert layout is not None
    names = []
    for partition in partitions:
        texts = (
            partition_value_text(value, data_type, legacy=False, default_name=layout.default_partition_name)
            for value, data_type in zip(layout.partition_values(partition), layout.partition_types, strict=True)
        )
        names.append("/".join(f"{key}={text}" for key, text in zip(layout.partition_keys, texts, strict=True)))
    return names


def _shown(text: pa.Array) -> pa.Array:
    return pc.fill_null(text, "null")


def _enclosed(before: str, texts: Sequence[pa.Array], after: str, count: int) -> pa.Array:
    if not texts:
        return pa.array([before + after] * count, pa.string())
    joined = pc.binary_join_element_wise(*texts, ", ") if len(texts) > 1 else texts[0]
    return pc.binary_join_element_wise(pa.scalar(before), joined, pa.scalar(after), "")
