"""The tree of a row predicate: leaves over one column each, and AND, OR, NOT in SQL's three-valued logic.

A tree becomes an Arrow expression for scans, and a mask of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import SchemaError

OPERATORS = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "between", "in", "not_in"),
        *("is_null", "is_not_null", "starts_with", "ends_with", "contains", "like"),
    )
)
"""Operators of leaves. `between` has two literals, `in` and `not_in` any number, null tests none, the others one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Predicate:
    """Root of all predicates."""

    def __and__(self, other: Predicate) -> Predicate:
        return all_of((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return any_of((self, other))

    def __invert__(self) -> Predicate:
        return Not(self)


@dataclass(frozen=True, slots=True)
class Leaf(Predicate):
    """A test of one column, or of the value that a map has for a key: null where it has none.

    FLOAT and DOUBLE compare as in Spark: NaN equals NaN and is greater than everything else; -0.0 equals 0.0.

    Attributes:
        op: One of `OPERATORS`.
        field: The column's name.
        literals: Python values of the column's type (int, float, bool, str, bytes, Decimal, date, datetime, time; a
            numpy.datetime64 where microseconds are too coarse); None stands for NULL.
        key: Of a column MAP<STRING, …>, whose value for it is tested; None tests the column itself.
    """

    op: str
    field: str
    literals: tuple[Any, ...] = ()
    key: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple(self.literals))
        if self.op not in OPERATORS:
            raise ValueError(f"'{self.op}' is not an operator of predicates")
        count = len(self.literals)
        expected = {"between": 2, "is_null": 0, "is_not_null": 0}.get(self.op, 1)
        if self.op not in ("in", "not_in") and count != expected:
            raise ValueError(f"'{self.op}' takes {expected} literals, not {count}")


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True where all children are; without children always true."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True where at least one child is; without children always false."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True where the child is false (not where it is unknown)."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """The same for every row."""

    value: bool


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """The conjunction, flattened and without needless parts."""
    parts: dict[Predicate, None] = {}
    for predicate in predicates:
        for part in predicate.children if isinstance(predicate, And) else (predicate,):
            if part == Always(False):
                return part
            if part != Always(True):
                parts[part] = None
    return Always(True) if not parts else next(iter(parts)) if len(parts) == 1 else And(tuple(parts))


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """The disjunction, flattened and without needless parts."""
    parts: dict[Predicate, None] = {}
    for predicate in predicates:
        for part in predicate.children if isinstance(predicate, Or) else (predicate,):
            if part == Always(True):
                return part
            if part != Always(False):
                parts[part] = None
    return Always(False) if not parts else next(iter(parts)) if len(parts) == 1 else Or(tuple(parts))


def fields(predicate: Predicate) -> set[str]:
    """Names of all columns that the predicate looks at."""
    match predicate:
        case Leaf():
            return {predicate.field}
        case And() | Or():
            return set().union(*(fields(child) for child in predicate.children))
        case Not():
            return fields(predicate.child)
    return set()


def split_and(predicate: Predicate) -> list[Predicate]:
    """The conjuncts; none for a predicate that is always true."""
    if isinstance(predicate, And):
        return [part for child in predicate.children for part in split_and(child)]
    return [] if predicate == Always(True) else [predicate]


class KeyOfMap(str):
    """Stands for the value of a map's key where the name of a column is expected."""

    __slots__ = ("column", "key")

    column: str
    key: str

    def __new__(cls, column: str, key: str) -> KeyOfMap:
        """Name the column and the key."""
        made = super().__new__(cls, f"{column}[{key}]")
        made.column, made.key = column, key
        return made


def with_keys(predicate: Predicate) -> Predicate:
    """The predicate with the keys of maps as such."""
    match predicate:
        case Leaf() if isinstance(predicate.field, KeyOfMap):
            return Leaf(predicate.op, predicate.field.column, predicate.literals, predicate.field.key)
        case And() | Or():
            return replace(predicate, children=tuple(map(with_keys, predicate.children)))
        case Not():
            return Not(with_keys(predicate.child))
    return predicate


def fold(
    predicate: Predicate,
    leaf: Callable[[Leaf, bool], T],
    both: Callable[[list[T]], T],
    either: Callable[[list[T]], T],
    constant: Callable[[bool], T],
) -> T:
    """Compute bottom up, with every NOT moved down to the leaves, so that only "is it true" must be computed.

    In three-valued logic NOT over AND and OR obeys De Morgan, and AND and OR of parts without NOT are true exactly if
    enough parts are true; so false and unknown need no distinction above the leaves.

    Args:
        predicate: What to compute.
        leaf: Result for a leaf, and for its negation when the flag is set.
        both: Result of an AND.
        either: Result of an OR.
        constant: Result of always true or always false.
    """

    def walk(node: Predicate, negated: bool) -> T:
        match node:
            case Leaf():
                return leaf(node, negated)
            case Not():
                return walk(node.child, not negated)
            case And() | Or() if not node.children:
                return constant(isinstance(node, And) != negated)
            case And() | Or():
                parts = [walk(child, negated) for child in node.children]
                return both(parts) if isinstance(node, And) != negated else either(parts)
            case Always():
                return constant(node.value != negated)
        raise TypeError(f"{type(node).__name__} is not a predicate")

    return walk(predicate, False)


def implied_by(predicate: Predicate | None, names: Collection[str]) -> Predicate | None:
    """As `project`, to be pushed down; None where there is nothing to push down."""
    projected = None if predicate is None or not names else project(predicate, names)
    return None if projected == Always(True) else projected


def project(predicate: Predicate, names: Iterable[str]) -> Predicate:
    """What the predicate implies for some columns alone: true wherever the predicate is, for pruning.

    Of an AND the parts over these columns remain; an OR remains if each side restricts them.
    """
    kept = frozenset(names)
    return fold(
        predicate,
        lambda leaf, negated: (Not(leaf) if negated else leaf) if leaf.field in kept else Always(True),
        all_of,
        any_of,
        Always,
    )


def rename(predicate: Predicate, new_names: Mapping[str, str]) -> Predicate:
    """The predicate with columns renamed; names that are not in the mapping stay."""
    match predicate:
        case Leaf():
            return replace(predicate, field=new_names.get(predicate.field, predicate.field))
        case And():
            return And(tuple(rename(child, new_names) for child in predicate.children))
        case Or():
            return Or(tuple(rename(child, new_names) for child in predicate.children))
        case Not():
            return Not(rename(predicate.child, new_names))
    return predicate


_MANY_LITERALS = 32
_COMPARISONS: dict[str, str] = {
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
}
_NEGATED: dict[str, str] = {
    **{"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"},
    **{"in": "not_in", "not_in": "in", "is_null": "is_not_null", "is_not_null": "is_null"},
}


def literal_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """The literal as a scalar of the column's type; of its own type where the column's cannot hold it exactly."""
    if isinstance(value, np.datetime64):
        zone = data_type.tz if pa.types.is_timestamp(data_type) else None
        return pa.scalar(int(value.astype("datetime64[ns]").astype(np.int64)), pa.timestamp("ns", tz=zone))
    try:
        scalar = pa.scalar(value, type=data_type)
        # Arrow would quietly cut 3.5 for an integer, or a time of day for a date
        if scalar.as_py() == value:
            return scalar
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        pass
    return pa.scalar(value)


def is_nan(value: Any) -> bool:
    """Whether a literal is NaN."""
    return isinstance(value, float) and math.isnan(value)


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
    """A mask of the batch's rows, without nulls: true where the predicate is.

    Raises:
        SchemaError: A column is not in the batch.
    """
    rows = batch.num_rows

    def leaf(node: Leaf, negated: bool) -> Any:
        data_type, column = _type_of(node, batch.schema), batch.column(node.field)
        if pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
            column = column.cast(data_type)
        return pc.fill_null(_leaf(_element(column, node), node, negated, data_type), False)

    mask = fold(
        predicate,
        leaf,
        lambda parts: reduce(pc.and_, parts),
        lambda parts: reduce(pc.or_, parts),
        lambda value: pa.repeat(pa.scalar(value), rows),
    )
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def matching(predicate: Predicate, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch for which the predicate is true.

    Raises:
        SchemaError: A column is not in the batch.
    """
    mask = evaluate(predicate, batch)
    return batch if mask.true_count == batch.num_rows else batch.filter(mask)


def _type_of(leaf: Leaf, schema: pa.Schema) -> pa.DataType:
    at = schema.get_field_index(leaf.field)
    if at < 0:
        raise SchemaError(f"Column '{leaf.field}' of the predicate does not exist. The columns are {schema.names}.")
    data_type = schema.field(at).type
    return data_type if leaf.key is None else data_type.item_type


def _element(column: Any, leaf: Leaf) -> Any:
    """What is tested of a column."""
    return column if leaf.key is None else pc.map_lookup(column, leaf.key, "first")


def _leaf(column: Any, leaf: Leaf, negated: bool, data_type: pa.DataType) -> Any:
    """True where the leaf (or its negation) is true; null or false elsewhere. For a column."""
    op, literals = leaf.op, leaf.literals
    if negated:
        if op in _NEGATED:
            op = _NEGATED[op]
        elif op == "between":
            low, high = literals
            return pc.or_kleene(_compare(column, "lt", low, data_type), _compare(column, "gt", high, data_type))
        elif op == "eq_null_safe":
            if literals[0] is None:
                return pc.is_valid(column)
            return pc.or_kleene(pc.is_null(column), _compare(column, "ne", literals[0], data_type))
        else:
            return pc.invert(_leaf(column, leaf, False, data_type))
    match op:
        case "is_null":
            return pc.is_null(column)
        case "is_not_null":
            return pc.is_valid(column)
        case "eq_null_safe":
            return pc.is_null(column) if literals[0] is None else _compare(column, "eq", literals[0], data_type)
        case "between":
            low, high = literals
            return pc.and_kleene(_compare(column, "ge", low, data_type), _compare(column, "le", high, data_type))
        case "in":
            return _member(column, literals, data_type)
        case "not_in":
            if None in literals:
                return _never(column)
            return pc.and_kleene(pc.is_valid(column), pc.invert(_member(column, literals, data_type)))
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge":
            return _compare(column, op, literals[0], data_type)
    if literals[0] is None:
        return _never(column)
    matcher: Callable[..., Any] = {
        "starts_with": pc.starts_with,
        "ends_with": pc.ends_with,
        "contains": pc.match_substring,
        "like": pc.match_like,
    }[op]
    return matcher(column, literals[0])


def _never(column: Any) -> Any:
    return pc.and_kleene(pc.is_valid(column), pc.is_null(column))


def _ever(column: Any) -> Any:
    return pc.is_valid(column)


def _compare(column: Any, op: str, literal: Any, data_type: pa.DataType) -> Any:
    if literal is None:
        return _never(column)
    if not pa.types.is_floating(data_type):
        return getattr(pc, _COMPARISONS[op])(column, literal_scalar(literal, data_type))
    if is_nan(literal):
        nan = pc.is_nan(column)
        return {
            "eq": nan,
            "ge": nan,
            "ne": pc.invert(nan),
            "lt": pc.invert(nan),
            "le": _ever(column),
            "gt": _never(column),
        }[op]
    # as doubles: a FLOAT column against 0.1 compares as Spark does, not rounded to the column's type
    wide = column.cast(pa.float64()) if data_type != pa.float64() else column
    plain = getattr(pc, _COMPARISONS[op])(wide, pa.scalar(float(literal), pa.float64()))
    return pc.or_kleene(plain, pc.is_nan(column)) if op in ("gt", "ge") else plain


def _values_of_type(literals: tuple[Any, ...], data_type: pa.DataType) -> pa.Array:
    """The literals that the column's type can hold exactly; another equals none of its values."""
    if len(literals) > _MANY_LITERALS and len(kinds := set(map(type, literals)) - {type(None)}) == 1:
        return _many_of_type(literals, data_type, kinds.pop())
    values = (literal_scalar(value, data_type) for value in literals if value is not None)
    return pa.array([scalar for scalar in values if scalar.type == data_type], data_type)


@lru_cache(maxsize=4)
def _many_of_type(literals: tuple[Any, ...], data_type: pa.DataType, kind: type[Any]) -> pa.Array:
    """The same for literals of one Python type, all at once; each batch of a read asks for them."""
    values = [value for value in literals if value is not None]
    if kind is not np.datetime64:
        try:
            array = pa.array(values, data_type)
            if array.to_pylist() == values:  # else Arrow has cut some
                return array
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            pass
    scalars = [scalar for scalar in (literal_scalar(value, data_type) for value in values) if scalar.type == data_type]
    return pa.array(scalars, data_type)


def _member(column: Any, literals: tuple[Any, ...], data_type: pa.DataType) -> Any:
    """True where the column is one of the literals, false elsewhere (for null too)."""
    values = [value for value in literals if value is not None]
    nan = any(is_nan(value) for value in values)
    values = [value for value in values if not is_nan(value)]
    if not values:
        return pc.and_kleene(pc.is_valid(column), pc.is_nan(column)) if nan else _never(column)
    if pa.types.is_floating(data_type):
        values = [v for value in values for v in ((0.0, -0.0) if value == 0 else (float(value),))]
        wide = column.cast(pa.float64()) if data_type != pa.float64() else column
        found = pc.is_in(wide, value_set=pa.array(values, pa.float64()))
    else:
        held = _values_of_type(literals, data_type)
        if not len(held):
            return _never(column)
        found = pc.is_in(column, value_set=held)
    return pc.or_kleene(found, pc.and_kleene(pc.is_valid(column), pc.is_nan(column))) if nan else found
