"""Spark jobs that copy the files of a table, and that migrate a directory of files, or a table of another catalog.

A copy of few files is made on the driver. In a migration, Parquet and ORC files that the table can read as they are
become its files; otherwise Spark writes the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.errors import PySparkException

from paimon_spark.errors import CommitStateUnknownError, OptionError, PaimonError, SchemaError, UnsupportedError
from paimon_spark.maintain.copy_table import FileCopy, copy_file, copy_here
from paimon_spark.maintain.copy_table import copy_table as copy_by
from paimon_spark.maintain.migration import (
    FORMATS,
    HIVE_NULL,
    SourceFile,
    delete_source,
    footers_that_fit,
    list_source,
    partition_columns,
    take_over,
)
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.jobs.compact_job import fits_driver, in_tasks
from paimon_spark.spark.session.session_settings import activate
from paimon_spark.spec.schema import BucketMode
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.new_schema import new_table_schema, undo_create
from paimon_spark.table.paths import DATABASE_SUFFIX, plain_path
from paimon_spark.table.table import create_table, load_table, table_exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable


def copy_table(
    spark: SparkSession,
    source: FileStoreTable,
    path: str,
    options: Mapping[str, str],
    partitions: Predicate | None = None,
) -> FileStoreTable:
    """Copy the latest snapshot of a table; see `maintain.copy_table`.

    Args:
        spark: a classic or a Connect session.
        source: the branch that is copied.
        path: the target's directory.
        options: of the target's store.
        partitions: a condition over partition columns; all rows when not given.
    """
    return copy_by(source, path, options, partitions, execute=partial(_execute, spark))


def _execute(spark: SparkSession, source: FileStoreTable, target: FileStoreTable, copies: Sequence[FileCopy]) -> None:
    if fits_driver(spark, copies):
        copy_here(source, target, copies)
        return
    _, errors = in_tasks(spark, target, copies, partial(_copy, source))
    if errors:
        raise errors[0]


def _copy(source: FileStoreTable, target: FileStoreTable, copy: FileCopy) -> None:
    """Copy one file. Runs in tasks."""
    copy_file(source.file_io, target.file_io, copy)


_LOG = logging.getLogger(__name__)
SOURCE_TYPES = ("parquet", "orc", "csv", "json", "hive")
SPARK_CATALOG = "spark_catalog"
_READ_PREFIX = "source."
_INTO = "Only tables without primary key and with 'bucket' = '-1' can be migrated into; write the rows of the source: "


@dataclass(frozen=True)
class MigrationSource:
    """What is migrated."""

    rows: DataFrame
    root: str
    """The directory of the files."""
    file_format: str
    partition_keys: Sequence[str]
    table: str | None = None
    """The name of the table in Spark's own catalog; None for a directory."""
    comment: str | None = None
    files: Sequence[SourceFile] = field(default=())
    """The data files; none where not all rows are in files below the directory."""


def directory_source(
    spark: SparkSession, file_format: str, path: str, store: Mapping[str, str], options: Mapping[str, str]
) -> MigrationSource:
    """Look at a directory of files.

    Args:
        spark: a classic or a Connect session.
        file_format: ``parquet``, ``orc``, ``csv`` or ``json``.
        path: the directory.
        store: options of the store.
        options: of Spark's reader.

    Raises:
        DataError: there are no files, or not as Hive and Spark lay them out.
    """
    files = list_source(FileIO.for_path(path, dict(store)), path)
    activate(spark)
    rows = spark.read.format(file_format).options(**options).load(path)
    return MigrationSource(rows, path, file_format, partition_columns(files), files=_all_of(rows, files))


def table_source(spark: SparkSession, name: str, store: Mapping[str, str]) -> MigrationSource:
    """Look at a table of Spark's own catalog.

    Raises:
        UnsupportedError: it is a view.
        AnalysisException: there is no such table.
    """
    full = f"{SPARK_CATALOG}.{name}"
    activate(spark)
    said = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {full}").collect()}
    if "Location" not in said or said.get("Type") == "VIEW":
        raise UnsupportedError(f"{full} is no table of files: it cannot be migrated. Write its rows into a table.")
    kinds = f"{said.get('Provider', '')} {said.get('InputFormat', '')}".lower()
    file_format = next((known for known in SOURCE_TYPES if known in kinds and known != "hive"), "other")
    rows, root = spark.table(full), plain_path(unquote(said["Location"]))
    keys = [column.name for column in spark.catalog.listColumns(full) if column.isPartition]
    files: Sequence[SourceFile] = ()
    if file_format in FORMATS:
        try:
            files = _all_of(rows, list_source(FileIO.for_path(root, dict(store)), root))
        except PaimonError as error:
            _LOG.info("Spark writes the rows of %s: %s", full, error)
        if files and partition_columns(files) != keys:
            files = ()
    return MigrationSource(rows, root, file_format, keys, full, said.get("Comment"), files)


