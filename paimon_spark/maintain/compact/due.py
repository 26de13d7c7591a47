"""What a table needs compacted after a commit, decided in one place for every way of writing; and that compaction.

Looks at what the write knows already: the files that it added, and what the buckets had left to compact when it was
planned. Where that is not enough, it reads the newest manifests. No file is opened, and no full plan is made.
Equals when Java's writers compact by themselves: ``MergeTreeCompactManager``, ``BucketedAppendCompactManager``, and for
tables without buckets ``AppendCompactCoordinator``, which Java runs in Flink only.

The rows are an APPEND snapshot, their compaction is a COMPACT snapshot of the same user, before the write returns. Rows
that are committed stay committed: a compaction that fails is reported in the log and left to the next one, and so is
one that another commit won over, unless it makes rows visible or sorted runs pile up.

Which partitions of tables without buckets have small files enough to be joined is found here: Java's
``AppendCompactCoordinator``.

Looked for after each write. So what a manifest says of small files is kept in this process: manifests never change, and
each is decoded once. It only decides whether a compaction is tried, which reads the manifests itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import CommitConflictError, CommitStateUnknownError, UnsupportedError
from paimon_spark.maintain.compact.compaction import Executor, compact, rewrite_here
from paimon_spark.maintain.compact.levels import CompactStrategy
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_rewrite import clusters_by_steps
from paimon_spark.maintain.compact.step import size_tier, small_file_bytes
from paimon_spark.read.sections import key_ranks
from paimon_spark.spec.manifest_columns import Identity, ManifestColumns
from paimon_spark.table.partitions import range_predicate

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.rewrite import Rewrite, RewriteResult
    from paimon_spark.spec.manifest import DataFileMeta, ManifestFileMeta
    from paimon_spark.table.table import FileStoreTable
    from paimon_spark.write.message import TaskMessage

MOST_ENTRIES = 10_000
"""Entries of the newest manifests in which small files are counted."""
_MOST_KEPT = 20_000
"""Files of which this process remembers what manifests say: about 10 MB."""


@dataclass(frozen=True, slots=True)
class _SmallFiles:
    """What one manifest says."""

    added: Mapping[Identity, tuple[bytes, int]]
    """Partition and bytes of each small file."""
    deleted: frozenset[Identity]

    def __len__(self) -> int:
        return len(self.added) + len(self.deleted) + 1

    @staticmethod
    def of(columns: ManifestColumns, small_bytes: int) -> _SmallFiles:
        small = columns.take(np.flatnonzero((columns.kinds == 0) & (columns.file_sizes < small_bytes)))
        found = zip(small.identities(), zip(small.partitions, small.file_sizes.tolist(), strict=True), strict=True)
        return _SmallFiles(dict(found), frozenset(columns.deleted()))


class KeptSmallFiles:
    """What manifests say, by their path and the bytes below which a file is small; the oldest goes first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], _SmallFiles] = {}
        self._size = 0

    def get(self, key: tuple[str, int]) -> _SmallFiles | None:
        """Return what a manifest says; None where that is not known."""
        return self._kept.get(key)

    def put(self, key: tuple[str, int], found: _SmallFiles) -> None:
        """Keep what a manifest says, which nobody has kept."""
        self._kept[key] = found
        self._size += len(found)
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was quicker
            while len(self._kept) > 1 and self._size > _MOST_KEPT:
                self._size -= len(self._kept.pop(next(iter(self._kept))))


_KNOWN = KeptSmallFiles()


def partitions_to_join(table: FileStoreTable, partitions: Collection[bytes]) -> set[bytes]:
    """Return those of the partitions in which the newest manifests have small files enough to be joined.

    Args:
        table: without buckets, as it was written, with dynamic options.
        partitions: serialized, those of the write.

    Raises:
        CorruptTableError: a manifest cannot be read.
    """
    snapshot = table.snapshots.latest_to_follow()
    if snapshot is None:
        return set()
    newest: list[ManifestFileMeta] = []
    store, count = table.manifests, 0
    for meta in reversed(store.prune_manifests(store.data_manifests(snapshot), range_predicate(table, partitions))):
        count += meta.num_added_files + meta.num_deleted_files
        if newest and count > MOST_ENTRIES:
            break
        newest.append(meta)
    options = table.options
    small_bytes = small_file_bytes(options, keyed=False)
    parts = [_known(table, meta, small_bytes) for meta in newest]
    deleted = frozenset[Identity]().union(*(part.deleted for part in parts))
    counts, sizes = Counter[tuple[bytes, int]](), Counter[tuple[bytes, int]]()
    for part in parts:
        for identity, (partition, size) in part.added.items():
            if identity not in deleted:
                tier = partition, size_tier(options, size)
                counts[tier] += 1
                sizes[tier] += size + options.split_open_file_cost_bytes
    least, enough = max(2, int(options.value("compaction.min.file-num"))), 2 * options.target_file_size_bytes(False)
    due = {tier[0] for tier, count in counts.items() if count >= least or (count > 1 and sizes[tier] >= enough)}
    return due & set(partitions)


