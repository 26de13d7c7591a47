"""The rows of a view that stays in a catalog: those of its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.sql.views import namespace_of, query_columns
from paimon_spark.spark.sql.warehouses import TableName, analysis_error, quoted
from paimon_spark.table.catalog_views import find_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.spark.text.context import Context
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
