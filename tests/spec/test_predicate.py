"""Predicates: rows by SQL's three-valued logic, statistics that never drop a file with a matching row."""

import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import SchemaError
from paimon_spark.spec.predicate import (
    Always,
    And,
    Leaf,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
    evaluate,
    fields,
    matching,
    project,
    rename,
    split_and,
)
from paimon_spark.spec.predicate_stats import like_prefix, prune_stats

TYPES = {
    "i": pa.int8(),
    "f": pa.float32(),
    "d": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "x": pa.binary(),
    "n": pa.decimal128(4, 2),
    "t": pa.date32(),
    "u": pa.timestamp("us"),
    "z": pa.timestamp("ms", tz="UTC"),
}
FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.5, 2.0**20, math.nan, math.inf, -math.inf])
LETTERS = st.text("aAb%_\\\U0010ffff", max_size=4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.sampled_from([127, -128]),
    "f": FLOATS,
    "d": FLOATS,
    "s": LETTERS,
    "b": st.booleans(),
    "x": st.binary(max_size=3),
    "n": st.decimals(-2, 2, places=2),
    "t": st.dates(date(2024, 1, 1), date(2024, 1, 4)),
    "u": st.datetimes(datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
    "z": st.integers(0, 5).map(lambda ms: datetime(2024, 1, 1, microsecond=ms * 1000, tzinfo=UTC)),
}
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")


@st.composite
def leaves(draw: st.DrawFn) -> Leaf:
    name = draw(st.sampled_from(sorted(TYPES)))
    value = VALUES[name] | st.none()
    kinds = ["compare", "null", "in", "between", *(["text"] * 2 if name in "sx" else [])]
    match draw(st.sampled_from(kinds)):
        case "compare":
            return Leaf(draw(st.sampled_from(COMPARE)), name, (draw(value),))
        case "null":
            return Leaf(draw(st.sampled_from(("is_null", "is_not_null"))), name)
        case "in":
            return Leaf(draw(st.sampled_from(("in", "not_in"))), name, tuple(draw(st.lists(value, max_size=4))))
        case "between":
            return Leaf("between", name, (draw(value), draw(value)))
    ops = ("starts_with", "ends_with", "contains", *(("like",) if name == "s" else ()))
    op = draw(st.sampled_from(ops))
    literal = draw(VALUES[name])
    if op == "like" and (len(literal) - len(literal.rstrip("\\"))) % 2:
        literal += "_"
    return Leaf(op, name, (literal,))


PREDICATES = st.recursive(
    leaves() | st.builds(Always, st.booleans()),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=6,
)
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), max_size=6)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=pa.schema(TYPES.items()))


def ordered(value: Any) -> Any:
    """A key by which values compare as in Spark: NaN is greatest, -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def like(value: str, pattern: str) -> bool:
    if not pattern:
        return not value
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(like(value[at:], rest) for at in range(len(value) + 1))
    if head == "\\":
        return bool(value) and value[0] == rest[0] and like(value[1:], rest[1:])
    return bool(value) and head in ("_", value[0]) and like(value[1:], rest)


def leaf_truth(leaf: Leaf, value: Any) -> bool | None:
    """The model: SQL's answer for one value."""
    op, literals = leaf.op, leaf.literals
    if op in ("is_null", "is_not_null"):
        return (value is None) == (op == "is_null")
    if op == "eq_null_safe":
        return (value is None) == (literals[0] is None) and (value is None or ordered(value) == ordered(literals[0]))
    if value is None:
        return None
    if op in ("in", "not_in"):
        found = any(item is not None and ordered(item) == ordered(value) for item in literals)
        answer = True if found else None if None in literals else False
        return answer if op == "in" or answer is None else not answer
    if op == "between":
        low, high = literals
        parts = [
            None if low is None else ordered(value) >= ordered(low),
            None if high is None else ordered(value) <= ordered(high),
        ]
        return False if False in parts else None if None in parts else True
    literal = literals[0]
    if literal is None:
        return None
    left, right = ordered(value), ordered(literal)
    match op:
        case "eq":
            return left == right
        case "ne":
            return left != right
        case "lt":
            return left < right
        case "le":
            return left <= right
        case "gt":
            return left > right
        case "ge":
            return left >= right
        case "starts_with":
            return value.startswith(literal)
        case "ends_with":
            return value.endswith(literal)
        case "contains":
            return literal in value
    return like(value, literal)


