"""Arguments of statements that Spark does not run as a whole: literals take the place of their parameters.

Spark binds arguments only in whole statements. It also says what an argument is: it evaluates each once, and tells its
type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from pyspark.sql import types as t

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.statements.cursor import Cursor, Kind, Token
from paimon_spark.spark.text.context import Context
from paimon_spark.spec.sql_text import quoted_name, spark_literal

_AS_WRITTEN = (t.StringType, t.BooleanType, t.IntegerType, t.DateType, t.BinaryType)
"""Types of which `spark_literal` makes a literal of just this type."""


def with_arguments(context: Context, *texts: str) -> tuple[Context, list[str]]:
    """Return texts of one statement, in their order, with literals for parameters, and the context without arguments.

    Raises:
        UnsupportedError: an argument has a type without literals.
        AnalysisException: a parameter by position has no argument.
    """
    if not context.args:
        return context, list(texts)
    found = [_parameters(text, context.args) for text in texts]
    count = sum(map(len, found))
    named = [text[token.start : token.end] for text, tokens in zip(texts, found, strict=True) for token in tokens]
    literals: list[str] = []
    if count:
        frame = context.spark_sql(f"SELECT {', '.join(f'{name} AS `{at}`' for at, name in enumerate(named))}")
        values = frame.collect()[0]
        literals = [_literal(value, field.dataType) for value, field in zip(values, frame.schema.fields, strict=True)]
    written, at = [], 0
    for text, tokens in zip(texts, found, strict=True):
        written.append(_replaced(text, tokens, literals[at : at + len(tokens)]))
        at += len(tokens)
    return replace(context, args=None), written


def _parameters(text: str, args: Mapping[str, Any] | Sequence[Any]) -> list[Token]:
    """The positions of ``?``, or of ``:name`` where there is such an argument (``STRUCT<a:INT>`` has none)."""
    cursor = Cursor.of(text)
    tokens = [] if cursor is None else list(cursor.tokens)
    if not isinstance(args, Mapping):
        return [token for token in tokens if token.is_sign("?")]
    return [
        Token(Kind.WORD, name.text, sign.start, name.end)
        for sign, name in pairwise(tokens)
        if sign.is_sign(":") and name.kind is Kind.WORD and name.start == sign.end and name.text in args
    ]


def _replaced(text: str, tokens: Sequence[Token], literals: Sequence[str]) -> str:
    for token, literal in reversed(list(zip(tokens, literals, strict=True))):
        text = text[: token.start] + literal + text[token.end :]
    return text


def _literal(value: Any, data_type: t.DataType) -> str:
    """A value that Spark gave for a column of a type as SQL of that type.

    Raises:
        UnsupportedError: there is none.
    """
    shown = data_type.simpleString()
    if value is None:
        return "NULL" if isinstance(data_type, t.NullType) else f"CAST(NULL AS {_sql_type(data_type)})"
    match data_type:
        case t.ArrayType():
            inside = ", ".join(_literal(element, data_type.elementType) for element in value)
            return f"CAST(array({inside}) AS {_sql_type(data_type)})"
        case t.MapType():
            pairs = [(_literal(k, data_type.keyType), _literal(v, data_type.valueType)) for k, v in value.items()]
            return f"CAST(map({', '.join(f'{k}, {v}' for k, v in pairs)}) AS {_sql_type(data_type)})"
        case t.StructType():
            parts = [
                f"{spark_literal(field.name)}, {_literal(part, field.dataType)}"
                for field, part in zip(data_type.fields, value, strict=True)
            ]
            return f"named_struct({', '.join(parts)})"
        case t.DayTimeIntervalType() if isinstance(value, timedelta):
            seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 10**6)
            sign = "-" if value < timedelta() else ""
            return f"CAST({sign}make_dt_interval(0, 0, 0, {seconds}.{micros:06}) AS {shown})"
        case t.TimestampType() if isinstance(value, datetime):
            return spark_literal(value.astimezone())
        case t.FloatType() | t.DoubleType():
            return f"CAST('{value!r}' AS {shown})"
    try:
        written = spark_literal(value)
    except ValueError:
        raise UnsupportedError(
            f"an argument of type {shown} is not supported in a MERGE by paimon_spark.sql: put the value into "
            "the source"
        ) from None
    return written if isinstance(data_type, _AS_WRITTEN) else f"CAST({written} AS {shown})"


def _sql_type(data_type: t.DataType) -> str:
    """A type as SQL, with the names of its fields in quotes."""
    match data_type:
        case t.ArrayType():
            return f"ARRAY<{_sql_type(data_type.elementType)}>"
        case t.MapType():
            return f"MAP<{_sql_type(data_type.keyType)}, {_sql_type(data_type.valueType)}>"
        case t.StructType():
            return f"STRUCT<{', '.join(f'{quoted_name(f.name)}: {_sql_type(f.dataType)}' for f in data_type.fields)}>"
    return data_type.simpleString()
