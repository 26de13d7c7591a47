"""Casts of incoming columns to the table's types in which nothing is lost; anything else is an error.

Stricter than Spark's ANSI store assignment: integers may narrow and become decimals or floating point numbers as long
as every value arrives exactly, decimals may change precision and scale likewise, timestamps their unit. A string never
becomes a number nor the other way round, a wall clock time never an instant. CHAR(n) and VARCHAR(n) are checked as
Spark checks them on write: trailing spaces beyond n are cut, any other character beyond n is an error; nothing is
padded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, SchemaMismatchError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_field, to_arrow_type

_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_MILLIS_OF_DAY = 86_400_000


def match_names(wanted: list[str], given: list[str], what: str) -> dict[str, int]:
    """Match given names to wanted ones: exactly, else without case where that is unambiguous.

    Args:
        wanted: names of the table's columns (or of a ROW's fields).
        given: names of the data's columns.
        what: what the names belong to, for messages.

    Returns:
        For each wanted name that was found, the position in ``given``.

    Raises:
        SchemaMismatchError: a given name matches nothing, or more than one; or two given names match the same.
    """
    exact = {name: name for name in wanted}
    folded: dict[str, list[str]] = {}
    for name in wanted:
        folded.setdefault(name.lower(), []).append(name)
    found: dict[str, int] = {}
    unknown: list[str] = []
    for position, name in enumerate(given):
        candidates = [exact[name]] if name in exact else folded.get(name.lower(), [])
        if not candidates:
            unknown.append(name)
            continue
        if len(candidates) > 1:
            raise SchemaMismatchError(
                f"{what}: '{name}' is ambiguous, it could be any of {', '.join(candidates)}; write the name exactly."
            )
        if candidates[0] in found:
            raise SchemaMismatchError(
                f"{what}: '{given[found[candidates[0]]]}' and '{name}' both stand for '{candidates[0]}'; drop one."
            )
        found[candidates[0]] = position
    if unknown:
        raise SchemaMismatchError(
            f"{what} has no {', '.join(repr(u) for u in unknown)} (it has {', '.join(wanted)}). "
            f"Drop what is too much, or add columns to the table first (option write.merge-schema does it)."
        )
    return found


def check_store_cast(source: pa.DataType, target: t.DataType, column: str) -> None:
    """Check, before any row is seen, that values of an Arrow type may become values of a Paimon type.

    Raises:
        SchemaMismatchError: they may not; names the column.
    """
    source = _plain(source)
    if pa.types.is_null(source):
        return
    if isinstance(target, t.RowType) and pa.types.is_struct(source):
        names = [source.field(i).name for i in range(source.num_fields)]
        found = match_names(list(target.field_names), names, f"ROW column '{column}'")
        for field in target.fields:
            if field.name in found:
                check_store_cast(source.field(found[field.name]).type, field.type, f"{column}.{field.name}")
            elif not field.type.nullable:
                raise SchemaMismatchError(f"Field '{column}.{field.name}' is NOT NULL, but the data does not have it.")
        return
    if isinstance(target, t.ArrayType | t.VectorType) and _is_list(source):
        check_store_cast(source.value_type, target.element, f"{column}.element")
        return
    if isinstance(target, t.MapType | t.MultisetType) and pa.types.is_map(source):
        key, value = _entry_types(target)
        check_store_cast(source.key_type, key, f"{column}.key")
        check_store_cast(source.item_type, value, f"{column}.value")
        return
    if not _atomic_allowed(source, target):
        raise SchemaMismatchError(
            f"Cannot write column '{column}': {source} does not become {target.sql()} without possible loss. "
            f"Cast the column yourself before writing."
        )


def store_cast(array: pa.Array, target: t.DataType, column: str) -> pa.Array:
    """Cast one array; ``check_store_cast`` has accepted its type.

    Returns:
        An array of ``to_arrow_type(target)``, the very same one when nothing had to be done.

    Raises:
        DataError: a value does not fit, or a nested NOT NULL is violated; names the column and the value.
    """
    wanted = to_arrow_type(target)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(target, t.RowType | t.VariantType):
        return _cast_struct(array, target, column)
    if isinstance(target, t.ArrayType | t.VectorType):
        return _cast_list(array, target, column)
    if isinstance(target, t.MapType | t.MultisetType):
        return _cast_map(array, target, column)
    if array.type != wanted:
        array = _cast_atomic(array, target, wanted, column)
    return _check_length(array, target, column)


def needs_store_cast(source: pa.DataType, target: t.DataType) -> bool:
    """Return whether ``store_cast`` could change or refuse anything, so that callers can skip whole columns."""
    if isinstance(target, t.CharType | t.BinaryType):
        return True
    if isinstance(target, t.VarCharType | t.VarBinaryType) and target.length != type(target).MAX:
        return True
    nested = isinstance(target, t.RowType | t.VariantType | t.ArrayType | t.VectorType | t.MapType | t.MultisetType)
    return bool(nested or source != to_arrow_type(target))


def _plain(source: pa.DataType) -> pa.DataType:
    return source.value_type if pa.types.is_dictionary(source) else source


def _is_list(source: pa.DataType) -> bool:
    return bool(pa.types.is_list(source) or pa.types.is_large_list(source) or pa.types.is_fixed_size_list(source))


def _is_string(source: pa.DataType) -> bool:
    return bool(pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source))


def _is_binary(source: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(source)
        or pa.types.is_large_binary(source)
        or pa.types.is_fixed_size_binary(source)
        or pa.types.is_binary_view(source)
    )


def _is_variant(source: pa.DataType) -> bool:
    if not pa.types.is_struct(source):
        return False
    found = {source.field(i).name: source.field(i).type for i in range(source.num_fields)}
    return set(found) == {"value", "metadata"} and all(_is_binary(kind) for kind in found.values())


def _entry_types(target: t.MapType | t.MultisetType) -> tuple[t.DataType, t.DataType]:
    if isinstance(target, t.MapType):
        return target.key.with_nullable(False), target.value
    return target.element.with_nullable(False), t.IntType(nullable=False)


def _atomic_allowed(source: pa.DataType, target: t.DataType) -> bool:
    types = pa.types
    whole = types.is_integer(source) or (types.is_decimal(source) and source.scale <= 0)
    rules: list[tuple[tuple[type[t.DataType], ...], bool]] = [
        ((t.BooleanType,), types.is_boolean(source)),
        (_INTEGERS, whole),
        ((t.FloatType,), types.is_integer(source) or types.is_float16(source) or types.is_float32(source)),
        ((t.DoubleType,), types.is_integer(source) or types.is_floating(source)),
        ((t.DecimalType,), types.is_integer(source) or types.is_decimal(source)),
        ((t.CharType, t.VarCharType), _is_string(source)),
        ((t.BinaryType, t.VarBinaryType, t.BlobType), _is_binary(source)),
        ((t.DateType,), types.is_date(source)),
        ((t.TimeType,), types.is_time(source) or types.is_int32(source)),
        ((t.TimestampType,), types.is_date(source) or (types.is_timestamp(source) and source.tz is None)),
        ((t.LocalZonedTimestampType,), types.is_timestamp(source) and source.tz is not None),
        ((t.VariantType,), _is_variant(source)),
    ]
    return any(isinstance(target, classes) and bool(allowed) for classes, allowed in rules)


def _cast_atomic(array: pa.Array, target: t.DataType, wanted: pa.DataType, column: str) -> pa.Array:
    def cast(part: pa.Array) -> pa.Array:
        if isinstance(target, t.DecimalType) and pa.types.is_integer(part.type):
            part = part.cast(pa.decimal128(20, 0))
        if isinstance(target, _INTEGERS) and pa.types.is_decimal(part.type):
            part = part.cast(pa.int64())
        if isinstance(target, t.TimeType) and pa.types.is_int32(part.type):
            outside = pc.any(pc.or_(pc.less(part, 0), pc.greater_equal(part, _MILLIS_OF_DAY))).as_py()
            if outside:
                raise pa.ArrowInvalid("not a millisecond of the day")
        return part.cast(wanted)

    return _named_errors(cast, array, target, column)


def _named_errors(cast: Callable[[pa.Array], pa.Array], array: pa.Array, target: t.DataType, column: str) -> pa.Array:
    try:
        return cast(array)
    except pa.ArrowInvalid as error:
        bad = _first_bad(cast, array)
        raise DataError(
            f"Column '{column}' of type {target.sql()} cannot hold the value {_shown(array[bad])}: {error}. "
            f"Nothing is rounded or cut on write; change the value or the column's type."
        ) from error


def _first_bad(cast: Callable[[pa.Array], pa.Array], array: pa.Array) -> int:
    """Position of the first value that cannot be cast, by bisection (only on the way to an error)."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(array.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _shown(scalar: pa.Scalar) -> str:
    text = repr(scalar.as_py()) if not pa.types.is_decimal(scalar.type) else str(scalar.as_py())
    return text if len(text) <= 100 else text[:97] + "..."


