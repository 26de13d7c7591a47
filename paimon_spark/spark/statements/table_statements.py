"""ANALYZE TABLE, MSCK REPAIR TABLE, COPY INTO and Paimon's own statements about tags, whose grammar is Java's.

See its ``PaimonSqlExtensions.g4``.

::

    ANALYZE TABLE t COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]
    [MSCK] REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]
    ALTER TABLE t CREATE [OR REPLACE] TAG [IF NOT EXISTS] x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t REPLACE TAG x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t DELETE TAG [IF EXISTS] x
    ALTER TABLE t RENAME TAG x TO y
    SHOW TAGS t
    COPY INTO t [(a, …)] FROM 'location' FILE_FORMAT = (TYPE = CSV|JSON|PARQUET, key = value, …)
        [PATTERN = 'expression'] [FORCE = TRUE|FALSE] [ON_ERROR = ABORT_STATEMENT|CONTINUE|SKIP_FILE]
    COPY INTO 'location' FROM t|(query) FILE_FORMAT = (…) [OVERWRITE = TRUE|FALSE]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from paimon_spark.errors import OptionError
from paimon_spark.spark.statements.cursor import Cursor, Kind, Token, read_statement

ANALYZE = "__analyze"


@dataclass(frozen=True, slots=True)
class AnalyzeStatement:
    """ANALYZE TABLE of one table."""

    table: tuple[str, ...]
    """The parts of the table's name."""
    columns: tuple[str, ...] = ()
    all_columns: bool = False
    refusal: str | None = None
    """Why it cannot be run, in Java's words."""

    @property
    def procedure(self) -> str:
        """The name of the procedure that runs it."""
        return ANALYZE


def parse_analyze_statement(text: str | Cursor) -> AnalyzeStatement | None:
    """Read an ANALYZE TABLE; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _analyze_statement)


def _analyze_statement(cursor: Cursor) -> AnalyzeStatement | None:
    if not cursor.take("ANALYZE", "TABLE"):
        return None
    table = cursor.name()
    if cursor.take("PARTITION"):
        return AnalyzeStatement(table, refusal="Analyze table partition is not supported: analyze the whole table.")
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.take("NOSCAN"):
        return AnalyzeStatement(table, refusal="NOSCAN is ineffective with paimon: leave it out.")
    statement = AnalyzeStatement(table)
    if cursor.take("FOR", "ALL", "COLUMNS"):
        statement = AnalyzeStatement(table, all_columns=True)
    elif cursor.take("FOR", "COLUMNS"):
        names = [cursor.identifier()]
        while cursor.take(","):
            names.append(cursor.identifier())
        statement = AnalyzeStatement(table, tuple(names))
    cursor.finish()
    return statement


REPAIR = "__repair_table"


@dataclass(frozen=True, slots=True)
class RepairStatement:
    """MSCK REPAIR TABLE of one table."""

    table: tuple[str, ...]
    """The parts of the table's name."""
    adds: bool = True
    """Whether partitions that have a directory become known."""
    drops: bool = False
    """Whether those that have none are forgotten."""

    @property
    def procedure(self) -> str:
        """The name of the procedure that runs it."""
        return REPAIR


def parse_repair_statement(text: str | Cursor) -> RepairStatement | None:
    """Read a MSCK REPAIR TABLE; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _repair_statement)


def _repair_statement(cursor: Cursor) -> RepairStatement | None:
    cursor.take("MSCK")
    if not cursor.take("REPAIR", "TABLE"):
        return None
    table, does = cursor.name(), cursor.take_any("ADD", "DROP", "SYNC")
    if does is not None:
        cursor.expect("PARTITIONS")
    cursor.finish()
    return RepairStatement(table, adds=does != "DROP", drops=does in ("DROP", "SYNC"))


ALTER_TAGS = "__alter_tags"
SHOW_TAGS = "__show_tags"
_UNITS = {"DAYS": timedelta(days=1), "HOURS": timedelta(hours=1), "MINUTES": timedelta(minutes=1)}


@dataclass(frozen=True, slots=True)
class TagStatement:
    """One statement about tags."""

    action: str
    """CREATE, CREATE OR REPLACE, REPLACE, DELETE, RENAME or SHOW."""
    table: tuple[str, ...]
    """The parts of the table's name."""
    tag: str = ""
    new_name: str = ""
    snapshot_id: int | None = None
    time_retained: timedelta | None = None
    tolerant: bool = False
    """IF NOT EXISTS, IF EXISTS."""

    @property
    def procedure(self) -> str:
        """The name of the procedure that runs it."""
        return SHOW_TAGS if self.action == "SHOW" else ALTER_TAGS


