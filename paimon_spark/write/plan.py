"""Planning of a write: what a task must know about the table and the incoming columns, gathered once on the driver.

What each bucket has left to compact is counted when a write is planned, so that its commit need not look again. It
counts as Java's ``Levels.numberOfSortedRuns`` and ``BucketedAppendCompactManager.pickCompactBefore`` do. No file is
opened.

`OverwriteMode` says what an overwrite replaces: in the plan, in its commit and at every entry point.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.options import CoreOptions
from paimon_spark.spec.manifest import HASH_INDEX
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.special_fields import TRACKED_FIELDS
from paimon_spark.table.iceberg_files import check_location
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.support import check_writable
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.bucket_filling import MAX_BUCKETS, DynamicBucketPlan, KnownBucket
from paimon_spark.write.data_file_spec import DataFileSpec, data_file_spec, with_input
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.routing import KeyRanges
from paimon_spark.write.rows import RowMapping, map_columns


class OverwriteMode(StrEnum):
    """What an overwrite replaces."""

    STATIC = "static"
    """The whole table, or the partitions that match a spec."""
    DYNAMIC = "dynamic"
    """The partitions that new files are in; without new files nothing. Without partitions: the whole table."""
    TRUNCATE = "truncate"
    """Like static, and there are no new files."""


def compaction_backlog(schema: TableSchema, files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    """Return of each partition and bucket what counts for the next compaction.

    Args:
        schema: with the options of the write.
        files: the live files of a table with buckets; statistics are not needed.

    Returns:
        Of a table with keys the sorted runs: files of level 0, and levels above. Of one without, how many of the newest
        files a compaction may join with the next one.
    """
    return _sorted_runs(files) if schema.kind.is_keyed else _files_to_join(schema, files)


def _sorted_runs(files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    found: dict[bytes, dict[int, int]] = {}
    seen = set[tuple[bytes, int, int]]()
    for location in zip(files.partitions, files.buckets.tolist(), files.levels.tolist(), strict=True):
        partition, bucket, level = location
        if level == 0 or location not in seen:
            seen.add(location)
            buckets = found.setdefault(partition, {})
            buckets[bucket] = buckets.get(bucket, 0) + 1
    return found


def _files_to_join(schema: TableSchema, files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    most_files = int(schema.core_options.value("compaction.min.file-num")) - 1
    most_bytes = 2 * schema.core_options.target_file_size_bytes(False)
    found: dict[bytes, dict[int, int]] = {}
    sizes: dict[tuple[bytes, int], int] = {}
    newest_first = np.argsort(-np.array(files.file_values("_MIN_SEQUENCE_NUMBER"), dtype=np.int64), kind="stable")
    partitions, buckets, bytes_ = files.partitions, files.buckets, files.file_sizes
    for at in newest_first.tolist():
        location = partitions[at], int(buckets[at])
        size = sizes[location] = sizes.get(location, 0) + int(bytes_[at])
        counts = found.setdefault(location[0], {})
        count = counts.setdefault(location[1], 0)
        if size < most_bytes and count < most_files:
            counts[location[1]] = count + 1
    return found


_LOG = logging.getLogger(__name__)

TASK_BITS = 32
"""A task that shares buckets with others has 2^32 sequence numbers of each bucket."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A planned write: picklable, sent to every task, used by ``write_batches``."""

    table: FileStoreTable
    overwrite: OverwriteMode | None
    data_schema: pa.Schema
    """Arrow schema of the batches that tasks will get (a column ``_VALUE_KIND`` int8 gives row kinds, if there)."""
    shuffled: bool
    """True when all rows of a (partition, bucket) reach one task; False when tasks may share buckets."""
    snapshot: SnapshotIdentity
    """Latest snapshot when the write was planned, or the one that its rows were made of."""
    mapping: RowMapping
    """How the columns of the data become those of the table."""
    files: DataFileSpec
    """How level-0 files are written."""
    changelog: DataFileSpec | None = None
    """How changelog files of the incoming rows are written; None where these are no changelog."""
    max_sequences: Mapping[bytes, Mapping[int, int]] = field(default_factory=dict)
    """Greatest sequence number of the files of each partition and bucket; empty where none counts."""
    total_buckets: Mapping[bytes, int] = field(default_factory=dict)
    """Number of buckets of those partitions whose number differs from the table's: their rows go into those."""
    fixed_buckets: Mapping[bytes, int] = field(default_factory=dict)
    """Number of buckets of those partitions of a table with dynamic buckets that have a fixed one: no index says where
    their keys are, so rows of them are refused. The official connector's `rescale` makes them."""
    rows_read: bool = False
    """Whether the rows were made of rows of that snapshot (UPDATE, DELETE, MERGE)."""
    assigned: bool = False
    """Whether rows of dynamic buckets have their buckets (`bucket_assignment`), all rows of a bucket to one task."""
    dynamic: DynamicBucketPlan | None = None
    """For dynamic buckets: which there are and how new ones are made."""
    key_ranges: KeyRanges | None = None
    """Where buckets of a shuffled write are shared by several tasks, each with a range of keys."""
    backlog: Mapping[bytes, Mapping[int, int]] = field(default_factory=dict)
    """What each partition and bucket has left to compact (`compaction_backlog`); empty where nothing of it stays."""
    postponed_user: str | None = None
    """Who commits postponed rows: their files are named after it. None where none are postponed."""
    blobs_are_descriptors: bool = False
    """Whether the rows hold descriptors of managed blob files in place of BLOB values (postponed rows)."""

    def first_sequence(self, partition: bytes, bucket: int, task_id: int) -> int:
        """Sequence number of the first row that a task writes into a bucket."""
        base = self.max_sequences.get(partition, {}).get(bucket, -1) + 1
        return base + (task_id << TASK_BITS if self.shares_buckets(partition) else 0)

    @property
    def snapshot_id(self) -> int | None:
        """Id of the snapshot planned on; None for an empty table."""
        return self.snapshot.id or None

    @property
    def tasks_share_buckets(self) -> bool:
        """Whether rows of any bucket may come from several tasks; those of dynamic buckets do that are not assigned."""
        return not self.shuffled or (self.dynamic is not None and not self.assigned)

    def shares_buckets(self, partition: bytes) -> bool:
        """Whether rows of one bucket of a partition may come from several tasks."""
        cut = self.key_ranges is not None and self.key_ranges.count(partition) > 1
        return self.tasks_share_buckets or cut or partition in self.total_buckets  # rows came by the table's number

    def check_partition(self, partition: bytes) -> None:
        """Refuse rows of a partition whose buckets are fixed where those of the table are dynamic. Java does, too.

        Raises:
            OptionError: they are.
        """
        if partition in self.fixed_buckets:
            raise _bucket_number_error(self.table, self.fixed_buckets[partition], partition)

    def number_of_buckets(self, partition: bytes) -> int:
        """Number of buckets of a partition; -1 where it is not fixed."""
        return self.total_buckets.get(partition, self.table.schema.core_options.bucket)


