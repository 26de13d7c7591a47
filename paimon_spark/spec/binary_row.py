"""BinaryRow, the binary form of rows in manifests, keys, partitions and hashes (Java: ``BinaryRow``), under one name.

Whole columns are encoded by `encode_rows` and decoded by `decode_rows`; single rows of Python values by the rest. A
*raw* row is the row's bytes; a *serialized* one has its 4-byte big-endian arity in front, as manifests hold it
(Java: ``SerializationUtils.serializeBinaryRow``). Partition bytes are serialized rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.binary_row_encoder import BinaryRows, encode_rows
from paimon_spark.spec.binary_row_values import decode_row, encode_row
from paimon_spark.spec.data_types import DataType
from paimon_spark.spec.manifest import EMPTY_SERIALIZED_ROW

__all__ = [
    "EMPTY_SERIALIZED_ROW",
    "BinaryRows",
    "decode_row",
    "decode_rows",
    "deserialize_row",
    "encode_row",
    "encode_rows",
    "serialize_row",
]


def serialize_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Encode one row of Python values with its arity in front: partition bytes, keys and statistics of manifests."""
    return len(types).to_bytes(4, "big") + encode_row(values, types)


def deserialize_row(data: bytes, types: Sequence[DataType], *, path: str | None = None) -> list[Any]:
    """Decode one serialized row into Python values.

    Raises:
        CorruptTableError: the bytes are damaged, or have another arity.
    """
    if data[:4] != len(types).to_bytes(4, "big"):
        raise CorruptTableError(
            f"A BinaryRow of {len(types)} fields was expected, but it has {int.from_bytes(data[:4], 'big')}.", path=path
        )
    return decode_row(data[4:], types, path=path)
