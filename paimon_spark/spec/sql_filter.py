"""SQL text of a row filter to a predicate tree: comparisons of one column with literals, AND, OR, NOT.

A column may be the value that a MAP<STRING, …> has for a key: ``attributes['color']``.

Understood: ``= == <> != < <= > >= <=>``, ``[NOT] IN``, ``[NOT] BETWEEN``, ``[NOT] LIKE [ESCAPE]``, ``IS [NOT] NULL``,
``IS [NOT] TRUE/FALSE``, boolean columns, TRUE and FALSE. Literals are Spark's: numbers, 'text', TRUE, NULL, X'0A',
DATE '…', TIME '…', TIMESTAMP '…', TIMESTAMP_NTZ '…', TIMESTAMP_LTZ '…'. The text is parsed by sqlglot.

Long IN lists of plain numbers and texts, taken out before a text is parsed: a parser makes objects of each literal.

A text with comments, backslashes or double quotes is parsed as it is, since something else could look like a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from decimal import Decimal, DecimalException
from typing import Any, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from paimon_spark.errors import OptionError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.filter_literals import (
    Fitted,
    LiteralError,
    cast_to_float,
    fit_literal,
    parse_clock,
    parse_date,
    parse_time,
)
from paimon_spark.spec.predicate import Always, KeyOfMap, Leaf, Not, Predicate, all_of, any_of, with_keys
from paimon_spark.spec.schema import TableSchema

_OPERAND = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+'>")
"""The parser's words for an expression that lacks a part."""
_MOST_SHOWN = 2000
"""Characters of a filter that a message shows."""

