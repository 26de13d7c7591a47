"""Compaction as a Spark job: tasks rewrite files and answer with what they wrote; the driver plans and commits.

A plain Python UDF over a range does it, one row per task: that needs neither pandas nor a JVM at hand, so it is the
same on classic and Connect sessions.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BinaryType

from paimon_spark.display.texts import counted
from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.maintain.compact.compaction import Executor, rewrite_here
from paimon_spark.maintain.compact.index_rewrite import (
    IndexesRewritten,
    IndexRewrite,
    discard_indexes,
    rewrite_file_index,
    rewrite_index,
    rewrite_indexes_here,
)
from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult, rewrite_files
from paimon_spark.maintain.compact.sorted_rewrite import clusters_by_steps
from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.spark.jobs.progress import name_of, named_jobs, shown_progress
from paimon_spark.spark.session.session_settings import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_DRIVER_BYTES = 32 << 20
_DRIVER_REWRITES = 64
"""A compaction of no more than both runs on the driver: a job would take longer to start."""
_CLIENT_BYTES = 16 << 20
"""The same in the client of a Connect server, which may be far from the files."""
_MOST_TASKS = 1000
_TASK_BYTES = 16 << 20
"""What each has to read on average, where there are more tasks than cores."""


def executor_of(spark: SparkSession) -> Executor:
    """What rewrites files in tasks of a session, or on the driver where there is little to do."""
    return partial(_execute, spark)


def fits_driver(spark: SparkSession, units: Collection[Any]) -> bool:
    """Whether this process does units of work, which say their `size_bytes`, sooner than a Spark job."""
    most = min(_CLIENT_BYTES, _DRIVER_BYTES) if is_connect(spark) else _DRIVER_BYTES
    return len(units) <= _DRIVER_REWRITES and sum(unit.size_bytes for unit in units) <= most


def _execute(spark: SparkSession, table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
    if fits_driver(spark, rewrites):
        return rewrite_here(table, rewrites)
    return rewrite_in_tasks(spark, table, rewrites)


def rewrite_in_tasks(spark: SparkSession, table: FileStoreTable, rewrites: Sequence[Rewrite]) -> list[RewriteResult]:
    """Rewrite files in the tasks of one Spark job; return what each rewrite made, in order."""
    found, errors = in_tasks(spark, table, rewrites, rewrite_files)
    if errors:
        delete_written(
            table, [(rewrites[at].partition, rewrites[at].bucket, f) for at in found for f in found[at].written]
        )
        raise errors[0]
    return [found[at] for at in range(len(rewrites))]


def rewrite_indexes(
    spark: SparkSession, table: FileStoreTable, partitions: Predicate | None = None
) -> IndexesRewritten:
    """Rebuild the indexes of data files in tasks, or on the driver where there is little to do.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        partitions: over partition columns; None is every partition.
    """
    return rewrite_file_index(table, partitions, execute=partial(_execute_indexes, spark))


def _execute_indexes(
    spark: SparkSession, table: FileStoreTable, rewrites: Sequence[IndexRewrite]
) -> Iterable[DataFileMeta]:
    if fits_driver(spark, rewrites):
        return rewrite_indexes_here(table, rewrites)
    found, errors = in_tasks(spark, table, rewrites, rewrite_index)
    if errors:
        discard_indexes(table, rewrites, [found.get(at) for at in range(len(rewrites))])
        raise errors[0]
    return [found[at] for at in range(len(rewrites))]


def in_tasks(
    spark: SparkSession,
    table: FileStoreTable,
    units: Sequence[Any],
    do: Callable[[FileStoreTable, Any], Any],
    name: str = "",
) -> tuple[dict[int, Any], list[PaimonError]]:
    """Do units of work in the tasks of one Spark job; return what each gave, by its position, and the errors.

    Args:
        spark: a classic or a Connect session.
        table: of the units.
        units: what say their ``size_bytes``.
        do: called with the table and a unit.
        name: of the job; that of a compaction when not given.
    """
    sizes = [unit.size_bytes for unit in units]
    shares = shared_out(sizes, number_of_rewrite_tasks(spark, len(units), sum(sizes)))
    work = [[(at, units[at]) for at in share] for share in shares]
    # not deterministic: Spark must not run it twice in one plan
    run = _udf_of(spark)(_task(table, work, do), BinaryType(), useArrow=False).asNondeterministic()
    buckets = len({(unit.partition, unit.bucket) for unit in units if hasattr(unit, "bucket")})
    counts = f"{counted(len(units), 'rewrite')} of {counted(buckets, 'bucket')}" if buckets else ""
    job = name or ", ".join(filter(None, (f"compact {name_of(table.path)}", counts)))
    with named_jobs(spark, job), shown_progress(spark, name or f"Rewriting files of {table.path}"):
        answers = spark.range(0, len(work), 1, len(work)).select(run("id").alias("files")).collect()
    found: dict[int, Any] = {}
    errors: list[PaimonError] = []
    for answer in answers:
        written, error = pickle.loads(bytes(answer.files))
        found.update(written)
        errors += [error] if error is not None else []
    return found, errors


def _udf_of(spark: SparkSession) -> Any:
    """The function `udf` of the session's kind: a process may have sessions of both kinds."""
    kind = "pyspark.sql.connect.functions" if is_connect(spark) else "pyspark.sql.functions"
    return import_module(kind).udf


