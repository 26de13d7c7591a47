"""Ranks of file key bounds: the smallest and largest keys of all files, of any schema, as numbers in key order.

Vectorised over all files of a plan; the order is that of `spec.key_order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.binary_row import decode_rows
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.key_order import composite_ranks

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.table.table import FileStoreTable


def key_ranks(
    table: FileStoreTable, low: Sequence[bytes], high: Sequence[bytes], schema_ids: Sequence[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the ranks of smallest and largest keys among all of them; equal keys have equal ranks.

    Args:
        table: whose trimmed primary key the bytes hold.
        low: serialized smallest key of each file.
        high: serialized largest key of each file.
        schema_ids: the schema that each file was written with, whose key types its bytes have.
    """
    keys = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
    ids = np.asarray(list(schema_ids) * 2, dtype=np.int64)
    rows = [*low, *high]
    columns: list[list[pa.Array]] = [[] for _ in keys]
    positions: list[npt.NDArray[np.int64]] = []
    for schema_id in np.unique(ids).tolist():
        at = np.flatnonzero(ids == schema_id)
        positions.append(at)
        then = {field.id: field.type for field in table.schemas.get(schema_id).fields}
        types = [then.get(key.id, key.type) for key in keys]
        decoded = decode_rows([rows[i] for i in at.tolist()], types, serialized=True)
        for column, key, array, old_type in zip(columns, keys, decoded, types, strict=True):
            column.append(_as_type(array, old_type, key))
    order = np.argsort(np.concatenate(positions), kind="stable")
    ranks = composite_ranks([_concat(column).take(pa.array(order)) for column in columns])
    return ranks[: len(low)], ranks[len(low) :]


def _as_type(array: pa.Array, old_type: DataType, key: DataField) -> pa.Array:
    if old_type.with_nullable(True) != key.type.with_nullable(True):
        array = cast_array(array, old_type, key.type)
    return array.cast(to_arrow_type(key.type))


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
