"""`remove_orphan_files` as a Spark job: tasks list directories, read manifests and delete; names meet in a join.

For tables of millions of files. What it deletes is what `maintain.files.orphan_files` would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.errors import OptionError
from paimon_spark.maintain.files.orphan_files import (
    Deleted,
    OrphanFile,
    RemovedFiles,
    bucket_directories,
    check_branches,
    data_directories,
    delete_old_empty_directories,
    delete_orphans,
    file_directories,
    live_snapshots,
    named_files,
    names_of_deleted,
    old_blob_files,
    old_files,
    older_than_millis,
    read_references,
    stray_files,
    unneeded_blob_files,
)
from paimon_spark.maintain.files.orphan_files import remove_orphan_files as remove_orphan_files_here
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spec.manifest import RecordedFile

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.table.table import FileStoreTable

_MOST_TASKS = 200
_LEAST_DELETES = 1_000
"""Old files for each task that deletes: fewer are not worth a task."""
_MANIFEST = "name string, size long, added long, deleted long"


def remove_orphan_files_distributed(
    spark: SparkSession,
    table: FileStoreTable,
    *,
    older_than: datetime | None = None,
    dry_run: bool = False,
    parallelism: int | None = None,
) -> RemovedFiles:
    """Delete the files of a table that nothing names, in tasks. Runs on the driver.

    Args:
        spark: a classic or a Connect session.
        table: any branch of the table.
        older_than: only files changed before this time; a day ago when not given.
        dry_run: delete nothing, only report.
        parallelism: tasks at once; the session's shuffle partitions when not given.

    Raises:
        OptionError: ``older_than`` is not in the past.
        PaimonError: a branch has no schema, or a metadata file cannot be read. Nothing has been deleted.
    """
    before = older_than_millis(older_than)
    tasks = parallelism or min(_MOST_TASKS, int(spark.conf.get("spark.sql.shuffle.partitions") or _MOST_TASKS))
    check_branches(table)
    directories = data_directories(table)
    stray = stray_files(table, before)
    buckets = bucket_directories(directories)
    blob_files = old_blob_files(table, buckets, before)
    listed = map_in_arrow(
        _column(spark, file_directories(table, directories), tasks),
        partial(_list, table, before),
        "name string, path string, size long",
    )
    candidates = listed.persist()
    try:
        old = candidates.count()  # all is listed before the first mention is read
        named, manifests = named_files(table, live_snapshots(table))
        references = map_in_arrow(
            _rows(spark, list(manifests), _MANIFEST, tasks),
            partial(_references, table),
            "name string, created long, extras array<string>",
        )
        references.persist()
        dead = names_of_deleted(table, _deleted(candidates, references))
        used = references.select("name").union(_column(spark, sorted(named), tasks).toDF("name"))
        used = used.join(_column(spark, sorted(dead), tasks).toDF("name"), "name", "left_anti")
        deleting = max(1, min(tasks, old // _LEAST_DELETES))
        orphans = candidates.join(used, "name", "left_anti").repartition(deleting)
        deleted = map_in_arrow(orphans, partial(_delete, table, dry_run), "files long, bytes long")
        counts = deleted.groupBy().sum("files", "bytes").head()
        references.unpersist()
    finally:
        candidates.unpersist()
    # lists of managed blob files that were orphans are gone now, but for a dry run, which reports fewer managed blob
    # files
    stray += [
        OrphanFile(blob_file.path, blob_file.size)
        for blob_file in unneeded_blob_files(table, blob_files, buckets, manifests)
    ]
    if not dry_run:
        stray = delete_orphans(table, stray)
        delete_old_empty_directories(table, directories, before)
    files, size = ((counts[0] or 0), (counts[1] or 0)) if counts is not None else (0, 0)
    return RemovedFiles(files + len(stray), size + sum(file.size for file in stray))


def _column(spark: SparkSession, values: Sequence[str], tasks: int) -> DataFrame:
    return _rows(spark, [(value,) for value in values], "value string", tasks)


def _rows(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str, tasks: int) -> DataFrame:
    return spark.createDataFrame(rows, schema).repartition(max(1, min(tasks, len(rows))))


def _list(table: FileStoreTable, before: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The old files of directories. Runs in tasks."""
    for batch in batches:
        for directory in batch.column(0).to_pylist():
            files = old_files(table, directory, before)
            columns = [[file.name for file in files], [file.path for file in files], [file.size for file in files]]
            types = (pa.string(), pa.string(), pa.int64())
            arrays = [pa.array(column, of) for column, of in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["name", "path", "size"])


def _deleted(candidates: DataFrame, references: DataFrame) -> dict[str, Deleted]:
    """The candidates that some manifest says are deleted."""
    rows = references.where("created is not null").join(candidates.select("name").distinct(), "name", "left_semi")
    return {row.name: Deleted(row.created, tuple(row.extras)) for row in rows.collect()}


def _references(table: FileStoreTable, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The names that manifests mention; with the time it was made and the files next to it where one is deleted."""
    for batch in batches:
        for recorded in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            references = read_references(table, RecordedFile(*recorded))
            names = sorted(references.names)
            deleted = [references.deleted.get(name) for name in names]
            created = pa.array([None if made is None else made.created_millis for made in deleted], pa.int64())
            extras = pa.array([None if made is None else made.extra_files for made in deleted], pa.list_(pa.string()))
            columns = [pa.array(names, pa.string()), created, extras]
            yield pa.RecordBatch.from_arrays(columns, names=["name", "created", "extras"])


def _delete(table: FileStoreTable, dry_run: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Delete files and count them. Runs in tasks; a second attempt counts those again that were there."""
    for batch in batches:
        columns = (batch.column(batch.schema.get_field_index(name)).to_pylist() for name in ("path", "size"))
        files = [OrphanFile(path, size) for path, size in zip(*columns, strict=True)]
        gone = files if dry_run else delete_orphans(table, files)
        counts = [pa.array([len(gone)], pa.int64()), pa.array([sum(file.size for file in gone)], pa.int64())]
        yield pa.RecordBatch.from_arrays(counts, names=["files", "bytes"])


def remove_orphan_files(
    spark: SparkSession,
    table: FileStoreTable,
    *,
    older_than: datetime | None,
    dry_run: bool,
    mode: str,
    parallelism: int | None,
) -> RemovedFiles:
    """Delete orphan files on the driver or in tasks.

    Raises:
        OptionError: ``mode`` is none of the two.
    """
    chosen = mode.lower()
    if chosen not in ("local", "distributed"):
        raise OptionError(f"Unknown mode: {mode}. Only 'DISTRIBUTED' and 'LOCAL' are supported.")
    if chosen == "distributed":
        return remove_orphan_files_distributed(
            spark, table, older_than=older_than, dry_run=dry_run, parallelism=parallelism
        )
    if parallelism is not None:
        table = table.with_options({"file-operation.thread-num": str(parallelism)})
    return remove_orphan_files_here(table, older_than=older_than, dry_run=dry_run)
