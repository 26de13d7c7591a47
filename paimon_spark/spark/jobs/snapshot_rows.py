"""Rows of one snapshot as a DataFrame, for statements that change them. On any session.

The driver plans the read, and a function of Arrow batches runs its tasks: neither needs an option, which a user could
set as well.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.session.session_settings import settings_option
from paimon_spark.spark.source.reader import PaimonPartition, PaimonReader, task_slots
from paimon_spark.spark.source.source_options import read_columns, read_request
from paimon_spark.spark.source.table_read import TableRead
from paimon_spark.storage.store_options import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable


def snapshot_rows(
    spark: SparkSession,
    options: Mapping[str, str],
    snapshot_id: int,
    *,
    files: Collection[str] | None = None,
    locations: Sequence[str] = (),
    opened: FileStoreTable | None = None,
) -> DataFrame:
    """Return rows of a snapshot as files hold them (CHAR is not padded), with the columns that the table has now.

    Args:
        spark: the session.
        options: of a load: the path, how to reach the store, `columns`, `filter`.
        snapshot_id: what is read, whatever the session has set.
        files: paths of the data files to read; None for all.
        locations: metadata columns that come behind the others.
        opened: the table, if the statement has opened it already.

    Raises:
        PaimonError: as of a load.
    """
    given = {**settings_option(spark), **options}
    with without_secrets(given):
        request = read_request(given, snapshot_id=snapshot_id)
        read = TableRead.of(request, opened)
        fields = read_columns(read.fields(), request.columns) + read.locations(*locations)
        schema = to_spark_struct(fields)
        reader = read.reader(schema, files)
    return _read_rows(spark, reader, schema)


def table_rows(
    spark: SparkSession,
    table: FileStoreTable,
    snapshot_id: int,
    condition: Predicate | None = None,
    columns: Sequence[str] | None = None,
    *,
    visible: bool = False,
) -> DataFrame:
    """Return rows of a snapshot of a table as files hold them, with the columns that it has now.

    Args:
        spark: the session.
        table: with its options.
        snapshot_id: what is read.
        condition: rows for which it is not true are left out.
        columns: only these, at least one; all without.
        visible: leave out rows that a query leaves out until they are compacted.
    """
    scan = TableScan.of(table, ROWS, snapshot_id=snapshot_id)
    if visible:
        scan = replace(scan, table=table)
    plan = scan.select(columns=columns, predicate=condition, parallelism=task_slots()).plan()
    schema = to_spark_struct(plan.fields)
    return _read_rows(spark, PaimonReader(plan, spark_arrow_schema(schema)), schema)


def _read_rows(spark: SparkSession, reader: PaimonReader, schema: StructType) -> DataFrame:
    tasks = [pickle.dumps(PaimonPartition(splits)) for splits in reader.packed_splits()]
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return map_in_arrow(numbers, partial(_read_tasks, reader, tasks), schema)


def _read_tasks(
    reader: PaimonReader, tasks: Sequence[bytes], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of the splits whose numbers a task gets. Runs in tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from reader.read(pickle.loads(tasks[number]))
