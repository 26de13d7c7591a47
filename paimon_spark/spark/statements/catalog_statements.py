"""Statements about functions and views that stay in a catalog: reading them.

::

    CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] f ([x type [DEFAULT value] [COMMENT '…'], …])
        [RETURNS type] [LANGUAGE SQL] [[NOT] DETERMINISTIC] [COMMENT '…'] [CONTAINS SQL | READS SQL DATA] RETURN body
    CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] f AS 'class' [USING JAR '…']
    DROP FUNCTION [IF EXISTS] f
    DESCRIBE FUNCTION [EXTENDED] f
    SHOW [USER | SYSTEM | ALL] FUNCTIONS [FROM | IN db] [[LIKE] 'pattern']

    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(a [COMMENT '…'], …)] [COMMENT '…'] [TBLPROPERTIES (…)] AS query
    DROP VIEW [IF EXISTS] v
    SHOW VIEWS [FROM|IN db] [[LIKE] 'pattern']
    ALTER VIEW v [AS] query | RENAME TO w | SET TBLPROPERTIES (…) | UNSET TBLPROPERTIES [IF EXISTS] (…)
    DESCRIBE [TABLE] [EXTENDED|FORMATTED] v, SHOW CREATE TABLE v, SHOW TBLPROPERTIES v [(key)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from paimon_spark.spark.statements.cursor import Cursor, Kind, Token, read_statement

_Statement = TypeVar("_Statement")
_QUERY_WORDS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_HEAD_WORDS: Final = ("LANGUAGE", "DETERMINISTIC", "NOT", "COMMENT", "CONTAINS", "READS", "SPECIFIC", "SQL", "RETURN")
_STATED: Final = {"DETERMINISTIC": "deterministic", "CONTAINS": "contains", "READS": "reads"}
_AFTER_TYPE: Final = ("NOT", "DEFAULT", "COMMENT")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: str
    """As the statement has it."""
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """One statement about a function."""

    action: str
    """CREATE, CREATE CLASS, DROP, SHOW or DESCRIBE."""
    name: tuple[str, ...] = ()
    """The function's; of SHOW the database's, and nothing for the current one."""
    head: str = ""
    """What stands between the name and RETURN."""
    parameters: tuple[Parameter, ...] = ()
    returns: str = ""
    """The type; empty where the body tells it."""
    body: str = ""
    is_query: bool = False
    is_table: bool = False
    comment: str | None = None
    pattern: str | None = None
    scope: str = "ALL"
    replaces: bool = False
    tolerant: bool = False
    """IF EXISTS, IF NOT EXISTS."""
    extended: bool = False
    states: frozenset[str] = frozenset()
    """What the statement says itself: ``deterministic``, ``contains`` (SQL), ``reads`` (SQL DATA)."""


def parse_function_statement(text: str | Cursor) -> FunctionStatement | None:
    """Read a statement about a function; None where the text is anything else, or breaks the grammar."""
    return read_statement(text, _statement)


def _statement(cursor: Cursor) -> FunctionStatement | None:
    if cursor.take("CREATE", "FUNCTION"):
        return _create(cursor, replaces=False)
    if cursor.take("CREATE", "OR", "REPLACE", "FUNCTION"):
        return _create(cursor, replaces=True)
    if cursor.take("DROP", "FUNCTION"):
        tolerant = cursor.take("IF", "EXISTS")
        return _whole(cursor, FunctionStatement("DROP", cursor.name(), tolerant=tolerant))
    if cursor.take("DESCRIBE", "FUNCTION") or cursor.take("DESC", "FUNCTION"):
        extended = cursor.take("EXTENDED")
        return _whole(cursor, FunctionStatement("DESCRIBE", cursor.name(), extended=extended))
    return _show(cursor) if cursor.take("SHOW") else None


def _show(cursor: Cursor) -> FunctionStatement | None:
    scope = cursor.take_any("USER", "SYSTEM", "ALL") or "ALL"
    if not cursor.take("FUNCTIONS"):
        return None
    name, pattern = _listed(cursor)
    return _whole(cursor, FunctionStatement("SHOW", name, scope=scope, pattern=pattern))


def _listed(cursor: Cursor) -> tuple[tuple[str, ...], str | None]:
    """Read of which database a SHOW lists what, and the pattern of the names."""
    name = cursor.name() if cursor.take_any("FROM", "IN") else ()
    given = cursor.take("LIKE") or not cursor.at_end()
    return name, cursor.string() if given else None


def _create(cursor: Cursor, *, replaces: bool) -> FunctionStatement:
    tolerant = cursor.take("IF", "NOT", "EXISTS")
    found = FunctionStatement("CREATE", cursor.name(), replaces=replaces, tolerant=tolerant)
    if cursor.sees("AS"):
        return replace(found, action="CREATE CLASS")
    begin = cursor.at
    parameters = tuple(_parameter(piece) for piece in cursor.group().split())
    found = replace(found, parameters=parameters)
    while not cursor.take("RETURN"):
        if cursor.take("RETURNS", "TABLE"):
            found = replace(found, is_table=True)
            cursor.until("RETURN", *_HEAD_WORDS)
        elif cursor.take("RETURNS"):
            found = replace(found, returns=cursor.until(*_HEAD_WORDS).source())
        elif cursor.take("COMMENT"):
            found = replace(found, comment=cursor.string())
        elif cursor.at_end():
            cursor.fail("RETURN and a body are expected")
        else:  # Spark reads the others
            word = cursor.tokens[cursor.at]
            cursor.at += 1
            stated = _STATED.get(word.text.upper()) if word.kind == Kind.WORD else None
            found = found if stated is None else replace(found, states=found.states | {stated})
    head = Cursor(cursor.text, cursor.tokens[begin : cursor.at - 1]).source()
    body = cursor.rest()
    if not body.tokens:
        cursor.fail("a body is expected")
    return replace(found, head=head, body=body.source(), is_query=_is_query(body))


def _parameter(piece: Cursor) -> Parameter:
    name = piece.identifier()
    found = Parameter(name, piece.until(*_AFTER_TYPE).source())
    while not piece.at_end():
        if piece.take("DEFAULT"):
            found = replace(found, default=piece.until("COMMENT", "NOT").source())
        elif piece.take("COMMENT"):
            found = replace(found, comment=piece.string())
        else:
            piece.at += 1
    return found


def _is_query(body: Cursor) -> bool:
    """Whether a body is a query, in parentheses or not; else it is an expression."""
    inside = body.again()
    while inside.sees("("):
        group = inside.group()
        if not inside.at_end():
            return False
        inside = group
    return any(inside.sees(word) for word in _QUERY_WORDS) and not inside.sees("VALUES", ".")


def _whole(cursor: Cursor, statement: _Statement) -> _Statement:
    cursor.finish()
    return statement


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A name with an opening parenthesis behind it."""

    parts: tuple[str, ...]
    start: int
    end: int


