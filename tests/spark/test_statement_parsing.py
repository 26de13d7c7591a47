"""What `paimon_spark.sql` finds in a statement's text, and what of a WHERE it leaves to the reader. No session."""

import pytest

from paimon_spark.spark.statements.cursor import Cursor, tokenize
from paimon_spark.spark.statements.query_trees import (
    Comparison,
    NotUnderstoodError,
    Value,
    filter_option,
    read_named,
    read_query,
)
from paimon_spark.spark.statements.version_clauses import version_clauses, without_clauses
from paimon_spark.spec.data_types import (
    BigIntType,
    BooleanType,
    DataField,
    DateType,
    DecimalType,
    DoubleType,
    LocalZonedTimestampType,
    VarCharType,
)

FIELDS = [
    DataField(0, "n", BigIntType()),
    DataField(1, "Name", VarCharType(10)),
    DataField(2, "day", DateType()),
    DataField(3, "price", DecimalType(10, 2)),
    DataField(4, "ok", BooleanType()),
    DataField(5, "f", DoubleType()),
    DataField(6, "at", LocalZonedTimestampType(3)),
]

LEFT_TO_THE_READER = {
    "SELECT 1 FROM t WHERE n = 1 AND name IN ('a', 'it''s')": "(`n` = 1) AND (`Name` IN ('a', 'it\\'s'))",
    "SELECT 1 FROM t WHERE -2 <= n AND n BETWEEN 1 AND 2.5": "(`n` >= -2) AND (`n` BETWEEN 1 AND 2.5)",
    "SELECT 1 FROM t WHERE day > '2024-01-31' AND ok = TRUE": "(`day` > DATE '2024-01-31') AND (`ok` = TRUE)",
    "SELECT 1 FROM t WHERE (n IS NULL) AND NOT price IS NULL": "(`n` IS NULL) AND (`price` IS NOT NULL)",
    "SELECT 1 FROM t WHERE t.n = 1 AND (n = 2 OR n = 3)": "(`n` = 1)",
    "SELECT 1 FROM t JOIN u ON t.n = u.n WHERE t.n = 1 AND ok = true AND u.n = 2": "(`n` = 1) AND (`ok` = TRUE)",
    "SELECT 1 FROM db.t AS x, u WHERE x.n = 1 AND t.n = 2": "(`n` = 1)",
    "SELECT 1 FROM c.db.t WHERE c.db.t.n = 1 AND DB.`T`.ok = TRUE AND t.f = 2": "(`n` = 1) AND (`ok` = TRUE)",
    "SELECT 1 FROM c.db.t JOIN c.e.u ON t.n = u.n WHERE c.db.t.n = 1 AND 2 = c.e.u.n": "(`n` = 1)",
    "SELECT 1 FROM db.t WHERE c.db.t.n = 1 AND e.t.n = 2": None,
    "SELECT 1 FROM db.t AS x WHERE db.t.n = 1": None,
    "SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM t WHERE n = 1 AND t.ok = u.ok)": "(`n` = 1)",
    "SELECT 1 FROM t LEFT JOIN u ON t.n = u.n AND t.ok = TRUE WHERE t.n = 1": "(`n` = 1)",
    "SELECT 1 FROM u LEFT JOIN t ON t.n = 2 AND t.day IS NULL WHERE t.n IS NULL": "(`n` = 2) AND (`day` IS NULL)",
    "SELECT 1 FROM t RIGHT JOIN u ON t.ok = TRUE WHERE t.n = 1 AND t.day IS NULL": "(`ok` = TRUE) AND (`n` = 1)",
    "SELECT 1 FROM t JOIN v ON t.n = 1 FULL JOIN u ON t.n = 2 WHERE t.day IS NULL AND n > 3": "(`n` = 1) AND (`n` > 3)",
    "SELECT 1 FROM t SEMI JOIN u ON t.n = 1 AND u.n = 2 WHERE ok = TRUE": "(`n` = 1) AND (`ok` = TRUE)",
    "SELECT 1 FROM u LEFT ANTI JOIN t ON t.n = 1 AND u.n = 2 WHERE ok = TRUE": "(`n` = 1)",
    "SELECT 1 FROM t ANTI JOIN u ON t.n = 1 WHERE ok = TRUE": "(`ok` = TRUE)",
    "SELECT 1 FROM u JOIN t ON n = 1 NATURAL JOIN v": None,
    "SELECT 1 FROM t JOIN u USING (N) WHERE n = 1 AND ok = TRUE": "(`n` = 1) AND (`ok` = TRUE)",
    "SELECT 1 FROM u JOIN t USING (N) WHERE n = 1 AND ok = TRUE": "(`ok` = TRUE)",
    "SELECT 1 FROM u LEFT JOIN t USING (n) WHERE n = 1 AND t.n = 2": "(`n` = 2)",
    "SELECT 1 FROM t RIGHT JOIN u USING (n) WHERE n = 1": None,
    "SELECT 1 FROM t FULL JOIN u USING (n) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT n AS a, name AS n, ok FROM t x WHERE x.ok = TRUE) y WHERE y.a = 1 AND n = 'b'": (
        "(`ok` = TRUE) AND (`n` = 1) AND (`Name` = 'b')"
    ),
    "SELECT 1 FROM (SELECT *, n + 1 AS m FROM t) WHERE n = 1 AND m = 2": "(`n` = 1)",
    "SELECT 1 FROM (SELECT x.* FROM t x LEFT JOIN u) WHERE n = 1": "(`n` = 1)",
    "WITH c AS (SELECT n AS a FROM t) SELECT * FROM u JOIN c ON c.a = 1": "(`n` = 1)",
    "WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE n = 1 UNION SELECT * FROM c WHERE n = 2": None,
    "WITH c(n) AS (SELECT name FROM t) SELECT * FROM c WHERE n = 1": None,
    "SELECT 1 FROM (SELECT n, max(day) FROM t) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT n, my_sum(day) FROM t) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT n FROM t GROUP BY n) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT * FROM t LIMIT 1) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT n, row_number() OVER (ORDER BY n) FROM t) WHERE n = 1": None,
    "SELECT 1 FROM (SELECT * FROM t UNION ALL SELECT * FROM u) WHERE n = 1": None,
    "SELECT 1 FROM t TABLESAMPLE (1 ROWS) WHERE n = 1": None,
    "SELECT 1 FROM t AS x(m, n) WHERE n = 1": None,
    "SELECT 1 FROM t LATERAL VIEW explode(array(1)) e AS n WHERE n = 1": None,
    "SELECT 1 FROM t PIVOT (max(n) FOR name IN ('a')) WHERE n = 1": None,
    "SELECT 1 FROM t WHERE n = 1 OR n = 2": None,
    "SELECT 1 FROM t WHERE NOT n = 1": None,
    "SELECT 1 FROM t WHERE n NOT IN (1)": None,
    "SELECT 1 FROM t WHERE n IN (1, NULL)": None,
    "SELECT 1 FROM t WHERE n IN (SELECT 1)": None,
    "SELECT 1 FROM t WHERE n = :n": None,
    "SELECT 1 FROM t WHERE n = '1'": None,
    "SELECT 1 FROM t WHERE name = 1": None,
    "SELECT 1 FROM t WHERE n = 1e3": None,
    "SELECT 1 FROM t WHERE f = 0.1": None,
    "SELECT 1 FROM t WHERE at > '2024-01-31'": None,
    "SELECT 1 FROM t WHERE day > '2024-1-31'": None,
    "SELECT 1 FROM t WHERE n + 0 = 1": None,
    "SELECT 1 FROM t WHERE n.x = 1": None,
    "SELECT 1 FROM t GROUP BY n HAVING n = 1": None,
}


