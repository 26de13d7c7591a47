"""Statements about views that stay in a catalog: reading them.

::

    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(a [COMMENT '…'], …)] [COMMENT '…'] [TBLPROPERTIES (…)] AS query
    DROP VIEW [IF EXISTS] v
    SHOW VIEWS [FROM|IN db] [[LIKE] 'pattern']
    ALTER VIEW v [AS] query | RENAME TO w | SET TBLPROPERTIES (…) | UNSET TBLPROPERTIES [IF EXISTS] (…)
    DESCRIBE [TABLE] [EXTENDED|FORMATTED] v, SHOW CREATE TABLE v, SHOW TBLPROPERTIES v [(key)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paimon_spark.spark.statements.cursor import Cursor, read_statement


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """One statement about a view."""

    action: str
    """CREATE, DROP, SHOW, AS, RENAME, SET, UNSET, DESCRIBE, SHOW CREATE or PROPERTIES."""
    name: tuple[str, ...] = ()
    """The view's; of SHOW the database's, and nothing for the current one."""
    query: str = ""
    columns: tuple[tuple[str, str | None], ...] = ()
    """Names and comments."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    """Of options: those to remove, or the one to show."""
    new_name: tuple[str, ...] = ()
    pattern: str | None = None
    replaces: bool = False
    tolerant: bool = False
    """IF EXISTS, IF NOT EXISTS."""
    extended: bool = False

    @property
    def may_be_of_table(self) -> bool:
        """Whether the same words say something of a table."""
        return self.action in ("DESCRIBE", "SHOW CREATE", "PROPERTIES")


def parse_view_statement(text: str | Cursor) -> ViewStatement | None:
    """Read a statement about a view; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _statement)


def _statement(cursor: Cursor) -> ViewStatement | None:
    if cursor.take("CREATE", "VIEW"):
        return _create(cursor, replaces=False)
    if cursor.take("CREATE", "OR", "REPLACE", "VIEW"):
        return _create(cursor, replaces=True)
    if cursor.take("ALTER", "VIEW"):
        return _alter(cursor)
    if cursor.take("DROP", "VIEW"):
        tolerant = cursor.take("IF", "EXISTS")
        return _whole(cursor, ViewStatement("DROP", cursor.name(), tolerant=tolerant))
    if cursor.take("SHOW", "VIEWS"):
        name = cursor.name() if cursor.take("FROM") or cursor.take("IN") else ()
        given = cursor.take("LIKE") or not cursor.at_end()
        return _whole(cursor, ViewStatement("SHOW", name, pattern=cursor.string() if given else None))
    return _description(cursor)


def _description(cursor: Cursor) -> ViewStatement | None:
    if cursor.take("SHOW", "CREATE", "TABLE") or cursor.take("SHOW", "CREATE", "VIEW"):
        return _whole(cursor, ViewStatement("SHOW CREATE", cursor.name()))
    if cursor.take("SHOW", "TBLPROPERTIES"):
        name = cursor.name()
        keys = cursor.keys() if cursor.sees("(") else ()
        return _whole(cursor, ViewStatement("PROPERTIES", name, keys=keys))
    if cursor.take("DESCRIBE") or cursor.take("DESC"):
        cursor.take("TABLE")
        extended = cursor.take("EXTENDED") or cursor.take("FORMATTED")
        return _whole(cursor, ViewStatement("DESCRIBE", cursor.name(), extended=extended))
    return None


def _create(cursor: Cursor, *, replaces: bool) -> ViewStatement:
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    found = ViewStatement("CREATE", cursor.name(), replaces=replaces, tolerant=tolerant)
    if cursor.sees("("):
        columns = []
        for piece in cursor.group().split():
            name = piece.identifier()
            columns.append((name, piece.string() if piece.take("COMMENT") else None))
            piece.finish()
        found = replace(found, columns=tuple(columns))
    while not cursor.take("AS"):
        if cursor.take("COMMENT"):
            found = replace(found, comment=cursor.string())
        elif cursor.take("TBLPROPERTIES"):
            found = replace(found, options=cursor.properties())
        else:
            cursor.fail("AS and a query are expected")
    return replace(found, query=_query(cursor))


def _alter(cursor: Cursor) -> ViewStatement:
    name = cursor.name()
    if cursor.take("RENAME", "TO"):
        return _whole(cursor, ViewStatement("RENAME", name, new_name=cursor.name()))
    if cursor.take("SET", "TBLPROPERTIES"):
        return _whole(cursor, ViewStatement("SET", name, options=cursor.properties()))
    if cursor.take("UNSET", "TBLPROPERTIES"):
        tolerant = cursor.take("IF", "EXISTS")
        return _whole(cursor, ViewStatement("UNSET", name, keys=cursor.keys(), tolerant=tolerant))
    cursor.take("AS")
    return ViewStatement("AS", name, query=_query(cursor))


def _query(cursor: Cursor) -> str:
    """All that follows, comments included, if it begins as a query does."""
    if not cursor.at_query():
        cursor.fail("a query is expected")
    return cursor.text[cursor.rest().tokens[0].start :].strip().rstrip(";").rstrip()


def _whole(cursor: Cursor, statement: ViewStatement) -> ViewStatement:
    cursor.finish()
    return statement