def _all_of(rows: DataFrame, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Return the files if they are those that Spark reads, else none."""
    read = {plain_path(unquote(file)) for file in rows.inputFiles()}
    return files if read == {plain_path(file.path) for file in files} else ()


def migrate(
    spark: SparkSession,
    source: MigrationSource,
    path: str,
    store: Mapping[str, str],
    options: Mapping[str, str],
    *,
    delete_origin: bool = True,
    parallelism: int | None = None,
) -> bool:
    """Make a Paimon table of a source; return whether its files were taken over as they were.

    When it fails nothing is left of the new table, and the source is as it was.

    Args:
        spark: a classic or a Connect session.
        source: what is migrated.
        path: the directory of the new table.
        store: options of its store.
        options: of the new table.
        delete_origin: let the source go afterwards: its files, or the table of Spark's catalog.
        parallelism: how many files come at once.

    Raises:
        SchemaError: there is a table at ``path``, or Paimon has no such columns.
        OptionError: the options ask for a primary key or buckets.
        DataError: a file has columns that the others lack.
    """
    if table_exists(path, options=store):
        raise SchemaError(_there_already(load_table(path, options=store), source))
    one, other = f"{plain_path(path)}/", f"{plain_path(source.root)}/"
    if one.startswith(other) or other.startswith(one):
        raise OptionError(f"The new table {path} must not lie in its source {source.root}, nor around it.")
    schema = _new_schema(source, options)
    table = create_table(path, schema, options=store)
    try:
        in_place = _fill(
            source, table, store, delete_origin=delete_origin, threads=parallelism or table.file_io.threads
        )
    except CommitStateUnknownError:
        raise
    except BaseException:
        undo_create(path, store)
        raise
    if delete_origin:
        _let_go(spark, source, FileIO.for_path(source.root, dict(store)))
    return in_place


def _there_already(table: FileStoreTable, source: MigrationSource) -> str:
    """Say what to do where the table is there, perhaps from a migration that was stopped."""
    already = f"{table.path} is a Paimon table already"
    if table.snapshots.latest_id() is None:
        return (
            f"{already}, without rows: migrate into a new one. If a migration into it was stopped, {source.root} is "
            "whole: drop this table, then migrate again."
        )
    return (
        f"{already}, with rows: migrate into a new one. If a migration into it was stopped, all rows had come, and "
        f"only {source.root} was not deleted in full: compare, keep this table, and delete what is left of the source."
    )


def _new_schema(source: MigrationSource, options: Mapping[str, str]) -> TableSchema:
    given = dict(options)
    if source.file_format in FORMATS:
        given.setdefault("file.format", source.file_format)
    if source.partition_keys:
        given.setdefault("partition.default-name", HIVE_NULL)
    fields = from_spark_struct(source.rows.schema)
    schema = new_table_schema(
        fields, given, primary_keys=(), partition_keys=tuple(source.partition_keys), comment=source.comment
    )
    if schema.primary_keys or schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise OptionError(f"{_INTO}INSERT INTO … SELECT.")
    return schema


def _fill(
    source: MigrationSource, table: FileStoreTable, store: Mapping[str, str], *, delete_origin: bool, threads: int
) -> bool:
    """Bring the rows into the new table; return whether its files were taken over."""
    if source.files:
        io = table.file_io
        footers = footers_that_fit(io, source.files, source.file_format, table.schema, threads=threads)
        if footers is not None:
            take_over(table, io, source.files, footers, leaves=delete_origin, threads=threads)
            return True
    _LOG.info("Spark writes the rows of %s into %s: its files cannot be taken over.", source.root, table.path)
    source.rows.write.format("paimon").mode("append").options(**store).save(table.address)
    return False


def _let_go(spark: SparkSession, source: MigrationSource, file_io: FileIO) -> None:
    """Delete the source. What is left is reported: the new table has the rows already."""
    if source.files:
        delete_source(file_io, source.root, source.files)
    elif source.table is None:
        _LOG.warning("%s was migrated but not deleted: Spark reads other files there than it lists.", source.root)
    if source.table is not None:
        try:
            spark.sql(f"DROP TABLE {source.table}")
        except PySparkException as error:
            _LOG.warning("%s was migrated but not dropped: %s", source.table, error)


def read_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into those of Spark's reader (``source.header``) and those of the new table."""
    prefix = len(_READ_PREFIX)
    reads = {key[prefix:]: value for key, value in options.items() if key.startswith(_READ_PREFIX)}
    return reads, {key: value for key, value in options.items() if not key.startswith(_READ_PREFIX)}


def migrate_database(
    spark: SparkSession,
    catalog: FilesystemCatalog,
    source_type: str,
    name: str,
    options: Mapping[str, str],
    *,
    reads: Mapping[str, str],
    parallelism: int | None = None,
) -> tuple[list[str], dict[str, Exception]]:
    """Migrate all tables of a database of Spark's catalog, or all directories in a directory, into one database.

    Args:
        spark: a classic or a Connect session.
        catalog: where the tables come.
        source_type: one of `SOURCE_TYPES`.
        name: of the database of Spark's catalog; of a directory the path, whose last name becomes the database's.
        options: of the new tables.
        reads: of Spark's reader.
        parallelism: how many files come at once.

    Returns:
        The tables that came, and what was raised by name for those that did not; those are as they were.
    """
    activate(spark)
    if source_type == "hive":
        database = name
        listed = spark.catalog.listTables(f"{SPARK_CATALOG}.{name}")
        names = [table.name for table in listed if not table.isTemporary and table.tableType != "VIEW"]
    else:
        root = name.rstrip("/")
        database = root.rpartition("/")[2].removesuffix(DATABASE_SUFFIX)
        entries = FileIO.for_path(root, dict(catalog.options)).list_names(root)
        names = sorted(entry.name for entry in entries if entry.is_dir and not entry.name.startswith(("_", ".")))
    catalog.create_database(database, ignore_if_exists=True)
    done: list[str] = []
    failed: dict[str, Exception] = {}
    for table in names:
        try:
            if source_type == "hive":
                source = table_source(spark, f"{name}.{table}", catalog.options)
            else:
                source = directory_source(spark, source_type, f"{root}/{table}", catalog.options, reads)
            path = catalog.table_path(database, table)
            migrate(spark, source, path, catalog.options, options, parallelism=parallelism)
        except (PaimonError, PySparkException, OSError) as error:
            _LOG.warning("%s.%s was not migrated: %s", name, table, error)
            failed[table] = error
        else:
            done.append(table)
    return done, failed