_NO_CALL: Final = ("TABLE", "INTO", "EXISTS", "VIEW", "FUNCTION", "AS", "CALL", "USING", "WITH", "OVERWRITE")
"""What is named behind these words is no function."""
_GRAMMAR: Final = (
    " ADD ALL AND ANY AS BETWEEN BY CASE CHAR COLUMNS CUBE DEC DECIMAL DISTINCT ELSE EXCEPT EXISTS "
    "FILTER FROM GROUP HAVING ILIKE IN INSERT INTERSECT INTERVAL JOIN KEY LATERAL LIKE LIMIT MINUS NOT "
    "NUMERIC ON OPTIONS OR OVER PARTITION PIVOT REGEXP RETURN RLIKE ROLLUP SELECT SET SETS SOME "
    "TABLESAMPLE TBLPROPERTIES THEN UNION UNPIVOT USING VALUES VARCHAR WHEN WHERE WITH WITHIN "
)
"""Words before a parenthesis that are part of the grammar."""


def calls_in(cursor: Cursor) -> list[FunctionCall]:
    """The names in a statement that may be those of functions, in their order."""
    found, tokens = [], cursor.tokens
    for at, token in enumerate(tokens):
        if not token.is_sign("(") or at == 0:
            continue
        first = _first_part(tokens, at)
        if first is None or (first and tokens[first - 1].is_word(*_NO_CALL)):
            continue
        if first == at - 1 and tokens[first].kind == Kind.WORD and f" {tokens[first].text.upper()} " in _GRAMMAR:
            continue
        parts = tuple(each.text for each in tokens[first:at:2])
        found.append(FunctionCall(parts, tokens[first].start, tokens[at - 1].end))
    return found


def _first_part(tokens: Sequence[Token], at: int) -> int | None:
    """Where the name begins that ends before a place; None where none does."""
    names = (Kind.WORD, Kind.QUOTED)
    if tokens[at - 1].kind not in names:
        return None
    first = at - 1
    while first >= 2 and tokens[first - 1].is_sign(".") and tokens[first - 2].kind in names:
        first -= 2
    return first


class _Named(Protocol):
    """A part of a text that is a name."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


def with_names(text: str, renamed: Sequence[tuple[_Named, str]]) -> str:
    """A text in which names of functions or tables are other ones."""
    for part, name in sorted(renamed, key=lambda each: each[0].start, reverse=True):
        text = f"{text[: part.start]}{name}{text[part.end :]}"
    return text


def with_qualifier(body: str, function: str, parameters: Sequence[str], name: str) -> str:
    """A body whose parameters that are qualified by the function's name (``f.x``) are so by another one."""
    cursor = Cursor.of(body) if "." in body else None
    tokens = () if cursor is None else cursor.tokens
    names = {each.lower() for each in parameters}
    for at in range(len(tokens) - 3, -1, -1):
        first, dot, last = tokens[at : at + 3]
        is_one = dot.is_sign(".") and first.text.lower() == function.lower() and last.text.lower() in names
        if is_one and not (at and tokens[at - 1].is_sign(".")) and not _is_longer(tokens, at + 3):
            body = f"{body[: first.start]}{name}{body[first.end :]}"
    return body


def _is_longer(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].is_sign("(")


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
    return read_statement(text, _view_statement)


def _view_statement(cursor: Cursor) -> ViewStatement | None:
    if cursor.take("CREATE", "VIEW"):
        return _create_view(cursor, replaces=False)
    if cursor.take("CREATE", "OR", "REPLACE", "VIEW"):
        return _create_view(cursor, replaces=True)
    if cursor.take("ALTER", "VIEW"):
        return _alter_view(cursor)
    if cursor.take("DROP", "VIEW"):
        tolerant = cursor.take("IF", "EXISTS")
        return _whole(cursor, ViewStatement("DROP", cursor.name(), tolerant=tolerant))
    if cursor.take("SHOW", "VIEWS"):
        name, pattern = _listed(cursor)
        return _whole(cursor, ViewStatement("SHOW", name, pattern=pattern))
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


def _create_view(cursor: Cursor, *, replaces: bool) -> ViewStatement:
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


def _alter_view(cursor: Cursor) -> ViewStatement:
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
