"""Avro schemas of data files: from Paimon fields as Java writes them, and from a file's own schema to Arrow types.

Must equal Java's ``AvroSchemaConverter``: plain timestamps are `timestamp-*`, those with local time zone
`local-timestamp-*` (swapped, by Avro's own words); a reader takes only the unit from them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec import data_types as t

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
            return _map(kind, row_name)
    raise UnsupportedError(
        f"Avro files cannot hold {kind.sql()} (timestamps have at most 6 digits, times 3). "
        "Use 'file.format' = 'parquet'."
    )


def _map(kind: t.MapType | t.MultisetType, row_name: str) -> AvroType:
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
