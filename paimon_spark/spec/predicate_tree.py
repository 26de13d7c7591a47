"""The tree of a row predicate: leaves over one column each, and AND, OR, NOT in SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