def plan_write(
    table: FileStoreTable,
    *,
    overwrite: OverwriteMode | None = None,
    data_schema: pa.Schema,
    shuffled: bool = False,
    assignment: WritePlan | None = None,
    rows_of: SnapshotIdentity | None = None,
    rewritten: bool = False,
    key_ranges: KeyRanges | None = None,
) -> WritePlan:
    """Plan a write of rows of ``data_schema`` into ``table``. Runs on the driver, once per job.

    Args:
        table: the table as loaded, with dynamic options applied.
        overwrite: None to append; otherwise existing files and indexes of the target partitions are ignored.
        data_schema: columns of the incoming batches. They are matched by name (without case unless that is
            ambiguous). A column ``_VALUE_KIND`` (int8: 0 +I, 1 -U, 2 +U, 3 -D) is taken as the row kind of
            primary-key tables.
        shuffled: True promises that all rows of one (partition, bucket) - for dynamic buckets all rows of one key -
            reach one task (``routing.shuffle_ids``), in their order.
        assignment: the plan by which rows of dynamic buckets got their buckets (``bucket_assignment.assign_rows``); all
            rows of one (partition, bucket) reach one task. What it knows of the table's files is not read again.
        rows_of: the snapshot that the rows are made of (UPDATE, DELETE, MERGE): the write is planned on it, even if
            there are later ones, and its commit checks for changes since.
        rewritten: the rows are written again: with row tracking they bring their ids and sequence numbers.
        key_ranges: where buckets are shared by several tasks of a shuffled write.

    Raises:
        SnapshotNotFoundError: ``rows_of`` is not there any more.
        UnsupportedError: the table has a feature that cannot be written yet.
        SchemaMismatchError: a column is unknown, missing or of a type that cannot be cast without loss.
        OptionError: the table has no partitions, and its number of buckets differs from that of its files; or its
            buckets are dynamic, and files are in a fixed number of buckets.
    """
    schema = table.schema
    check_writable(schema)
    check_location(table)
    kind = schema.kind
    tracked = TRACKED_FIELDS if rewritten and schema.core_options.row_tracking_enabled else ()
    mapping = map_columns(schema, data_schema, tracked)
    if kind.is_keyed:
        merge_engine_for(schema)  # its configuration errors belong to the driver
    given = rows_of if assignment is None else assignment.snapshot
    if assignment is not None and assignment.overwrite is overwrite:
        at, dynamic = assignment.snapshot, assignment.dynamic
        known = assignment.max_sequences, assignment.backlog, assignment.total_buckets, assignment.fixed_buckets
    else:

        def read(snapshot: Snapshot | None) -> tuple[SnapshotIdentity, _KnownOfFiles, DynamicBucketPlan | None]:
            known = _known_of_files(table, snapshot, overwrite)
            if assignment is not None or not kind.assigns_buckets:
                return SnapshotIdentity.of(snapshot), known, None if assignment is None else assignment.dynamic
            return SnapshotIdentity.of(snapshot), known, _dynamic_plan(table, None if overwrite else snapshot, shuffled)

        store = table.snapshots
        at, known, dynamic = store.read_latest(read) if given is None else read(given.find(store))
    sequences, backlog, differing, fixed = known
    plan = WritePlan(
        table=table,
        overwrite=overwrite,
        data_schema=data_schema,
        shuffled=shuffled or assignment is not None,
        assigned=assignment is not None,
        snapshot=at,
        rows_read=rows_of is not None,
        mapping=mapping,
        files=with_input(data_file_spec(schema, columns=(*schema.fields, *tracked) if tracked else None), table),
        changelog=_changelog_spec(schema, overwrite),
        max_sequences=sequences,
        total_buckets=differing,
        fixed_buckets=fixed,
        dynamic=dynamic,
        key_ranges=key_ranges,
        backlog=backlog,
        postponed_user=new_user(table.options) if kind.postpones_buckets else None,
    )
    if plan.files.external is not None:
        plan.files.external.check_store(table.path)
    others = differing or fixed
    if others and not schema.partition_keys:
        raise _bucket_number_error(table, next(iter(others.values())))
    _LOG.info("Planned a write to %s (snapshot %s, %s).", table.path, plan.snapshot_id, kind.bucket_mode.name)
    return plan