def truth(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    match predicate:
        case Leaf():
            return leaf_truth(predicate, row[predicate.field])
        case Not():
            inner = truth(predicate.child, row)
            return None if inner is None else not inner
        case And():
            parts = [truth(child, row) for child in predicate.children]
            return False if False in parts else None if None in parts else True
        case Or():
            parts = [truth(child, row) for child in predicate.children]
            return True if True in parts else None if None in parts else False
    assert isinstance(predicate, Always)
    return predicate.value


@settings(max_examples=400)
@given(PREDICATES, ROWS)
def test_rows_are_those_of_the_model(predicate: Predicate, rows: list[dict[str, Any]]) -> None:
    data = table(rows)
    as_stored = data.to_pylist()
    expected = [truth(predicate, row) is True for row in as_stored]
    mask = evaluate(predicate, data)
    assert mask.null_count == 0
    assert mask.to_pylist() == expected
    numbered = data.append_column("row", pa.array(range(len(rows)), pa.int32()))
    kept = matching(predicate, numbered.combine_chunks()).column("row").to_pylist()
    assert kept == [at for at, keep in enumerate(expected) if keep]


def truncated_stats(values: list[Any], looseness: int) -> tuple[Any, Any]:
    """Bounds of values that are not null, as a writer may give them: NaN left out, text cut to a prefix, or unknown."""
    present = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    if not present or looseness == 0:
        return None, None
    low, high = min(present, key=ordered), max(present, key=ordered)
    if looseness == 1 and isinstance(low, str):
        cut = high[:1]
        return low[:1], (chr(ord(cut) + 1) if cut and cut != "\U0010ffff" else None) if len(high) > 1 else high
    if looseness == 2 and isinstance(low, float) and any(math.isnan(v) for v in values):
        return low, math.nan  # Java's collectors hold NaN for the greatest
    return low, high


@settings(max_examples=400)
@given(
    PREDICATES,
    st.lists(st.tuples(ROWS, st.integers(0, 3), st.booleans()), min_size=1, max_size=4),
    st.sets(st.sampled_from(sorted(TYPES))),
)
def test_a_file_with_a_match_is_kept(
    predicate: Predicate, parts: list[tuple[Any, int, bool]], missing: set[str]
) -> None:
    stats: dict[str, Any] = {}
    for name, data_type in TYPES.items():
        if name in missing:
            continue
        bounds, nulls = [], []
        for rows, looseness, counted in parts:
            values = [v for v in table(rows).column(name).to_pylist() if v is not None]
            bounds.append(truncated_stats(values, looseness))
            nulls.append(len(rows) - len(values) if counted else None)
        lows, highs = ([bound[side] for bound in bounds] for side in (0, 1))
        stats[name] = (pa.array(lows, data_type), pa.array(highs, data_type), pa.array(nulls, pa.int64()))
    counts = pa.array([len(rows) for rows, _, _ in parts], pa.int64())
    kept = prune_stats(predicate, stats, counts)
    assert kept.dtype == np.bool_
    for (rows, _, _), keep in zip(parts, kept, strict=True):
        if any(truth(predicate, row) is True for row in table(rows).to_pylist()):
            assert keep


@settings(max_examples=300)
@given(PREDICATES, ROWS, st.sets(st.sampled_from(sorted(TYPES))))
def test_projection_is_implied(predicate: Predicate, rows: list[dict[str, Any]], names: set[str]) -> None:
    weaker = project(predicate, names)
    assert fields(weaker) <= names
    for row in table(rows).to_pylist():
        if truth(predicate, row) is True:
            assert truth(weaker, row) is True
    for part in split_and(predicate):
        if part == Always(False) or not fields(part) or not fields(part) <= names:
            continue
        for row in table(rows).to_pylist():  # a conjunct over these columns stays as it is
            assert (truth(weaker, row) is True) <= (truth(part, row) is True)


@given(PREDICATES)
def test_predicates_are_values(predicate: Predicate) -> None:
    assert repr(pickle.loads(pickle.dumps(predicate))) == repr(predicate)
    assert fields(rename(predicate, {name: name.upper() for name in TYPES})) == {n.upper() for n in fields(predicate)}


FILES = {
    "i": (
        pa.array([1, 5, None, 3], pa.int32()),
        pa.array([4, 9, None, 3], pa.int32()),
        pa.array([0, 1, 10, 0], pa.int64()),
    ),
    "s": (pa.array(["aa", "b", None, "c"]), pa.array(["ab", "bz", None, "c"]), pa.array([0, 0, None, 10], pa.int64())),
    "f": (pa.array([1.0, 5.0, None, 2.0]), pa.array([2.0, 6.0, None, 2.0]), pa.array([0, 0, 10, 0], pa.int64())),
}
COUNTS = pa.array([10, 10, 10, 10], pa.int64())


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (Leaf("eq", "i", (3,)), [1, 0, 0, 1]),
        (Leaf("gt", "i", (4,)), [0, 1, 0, 0]),
        (Leaf("ge", "i", (4,)), [1, 1, 0, 0]),
        (Leaf("lt", "i", (3,)), [1, 0, 0, 0]),
        (Leaf("ne", "i", (3,)), [1, 1, 0, 0]),
        (Not(Leaf("eq", "i", (3,))), [1, 1, 0, 0]),
        (Not(Leaf("ge", "i", (3,))), [1, 0, 0, 0]),
        (Leaf("in", "i", (0, 7)), [0, 1, 0, 0]),
        (Leaf("in", "i", tuple(range(100, 200))), [0, 0, 0, 0]),
        (Leaf("not_in", "i", (3, 3)), [1, 1, 0, 0]),
        (Leaf("not_in", "i", (3, None)), [0, 0, 0, 0]),
        (Leaf("between", "i", (10, 20)), [0, 0, 0, 0]),
        (Not(Leaf("between", "i", (1, 4))), [0, 1, 0, 0]),
        (Leaf("is_null", "i"), [0, 1, 1, 0]),
        (Leaf("is_not_null", "i"), [1, 1, 0, 1]),
        (Leaf("eq_null_safe", "i", (None,)), [0, 1, 1, 0]),
        (Leaf("eq", "i", (None,)), [0, 0, 0, 0]),
        (Leaf("starts_with", "s", ("b",)), [0, 1, 1, 0]),
        (Not(Leaf("starts_with", "s", ("b",))), [1, 0, 1, 0]),
        (Leaf("like", "s", ("a_%",)), [1, 0, 1, 0]),
        (Leaf("like", "s", ("%z",)), [1, 1, 1, 0]),
        (Leaf("gt", "f", (100.0,)), [1, 1, 0, 1]),  # NaN may hide in any of them
        (Leaf("lt", "f", (1.0,)), [0, 0, 0, 0]),
        (Leaf("eq", "f", (1.5,)), [1, 0, 0, 0]),
        (Leaf("eq", "i", (3,)) & Leaf("starts_with", "s", ("c",)), [0, 0, 0, 0]),
        (Leaf("eq", "i", (3,)) | Leaf("starts_with", "s", ("b",)), [1, 1, 1, 1]),
        (Leaf("eq", "nobody", (3,)), [1, 1, 1, 1]),
        (Leaf("eq", "i", ("text",)), [1, 1, 1, 1]),
        (Leaf("eq", "i", (Decimal("3.5"),)), [1, 0, 0, 0]),
        (Always(False), [0, 0, 0, 0]),
    ],
    ids=repr,
)
def test_pruning_is_worth_it(predicate: Predicate, kept: list[int]) -> None:
    assert prune_stats(predicate, FILES, COUNTS).tolist() == [bool(flag) for flag in kept]


