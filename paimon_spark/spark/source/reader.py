"""The tasks of a planned read. Every Python worker of a read imports this module, so it imports little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.read.metadata_columns import read_with_metadata
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.session.cut_frames import cut_batches, told_by_worker
from paimon_spark.spark.source.split_packing import even_batches, pack_splits
from paimon_spark.spark.source.worker_process import speed_up_worker

if TYPE_CHECKING:
    from paimon_spark.read.plan import ReadPlan
    from paimon_spark.read.split import DataSplit


@dataclass(frozen=True)
class PaimonPartition(InputPartition):
    """The splits of one task."""

    splits: tuple[DataSplit, ...]


class PaimonReader(DataSourceReader):
    """A planned read: made on the driver, pickled once to every task."""

    def __init__(
        self, plan: ReadPlan, target: pa.Schema, *, names: Sequence[str] | None = None, metadata: Sequence[str] = ()
    ) -> None:
        """Keep what tasks need.

        Args:
            plan: of the read.
            target: the schema that comes out.
            names: for each column of `target` the column of the plan or of `metadata`; those of the plan without.
            metadata: metadata columns that come with the rows.
        """
        self._table = plan.table
        self.metadata = tuple(metadata)
        """Metadata columns that come with the rows."""
        self._names = [field.name for field in plan.fields] if names is None else list(names)
        self._fields = plan.fields
        self._residual = plan.residual
        self._read = plan.read
        self._target = target
        self._splits: Sequence[DataSplit] = plan.splits

    def pruneColumns(self, schema: pa.Schema) -> None:
        """Leave out all columns but these. Sail's way to say so, before `partitions`; Spark asks no Python source."""
        made_of = dict(zip(self._target.names, self._names, strict=True))
        self._names = [made_of[name] for name in schema.names]
        self._target = pa.schema([self._target.field(name) for name in schema.names])
        self._fields = tuple(field for field in self._fields if field.name in self._names)
        self.metadata = tuple(name for name in self.metadata if name in self._names)

    @told_by_worker
    def partitions(self) -> list[InputPartition]:
        """Splits packed into tasks. Called once, on the driver; Spark wants a list, and one without splits is fine."""
        return [PaimonPartition(splits) for splits in self.packed_splits()]

    def packed_splits(self) -> list[tuple[DataSplit, ...]]:
        """The splits of each task."""
        options = self._table.options
        return pack_splits(
            self._splits,
            target_bytes=options.split_target_size_bytes,
            open_file_cost_bytes=options.split_open_file_cost_bytes,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in Spark's own Arrow types. Called in a task."""
        speed_up_worker()
        if not isinstance(partition, PaimonPartition):
            return iter(())  # what Spark makes of an empty list of partitions
        rows = (batch for split in partition.splits for batch in self._rows(split))
        if not self._names:
            return cut_batches(batch.select([]) for batch in rows)
        return cut_batches(convert_batches(even_batches(rows), self._names, self._target))

    def batches_of(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split in Spark's own Arrow types, in batches as they come: for the driver."""
        return convert_batches(self._rows(split), self._names, self._target)

    def _rows(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        if self.metadata:
            return read_with_metadata(self._table, split, self._fields, self._residual, self.metadata, read=self._read)
        return self._read(self._table, split, self._fields, self._residual)

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the splits: each split is pickled with its partition."""
        return {**self.__dict__, "_splits": ()}
