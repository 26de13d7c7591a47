"""``t$audit_log``: rows of a table, or of changes, each with its kind, deletes included (Java ``AuditLogTable``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.read.branch_plan import plan_rows, read_of_plan
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.incremental_read import diff_rows, filter_and_project, state_rows, written_rows
from paimon_spark.read.plan import ReadPlan, residual_filter
from paimon_spark.read.split import DiffSplit
from paimon_spark.read.table_scan import ReadSource, RowView, TableScan
from paimon_spark.spec.predicate import Predicate, fields, implied_by
from paimon_spark.spec.special_fields import ROW_KIND, SEQUENCE_NUMBER, VALUE_KIND, short_strings
from paimon_spark.table.nullability import fields_as_stored

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
