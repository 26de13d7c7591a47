"""Rows as Avro bytes, whole columns at once: no Python object per value.

Every column becomes a binary array with the Avro bytes of each row; joining the columns element-wise gives the rows,
and the buffer of the joined array is a block. Lists are slices of their flattened elements' bytes. (Avro 1.11, "Binary
Encoding".)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec import data_types as t
from paimon_spark.storage.arrow_layout import bytes_from_decimals
from paimon_spark.storage.avro_file_schema import is_array_map

_NULL = b"\x00"
_VALUE = b"\x02"
_END = b"\x00"


def encode_rows(columns: Sequence[pa.Array], fields: Sequence[t.DataField]) -> pa.BinaryArray:
    """The Avro bytes of each row of a record.

    Args:
        columns: Arrays of equal length in the Arrow types of their fields (timestamps in the unit the schema names).
        fields: The record's fields.
    """
    return _join([_nullable(column, field.type) for column, field in zip(columns, fields, strict=True)])


def encode_longs(values: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """Each value as a zig-zag varint."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    rows = len(zigzag)
    lengths = np.ones(rows, np.int64)
    rest = zigzag >> np.uint64(7)
    widest = 1
    while rest.any():
        lengths += rest > 0
        rest >>= np.uint64(7)
        widest += 1
    shifts = np.arange(widest, dtype=np.uint64) * np.uint64(7)
    groups = ((zigzag[:, None] >> shifts) & np.uint64(127)).astype(np.uint8)
    at = np.arange(widest)
    groups[at < (lengths - 1)[:, None]] |= 128
    return _binary(groups[at < lengths[:, None]], lengths)


def _nullable(array: pa.Array, kind: t.DataType) -> pa.BinaryArray:
    if not kind.nullable:
        return _value(array, kind)
    if array.null_count == 0:
        return _join([_VALUE, _value(array, kind)])
    valid = array.is_valid()
    return pc.if_else(valid, _join([_VALUE, _value(array, kind)]), pa.scalar(_NULL, pa.binary()))


def _value(array: pa.Array, kind: t.DataType) -> pa.BinaryArray:
    """Bytes of the values; nulls have arbitrary bytes."""
    match kind:
        case t.BooleanType():
            return _fixed(_numbers(array.cast(pa.uint8()), pa.uint8()), 1)
        case t.FloatType():
            return _fixed(_numbers(array, pa.float32()).view(np.uint8), 4)
        case t.DoubleType():
            return _fixed(_numbers(array, pa.float64()).view(np.uint8), 8)
        case t.DecimalType():
            return _sized(bytes_from_decimals(array))
        case t.RowType():
            children = [array.field(at) for at in range(array.type.num_fields)]
            return encode_rows(children, kind.fields)
        case t.ArrayType() | t.VectorType():
            bounds, items = _bounds(array), array.values
            return _blocks(array, bounds, _nullable(_within(items, bounds), kind.element))
        case t.MapType():
            return _map(array, kind, kind.key, kind.value)
        case t.MultisetType():
            return _map(array, kind, kind.element, t.IntType())
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return _sized(array.view(pa.binary()))
    storage = pa.int64() if array.type.bit_width == 64 else pa.int32()
    plain = array.view(storage) if pa.types.is_temporal(array.type) else array.cast(pa.int64())
    return encode_longs(_numbers(plain, plain.type).astype(np.int64))


def _map(array: pa.MapArray, kind: t.MapType | t.MultisetType, key: t.DataType, value: t.DataType) -> pa.BinaryArray:
    encode_key = _nullable if is_array_map(kind) else _value
    bounds = _bounds(array)
    keys, items = _within(array.keys, bounds), _within(array.items, bounds)
    return _blocks(array, bounds, _join([encode_key(keys, key), _nullable(items, value)]))


def _bounds(array: pa.ListArray | pa.MapArray) -> npt.NDArray[np.int64]:
    """Where each list starts among the elements, and where the last one ends."""
    offsets: npt.NDArray[np.int64] = np.asarray(array.offsets).astype(np.int64)
    return offsets


def _within(elements: pa.Array, bounds: npt.NDArray[np.int64]) -> pa.Array:
    return elements.slice(bounds[0], bounds[-1] - bounds[0])


def _blocks(array: pa.Array, bounds: npt.NDArray[np.int64], items: pa.BinaryArray) -> pa.BinaryArray:
    """Arrays and maps: one block (count, items), then the end; nothing but the end when empty."""
    counts = np.where(np.asarray(array.is_valid()), np.diff(bounds), 0)
    item_offsets = np.frombuffer(items.buffers()[1], np.int32, len(items) + 1, items.offset * 4)
    # Lists lie one behind the other, so the bytes of a list are those between its first and its last item.
    firsts = item_offsets[bounds - bounds[0]].astype(np.int32)
    content = pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(firsts), items.buffers()[2]])
    filled = _join([encode_longs(counts), content, _END])
    return pc.if_else(pa.array(counts > 0), filled, pa.scalar(_END, pa.binary()))


def _sized(array: pa.BinaryArray) -> pa.BinaryArray:
    array = pc.fill_null(array, b"") if array.null_count else array
    lengths = _numbers(pc.binary_length(array), pa.int32()).astype(np.int64)
    return _join([encode_longs(lengths), array])


def _numbers(array: pa.Array, kind: pa.DataType) -> npt.NDArray[np.generic]:
    array = pc.fill_null(array, pa.scalar(0, kind)) if array.null_count else array
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _fixed(data: npt.NDArray[np.generic], width: int) -> pa.BinaryArray:
    rows = data.nbytes // width
    return _binary(data.view(np.uint8), np.full(rows, width, np.int64))


def _binary(data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> pa.BinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _join(parts: Sequence[pa.BinaryArray | bytes]) -> pa.BinaryArray:
    if len(parts) == 1 and not isinstance(parts[0], bytes):
        return parts[0]
    scalars = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))