def _known(table: FileStoreTable, meta: ManifestFileMeta, small_bytes: int) -> _SmallFiles:
    key = table.paths.manifest_path(meta.file_name), small_bytes
    found = _KNOWN.get(key)
    if found is None:
        columns = ManifestColumns.concat(list(table.manifests.read_columns([meta], statistics=False)))
        found = _SmallFiles.of(columns, small_bytes)
        _KNOWN.put(key, found)
    return found


BucketLocation = tuple[bytes, int]
"""Serialized partition, and bucket."""

_STOP_BEYOND_TRIGGER = 3


@dataclass(frozen=True, slots=True)
class DueCompaction:
    """A compaction that a commit makes due."""

    scope: CompactScope
    full: bool = False
    """Whether every bucket becomes one sorted run; else it is what a writer does by itself."""
    visible_after_compaction: bool = False
    """Whether readers do not see the rows, or their changelog, before it."""
    urgent: bool = False
    """Whether a conflict makes it start anew: it makes rows visible, or too many runs pile up (the stop trigger)."""


def due_after_write(
    table: FileStoreTable,
    messages: Iterable[TaskMessage],
    backlog: Mapping[bytes, Mapping[int, int]],
    micro_batch: int | None = None,
) -> DueCompaction | None:
    """Return what is to be compacted after a committed write; None is nothing. Runs on the driver.

    Args:
        table: as it was written, with dynamic options.
        messages: of the write.
        backlog: `compaction_backlog` of when it was planned.
        micro_batch: its number, from 0, where it is one of a stream.

    Raises:
        CorruptTableError: a manifest cannot be read.
        OptionError: an option has a value that cannot be used.
    """
    new: dict[BucketLocation, list[DataFileMeta]] = {}
    for task in messages:
        for message in task.messages:
            if message.new_files:
                new.setdefault((message.partition, message.bucket), []).extend(message.new_files)
    options = table.options
    compacts = not options.write_only if table.schema.kind.is_keyed else options.compacts_appends
    if not new or not compacts or clusters_by_steps(table):
        return None  # Java: rows are clustered by a compaction that somebody asks for
    in_full = _in_full(table, micro_batch)
    if in_full or visible_after_compaction(table):
        return DueCompaction(
            CompactScope(locations=frozenset(new)), full=in_full, visible_after_compaction=True, urgent=True
        )
    if not table.schema.kind.has_buckets:
        partitions = partitions_to_join(table, {partition for partition, _ in new})
        locations = {location for location in new if location[0] in partitions}
        return DueCompaction(CompactScope(locations=frozenset(locations))) if locations else None
    locations, urgent = _over_the_trigger(table, new, backlog)
    return DueCompaction(CompactScope(locations=frozenset(locations)), urgent=urgent) if locations else None


def visible_after_compaction(table: FileStoreTable) -> bool:
    """Whether readers see the rows of a write, or their changelog, only after its compaction has looked up their keys.

    Args:
        table: as it was written, with dynamic options.
    """
    return table.schema.kind.is_keyed and table.options.compacts_writes


def _in_full(table: FileStoreTable, micro_batch: int | None) -> bool:
    """Whether a write ends with a full compaction: each batch write, but streams count their commits (Java)."""
    commits = int(table.options.value("full-compaction.delta-commits") or 0)
    if commits <= 0 or not table.schema.kind.has_buckets:
        return False
    return micro_batch is None or (micro_batch + 1) % commits == 0


def _over_the_trigger(
    table: FileStoreTable,
    new: Mapping[BucketLocation, Sequence[DataFileMeta]],
    backlog: Mapping[bytes, Mapping[int, int]],
) -> tuple[set[BucketLocation], bool]:
    """Return the buckets in which a compaction may be due, and whether one of them has too much of it."""
    options = table.options
    before = {location: backlog.get(location[0], {}).get(location[1], 0) for location in new}
    if not table.schema.kind.is_keyed:
        least = int(options.value("compaction.min.file-num"))
        return {location for location, files in new.items() if before[location] + len(files) >= least}, False
    strategy = CompactStrategy.of(options, full=False)
    stop = options.value("num-sorted-run.stop-trigger")
    most = strategy.trigger + _STOP_BEYOND_TRIGGER if stop is None else max(int(stop), strategy.trigger)
    runs = {}
    for location, files in new.items():
        if strategy.may_pick(before[location] + len(files)):
            count = before[location] + _sorted_runs(table, files)
            if strategy.may_pick(count):
                runs[location] = count
    return set(runs), any(count > most for count in runs.values())


def _sorted_runs(table: FileStoreTable, files: Sequence[DataFileMeta]) -> int:
    """How many files of a write hold one key at most: those of a large load are cut by key, and are one sorted run."""
    if len(files) < 2:
        return len(files)
    low, high = key_ranks(table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files])
    starts, ends = np.sort(low), np.sort(high)
    return int((np.arange(1, len(files) + 1) - np.searchsorted(ends, starts, side="left")).max())


