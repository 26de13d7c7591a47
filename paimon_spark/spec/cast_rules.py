"""Which types a column may change into (Java ``DataTypeCasts`` and ``CastExecutors``)."""

from __future__ import annotations

from paimon_spark.spec import data_types as t

INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
FLOATS = (t.FloatType, t.DoubleType)
NUMBERS = (*INTEGERS, *FLOATS, t.DecimalType)
TEXTS = (t.CharType, t.VarCharType)
BINARIES = (t.BinaryType, t.VarBinaryType)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
NESTED = (t.ArrayType, t.MapType, t.RowType)

# Target -> sources that lose nothing (as Java sees it), each type to itself left out.
_IMPLICIT: dict[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.VarCharType: TEXTS,
    t.VarBinaryType: BINARIES,
    t.DecimalType: NUMBERS,
    t.SmallIntType: INTEGERS[:1],
    t.IntType: INTEGERS[:2],
    t.BigIntType: INTEGERS[:3],
    t.FloatType: (*INTEGERS, t.DecimalType),
    t.DoubleType: NUMBERS,
    t.DateType: (t.TimestampType,),
    t.TimeType: (t.TimestampType,),
    t.TimestampType: TIMESTAMPS,
    t.LocalZonedTimestampType: TIMESTAMPS,
}


def same_type(left: t.DataType, right: t.DataType) -> bool:
    """Whether two types are equal but for their own nullability."""
    return left.with_nullable(True) == right.with_nullable(True)


def has_rule(source: t.DataType, target: t.DataType) -> bool:
    """Whether there is a rule for values of one type as another; nested types to nested ones are not asked here."""
    match target:
        case _ if isinstance(target, TEXTS):
            if isinstance(source, (*NUMBERS, t.BooleanType, *TEXTS, *BINARIES)):
                return True
            if isinstance(source, NESTED):
                return all(has_rule(inner, STRING) or isinstance(inner, NESTED) for inner in _inner(source))
            is_string = isinstance(target, t.VarCharType) and target.length == t.VarCharType.MAX
            return is_string and isinstance(source, (*TIMESTAMPS, t.TimeType, t.DateType))
        case t.BooleanType():
            return isinstance(source, (*INTEGERS, *TEXTS))
        case _ if isinstance(target, NUMBERS):
            if isinstance(source, TIMESTAMPS):
                return isinstance(target, t.IntType | t.BigIntType)
            return isinstance(source, (*NUMBERS, t.BooleanType, *TEXTS))
        case _ if isinstance(target, BINARIES):
            return isinstance(source, (*BINARIES, *TEXTS))
        case t.DateType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case t.TimeType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case _ if isinstance(target, TIMESTAMPS):
            return isinstance(source, (*TIMESTAMPS, t.DateType, t.TimeType, t.IntType, t.BigIntType, *TEXTS))
    return False


STRING = t.VarCharType(t.VarCharType.MAX)


def _inner(source: t.DataType) -> tuple[t.DataType, ...]:
    match source:
        case t.ArrayType():
            return (source.element,)
        case t.MapType():
            return (source.key, source.value)
        case t.RowType():
            return tuple(f.type for f in source.fields)
    return ()


def can_cast(source: t.DataType, target: t.DataType, *, explicit: bool = True) -> bool:
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
        case t.ArrayType(), t.ArrayType():
            return can_cast(source.element, target.element, explicit=explicit)
        case t.MapType(), t.MapType():
            return same_type(source.key, target.key) and can_cast(source.value, target.value, explicit=explicit)
        case t.RowType(), t.RowType():
            old = {f.id: f.type for f in source.fields}
            return all(can_cast(old[f.id], f.type, explicit=explicit) for f in target.fields if f.id in old)
    if not has_rule(source, target):
        return False
    return explicit or type(source) is type(target) or isinstance(source, _IMPLICIT.get(type(target), ()))
