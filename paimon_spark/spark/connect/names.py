"""Which names given to the methods of a Connect session mean Paimon tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.sql.warehouses import TableName, is_explicit, resolve, table_not_found, warehouses_of
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.text.context import Context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def context_of(spark: SparkSession) -> Context | None:
    """Return what statements of a session are run with; None where `register_catalog` was not called for it."""
    known = warehouses_of(spark)
    return Context(spark, known) if known.own_statements else None


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name; none where Spark is to say what is wrong with it."""
    try:
        return tuple(split_name(name))
    except ValueError:
        return ()


def new_or_there(context: Context, name: str) -> TableName | None:
    """Return the Paimon table that a name means, whether it is there or not; None for one of Spark's."""
    parts = parts_of(name)
    return resolve(context.known, parts) if parts else None


def there(context: Context, name: str) -> TableName | None:
    """Return the Paimon table that a name means; None for one of Spark's.

    Raises:
        AnalysisException: only Paimon could have it, and it is not there.
    """
    parts = parts_of(name)
    found = resolve(context.known, parts) if parts else None
    if found is not None and found.exists():
        return found
    if found is not None and is_explicit(context.known, parts):
        raise table_not_found(parts)
    return None