def _check_length(array: pa.Array, target: t.DataType, column: str) -> pa.Array:
    """CHAR(n), VARCHAR(n) in code points as Spark checks them; BINARY(n), VARBINARY(n) in bytes."""
    if isinstance(target, t.BinaryType | t.VarBinaryType):
        if target.length != t.VarBinaryType.MAX:
            _refuse_long(array, pc.greater(pc.binary_length(array), target.length), target, column)
        return array
    if not isinstance(target, t.CharType | t.VarCharType) or target.length == t.VarCharType.MAX:
        return array
    long = pc.greater(pc.binary_length(array), target.length)
    if not pc.any(long).as_py():  # as many bytes at most: never more characters
        return array
    long = pc.greater(pc.utf8_length(array), target.length)
    if not pc.any(long).as_py():
        return array
    trimmed = pc.utf8_rtrim(array, " ")
    _refuse_long(array, pc.greater(pc.utf8_length(trimmed), target.length), target, column)
    return pc.if_else(long, pc.utf8_slice_codeunits(array, 0, target.length), array)


def _refuse_long(array: pa.Array, long: pa.BooleanArray, target: t.DataType, column: str) -> None:
    bad = pc.index(long, True).as_py()
    if bad >= 0:
        raise DataError(
            f"Column '{column}' of type {target.sql()} cannot hold the value {_shown(array[bad])}: "
            f"it exceeds the length limitation of the type."
        )


