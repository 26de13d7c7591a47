"""Rows with what is known of them: their kinds (``t$audit_log``), ids (``t$row_tracking``), commits (``CHANGES``).

``t$audit_log``: rows of a table, or of changes, each with its kind, deletes included (Java ``AuditLogTable``).

``t$binlog``: as the audit log, with arrays: an update is one row with both values (Java ``BinlogTable``). An update
comes as two rows of a changelog, -U and +U, one behind the other; they become one row of kind +U. In a read that is no
changelog, arrays have one element.

``t$row_tracking``: the rows of a table with their ids and sequence numbers (Java ``RowTrackingTable``). A file that was
written anew (by a compaction or an update) has both as columns; in any other file a row's id is the file's first one
and the row's position, its sequence number that of the file.

Changes with the commit that made them, as Spark 4.3's ``CHANGES FROM VERSION`` shows them: rows come from changelog
files, or from the files that commits added to a table without primary key. A primary-key table without a changelog does
not show whether a row is new: its changes are refused. Of a table that reads two branches (`scan.fallback-branch`) the
versions of a partition's changes are snapshots of the branch that gives the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.read.change_range import ChangeRange, ChangeSource, snapshots_of
from paimon_spark.read.data_evolution_read import read_data_evolution
from paimon_spark.read.field_mapping import fields_as_stored
from paimon_spark.read.file_read import FileRead, RowPositions
from paimon_spark.read.incremental_plan import plan_changes
from paimon_spark.read.incremental_read import diff_rows, filter_and_project, state_rows, written_rows
from paimon_spark.read.snapshot_reader import plan_rows, read_of_plan
from paimon_spark.read.split import DiffSplit
from paimon_spark.read.split_read import partition_constants
from paimon_spark.read.table_scan import ReadPlan, ReadSource, RowView, TableScan, residual_filter
from paimon_spark.spec.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.spec.data_types import ArrayType, BigIntType, DataField, LocalZonedTimestampType, VarCharType
from paimon_spark.spec.predicate import Predicate, fields, implied_by
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.spec.special_fields import ROW_ID, ROW_KIND, SEQUENCE_NUMBER, VALUE_KIND, RowKind, short_strings

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
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


_TRACKED = (ROW_ID, SEQUENCE_NUMBER)
_STORED = tuple(replace(field, type=field.type.with_nullable(True)) for field in _TRACKED)
"""The same columns in files, which may lack them."""


def _tracking_fields(table: FileStoreTable) -> tuple[DataField, ...]:
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


def _plan_of_tracking(scan: TableScan) -> ReadPlan:
    if isinstance(scan.source, ChangeRange):
        raise UnsupportedError("$row_tracking shows the rows of one version: read changes from the table itself")
    plan = plan_rows(scan_of_rows(scan))
    residual = residual_filter(scan.table.schema, scan.predicate)
    return replace(plan, fields=scan.columns, residual=residual, read=read_of_plan(plan, lambda _: read_tracked))


ROW_TRACKING = RowView("row_tracking", _tracking_fields, _plan_of_tracking)
"""Rows with their ids and sequence numbers."""


CHANGE_TYPE = DataField(-1, "_change_type", VarCharType(VarCharType.MAX, nullable=False))
COMMIT_VERSION = DataField(-1, "_commit_version", BigIntType(nullable=False))
COMMIT_TIMESTAMP = DataField(-1, "_commit_timestamp", LocalZonedTimestampType(6, nullable=False))
FEED_FIELDS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""What a change says besides the row; the version is the snapshot's id."""


@cache
def _change_types() -> pa.Array:
    """By row kind; made on first use, since ``pa.array`` of a list imports pandas."""
    return pa.array(["insert", "update_preimage", "update_postimage", "delete"])


def feed_fields(table: FileStoreTable) -> tuple[DataField, ...]:
    """The columns of the changes of a table."""
    return (*fields_as_stored(table), *FEED_FIELDS)


@dataclass(frozen=True)
class ReadChangeFeed:
    """Reads a split of changes, in a task."""

    times: Mapping[int, int]
    """When each snapshot was committed, epoch milliseconds."""
    rows: KindRows = written_rows

    def __call__(
        self, table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns asked for of changes for which the predicate is true."""
        names = {field.name for field in plan_fields} | (set() if predicate is None else fields(predicate))
        read_fields = tuple(field for field in table.schema.fields if field.name in names)
        batches = self.rows(table, split, read_fields, table_predicate(table, predicate))
        return filter_and_project(
            (self._with_commit(batch, split.snapshot_id) for batch in batches), plan_fields, predicate
        )

    def _with_commit(self, batch: pa.RecordBatch, snapshot_id: int) -> pa.RecordBatch:
        rows = batch.num_rows
        time_type = to_arrow_type(COMMIT_TIMESTAMP.type)
        arrays = [
            *batch.columns[:-2],
            _change_types().take(batch.column(VALUE_KIND.name)),
            pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows),
            pa.repeat(pa.scalar(self.times[snapshot_id] * 1000, pa.int64()), rows).cast(time_type),
        ]
        names = [*batch.schema.names[:-2], *(field.name for field in FEED_FIELDS)]
        return pa.RecordBatch.from_arrays(arrays, names=names)


def _plan_of_feed(scan: TableScan) -> ReadPlan:
    return plan_rows(scan, _plan_branch)


def _plan_branch(scan: TableScan) -> ReadPlan:
    table, asked = scan.table, scan.source
    if not isinstance(asked, ChangeRange):
        raise OptionError("CHANGES needs a version or a timestamp to begin with: FROM VERSION 3, startingVersion.")
    refuse_without_changelog(table)
    changes = ChangeRange(feed_source(table), asked.start_id, asked.end_id)
    commits = snapshots_of(table, changes)
    overwrite = next((commit.id for commit in commits if commit.commit_kind is CommitKind.OVERWRITE), None)
    if overwrite is not None:
        raise overwrite_error(overwrite)
    rows = replace(scan_of_rows(scan), limit=None)
    ranges = [ChangeRange(changes.source, commit.id - 1, commit.id) for commit in commits]
    splits = [split for range_ in ranges for split in plan_changes(replace(rows, source=range_)).splits]
    read = ReadChangeFeed({commit.id: commit.time_millis for commit in commits})
    return ReadPlan(None, table.schema, scan.columns, tuple(splits), scan.predicate, table, read)


def overwrite_error(snapshot_id: int) -> OptionError:
    """Return the error of an overwrite among changes."""
    return OptionError(
        f"Snapshot {snapshot_id} is an overwrite, which does not show what changed: ask for CHANGES before or after "
        "it, or compare two states by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', "
        "'incremental-between-scan-mode' = 'diff')."
    )


def refuse_without_changelog(table: FileStoreTable) -> None:
    """Refuse a table whose files do not show what changed.

    Raises:
        OptionError: it has a primary key and no changelog.
    """
    if table.schema.kind.is_keyed and table.options.value("changelog-producer") == "none":
        raise OptionError(
            "CHANGES needs a changelog for a table with a primary key: set changelog-producer, or compare two states "
            "by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', 'incremental-between-scan-mode' = "
            "'diff')."
        )


def feed_source(table: FileStoreTable) -> ChangeSource:
    """Where the changes of a table are taken from."""
    return ChangeSource.CHANGELOG if table.schema.kind.is_keyed else ChangeSource.DELTA


CHANGE_FEED = RowView("changes", feed_fields, _plan_of_feed)
"""Rows with their changes. It has no name in SQL: Spark asks for it by ``CHANGES``."""
