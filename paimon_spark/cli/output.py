"""What commands print: tables for a terminal, drawn by rich, or JSON for scripts."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyarrow import csv, parquet
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paimon_spark.errors import OptionError

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField

T = TypeVar("T")

_WIDTH_OF_FILES = 200
"""Characters of a line where standard output is no terminal."""
_MOST_CELL = 200
"""Characters of a value in a terminal."""


TABLE, JSON = "table", "json"
FORMS = (TABLE, JSON, "csv", "parquet", "arrow")
"""What rows are printed as."""


class Output:
    """Standard output, for people or for scripts."""

    def __init__(self, form: str = TABLE, file: str | None = None) -> None:
        """Take a form of `FORMS`, and a file to write to instead of standard output."""
        self.form = form
        self.file = file
        self.as_json = form == JSON
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)

    def done(self, sentence: str, **facts: Any) -> None:
        """Print what a command did."""
        if self.form != TABLE:
            self.object(facts)
        else:
            self.console.print(Text(sentence))

    def object(self, facts: Any) -> None:
        """Print facts for scripts: one line of JSON, or one row."""
        if not self.as_json:
            write_rows(self.form, self.file, pa.Table.from_pylist([plain(facts)]).to_batches(), None)
            return
        print(json.dumps(plain(facts), ensure_ascii=False))

    def rows(self, rows: pa.Table, *, shown: Mapping[str, str] | None = None, title: str = "") -> None:
        """Print a small table.

        Args:
            rows: all columns, which JSON has.
            shown: columns that people see, in order, with their headings; all when not given.
            title: above the table; how many rows there are, below, when not given.
        """
        self.batches(rows.schema, rows.to_batches(), shown=shown, title=title)

    def batches(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        *,
        shown: Mapping[str, str] | None = None,
        title: str = "",
    ) -> None:
        """Print rows: as they come, a table for people when all are there; else as for `rows`."""
        if self.form not in (TABLE, JSON):
            write_rows(self.form, self.file, batches, schema)
            return
        if self.as_json:
            for batch in batches:
                for row in batch.to_pylist():
                    self.object(row)
            return
        headings = {name: name for name in schema.names} if shown is None else shown
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


def write_rows(form: str, file: str | None, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None) -> None:
    """Write rows as CSV, Parquet or an Arrow stream, batch after batch, to a file or to standard output.

    Raises:
        OptionError: bytes would be written to a terminal.
    """
    rows = iter(batches)
    first = next(rows, None)
    if schema is None:
        schema = pa.schema([]) if first is None else first.schema
    if file is None and form != "csv" and sys.stdout.isatty():
        raise OptionError(f"{form} is not for a terminal: give --output FILE, or send it to another program")
    with open(file or os.dup(sys.stdout.fileno()), "wb") as sink, _writer(form, sink, schema) as writer:
        for batch in [] if first is None else chain([first], rows):
            writer.write_batch(_flat(batch, schema) if form == "csv" else batch.cast(schema))


def _writer(form: str, sink: Any, schema: pa.Schema) -> Any:
    match form:
        case "csv":
            return csv.CSVWriter(sink, pa.schema([_flat_field(field) for field in schema]))
        case "parquet":
            return parquet.ParquetWriter(sink, schema)
    return pa.ipc.new_stream(sink, schema)


def _flat_field(field: pa.Field) -> pa.Field:
    """CSV has no bytes, lists, maps and structs: they are texts, as in JSON."""
    return pa.field(field.name, pa.string()) if pa.types.is_nested(field.type) or _is_binary(field.type) else field


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _flat(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        if _flat_field(field).type == field.type:
            columns.append(column)
            continue
        values = (plain(value) for value in column.to_pylist())
        texts = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        columns.append(pa.array(texts, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([_flat_field(field) for field in schema]))


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