@pytest.mark.parametrize("query", LEFT_TO_THE_READER)
def test_what_of_a_where_is_left_to_the_reader(query: str) -> None:
    (table,) = [found for found in read_query(query).tables if found.parts[-1] == "t"]
    assert filter_option(table.comparisons, FIELDS) == LEFT_TO_THE_READER[query]


@pytest.mark.parametrize(
    ("query", "asked"),
    {
        "SELECT n, name AS a FROM t": "(`n` = 1)",
        "SELECT * FROM t JOIN u USING (n)": "(`n` = 1)",
        "SELECT count(*) AS n FROM t": None,
        "SELECT * FROM (SELECT * FROM t) x, t": None,
    }.items(),
)
def test_what_is_asked_of_the_rows_of_a_query(query: str, asked: str | None) -> None:
    found = read_named(query, [Comparison("n", "=", (Value("number", "1"),))])
    assert filter_option(found.get("t", ()), FIELDS) == asked


def test_a_column_that_is_not_the_tables_is_not_compared() -> None:
    assert filter_option([Comparison("m", "=", (Value("number", "1"),))], FIELDS) is None


def test_names_of_the_query_itself_are_no_tables() -> None:
    query = (
        "WITH t AS (SELECT * FROM t), U AS (SELECT * FROM t) SELECT * FROM u, t, db.t, (WITH v AS (SELECT 1) TABLE x)"
    )
    with pytest.raises(NotUnderstoodError):
        read_query(query)
    found = read_query(query.replace("TABLE x", "SELECT * FROM v, w"))
    assert sorted(table.parts for table in found.tables) == [("db", "t"), ("t",), ("w",)]


