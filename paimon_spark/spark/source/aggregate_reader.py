"""Tasks that aggregate the rows they read: a row for each group goes to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.read.partial_aggregates import PartialAggregates

if TYPE_CHECKING:
    from paimon_spark.read.aggregate import Aggregation
    from paimon_spark.spark.source.reader import PaimonReader


class AggregateReader(DataSourceReader):
    """Aggregates the rows of a plan, each task for itself; Spark aggregates what they send."""

    def __init__(self, reader: PaimonReader, wanted: Aggregation, target: pa.Schema) -> None:
        """Keep what tasks need.

        Args:
            reader: of the columns of groups and calls.
            wanted: the aggregation.
            target: the columns that come out (`PartialAggregates`).
        """
        self._reader = reader
        self._wanted = wanted
        self._target = target

    def partitions(self) -> list[InputPartition]:
        """The tasks of the reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Partial results of one task. Called in a task."""
        partial = PartialAggregates(self._wanted.group_by, self._wanted.calls, self._target)
        for batch in self._reader.read(partition):
            yield from partial.add(batch)
        yield from partial.finish()
