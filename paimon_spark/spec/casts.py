"""Casts of columns for schema evolution and defaults, value for value as Java does them (``paimon.casting.*``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, SchemaError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_field, to_arrow_type
from paimon_spark.spec.cast_rules import (
    BINARIES,
    NESTED,
    NUMBERS,
    STRING,
    TEXTS,
    TIMESTAMPS,
    can_cast,
    has_rule,
    same_type,
)
from paimon_spark.spec.cast_text import fit_binary, fit_text, from_text, nested_value, to_text
from paimon_spark.spec.cast_values import cast_number, cast_time

__all__ = ["can_cast", "cast_array", "cast_default"]


def cast_array(array: pa.Array | pa.ChunkedArray, source: t.DataType, target: t.DataType) -> pa.Array | pa.ChunkedArray:
    """A column of one Paimon type as another.

    Integers wrap around, floats saturate, decimals that overflow become null, texts that do not parse are an error,
    fields of ROWs are matched by id (new ones null).

    Args:
        array: The column, its Arrow type that of `source`.
        source: Its Paimon type.
        target: The Paimon type wanted.

    Raises:
        SchemaError: There is no such cast.
        DataError: A value cannot be cast.
    """
    if isinstance(array, pa.ChunkedArray):
        chunks = [cast_array(chunk, source, target) for chunk in array.chunks]
        return pa.chunked_array(chunks, to_arrow_type(target))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = to_arrow_type(target)
    if same_type(source, target):
        return array if array.type == wanted else array.cast(wanted)
    result = _cast(array, source, target)
    return result if result.type == wanted else result.cast(wanted)


def cast_default(text: str, target: t.DataType) -> pa.Scalar:
    """The value of a column's default, which schemas keep as text; quotes around the text are left away.

    Raises:
        SchemaError: Columns of this type cannot have a default.
        DataError: The text is no value of the type.
    """
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    if not isinstance(target, NESTED):
        return cast_array(pa.array([text], pa.string()), STRING, target)[0]
    try:
        return pa.scalar(nested_value(text, target, _atomic_value), to_arrow_type(target))
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"Cannot parse '{text[:100]}' as {target}: {error}") from None


def _atomic_value(text: str, target: t.DataType) -> object:
    array = pa.array([text], pa.string())
    return (fit_text(array, target) if isinstance(target, TEXTS) else cast_array(array, STRING, target))[0].as_py()


def _cast(array: pa.Array, source: t.DataType, target: t.DataType) -> pa.Array:
    match source, target:
        case t.RowType(), t.RowType():
            return _row_to_row(array, source, target)
        case t.ArrayType(), t.ArrayType():
            values, offsets = _elements(array, array.values)
            return pa.ListArray.from_arrays(
                offsets, cast_array(values, source.element, target.element), type=to_arrow_type(target)
            )
        case t.MapType(), t.MapType() if same_type(source.key, target.key):
            keys, offsets = _elements(array, array.keys)
            items, _ = _elements(array, array.items)
            return pa.MapArray.from_arrays(
                offsets, keys, cast_array(items, source.value, target.value), type=to_arrow_type(target)
            )
    if not has_rule(source, target):
        raise SchemaError(f"Cannot cast from type {source} to type {target}.")
    if isinstance(target, TEXTS):
        if isinstance(source, NESTED):
            return _nested_text(array, source)  # Java: not cut to the length of the type
        return to_text(array, source, target)
    if isinstance(source, TEXTS):
        return from_text(array, target)
    if isinstance(target, BINARIES):
        return fit_binary(array, target)
    if isinstance(source, (t.DateType, t.TimeType, *TIMESTAMPS)) or isinstance(target, TIMESTAMPS):
        return cast_time(array, source, target)
    assert isinstance(target, (*NUMBERS, t.BooleanType))
    return cast_number(array, source, target)


def _row_to_row(array: pa.Array, source: t.RowType, target: t.RowType) -> pa.Array:
    positions = {f.id: at for at, f in enumerate(source.fields)}
    children = []
    for wanted in target.fields:
        at = positions.get(wanted.id)
        if at is None:
            children.append(pa.nulls(len(array), to_arrow_type(wanted.type)))
        else:
            children.append(cast_array(array.field(at), source.fields[at].type, wanted.type))
    fields = [to_arrow_field(f) for f in target.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array))


def _elements(array: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The elements that a list or map array refers to, and its offsets into them, null for a null list."""
    starts = np.asarray(array.offsets)
    first, last = (int(starts[0]), int(starts[-1])) if len(starts) else (0, 0)
    nulls = np.append(np.asarray(pc.is_null(array)), False)
    offsets = pa.array(starts - first, pa.int32(), mask=nulls if array.null_count else None)
    return values.slice(first, last - first), offsets


def _nested_text(array: pa.Array, source: t.DataType) -> pa.Array:
    """Java's text of nested values: ``[a, b]``, ``{k -> v, k2 -> v2}``, ``{a, b}``; null inside is ``null``."""
    match source:
        case t.ArrayType():
            values, offsets = _elements(array, array.values)
            inner = pa.ListArray.from_arrays(offsets, _inner_text(values, source.element))
            return _enclosed("[", pc.binary_join(inner, ", "), "]")
        case t.MapType():
            keys, offsets = _elements(array, array.keys)
            items, _ = _elements(array, array.items)
            arrow = pa.scalar(" -> ")
            pairs = pc.binary_join_element_wise(
                _inner_text(keys, source.key), arrow, _inner_text(items, source.value), ""
            )
            return _enclosed("{", pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), ", "), "}")
    assert isinstance(source, t.RowType)
    texts = [_inner_text(array.field(at), f.type) for at, f in enumerate(source.fields)]
    joined = pc.binary_join_element_wise(*texts, ", ") if texts else pa.repeat(pa.scalar(""), len(array))
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.string()), _enclosed("{", joined, "}"))


def _inner_text(array: pa.Array, source: t.DataType) -> pa.Array:
    text = _nested_text(array, source) if isinstance(source, NESTED) else cast_array(array, source, STRING)
    return pc.fill_null(text, "null")


def _enclosed(before: str, text: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(before), text, pa.scalar(after), "")
