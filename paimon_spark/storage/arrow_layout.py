"""From a file's columns to exactly the wanted Arrow types: renaming without copying, the few conversions formats need.

Formats and Paimon agree on how values lie in memory far more often than on names, nullability, time zones and
metadata of nested types. `relabel` puts a wanted type onto data of the same layout without touching a value. What a
library cannot read becomes a CorruptTableError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, DataError, ExpiredFileError, PaimonError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, VariantType, contains_type
from paimon_spark.spec.variant_shredding import has_shredded, unshredded_inside, without_shredding
from paimon_spark.storage.store_errors import translated
from paimon_spark.storage.store_options import redact

Conversion = Callable[[pa.Array], pa.Array]


class _Relabelled:
    """Arrow data under another type: the C data interface keeps the two apart."""

    def __init__(self, data: Any, label: Any) -> None:
        self._data = data
        self._label = label

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._label.__arrow_c_schema__(), self._data.__arrow_c_array__()[1]


def relabel(data: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same buffers as an array of a type with the same layout (see `same_layout`). Nothing is copied."""
    return pa.array(_Relabelled(data, wanted))


def same_layout(one: pa.DataType, other: pa.DataType, *, reinterpret: bool = False) -> bool:
    """Whether values of the two types are the same bytes with the same meaning.

    Names, nullability and metadata of children and the time zone of timestamps may differ. With `reinterpret`,
    timestamps, dates and times also pass as the integers they are stored as.
    """
    if one == other:
        return True
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return one.num_fields == other.num_fields and all(
            one.field(at).name == other.field(at).name
            and same_layout(one.field(at).type, other.field(at).type, reinterpret=reinterpret)
            for at in range(one.num_fields)
        )
    if pa.types.is_list(one) and pa.types.is_list(other):
        return same_layout(one.value_type, other.value_type, reinterpret=reinterpret)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return same_layout(one.key_type, other.key_type, reinterpret=reinterpret) and same_layout(
            one.item_type, other.item_type, reinterpret=reinterpret
        )
    return reinterpret and (_is_integer_like(one, other) or _is_integer_like(other, one))


def _is_integer_like(temporal: pa.DataType, integer: pa.DataType) -> bool:
    return bool(
        pa.types.is_temporal(temporal)
        and pa.types.is_signed_integer(integer)
        and temporal.bit_width == integer.bit_width
    )


def conversion(source: pa.DataType, wanted: pa.DataType) -> Conversion | None:
    """How arrays of a file's type become the wanted type, exactly.

    Returns:
        None when they are equal already, else a function over arrays (it may raise `pa.ArrowInvalid` on values that
        do not fit).

    Raises:
        TypeError: the types are of different kinds, so the file does not hold what its schema says.
    """
    if source == wanted:
        return None
    if pa.types.is_dictionary(source) and source.value_type == wanted:
        return lambda array: array.cast(wanted)
    if same_layout(source, wanted):
        return lambda array: relabel(array, wanted)
    if pa.types.is_struct(source) and pa.types.is_struct(wanted):
        return _struct_conversion(source, wanted)
    if pa.types.is_list(source) and pa.types.is_list(wanted):
        return _list_conversion(source, wanted)
    if pa.types.is_map(source) and pa.types.is_map(wanted):
        return _map_conversion(source, wanted)
    if pa.types.is_list(source) and pa.types.is_map(wanted) and pa.types.is_struct(source.value_type):
        return _map_from_entries(source, wanted)
    if pa.types.is_large_binary(source) and pa.types.is_decimal128(wanted):
        return lambda array: decimals_from_bytes(array, wanted)
    if source == _INT96 and pa.types.is_timestamp(wanted):
        return lambda array: _timestamps_from_int96(array, wanted)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(wanted):
        return _timestamp_conversion(source, wanted)
    if not _same_kind(source, wanted):
        raise TypeError(f"{source} is not {wanted}")
    return lambda array: array.cast(wanted)


def null_column(wanted: pa.DataType, rows: int) -> pa.Array:
    """A column of nulls."""
    return pa.nulls(rows, wanted)


def seconds_as_millis(kind: pa.DataType) -> pa.DataType:
    """The type with timestamps in seconds as milliseconds, since the formats have no seconds."""
    return with_inner_types(
        kind, lambda leaf: pa.timestamp("ms", leaf.tz) if pa.types.is_timestamp(leaf) and leaf.unit == "s" else leaf
    )