_HELP = (
    "A filter compares columns with literals (=, <>, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS NULL) "
    "and combines that with AND, OR and NOT."
)
_COMPARISONS: dict[type[exp.Expression], str] = {
    **{exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge"},
    exp.NullSafeEQ: "eq_null_safe",
}
_PARTS: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Cast: ("this", "to", "safe"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Literal: ("this", "is_string"),
    exp.Column: ("this", "table"),
    exp.Bracket: ("this", "expressions"),
}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_EXACT_NUMBER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
_CLOCK_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ")

PLACEHOLDER: Final = "_long_list_"
"""Lists stand in the shortened text as ``:_long_list_0``, ``:_long_list_1``, …"""

_SHORTEST_TEXT: Final = 2000
_FEWEST_VALUES: Final = 64
_LITERAL: Final = r"(?:-?[0-9]{1,60}(?:\.[0-9]{1,60})?|'[^']*')"
_PIECES: Final = re.compile(
    rf"'[^']*'|`[^`]*`|\bIN\s*\((?P<list>\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)*+)\)", re.ASCII | re.IGNORECASE
)
_LITERALS: Final = re.compile(_LITERAL)
_INTEGERS: Final = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_ELSEWHERE: Final = ("--", "/*", "\\", '"', f":{PLACEHOLDER}")
_RAW_TEXT: Final = re.compile(r"\b[rRxXbB]'")


class FilterDialect(Spark):  # type: ignore[misc]
    """Spark's SQL, where a doubled quote inside a text is a quote (as since Spark 4)."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        """Spark's tokens."""

        STRING_ESCAPES: tuple[str, ...] = ("\\", "'")


def parse_filter(
    sql: str, schema: TableSchema | Sequence[t.DataField], *, time_zone: tzinfo | None = None
) -> Predicate:
    """The predicate that an SQL condition states about the columns of a table.

    Args:
        sql: The condition; column names regardless of case, in back quotes where needed.
        schema: The table's schema, or its columns.
        time_zone: Zone of the clock in literals for TIMESTAMP WITH LOCAL TIME ZONE columns; this machine's without.

    Raises:
        OptionError: Not a condition, or one that the predicate tree does not know; the message shows the piece.
    """
    fields = schema.fields if isinstance(schema, TableSchema) else tuple(schema)
    shown = sql if len(sql) <= _MOST_SHOWN else f"{sql[:_MOST_SHOWN]}…"
    text, lists = without_long_lists(sql)
    try:
        statements = sqlglot.parse(text, dialect=FilterDialect)
        if len(statements) != 1 or statements[0] is None:
            raise OptionError(f"The filter '{shown}' is not one condition. {_HELP}")
        return with_keys(_Translator(shown, fields, time_zone, lists).condition(statements[0]))
    except SqlglotError as error:
        reason = _OPERAND.sub("a value is missing", str(error).splitlines()[0])
        raise OptionError(f"The filter '{shown}' is not SQL: {reason}") from None
    except RecursionError:
        raise OptionError(f"The filter '{sql[:200]}…' is nested too deeply.") from None


class _Translator:
    def __init__(
        self, sql: str, fields: Sequence[t.DataField], time_zone: tzinfo | None, lists: Sequence[list[str]]
    ) -> None:
        self._sql = sql
        self._fields = fields
        self._time_zone = time_zone
        self._lists = lists

    def condition(self, node: exp.Expression) -> Predicate:
        """The predicate of a boolean expression."""
        if node.args.get("negate"):
            positive = node.copy()
            positive.set("negate", None)
            return Not(self.condition(positive))
        if isinstance(node, exp.Escape) and node.this.args.get("negate"):
            positive = node.copy()
            positive.this.set("negate", None)
            return Not(self.condition(positive))
        self._check_parts(node)
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return all_of(self.condition(part) for part in node.flatten())
            case exp.Or():
                return any_of(self.condition(part) for part in node.flatten())
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Column() | exp.Bracket():
                return Leaf("eq", self._column(node, t.BooleanType).name, (True,))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._in(node)
            case exp.Between():
                field = self._column(node.this)
                low, high = self._fit(node.args["low"], field), self._fit(node.args["high"], field)
                return all_of((_compare("ge", field, low), _compare("le", field, high)))
            case exp.Escape() if isinstance(node.this, exp.Like):
                return self._like(node.this, self._text(node.expression))
            case exp.Like():
                return self._like(node, "\\")
        op = _COMPARISONS.get(type(node))
        if op is None:
            self._refuse(node)
        left, right = _bare(node.this), _bare(node.expression)
        if not isinstance(left, exp.Column | exp.Bracket):
            left, right, op = right, left, _MIRRORED.get(op, op)
        if not isinstance(left, exp.Column | exp.Bracket):
            self._refuse(node)
        field = self._column(left)
        return _compare(op, field, self._fit(right, field))

    def _refuse(self, node: exp.Expression | None, reason: str = "is not supported in a filter") -> NoReturn:
        piece = self._sql if node is None else re.sub(rf":{PLACEHOLDER}\d+", "…", node.sql(dialect=FilterDialect))
        raise OptionError(f"Cannot use the filter '{self._sql}': '{piece}' {reason}. {_HELP}")

    def _check_parts(self, node: exp.Expression) -> None:
        """Refuse a node with arguments that are not translated, in any version of sqlglot."""
        known = _PARTS.get(type(node), ("this", "expression"))
        if any(value and key not in known for key, value in node.args.items()):
            self._refuse(node)

    def _column(self, node: exp.Expression, *types: type[Any]) -> t.DataField:
        node = _bare(node)
        if isinstance(node, exp.Bracket):
            return self._value_of_key(node, *types)
        if not isinstance(node, exp.Column):
            self._refuse(node)
        self._check_parts(node)
        if node.table:
            self._refuse(node, "names a field inside a column, which is not supported in a filter")
        name = node.name
        found = [f for f in self._fields if f.name == name] or [
            f for f in self._fields if f.name.lower() == name.lower()
        ]
        if len(found) != 1:
            names = [f.name for f in self._fields]
            what = "matches several columns that differ only by case" if found else "is not a column of the table"
            raise OptionError(f"Cannot use the filter '{self._sql}': '{name}' {what}. The columns are {names}.")
        if types and not isinstance(found[0].type, types):
            self._refuse(node, f"is a column of type {found[0].type}, which this condition does not take")
        return found[0]

    def _value_of_key(self, node: exp.Bracket, *types: type[Any]) -> t.DataField:
        """A column in place of the value that a map has for a key."""
        self._check_parts(node)
        field = self._column(node.this)
        keys = node.expressions
        if not isinstance(field.type, t.MapType) or not isinstance(field.type.key, t.VarCharType) or len(keys) != 1:
            self._refuse(node, "is not the value of a key of a MAP<STRING, …>")
        value = field.type.value
        if types and not isinstance(value, types):
            self._refuse(node, f"is a value of type {value}, which this condition does not take")
        return t.DataField(field.id, KeyOfMap(field.name, self._text(keys[0])), value)

    def _is(self, node: exp.Is) -> Predicate:
        match node.expression:
            case exp.Null():
                return Leaf("is_null", self._column(node.this).name)
            case exp.Boolean():
                field = self._column(node.this, t.BooleanType)
                return Leaf("eq_null_safe", field.name, (bool(node.expression.this),))
        self._refuse(node)

    def _in(self, node: exp.In) -> Predicate:
        field = self._column(node.this)
        values = node.expressions
        if not values:
            self._refuse(node)
        if self._lists and len(values) == 1 and isinstance(values[0], exp.Placeholder):
            return self._long_list(node, field, self._lists[int(values[0].name.removeprefix(PLACEHOLDER))])
        fitted = [self._fit(value, field) for value in values]
        # a literal that no value of the column's type equals decides nothing
        return Leaf("in", field.name, _forms(field, (f.value for f in fitted if f.exact)))

    def _long_list(self, node: exp.In, field: t.DataField, texts: list[str]) -> Predicate:
        try:
            return Leaf("in", field.name, _forms(field, fit_all(texts, field.type, self._time_zone)))
        except LiteralError as error:
            self._refuse(node, f"is a list that cannot be compared with '{field.name}' of type {field.type}: {error}")

    def _like(self, node: exp.Like, escape: str) -> Predicate:
        field = self._column(node.this, t.CharType, t.VarCharType)
        if isinstance(_bare(node.expression), exp.Null):
            return Leaf("like", field.name, (None,))
        pattern = self._text(node.expression)
        if len(escape) != 1:
            self._refuse(node, "has an ESCAPE that is not one character")
        parts = _pattern_parts(pattern, escape)
        if parts is None:
            self._refuse(node, f"has a pattern where '{escape}' is not followed by '%', '_' or itself")
        return _like(field.name, parts)

    def _text(self, node: exp.Expression) -> str:
        value = self._literal(node)
        if not isinstance(value, str):
            self._refuse(node, "is not a text")
        return value

    def _fit(self, node: exp.Expression, field: t.DataField) -> Fitted:
        value = self._literal(node)
        try:
            return fit_literal(value, field.type, self._time_zone)
        except LiteralError as error:
            self._refuse(node, f"cannot be compared with column '{field.name}' of type {field.type}: {error}")

    def _literal(self, node: exp.Expression) -> Any:
        """A Python value for a literal: None, bool, Decimal, float (of a cast), str, bytes, date or Clock."""
        node = _bare(node)
        self._check_parts(node)
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal() if node.is_string:
                return node.name
            case exp.Literal():
                return self._number(node)
            case exp.RawString():
                return node.name
            case exp.Neg():
                value = self._literal(node.this)
                if isinstance(value, Decimal):
                    return value.copy_negate()
                if isinstance(value, float):
                    return -value
            case exp.HexString():
                digits = node.name
                try:
                    return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
                except ValueError:
                    self._refuse(node, "is not a hexadecimal literal")
            case exp.Cast():
                return self._typed(node)
        self._refuse(node, "is not a literal")

    def _number(self, node: exp.Expression) -> Decimal:
        text = node.name
        try:
            if len(text) < 400:
                return Decimal(text)
        except DecimalException:
            pass
        self._refuse(node, "is not a number")

    def _typed(self, node: exp.Cast) -> Any:
        inner = self._literal(node.this)
        kind = node.to.this.value
        parsers: dict[str, Callable[[str], Any]] = {
            "DATE": parse_date,
            "TIME": parse_time,
            **dict.fromkeys(_CLOCK_TYPES, parse_clock),
        }
        try:
            if isinstance(inner, str) and kind in parsers:
                return parsers[kind](inner)
            if kind in ("FLOAT", "DOUBLE") and isinstance(inner, str | Decimal | float):
                return cast_to_float(inner, single=kind == "FLOAT")
            if kind in _EXACT_NUMBER_TYPES and isinstance(inner, str | Decimal):
                return Decimal(inner)
        except LiteralError as error:
            self._refuse(node, f"is not a {kind}: {error}")
        except DecimalException:
            self._refuse(node, "is not a number")
        if kind in ("TEXT", "VARCHAR") and isinstance(inner, str):
            return inner
        self._refuse(node)


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _compare(op: str, field: t.DataField, literal: Fitted) -> Predicate:
    """The comparison, made exact where the column's type cannot hold the literal."""
    name, value = field.name, literal.value
    if isinstance(field.type, t.CharType) and isinstance(value, str):
        return _compare_char(op, name, value, field.type.length)
    if literal.exact:
        return Leaf(op, name, (value,))
    true_if_not_null, false_if_not_null = Leaf("not_in", name, ()), Leaf("in", name, ())
    if op == "eq_null_safe":
        return Always(False)
    if op in ("eq", "ne"):
        return false_if_not_null if op == "eq" else true_if_not_null
    if literal.beyond:
        return true_if_not_null if (op in ("lt", "le")) == (literal.beyond > 0) else false_if_not_null
    return Leaf("le" if op in ("lt", "le") else "gt", name, (value,))


def _forms(field: t.DataField, values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a list, each once; of a CHAR column in all forms that are equal to one of them."""
    if isinstance(field.type, t.CharType):
        length = field.type.length
        values = (form for v in values for form in (char_forms(v, length) if isinstance(v, str) else (v,)))
    return tuple(dict.fromkeys(values))


def _compare_char(op: str, name: str, value: str, length: int) -> Predicate:
    """The comparison of texts that both are padded with blanks to the column's length; files hold them padded or not.

    Values and literals with control characters behind their blanks, which sort before a blank, are compared as stored.
    """
    padded = value.ljust(length)
    equal = Leaf("in", name, char_forms(value, length))
    match op:
        case "eq":
            return equal
        case "eq_null_safe":
            return all_of((equal, Not(Leaf("is_null", name))))
        case "ne":
            return Not(equal)
        case "lt":
            return all_of((Leaf("lt", name, (padded,)), Not(equal)))
        case "ge":
            return any_of((Leaf("ge", name, (padded,)), equal))
    return Leaf(op, name, (padded,))


def char_forms(value: str, length: int) -> tuple[str, ...]:
    """All texts that are this one once both are padded with blanks: with no blanks behind, one, and so on."""
    bare = value.rstrip(" ")
    if len(value) > length:
        return (value,)
    return tuple(bare.ljust(width) for width in range(len(bare), length + 1))


def _pattern_parts(pattern: str, escape: str) -> list[str] | None:
    """The pattern as literal characters and, as texts of two characters, the wildcards; None when it is not one."""
    parts: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            following = next(chars, "")
            if following not in ("%", "_", escape):
                return None
            parts.append(following)
        else:
            parts.append(f"*{char}" if char in "%_" else char)
    return parts


def _like(name: str, parts: list[str]) -> Predicate:
    wild = [part for part in parts if len(part) == 2]
    plain = "".join(part for part in parts if len(part) == 1)
    if not wild:
        return Leaf("eq", name, (plain,))
    if wild == ["*%"] and parts[-1] == "*%":
        return Leaf("starts_with", name, (plain,))
    if wild == ["*%"] and parts[0] == "*%":
        return Leaf("ends_with", name, (plain,))
    if wild == ["*%", "*%"] and parts[0] == parts[-1] == "*%":
        return Leaf("contains", name, (plain,))
    return Leaf("like", name, ("".join(p[1] if len(p) == 2 else f"\\{p}" if p in "%_\\" else p for p in parts),))


def without_long_lists(sql: str) -> tuple[str, list[list[str]]]:
    """The text with a placeholder for each long list, and the literals of the lists as they were written."""
    if len(sql) < _SHORTEST_TEXT or any(sign in sql for sign in _ELSEWHERE) or _RAW_TEXT.search(sql):
        return sql, []
    lists: list[list[str]] = []

    def shortened(found: re.Match[str]) -> str:
        values = [] if found["list"] is None else _LITERALS.findall(found["list"])
        if len(values) < _FEWEST_VALUES:
            return found[0]
        lists.append(values)
        return f"IN (:{PLACEHOLDER}{len(lists) - 1})"

    return _PIECES.sub(shortened, sql), lists


def fit_all(texts: list[str], data_type: t.DataType, time_zone: tzinfo | None) -> list[Any]:
    """The values of a column's type that equal one of the literals, in their order.

    Raises:
        LiteralError: they do not compare.
    """
    quoted = sum(text.startswith("'") for text in texts)
    if isinstance(data_type, t.VarCharType) and quoted == len(texts):
        return [text[1:-1] for text in texts]
    if isinstance(data_type, _INTEGERS) and not quoted and not any("." in text for text in texts):
        numbers = list(map(int, texts))
        if all(fit_literal(Decimal(end), data_type, time_zone).exact for end in (min(numbers), max(numbers))):
            return numbers
    values = (text[1:-1] if text.startswith("'") else Decimal(text) for text in texts)
    fitted = (fit_literal(value, data_type, time_zone) for value in values)
    return [each.value for each in fitted if each.exact]
