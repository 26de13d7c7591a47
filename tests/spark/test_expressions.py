"""What a statement's text names, before Spark resolves it. No session."""

import pytest
from pyspark.sql.types import IntegerType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.column_defaults import _is_made_of_literals
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.statements.expressions import Named, column_behind

COLUMNS = ("k", "a b", "rand", "s", "it's", "Ä")

NAMED = {
    "k = 1": {"k"},
    "K > 1 AND s.x = 2": {"k", "s"},
    "`a b` IS NULL": {"a b"},
    "`it's` = 'k'": {"it's", "k", "s"},  # too many, never too few
    "ä = 1": {"Ä"},
    "IDENTIFIER('k') = 1": {"k"},
    "kk = 1 /* k */ -- s": set(),
    "rand() < 0.5": {"rand"},
}


@pytest.mark.parametrize("text", NAMED)
def test_names(text: str) -> None:
    named = Named.by(text)
    assert {name for name in COLUMNS if named.has(name)} == NAMED[text]


def test_words_inside_of_texts_are_seldom_names() -> None:
    assert not Named.by("p = 'it''s k'").has_outside_texts("k")
    assert not Named.by('p = "k"').has_outside_texts("k")
    assert Named.by("p = 'it''s' AND k = 1").has_outside_texts("k")


@pytest.mark.parametrize(
    ("text", "is_star"),
    [
        ("count(*) > 1", True),
        ("struct(a, /* all */ *) IS NULL", True),
        ("t . * IS NULL", True),
        ("a * 2 = (b) * 3", False),
        ("a = ',*'", False),
    ],
)
def test_stars(text: str, is_star: bool) -> None:
    assert Named.by(text).has_star == is_star


@pytest.mark.parametrize("text", ["k = RAND()", "k = `uuid` ()", "k = rand /* x */ (1)", "EXISTS (SELECT shuffle(a))"])
def test_conditions_that_have_another_value_each_time_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="not deterministic"):
        refuse_nondeterministic("k = 1", text)


@pytest.mark.parametrize("text", ["k = 'rand()'", "rand = 1", "k = 1 -- rand()", "k = operand(1)", "rand IN (1, 2)"])
def test_names_that_are_no_calls_are_not_refused(text: str) -> None:
    refuse_nondeterministic(text, None)


def test_columns_of_a_source() -> None:
    values = ["s.k", "S.`a b`", "s.k + 1", "t.k", "s", "s.k.x", "'s.k'", IntegerType()]
    assert [column_behind(value, "s") for value in values] == ["k", "a b", *[None] * 6]


@pytest.mark.parametrize(
    ("sql", "is_made"),
    [
        ("1", True),
        ("-1.5BD * 2", True),
        ("'a''b'", True),
        ("DATE '2024-01-31'", True),
        ("X'1F'", True),
        ("cast('1' AS decimal(10, 2))", True),
        ("concat('a', char(39))", True),
        ("current_date()", False),
        ("current_date", False),
        ("`a`", False),
        ("'open", False),
        ("1; DROP", False),
        ("", False),
    ],
)
def test_defaults_are_made_of_literals(sql: str, is_made: bool) -> None:
    assert _is_made_of_literals(sql) == is_made