def with_inner_types(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with the types in it that are not nested changed; a type that is not nested is changed itself."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(with_inner_types(field.type, change))

    if pa.types.is_struct(kind):
        return pa.struct([changed(child) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(changed(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field))
    return change(kind)


def _struct_conversion(source: pa.StructType, wanted: pa.StructType) -> Conversion:
    steps: list[tuple[int, Conversion | None]] = []
    for field in wanted:
        at = source.get_field_index(field.name)
        steps.append((at, conversion(source.field(at).type, field.type) if at >= 0 else None))

    def convert(array: pa.Array) -> pa.Array:
        children = [
            null_column(field.type, len(array))
            if at < 0
            else array.field(at)
            if step is None
            else step(array.field(at))
            for (at, step), field in zip(steps, wanted, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        fields = [pa.field(field.name, field.type) for field in wanted]
        return relabel(pa.StructArray.from_arrays(children, fields=fields, mask=mask), wanted)

    return convert


def _list_conversion(source: pa.ListType, wanted: pa.ListType) -> Conversion:
    step = conversion(source.value_type, wanted.value_type) or _same

    def convert(array: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(
            wanted, len(array), array.buffers()[:2], array.null_count, array.offset, [step(array.values)]
        )

    return convert


def _map_conversion(source: pa.MapType, wanted: pa.MapType) -> Conversion:
    key_step = conversion(source.key_type, wanted.key_type) or _same
    item_step = conversion(source.item_type, wanted.item_type) or _same
    fields = [wanted.key_field, wanted.item_field]

    def convert(array: pa.Array) -> pa.Array:
        entries = pa.StructArray.from_arrays([key_step(array.keys), item_step(array.items)], fields=fields)
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], array.null_count, array.offset, [entries])

    return convert


def _map_from_entries(source: pa.ListType, wanted: pa.MapType) -> Conversion:
    """Maps that a format stores as lists of (key, value)."""
    entries = source.value_type
    if [child.name for child in entries] != ["key", "value"]:
        raise TypeError(f"{source} is not {wanted}")
    as_map = _map_conversion(pa.map_(entries.field(0).type, entries.field(1).type), wanted)

    def convert(array: pa.Array) -> pa.Array:
        plain = pa.map_(entries.field(0).with_nullable(False), entries.field(1))
        return as_map(relabel(array, plain))

    return convert


def with_nulls_pushed_down(array: pa.Array, hidden: pa.Array | None = None) -> pa.Array:
    """The same values with nulls below null structs, and structs that begin at offset 0.

    pyarrow's ORC writer needs this: it writes wrong rows for structs that are sliced, or null within another struct.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        null = array.is_null() if hidden is None else pc.or_(array.is_null(), hidden)
        children = [with_nulls_pushed_down(array.field(at), null) for at in range(kind.num_fields)]
        fields = [pa.field(child.name, part.type) for child, part in zip(kind, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=null)
    if hidden is not None and pc.any(hidden).as_py():
        array = pc.if_else(hidden, pa.scalar(None, kind), array)
    if pa.types.is_list(kind):
        items = with_nulls_pushed_down(array.values)
        loose = pa.list_(pa.field("element", items.type))
    elif pa.types.is_map(kind):
        items = with_nulls_pushed_down(
            pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])
        )
        loose = pa.map_(items.type.field(0).with_nullable(False), items.type.field(1))
    else:
        return array
    return pa.Array.from_buffers(loose, len(array), array.buffers()[:2], array.null_count, array.offset, [items])


def decimals_from_bytes(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Unscaled values as big-endian two's complement of any length -> decimals (Avro's form, as large_binary).

    Raises:
        pa.ArrowInvalid: a value has more digits than the type.
    """
    rows = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int64, rows + 1, array.offset * 8)
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    if rows == 0 or not len(data):
        # children of null structs are empty and yet not null
        return pc.if_else(array.is_valid(), pa.scalar(Decimal(0), wanted), pa.scalar(None, wanted))
    if lengths.max() > 16:
        raise pa.ArrowInvalid("a decimal has more than 38 digits")
    # Byte k of a little-endian value is byte (length - 1 - k) of the big-endian one; above that, its sign.
    ends = offsets[1:, None] - 1 - np.arange(16)
    inside = np.arange(16) < lengths[:, None]
    first = data[np.minimum(offsets[:-1], len(data) - 1)]
    sign = np.where((lengths > 0) & (first >= 128), 255, 0).astype(np.uint8)
    little = np.where(inside, data[np.maximum(ends, 0)], sign[:, None])
    widest = pa.decimal128(38, wanted.scale)
    validity = pa.array(np.asarray(array.is_valid())).buffers()[1] if array.null_count else None
    values = pa.Array.from_buffers(widest, rows, [validity, pa.py_buffer(np.ascontiguousarray(little))])
    return values.cast(wanted)


def bytes_from_decimals(array: pa.Array) -> pa.Array:
    """Decimals as the shortest big-endian two's complement of their unscaled values (`BigInteger.toByteArray`)."""
    rows = len(array)
    raw = np.frombuffer(array.buffers()[1], np.uint8, rows * 16, array.offset * 16).reshape(-1, 16)
    if array.null_count:
        raw = np.where(np.asarray(array.is_valid())[:, None], raw, 0).astype(np.uint8)
    sign = np.where(raw[:, 15] >= 128, 255, 0).astype(np.uint8)
    # Bytes needed: up to the highest byte that is not sign extension, one more if its top bit is not the sign's.
    significant = raw != sign[:, None]
    top = np.where(significant.any(axis=1), 15 - significant[:, ::-1].argmax(axis=1), 0)
    top_bit = raw[np.arange(rows), top] >= 128
    lengths = np.minimum(top + 1 + (top_bit != (sign == 255)), 16)
    big = np.ascontiguousarray(raw[:, ::-1])
    keep = np.arange(16) >= (16 - lengths)[:, None]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(big[keep])])


def _same(array: pa.Array) -> pa.Array:
    return array


_INT96 = pa.binary(12)
_JULIAN_EPOCH_DAY = 2_440_588
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _timestamps_from_int96(array: pa.Array, wanted: pa.TimestampType) -> pa.Array:
    """Decode Parquet's INT96: 8 bytes nanoseconds of the day, 4 bytes Julian day, little endian."""
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * 12, array.offset * 12).reshape(-1, 12)
    valid = np.asarray(array.is_valid())
    valid &= raw.any(axis=1)  # zeros stand where a struct around a NOT NULL field is null
    nanos = np.where(valid, np.ascontiguousarray(raw[:, :8]).view("<i8")[:, 0], 0)
    days = np.where(valid, np.ascontiguousarray(raw[:, 8:]).view("<i4")[:, 0].astype(np.int64), _JULIAN_EPOCH_DAY)
    days -= _JULIAN_EPOCH_DAY
    per_day = 86_400 * _PER_SECOND[wanted.unit]
    most = (2**63 - 1) // per_day - 1
    if len(array) and (days.min() < -most or days.max() > most):
        raise DataError(
            "a timestamp is before 1677-09-22 or after 2262-04-10, which does not fit into 64-bit nanoseconds; "
            "read without this column, or declare it TIMESTAMP(6)"
        )
    values = days * per_day + nanos // (10**9 // _PER_SECOND[wanted.unit])
    nulls = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values, pa.int64(), mask=nulls).view(wanted)


