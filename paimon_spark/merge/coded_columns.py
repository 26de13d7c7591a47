"""Columns that come as dictionaries are merged by their codes: strings that files hold once are made once, at the end.

Only for columns whose values a merge moves and does not look at (`MergeEngine.moved_columns`). Merging then sees a
column of integers with the same nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

_SMALL_BYTES = 4 << 20

Dictionaries = Mapping[str, pa.Array]
"""The values of the codes, by column."""


def table_of(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table; a column that is a dictionary in some of them only is one in none of the table."""
    if all(batch.schema == batches[0].schema for batch in batches):
        return pa.Table.from_batches(batches)
    columns, fields = [], []
    for at, field in enumerate(batches[0].schema):
        arrays = [batch.column(at) for batch in batches]
        if len({array.type for array in arrays}) > 1:
            arrays = [_plain(array) for array in arrays]
        columns.append(pa.chunked_array(arrays))
        fields.append(field.with_type(arrays[0].type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def coded(rows: pa.Table) -> tuple[pa.Table, Dictionaries]:
    """Return rows with codes in place of dictionaries, and what the codes mean."""
    dictionaries: dict[str, pa.Array] = {}
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            chunks = rows.column(at).unify_dictionaries().chunks
            dictionaries[field.name] = chunks[0].dictionary if chunks else pa.array([], field.type.value_type)
            codes = pa.chunked_array([chunk.indices for chunk in chunks], field.type.index_type)
            rows = rows.set_column(at, field.with_type(field.type.index_type), codes)
    return rows, dictionaries


def decoded(rows: pa.Table, dictionaries: Dictionaries) -> pa.Table:
    """Return rows with the values in place of codes."""
    for at, field in enumerate(rows.schema):
        values = dictionaries.get(field.name)
        if values is not None:
            chunks = [values.take(chunk) for chunk in rows.column(at).chunks]
            rows = rows.set_column(at, field.with_type(values.type), pa.chunked_array(chunks, values.type))
    return rows


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes that a batch has once no column is a dictionary, or a bound where it is small."""
    size = int(batch.nbytes)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            lengths = pc.binary_length(column.dictionary)
            bound = int(pc.max(lengths).as_py() or 0) * len(column)
            if bound > _SMALL_BYTES:
                bound = int(pc.sum(lengths.cast(pa.int64()).take(column.indices)).as_py() or 0)
            size += bound
    return size


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
