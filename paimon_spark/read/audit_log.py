"""``t$audit_log``: rows of a table, or of changes, each with its kind, deletes included (Java ``AuditLogTable``).

``t$binlog``: as the audit log, with arrays: an update is one row with both values (Java ``BinlogTable``).

An update comes as two rows of a changelog, -U and +U, one behind the other; they become one row of kind +U. In a read
that is no changelog, arrays have one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.change_range import ChangeRange, ChangeSource
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.incremental_read import diff_rows, filter_and_project, state_rows, written_rows
from paimon_spark.read.snapshot_reader import plan_rows, read_of_plan
from paimon_spark.read.split import DiffSplit
from paimon_spark.read.table_scan import ReadPlan, ReadSource, RowView, TableScan, residual_filter
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import ArrayType
from paimon_spark.spec.predicate import Predicate, fields, implied_by
from paimon_spark.spec.special_fields import ROW_KIND, SEQUENCE_NUMBER, VALUE_KIND, RowKind, short_strings

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_SEQUENCE_OPTION = "table-read.sequence-number.enabled"

KindRows = Callable[
    ["FileStoreTable", "DataSplit", "tuple[DataField, ...]", "Predicate | None"], Iterator[pa.RecordBatch]
]
"""Reads a split: some columns of the table, then ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""


def special_fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns before those of the table: the kind, and the sequence number where the table's option asks for it."""
    if table.options.value(_SEQUENCE_OPTION) and table.schema.kind.is_keyed:
        return ROW_KIND, SEQUENCE_NUMBER
    return (ROW_KIND,)


def audit_log_fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the audit log of a table."""
    return (*special_fields(table), *fields_as_stored(table))


def kind_rows(source: ReadSource) -> KindRows:
    """How the splits of a read are read with kinds."""
    return rows_of_changes if isinstance(source, ChangeRange) else state_rows


def rows_of_changes(
    table: FileStoreTable, split: DataSplit, read_fields: tuple[DataField, ...], pushed: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows as they were written; or what differs between two states, deletes included, with all columns."""
    if isinstance(split, DiffSplit):  # rows are compared whole
        return diff_rows(table, split, pushed, keep_deletes=True)
    return written_rows(table, split, read_fields, pushed)


