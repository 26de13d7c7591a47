"""Splits of a stream, and how tasks read them: a batch holds rows of states and rows of changes side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.read.audit_log import CHANGE_FEED, ReadAuditLog, ReadChangeFeed
from paimon_spark.read.incremental_read import read_written, state_rows, written_rows
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split import DataSplit
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind
from paimon_spark.table.snapshot_identity import stream_expiry_errors

if TYPE_CHECKING:
    from paimon_spark.read.table_scan import ReadSplit, RowView
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class WrittenSplit(DataSplit):
    """Files whose rows are read as they were written."""

    @classmethod
    def of(cls, split: DataSplit) -> WrittenSplit:
        """The files of a split, read so."""
        position = split.partition, split.bucket, split.total_buckets
        return cls(split.snapshot_id, *position, split.files, split.raw_convertible, split.branch)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split."""
        restore, arguments = DataSplit.__reduce__(self)
        return _written, (restore(*arguments),)


@dataclass(frozen=True, slots=True)
class OverwrittenSplit(DataSplit):
    """Files of a bucket that an overwrite deleted, then those that it added (Java: streaming ``IncrementalSplit``)."""

    before_count: int = 0
    """How many of the files it deleted."""

    @property
    def before(self) -> DataSplit:
        """The deleted files."""
        return self._part(self.files[: self.before_count])

    @property
    def after(self) -> DataSplit:
        """The added files."""
        return self._part(self.files[self.before_count :])

    def _part(self, files: Sequence[Any]) -> DataSplit:
        return DataSplit(self.snapshot_id, self.partition, self.bucket, self.total_buckets, tuple(files), False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split and the number."""
        restore, arguments = DataSplit.__reduce__(self)
        return _overwritten, (restore(*arguments), self.before_count)


def _written(split: DataSplit) -> WrittenSplit:
    return WrittenSplit.of(split)


def _overwritten(split: DataSplit, before_count: int) -> OverwrittenSplit:
    position = split.partition, split.bucket, split.total_buckets
    return OverwrittenSplit(split.snapshot_id, *position, split.files, False, split.branch, before_count)


def read_streamed(
    table: FileStoreTable, split: DataSplit, plan_fields: Sequence[DataField], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split of a stream without their kinds, for which the predicate is true.

    Rows of changes come as they were written, retracted ones too, as in Java; of an overwrite only the new rows.
    """
    with stream_expiry_errors(table, split.snapshot_id, full=_is_of_state(split)):
        if isinstance(split, OverwrittenSplit):
            if split.after.files:
                yield from read_split(table, split.after, plan_fields, predicate)
        else:
            read = read_split if _is_of_state(split) else read_written
            yield from read(table, split, plan_fields, predicate)


def streamed_kinds(
    table: FileStoreTable, split: DataSplit, read_fields: tuple[DataField, ...], pushed: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split of a stream with ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` behind them."""
    with stream_expiry_errors(table, split.snapshot_id, full=_is_of_state(split)):
        if isinstance(split, WrittenSplit):
            yield from written_rows(table, split, read_fields, pushed)
        elif isinstance(split, OverwrittenSplit):
            if split.before.files:
                yield from map(_retracted, state_rows(table, split.before, read_fields, pushed))
            if split.after.files:
                yield from state_rows(table, split.after, read_fields, pushed)
        else:
            yield from state_rows(table, split, read_fields, pushed)


def _is_of_state(split: DataSplit) -> bool:
    return not isinstance(split, WrittenSplit | OverwrittenSplit)


def stream_read(view: RowView, snapshots: Iterable[Snapshot] = ()) -> ReadSplit:
    """How tasks read the splits of a stream. Picklable.

    Args:
        view: the rows themselves, their audit log, or their changes.
        snapshots: of the splits.
    """
    if view is CHANGE_FEED:
        return ReadChangeFeed({snapshot.id: snapshot.time_millis for snapshot in snapshots}, streamed_kinds)
    return read_streamed if view is ROWS else ReadAuditLog(streamed_kinds)


def _retracted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that were there, as -D; deletes among them are left out."""
    kinds = batch.column(VALUE_KIND.name)
    there = pa.compute.is_in(kinds, pa.array([RowKind.INSERT.value, RowKind.UPDATE_AFTER.value], kinds.type))
    rows = batch.filter(there)
    deleted = pa.repeat(pa.scalar(RowKind.DELETE.value, kinds.type), rows.num_rows)
    return rows.set_column(rows.num_columns - 1, VALUE_KIND.name, deleted)