_UNITS: Sequence[str] = ("s", "ms", "us", "ns")
_FLOOR_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond"}


def _timestamp_conversion(source: pa.TimestampType, wanted: pa.TimestampType) -> Conversion:
    zoned = pa.timestamp(source.unit, wanted.tz)
    if _UNITS.index(source.unit) < _UNITS.index(wanted.unit):
        return lambda array: relabel(array, zoned).cast(wanted)

    def coarsen(array: pa.Array) -> pa.Array:
        plain = relabel(array, pa.timestamp(source.unit))
        target = pa.timestamp(wanted.unit)
        try:
            exact = plain.cast(target)
        except pa.ArrowInvalid:
            exact = pc.floor_temporal(plain, unit=_FLOOR_NAMES[wanted.unit]).cast(target)
        return relabel(exact, wanted)

    return coarsen


def _same_kind(source: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(source):
        return source.value_type == wanted or _same_kind(source.value_type, wanted)
    if types.is_integer(source):
        return bool(types.is_signed_integer(wanted) or types.is_time32(wanted) or types.is_date32(wanted))
    if types.is_time(source):
        return bool(types.is_time(wanted))
    if types.is_floating(source):
        return bool(types.is_floating(wanted))
    if types.is_decimal(source):
        return bool(types.is_decimal(wanted))
    return bool(_is_bytes(source) and _is_bytes(wanted))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )


