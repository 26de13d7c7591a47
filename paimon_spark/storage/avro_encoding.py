"""Avro of data files: schemas as Java writes them, what a schema of a file is in Arrow, and rows as bytes.

Schemas must equal Java's ``AvroSchemaConverter``: plain timestamps are `timestamp-*`, those with local time zone
`local-timestamp-*` (swapped, by Avro's own words); a reader takes only the unit from them.

Rows become bytes by whole columns at once: no Python object per value. Every column becomes a binary array with the
Avro bytes of each row; joining the columns element-wise gives the rows, and the buffer of the joined array is a block.
Lists are slices of their flattened elements' bytes. (Avro 1.11, "Binary Encoding".)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.storage.arrow_layout import bytes_from_decimals

RECORD_NAME: Final = "record"
NAMESPACE: Final = "org.apache.paimon.avro.generated"
_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 100_000

AvroType = Any
"""An Avro schema as JSON: a name, a union as list, or an object."""

_PLAIN: Final[dict[type[t.DataType], AvroType]] = {
    t.BooleanType: "boolean",
    t.TinyIntType: "int",
    t.SmallIntType: "int",
    t.IntType: "int",
    t.BigIntType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.CharType: "string",
    t.VarCharType: "string",
    t.BinaryType: "bytes",
    t.VarBinaryType: "bytes",
    t.BlobType: "bytes",
    t.DateType: {"type": "int", "logicalType": "date"},
}


def file_schema(fields: Sequence[t.DataField]) -> str:
    """The schema in the header of a data file, as text.

    Raises:
        UnsupportedError: a type that Java does not write to Avro.
    """
    record = {
        "type": "record",
        "name": RECORD_NAME,
        "namespace": NAMESPACE,
        "fields": _record_fields(fields, RECORD_NAME),
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def is_array_map(kind: t.MapType | t.MultisetType) -> bool:
    """Whether a map is written as an array of (key, value), because its key is no string."""
    key = kind.key if isinstance(kind, t.MapType) else kind.element
    return not isinstance(key, (t.CharType, t.VarCharType))


def _record_fields(fields: Sequence[t.DataField], row_name: str) -> list[dict[str, AvroType]]:
    result = []
    for field in fields:
        entry: dict[str, AvroType] = {"name": field.name, "type": _schema(field.type, f"{row_name}_{field.name}")}
        if field.type.nullable:
            entry["default"] = None
        result.append(entry)
    return result


def _schema(kind: t.DataType, row_name: str) -> AvroType:
    schema = _schema_without_null(kind, row_name)
    return ["null", schema] if kind.nullable else schema


def _schema_without_null(kind: t.DataType, row_name: str) -> AvroType:
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return plain
    match kind:
        case t.TimestampType() | t.LocalZonedTimestampType() if kind.precision <= 6:
            prefix = "local-" if isinstance(kind, t.LocalZonedTimestampType) else ""
            return {"type": "long", "logicalType": f"{prefix}timestamp-{'millis' if kind.precision <= 3 else 'micros'}"}
        case t.TimeType() if kind.precision <= 3:
            return {"type": "int", "logicalType": "time-millis"}
        case t.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case t.RowType():
            return {"type": "record", "name": row_name, "fields": _record_fields(kind.fields, row_name)}
        case t.ArrayType() | t.VectorType():
            return {"type": "array", "items": _schema(kind.element, row_name)}
        case t.MapType() | t.MultisetType():
            return _map_schema(kind, row_name)
    raise UnsupportedError(
        f"Avro files cannot hold {kind.sql()} (timestamps have at most 6 digits, times 3). "
        "Use 'file.format' = 'parquet'."
    )


def _map_schema(kind: t.MapType | t.MultisetType, row_name: str) -> AvroType:
    key, value = (kind.key, kind.value) if isinstance(kind, t.MapType) else (kind.element, t.IntType())
    if not is_array_map(kind):
        return {"type": "map", "values": _schema(value, row_name)}
    entry: dict[str, AvroType] = {"name": "value", "type": _schema(value, f"{row_name}_value")}
    if value.nullable:
        entry["default"] = None
    fields = [{"name": "key", "type": _schema(key, f"{row_name}_key")}, entry]
    return {
        "type": "array",
        "items": {"type": "record", "name": row_name, "fields": fields},
        "logicalType": "map",
    }


@dataclass(frozen=True, slots=True)
class Decoded:
    """One type of a file's schema.

    Attributes:
        plain: The same schema for the decoder: no logical types, strings as bytes, every record with its own name.
        storage: Arrow type of what the decoder gives.
        arrow: Arrow type of the values: `storage` under its true name (decimals as large_binary).
        nullable: Whether it is a union with null.
    """

    plain: AvroType
    storage: pa.DataType
    arrow: pa.DataType
    nullable: bool = False


_ATOMS: Final[dict[str, tuple[str, pa.DataType]]] = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "long": ("long", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "bytes": ("bytes", pa.binary()),
    "string": ("bytes", pa.string()),
}
_LOGICAL: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


class FileSchema:
    """The schema in a file's header, understood.

    Attributes:
        record: The top-level record (its `arrow` type is a struct).
    """

    def __init__(self, schema_json: bytes) -> None:
        """Understand a schema.

        Raises:
            ValueError: it is not valid, or has a form that no Paimon file has.
        """
        self._named: dict[str, AvroType] = {}
        self._nodes = 0
        self.record = self._type(json.loads(schema_json), 0, "")
        if not pa.types.is_struct(self.record.arrow):
            raise ValueError("the top-level Avro schema is not a record")

    @property
    def arrow(self) -> pa.Schema:
        """The columns."""
        return pa.schema(list(self.record.arrow))

    def _type(self, schema: AvroType, depth: int, namespace: str) -> Decoded:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise ValueError("the Avro schema is too deep or too large")
        if isinstance(schema, list):
            return self._union(schema, depth, namespace)
        if isinstance(schema, str):
            if schema in _ATOMS:
                plain, arrow = _ATOMS[schema]
                return Decoded(plain, arrow, arrow)
            return self._reference(schema, depth, namespace)
        if not isinstance(schema, dict):
            raise ValueError("the Avro schema has something that is no type")
        kind = schema.get("type")
        if kind == "record":
            return self._record(schema, depth, namespace)
        if kind == "array":
            item = self._type(schema.get("items"), depth + 1, namespace)
            storage, arrow = (pa.list_(pa.field("element", form)) for form in (item.storage, item.arrow))
            return Decoded({"type": "array", "items": item.plain}, storage, arrow)
        if kind == "map":
            value = self._type(schema.get("values"), depth + 1, namespace)
            storage, arrow = (pa.map_(pa.string(), form) for form in (value.storage, value.arrow))
            return Decoded({"type": "map", "values": value.plain}, storage, arrow)
        if isinstance(kind, str) and kind in _ATOMS:
            return _logical(kind, schema.get("logicalType"))
        if isinstance(kind, (dict, list)):
            return self._type(kind, depth + 1, namespace)
        raise ValueError(f"the Avro type {kind!r} has no place in Paimon files")

    def _union(self, schema: list[AvroType], depth: int, namespace: str) -> Decoded:
        if len(schema) != 2 or schema.count("null") != 1:
            raise ValueError("an Avro union other than of null and one type")
        inner = self._type(next(part for part in schema if part != "null"), depth + 1, namespace)
        if inner.nullable:
            raise ValueError("an Avro union within a union")
        plain = ["null" if part == "null" else inner.plain for part in schema]
        return Decoded(plain, inner.storage, inner.arrow, nullable=True)

    def _record(self, schema: dict[str, AvroType], depth: int, namespace: str) -> Decoded:
        name = schema.get("name")
        fields = schema.get("fields")
        if not isinstance(name, str) or not isinstance(fields, list) or not fields:
            raise ValueError("an Avro record without name or fields")
        space = schema.get("namespace", namespace)
        full_name = name if "." in name or not space else f"{space}.{name}"
        space = full_name.rpartition(".")[0]
        self._named[full_name] = {**schema, "name": full_name}
        unique = f"r{self._nodes}"
        parts = [(field["name"], self._type(field["type"], depth + 1, space)) for field in fields]
        plain = {
            "type": "record",
            "name": unique,
            "fields": [{"name": field_name, "type": part.plain} for field_name, part in parts],
        }
        storage, arrow = (
            pa.struct([pa.field(field_name, getattr(part, form)) for field_name, part in parts])
            for form in ("storage", "arrow")
        )
        return Decoded(plain, storage, arrow)

    def _reference(self, name: str, depth: int, namespace: str) -> Decoded:
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        if full_name not in self._named:
            raise ValueError(f"the Avro schema names the unknown type {name!r}")
        return self._type(self._named[full_name], depth + 1, namespace)


def _logical(kind: str, logical: object) -> Decoded:
    plain, storage = _ATOMS[kind]
    if kind == "bytes" and logical == "decimal":
        return Decoded(plain, pa.large_binary(), pa.large_binary())
    return Decoded(plain, storage, _LOGICAL.get((kind, str(logical)), storage))


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
