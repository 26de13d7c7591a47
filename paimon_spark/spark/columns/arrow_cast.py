"""Arrow batches of Paimon as batches of Spark and back. Columns of equal types are not copied.

Runs in tasks, once a batch; the conversion of each column is chosen once a split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.errors import SchemaMismatchError

Conversion = Callable[[pa.Array], pa.Array]


def _floor_to_micros(target: pa.DataType) -> Conversion:
    """Nanoseconds cut to microseconds, downwards also before 1970 (as Java's ``Timestamp.toMicros``)."""

    def convert(array: pa.Array) -> pa.Array:
        count = len(array)
        data = array.buffers()[1]
        if count == 0 or data is None:
            return pa.nulls(count, target)
        nanos = np.frombuffer(data, np.int64, count=count + array.offset)[array.offset :]
        micros = pa.py_buffer(np.floor_divide(nanos, 1000))
        validity = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(target, count, [validity, micros], array.null_count)

    return convert


def _list_conversion(source: pa.ListType, target: pa.ListType) -> Conversion:
    element = conversion(source.value_type, target.value_type)

    def convert(array: pa.Array) -> pa.Array:
        values = array.values if element is None else element(array.values)
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
        )

    return convert


def _map_conversion(source: pa.MapType, target: pa.MapType) -> Conversion:
    key = conversion(source.key_type, target.key_type)
    item = conversion(source.item_type, target.item_type)

    def convert(array: pa.Array) -> pa.Array:
        keys = array.keys if key is None else key(array.keys)
        items = array.items if item is None else item(array.items)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
        )

    return convert


def _struct_conversion(source: pa.StructType, target: pa.StructType) -> Conversion:
    wanted = [target.field(i) for i in range(target.num_fields)]
    children = [conversion(source.field(source.get_field_index(f.name)).type, f.type) for f in wanted]

    def convert(array: pa.Array) -> pa.Array:
        arrays = [
            array.field(field.name) if child is None else child(array.field(field.name))
            for field, child in zip(wanted, children, strict=True)
        ]
        if not arrays:
            return array.cast(target)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=wanted, mask=mask)

    return convert


def conversion(source: pa.DataType, target: pa.DataType) -> Conversion | None:
    """How an array of type `source` becomes one of type `target`; None where it already is."""
    if source.equals(target):
        return None
    types = pa.types
    if types.is_timestamp(source) and types.is_timestamp(target) and (source.unit, target.unit) == ("ns", "us"):
        return _floor_to_micros(target)
    if types.is_time32(source) and types.is_int32(target):
        return lambda array: array.view(target)
    if types.is_map(source) and types.is_map(target):
        return _map_conversion(source, target)
    if types.is_list(source) and types.is_list(target):
        return _list_conversion(source, target)
    if types.is_struct(source) and types.is_struct(target):
        return _struct_conversion(source, target)
    return lambda array: array.cast(target)


def convert_batches(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Batches with exactly the types, names and nullability of `target`.

    Args:
        batches: batches that hold at least the columns `names`.
        names: the column of a batch that each column of `target` is made of.
        target: the schema wanted, such as Spark's own (:func:`paimon_spark.spark.columns.types.spark_arrow_schema`).

    Raises:
        SchemaMismatchError: a column is not in a batch.
    """
    known: pa.Schema | None = None
    indices: Sequence[int] = ()
    conversions: Sequence[Conversion | None] = ()
    for batch in batches:
        if known is None or not batch.schema.equals(known):
            known = batch.schema
            indices = [known.get_field_index(name) for name in names]
            if -1 in indices:
                raise SchemaMismatchError(
                    f"column {names[indices.index(-1)]} is not among those that came ({', '.join(known.names)})"
                )
            conversions = [
                conversion(known.field(i).type, field.type) for i, field in zip(indices, target, strict=True)
            ]
        columns = [
            batch.column(i) if convert is None else convert(batch.column(i))
            for i, convert in zip(indices, conversions, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def batches_from_spark(batches: Iterable[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches that Spark sent, with exactly the schema `target`: the only function by which rows of Spark come in.

    Java's Arrow before 19 (Spark 4.0 to 4.2) sends lists, maps and strings within collections that are all empty
    without the one offset that the format asks for: apache/arrow-java#343, SPARK-55056. pyarrow takes such arrays and
    then reads what is not there: `flatten()` kills the process. They are replaced here, so that no writer, statistics
    or merge meets them.

    Raises:
        SchemaMismatchError: a column of `target` is not in a batch.
    """
    return convert_batches(map(_with_offsets, batches), target.names, target)


def _with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_sound(column) if pa.types.is_nested(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _sound(array: pa.Array) -> pa.Array:
    """Return the array; empty arrays at any depth get the buffers that they must have."""
    kind, types = array.type, pa.types
    if len(array) == 0:
        return pa.array([], kind)
    if types.is_struct(kind):
        parts = [array.field(at) for at in range(kind.num_fields)]
        sound = [_sound(part) for part in parts]
        if all(old is new for old, new in zip(parts, sound, strict=True)):
            return array
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(sound, fields=list(kind), mask=mask)
    if types.is_map(kind):
        keys, items = _sound(array.keys), _sound(array.items)
        child = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    elif types.is_list(kind):
        child = _sound(array.values)
    else:
        return array
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [child])
