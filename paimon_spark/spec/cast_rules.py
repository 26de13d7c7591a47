"""Which types a column may change into (Java ``DataTypeCasts`` and ``CastExecutors``)."""

from __future__ import annotations

from paimon_spark.spec.data_types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)

INTEGERS = (TinyIntType, SmallIntType, IntType, BigIntType)
FLOATS = (FloatType, DoubleType)
NUMBERS = (*INTEGERS, *FLOATS, DecimalType)
TEXTS = (CharType, VarCharType)
BINARIES = (BinaryType, VarBinaryType)
TIMESTAMPS = (TimestampType, LocalZonedTimestampType)
NESTED = (ArrayType, MapType, RowType)

# Target -> sources that lose nothing (as Java sees it), each type to itself left out.
_IMPLICIT: dict[type[DataType], tuple[type[DataType], ...]] = {
    VarCharType: TEXTS,
    VarBinaryType: BINARIES,
    DecimalType: NUMBERS,
    SmallIntType: INTEGERS[:1],
    IntType: INTEGERS[:2],
    BigIntType: INTEGERS[:3],
    FloatType: (*INTEGERS, DecimalType),
    DoubleType: NUMBERS,
    DateType: (TimestampType,),
    TimeType: (TimestampType,),
    TimestampType: TIMESTAMPS,
    LocalZonedTimestampType: TIMESTAMPS,
}


def same_type(left: DataType, right: DataType) -> bool:
    """Whether two types are equal but for their own nullability."""
    return left.with_nullable(True) == right.with_nullable(True)


def has_rule(source: DataType, target: DataType) -> bool:
    """Whether there is a rule for values of one type as another; nested types to nested ones are not asked here."""
    match target:
        case _ if isinstance(target, TEXTS):
            if isinstance(source, (*NUMBERS, BooleanType, *TEXTS, *BINARIES)):
                return True
            if isinstance(source, NESTED):
                return all(has_rule(inner, STRING) or isinstance(inner, NESTED) for inner in _inner(source))
            is_string = isinstance(target, VarCharType) and target.length == VarCharType.MAX
            return is_string and isinstance(source, (*TIMESTAMPS, TimeType, DateType))
        case BooleanType():
            return isinstance(source, (*INTEGERS, *TEXTS))
        case _ if isinstance(target, NUMBERS):
            if isinstance(source, TIMESTAMPS):
                return isinstance(target, IntType | BigIntType)
            return isinstance(source, (*NUMBERS, BooleanType, *TEXTS))
        case _ if isinstance(target, BINARIES):
            return isinstance(source, (*BINARIES, *TEXTS))
        case DateType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case TimeType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case _ if isinstance(target, TIMESTAMPS):
            return isinstance(source, (*TIMESTAMPS, DateType, TimeType, IntType, BigIntType, *TEXTS))
    return False


STRING = VarCharType(VarCharType.MAX)


def _inner(source: DataType) -> tuple[DataType, ...]:
    match source:
        case ArrayType():
            return (source.element,)
        case MapType():
            return (source.key, source.value)
        case RowType():
            return tuple(f.type for f in source.fields)
    return ()


def can_cast(source: DataType, target: DataType, *, explicit: bool = True) -> bool:
    """Whether a column of one type may be changed into another.

    Args:
        source: The column's type.
        target: The type asked for. ROW into ROW goes by field ids, ARRAY and MAP by their elements and values.
        explicit: Allow casts that lose information too (`disable-explicit-type-casting` unset).
    """
    if not explicit and source.nullable and not target.nullable:
        return False
    if same_type(source, target):
        return True
    match source, target:
        case ArrayType(), ArrayType():
            return can_cast(source.element, target.element, explicit=explicit)
        case MapType(), MapType():
            return same_type(source.key, target.key) and can_cast(source.value, target.value, explicit=explicit)
        case RowType(), RowType():
            old = {f.id: f.type for f in source.fields}
            return all(can_cast(old[f.id], f.type, explicit=explicit) for f in target.fields if f.id in old)
    if not has_rule(source, target):
        return False
    return explicit or type(source) is type(target) or isinstance(source, _IMPLICIT.get(type(target), ()))
