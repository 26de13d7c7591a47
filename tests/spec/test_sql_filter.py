"""Filters as SQL text: what is understood, exactly what it means, and what is refused by showing the piece."""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import OptionError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import Always, And, Leaf, Not, Or, Predicate, evaluate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.spec.type_parser import parse_type

COLUMNS = {
    "a": "INT",
    "k": "BIGINT",
    "ti": "TINYINT",
    "c": "DECIMAL(10, 2)",
    "f": "FLOAT",
    "g": "DOUBLE",
    "b": "STRING",
    "ch": "CHAR(3)",
    "y": "BOOLEAN",
    "x": "BYTES",
    "d": "DATE",
    "t": "TIME(3)",
    "ts": "TIMESTAMP(3)",
    "us": "TIMESTAMP(6)",
    "ns": "TIMESTAMP(9)",
    "lz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "arr": "ARRAY<INT>",
    "Mixed Case": "INT",
    "q`q": "INT",
    "date": "DATE",
}
FIELDS = tuple(DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(COLUMNS.items()))
ARROW = to_arrow_schema(FIELDS)
PLUS_TWO = timezone(timedelta(hours=2))


def parse(sql: str) -> Predicate:
    return parse_filter(sql, FIELDS, time_zone=PLUS_TWO)


def leaf(op: str, field: str, *literals: Any) -> Leaf:
    return Leaf(op, field, literals)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a = 1", leaf("eq", "a", 1)),
        ("A == 1", leaf("eq", "a", 1)),
        ("a <> 1", leaf("ne", "a", 1)),
        ("a != -1", leaf("ne", "a", -1)),
        ("a < 1", leaf("lt", "a", 1)),
        ("1 < a", leaf("gt", "a", 1)),
        ("1 >= a", leaf("le", "a", 1)),
        ("a <=> NULL", leaf("eq_null_safe", "a", None)),
        ("3 <=> a", leaf("eq_null_safe", "a", 3)),
        ("a = NULL", leaf("eq", "a", None)),
        ("a IS NULL", leaf("is_null", "a")),
        ("a IS NOT NULL", Not(leaf("is_null", "a"))),
        ("arr is null", leaf("is_null", "arr")),
        ("a IN (1, -2, NULL)", leaf("in", "a", 1, -2, None)),
        ("a NOT IN (1)", Not(leaf("in", "a", 1))),
        ("a BETWEEN 1 AND 3", And((leaf("ge", "a", 1), leaf("le", "a", 3)))),
        ("NOT (a = 1 OR b = 'x')", Not(Or((leaf("eq", "a", 1), leaf("eq", "b", "x"))))),
        ("a = 1 and b = 'x' and y", And((leaf("eq", "a", 1), leaf("eq", "b", "x"), leaf("eq", "y", True)))),
        ("y IS TRUE", leaf("eq_null_safe", "y", True)),
        ("y is not false", Not(leaf("eq_null_safe", "y", False))),
        ("true", Always(True)),
        ("a = 1 or true", Always(True)),
        ("((a)) = (1)", leaf("eq", "a", 1)),
        ("`Mixed Case` = 1", leaf("eq", "Mixed Case", 1)),
        ("`mixed case` = 1", leaf("eq", "Mixed Case", 1)),
        ("`q``q` = 1", leaf("eq", "q`q", 1)),
        ("`date` = DATE '2024-01-31'", leaf("eq", "date", date(2024, 1, 31))),
        # numbers
        ("a = 1L", leaf("eq", "a", 1)),
        ("a < 2.5", leaf("le", "a", 2)),
        ("a >= 2.5", leaf("gt", "a", 2)),
        ("a > -2.5", leaf("gt", "a", -3)),
        ("a = 2.0", leaf("eq", "a", 2)),
        ("a = 2.5", leaf("in", "a")),
        ("a <> 2.5", leaf("not_in", "a")),
        ("a <=> 2.5", Always(False)),
        ("a IN (1, 2.5)", leaf("in", "a", 1)),
        ("a BETWEEN 1.5 AND 3.5", And((leaf("gt", "a", 1), leaf("le", "a", 3)))),
        ("ti < 1000", leaf("not_in", "ti")),
        ("ti > 1000", leaf("in", "ti")),
        ("ti > -1000", leaf("not_in", "ti")),
        ("k = 9223372036854775807", leaf("eq", "k", 2**63 - 1)),
        ("a = '5'", leaf("eq", "a", 5)),
        ("a = CAST('5' AS INT)", leaf("eq", "a", 5)),
        ("c = 1.5", leaf("eq", "c", Decimal("1.50"))),
        ("c = 1.25BD", leaf("eq", "c", Decimal("1.25"))),
        ("c <= 1.255", leaf("le", "c", Decimal("1.25"))),
        ("c < 1e9", leaf("not_in", "c")),
        ("g = 1e3", leaf("eq", "g", 1000.0)),
        ("g = 0.1D", leaf("eq", "g", 0.1)),
        ("f = 1", leaf("eq", "f", 1.0)),
        ("g < CAST('Infinity' AS DOUBLE)", leaf("lt", "g", math.inf)),
        ("g > -CAST('inf' AS DOUBLE)", leaf("gt", "g", -math.inf)),
        ("g > double('-Infinity')", leaf("gt", "g", -math.inf)),
        ("g = CAST('0.1' AS FLOAT)", leaf("eq", "g", 0.10000000149011612)),
        ("g = CAST(0.1 AS DOUBLE)", leaf("eq", "g", 0.1)),
        ("f >= CAST('-Infinity' AS FLOAT)", leaf("ge", "f", -math.inf)),
        ("a < CAST('Infinity' AS DOUBLE)", leaf("not_in", "a")),
        ("c < CAST('-Infinity' AS DOUBLE)", leaf("in", "c")),
        ("a < CAST('NaN' AS DOUBLE)", leaf("not_in", "a")),
        ("a = CAST('NaN' AS FLOAT)", leaf("in", "a")),
        ("a <= CAST('2.5' AS DOUBLE)", leaf("le", "a", 2)),
        # text
        ("b = 'it''s'", leaf("eq", "b", "it's")),
        ("b = 'it\\'s'", leaf("eq", "b", "it's")),
        ('b = "dq"', leaf("eq", "b", "dq")),
        ("b = r'\\n'", leaf("eq", "b", "\\n")),
        ("ch = 'ab'", leaf("in", "ch", "ab", "ab ")),
        ("ch = 'abc'", leaf("in", "ch", "abc")),
        ("ch IN ('a ', 'abcd')", leaf("in", "ch", "a", "a ", "a  ", "abcd")),
        ("ch > 'a'", leaf("gt", "ch", "a  ")),
        ("b LIKE 'abc'", leaf("eq", "b", "abc")),
        ("b LIKE 'abc%'", leaf("starts_with", "b", "abc")),
        ("b LIKE '%abc'", leaf("ends_with", "b", "abc")),
        ("b LIKE '%abc%'", leaf("contains", "b", "abc")),
        ("b LIKE '%'", leaf("starts_with", "b", "")),
        ("b LIKE 'a_c%'", leaf("like", "b", "a_c%")),
        ("b LIKE 'a\\\\%c%'", leaf("starts_with", "b", "a%c")),
        ("b LIKE 'a!%_%' ESCAPE '!'", leaf("like", "b", "a\\%_%")),
        ("b NOT LIKE 'a%'", Not(leaf("starts_with", "b", "a"))),
        ("b NOT LIKE 'a!%' ESCAPE '!'", Not(leaf("eq", "b", "a%"))),
        ("b LIKE NULL", leaf("like", "b", None)),
        ("x = X'0Aff'", leaf("eq", "x", b"\n\xff")),
        ("x = X'A'", leaf("eq", "x", b"\n")),
        ("x = 'text'", leaf("eq", "x", b"text")),
        # times
        ("d = '2024-02-29'", leaf("eq", "d", date(2024, 2, 29))),
        ("d < TIMESTAMP '2024-02-29 12:00:00'", leaf("le", "d", date(2024, 2, 29))),
        ("t >= TIME '12:30:00.5'", leaf("ge", "t", time(12, 30, 0, 500000))),
        ("t = 1000", leaf("eq", "t", time(0, 0, 1))),
        ("ts = TIMESTAMP '2024-01-01 12:00:00.123'", leaf("eq", "ts", datetime(2024, 1, 1, 12, 0, 0, 123000))),
        ("ts = TIMESTAMP_NTZ '2024-01-01T12:00'", leaf("eq", "ts", datetime(2024, 1, 1, 12))),
        ("ts > TIMESTAMP '2024-01-01 12:00:00.1234'", leaf("gt", "ts", datetime(2024, 1, 1, 12, 0, 0, 123000))),
        ("ts = TIMESTAMP '2024-01-01 12:00:00.1234'", leaf("in", "ts")),
        ("us = DATE '2024-01-01'", leaf("eq", "us", datetime(2024, 1, 1))),
        (
            "ns = TIMESTAMP '2024-01-01 00:00:00.000000001'",
            leaf("eq", "ns", np.datetime64("2024-01-01T00:00:00.000000001")),
        ),
        ("lz = TIMESTAMP '2024-01-01 12:00:00'", leaf("eq", "lz", datetime(2024, 1, 1, 10, tzinfo=UTC))),
        ("lz = TIMESTAMP '2024-01-01 12:00:00Z'", leaf("eq", "lz", datetime(2024, 1, 1, 12, tzinfo=UTC))),
        ("lz = '2024-01-01 12:00:00-01:30'", leaf("eq", "lz", datetime(2024, 1, 1, 13, 30, tzinfo=UTC))),
    ],
    ids=str,
)
def test_understood(sql: str, expected: Predicate) -> None:
    predicate = parse(sql)
    assert predicate == expected
    evaluate(predicate, pa.Table.from_pylist([], schema=ARROW))


