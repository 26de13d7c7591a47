"""VARIANT values as Python has them, as binary values, and as columns shredded by the rules of Parquet."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

KEYS = ["a", "b", "c", "long key with ümlaut", "z"]
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=100))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=12,
)


def shredding_schema(**columns: Any) -> str:
    """The value of ``variant.shreddingSchema``: for each column the types of its fields; a dict is an object.

    Ids are given in the order of the fields, as Java's ``DataField`` has them.
    """
    ids = itertools.count()

    def row(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "ROW", "fields": [{"id": next(ids), "name": n, "type": kind(t)} for n, t in fields.items()]}

    def kind(of: Any) -> Any:
        return row(of) if isinstance(of, dict) else {"type": "ARRAY", "element": of[0]} if isinstance(of, list) else of

    return json.dumps(row(columns))


def group(typed: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", typed)])


SCHEMAS: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "list of longs": pa.list_(group(pa.int64())),
    "object": pa.struct([("b", group(pa.string())), ("a", group(pa.int64()))]),
    "deep": pa.struct(
        [
            ("c", group(pa.struct([("z", group(pa.list_(group(pa.string())))), ("a", group(pa.bool_()))]))),
            ("a", group(pa.list_(group(pa.struct([("b", group(pa.int64()))]))))),
        ]
    ),
}


def binary(value: Any, keys: dict[str, int]) -> bytes:
    """A value whose names have the ids of the row's metadata."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        parts = [binary(value[name], keys) for name in names]
        head = bytes([2 | (3 << 2) | (3 << 4) | (1 << 6)]) + len(names).to_bytes(4, "little")
        offsets = itertools.accumulate(map(len, parts), initial=0)
        ids = b"".join(keys[name].to_bytes(4, "little") for name in names)
        return head + ids + b"".join(o.to_bytes(4, "little") for o in offsets) + b"".join(parts)
    if isinstance(value, list):
        parts = [binary(element, keys) for element in value]
        head = bytes([3 | (3 << 2) | (1 << 4)]) + len(parts).to_bytes(4, "little")
        offsets = itertools.accumulate(map(len, parts), initial=0)
        return head + b"".join(o.to_bytes(4, "little") for o in offsets) + b"".join(parts)
    return VariantUtils.parse_json(json.dumps(value))[0]


def names_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for inner in value.values() for name in names_in(inner))]
    return [name for inner in value for name in names_in(inner)] if isinstance(value, list) else []


def metadata(keys: dict[str, int]) -> bytes:
    texts = [name.encode() for name in keys]
    offsets = itertools.accumulate(map(len, texts), initial=0)
    numbers = b"".join(o.to_bytes(2, "little") for o in offsets)
    return bytes([1 | (1 << 6)]) + len(texts).to_bytes(2, "little") + numbers + b"".join(texts)


def shredded(value: Any, kind: pa.DataType, keys: dict[str, int]) -> dict[str, Any]:
    """A value as a group of `value` and `typed_value`, by the rules of Parquet's VariantShredding."""
    nothing = {"value": None, "typed_value": None}
    if pa.types.is_struct(kind) and isinstance(value, dict):
        known = {field.name for field in kind}
        rest = {name: inner for name, inner in value.items() if name not in known}
        fields = {
            field.name: shredded(value[field.name], field.type.field("typed_value").type, keys)
            if field.name in value
            else nothing
            for field in kind
        }
        return {"value": binary(rest, keys) if rest else None, "typed_value": fields}
    if pa.types.is_list(kind) and isinstance(value, list):
        inner = kind.value_type.field("typed_value").type
        return {"value": None, "typed_value": [shredded(element, inner, keys) for element in value]}
    fits = (
        (pa.types.is_int64(kind) and isinstance(value, int) and not isinstance(value, bool))
        or (pa.types.is_string(kind) and isinstance(value, str))
        or (pa.types.is_boolean(kind) and isinstance(value, bool))
    )
    return {"value": None, "typed_value": value} if fits else {"value": binary(value, keys), "typed_value": None}


def column(values: list[Any], kind: pa.DataType, missing: set[int] = frozenset()) -> pa.Array:  # type: ignore[assignment]
    rows = []
    for i, value in enumerate(values):
        keys = {name: number for number, name in enumerate(dict.fromkeys(names_in(value)))}
        rows.append(None if i in missing else {"metadata": metadata(keys), **shredded(value, kind, keys)})
    fields = [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", kind)]
    return pa.array(rows, pa.struct(fields))


def plain(array: pa.Array) -> list[Any]:
    return [None if row is None else VariantUtils.to_python(row["value"], row["metadata"]) for row in array.to_pylist()]