def parse_tag_statement(text: str | Cursor) -> TagStatement | None:
    """Read a statement about tags; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _tag_statement)


def _tag_statement(cursor: Cursor) -> TagStatement | None:
    if cursor.take("SHOW", "TAGS"):
        statement: TagStatement | None = TagStatement("SHOW", cursor.name())
    else:
        statement = _alter(cursor) if cursor.take("ALTER", "TABLE") else None
    if statement is not None:
        cursor.finish()
    return statement


def _alter(cursor: Cursor) -> TagStatement | None:
    table = cursor.name()
    if cursor.take("CREATE", "OR", "REPLACE", "TAG"):
        return _with_options(cursor, TagStatement("CREATE OR REPLACE", table))
    if cursor.take("CREATE", "TAG"):
        tolerant = cursor.take("IF", "NOT", "EXISTS")
        return _with_options(cursor, TagStatement("CREATE", table, tolerant=tolerant))
    if cursor.take("REPLACE", "TAG"):
        return _with_options(cursor, TagStatement("REPLACE", table))
    if cursor.take("DELETE", "TAG"):
        tolerant = cursor.take("IF", "EXISTS")
        return TagStatement("DELETE", table, _tag(cursor), tolerant=tolerant)
    if cursor.take("RENAME", "TAG"):
        tag = _tag(cursor)
        cursor.expect("TO")
        return TagStatement("RENAME", table, tag, _tag(cursor))
    return None


def _tag(cursor: Cursor) -> str:
    """The name of a tag; one of digits alone is refused later, by a sentence of its own."""
    token = cursor.peek()
    return str(cursor.number()) if token is not None and token.kind is Kind.NUMBER else cursor.identifier()


def _with_options(cursor: Cursor, statement: TagStatement) -> TagStatement:
    tag, snapshot_id, retained = _tag(cursor), None, None
    if cursor.take("AS", "OF", "VERSION"):
        snapshot_id = cursor.number()
    if cursor.take("RETAIN"):
        count = cursor.number()
        unit = _UNITS.get(cursor.take_any(*_UNITS) or "")
        if unit is None or count > timedelta.max // unit:
            cursor.fail("DAYS, HOURS or MINUTES are expected, and not too many")
        retained = count * unit
    return replace(statement, tag=tag, snapshot_id=snapshot_id, time_retained=retained)


ON_ERROR: Final = ("ABORT_STATEMENT", "CONTINUE", "SKIP_FILE")


@dataclass(frozen=True)
class CopyFormat:
    """What FILE_FORMAT says; keys in upper case."""

    type: str
    options: Mapping[str, str] = field(default_factory=dict)
    null_if: Sequence[str] = ()


@dataclass(frozen=True)
class CopyIntoTable:
    """COPY INTO a table."""

    table: tuple[str, ...]
    source: str
    file_format: CopyFormat
    columns: tuple[str, ...] | None = None
    pattern: str | None = None
    force: bool = False
    on_error: str = ON_ERROR[0]


@dataclass(frozen=True)
class CopyIntoLocation:
    """COPY INTO a location: rows become files."""

    location: str
    query: str
    file_format: CopyFormat
    overwrite: bool = False


def is_copy(cursor: Cursor) -> bool:
    """Whether a statement is Paimon's COPY INTO; that of Databricks has FILEFORMAT instead of FILE_FORMAT."""
    return cursor.sees("COPY", "INTO") and any(token.is_word("FILE_FORMAT") for token in cursor.tokens)


def read_copy(cursor: Cursor) -> CopyIntoTable | CopyIntoLocation:
    """Read the statement whose first words `is_copy` has seen.

    Raises:
        ParseException: it breaks the grammar.
        OptionError: FILE_FORMAT says no TYPE, or a key twice, or gives a list to a key that takes none; rows come of no
            query, or of a statement that changes something.
    """
    cursor.take("COPY", "INTO")
    first = cursor.peek()
    found = _into_location(cursor) if first is not None and first.kind is Kind.STRING else _into_table(cursor)
    cursor.finish()
    return found


