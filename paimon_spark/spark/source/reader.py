"""The tasks of a planned read. Every Python worker of a read imports this module, so it imports little.

Packs splits into few large Spark partitions: each task costs core time, however little it does (`worker_process`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.read.metadata_columns import read_with_metadata
from paimon_spark.read.small_files import read_splits
from paimon_spark.read.split import DataSplit, splits_from_wire, splits_to_wire
from paimon_spark.spark.columns.arrow_cast import convert_batches
from paimon_spark.spark.source.worker_process import UnpickledInTask, cut_batches, told_by_worker

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.read.table_scan import ReadPlan

MIN_BATCH_ROWS = 65_536
"""Batches below this are put together: throughput into Spark is on its plateau from here on."""
MAX_BATCH_ROWS = 524_288
"""Batches above this are cut (without a copy)."""
MAX_GATHERED_BYTES = 32 << 20
"""Small batches are not put together beyond this, however few rows they have."""


@dataclass(frozen=True)
class PaimonPartition(InputPartition):
    """The splits of one task."""

    splits: tuple[DataSplit, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the splits together."""
        return _restored, (splits_to_wire(self.splits),)


def _restored(wire: tuple[Any, ...]) -> PaimonPartition:
    return PaimonPartition(splits_from_wire(wire))


class PaimonReader(UnpickledInTask, DataSourceReader):
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
        from paimon_spark.read.row_group_sections import in_key_ranges  # tasks do without it
        from paimon_spark.read.split_read import read_split

        is_merged = self._read is read_split
        splits = in_key_ranges(self._table, self._splits, task_slots()) if is_merged else self._splits
        return [PaimonPartition(each) for each in self._packed(splits)]

    def packed_splits(self) -> list[tuple[DataSplit, ...]]:
        """The splits of each task."""
        return self._packed(self._splits)

    def _packed(self, splits: Sequence[DataSplit]) -> list[tuple[DataSplit, ...]]:
        return pack_splits(splits, self._table.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in Spark's own Arrow types. Called in a task."""
        if not isinstance(partition, PaimonPartition):
            return iter(())  # what Spark makes of an empty list of partitions
        rows: Iterator[pa.RecordBatch]
        if self.metadata:
            rows = (batch for split in partition.splits for batch in self._rows(split))
        else:
            rows = read_splits(self._table, partition.splits, self._fields, self._residual, read=self._read)
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


def cores_here() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_LOCAL_SLOTS: MutableMapping[Any, int] = WeakKeyDictionary()
"""Of local sessions, by their Spark contexts: it never changes."""


def task_slots() -> int:
    """How many tasks can run at once: what the session of this process says, the cores here at least on a cluster.

    A process without a session, as a server of Spark Connect plans a read in, knows its own cores alone.
    """
    from paimon_spark.spark.session.pyspark_members import running_context  # tasks do without it

    context = running_context()
    if context is None:
        return cores_here()
    if str(context.master).partition("[")[0] != "local":
        return max(int(context.defaultParallelism), cores_here())
    if context not in _LOCAL_SLOTS:
        _LOCAL_SLOTS[context] = max(1, int(context.defaultParallelism))
    return _LOCAL_SLOTS[context]


def pack_splits(
    splits: Sequence[DataSplit], options: CoreOptions, *, cores: int | None = None
) -> list[tuple[DataSplit, ...]]:
    """Put neighbouring splits together, but not so far that cores are left without work.

    Args:
        splits: in the order of the plan, which is kept (neighbours are of one partition).
        options: `source.split.target-size` is the most bytes of a task, `source.split.open-file-cost` what a file
            weighs at least; without the latter many small files weigh less, so that a task is worth its start.
        cores: how many tasks can run at once; by default `task_slots`.
    """
    return pack_groups([(split,) for split in splits], options, cores=cores)


_TASKS_OF_A_CORE = 8
_FILES_OF_A_TASK = 1000


def pack_groups(
    groups: Sequence[Sequence[DataSplit]], options: CoreOptions, *, cores: int | None = None
) -> list[tuple[DataSplit, ...]]:
    """Put neighbouring groups of splits together; as `pack_splits`, but a group is never torn apart."""
    cores = max(1, cores or task_slots())
    target, cost = options.split_target_size_bytes, options.split_open_file_cost_bytes
    if not options.is_set("source.split.open-file-cost"):
        files = sum(len(split.files) for group in groups for split in group)
        tasks = max(_TASKS_OF_A_CORE * cores, files // _FILES_OF_A_TASK)
        cost = min(cost, max(1, tasks * target // max(1, files)))
    weights = [_weight(group, cost) for group in groups]
    limit = min(target, max(cost, int(1.05 * sum(weights)) // cores))
    packed: list[tuple[DataSplit, ...]] = []
    current: list[DataSplit] = []
    filled = 0
    for group, weight in zip(groups, weights, strict=True):
        if current and filled + weight > limit:
            packed.append(tuple(current))
            current, filled = [], 0
        current += group
        filled += weight
    if current:
        packed.append(tuple(current))
    return packed


def _weight(group: Sequence[DataSplit], open_file_cost_bytes: int) -> int:
    return sum(max(file.share(file.size), open_file_cost_bytes) for split in group for file in split.files)


def even_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of a good size: small neighbours are joined, large batches are cut."""
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_small = batch.num_rows < MIN_BATCH_ROWS and batch.nbytes < MAX_GATHERED_BYTES // 2
        if is_small:
            pending.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows < MIN_BATCH_ROWS and size_bytes < MAX_GATHERED_BYTES:
                continue
        if pending:
            yield _joined(pending)
            pending, rows, size_bytes = [], 0, 0
        if not is_small:
            for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
                yield batch if batch.num_rows <= MAX_BATCH_ROWS else batch.slice(start, MAX_BATCH_ROWS)
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