_KnownOfFiles = tuple[
    Mapping[bytes, Mapping[int, int]], Mapping[bytes, Mapping[int, int]], Mapping[bytes, int], Mapping[bytes, int]
]


def _known_of_files(table: FileStoreTable, snapshot: Snapshot | None, overwrite: OverwriteMode | None) -> _KnownOfFiles:
    """Return `max_sequences`, `backlog`, `total_buckets` and `fixed_buckets` of a write that follows a snapshot."""
    kind = table.schema.kind
    keeps_some = overwrite is None or kind.updates_across_partitions  # a key may leave a partition that stays
    if not keeps_some or snapshot is None or not kind.has_buckets:
        return {}, {}, {}, {}
    files = table.manifests.live_columns(snapshot, statistics=False)
    differing = _numbers_of(files, files.total_buckets != table.schema.core_options.bucket)
    is_dynamic = overwrite is None and (kind.assigns_buckets or kind.updates_across_partitions)
    fixed = _numbers_of(files, files.total_buckets > 0) if is_dynamic else {}
    backlog = compaction_backlog(table.schema, files)
    return _max_sequences(files), backlog, differing if kind.hashes_to_buckets else {}, fixed


def check_one_task_per_bucket(plan: WritePlan, messages: Iterable[TaskMessage]) -> None:
    """Check what a shuffled write relies on: two tasks of one bucket would give its rows equal sequence numbers.

    Raises:
        PaimonError: they do; nothing was committed.
    """
    if plan.tasks_share_buckets:
        return
    parts = (part for message in messages for part in message.messages)
    counts = Counter((part.partition, part.bucket) for part in parts if part.partition not in plan.total_buckets)
    ranges = plan.key_ranges or KeyRanges({})
    twice = next((location for location, count in counts.items() if count > ranges.count(location[0])), None)
    if twice is not None:
        partition, bucket = twice
        raise PaimonError(
            f"Rows of bucket {bucket} of {plan.table.paths.partition_path(partition) or 'the table'} came to several "
            f"tasks, and nothing was committed. If another job has changed the table's buckets meanwhile, run the "
            f"write again; else this is a defect of paimon_spark"
        )


