"""Compaction of a table, or of all tables of databases, as Spark jobs; postponed rows are taken in first.

Compaction that puts rows in order takes two jobs: one takes a sample, one brings ranges of rows to their tasks. Rows
travel packed, as Arrow streams of one range each: the shuffle moves a few large values, and sorts them by range.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from paimon_spark.errors import PaimonError
from paimon_spark.maintain.compact.compaction import check_compactable, compact_with_retries
from paimon_spark.maintain.compact.row_order import RowOrder
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_rewrite import (
    Ranged,
    Sample,
    SortedRewrite,
    all_of_each_partition,
    check_sortable,
    clustering_units,
    clusters_by_steps,
    discard,
    ranged_rows,
    samples_here,
    sort_here,
    sort_units,
    take_sample,
    write_ranges,
)
from paimon_spark.spark.jobs.arrow_functions import collect_in_arrow, map_in_arrow
from paimon_spark.spark.jobs.bucket_numbers import take_in_postponed
from paimon_spark.spark.jobs.clustering import targets_of
from paimon_spark.spark.jobs.compact_job import (
    compactable,
    executor_of,
    fits_driver,
    in_tasks,
    number_of_rewrite_tasks,
    shared_out,
)
from paimon_spark.spark.jobs.progress import name_of, shown_progress
from paimon_spark.spec.schema import BucketMode
from paimon_spark.spec.sql_text import NamePatterns
from paimon_spark.write.packed_rows import packed_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.maintain.compact.row_order import AskedOrder
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable


_TARGET, _UNIT, _RANGE, _ROWS = "target", "unit", "range", "rows"
_SENT = StructType(
    [
        *(StructField(name, IntegerType(), nullable=False) for name in (_TARGET, _UNIT, _RANGE)),
        StructField(_ROWS, BinaryType(), nullable=False),
    ]
)
_MADE = StructType([StructField("made", BinaryType(), nullable=False)])
_FAILED = -1
"""Stands for a unit where the value is the error of a task: it is reported by the driver as it is."""


def sort_table(spark: SparkSession, table: FileStoreTable, scope: CompactScope, asked: AskedOrder) -> int | None:
    """Sort the rows of each partition (``order_strategy``); return the id of the new snapshot, None for an empty table.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        scope: which part of it.
        asked: the order.

    Raises:
        UnsupportedError: the rows of the table cannot be put in another order.
        OptionError: a column is unknown or has no order.
        CommitConflictError: another commit took away a file that was read; nothing was changed.
    """
    snapshot = table.snapshots.latest_to_follow()
    table = table if snapshot is None else table.rewriting(snapshot)
    check_sortable(table)
    check_compactable(table)
    order = RowOrder.of(table, *asked)
    if snapshot is None:
        return None
    units = all_of_each_partition(table, snapshot, scope)
    execute, sample = partial(_sort, spark), partial(_take_samples, spark)
    return sort_units(table, snapshot, units, order, sample=sample, execute=execute)


def cluster_table(spark: SparkSession, table: FileStoreTable, scope: CompactScope, *, full: bool) -> int | None:
    """Cluster what is due of a table with ``clustering.incremental``; as `sort_table`.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        scope: which part of it.
        full: everything that is not clustered by these columns.
    """
    snapshot = table.snapshots.latest_to_follow()
    table = table if snapshot is None else table.rewriting(snapshot)
    check_sortable(table)
    check_compactable(table)
    if snapshot is None:
        return None
    units = clustering_units(table, snapshot, scope, full=full)
    order = RowOrder.of_clustering(table)
    execute, sample = partial(_sort, spark), partial(_take_samples, spark)
    return sort_units(table, snapshot, units, order, sample=sample, execute=execute)


def _take_samples(spark: SparkSession, table: FileStoreTable, samples: Sequence[Sample]) -> list[pa.Table]:
    if fits_driver(spark, samples):
        return samples_here(table, samples)
    found, errors = in_tasks(spark, table, samples, take_sample)
    if errors:
        raise errors[0]
    return [found[at] for at in range(len(samples))]


def _sort(spark: SparkSession, table: FileStoreTable, rewrites: Sequence[SortedRewrite]) -> list[list[DataFileMeta]]:
    if fits_driver(spark, rewrites):
        return sort_here(table, rewrites)
    files = [(at, number) for at, rewrite in enumerate(rewrites) for number in range(len(rewrite.files))]
    sizes = [rewrites[at].files[number].size for at, number in files]
    shares = shared_out(sizes, number_of_rewrite_tasks(spark, len(files), sum(sizes)))
    work = [[files[location] for location in share] for share in shares]
    firsts = [sum(rewrite.tasks for rewrite in rewrites[:at]) for at in range(len(rewrites))]
    tasks = firsts[-1] + rewrites[-1].tasks
    numbers = spark.range(0, len(work), 1, len(work))
    sent = map_in_arrow(numbers, partial(_send, table, rewrites, work, firsts, targets_of(tasks)), _SENT)
    assigned = sent.repartition(tasks, _TARGET).sortWithinPartitions(_UNIT, _RANGE)
    with shown_progress(spark, f"Sorting rows of {table.path}"):
        rows = collect_in_arrow(assigned, f"sort {name_of(table.path)}", partial(_write, table, rewrites), _MADE)
    answers = [pickle.loads(bytes(row[0])) for row in rows]
    made: list[list[DataFileMeta]] = [[] for _ in rewrites]
    errors = []
    for unit, answer in answers:
        if unit == _FAILED:
            errors.append(answer)
        else:
            made[unit] += answer
    if errors:
        discard(table, rewrites, made)
        raise errors[0]
    return made


def _send(
    table: FileStoreTable,
    rewrites: Sequence[SortedRewrite],
    work: Sequence[Sequence[tuple[int, int]]],
    firsts: Sequence[int],
    targets: Sequence[int],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read some files and send the rows of each range to its task. Runs in tasks."""
    try:
        for unit, number in (
            location for batch in batches for at in batch.column(0).to_pylist() for location in work[at]
        ):
            rewrite = rewrites[unit]
            for ranged, rows in ranged_rows(table, rewrite, rewrite.files[number]):
                task = firsts[unit] + rewrite.task_of(ranged)
                for packed in packed_streams(rows):
                    yield _sent(targets[task % len(targets)], unit, ranged, packed)
    except PaimonError as error:
        yield _sent(targets[0], _FAILED, 0, pa.array([pickle.dumps(error)], pa.binary()))


