"""What commands print: tables for a terminal, drawn by rich, or JSON for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField

T = TypeVar("T")

_WIDTH_OF_FILES = 200
"""Characters of a line where standard output is no terminal."""
_MOST_CELL = 200
"""Characters of a value in a terminal."""


class Output:
    """Standard output, for people or for scripts."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)

    def done(self, sentence: str, **facts: Any) -> None:
        """Print what a command did.

        Args:
            sentence: for people.
            facts: for scripts.
        """
        if self.as_json:
            self.object(facts)
        else:
            self.console.print(Text(sentence))

    def object(self, facts: Any) -> None:
        """Print one line of JSON."""
        print(json.dumps(plain(facts), ensure_ascii=False))

    def rows(self, rows: pa.Table, *, shown: Mapping[str, str] | None = None, title: str = "") -> None:
        """Print a small table.

        Args:
            rows: all columns, which JSON has.
            shown: columns that people see, in order, with their headings; all when not given.
            title: above the table; how many rows there are, below, when not given.
        """
        self.batches(rows.schema.names, rows.to_batches(), shown=shown, title=title)

    def batches(
        self,
        names: Sequence[str],
        batches: Iterable[pa.RecordBatch],
        *,
        shown: Mapping[str, str] | None = None,
        title: str = "",
    ) -> None:
        """Print rows: JSON as they come, a table for people when all are there; else as for `rows`."""
        if self.as_json:
            for batch in batches:
                for row in batch.to_pylist():
                    self.object(row)
            return
        headings = {name: name for name in names} if shown is None else shown
        table = Table(title=title or None, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        for heading in headings.values():
            table.add_column(Text(heading), overflow="fold", no_wrap=shown is not None)
        count = 0
        for batch in batches:
            for row in batch.select(list(headings)).to_pylist():
                count += 1
                table.add_row(*(_cell(row[name]) for name in headings))
        self.console.print(table)
        if not title:
            self.console.print(f"{count:,} {'row' if count == 1 else 'rows'}")

    def facts(self, facts: Sequence[tuple[str, str]], title: str) -> None:
        """Print names and values for people."""
        table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, text in facts:
            table.add_row(Text(name), Text(text))
        self.console.print(table)


def field_names(fields: Iterable[DataField]) -> list[str]:
    """Return the names of columns."""
    return [field.name for field in fields]


def tracked(done: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Give results as they come, with a bar on standard error where that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from done
        return
    from rich.progress import track

    yield from track(done, description=what, total=total, console=console)


def plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO texts, bytes as hexadecimal digits, decimals and NaN as texts."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case float() if not math.isfinite(value):
            return str(value)
        case Decimal() | timedelta():
            return str(value)
    return value


def _cell(value: Any) -> Text:
    """A value for people: times as SQL shows them, bytes as hexadecimal digits."""
    match value:
        case None:
            return Text("NULL", style="dim")
        case datetime():
            text = value.isoformat(sep=" ").removesuffix("000")
        case bytes():
            text = value.hex()
        case list() | dict():
            text = json.dumps(plain(value), ensure_ascii=False)
        case _:
            text = str(value)
    shown = text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}…"
    encoding = sys.stdout.encoding or "utf-8"
    return Text(shown.encode(encoding, "replace").decode(encoding))
