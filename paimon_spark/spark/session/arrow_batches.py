"""How many rows Spark hands to Python at a time, in jobs of our own.

Spark limits the bytes of an Arrow batch (`MOST_BYTES`, 64 MB by default), and to keep the limit it asks each column for
its size after each row. That takes more time than writing the values. Our jobs go without that limit, and with few rows
a batch instead. Only where columns are numbers, times and texts, where nobody has set the limit, and where the job runs
no Python function of the user's, which would see the smaller batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as t

MOST_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
NO_LIMIT = str(2**31 - 1)
"""The value at which Spark does not look at the size."""

_USUAL_ROWS = 10_000
_BATCH_BYTES = 64 << 20
_FEWEST_ROWS, _MOST_ROWS = 256, 1024
_TEXT_BYTES = 64 << 10
"""Texts of this size still make no larger batch than Spark's limit, unless a row has many."""
_VALUE_BYTES = 16
_PLAIN = (t.NumericType, t.BooleanType, t.DateType, t.TimestampType, t.TimestampNTZType, t.StringType)


def batch_properties(struct: t.StructType, settings: Mapping[str, str]) -> dict[str, str]:
    """Return properties of a job by which Spark sends rows in small batches; none where its limit of bytes must stay.

    Args:
        struct: the columns that Python gets.
        settings: what the session has set.
    """
    if MOST_BYTES in settings or not all(isinstance(field.dataType, _PLAIN) for field in struct):
        return {}
    given = int(settings.get(MOST_ROWS, _USUAL_ROWS))
    texts = sum(isinstance(field.dataType, t.StringType) for field in struct)
    fitting = _BATCH_BYTES // (_VALUE_BYTES * len(struct) + _TEXT_BYTES * texts or 1)
    rows = max(_FEWEST_ROWS, min(fitting, _MOST_ROWS))
    return {MOST_BYTES: NO_LIMIT, MOST_ROWS: str(rows if given <= 0 else min(given, rows))}
