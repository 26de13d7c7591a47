"""Which files and columns a DELETE or UPDATE by DataFrames reads. No session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.spark.sql import matched_frames
from paimon_spark.spark.sql.matched_frames import FrameRows
from paimon_spark.spark.statements.expressions import Named
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table

COLUMNS = {"k": "INT", "v": "STRING", "c": "CHAR(3)", "x`y": "DOUBLE", "z": "DATE"}


@pytest.mark.parametrize(
    ("condition", "columns", "filtered"),
    [
        ("k = 1", "`k`", True),
        ("k = 1 AND v IN ('p', 'q')", "`k`,`v`", True),
        ("K BETWEEN 1 AND 2 OR z > DATE '2020-01-01'", "`k`,`z`", True),
        ('v = "k"', "`k`,`v`", False),  # a text or a column, as the session says
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, columns: str | None, filtered: bool
) -> None:
    monkeypatch.setattr(matched_frames, "settings_of", lambda _: {})
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(COLUMNS.items())]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options={"bucket": "-1"}))
    nothing: Any = None
    rows = FrameRows(nothing, table, {}, nothing, nothing, nothing, named=Named.by(condition), condition=condition)
    found = rows._narrowing(rows.columns_read())  # what `paths` and `located` add to the options of their loads
    assert found.get("columns") == columns
    assert found.get("filter") == (condition if filtered else None)