def _sent(target: int, unit: int, ranged: int, value: pa.Array) -> pa.RecordBatch:
    numbers = [pa.array([number], pa.int32()) for number in (target, unit, ranged)]
    return pa.RecordBatch.from_arrays([*numbers, value], names=_SENT.names)


def _write(
    table: FileStoreTable, rewrites: Sequence[SortedRewrite], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the ranges that came to a task, unit by unit. Runs in tasks."""
    for unit, values in groupby(_received(batches), key=lambda value: value[0]):
        try:
            if unit == _FAILED:
                answer = [(_FAILED, pickle.loads(value[2].as_py())) for value in values]
            else:
                answer = [(unit, write_ranges(table, rewrites[unit], _ranged(values)).files)]
        except PaimonError as error:
            answer = [(_FAILED, error)]
        for one in answer:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(one)], pa.binary())], names=_MADE.names)


def _received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.BinaryScalar]]:
    for batch in batches:
        units, ranges, values = batch.column(1).to_pylist(), batch.column(2).to_pylist(), batch.column(3)
        for at in range(batch.num_rows):
            yield units[at], ranges[at], values[at]


def _ranged(values: Iterable[tuple[int, int, pa.BinaryScalar]]) -> Iterator[Ranged]:
    for _, number, value in values:
        with pa.ipc.open_stream(value.as_buffer()) as stream:
            yield number, stream.read_all()


_LOG = logging.getLogger(__name__)


def compact_table(
    spark: SparkSession,
    table: FileStoreTable,
    scope: CompactScope | None = None,
    *,
    full: bool = True,
    order: AskedOrder | None = None,
) -> int | None:
    """Compact a table in tasks, or on the driver where there is little to do; see `maintain.compact`.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        scope: which part of it; all when not given.
        full: every bucket becomes one sorted run; otherwise what a writer would compact by itself.
        order: the rows of each partition are put in this order.
    """
    if order is not None:
        return sort_table(spark, table, scope or CompactScope(), order)
    if clusters_by_steps(table):
        return cluster_table(spark, table, scope or CompactScope(), full=full)
    taken = None
    if table.schema.bucket_mode is BucketMode.POSTPONE_MODE:
        taken = take_in_postponed(spark, table)
    return compact_with_retries(table, scope, full=full, execute=executor_of(spark)) or taken


@dataclass(frozen=True, slots=True)
class TablesCompacted:
    """What became of the tables that were to be compacted."""

    done: tuple[str, ...]
    """Their names, with the database; also of those where nothing was to do."""
    failed: Mapping[str, Exception]
    """What was raised, by name."""

    @property
    def summary(self) -> str:
        """What Java's procedure answers."""
        return f"Compact database finished. Success: {len(self.done)}, Failed: {len(self.failed)}"


def compact_databases(
    spark: SparkSession,
    catalog: FilesystemCatalog,
    databases: NamePatterns,
    tables: NamePatterns,
    options: Mapping[str, str],
) -> TablesCompacted:
    """Compact the tables of a catalog, one after the other; one that fails does not hold up the others.

    Args:
        spark: a classic or a Connect session.
        catalog: where the tables are.
        databases: names of databases.
        tables: names of tables with their databases (``db.t``).
        options: dynamic options of each compaction.
    """
    done: list[str] = []
    failed: dict[str, Exception] = {}
    for database in filter(databases.match, catalog.databases()):
        for name in catalog.tables(database):
            full = f"{database}.{name}"
            if not tables.match(full):
                continue
            try:
                compact_table(spark, compactable(catalog.load_table(database, name), options))
            except (PaimonError, OSError) as error:
                _LOG.warning("Table %s was not compacted: %s", full, error)
                failed[full] = error
            else:
                done.append(full)
    return TablesCompacted(tuple(done), failed)