_LOG = logging.getLogger(__name__)
_ATTEMPTS = 10
"""A rival may compact or overwrite the same buckets: each attempt starts from the latest snapshot."""
_MOST_BYTES_HERE = 1 << 30
"""What a driver without tasks compacts by itself where somebody waits for it."""
_FEW_BYTES_HERE = 16 << 20
"""What it compacts where nobody does."""


_TOLD: set[str] = set()
"""Tables whose writers here cannot compact as much as is due: said once, since each of their writes finds it."""


class _TooMuchHereError(Exception):
    """A compaction needs tasks, and this way of writing has none."""


def compact_after_write(
    table: FileStoreTable,
    messages: Iterable[TaskMessage],
    *,
    commit_user: str,
    backlog: Mapping[bytes, Mapping[int, int]] | None = None,
    micro_batch: int | None = None,
    changelog: bool = True,
    execute: Executor | None = None,
) -> int | None:
    """Compact what a committed write has made due (`due_after_write`). Runs on the driver, after the commit.

    Args:
        table: as it was written, with dynamic options.
        messages: of the write.
        commit_user: of the write.
        backlog: what the buckets had left to compact when the write was planned.
        micro_batch: its number, where it is one of a stream.
        changelog: whether the rows make a changelog; those of an overwrite do not.
        execute: does the rewriting in tasks; None: this process does, up to a bound.

    Returns:
        The id of the new snapshot; None when there is none, for whatever reason. Nothing is raised: the rows are
        committed.
    """
    try:
        due = due_after_write(table, messages, backlog or {}, micro_batch)
    except Exception as error:  # noqa: BLE001 - the rows are committed
        _LOG.warning("%s: nobody knows whether a compaction is due after a write: %s", table.path, error)
        return None
    if due is None:
        return None
    reason, level = "", logging.WARNING
    for _ in range(_ATTEMPTS if due.urgent else 1):
        try:
            return compact(
                table,
                due.scope,
                full=due.full,
                execute=execute or _here(due),
                after_write_of=commit_user,
                changelog=changelog,
            )
        except CommitConflictError as conflict:
            reason, level = str(conflict), logging.WARNING if due.urgent else logging.INFO
            _LOG.info("%s: another commit won over the compaction after a write.", table.path)
        except CommitStateUnknownError as error:
            _LOG.warning("%s: it is not known whether the compaction after a write took place: %s", table.path, error)
            return None
        except UnsupportedError as error:
            reason, level = str(error), logging.WARNING if due.visible_after_compaction else logging.INFO
            break
        except _TooMuchHereError as error:
            first = due.visible_after_compaction or _is_first_time(table.path)
            reason, level = str(error), logging.WARNING if first else logging.INFO
            break
        except Exception as error:  # noqa: BLE001 - the rows are committed, and the next compaction tries again
            reason, level = f"{type(error).__name__}: {error}", logging.WARNING
            break
    _LOG.log(level, "%s: %s %s", table.path, _left(table, due), reason)
    return None


def _is_first_time(path: str) -> bool:
    """Whether this process has not told yet that the compactions of a table are left to others."""
    if path in _TOLD:
        return False
    _TOLD.add(path)
    return True


def compact_left_behind(table: FileStoreTable, *, commit_user: str, execute: Executor | None = None) -> None:
    """Compact what a stream that was killed between a commit and its compaction left, where it makes rows visible.

    Args:
        table: as it was written, with dynamic options.
        commit_user: of the stream.
        execute: does the rewriting in tasks; None: this process does.
    """
    if not visible_after_compaction(table):
        return
    try:
        compact(table, full=False, execute=execute or rewrite_here, after_write_of=commit_user)
    except Exception as error:  # noqa: BLE001 - the next micro-batch compacts again
        _LOG.warning("%s: what a stream left to compact is left again: %s", table.path, error)


def _here(due: DueCompaction) -> Executor:
    """Rewrite in this process, up to a bound."""
    most = _MOST_BYTES_HERE if due.urgent else _FEW_BYTES_HERE

    def execute(table: FileStoreTable, rewrites: Sequence[Rewrite]) -> Iterable[RewriteResult]:
        size = sum(rewrite.size_bytes for rewrite in rewrites)
        if size > most:
            raise _TooMuchHereError(
                f"{size} bytes are too many for the driver, and this way of writing has no tasks for it."
            )
        return rewrite_here(table, rewrites)

    return execute


def _left(table: FileStoreTable, due: DueCompaction) -> str:
    if not due.visible_after_compaction:
        return (
            "the rows of the write are committed; the compaction that was due is left to the next write, or to CALL "
            "sys.compact, or compact() of PaimonTable or of open_table."
        )
    hidden = "hidden from readers" if table.options.batch_scan_skips_level_0 else "without changelog"
    return (
        f"the rows of the write are committed, but not compacted, and {hidden} until they are: run CALL sys.compact or "
        "PaimonTable.compact(), or write again."
    )
