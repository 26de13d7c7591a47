"""``t$row_tracking``: the rows of a table with their ids and sequence numbers (Java ``RowTrackingTable``).

A file that was written anew (by a compaction or an update) has both as columns; in any other file a row's id is the
file's first one and the row's position, its sequence number that of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.read.audit_log import scan_of_rows
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.data_evolution_read import read_data_evolution
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.file_read import FileRead, RowPositions
from paimon_spark.read.incremental_read import filter_and_project
from paimon_spark.read.snapshot_reader import plan_rows, read_of_plan
from paimon_spark.read.split_read import partition_constants
from paimon_spark.read.table_scan import ReadPlan, RowView, TableScan, residual_filter
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_TRACKED = (ROW_ID, SEQUENCE_NUMBER)
_STORED = tuple(replace(field, type=field.type.with_nullable(True)) for field in _TRACKED)
"""The same columns in files, which may lack them."""


def _fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the table and the two behind them.

    Raises:
        UnsupportedError: the table does not track its rows.
    """
    if not table.options.value("row-tracking.enabled"):
        raise UnsupportedError(
            f"Table {table.path} does not support row tracking, please enable 'row-tracking.enabled' option to use "
            "its system table $row_tracking."
        )
    return (*fields_as_stored(table), *_TRACKED)


def read_tracked(
    table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split with the columns asked for. Runs in tasks.

    Args:
        table: the table of the plan.
        split: one split of the plan.
        plan_fields: columns of the view, in order.
        predicate: over columns of the view: rows of the result are those for which it is true.

    Raises:
        CorruptTableError: a data file is missing or damaged, or has no row ids.
    """
    names = {field.name for field in plan_fields} | (set() if predicate is None else fields(predicate))
    own = tuple(field for field in table.schema.fields if field.name in names)
    reader = FileRead(table, own, partition_constants(table, split)).as_query()
    tracked = tracked_rows(reader, split.files)
    yield from filter_and_project(tracked, plan_fields, predicate)


def tracked_rows(reader: FileRead, files: Sequence[SplitFile]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of files, in order, with ids and sequence numbers as the last columns.

    Raises:
        CorruptTableError: a data file is missing or damaged, or has no row ids.
    """
    table, reader = reader.table, replace(reader, special=_STORED)
    if table.schema.kind.has_data_evolution:
        parts = read_data_evolution(reader, files, None)
    else:
        parts = ((file, reader.batches(file, None)) for file in files)
    for file, batches in parts:
        yield from _tracked(table, file, batches)


def _tracked(table: FileStoreTable, file: SplitFile, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a file, in order, with ids and sequence numbers as the last columns."""
    positions = RowPositions(table, file)
    for batch in batches:
        ids, numbers = batch.columns[-2:]
        taken = positions.take(batch.num_rows)
        if ids.null_count or table.schema.kind.has_data_evolution:  # there, an id in the file may be an earlier one
            if file.first_row_id is None:
                raise CorruptTableError(f"Data file {file.path} has neither row ids nor a first one.", path=file.path)
            by_position = pa.array(taken + file.first_row_id)
            ids = by_position if table.schema.kind.has_data_evolution else pc.coalesce(ids, by_position)
        numbers = pc.fill_null(numbers, file.max_seq)
        yield pa.RecordBatch.from_arrays([*batch.columns[:-2], ids, numbers], names=batch.schema.names)


def _plan(scan: TableScan) -> ReadPlan:
    if isinstance(scan.source, ChangeRange):
        raise UnsupportedError("$row_tracking shows the rows of one version: read changes from the table itself")
    plan = plan_rows(scan_of_rows(scan))
    residual = residual_filter(scan.table.schema, scan.predicate)
    return replace(plan, fields=scan.columns, residual=residual, read=read_of_plan(plan, lambda _: read_tracked))


ROW_TRACKING = RowView("row_tracking", _fields, _plan)
"""Rows with their ids and sequence numbers."""
