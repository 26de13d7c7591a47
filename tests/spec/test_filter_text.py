"""The text of a predicate is read back as the same predicate."""

import datetime
from decimal import Decimal

import pytest

from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Always, And, Leaf, Not, Or, Predicate
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.spec.sql_text import filter_text, literal_text

_TYPES: dict[str, t.DataType] = {
    "b": t.BooleanType(),
    "i": t.IntType(),
    "l": t.BigIntType(),
    "d": t.DoubleType(),
    "n": t.DecimalType(precision=10, scale=2),
    "odd `name": t.VarCharType(length=t.VarCharType.MAX),
    "x": t.VarBinaryType(length=9),
    "day": t.DateType(),
    "at": t.TimestampType(precision=6),
    "instant": t.LocalZonedTimestampType(precision=6),
}
FIELDS = tuple(t.DataField(number, name, kind) for number, (name, kind) in enumerate(_TYPES.items()))
AT = datetime.datetime(2024, 1, 31, 12, 30, 0, 5)
TEXT = "odd `name"

PREDICATES = [
    *(Leaf(op, "i", (5,)) for op in ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")),
    Leaf("eq", "i", (None,)),
    Leaf("eq_null_safe", "i", (None,)),
    Leaf("eq", "l", (-(2**63),)),
    Leaf("eq", "b", (False,)),
    Leaf("eq", "d", (1.5e300,)),
    Leaf("eq", "n", (Decimal("-12.50"),)),
    Leaf("eq", "x", (b"\x00\xff",)),
    Leaf("eq", "day", (datetime.date(12, 3, 4),)),
    Leaf("eq", "at", (AT,)),
    Leaf("eq", "instant", (AT.replace(tzinfo=datetime.UTC),)),
    *(Leaf("eq", TEXT, (text,)) for text in ("it's", "a\\b", "", "\\'", 'say "x"', "ünï\n")),
    Leaf("in", "i", (1, 2)),
    Leaf("is_null", TEXT),
    Not(Leaf("is_null", "i")),
    Leaf("starts_with", TEXT, ("50%_\\",)),
    Leaf("ends_with", TEXT, ("x'",)),
    Leaf("contains", TEXT, ("y",)),
    Leaf("like", TEXT, ("a_b%c",)),
    And((Leaf("eq", "i", (1,)), Or((Leaf("eq", "l", (2,)), Not(Leaf("is_null", "l")))))),
    Not(And((Leaf("eq", "i", (1,)), Leaf("eq", "l", (2,))))),
    Always(True),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=repr)
def test_round_trip(predicate: Predicate) -> None:
    assert parse_filter(filter_text(predicate), FIELDS) == predicate


def test_not_null_is_one_test() -> None:
    assert filter_text(Leaf("is_not_null", "i")) == "`i` IS NOT NULL"


def test_what_has_no_words() -> None:
    with pytest.raises(ValueError, match="empty list"):
        filter_text(Leaf("in", "i", ()))
    with pytest.raises(ValueError, match="list"):
        literal_text([1])
