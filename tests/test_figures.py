"""The table of figures in benchmarks/RESULTS.md is made from benchmarks/figures.csv."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import record


def test_the_page_shows_the_newest_figures() -> None:
    page = record.RESULTS.read_text(encoding="utf-8")
    assert record.with_table(page, record.read_figures()) == page, "run: python benchmarks/record.py"


def test_every_figure_has_a_date_and_a_ratio() -> None:
    for figure in record.read_figures():
        assert tuple(figure) == record.COLUMNS
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", figure["date"])
        assert float(figure["ratio"]) > 0


def test_a_newer_figure_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    path.write_text(",".join(record.COLUMNS) + "\n")
    old = dict.fromkeys(record.COLUMNS, "1") | {"measured": "a read", "date": "2026-01-01"}
    record.add_figures([old, {**old, "measured": "a write"}, {**old, "date": "2026-02-01", "ratio": "0.50"}], path)
    figures = record.read_figures(path)
    assert len(figures) == 3
    first, second = record.table(figures).splitlines()[2:]
    assert first == "| a read | 1 | 1 | **0.50** | 1 | 2026-02-01 | 1 |"
    assert second == "| a write | 1 | 1 | **1** | 1 | 2026-01-01 | 1 |"
