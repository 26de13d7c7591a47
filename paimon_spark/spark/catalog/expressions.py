"""Spark's V2 predicates as our predicate tree: what the tree says exactly; the rest stays with Spark.

Reads ``org.apache.spark.sql.connector.expressions`` objects through py4j, a few calls for each node of a predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from paimon_spark.read.metadata_columns import PARTITION
from paimon_spark.spark.catalog.literal_lists import literal_list
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Always, Leaf, Not, Predicate, all_of, any_of

_COMPARISONS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "eq_null_safe"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_TEXTS = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
_NULLS = {"IS_NULL": "is_null", "IS_NOT_NULL": "is_not_null"}
_CONDITIONS = ("Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_LONG_LIST = 16
"""Values from which a list comes in one call."""

_SPARK_DIGITS = 6  # Spark's timestamps are microseconds


class _NotOurs(Exception):
    """The tree cannot say this."""


def to_predicate(
    predicate: JavaObject,
    fields: Sequence[t.DataField],
    partition_keys: Sequence[str] = (),
    *,
    gateway: Gateway | None = None,
) -> Predicate | None:
    """The tree of a V2 predicate that is true for exactly the same rows; None when there is none.

    Args:
        predicate: a ``Predicate`` of Spark's connector expressions.
        fields: the table's columns.
        partition_keys: those which the metadata column ``__paimon_partition`` holds too; none if there is no such one.
        gateway: the JVM, by which long lists of literals come in one call.
    """
    translator = _Translator({field.name: field for field in fields}, frozenset(partition_keys), gateway)
    try:
        return translator.condition(predicate)
    except _NotOurs:
        return None


def field_reference(expression: JavaObject) -> str | None:
    """The name of the top-level column that an expression is; None when it is anything else."""
    if _kind(expression) != "FieldReference":
        return None
    names = list(expression.fieldNames())
    return str(names[0]) if len(names) == 1 else None


def _kind(expression: JavaObject) -> str:
    return str(expression.getClass().getSimpleName())


class _Translator:
    def __init__(self, fields: dict[str, t.DataField], partition_keys: frozenset[str], gateway: Gateway | None) -> None:
        self._fields = fields
        self._partition_keys = partition_keys
        self._gateway = gateway

    def condition(self, node: JavaObject) -> Predicate:
        """The tree of a boolean expression."""
        if _kind(node) not in _CONDITIONS:
            raise _NotOurs
        name = str(node.name())
        if name == "IN":
            return self._in(node.children())
        children = list(node.children())
        if name in ("AND", "OR"):
            return (all_of if name == "AND" else any_of)([self.condition(child) for child in children])
        if name == "NOT":
            return Not(self.condition(children[0]))
        if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
            return Always(name == "ALWAYS_TRUE")
        if name in _NULLS:
            return Leaf(_NULLS[name], self._column(children[0]).name)
        if name in _TEXTS:
            field = self._column(children[0])
            if not isinstance(field.type, t.CharType | t.VarCharType):
                raise _NotOurs
            return Leaf(_TEXTS[name], field.name, (self._literal(children[1], field),))
        if name in _COMPARISONS:
            return self._comparison(_COMPARISONS[name], *children)
        raise _NotOurs

    def _comparison(self, op: str, left: JavaObject, right: JavaObject) -> Predicate:
        if _kind(left) == "LiteralValue":
            left, right, op = right, left, _MIRRORED.get(op, op)
        field = self._column(left)
        return Leaf(op, field.name, (self._literal(right, field),))

    def _in(self, given: JavaObject) -> Predicate:
        count = len(given)
        field = self._column(given[0])
        if count == 1:
            return Leaf("in", field.name, ())
        parsed = literal_list(self._gateway, given) if self._gateway is not None and count > _LONG_LIST else None
        if parsed is not None:
            spark_type, listed = parsed
            if spark_type and spark_type != to_spark_type(field.type).simpleString():
                raise _NotOurs
            return Leaf("in", field.name, tuple(dict.fromkeys(_value(value, field.type) for value in listed)))
        children = list(given)
        values = [self._literal(children[1], field)]  # Spark gives all values of a list one type
        values += [_value(_value_of(child), field.type) for child in children[2:]]
        return Leaf("in", field.name, tuple(dict.fromkeys(values)))

    def _column(self, node: JavaObject) -> t.DataField:
        names = [str(name) for name in node.fieldNames()] if _kind(node) == "FieldReference" else []
        if len(names) == 2 and names[0] == PARTITION and names[1] in self._partition_keys:
            del names[0]  # the same value as the column's
        if len(names) != 1 or names[0] not in self._fields:
            raise _NotOurs
        return self._fields[names[0]]

    def _literal(self, node: JavaObject, field: t.DataField) -> Any:
        if _kind(node) != "LiteralValue":
            raise _NotOurs
        value = _value_of(node)
        if value is not None and node.dataType().simpleString() != to_spark_type(field.type).simpleString():
            raise _NotOurs
        return _value(value, field.type)


def _value_of(node: JavaObject) -> Any:
    """A literal's value as Python has it: Spark's own objects as text or Decimal."""
    value = node.value()
    if not hasattr(value, "getClass"):
        return value
    if value.getClass().getSimpleName() == "Decimal":
        return value.toJavaBigDecimal()
    return value.toString()  # UTF8String


def _value(value: Any, data_type: t.DataType) -> Any:
    """A literal as Spark keeps it, in the form that the tree wants for a column of `data_type`."""
    if value is None:
        return None
    match data_type:
        case t.BooleanType() if isinstance(value, bool):
            return value
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType() if _is_int(value):
            return value
        case t.FloatType() if isinstance(value, float):
            return float(np.float32(value))  # py4j brings a Float as its shortest text, which is another double
        case t.DoubleType() if isinstance(value, float):
            return value
        case t.DecimalType() if isinstance(value, Decimal):
            return value
        case t.CharType() | t.VarCharType() if isinstance(value, str):
            return value
        case t.BinaryType() | t.VarBinaryType() if isinstance(value, bytes | bytearray):
            return bytes(value)
        case t.DateType() if _is_int(value) and 1 <= value + _EPOCH_DAY <= date.max.toordinal():
            return date.fromordinal(value + _EPOCH_DAY)
        case t.TimeType() if _is_int(value) and 0 <= value < 86_400_000:
            return (_EPOCH + timedelta(milliseconds=value)).time() if value else time()
        case t.TimestampType() | t.LocalZonedTimestampType() if _is_int(value):
            return _timestamp(value, data_type)
    raise _NotOurs


def _timestamp(micros: int, data_type: t.TimestampType | t.LocalZonedTimestampType) -> datetime:
    # finer columns are shown cut to microseconds, which a comparison of the column itself does not do
    if data_type.precision > _SPARK_DIGITS or micros % 10 ** (_SPARK_DIGITS - data_type.precision):
        raise _NotOurs
    try:
        clock = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _NotOurs from None
    return clock.replace(tzinfo=UTC) if isinstance(data_type, t.LocalZonedTimestampType) else clock


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
