"""Which files and columns a DELETE or UPDATE by DataFrames reads. No session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.spark.sql import matched_frames
from paimon_spark.spark.sql.matched_frames import FrameRows
from paimon_spark.spark.statements.expressions import Named, Relation, without_qualifiers
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table

COLUMNS = {"k": "INT", "v": "STRING", "c": "CHAR(3)", "x`y": "DOUBLE", "z": "DATE"}


@pytest.mark.parametrize(
    ("condition", "columns", "filtered"),
    [
        ("k = 1", "`k`", True),
        ("k = 1 AND v IN ('p', 'q')", "`k`,`v`", "(k = 1) AND (v IN ('p', 'q'))"),
        ("K BETWEEN 1 AND 2 OR z > DATE '2020-01-01'", "`k`,`z`", True),
        ("k = 1 AND upper(v) = 'P'", "`k`,`v`", "k = 1"),
        (
            "v LIKE '%q' AND k BETWEEN 1 AND 2 AND length(v) BETWEEN 1 AND 2 AND z IS NULL",
            "`k`,`v`,`z`",
            "(v LIKE '%q') AND (k BETWEEN 1 AND 2) AND (z IS NULL)",
        ),
        ("k = 1 AND k IN (SELECT k FROM other) AND v = 'p' -- the end", "`k`,`v`", "(k = 1) AND (v = 'p')"),
        ("k = 1 AND upper(v) = 'P' OR z IS NULL", "`k`,`v`,`z`", False),
        ("(k = 1 OR upper(v) = 'P') AND z IS NULL", "`k`,`v`,`z`", "z IS NULL"),
        ("CASE WHEN k = 1 AND v = 'p' THEN true END", "`k`,`v`", False),
        ("NOT k = 1 AND c = 'a'", "`k`,`c`", "NOT k = 1"),
        ("k = 1 AND", "`k`", False),
        ("k = 1 AND exists(array(1), x -> x = 1 AND x < k)", "`k`", "k = 1"),
        ('v = "k" AND k = 1', "`k`,`v`", '(v = "k") AND (k = 1)'),
        ('v = "k""l"', "`k`,`v`", False),
        (r"v = 'a\n'", "`v`", False),
        ("v = :p", "`v`", False),
        ("c = 'a'", "`c`", False),
        ("`x``y` > 1", "`x``y`", False),
        ("k IN (SELECT k FROM other)", "`k`", False),
        ("to_json(struct(*)) = ''", None, False),
        ("true", "`k`", True),
    ],
)
def test_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, columns: str | None, filtered: bool | str
) -> None:
    monkeypatch.setattr(matched_frames, "double_quotes_name", lambda _: False)
    found = narrowing(tmp_path, monkeypatch, condition)
    assert found.get("columns") == columns
    assert found.get("filter") == (condition if filtered is True else filtered or None)


def test_where_double_quotes_stand_around_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matched_frames, "double_quotes_name", lambda _: True)
    assert narrowing(tmp_path, monkeypatch, 'v = "k" AND k = 1') == {"columns": "`k`,`v`", "filter": "k = 1"}


def narrowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str) -> dict[str, str]:
    """What `paths` and `located` add to the options of their loads."""
    monkeypatch.setattr(matched_frames, "settings_of", lambda _: {})
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(COLUMNS.items())]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options={"bucket": "-1"}))
    nothing: Any = None
    rows = FrameRows(nothing, table, {}, nothing, nothing, nothing, named=Named.by(condition), condition=condition)
    return rows._narrowing(rows.columns_read())


@pytest.mark.parametrize(
    ("condition", "plain"),
    [
        ("t.k = 1 AND db.t.v = 't.v'", "k = 1 AND v = 't.v'"),
        ("T.`k` IN (SELECT t.k FROM t)", "`k` IN (SELECT t.k FROM t)"),
        ("c.db.t.k.x = 1", "k.x = 1"),
        ("t.t = 1", "t = 1"),
        ("t.x = 1", "t.x = 1"),
        ("other.k = 1", "other.k = 1"),
        ("count(t.*) > 1", "count(t.*) > 1"),
        ("k = ", "k = "),
    ],
)
def test_columns_without_the_name_of_their_table(condition: str, plain: str) -> None:
    own = Relation(("c", "db", "t"), lambda: ["k", "v", "t"], "t")
    assert without_qualifiers(condition, own) == plain