def test_versions_and_options_behind_names() -> None:
    text = (
        "SELECT version FROM t VERSION AS OF 'x' WITH ('a.b' = 'c', d = 3) AS q, u FOR SYSTEM_VERSION AS OF 7 "
        "JOIN v TIMESTAMP AS OF date_sub(now(), 1) - INTERVAL 1 DAY 2 HOURS w ON true"
    )
    tokens = tokenize(text)
    assert tokens is not None
    clauses = version_clauses(text, tokens)
    assert [(c.version, c.timestamp, dict(c.options)) for c in clauses] == [
        ("x", None, {}),
        (None, None, {"a.b": "c", "d": "3"}),
        ("7", None, {}),
        (None, "date_sub(now(), 1) - INTERVAL 1 DAY 2 HOURS", {}),
    ]
    blank = without_clauses(text, clauses)
    assert len(blank) == len(text)
    assert [table.alias for table in read_query(blank).tables] == ["q", None, "w"]


def test_words_of_a_version_may_mean_something_else() -> None:
    text = "SELECT version AS of FROM t"
    assert version_clauses(text, tokenize(text) or []) == []


def test_tokens() -> None:
    cursor = Cursor.of("SHOW TABLES IN `a``b`.c LIKE 'x''y' -- end\n;;")
    assert cursor is not None
    assert cursor.take("SHOW", "TABLES")
    assert cursor.take_any("FROM", "IN") == "IN"
    assert cursor.name() == ("a`b", "c")
    assert cursor.take("LIKE")
    assert cursor.string() == "x'y"
    assert cursor.at_end()
    assert Cursor.of("-- nothing") is None
    assert Cursor.of("SELECT 'open") is None
    pieces = Cursor.of("a INT, b STRUCT<x: INT, y: MAP<INT, INT>>, c DECIMAL(10, 2)")
    assert pieces is not None
    assert [piece.source() for piece in pieces.split()] == [
        "a INT",
        "b STRUCT<x: INT, y: MAP<INT, INT>>",
        "c DECIMAL(10, 2)",
    ]


def test_words_that_sqlglot_keeps_may_be_names() -> None:
    found = read_query("SELECT then.x AS end, CASE WHEN now.y THEN 1 END FROM db.t AS then JOIN u AS now USING (id)")
    assert [(table.parts, table.alias) for table in found.tables] == [(("db", "t"), "then"), (("u",), "now")]


@pytest.mark.parametrize(
    "pieces",
    [
        ["a = x < 3", "b = 2"],
        ["x > 3", "y < 2", "z >> 1", "q"],
        ["a MAP<STRING, ARRAY<INT>>", "b INT"],
        ["s STRUCT<a: INT, b: MAP<INT, INT>> COMMENT 'a, b'", "c INT"],
        ["f(a, b)", "m[c]"],
    ],
)
def test_a_comma_behind_a_comparison_separates(pieces: list[str]) -> None:
    cursor = Cursor.of(f"{', '.join(pieces)} WHERE a < b")
    assert cursor is not None
    assert [piece.source() for piece in cursor.until("WHERE").split()] == pieces
    assert cursor.rest().source() == "WHERE a < b"
