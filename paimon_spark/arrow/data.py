"""Rows that a caller gives, as Arrow batches with columns of plain types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_spark.errors import SchemaMismatchError

_MOST_ROWS = 1 << 18


@dataclass(frozen=True)
class GivenRows:
    """Rows to write: their schema, and the batches, which may be taken once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def given_rows(data: Any, schema: pa.Schema | None = None) -> GivenRows:
    """Take rows of any library that speaks Arrow.

    Args:
        data: a table, a batch or a reader of pyarrow, a DataFrame of polars or pandas, a relation of DuckDB, anything
            with ``__arrow_c_stream__``, or a list of dicts.
        schema: types of the columns of a list of dicts; inferred when not given.

    Raises:
        SchemaMismatchError: the data is none of these.
    """
    reader = _reader(data, schema)
    plain = pa.schema([pa.field(field.name, _plain(field.type), field.nullable) for field in reader.schema])
    return GivenRows(plain, _batches(reader, plain))


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader(_MOST_ROWS)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader(_MOST_ROWS)
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False).to_reader(_MOST_ROWS)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_dicts(data, schema).to_reader(_MOST_ROWS)
    raise SchemaMismatchError(
        f"Rows to write are a table or a reader of pyarrow, a DataFrame of polars or pandas, or a list of dicts, not a "
        f"{type(data).__module__}.{type(data).__qualname__}."
    )


def _from_dicts(rows: list[dict[str, Any]], schema: pa.Schema | None) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    known = {} if schema is None else {field.name: field for field in schema}
    try:
        if not rows and schema is not None:
            return schema.empty_table()
        columns = [pa.array([row.get(name) for row in rows], getattr(known.get(name), "type", None)) for name in names]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(f"The rows do not fit the columns of the table: {error}") from None
    return pa.table(dict(zip(names, columns, strict=True)))


def _plain(given: pa.DataType) -> pa.DataType:
    """The type that the table's layers know for one with another layout in memory."""
    types = pa.types
    if types.is_dictionary(given) or types.is_run_end_encoded(given):
        return _plain(given.value_type)
    if types.is_large_string(given) or types.is_string_view(given):
        return pa.string()
    if types.is_large_binary(given) or types.is_binary_view(given):
        return pa.binary()
    if types.is_large_list(given) or types.is_list(given) or _is_list_view(given):
        return pa.list_(given.value_field.with_type(_plain(given.value_type)))
    if types.is_map(given):
        return pa.map_(_plain(given.key_type), given.item_field.with_type(_plain(given.item_type)))
    if types.is_struct(given):
        return pa.struct([field.with_type(_plain(field.type)) for field in given])
    return given


def _is_list_view(given: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(given) or pa.types.is_large_list_view(given))


def _batches(reader: pa.RecordBatchReader, plain: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, batch.num_rows, _MOST_ROWS):
            part = batch.slice(start, _MOST_ROWS)
            if part.schema.equals(plain):
                yield part
                continue
            arrays = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(part.columns, plain, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=plain)
