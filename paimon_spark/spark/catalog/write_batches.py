"""The Arrow batches in which Spark hands the rows of a write to Python, and how many rows each has.

Spark limits the bytes of an Arrow batch (`MOST_BYTES`, 64 MB by default), and to keep the limit it asks each column for
its size after each row. That takes more time than writing the values. Our jobs go without that limit, and with few rows
a batch instead. Only where columns are numbers, times and texts, where nobody has set the limit, and where the job runs
no Python function of the user's, which would see the smaller batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as t
from pyspark.sql.types import StructType

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import SMALL_BATCHES, missing_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object

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


_CLASS = "PaimonJobProperties"
_FEWEST_BYTES = 2 << 20  # a smaller write is as fast


class WriteBatches:
    """The batches of one write."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._properties: JavaObject | None = None
        self._planned = False

    def plan(self, query: JavaObject) -> None:
        """Look at the rows as they come to the write. Called while Spark optimises the statement; once is enough."""
        if not self._planned and not missing_of(self._gateway, SMALL_BATCHES):
            self._planned = True
            context = compat.SPARK_CONTEXT.of(self._gateway).getOrCreate()
            properties = new_object(self._gateway, _CLASS, (compat.SPARK_CONTEXT.name, context))
            self._properties = properties if properties.isPlain(query, _FEWEST_BYTES) else None

    def begin(self, struct: StructType) -> None:
        """Let the jobs of the running statement have such batches, until it ends.

        Args:
            struct: the columns of the rows.
        """
        if self._properties is None:
            return
        settings = self._gateway.string_dict(compat.SQL_CONF.of(self._gateway).get().settings())
        values = batch_properties(struct, settings)
        if values:
            self._properties.begin(self._gateway.string_map(values))

    def end(self) -> None:
        """What comes now has Spark's own batches again."""
        if self._properties is not None:
            self._properties.end()
