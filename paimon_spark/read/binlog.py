"""``t$binlog``: as the audit log, with arrays: an update is one row with both values (Java ``BinlogTable``).

An update comes as two rows of a changelog, -U and +U, one behind the other; they become one row of kind +U. In a read
that is no changelog, arrays have one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.audit_log import KindRows, kind_rows, special_fields, with_kind
from paimon_spark.read.branch_plan import plan_rows, read_of_plan
from paimon_spark.read.change_range import ChangeRange, ChangeSource
from paimon_spark.read.incremental_read import filter_and_project
from paimon_spark.read.plan import ReadPlan
from paimon_spark.read.table_scan import RowView, TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import ArrayType
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, RowKind

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


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


def _plan(scan: TableScan) -> ReadPlan:
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


BINLOG = RowView("binlog", binlog_fields, _plan)
"""Rows as arrays, updates with both values."""