def test_a_bound_that_is_not_known() -> None:
    stats = {
        "i": (pa.array([1, 1]), pa.array([4, 4]), pa.array([0, None], pa.int64())),
        "s": (pa.array(["a", "a"]), pa.array([None, None], pa.string()), pa.array([0, 0])),
    }
    rows = pa.array([10, 10])
    kept = {value: prune_stats(Leaf("eq", "i", (value,)), stats, rows).tolist() for value in (4, 5)}
    assert kept == {4: [True, True], 5: [False, True]}
    assert prune_stats(Leaf("eq", "s", ("zz",)), stats, rows).all()
    assert not prune_stats(Leaf("eq", "s", ("A",)), stats, rows).any()


def test_many_files_are_pruned_fast() -> None:
    rows = 200_000
    low = pa.array(np.arange(rows))
    stats = {"i": (low, low, pa.array(np.zeros(rows, np.int64)))}
    predicate = Leaf("ge", "i", (100,)) & Not(Leaf("in", "i", tuple(range(150, 170)))) & Leaf("lt", "i", (200,))
    assert prune_stats(predicate, stats, pa.array(np.full(rows, 10))).sum() == 80


def test_trees() -> None:
    a, b, c = (Leaf("eq", name, (1,)) for name in "abc")
    assert all_of((a, And((b, c)), a, Always(True))) == And((a, b, c))
    assert any_of((a, Or((b,)), Always(False))) == Or((a, b))
    assert all_of(()) == Always(True)
    assert any_of(()) == Always(False)
    assert all_of((a, Always(False))) == Always(False)
    assert split_and(And((a, And((b, Or((a, c))))))) == [a, b, Or((a, c))]
    assert split_and(Always(True)) == []
    assert project((a & b) | (a & c), ["a"]) == a
    assert project(Not(a | b), ["b"]) == Not(b)
    assert project(a | b, ["a"]) == Always(True)
    with pytest.raises(ValueError, match="operator"):
        Leaf("matches", "a", (1,))
    with pytest.raises(ValueError, match="takes 2"):
        Leaf("between", "a", (1,))


