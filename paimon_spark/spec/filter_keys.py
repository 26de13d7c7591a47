"""Values of the keys of maps in the conditions of filters: ``attributes['color']``."""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate


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
