"""Spark's V2 predicates as Paimon predicates. Spark evaluates those that have no exact equal.

An expression comes as a `Tree`: what ``PaimonArguments`` in the JVM makes of one of
``org.apache.spark.sql.connector.expressions``, in one call.

==================================== ==========================================================
``["field", names]``                 a column, a nested field of one, or a key of a map
``["literal", type, value]``         a constant of a type as Spark writes it
``["in", tree, type, values]``       literals of one type behind IN
``["predicate", kind, name, trees]`` a predicate by the name of its class and its own
``["other", kind]``                  anything else
==================================== ==========================================================

Values are null, true, integers (also of dates and times), texts, or of ``["float" | "decimal" | "bytes", text]``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from paimon_spark.read.metadata_columns import PARTITION, planned_metadata_fields
from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.jvm.answer_proxy import java_entry
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Always, KeyOfMap, Leaf, Not, Predicate, all_of, any_of, with_keys

if TYPE_CHECKING:
    from paimon_spark.read.table_scan import RowView
    from paimon_spark.table.table import FileStoreTable

Tree = list[Any]
"""An expression of Spark's as lists."""

_COMPARISONS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "eq_null_safe"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_TEXTS = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
_NULLS = {"IS_NULL": "is_null", "IS_NOT_NULL": "is_not_null"}
_CONDITIONS = ("Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_SPARK_DIGITS = 6  # Spark's timestamps are microseconds


class _NotOurs(Exception):
    """The expression has no equal predicate."""


def tree_of(gateway: Gateway, expression: JavaObject) -> Tree:
    """Return the tree of a Java expression, in one call."""
    found: Tree = json.loads(java_entry(gateway).apply(None, expression))
    return found


def to_predicate(tree: Tree, fields: Sequence[t.DataField], partition_keys: Sequence[str] = ()) -> Predicate | None:
    """Return the predicate that is true for exactly the same rows; None without one.

    Args:
        tree: a ``Predicate`` of Spark's connector expressions.
        fields: the table's columns.
        partition_keys: those which the metadata column ``__paimon_partition`` holds too; none if there is no such one.
    """
    translator = _Translator({field.name: field for field in fields}, frozenset(partition_keys))
    try:
        return with_keys(translator.condition(tree))
    except _NotOurs:
        return None


def field_reference(tree: Tree) -> str | None:
    """The name of the top-level column that an expression is; None when it is anything else."""
    return str(tree[1][0]) if tree[0] == "field" and len(tree[1]) == 1 else None


class _Translator:
    def __init__(self, fields: dict[str, t.DataField], partition_keys: frozenset[str]) -> None:
        self._fields = fields
        self._partition_keys = partition_keys

    def condition(self, tree: Tree) -> Predicate:
        """The predicate of a boolean expression."""
        match tree:
            case ["in", column, spark_type, values]:
                return self._in(column, spark_type, values)
            case ["predicate", kind, name, children] if kind in _CONDITIONS:
                return self._named(name, children)
        raise _NotOurs

    def _named(self, name: str, children: list[Tree]) -> Predicate:
        if name == "IN":
            return self._listed(children[0], children[1:])
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

    def _comparison(self, op: str, left: Tree, right: Tree) -> Predicate:
        if left[0] == "literal":
            left, right, op = right, left, _MIRRORED.get(op, op)
        field = self._column(left)
        return Leaf(op, field.name, (self._literal(right, field),))

    def _listed(self, column: Tree, literals: list[Tree]) -> Predicate:
        if any(literal[0] != "literal" for literal in literals):
            raise _NotOurs
        typed = next((literal[1] for literal in literals if literal[2] is not None), None)
        return self._in(column, typed, [literal[2] for literal in literals])  # Spark gives all values one type

    def _in(self, column: Tree, spark_type: str | None, values: list[Any]) -> Predicate:
        field = self._column(column)
        plain = [_plain(value) for value in values]
        if any(value is not None for value in plain) and spark_type != to_spark_type(field.type).simpleString():
            raise _NotOurs
        return Leaf("in", field.name, tuple(dict.fromkeys(_value(value, field.type) for value in plain)))

    def _column(self, tree: Tree) -> t.DataField:
        names = list(tree[1]) if tree[0] == "field" else []
        if len(names) == 2 and names[0] == PARTITION and names[1] in self._partition_keys:
            del names[0]  # the same value as the column's
        field = self._fields.get(names[0]) if names else None
        if field is None or len(names) > 2:
            raise _NotOurs
        if len(names) == 1:
            return field
        of_map = field.type
        if not isinstance(of_map, t.MapType) or isinstance(of_map.value, t.CharType):
            raise _NotOurs
        return t.DataField(field.id, KeyOfMap(field.name, names[1]), of_map.value)

    def _literal(self, tree: Tree, field: t.DataField) -> Any:
        if tree[0] != "literal":
            raise _NotOurs
        value = _plain(tree[2])
        if value is not None and tree[1] != to_spark_type(field.type).simpleString():
            raise _NotOurs
        return _value(value, field.type)


def _plain(value: Any) -> Any:
    """Return the value of a literal in Python; objects of Spark become text or Decimal."""
    if not isinstance(value, list):
        return value
    kind, text = value
    if kind == "bytes":
        return base64.b64decode(text)
    return float(text) if kind == "float" else Decimal(text)


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


def pushed_down(view: RowView, table: FileStoreTable, predicate: Tree) -> tuple[Predicate | None, Predicate | None]:
    """One of Spark's predicates as ours: over the table's columns, or else over metadata columns of files."""
    if view is not ROWS:
        return to_predicate(predicate, view.fields(table)), None
    schema = table.schema
    partition = () if schema.has_field(PARTITION) else schema.partition_keys
    ours = to_predicate(predicate, schema.fields, partition)
    return ours, None if ours is not None else to_predicate(predicate, planned_metadata_fields(schema))