def test_missing_columns() -> None:
    data = pa.table({"a": [1]})
    with pytest.raises(SchemaError, match="'b'"):
        evaluate(Leaf("eq", "b", (1,)), data)


def test_texts_as_dictionaries_are_texts() -> None:
    texts = pa.array(["a", None, "b", "ab"])
    data = pa.record_batch({"t": texts.dictionary_encode(), "k": pa.array(range(4))})
    for op, literals, kept in (
        ("eq", ("a",), [0]),
        ("ne", ("a",), [2, 3]),
        ("in", ("b", "ab"), [2, 3]),
        ("starts_with", ("a",), [0, 3]),
        ("is_null", (), [1]),
        ("eq_null_safe", (None,), [1]),
        ("between", ("a", "ab"), [0, 3]),
    ):
        assert matching(Leaf(op, "t", literals), data)["k"].to_pylist() == kept, op


@pytest.mark.parametrize(
    ("pattern", "prefix"), [("abc%", "abc"), ("a\\%b_", "a%b"), ("%", ""), ("abc", "abc"), ("a\\\\", "a\\")]
)
def test_prefix_of_a_pattern(pattern: str, prefix: str) -> None:
    assert like_prefix(pattern) == prefix


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (tuple(range(0, 80, 2)), pa.int32()),
        ((*range(0, 80, 2), 2**40), pa.int32()),
        ((*range(0, 80, 2), None), pa.int64()),
        (tuple(n / 2 for n in range(80)), pa.int32()),
        (tuple(map(Decimal, range(80))), pa.decimal128(10, 2)),
        (tuple(map(str, range(80))), pa.string()),
        (tuple(datetime(2024, 1, 1, 0, 0, n % 60, n) for n in range(80)), pa.timestamp("ms")),
    ],
)
def test_many_literals_mean_what_each_means(values: tuple[Any, ...], kind: pa.DataType) -> None:
    few = [value for value in values if value is not None][:: len(values) // 7]
    rows = pa.array([None, *(v for v in few if not isinstance(v, float) or v % 1 == 0)])
    rows = rows.cast(kind, safe=False) if rows.type != kind else rows
    batch = pa.record_batch({"c": rows})
    each = Or(tuple(Leaf("eq", "c", (value,)) for value in values))
    assert evaluate(Leaf("in", "c", values), batch) == evaluate(each, batch)
    assert evaluate(Not(Leaf("in", "c", values)), batch) == evaluate(Not(each), batch)
