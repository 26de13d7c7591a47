"""Long IN lists mean what each of their literals means, and nothing else is taken for one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sqlglot

from paimon_spark.errors import OptionError
from paimon_spark.spec import sql_filter
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.sql_filter import parse_filter, without_long_lists
from paimon_spark.spec.type_parser import parse_type

TYPES = ("INT", "TINYINT", "BIGINT", "STRING", "CHAR(3)", "DECIMAL(6, 2)", "DOUBLE", "DATE", "TIMESTAMP(3)", "BOOLEAN")
FIELDS = tuple(DataField(i, f"c{i}", parse_type(kind)) for i, kind in enumerate(TYPES))
NUMBERS = [
    "0",
    "-1",
    "127",
    "128",
    "300",
    "2147483648",
    "-9223372036854775809",
    "1.50",
    "1.555",
    "00007",
    "-0.0",
    "1e3",
]
WORDS = ["'a'", "'ab '", "''", "'ä'", "'it''s'", "'in (1, 2)'", "'5'", "'2024-02-29'", "'2024-02-29 01:02:03.1234'"]
LONG = 100


def both(monkeypatch: pytest.MonkeyPatch, sql: str) -> tuple[Any, Any]:
    """What the filter means, and what it means without this module; an error as its message's beginning."""
    found = []
    for shortest in (1, 10**9):
        monkeypatch.setattr(sql_filter, "_SHORTEST_TEXT", shortest)
        try:
            found.append(parse_filter(sql, FIELDS))
        except OptionError:
            found.append(OptionError)
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(60))
def test_lists_of_every_kind(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    parts = []
    for _ in range(chance.randint(1, 3)):
        column = chance.choice(FIELDS).name
        plain = [str(chance.randint(-400, 400)) for _ in range(LONG)]
        pool = chance.choice([plain, plain, [*plain, *NUMBERS], [*WORDS, "'x'"] * 20, [*WORDS, *NUMBERS] * 9])
        values = [chance.choice(pool) for _ in range(LONG)]
        glue = chance.choice([",", ", ", " ,\n\t"])
        parts.append(f"{column} {chance.choice(['IN', 'in', 'NOT IN', 'IN '])}({glue.join(values)})")
    parts.append(chance.choice(["c0 > 5", "c3 = 'x in (1,2)'", "c3 <> 'it''s'", "`c0` < 9"]))
    sql = chance.choice([" AND ", " or "]).join(chance.sample(parts, len(parts)))
    ours, plain_meaning = both(monkeypatch, sql)
    assert ours == plain_meaning


def test_long_lists_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    parse = sqlglot.parse

    def noting(text: str, **options: Any) -> Any:
        seen.append(text)
        return parse(text, **options)

    monkeypatch.setattr(sqlglot, "parse", noting)
    numbers = range(-5000, 5000)
    found = parse_filter(
        f"c0 IN ({', '.join(map(str, numbers))}) AND c3 NOT IN ({','.join(map(repr, map(str, numbers)))})", FIELDS
    )
    assert len(seen[0]) < 100
    assert [len(part.child.literals if hasattr(part, "child") else part.literals) for part in found.children] == [
        10000
    ] * 2


@pytest.mark.parametrize(
    "sql",
    [
        "c3 = 'c0 IN ({})'",
        "c3 = r'\\' OR c0 IN ({})",
        "c0 > 5 -- IN ({})",
        "c0 > 5 /* IN ({}) */",
        'c3 = "IN ({})"',
        "`IN ({})` = 5",
        "c0 IN ({}, :_long_list_0)",
        "c0 IN ({}, 1L)",
        "c0 IN ({}, c1)",
        "c0 IN ({}",
        "c0 IN ({}) IN (1)",
        "abs IN ({})",
        "c0 IN ({})) AND c1 = 1",
    ],
)
def test_what_only_looks_like_a_list(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    ours, plain_meaning = both(monkeypatch, sql.format(", ".join(map(str, range(LONG)))))
    assert ours == plain_meaning


def test_short_texts_are_left_alone() -> None:
    assert without_long_lists("c0 IN (1, 2)") == ("c0 IN (1, 2)", [])


def test_messages_are_short() -> None:
    with pytest.raises(
        OptionError, match=r"'c7 IN \(…\)' is a list that cannot be compared with 'c7' of type DATE"
    ) as caught:
        parse_filter(f"c7 IN ({', '.join(map(str, range(100_000)))})", FIELDS)
    assert len(str(caught.value)) < 5000