@dataclass(frozen=True, slots=True)
class ReadAuditLog:
    """Reads a split of an audit log, in a task."""

    rows: KindRows

    def __call__(
        self, table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns asked for of rows for which the predicate over the audit log's columns is true."""
        own = table.schema.fields
        names = {field.name for field in plan_fields} | (set() if predicate is None else fields(predicate))
        by_name = {field.name: field for field in (*own, *plan_fields)}  # those of the plan may be narrowed
        read_fields = tuple(by_name[field.name] for field in own if field.name in names)
        pushed = table_predicate(table, predicate)
        batches = (with_kind(batch) for batch in self.rows(table, split, read_fields, pushed))
        return filter_and_project(batches, plan_fields, predicate)


def table_predicate(table: FileStoreTable, predicate: Predicate | None) -> Predicate | None:
    """Return what a predicate over the audit log implies for the table's own columns; None for nothing."""
    return implied_by(predicate, [field.name for field in table.schema.fields])


def scan_of_rows(scan: TableScan) -> TableScan:
    """Return the scan of the table's own rows for a view: all columns, and what the predicate implies for them."""
    predicate = table_predicate(scan.table, scan.predicate)
    limit = scan.limit if predicate == scan.predicate else None
    return replace(scan, columns=tuple(scan.table.schema.fields), predicate=predicate, limit=limit)


def with_kind(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give rows their kind as a text in place of ``_VALUE_KIND``."""
    kinds = short_strings().take(batch.column(VALUE_KIND.name))
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], kinds], names=[*batch.schema.names[:-1], ROW_KIND.name])


def _plan(scan: TableScan) -> ReadPlan:
    plan = plan_rows(scan_of_rows(scan))
    read = read_of_plan(plan, lambda _: ReadAuditLog(kind_rows(scan.source)))
    residual = residual_filter(scan.table.schema, scan.predicate)
    return replace(plan, fields=scan.columns, residual=residual, read=read)


AUDIT_LOG = RowView("audit_log", audit_log_fields, _plan)
"""Rows with their kinds."""


def binlog_fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the binlog of a table."""
    arrays = (replace(field, type=ArrayType(element=field.type.with_nullable(True))) for field in table.schema.fields)
    return (*special_fields(table), *arrays)


@dataclass(frozen=True, slots=True)
class ReadBinlog:
    """Reads a split of a binlog, in a task."""

    rows: KindRows
    packed: bool
    """Whether -U and +U make one row."""

    def __call__(
        self, table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns asked for of rows for which the predicate over the binlog's columns is true."""
        names = {field.name for field in plan_fields} | (set() if predicate is None else fields(predicate))
        read_fields = tuple(field for field in table.schema.fields if field.name in names)
        arrow = to_arrow_schema([field for field in binlog_fields(table) if field.name in names])
        batches = self.rows(table, split, read_fields, None)
        shown = pack_updates(batches, arrow) if self.packed else (_arrays(b, np.arange(len(b)), arrow) for b in batches)
        return filter_and_project(shown, plan_fields, predicate)


def pack_updates(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Make one row of each -U and the row behind it, also where they stand in two batches.

    Args:
        batches: columns of the table, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``.
        schema: of the array columns of the result (other fields are ignored).
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if held is None else pa.concat_batches([held, batch])
        starts, open_end = _starts(rows)
        held = rows.slice(int(starts[-1])) if open_end else None
        if open_end:
            rows, starts = rows.slice(0, int(starts[-1])), starts[:-1]
        if rows.num_rows:
            yield _arrays(rows, starts, schema)
    if held is not None:
        yield _arrays(held, np.zeros(1, np.int64), schema)


def _starts(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], bool]:
    """Where each packed row starts, and whether the last one waits for its second half."""
    before = RowKind.UPDATE_BEFORE.mask(rows.column(VALUE_KIND.name).to_numpy())
    positions = np.arange(len(before))
    # in a run of -U rows every second one closes the row before it; so does the row behind an odd run
    run_start = np.maximum.accumulate(np.where(before & ~np.concatenate(([False], before[:-1])), positions, 0))
    opens = before & ((positions - run_start) % 2 == 0)
    starts = np.flatnonzero(~np.concatenate(([False], opens[:-1])))
    return starts, bool(opens[-1])


def _arrays(rows: pa.RecordBatch, starts: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """Each column as lists of the rows from one start to the next; the kind is that of the last of them."""
    ends = np.append(starts[1:], rows.num_rows)
    offsets = pa.array(np.append(starts, rows.num_rows).astype(np.int32))
    arrays = [
        pa.ListArray.from_arrays(offsets, column, type=schema.field(name).type)
        for name, column in zip(rows.schema.names[:-2], rows.columns[:-2], strict=True)
    ]
    numbers = rows.column(SEQUENCE_NUMBER.name).take(pa.array(starts))
    kinds = rows.column(VALUE_KIND.name).take(pa.array(ends - 1))
    names = [*rows.schema.names[:-2], SEQUENCE_NUMBER.name, VALUE_KIND.name]
    return with_kind(pa.RecordBatch.from_arrays([*arrays, numbers, kinds], names=names))


def _plan_of_binlog(scan: TableScan) -> ReadPlan:
    table, source = scan.table, scan.source
    changes = isinstance(source, ChangeRange)
    if isinstance(source, ChangeRange) and source.source is ChangeSource.DIFF and table.schema.kind.is_keyed:
        raise UnsupportedError(
            "$binlog cannot show the difference of two states, which does not show what rows were before. Read "
            "$audit_log, or the changes themselves: incremental-between-scan-mode = changelog."
        )
    plan = plan_rows(replace(scan, columns=tuple(table.schema.fields), predicate=None, limit=None))
    rows = kind_rows(source)
    read = read_of_plan(plan, lambda branch: ReadBinlog(rows, changes and branch.schema.kind.is_keyed))
    return replace(plan, fields=scan.columns, residual=scan.predicate, read=read)


BINLOG = RowView("binlog", binlog_fields, _plan_of_binlog)
"""Rows as arrays, updates with both values."""
