"""ANALYZE TABLE, MSCK REPAIR TABLE and Paimon's own statements about tags, whose grammar is Java's.

See its ``PaimonSqlExtensions.g4``.

::

    ANALYZE TABLE t COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]
    [MSCK] REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]
    ALTER TABLE t CREATE [OR REPLACE] TAG [IF NOT EXISTS] x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t REPLACE TAG x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t DELETE TAG [IF EXISTS] x
    ALTER TABLE t RENAME TAG x TO y
    SHOW TAGS t
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from paimon_spark.spark.statements.cursor import Cursor, Kind, read_statement

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