def test_nan_is_one_value_above_all_others() -> None:
    rows = pa.table({"g": pa.array([1.0, math.inf, math.nan, None])})
    for text in ("g = CAST('NaN' AS DOUBLE)", "g = 'nan'", "g >= CAST('NaN' AS FLOAT)", "g IN (CAST('NaN' AS DOUBLE))"):
        assert evaluate(parse(text), rows).to_pylist() == [False, False, True, False]
    assert evaluate(parse("g < CAST('NaN' AS DOUBLE)"), rows).to_pylist() == [True, True, False, False]
    assert evaluate(parse("g < CAST('Infinity' AS DOUBLE)"), rows).to_pylist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("sql", "piece"),
    [
        ("a + 1 = 2", "a + 1"),
        ("a = k", "k"),
        ("1 = 1", "1"),
        ("b RLIKE 'x'", "RLIKE"),
        ("a BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC"),
        ("b LIKE ANY ('a', 'b')", "ANY"),
        ("a IN (1) IS TRUE", "a IN (1)"),
        ("b ILIKE 'x'", "ILIKE"),
        ("upper(b) = 'X'", "UPPER(b)"),
        ("a IN (SELECT 1)", "SELECT"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("a = INTERVAL 1 DAY", "INTERVAL"),
        ("arr = 1", "arr"),
        ("arr[0] = 1", "arr[0]"),
        ("arr.x = 1", "arr.x"),
        ("b = 1", "'b' of type STRING"),
        ("a = 'x'", "not a number"),
        ("a = TRUE", "TRUE"),
        ("y = 1", "'y' of type BOOLEAN"),
        ("d = 'today'", "'today'"),
        ("d = DATE '2023-02-29'", "2023-02-29"),
        ("ts = '2024-01-01 25:00:00'", "no such time of day"),
        ("ts = '2024-01-01 00:00:00Z'", "time zone"),
        ("a", "'a' is a column of type INT"),
        ("nope = 1", "'nope' is not a column of the table"),
        ("b LIKE 'a!b' ESCAPE '!'", "'!' is not followed"),
        ("b LIKE 'a' ESCAPE 'xx'", "ESCAPE"),
        ("a LIKE '1%'", "'a' is a column of type INT"),
        ("SELECT 1", "SELECT"),
        ("a = 1; b = 'x'", "not one condition"),
        ("a =", "not SQL"),
        ("", "not one condition"),
        ("NULL", "NULL"),
        ("a = 1e999999", "too large"),
        ("b = 'open", "not SQL"),
        ("CASE WHEN a = 1 THEN TRUE END", "CASE"),
        ("a IN ()", "a IN"),
        ("(" * 3000 + "a = 1" + ")" * 3000, "nested too deeply"),
    ],
    ids=lambda text: text[:30],
)
def test_refused(sql: str, piece: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(sql)
    assert piece in str(caught.value)


def test_columns_that_differ_by_case() -> None:
    fields = [
        DataField(0, "a", parse_type("INT")),
        DataField(1, "A", parse_type("INT")),
        DataField(2, "Bb", parse_type("INT")),
    ]
    assert parse_filter("A = 1", fields) == leaf("eq", "A", 1)
    assert parse_filter("bB = 1", create_schema(fields)) == leaf("eq", "Bb", 1)
    with pytest.raises(OptionError, match="differ only by case"):
        parse_filter("cc = 1", [DataField(0, "Cc", parse_type("INT")), DataField(1, "cC", parse_type("INT"))])


def test_long_chains() -> None:
    predicate = parse(" OR ".join(f"a = {number}" for number in range(5000)))
    assert isinstance(predicate, Or)
    assert len(predicate.children) == 5000


OPERATORS = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@given(
    st.sampled_from(["a", "ti", "k", "c"]),
    st.sampled_from(sorted(OPERATORS)),
    st.decimals(-(10**12), 10**12, places=3)
    | st.sampled_from([Decimal(127), Decimal("127.5"), Decimal("-128.5"), Decimal(0)]),
    st.booleans(),
    st.data(),
)
def test_numbers_compare_exactly(
    column: str, operator: str, literal: Decimal, negated: bool, data: st.DataObject
) -> None:
    bits = {"a": 31, "ti": 7, "k": 63}
    near = int(literal)
    if column == "c":
        limit = 10**10 - 1
        values = [Decimal(n).scaleb(-2) for n in (-limit, limit, 0, max(-limit, min(limit, int(literal * 100))))]
    else:
        limit = 2 ** bits[column]
        values = [n for n in (-limit, limit - 1, 0, near - 1, near, near + 1) if -limit <= n < limit]
    sql = f"{column} {operator} {literal:f}"
    predicate = parse(f"NOT ({sql})" if negated else sql)
    rows = pa.table({column: pa.array([*values, None], ARROW.field(column).type)})
    expected = [OPERATORS[operator](Decimal(value), literal) != negated for value in values]
    assert evaluate(predicate, rows).to_pylist() == [*expected, False]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10))
def test_any_text_can_be_written(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    assert parse(f"b = '{quoted}'") == leaf("eq", "b", text)