T = TypeVar("T")


@contextlib.contextmanager
def corrupt_as(path: str, what: str) -> Iterator[None]:
    """Turn a library's errors about bytes into CorruptTableError; errors of the store pass."""
    try:
        yield
    except FileNotFoundError:
        raise ExpiredFileError(
            "A data file is missing. If the table is expired or compacted while it is read, "
            "keep snapshots longer (snapshot.time-retained)",
            path=redact(path),
        ) from None
    except PaimonError:
        raise
    except (pa.ArrowException, EOFError, UnicodeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _corrupt(path, what, error) from error
    except OSError as error:
        # pyarrow's own errors are plain OSErrors without a number; the store's have one or are subclasses.
        if type(error) is not OSError or error.errno is not None:
            raise translated(error, path) from None
        raise _corrupt(path, what, error) from error


def each_as_corrupt(items: Iterator[T], path: str, what: str) -> Iterator[T]:
    """The items of a lazy reader, its errors turned as in `corrupt_as`."""
    while True:
        with corrupt_as(path, what):
            item = next(items, None)
        if item is None:
            return
        yield item


def _corrupt(path: str, what: str, error: BaseException) -> CorruptTableError:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return CorruptTableError(f"The file is not a valid {what} file of this table: {reason[:500]}", path=redact(path))


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How batches of a file become batches of the wanted fields.

    Attributes:
        schema: Schema of the result.
        path: The file, for messages.
        sources: Names of the file's columns that are read.
        steps: For each wanted field the file's column and its conversion; `(None, None)` for a column of nulls.
    """

    schema: pa.Schema
    path: str
    sources: list[str]
    steps: tuple[tuple[str | None, Conversion | None], ...]

    @staticmethod
    def of(
        file_schema: pa.Schema, fields: Sequence[DataField], path: str, *, dictionaries: Container[str] = ()
    ) -> ColumnPlan:
        """Plan the columns.

        Raises:
            CorruptTableError: a field that is NOT NULL is missing, or a column is of another kind than its field.
        """
        schema = to_arrow_schema(fields)
        steps: list[tuple[str | None, Conversion | None]] = []
        for field, wanted in zip(fields, schema, strict=True):
            at = file_schema.get_field_index(field.name)
            if at < 0:
                if not wanted.nullable:
                    raise CorruptTableError(f"The file lacks the NOT NULL column '{field.name}'", path=redact(path))
                steps.append((None, None))
                continue
            found = file_schema.field(at).type
            if field.name in dictionaries:
                steps.append((field.name, None))
                schema = schema.set(len(steps) - 1, wanted.with_type(found))
                continue
            plain: Conversion | None = None
            if contains_type(field.type, VariantType) and has_shredded(field.type, found):
                plain = partial(unshredded_inside, field.type)
                found = without_shredding(field.type, found)
            try:
                steps.append((field.name, _both(plain, conversion(found, wanted.type))))
            except TypeError:
                raise CorruptTableError(
                    f"Column '{field.name}' is {field.type.sql()} in the table but {found} in the file",
                    path=redact(path),
                ) from None
        return ColumnPlan(schema, path, [name for name, _ in steps if name is not None], tuple(steps))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch of the result."""
        columns = [
            null_column(field.type, batch.num_rows)
            if name is None
            else batch.column(name)
            if convert is None
            else self._converted(name, convert, batch)
            for (name, convert), field in zip(self.steps, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _converted(self, name: str, convert: Conversion, batch: pa.RecordBatch) -> pa.Array:
        try:
            return convert(batch.column(name))
        except pa.ArrowInvalid as error:
            raise CorruptTableError(f"Column '{name}': {error}", path=redact(self.path)) from error
        except DataError as error:
            raise DataError(f"Column '{name}': {error} (file: {redact(self.path)})") from error

    def rows_without_columns(self, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Batches where the file has none of the wanted columns: nulls, or only a number of rows."""
        while rows > 0:
            count = min(rows, batch_rows)
            counter = pa.RecordBatch.from_arrays([pa.nulls(count)], names=["_"])
            yield self.apply(counter) if self.steps else counter.select([])
            rows -= count


def _both(first: Conversion | None, second: Conversion | None) -> Conversion | None:
    """Return one conversion after the other."""
    if first is None or second is None:
        return first or second
    return lambda array: second(first(array))
