"""The Arrow batches in which Spark hands the rows of a write of the catalog to Python (`session.arrow_batches`)."""

from __future__ import annotations

from pyspark.sql.types import StructType

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.features import SMALL_BATCHES, missing_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.session.arrow_batches import batch_properties

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
