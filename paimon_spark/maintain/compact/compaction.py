"""Compaction: the files of each bucket become fewer and sorted, in one COMPACT snapshot; no row changes.

Equals Java's ``CompactProcedure`` (docs/internals/format.md §7). The driver decides from metadata which files are
rewritten; an executor does that, here or in the tasks of an engine; one commit deletes exactly the files that were
read.

In tables with data evolution the rows that deletion vectors leave are written anew by a statement of its own; these
rows get new ids. Equals Java's ``DataEvolutionDeletionVectorMaterializeCoordinator``. Compaction keeps the positions of
marked rows, and their vectors; here the files are replaced. The commit is an OVERWRITE (Java: COMPACT): the ids of rows
change, so a concurrent change of these rows is a conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.commit.conflict_detection import RowsRead
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import run_again, undone_where_void
from paimon_spark.commit.settings import CommitSettings
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.compact.levels import CompactStrategy
from paimon_spark.maintain.compact.rewrite import DataEvolutionRows, Rewrite, RewriteResult, rewrite_files
from paimon_spark.maintain.compact.scope import CompactScope, VectorChanges
from paimon_spark.maintain.compact.sorted_rewrite import clusters_by_steps
from paimon_spark.maintain.compact.step import (
    AppendCompactPlanner,
    BucketFiles,
    CompactStep,
    DataEvolutionCompactPlanner,
    MergeTreeCompactPlanner,
    split_files,
)
from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.options import Stage, refuse
from paimon_spark.read.file_read import RecordExpiry
from paimon_spark.read.sections import holds_part, row_range_groups
from paimon_spark.spec.manifest import EMPTY_STATS
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.support import check_no_global_index, check_writable
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors, delete_index_files
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)

Executor = Callable[["FileStoreTable", Sequence[Rewrite]], Iterable[RewriteResult]]
"""Does `rewrite_files` for each of the rewrites and gives the results in the same order."""


def rewrite_here(table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
    """Rewrite in this process, one after the other: the simplest executor."""
    return (rewrite_files(table, rewrite) for rewrite in rewrites)


def compact(
    table: FileStoreTable,
    scope: CompactScope | None = None,
    *,
    full: bool = True,
    execute: Executor = rewrite_here,
    after_write_of: str | None = None,
    changelog: bool = True,
) -> int | None:
    """Compact a table; return the id of the new snapshot, None when there is nothing to do. Runs on the driver.

    Args:
        table: with dynamic options; ``write-only`` only affects the maintenance after the commit.
        scope: which part of it; all when not given.
        full: every bucket becomes one sorted run at the highest level; otherwise what a writer would compact by itself.
        execute: does the rewriting.
        after_write_of: the user whose write this belongs to; a write compacts once, what is due then is left.
        changelog: whether there may be a changelog, where the table has one of compactions.

    Raises:
        UnsupportedError: the table has a feature with which it cannot be compacted yet; nothing was read or written.
        CommitConflictError: another commit took away a file that was read; nothing is changed and no file is left.
        CommitStateUnknownError: it is not known whether the commit took place.
        CorruptTableError: a file is missing or damaged.
    """
    table, snapshot, buckets = table.snapshots.read_latest(partial(_found, table, scope or CompactScope()))
    if clusters_by_steps(table):
        raise UnsupportedError(
            "Table option 'clustering.incremental' = true: joining the files of this table would undo their order. Its "
            "rows are clustered by CALL sys.compact and PaimonTable.compact()."
        )
    # Java: only writes make the tags of batches
    batches = table.options.value("tag.automatic-creation") == "batch"
    after = maintenance(table.without_options(("tag.automatic-creation",)) if batches else table)
    if snapshot is None:
        return None
    work = _Work(table, snapshot, buckets, full=full, changelog=changelog, by_tier=after_write_of is not None)
    try:
        for _ in range(1 if after_write_of else work.rounds):
            if not work.step(execute):
                break
    except BaseException:
        work.discard()
        raise
    messages = work.messages()
    if not messages:
        _LOG.info("Nothing to compact in %s (snapshot %d).", table.path, snapshot.id)
        return None
    with undone_where_void(work.discard):
        return commit(table, messages, commit_user=after_write_of, after_commit=after)


def _found(
    table: FileStoreTable, scope: CompactScope, snapshot: Snapshot | None
) -> tuple[FileStoreTable, Snapshot | None, Sequence[BucketFiles]]:
    """The table with the schema of a snapshot, and the files of that; refuses a table that cannot be compacted."""
    if snapshot is not None:
        table = table.rewriting(snapshot)
    check_compactable(table)
    return table, snapshot, [] if snapshot is None else scope.bucket_files(table, snapshot)


def compact_with_retries(
    table: FileStoreTable, scope: CompactScope | None = None, *, full: bool = True, execute: Executor = rewrite_here
) -> int | None:
    """Compact a table, again from a fresh plan where another commit took away files that were read; as `compact`.

    Raises:
        CommitConflictError: other commits were faster every time; nothing is changed and no file is left.
    """
    return run_again(table, lambda _: compact(table, scope, full=full, execute=execute))


def check_compactable(table: FileStoreTable) -> None:
    """Refuse a table with a feature whose compaction does more than merge or join files.

    Raises:
        UnsupportedError: names the option and what to do.
        OptionError: options of the merge engine contradict each other.
    """
    check_writable(table.schema)
    CommitSettings.of(table.options)
    refuse(table.options, Stage.COMPACT)
    check_no_global_index(table, "Compaction")
    if table.schema.kind.is_keyed:
        merge_engine_for(table.schema)


class _Work:
    """The buckets of one compaction, as they were and as they are after each step."""

    def __init__(
        self,
        table: FileStoreTable,
        snapshot: Snapshot,
        buckets: Sequence[BucketFiles],
        *,
        full: bool,
        changelog: bool,
        by_tier: bool,
    ) -> None:
        self._table = table
        self._vectors = VectorChanges(table, snapshot)
        self._before = list(buckets)
        self._now = [list(bucket.files) for bucket in buckets]
        self._created: list[tuple[BucketFiles, DataFileMeta]] = []
        self._changelog: list[list[DataFileMeta]] = [[] for _ in buckets]
        keyed = table.schema.kind.is_keyed
        expiry = RecordExpiry.of(table) if keyed else None
        has_expired = None if expiry is None else expiry.holds_expired(table)
        self._strategy = CompactStrategy.of(table.options, full=full, has_expired=has_expired)
        rewrite_all = self._strategy.rewrite_all
        self._keyed = (
            MergeTreeCompactPlanner(table, rewrite_all=rewrite_all, has_expired=has_expired, changelog=changelog)
            if keyed
            else None
        )
        unaware = not table.schema.kind.has_buckets
        self.rounds = 1 if full or unaware else 2  # Java picks again when it has finished what it picked first
        self._append: AppendCompactPlanner | DataEvolutionCompactPlanner
        if table.schema.kind.has_data_evolution:
            self._append = DataEvolutionCompactPlanner(table, full=full)
        else:
            self._append = AppendCompactPlanner(table, full=full, unaware=unaware, by_tier=by_tier)

    def step(self, execute: Executor) -> bool:
        """Do what is due in every bucket; tell whether anything was."""
        steps = [self._next(bucket, files) for bucket, files in zip(self._before, self._now, strict=True)]
        rewrites = [(at, rewrite) for at, step in enumerate(steps) for rewrite, _ in step.rewrites]
        if rewrites:
            size = sum(rewrite.size_bytes for _, rewrite in rewrites)
            _LOG.info("Compacting %s: %d rewrites of %d bytes.", self._table.path, len(rewrites), size)
        results = iter(execute(self._table, [rewrite for _, rewrite in rewrites])) if rewrites else iter(())
        made: list[list[DataFileMeta]] = [[] for _ in steps]
        deletions: list[list[tuple[str, bytes]]] = [[] for _ in steps]
        for (at, _), result in zip(rewrites, results, strict=True):
            self._created += [(self._before[at], file) for file in result.written]
            made[at] += result.files
            self._changelog[at] += result.changelog_files
            deletions[at] += result.deletions
        self._mark(steps, deletions, made)
        for at, step in enumerate(steps):
            gone = {file.file_name for old in (step.upgrades, *(old for _, old in step.rewrites)) for file in old}
            upgraded = [file.upgraded(step.level) for file in step.upgrades]
            self._now[at] = [file for file in self._now[at] if file.file_name not in gone] + made[at] + upgraded
        return any(steps)

    def _mark(
        self,
        steps: Sequence[CompactStep],
        deletions: Sequence[Sequence[tuple[str, bytes]]],
        made: Sequence[Sequence[DataFileMeta]],
    ) -> None:
        """Mark the rows that steps have replaced in files that stay; the vectors of rewritten files go.

        With data evolution they go over to the new file, whose rows are those of the old ones.
        """
        deleted, dropped = [], set()
        if self._vectors.locations and isinstance(self._append, DataEvolutionCompactPlanner):
            for bucket, step, new in zip(self._before, steps, made, strict=True):
                for (_, old), file in zip(step.rewrites, new, strict=True):
                    deleted += self._vectors.moved(bucket.partition, bucket.bucket, old, file)
        for bucket, files, step, found in zip(self._before, self._now, steps, deletions, strict=True):
            rows = {file.file_name: file.row_count for file in files}
            dropped |= {(bucket.partition, bucket.bucket, f.file_name) for _, old in step.rewrites for f in old}
            positions: dict[str, list[bytes]] = {}
            for name, encoded in found:
                positions.setdefault(name, []).append(encoded)
            for name, parts in positions.items():
                at = np.unique(np.frombuffer(b"".join(parts), dtype="<i8").astype(np.int64))
                deleted.append(DeletedRows(bucket.partition, bucket.bucket, name, rows[name], at))
        self._vectors.apply(deleted, dropped)

    def _next(self, bucket: BucketFiles, files: Sequence[DataFileMeta]) -> CompactStep:
        vectors = self._vectors.locations
        now = BucketFiles(bucket.partition, bucket.bucket, bucket.total_buckets, tuple(files), vectors)
        if self._keyed is None:
            return self._append.step(now)
        location = (bucket.partition, bucket.bucket)
        unit = self._strategy.pick(files, {f.file_name for f in files if (*location, f.file_name) in vectors})
        if unit is None:
            return CompactStep()
        return self._keyed.step(now, unit, self._strategy.top_level(files))

    def messages(self) -> list[CommitMessage]:
        """Return the changes as commit messages; delete files that were made and replaced in between.

        A bucket keeps the number of buckets that its partition has. Java: it refuses partitions with another number
        than the table's.
        """
        self._discard_files(keep={file.file_name for files in (*self._now, *self._changelog) for file in files})
        self._vectors.discard(superseded=True)
        drop_stats = self._table.options.value("manifest.delete-file-drop-stats")
        messages = []
        for bucket, files, changelog in zip(self._before, self._now, self._changelog, strict=True):
            old, new = ({(file.file_name, file.level) for file in some} for some in (bucket.files, files))
            gone = tuple(file for file in bucket.files if (file.file_name, file.level) not in new)
            come = tuple(file for file in files if (file.file_name, file.level) not in old)
            index = self._vectors.changes(bucket.partition, bucket.bucket)
            if gone or come or changelog or index:
                if drop_stats:
                    gone = tuple(replace(file, value_stats=EMPTY_STATS, value_stats_cols=()) for file in gone)
                location = (bucket.partition, bucket.bucket, bucket.total_buckets)
                messages.append(
                    CommitMessage(
                        *location,
                        (),
                        compact_before=gone,
                        compact_after=come,
                        compact_changelog_files=tuple(changelog),
                        compact_index_changes=index,
                    )
                )
        return messages

    def discard(self) -> None:
        """Delete all files that were made: no snapshot refers to them."""
        self._discard_files()
        self._vectors.discard(superseded=False)

    def _discard_files(self, keep: Container[str] = ()) -> None:
        locations = [(bucket.partition, bucket.bucket, file) for bucket, file in self._created]
        delete_written(self._table, locations, keep=keep)


_Bin = tuple[BucketFiles, tuple["DataFileMeta", ...]]


def materialize_deletion_vectors(
    table: FileStoreTable, partitions: Predicate | None = None, *, execute: Executor = rewrite_here
) -> int | None:
    """Replace the files with deleted rows by files without; return the id of the new snapshot. Runs on the driver.

    Args:
        table: with its dynamic options.
        partitions: a condition over partition columns; all without.
        execute: does the rewriting.

    Returns:
        None where no row is marked.

    Raises:
        UnsupportedError: the table has no data evolution, no deletion vectors, or the rows have BLOB or VECTOR files.
        CommitConflictError: other commits changed the same rows every time; nothing was changed.
    """
    options = table.options
    if not table.schema.kind.has_data_evolution:
        raise UnsupportedError(
            "Materializing deletion vectors only supports unaware-bucket data evolution tables: compact other tables."
        )
    if not options.deletion_vectors_enabled:
        raise UnsupportedError("Materializing deletion vectors requires deletion vectors to be enabled.")
    check_compactable(table)

    def attempt(snapshot: Snapshot | None) -> int | None:
        bins = [] if snapshot is None else _bins(table, snapshot, partitions)
        return None if snapshot is None or not bins else _replace(table, snapshot, bins, execute)

    return run_again(table, attempt)


def _bins(table: FileStoreTable, snapshot: Snapshot, partitions: Predicate | None) -> list[_Bin]:
    """Return the files that are replaced, as many together as make a file of the target size."""
    vectors = vectors_of(table, snapshot)
    locations: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in table.manifests.live_entries(snapshot, predicate=partitions):
        locations.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry)
    target = table.options.target_file_size_bytes(False)
    bins: list[_Bin] = []
    for location, entries in locations.items():
        files = tuple(entry.file for entry in entries)
        bucket = BucketFiles(*location, files, vectors)
        bin_files: list[DataFileMeta] = []
        groups = row_range_groups([file.first_row_id for file in files], [file.row_count for file in files])
        for group in ([files[at] for at in numbers] for numbers in groups):
            if not any(bucket.vector_of(file) is not None for file in group):
                continue
            if any(holds_part(file.file_name) for file in group):
                raise UnsupportedError(
                    f"Materializing deletion vectors of rows with BLOB or VECTOR files is not supported: "
                    f"{group[0].file_name} of table {table.path}."
                )
            if bin_files and _size(bin_files) + _size(group) > target:
                bins.append((bucket, tuple(bin_files)))
                bin_files = []
            bin_files += group
        bins += [(bucket, tuple(bin_files))] if bin_files else []
    return bins


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


def _replace(table: FileStoreTable, snapshot: Snapshot, bins: Sequence[_Bin], execute: Executor) -> int | None:
    """Write the rows of the files anew, and commit the new files in their place."""
    rewrites = []
    for bucket, bin_files in bins:
        low, high = min(f.min_sequence_number for f in bin_files), max(f.max_sequence_number for f in bin_files)
        section = tuple(split_files(table, bucket, bin_files))
        rows = DataEvolutionRows(None, low, high)
        rewrites.append(Rewrite(bucket.partition, bucket.bucket, 0, (section,), data_evolution=rows))
    dropped = {(bucket.partition, bucket.bucket, file.file_name) for bucket, bin_files in bins for file in bin_files}
    made: list[RewriteResult] = []
    index = changed_vectors(table, table.manifests.index_entries(snapshot), dropped=dropped)

    def discard() -> None:
        written = [(b.partition, b.bucket, f) for (b, _), r in zip(bins, made, strict=False) for f in r.written]
        delete_written(table, written)
        delete_index_files(table, index)

    try:
        made += execute(table, rewrites)
    except BaseException:
        discard()
        raise
    with undone_where_void(discard):
        messages = [
            CommitMessage(
                bucket.partition,
                bucket.bucket,
                bucket.total_buckets,
                result.files,
                deleted_files=bin_files,
                index_changes=index if number == 0 else (),
            )
            for number, ((bucket, bin_files), result) in enumerate(zip(bins, made, strict=True))
        ]
        ranges = [(file.first_row_id or 0, file.row_count) for _, bin_files in bins for file in bin_files]
        done = commit(
            table,
            messages,
            planned_on=SnapshotIdentity.of(snapshot),
            rows_read=True,
            of_rows=RowsRead.of(table.schema, ranges, None),
            after_commit=maintenance(table),
        )
    _LOG.info("Applied the deletion vectors of %d files of %s.", len(dropped), table.path)
    return done
