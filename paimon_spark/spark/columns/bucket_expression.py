"""The bucket of a row as an SQL expression of Spark's public functions: so rows are assigned without a Python task.

``hash`` of a BINARY is Java's murmur hash of these bytes where they are whole 4-byte words, as those of a BinaryRow
are (Spark: ``Murmur3_x86_32.hashUnsafeBytes``; Java: ``MurmurHashUtils.hashBytesByWords``). So the expression builds
the BinaryRow of the bucket key (docs/internals/format.md §5), and works on classic and Connect sessions alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spec.binary_row import HEADER_BITS, MAX_INLINE_BYTES, SlotKind, fixed_bytes, slot_kind
from paimon_spark.spec.data_types import CharType, DataField, DecimalType, LocalZonedTimestampType, TimestampType
from paimon_spark.spec.hashing import BucketFunction
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.write.store_cast import needs_store_cast

_LOW_NIBBLES = 0x0F0F0F0F0F0F0F0F
_MOST_FIELDS = 64 - HEADER_BITS
_MOST_TEXTS = 3
_ZEROS = "X'00000000000000'"
_NO_WORD = "X'0000000000000000'"
_MICROS = 6
_WIDTH_MASKS = {SlotKind.INT8: 0xFF, SlotKind.INT16: 0xFFFF, SlotKind.INT32: 0xFFFFFFFF, SlotKind.TIME: 0xFFFFFFFF}


@dataclass(frozen=True, slots=True)
class _Slot:
    """One field: its 8 bytes behind the null bits, and its bytes in the variable part."""

    words: str
    """The 8 bytes where the value is no null; `{offset}` stands for the start of its variable part."""
    variable: str = ""
    """Bytes in the variable part; empty where there are none."""
    size: str = ""
    """How many they are."""


def kept_as_given(field: DataField, given: pa.DataType | None = None) -> bool:
    """Return whether a column stores values as given: without a cast, a default for nulls, or trimmed spaces.

    Args:
        field: the column of the table.
        given: Arrow type of the values; as Spark shows the column, if not given.
    """
    if field.default_value is not None and field.type.nullable:
        return False
    if given is None:
        given = spark_arrow_schema(to_spark_struct([field])).field(0).type
    return not needs_store_cast(given, field.type)


def bucket_expression(schema: TableSchema, names: Mapping[str, str] | None = None) -> str | None:
    """SQL whose value is the bucket of a row that has the table's columns in the types that Spark shows them in.

    Args:
        schema: of the table.
        names: the columns of the bucket key as SQL; by their own names, if not given.

    Returns:
        None where there is no such expression: the table has no fixed number of buckets, or its bucket key has a type
        whose bytes Spark's functions do not give.
    """
    buckets = schema.core_options.bucket
    fields = [schema.field(name) for name in schema.bucket_keys]
    if buckets < 1 or not fields or len(fields) > _MOST_FIELDS:
        return None
    if buckets == 1:
        return "0"
    if any(field.default_value is not None for field in fields):  # it takes the place of a null
        return None
    function = str(schema.core_options.value("bucket-function.type"))
    given = {field.name: quoted_name(field.name) for field in fields} if names is None else names
    if function == BucketFunction.MOD:
        return f"CAST(pmod(coalesce(CAST({given[fields[0].name]} AS BIGINT), 0L), {buckets}L) AS INT)"
    if function != BucketFunction.DEFAULT:
        return None
    row = _binary_row([(field, given[field.name]) for field in fields])
    return None if row is None else f"abs(hash({row}) % {buckets})"


_Named = tuple[DataField, str]
"""A field and its value as SQL."""


def _binary_row(fields: Sequence[_Named]) -> str | None:
    slots = []
    for field, name in fields:
        slot = _slot(field, name)
        if slot is None:
            return None
        slots.append(slot)
    if sum(bool(slot.variable) for slot in slots) > _MOST_TEXTS:
        return None
    start = str(fixed_bytes(len(fields)))
    words, variable = [], []
    for (field, name), slot in zip(fields, slots, strict=True):
        nullable = field.type.nullable
        value = slot.words.replace("{offset}", start)
        words.append(f"CASE WHEN {name} IS NULL THEN {_NO_WORD} ELSE {value} END" if nullable else value)
        if slot.variable:
            variable.append(f"coalesce({slot.variable}, X'')" if nullable else slot.variable)
            start = f"({start} + {f'coalesce({slot.size}, 0)' if nullable else slot.size})"
    return f"concat({', '.join([_null_bits(fields), *words, *variable])})"


def _null_bits(fields: Sequence[_Named]) -> str:
    bits = [
        f"CASE WHEN {name} IS NULL THEN {_signed(1 << (number + HEADER_BITS))}L ELSE 0L END"
        for number, (field, name) in enumerate(fields)
        if field.type.nullable
    ]
    return little_endian(" | ".join(bits)) if bits else _NO_WORD


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _slot(field: DataField, name: str) -> _Slot | None:
    """Return the bytes of a field in the row; None for a type without an expression."""
    kind = slot_kind(field.type)
    number = f"CAST({name} AS BIGINT)"
    if kind in _WIDTH_MASKS:
        return _Slot(little_endian(f"{number} & {_WIDTH_MASKS[kind]}L"))
    if kind in (SlotKind.INT64, SlotKind.BOOLEAN):
        return _Slot(little_endian(number))
    if kind is SlotKind.DATE:
        return _Slot(little_endian(f"CAST(unix_date({name}) AS BIGINT) & {0xFFFFFFFF}L"))
    if kind is SlotKind.DECIMAL:
        assert isinstance(field.type, DecimalType)
        return _Slot(little_endian(f"CAST({name} * {10**field.type.scale}BD AS BIGINT)"))
    if kind is SlotKind.WIDE_TIMESTAMP:
        return _timestamp(field, name)
    if kind in (SlotKind.STRING, SlotKind.BYTES):
        return _byte_string(field, name)
    return None


def _timestamp(field: DataField, name: str) -> _Slot | None:
    assert isinstance(field.type, TimestampType | LocalZonedTimestampType)
    if field.type.precision != _MICROS:  # others are not stored as Spark has them
        return None
    micros = f"unix_micros({name})"
    if isinstance(field.type, TimestampType):
        micros = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})"
    rest = f"pmod({micros}, 1000L)"
    millis = f"({micros} - {rest}) DIV 1000L"
    data = little_endian(millis)
    words = little_endian(f"shiftleft(CAST({{offset}} AS BIGINT), 32) | ({rest} * 1000L)")
    if not field.type.nullable:
        return _Slot(words, data, "8")
    return None  # of a null the row keeps the offset


def _byte_string(field: DataField, name: str) -> _Slot | None:
    if isinstance(field.type, CharType) or getattr(field.type, "length", 0) != type(field.type).MAX:  # type: ignore[attr-defined]
        return None  # spaces at the end may be cut
    size, data = f"octet_length({name})", f"CAST({name} AS BINARY)"
    inline = (
        f"concat({data}, substring({_ZEROS}, 1, {MAX_INLINE_BYTES} - {size}), "
        f"unhex(hex({1 << MAX_INLINE_BYTES} + {size})))"
    )
    far = little_endian(f"shiftleft(CAST({{offset}} AS BIGINT), 32) | {size}")
    return _Slot(
        words=f"CASE WHEN {size} <= {MAX_INLINE_BYTES} THEN {inline} ELSE {far} END",
        variable=(
            f"CASE WHEN {size} <= {MAX_INLINE_BYTES} THEN X'' "
            f"ELSE concat({data}, substring({_ZEROS}, 1, pmod(-{size}, 8))) END"
        ),
        size=f"CASE WHEN {size} <= {MAX_INLINE_BYTES} THEN 0 ELSE {size} + pmod(-{size}, 8) END",
    )


def little_endian(value: str) -> str:
    """SQL of the 8 bytes of a BIGINT, lowest first.

    These are its hexadecimal digits backwards, after those of each byte are swapped.
    """
    swapped = f"shiftleft(({value}) & {_LOW_NIBBLES}L, 4) | (shiftright({value}, 4) & {_LOW_NIBBLES}L)"
    return f"unhex(reverse(lpad(hex({swapped}), 16, '0')))"