def _task(
    table: FileStoreTable, work: Sequence[Sequence[tuple[int, Any]]], do: Callable[[FileStoreTable, Any], Any]
) -> Callable[[int], bytes]:
    """What a task does: it answers with what its units gave, and the error of the one after which it stopped.

    An error of the table is an answer, since trying again would not help, and the driver can raise it as it is.
    """

    def share_of_work(task: int) -> bytes:
        done: dict[int, Any] = {}
        try:
            for at, unit in work[task]:
                done[at] = do(table, unit)
        except PaimonError as error:
            return pickle.dumps((done, error))
        return pickle.dumps((done, None))

    return share_of_work


def number_of_rewrite_tasks(spark: SparkSession, rewrites: int, size_bytes: int) -> int:
    """Return over how many tasks rewrites are spread: see `_in_tasks`."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    context = getattr(spark, "_sc", None)
    return number_of_tasks(rewrites, size_bytes, partitions, None if context is None else context.defaultParallelism)


def number_of_tasks(rewrites: int, size_bytes: int, partitions: int, cores: int | None) -> int:
    """As many tasks as there are rewrites, within the shuffle partitions of the session or its cores.

    Where the cores are known (not on Connect), more tasks than these have enough to read each: a task of little work
    takes longer to start than it saves.
    """
    most = partitions if cores is None else max(cores, min(partitions, size_bytes // _TASK_BYTES))
    return min(rewrites, most, _MOST_TASKS)


def shared_out(sizes: Sequence[int], shares: int) -> list[list[int]]:
    """Give each size to the share that has least so far, the largest first; return the positions of each share."""
    heap = [(0, share) for share in range(shares)]
    result: list[list[int]] = [[] for _ in range(shares)]
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        filled, share = heapq.heappop(heap)
        result[share].append(at)
        heapq.heappush(heap, (filled + sizes[at] + 1, share))
    return result


def compactable(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """Return the table with dynamic options; ``write-only`` does not hold here unless it is given with the call."""
    return table.with_options({"write-only": "false", **options})


def is_full(strategy: str | None, table: FileStoreTable) -> bool:
    """Return whether a compaction is full, as it is by default, but not where it clusters rows step by step.

    Raises:
        OptionError: another word than full and minor.
    """
    if strategy is not None and strategy.lower() not in ("full", "minor"):
        raise OptionError(f"The compact strategy only supports 'full' or 'minor', but '{strategy}' is configured.")
    return not clusters_by_steps(table) if strategy is None else strategy.lower() == "full"
