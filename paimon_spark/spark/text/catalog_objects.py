"""Functions and views that stay in a catalog, in statements of this engine: calls of the ones, rows of the others.

The rows of a view are those of its query.

A function is called as a temporary one, since Python gives no catalog to a session here: its name in a statement
becomes that of a temporary function of Spark's with the same body. That name holds a digest of the body. A classic
session takes the body when it runs a statement, and the function is dropped behind it. Spark Connect plans a query anew
for each action: there it stays, and is made once where it reads no table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from paimon_spark.errors import SchemaError
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.session.pyspark_members import plain
from paimon_spark.spark.sql.functions import (
    BEFORE_EXPRESSION,
    Surroundings,
    as_query,
    check_sql,
    head_of,
    is_query,
    is_spark_function,
    spark_settings,
    temporary_function,
    whole_body,
)
from paimon_spark.spark.sql.views import namespace_of, query_columns
from paimon_spark.spark.sql.warehouses import (
    SPARK_CATALOG,
    TableName,
    Warehouses,
    analysis_error,
    quoted,
    unknown_warehouse,
)
from paimon_spark.spark.statements.catalog_statements import calls_in, with_names, with_qualifier
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.text.context import Context
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.catalog_views import find_function, find_view, keeps_functions
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.spec.view_records import View

_DEEPEST: Final = 100
"""Views in views; as in Spark (`spark.sql.view.maxNestedViewDepth`)."""


def view_named(context: Context, name: TableName) -> View | None:
    """Look for a view; None where the name means none."""
    catalog = context.known.catalogs.get(name.catalog_name)
    return None if catalog is None or name.is_path else find_view(catalog, name.database, name.table)


def rows_of_view(
    context: Context, name: TableName, view: View, rows_of_query: Callable[[Context, str], DataFrame]
) -> DataFrame:
    """The rows of a view: those of its query, with the view's columns.

    Raises:
        SchemaError: the query does not have the view's columns any more.
        AnalysisException: views are made of each other.
    """
    if context.depth >= _DEEPEST:
        raise analysis_error(
            "VIEW_EXCEED_MAX_NESTED_DEPTH", f"The depth of view {quoted(name.parts)} exceeds the maximum, {_DEEPEST}."
        )
    catalog, database = namespace_of(view, (name.catalog_name, name.database))
    known = replace(context.known, catalog=catalog, database=database)
    inner = replace(context, known=known, args=None, frames={}, depth=context.depth + 1)
    frame = rows_of_query(inner, view.spark_query)
    at = query_columns(view, frame.columns, ".".join(name.parts))
    fields = to_spark_struct(view.fields).fields
    unique = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    return unique.select(
        *(
            unique[f"c{position}"].cast(field.dataType).alias(field.name)
            for position, field in zip(at, fields, strict=True)
        )
    )


WithViews = Callable[[Context, str], str]
"""Puts temporary views in the place of the tables of ours that a query names."""
_DEEPEST_CALLS: Final = 20
"""Functions in functions."""
_made: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_Name = tuple[str, str, str]


def with_functions(context: Context, text: str, with_views: WithViews) -> str:
    """Put names of temporary functions in the place of those that a catalog keeps.

    Raises:
        UnsupportedError: one is a function of the JVM.
        SchemaError: functions call each other in a circle.
    """
    known = context.known
    if "(" not in text or not any(keeps_functions(catalog) for catalog in known.catalogs.values()):
        return text
    cursor = Cursor.of(text)
    names: dict[_Name, str | None] = {}
    renamed = []
    for call in () if cursor is None else calls_in(cursor):
        name = _kept_name(context, call.parts)
        if name is not None and name not in names:
            names[name] = _temporary(context, name, with_views)
        new = None if name is None else names[name]
        if new is not None:
            renamed.append((call, new))
    return with_names(text, renamed)


def _kept_name(context: Context, parts: Sequence[str]) -> _Name | None:
    """The whole name of what may be a function of a catalog; None for one that is Spark's or of ``sys``."""
    if len(parts) == 1 and context.known.current is None:
        return None
    name = function_named(context.known, parts)
    if name is None or name[1] == SYSTEM_DATABASE or not keeps_functions(context.known.catalogs[name[0]]):
        return None
    return None if len(parts) == 1 and is_spark_function(context.spark, parts[0]) else name


def function_named(known: Warehouses, parts: Sequence[str]) -> _Name | None:
    """The catalog, database and name that a function's name means; None for one that can only be Spark's."""
    if len(parts) == 3:
        if parts[0] not in known.catalogs and known.means(parts[0]):
            raise unknown_warehouse(parts[0])
        return (parts[0], parts[1], parts[2]) if parts[0] in known.catalogs else None
    if len(parts) > 3 or known.current is None:
        return None
    return (known.catalog, parts[0] if len(parts) == 2 else known.database, parts[-1])


def _temporary(context: Context, name: _Name, with_views: WithViews) -> str | None:
    """Make the temporary function for one that a catalog keeps; return its name, None where there is no such."""
    catalog_name, database, short = name
    function = find_function(context.known.catalogs[catalog_name], database, short)
    if function is None:
        return None
    check_sql(function, name)
    if context.depth >= _DEEPEST_CALLS:
        raise SchemaError(f"Function {'.'.join(name)} calls others, which call others, in a circle or too deep.")
    inner = replace(context, args=None, frames={}, depth=context.depth + 1)
    around = surroundings(context, catalog_name)
    body = _with_ours(inner, whole_body(function, name[:2], around), with_views, query=is_query(function))
    head, settings = head_of(function), spark_settings(function)
    digest = hashlib.sha256(f"{'.'.join(name)}{head}{body}{settings}".encode()).hexdigest()[:16]
    made = quoted_name(f"{short}__{digest}")
    body = with_qualifier(body, short, [field.name for field in function.inputs], made)
    there = _made.setdefault(context.spark, set())
    if made not in there or is_query(function):
        context.made.append(f"TEMPORARY FUNCTION IF EXISTS {made}")
        with _settings(context.spark, settings):
            inner.spark_sql(temporary_function(made, head, body))
        there.add(made)
    return made


def drop_made(context: Context) -> None:
    """Drop what a statement made in the session for its calls of functions."""
    if context.made:
        _made.pop(context.spark, None)
    while context.made:
        plain(context.spark.sql)(f"DROP {context.made.pop()}")


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have settings meanwhile; a function that is made keeps them."""
    before = {key: spark.conf.get(key) for key in wanted}
    changed = [key for key, text in wanted.items() if before[key] != text]
    for key in changed:
        spark.conf.set(key, wanted[key])
    try:
        yield
    finally:
        for key in changed:
            spark.conf.set(key, str(before[key]))


def _with_ours(context: Context, body: str, with_views: WithViews, *, query: bool) -> str:
    """A body in which tables and functions of ours have names that Spark knows."""
    return with_tables(context, with_functions(context, body, with_views), with_views, query=query)


def with_tables(context: Context, body: str, with_views: WithViews, *, query: bool) -> str:
    """A body in which temporary views stand for tables of ours."""
    text = as_query(body, query=query)
    if text is None:
        return body
    found = with_views(context, text)
    return found if query else found.removeprefix(BEFORE_EXPRESSION)


def surroundings(context: Context, catalog_name: str) -> Surroundings:
    """What names in the body of a function are looked for in."""
    known = context.known.catalogs
    return Surroundings(
        known[catalog_name],
        lambda name: name in known or name == SPARK_CATALOG,
        partial(is_spark_function, context.spark),
    )
