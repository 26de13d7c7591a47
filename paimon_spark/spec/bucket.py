"""Bucket functions: which bucket a row's bucket key belongs to (Java: ``BucketFunction`` and its three kinds)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import OptionError
from paimon_spark.spec.data_types import BigIntType, DataType, IntType
from paimon_spark.spec.hashing import HashArray, hive_hash, key_hashes

__all__ = ["BucketFunction", "bucket_ids", "buckets_of_hashes", "key_hashes"]


class BucketFunction(StrEnum):
    """Value of the option ``bucket-function.type``."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


def buckets_of_hashes(hashes: HashArray, num_buckets: int) -> HashArray:
    """Return the bucket of each hash: the absolute value of Java's remainder (default function)."""
    buckets: HashArray = np.abs(np.fmod(hashes, np.int32(num_buckets)))
    return buckets


def _mod(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], num_buckets: int) -> HashArray:
    if len(columns) != 1 or not isinstance(types[0], IntType | BigIntType):
        given = ", ".join(data_type.sql() for data_type in types)
        raise OptionError(
            "bucket key must have exactly one field of type INT or BIGINT in mod bucket function, "
            f"but has {given}; set 'bucket-function.type' to 'default'."
        )
    # Java: a null key is read as the zero in its slot
    values = pc.fill_null(columns[0].cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    buckets: HashArray = np.mod(values, num_buckets).astype(np.int32)
    return buckets


def bucket_ids(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    num_buckets: int,
    function: BucketFunction | str = BucketFunction.DEFAULT,
) -> HashArray:
    """Return the bucket of each row.

    Args:
        columns: bucket-key columns in their declared order, at least one, of equal length.
        types: their data types.
        num_buckets: bucket count of the rows' partition, at least 1.
        function: the table's ``bucket-function.type``.

    Raises:
        OptionError: the function does not fit the bucket key, or is not known.
        UnsupportedError: a type that the function hive does not take.
    """
    if num_buckets < 1:
        raise OptionError(f"The number of buckets needs to be greater than 0, but is {num_buckets}.")
    try:
        function = BucketFunction(function)
    except ValueError as error:
        raise OptionError(f"Unknown bucket function {function!r}; choose default, mod or hive.") from error
    if function is BucketFunction.MOD:
        return _mod(columns, types, num_buckets)
    if function is BucketFunction.HIVE:
        positive: HashArray = hive_hash(columns, types) & np.int32(0x7FFFFFFF)
        return buckets_of_hashes(positive, num_buckets)
    return buckets_of_hashes(key_hashes(columns, types), num_buckets)
