"""A stream over a table: where it begins, how far it can go, and what lies between two offsets.

Equals Java's ``DataTableStreamScan`` and ``PaimonMicroBatchStream``. Runs on the driver, as long as the query runs; an
offset alone says where to go on, what is kept here only saves reads.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaChangeError, SnapshotNotFoundError
from paimon_spark.read.audit_log import CHANGE_FEED, overwrite_error, table_predicate
from paimon_spark.read.blob_values import with_values
from paimon_spark.read.change_range import snapshot_or_changelog
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.stream_offset import CONSUMER_ID, Budget, ReadLimits, StreamOffset, initial_offset
from paimon_spark.read.stream_split import stream_read
from paimon_spark.read.stream_step import StepKind, StreamStep, kind_of
from paimon_spark.read.table_scan import ReadPlan, residual_filter, why_unreadable
from paimon_spark.spec.predicate import Always
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.snapshot_identity import expired_error

if TYPE_CHECKING:
    from datetime import tzinfo

    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import RowView
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_KEPT_FILES = 200_000
"""Steps are kept until they hold so many files; the newest is always kept."""
_CHECK_EVERY = 16
"""Of so many polls that find nothing, one looks whether the next snapshot can still come."""
_ROWLESS = 4
"""So many snapshots without rows move an offset on, so that their expiry does not strand a stream that waits."""


@dataclass(frozen=True)
class StreamBatch:
    """What lies between two offsets."""

    splits: Sequence[DataSplit]
    """In the order of snapshots, partitions and buckets."""
    ordered: bool
    """Whether the splits of one bucket must be read by one task, in their order."""
    snapshots: Sequence[Snapshot] = ()
    """Of the splits."""


class StreamScan:
    """The stream of one view of a table."""

    def __init__(
        self,
        table: FileStoreTable,
        *,
        view: RowView = ROWS,
        columns: Sequence[DataField] | None = None,
        predicate: Predicate | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        """Describe a stream; nothing is read yet.

        Args:
            table: with the options of the stream, and the schema with which it goes on.
            view: the rows themselves, or their audit log.
            columns: of the rows, in order; all without.
            predicate: over the columns of the view.
            zone: of `scan.timestamp`; the process's local one when not given.
        """
        self.table = table
        self.view = view
        self.limits = ReadLimits.of(table.options)
        self._zone = zone
        fields = view.fields(table)
        plan = ReadPlan(
            None,
            table.schema,
            tuple(fields if columns is None else columns),
            (),
            residual_filter(table.schema, predicate),
            table,
            stream_read(view),
        )
        self.plan = with_values(plan)
        self._predicate = table_predicate(table, predicate)
        self._nothing = predicate == Always(False)
        self._steps: OrderedDict[tuple[int, bool], StreamStep | None] = OrderedDict()
        self._empty_polls = 0
        self._last_batch = float("-inf")
        self._until: int | None = None
        self._initial: StreamOffset | None = None
        self._newest: StreamOffset | None = None

    def initial(self) -> StreamOffset:
        """Where a new query begins; raises as `initial_offset`."""
        if self._initial is None:  # Spark asks more than once
            self._initial = initial_offset(self.table, zone=self._zone)
        return self._initial

    def end_at_latest(self) -> StreamOffset:
        """Let the stream end at what is there now; return the offset behind it. It waits for no more rows then."""
        self._until = self.table.snapshots.latest_id() or 0
        self.limits = replace(self.limits, min_rows=None, max_delay_millis=None)
        return StreamOffset(self._until + 1)

    def newest(self) -> StreamOffset:
        """The offset behind the latest snapshot, as it was when this was first asked after the last poll."""
        if self._newest is None:
            self._newest = StreamOffset((self.table.snapshots.latest_id() or 0) + 1)
        return self._newest

    def next_offset(self, start: StreamOffset, *, take_all: bool = False) -> StreamOffset:
        """Return the end of the next batch by the limits of the options; result and errors as of `latest`."""
        return self.latest(start, None if take_all else self.limits, until=self._until)

    def latest(
        self, start: StreamOffset, limits: ReadLimits | None = None, *, until: int | None = None
    ) -> StreamOffset:
        """Return the end of the next batch: as far as there are snapshots, and as the limits allow.

        Args:
            start: where the batch begins.
            limits: of the batch; None for none.
            until: no snapshot after this one.

        Returns:
            `start` where there is nothing to read yet.

        Raises:
            SnapshotNotFoundError: the snapshot that is read next has expired, or can never come.
        """
        self._newest = None
        budget = Budget(limits)
        at = start
        while not budget.is_full and (until is None or at.snapshot_id <= until):
            step = self._step(at)
            if step is None:
                if not self._is_there(at):
                    break
                at = at.following()
                continue
            units = step.weights(at.position)
            taken = budget.admit(units)
            if taken == len(units["files"]):
                at = at.following()
            else:
                at = replace(at, position=step.position_after(at.position, taken))
        if budget.used["files"]:
            if limits is not None and budget.waits(self._last_batch):
                return start
            self._last_batch = time.monotonic()
            return at
        moved = at.snapshot_id - start.snapshot_id
        return at if moved >= _ROWLESS or (moved and start.full) else start

    def batch(self, start: StreamOffset, end: StreamOffset, parallelism: int = 1) -> StreamBatch:
        """Return what lies between two offsets.

        Args:
            start: of the batch.
            end: of the batch, as `latest` gave it, perhaps in an earlier run.
            parallelism: how many tasks can run at once.

        Raises:
            SnapshotNotFoundError: a snapshot has expired.
            SchemaChangeError: rows were written that the columns of the stream cannot show.
        """
        splits: list[DataSplit] = []
        snapshots: list[Snapshot] = []
        changes, at = 0, start
        while at < end:
            step = self._step(at)
            last = at.snapshot_id == end.snapshot_id
            if step is None and not self._is_there(at):
                raise self._expired(at)
            if step is not None and not self._nothing:
                self._check_schemas(step)
                found = step.splits(at.position, end.position if last else len(step.files), parallelism)
                splits += found
                snapshots.append(step.snapshot)
                changes += bool(found) and step.kind is not StepKind.STATE
            if last:
                break
            at = at.following()
        return StreamBatch(splits, bool(changes) and self._keeps_order, snapshots)

    def commit(self, end: StreamOffset) -> None:
        """Note the progress of the stream's consumer, if it has one: all before the offset is done for good.

        While the first state is being read nothing is noted: who goes on from a consumer reads changes only.
        """
        consumer = self.table.options.get(CONSUMER_ID)
        if consumer is not None and not end.full:
            ConsumerStore(self.table.file_io, self.table.paths).reset(consumer, end.snapshot_id)

    @property
    def _keeps_order(self) -> bool:
        """Whether the order of the rows of a bucket means something."""
        schema = self.table.schema
        return schema.kind.is_keyed or schema.kind.has_buckets

    def _step(self, at: StreamOffset) -> StreamStep | None:
        """What the snapshot at an offset gives; None where it is not there yet or gives nothing."""
        key = at.snapshot_id, at.full
        if key in self._steps:
            self._steps.move_to_end(key)
            return self._steps[key]
        snapshot = self._snapshot(at)
        if snapshot is None:
            return None
        kind = StepKind.STATE if at.full else kind_of(self.table, snapshot)
        overwrites = snapshot.commit_kind is CommitKind.OVERWRITE and not at.full
        if self.view is CHANGE_FEED and overwrites and kind is not StepKind.OVERWRITE:
            raise overwrite_error(snapshot.id)
        try:
            step = None if kind is None else StreamStep.of(self.table, snapshot, kind, self._predicate)
        except SnapshotNotFoundError as error:
            raise self._expired(at) from error
        self._steps[key] = step
        files = sum(0 if kept is None else len(kept.files) for kept in self._steps.values())
        while len(self._steps) > 1 and (files > _KEPT_FILES or len(self._steps) > _KEPT_FILES):
            _, dropped = self._steps.popitem(last=False)
            files -= 0 if dropped is None else len(dropped.files)
        return step

    def _is_there(self, at: StreamOffset) -> bool:
        return (at.snapshot_id, at.full) in self._steps

    def _check_schemas(self, step: StreamStep) -> None:
        own = self.table.schema
        for schema_id in sorted(set(step.files.schema_ids[step.kept].tolist())):
            if schema_id <= own.id:
                continue
            reason = why_unreadable(self.plan.fields, own, self.table.schemas.get(schema_id))
            if reason is not None:
                raise SchemaChangeError(
                    f"Snapshot {step.snapshot.id} of table {self.table.path} has rows of schema {schema_id}, which the "
                    f"stream cannot show with the columns that it began with: {reason}. Start the query again: it "
                    "goes on here, with the columns that the table has then."
                )

    def _snapshot(self, at: StreamOffset) -> Snapshot | None:
        """Return the snapshot at an offset; None where it is not there yet.

        Raises:
            SnapshotNotFoundError: it has expired, or cannot come any more.
        """
        snapshots, number = self.table.snapshots, at.snapshot_id
        self._newest = None
        found = snapshots.find(number)
        if found is not None:
            self._empty_polls = 0
            return None if self._is_delayed(found) else found
        self._empty_polls += 1
        if number > 1 and self._empty_polls % _CHECK_EVERY and snapshots.exists(number - 1):
            self._newest = StreamOffset(number)
            return None
        if at.full:
            tagged = [tag.snapshot for tag in self.table.tags.list().values() if tag.snapshot.id == number]
            if tagged:
                return tagged[0]
        ids = snapshots.ids()
        if not ids:
            snapshots.check_table_there()
        latest = ids[-1] if ids else 0
        if number > latest:
            if number > latest + 1 and not at.full and self._began_before(number):
                raise SnapshotNotFoundError(
                    f"The next expected snapshot is too big: the stream is to read snapshot {number} of "
                    f"{self.table.path}, but the latest one is {latest or 'none'}. The table was rolled back or made "
                    "anew: start with a new checkpoint directory."
                )
            return None
        if number in ids:  # it has come meanwhile
            return snapshots.get(number)
        if not at.full:
            try:
                return snapshot_or_changelog(self.table, number)
            except SnapshotNotFoundError:
                pass
        raise self._expired(at)

    def _is_delayed(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is too young to be read."""
        delay = self.table.options.value("streaming.read.snapshot.delay")
        return delay is not None and snapshot.time_millis > time.time() * 1000 - delay / timedelta(milliseconds=1)

    def _began_before(self, number: int) -> bool:
        """Whether the stream has waited for less than this: then its options did not ask to begin there."""
        wanted = self.table.options.get("scan.snapshot-id")
        return wanted is None or wanted.strip() != str(number)

    def _expired(self, at: StreamOffset) -> SnapshotNotFoundError:
        return expired_error(self.table, at.snapshot_id, full=at.full)


def by_bucket(splits: Iterable[DataSplit]) -> list[list[DataSplit]]:
    """Put the splits of each bucket together, in their order."""
    found: dict[tuple[bytes, int], list[DataSplit]] = {}
    for split in splits:
        found.setdefault((split.partition, split.bucket), []).append(split)
    return list(found.values())