def _bucket_number_error(table: FileStoreTable, existing: int, partition: bytes = b"") -> OptionError:
    """The error of a write into files that were made with another number of buckets (Java's words)."""
    where = f"partition {table.paths.partition_path(partition)}" if partition else "table"
    return OptionError(
        f"Try to write {where} with a new bucket num {table.options.bucket}, but the previous bucket num is "
        f"{existing}. Please switch to batch mode, and perform INSERT OVERWRITE to rescale current data layout first."
    )


def _changelog_spec(schema: TableSchema, overwrite: OverwriteMode | None) -> DataFileSpec | None:
    """How incoming rows become a changelog; not in an overwrite, of which none is committed (as in Java)."""
    if overwrite is not None or schema.core_options.changelog_producer != "input":
        return None
    return data_file_spec(schema, changelog=True)


def _num_assigners(schema: TableSchema) -> int:
    """Residue classes of keys that have buckets of their own from the start.

    Java: the tasks of the session, where no option says it; small tables then have as many small buckets.
    """
    options = schema.core_options
    asked = [options.value(f"dynamic-bucket.{key}") for key in ("initial-buckets", "assigner-parallelism")]
    most = int(options.value("dynamic-bucket.max-buckets"))
    limit = MAX_BUCKETS if most == -1 else most
    return max(1, min(limit, *[int(number) for number in asked if number is not None] or [1]))


def _max_sequences(files: ManifestColumns) -> dict[bytes, dict[int, int]]:
    found: dict[bytes, dict[int, int]] = {}
    numbers = files.max_sequence_numbers.tolist()
    for partition, bucket, number in zip(files.partitions, files.buckets.tolist(), numbers, strict=True):
        buckets = found.setdefault(partition, {})
        buckets[bucket] = max(buckets.get(bucket, -1), number)
    return found


def new_user(options: CoreOptions) -> str:
    """A new commit user, after the option ``commit.user-prefix``."""
    prefix, user = options.value("commit.user-prefix"), str(uuid.uuid4())
    return f"{prefix}_{user}" if prefix else user


def _numbers_of(files: ManifestColumns, chosen: npt.NDArray[np.bool_]) -> dict[bytes, int]:
    """The number of buckets of each partition that has chosen files in buckets."""
    found = files.filter(chosen & (files.buckets >= 0))
    return dict(zip(found.partitions, found.total_buckets.tolist(), strict=True))


def _dynamic_plan(table: FileStoreTable, snapshot: Snapshot | None, shuffled: bool) -> DynamicBucketPlan:
    options = table.schema.core_options
    known: dict[bytes, list[KnownBucket]] = {}
    for entry in table.manifests.index_entries(snapshot) if snapshot is not None else ():
        if entry.index_type == HASH_INDEX:
            bucket = KnownBucket(entry.bucket, table.paths.index_file_path(entry), entry.row_count)
            known.setdefault(entry.partition, []).append(bucket)
    most = int(options.value("dynamic-bucket.max-buckets"))
    return DynamicBucketPlan(
        known={p: tuple(sorted(buckets, key=lambda k: k.bucket)) for p, buckets in known.items()},
        target_rows=int(options.value("dynamic-bucket.target-row-num")),
        max_buckets=most,
        assigners=_num_assigners(table.schema),
        keys_apart=shuffled,
        log=None if most == 1 else assignment_log(table),
    )


def assignment_log(table: FileStoreTable) -> str | None:
    """A name for the assignment log of one write; None where the store can create no file exclusively."""
    return None if table.file_io.unsafe_rename else str(uuid.uuid4())
