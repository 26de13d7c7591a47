"""Paimon's own statements about tags: reading them, and running them as procedures that no list shows.

The grammar is that of Java's ``PaimonSqlExtensions.g4``::

    ALTER TABLE t CREATE [OR REPLACE] TAG [IF NOT EXISTS] x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t REPLACE TAG x [AS OF VERSION n] [RETAIN n DAYS|HOURS|MINUTES]
    ALTER TABLE t DELETE TAG [IF EXISTS] x
    ALTER TABLE t RENAME TAG x TO y
    SHOW TAGS t
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.maintain.refs import tags
from paimon_spark.spark.sql.procedures.procedure import (
    STATEMENT,
    Arguments,
    CallContext,
    ResultColumn,
    Rows,
    procedure,
    statement_argument,
)
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.statements.cursor import Cursor, Kind, read_statement

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

ALTER_TAGS = "__alter_tags"
SHOW_TAGS = "__show_tags"
DESCRIPTION = "Paimon's own statements about tags."
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


def run_tag_statement(table: FileStoreTable, statement: TagStatement) -> None:
    """Do what a statement other than SHOW TAGS says.

    Raises:
        SnapshotNotFoundError: a tag or snapshot it names does not exist.
        PaimonError: the tag exists already, or its name is not allowed.
    """
    tag, snapshot_id, retained = statement.tag, statement.snapshot_id, statement.time_retained
    action = statement.action
    if action == "CREATE OR REPLACE":
        action = "REPLACE" if table.tags.exists(tag) else "CREATE"
    match action:
        case "CREATE":
            tolerant = statement.tolerant
            tags.create_tag(table, tag, snapshot_id=snapshot_id, time_retained=retained, ignore_if_exists=tolerant)
        case "REPLACE":
            tags.replace_tag(table, tag, snapshot_id=snapshot_id, time_retained=retained)
        case "DELETE":
            tags.delete_tags(table, tag, ignore_if_missing=True)  # Java: no error, with IF EXISTS or without it
        case "RENAME":
            tags.rename_tag(table, tag, statement.new_name)


def _statement(arguments: Arguments) -> TagStatement:
    return statement_argument(arguments, parse_tag_statement, "statement about tags")


@procedure(DESCRIPTION, (STATEMENT,), result=(), name=ALTER_TAGS)
def _alter_tags(context: CallContext, arguments: Arguments) -> None:
    statement = _statement(arguments)
    run_tag_statement(context.table(quoted(statement.table)), statement)


@procedure(DESCRIPTION, (STATEMENT,), result=(ResultColumn("tag", nullable=False),), name=SHOW_TAGS)
def _show_tags(context: CallContext, arguments: Arguments) -> Rows:
    table = context.table(quoted(_statement(arguments).table))
    return [(name,) for name in table.tags.names()]
