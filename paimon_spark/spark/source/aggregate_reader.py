"""Tasks that aggregate or count the rows they read: a row for each group goes to Spark, and no row of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.read.aggregate import PartialAggregates, count_split, count_splits
from paimon_spark.read.split_read import partition_constants
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.source.reader import PaimonPartition, PaimonReader
from paimon_spark.spec.arrow_types import to_arrow_type

if TYPE_CHECKING:
    from paimon_spark.read.aggregate import Aggregation
    from paimon_spark.table.table import FileStoreTable


class CountReader(DataSourceReader):
    """Counts the rows of a plan, by its tasks."""

    def __init__(self, table: FileStoreTable, reader: PaimonReader, groups: Sequence[str], target: pa.Schema) -> None:
        """Keep what tasks need.

        Args:
            table: of the plan.
            reader: of a plan of all rows, with no filter but over partition columns.
            groups: partition columns.
            target: the columns that come out: `groups`, then counts of all rows.
        """
        self._table = table
        self._reader = reader
        self._groups = tuple(groups)
        self._target = target

    def partitions(self) -> list[InputPartition]:
        """The tasks of the reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A row for each group of the task's splits. Called in a task."""
        found: Counter[tuple[Any, ...]] = Counter()
        splits = partition.splits if isinstance(partition, PaimonPartition) else ()
        if not self._groups:
            found[()] = count_splits(self._table, splits)
        for split in splits if self._groups else ():
            constants = partition_constants(self._table, split)
            count = count_split(self._table, split)
            if count:  # a group of no rows is none
                found[tuple(constants[name].as_py() for name in self._groups)] += count
        kinds = [to_arrow_type(self._table.schema.field(name).type) for name in self._groups]
        groups = [pa.array([key[at] for key in found], kind) for at, kind in enumerate(kinds)]
        counts = [pa.array(found.values(), pa.int64())] * (len(self._target) - len(groups))
        names = [str(at) for at in range(len(self._target))]
        return convert_batches([pa.RecordBatch.from_arrays([*groups, *counts], names=names)], names, self._target)


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