def _into_table(cursor: Cursor) -> CopyIntoTable:
    table = cursor.name()
    columns = tuple(piece.identifier() for piece in cursor.group().split()) if cursor.sees("(") else None
    cursor.expect("FROM")
    found = CopyIntoTable(table, _string(cursor), _format(cursor), columns)
    if cursor.take("PATTERN"):
        cursor.expect("=")
        found = replace(found, pattern=_string(cursor))
    if cursor.take("FORCE"):
        found = replace(found, force=_boolean(cursor))
    if cursor.take("ON_ERROR"):
        cursor.expect("=")
        mode = cursor.take_any(*ON_ERROR)
        if mode is None:
            cursor.fail(f"one of {', '.join(ON_ERROR)} is expected")
        found = replace(found, on_error=mode)
    return found


def _into_location(cursor: Cursor) -> CopyIntoLocation:
    location = _string(cursor)
    cursor.expect("FROM")
    if cursor.sees("("):
        query = _read_only(location, cursor.group())
    else:
        start = cursor.at
        cursor.name()
        query = f"SELECT * FROM {cursor.since(start).source()}"
    found = CopyIntoLocation(location, query, _format(cursor))
    return replace(found, overwrite=_boolean(cursor)) if cursor.take("OVERWRITE") else found


_CHANGES = (("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO"))


def _read_only(location: str, query: Cursor) -> str:
    """Return the text of a query.

    Raises:
        OptionError: it is none, or one that changes something: Spark would run it for its rows.
    """
    text = query.source()
    if not text:
        raise OptionError(f"COPY INTO '{location}' requires a non-empty query: FROM (SELECT …)")
    updates = query.sees("WITH") and query.finds("UPDATE") and query.finds("SET")
    if not query.at_query() or updates or any(query.finds(*words) for words in _CHANGES):
        raise OptionError(
            f"COPY INTO '{location}' only supports read-only queries, no statement that changes something"
        )
    return text


_ESCAPED = {quote: re.compile(rf"\\(.)|{quote}({quote})", re.DOTALL) for quote in "'\""}
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def _string(cursor: Cursor) -> str:
    """Step over a text. It has fewer escapes than Spark's texts: a backslash before another letter stays."""
    start = cursor.at
    text = cursor.string()
    first, last = cursor.tokens[start], cursor.tokens[cursor.at - 1]
    written = cursor.text[first.start : last.end]
    quote = written[0]
    if first is not last or quote not in _ESCAPED:
        return text
    known = {**_MEANT, quote: quote}
    return _ESCAPED[quote].sub(lambda found: found[2] or known.get(found[1], found[0]), written[1:-1])


def _boolean(cursor: Cursor) -> bool:
    cursor.expect("=")
    word = cursor.take_any("TRUE", "FALSE")
    if word is None:
        cursor.fail("TRUE or FALSE is expected")
    return word == "TRUE"


def _value(piece: Cursor, token: Token) -> str:
    """The value of an option, behind which the next one begins or nothing."""
    if token.kind is Kind.STRING:
        value = _string(piece)
    else:
        value = token.text
        piece.at += 1
    piece.finish()
    return value


def _format(cursor: Cursor) -> CopyFormat:
    cursor.expect("FILE_FORMAT")
    cursor.expect("=")
    kind, options, null_if = "", dict[str, str](), tuple[str, ...]()
    seen = set[str]()
    for piece in cursor.group().split():
        key = piece.identifier().upper()
        if key in seen:
            raise OptionError(f"Duplicate FILE_FORMAT option: {key}. Say it once.")
        seen.add(key)
        piece.expect("=")
        if piece.sees("("):
            null_if = tuple(_string(each) for each in piece.group().split())
            piece.finish()
            if key != "NULL_IF":
                raise OptionError(f"{key} in FILE_FORMAT takes one value, not a list.")
            continue
        token = piece.peek()
        if token is None:
            piece.fail("a value is expected")
        value = _value(piece, token)
        if key == "TYPE":
            kind = value.upper()
        elif key == "NULL_IF":
            null_if = (value,)
        else:
            options[key] = value
    if not kind:
        raise OptionError("FILE_FORMAT must include TYPE = CSV, JSON or PARQUET.")
    return CopyFormat(kind, options, null_if)
