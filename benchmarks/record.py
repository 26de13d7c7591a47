"""Figures of a quiet machine: `figures.csv` keeps each that was taken, with its date; `RESULTS.md` shows the newest.

`python benchmarks/run.py` records what it measures. `python benchmarks/record.py` makes the table anew.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.csv")
RESULTS = Path(__file__).with_name("RESULTS.md")
BEGIN = "<!-- figures: made by benchmarks/run.py -->\n"
END = "<!-- end of figures -->\n"
COLUMNS = ("date", "pyspark", "measured", "seconds", "yardstick_seconds", "ratio", "aim")
QUIET_LOAD = 2.0

Figure = dict[str, str]


def is_quiet() -> bool:
    """Whether nothing else runs: a load under 2, before the benchmark itself makes one."""
    return os.getloadavg()[0] < QUIET_LOAD


def read_figures(path: Path = FIGURES) -> list[Figure]:
    """Every figure that was recorded, the oldest first."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def add_figures(figures: Iterable[Figure], path: Path = FIGURES) -> None:
    """Keep more figures."""
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(figures)


def table(figures: Iterable[Figure]) -> str:
    """Markdown: the newest figure of each measured thing, in the order in which they first appear."""
    newest: dict[str, Figure] = {}
    for figure in figures:
        newest[figure["measured"]] = figure
    lines = ["| measured | s | yardstick s | ratio | aim | taken | PySpark |", "|---|---|---|---|---|---|---|"]
    for name, figure in newest.items():
        shown = f"{figure['seconds']} | {figure['yardstick_seconds']} | **{figure['ratio']}** | {figure['aim']}"
        lines.append(f"| {name} | {shown} | {figure['date']} | {figure['pyspark']} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, figures: Iterable[Figure]) -> str:
    """The page with the table between its two comments."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table(figures) + END + rest.split(END)[1]


def main() -> None:
    """Make the table of the page anew."""
    RESULTS.write_text(with_table(RESULTS.read_text(encoding="utf-8"), read_figures()), encoding="utf-8")


if __name__ == "__main__":
    main()
