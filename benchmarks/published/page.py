"""Make `docs/benchmarks.md` and its pictures of `figures.json`: `python -m benchmarks.published.page`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.published.peers import NAMES
from benchmarks.published.suites import SUITES

ROOT = Path(__file__).parents[2]
FIGURES = Path(__file__).with_name("figures.json")
PAGE = ROOT / "docs/benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
COLOURS = dict(zip(NAMES, ("#1f5fbf", "#7fa9e8", "#c66a1e", "#eab384", "#3d8b4a", "#888888"), strict=True))
_BAR, _GAP, _LEFT, _WIDTH = 13, 14, 250, 720

LINE = 120
INTRODUCTION = """# Benchmarks

Benchmarks that others have published, run on this package, the official connector 2.1 (of its sources at `5dacde51`),
Delta Lake 4.1 and plain Parquet: one machine with two cores, one Spark (4.1, `local[2]`), each in a session of its own,
step by step in turn, so that all meet the same load. All find the same rows; that is checked at each step. Seconds are
medians. Data are made by the benchmark in the shape of TPC-DS. `keyed` is a table with a primary key and four buckets;
the others have none. A step in which this package is not the first is not left out; a dash stands where a format has no
such step, or failed. Scale 1 is 1 GB. What was measured on a machine that others used is marked: there only ratios of
what was taken in turn mean something.

```sh
python -m benchmarks.published.run --official JAR --python PYTHON_WITH_SPARK_4.1 --keep
```

What is measured besides, each with its command: `benchmarks/RESULTS.md` in the repository.
"""
NOTES = {
    "merges": "The 16 cases of Delta's `MergeTestCases` over `web_returns` in 20 files, each on a fresh copy. Parquet "
    "has no MERGE: there the rows are joined and the whole table is written anew.",
    "refresh": "`store_sales` and six dimensions of TPC-DS; queries 3, 9, 34, 42 and 59; ten MERGEs of 3 % (half of "
    "the rows new); the same queries again. Steps that change the table run once. Nothing is compacted between.",
    "micro": "Four columns; a MERGE whose source has so many percent of the table's rows, half of them new; reads "
    "after the last one. The published size is 100 GB on a cluster.",
    "files": "Partitions of one file with 50 rows each. The published files have 10 MB, on a cluster.",
}


def picture(title: str, found: dict[str, dict[str, float]]) -> str:
    """An SVG: bars of seconds, a group for each step, as shares of the group's longest."""
    names = [peer for peer in NAMES if any(peer in row for row in found.values())]
    shapes, y = [], 34
    for at, peer in enumerate(names):
        shapes.append(f'<rect x="{20 + 115 * at}" y="12" width="12" height="12" fill="{COLOURS[peer]}"/>')
        shapes.append(f'<text x="{37 + 115 * at}" y="22" font-size="12">{peer}</text>')
    for step, row in found.items():
        middle = y + _BAR * len(row) / 2 + 4
        shapes.append(f'<text x="{_LEFT - 8}" y="{middle}" font-size="11" text-anchor="end">{step}</text>')
        longest = max(row.values())
        for peer in names:
            if peer in row:
                width = max((_WIDTH - _LEFT - 60) * row[peer] / longest, 1)
                shapes.append(
                    f'<rect x="{_LEFT}" y="{y}" width="{width:.0f}" height="{_BAR - 2}" fill="{COLOURS[peer]}"/>'
                )
                shapes.append(f'<text x="{_LEFT + width + 4:.0f}" y="{y + 9}" font-size="9">{row[peer]:.2f} s</text>')
                y += _BAR
        y += _GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" font-family="sans-serif" role="img">'
    return "\n".join([head, f"<title>{title}</title>", *shapes, "</svg>"]) + "\n"


def table(found: dict[str, dict[str, float]]) -> str:
    """Markdown: seconds of each peer; the least is bold."""
    names = [name for name in NAMES if any(name in row for row in found.values())]
    lines = [f"| step | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for step, row in found.items():
        best = min(row.values())
        cells = [f"**{row[n]:.2f}**" if row.get(n) == best else f"{row[n]:.2f}" if n in row else "-" for n in names]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ratios(found: dict[str, dict[str, float]]) -> str:
    """A sentence: this package's median ratio to each other peer, and where another one is first."""
    others = [peer for peer in NAMES if not peer.startswith("ours") and any(peer in row for row in found.values())]
    parts = []
    for peer in others:
        own = "ours, keyed" if peer.endswith("keyed") else "ours"
        values = [row[own] / row[peer] for row in found.values() if own in row and peer in row]
        if values:
            parts.append(f"`{own}` takes {statistics.median(values):.2f} of `{peer}`")
    lost = [step for step, row in found.items() if not min(row, key=row.__getitem__).startswith("ours")]
    first = f"First in {len(found) - len(lost)} of {len(found)} steps"
    said = f", not in: {'; '.join(lost)}" if lost else ""
    return f"Medians: {', '.join(parts)}. {first}{said}."


def page(figures: dict[str, Any]) -> str:
    """The page's text."""
    parts = [INTRODUCTION]
    for suite, (_, title) in SUITES.items():
        if suite in figures:
            given = figures[suite]
            state = f"{given['date']}, scale {given['scale']:g}, {'**a busy machine**' if given['busy'] else 'quiet'}."
            said = " ".join((state, *given["notes"], ratios(given["seconds"])))
            lines = [f"## {title}", "", *wrap(NOTES[suite], LINE), "", *wrap(said, LINE), ""]
            lines += [f"![{title}](pictures/benchmark_{suite}.svg)", "", table(given["seconds"]), ""]
            parts.append("\n".join(lines))
    return "\n".join(parts)


def kept() -> dict[str, Any]:
    """The newest figures, by suite."""
    return dict(json.loads(FIGURES.read_text(encoding="utf-8"))) if FIGURES.exists() else {}


def keep(suite: str, figures: dict[str, Any]) -> None:
    """Take the place of a suite's older figures."""
    FIGURES.write_text(json.dumps({**kept(), suite: figures}, indent=1) + "\n", encoding="utf-8")


def pictures(figures: dict[str, Any]) -> dict[str, str]:
    """The pictures' texts, by the names of their files."""
    return {
        f"benchmark_{suite}.svg": picture(title, figures[suite]["seconds"])
        for suite, (_, title) in SUITES.items()
        if suite in figures
    }


def main() -> None:
    """Write the page and the pictures."""
    figures = kept()
    for name, text in pictures(figures).items():
        (PICTURES / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