def _check_inner_nulls(
    values: pa.Array, inner: t.DataType, column: str, *, outer_valid: pa.Array | None = None
) -> None:
    if inner.nullable or values.null_count == 0:
        return
    nulls = values.is_null()
    if outer_valid is not None:
        nulls = pc.and_(nulls, outer_valid)
    if pc.any(nulls).as_py():
        raise DataError(f"Cannot write null to non-null column({column}).")


def _without_nulls(array: pa.Array) -> pa.Array:
    """The values without their nulls, which lie under null rows: writers refuse them in fields that are NOT NULL."""
    if not array.null_count or pa.types.is_nested(array.type):
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _cast_struct(array: pa.Array, target: t.RowType | t.VariantType, column: str) -> pa.Array:
    if isinstance(target, t.VariantType):
        binary = t.VarBinaryType(t.VarBinaryType.MAX, nullable=False)
        fields: tuple[t.DataField, ...] = (t.DataField(0, "value", binary), t.DataField(1, "metadata", binary))
    else:
        fields = target.fields
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    found = match_names([f.name for f in fields], names, f"ROW column '{column}'")
    valid = array.is_valid() if array.null_count else None
    children = []
    for field in fields:
        path = f"{column}.{field.name}"
        if field.name not in found:
            children.append(pa.nulls(len(array), to_arrow_type(field.type)))
            continue
        child = array.field(found[field.name])
        _check_inner_nulls(child, field.type, path, outer_valid=valid)
        stored = store_cast(child, field.type, path)
        children.append(stored if field.type.nullable else _without_nulls(stored))
    mask = array.is_null() if array.null_count else None
    arrow_fields = [to_arrow_field(f) for f in fields]
    if isinstance(target, t.VariantType):
        wanted = to_arrow_type(target)
        arrow_fields = [wanted.field(i) for i in range(wanted.num_fields)]
    return pa.StructArray.from_arrays(children, fields=arrow_fields, mask=mask)


def _cast_list(array: pa.Array, target: t.ArrayType | t.VectorType, column: str) -> pa.Array:
    values = array.flatten()  # of this slice, without what lies under nulls
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    element = target.element
    if isinstance(target, t.VectorType):
        bad = np.flatnonzero((lengths != target.length) & array.is_valid().to_numpy(zero_copy_only=False))
        if len(bad):
            raise DataError(
                f"Column '{column}' of type {target.sql()} cannot hold an array of {lengths[bad[0]]} elements."
            )
        element = element.with_nullable(False)
    _check_inner_nulls(values, element, f"{column}.element")
    values = store_cast(values, element, f"{column}.element")
    offsets = _offsets(lengths, column)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=to_arrow_type(target), mask=mask)


def _cast_map(array: pa.Array, target: t.MapType | t.MultisetType, column: str) -> pa.Array:
    key, value = _entry_types(target)
    offsets = array.offsets
    start, stop = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    keys, items = array.keys.slice(start, stop - start), array.items.slice(start, stop - start)
    _check_inner_nulls(keys, key, f"{column}.key")
    _check_inner_nulls(items, value, f"{column}.value")
    keys = store_cast(keys, key, f"{column}.key")
    items = store_cast(items, value, f"{column}.value")
    mask = array.is_null() if array.null_count else None
    shifted = pc.subtract(offsets, start) if start else offsets
    if mask is not None and shifted.offset:
        shifted = pa.array(shifted.to_numpy(), pa.int32())
    return pa.MapArray.from_arrays(shifted, keys, items, type=to_arrow_type(target), mask=mask)


def _offsets(lengths: np.ndarray, column: str) -> pa.Array:
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise DataError(f"Column '{column}': a batch holds more than 2^31 array elements; write smaller batches.")
    return pa.array(ends.astype(np.int32))
