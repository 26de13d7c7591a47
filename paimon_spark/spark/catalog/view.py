"""A view of a catalog as Spark's analyzer takes it: a view of its session catalog, whose query Spark resolves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.sql.views import NAMES, NAMESPACE, namespace_of, wanted_names, way_of_finding
from paimon_spark.spec.view_records import View

MARK: Final = "paimon_spark.view_column "
"""With which the names begin that the columns of a view have until their query is resolved (``PaimonViewColumns``)."""

KEEPS_VIEWS: Final = "keepsViews"
"""What a catalog says in advance of itself: whether names in it may be of views."""


def view_value(catalog_name: str, database: str, name: str, view: View) -> Value:
    """The answer of a catalog that is asked for a table where a view has the name."""
    way, wanted = way_of_finding(view), wanted_names(view)
    namespace = namespace_of(view, (catalog_name, database))
    kept = {key: text for key, text in view.options.items() if not key.startswith((NAMESPACE, NAMES))}
    properties: Mapping[str, str] = {
        **kept,
        f"{NAMESPACE}numParts": "2",
        **{f"{NAMESPACE}part.{at}": part for at, part in enumerate(namespace)},
        f"{NAMES}numCols": str(len(wanted)),
        **{f"{NAMES}col.{at}": f"{MARK}{at} {way} {column}" for at, column in enumerate(wanted)},
    }
    return [
        "v1 table",
        {
            "catalog": catalog_name,
            "database": database,
            "name": name,
            "schema": to_spark_struct(view.fields).json(),
            "text": view.spark_query,
            "comment": view.comment,
            "properties": dict(properties),
        },
    ]
