"""Expiring snapshots and long-lived changelogs: the oldest ones go, with every file that nothing else needs.

Equals Java's ``ExpireSnapshotsImpl``, ``SnapshotDeletion``, ``ExpireChangelogImpl`` and ``ChangelogDeletion``
(docs/internals/format.md §9), with `files.deletion` for what goes. Runs on the driver. It may be killed at
any point and run again. It deletes data files first, then manifests, then manifest lists, then the snapshots from the
oldest on. So the snapshots that are left always name the files that are left. A long-lived changelog stays readable as
a stream after its snapshot has expired.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import refresh_iceberg
from paimon_spark.errors import (
    CorruptTableError,
    ExpiredFileError,
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
    StorageError,
)
from paimon_spark.maintain.files.deletion import UnusedFiles, delete_empty_directories, delete_unless_silent
from paimon_spark.maintain.files.lease import one_at_a_time
from paimon_spark.maintain.files.needed_files import (
    TagsByBranch,
    changelog_ids,
    keep_needed,
    read_changelog,
    tags_by_branch,
)
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.options import OPTIONS, CoreOptions
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import FileChange, RecordedFile
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Retention:
    """How many snapshots, or changelogs, stay and for how long."""

    num_retained_min: int
    num_retained_max: int
    time_retained: timedelta
    max_deletes: int
    """Most that go at once."""

    @classmethod
    def of_snapshots(cls, options: CoreOptions) -> Retention:
        """What the options ``snapshot.*`` say."""
        return cls(
            options.get(OPTIONS["snapshot.num-retained.min"]),
            options.get(OPTIONS["snapshot.num-retained.max"]),
            options.get(OPTIONS["snapshot.time-retained"]),
            options.get(OPTIONS["snapshot.expire.limit"]),
        )

    @classmethod
    def of_changelogs(cls, options: CoreOptions) -> Retention:
        """What the options ``changelog.*`` say; those of snapshots where one is not set."""
        snapshots = cls.of_snapshots(options)
        minimum = options.get(OPTIONS["changelog.num-retained.min"])
        maximum = options.get(OPTIONS["changelog.num-retained.max"])
        retained = options.get(OPTIONS["changelog.time-retained"])
        return cls(
            snapshots.num_retained_min if minimum is None else minimum,
            snapshots.num_retained_max if maximum is None else maximum,
            snapshots.time_retained if retained is None else retained,
            snapshots.max_deletes,
        )

    def with_arguments(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: datetime | None = None,
        max_deletes: int | None = None,
    ) -> Retention:
        """Return this retention with the arguments of a call, where they are given.

        Args:
            retain_max: most that stay.
            retain_min: fewest that stay.
            older_than: only what was committed before this time goes: a local time, or one with its zone.
            max_deletes: most that go at once.
        """
        return Retention(
            self.num_retained_min if retain_min is None else retain_min,
            self.num_retained_max if retain_max is None else retain_max,
            self.time_retained
            if older_than is None
            else timedelta(seconds=datetime.now().timestamp() - older_than.timestamp()),
            self.max_deletes if max_deletes is None else max_deletes,
        )

    def check(self) -> None:
        """Check that the numbers go together.

        Raises:
            OptionError: they do not.
        """
        if self.num_retained_min < 1:
            raise OptionError(f"retainMin ({self.num_retained_min}) must be at least 1: the latest snapshot stays.")
        if self.num_retained_max < self.num_retained_min:
            raise OptionError(
                f"retainMax ({self.num_retained_max}) must not be less than retainMin ({self.num_retained_min}), which "
                "the argument retain_min and the option 'snapshot.num-retained.min' set."
            )

    def older_than_millis(self) -> int:
        """The time before which things are old enough to go, in epoch milliseconds."""
        return time.time_ns() // 1_000_000 - self.time_retained // timedelta(milliseconds=1)


def is_changelog_decoupled(options: CoreOptions) -> bool:
    """Return whether changelogs are to live longer than snapshots."""
    snapshots, changelogs = Retention.of_snapshots(options), Retention.of_changelogs(options)
    return (
        changelogs.num_retained_max > snapshots.num_retained_max
        or changelogs.num_retained_min > snapshots.num_retained_min
        or changelogs.time_retained > snapshots.time_retained
    )


def expire_snapshots(table: FileStoreTable, retention: Retention | None = None) -> int:
    """Expire the oldest snapshots, with the files that nothing else needs; return how many.

    A snapshot whose file could not be deleted does not count; the next expiry continues with it.

    Args:
        table: the branch.
        retention: what stays; as the table's options say when not given.

    Raises:
        OptionError: the numbers of ``retention`` do not go together.
        PaimonError: what some tag, branch or snapshot needs cannot be read, or what there is changes all the time;
            nothing has been deleted.
        StorageError: the store does not answer what deletes; the next expiry continues.
    """
    retention = retention or Retention.of_snapshots(table.options)
    retention.check()
    check_nothing_lost(table)
    ids = table.snapshots.ids()
    if _end(table, ids, retention) > (ids[0] if ids else 0):
        expired = _expire_alone(table, retention)
        refresh_iceberg(table)
        return expired
    if ids and not table.file_io.exists(table.paths.earliest_hint_path):
        table.snapshots.write_earliest_hint(ids[0])
    return 0


def expire_after_commit(table: FileStoreTable, latest_id: int) -> int:
    """As `expire_snapshots` by the table's options; a look tells where too few snapshots live, or none is old."""
    retention = Retention.of_snapshots(table.options)
    retention.check()
    if table.file_io.threads == 1 and _is_none_old(table, latest_id, retention):
        return 0
    return 0 if table.snapshots.few_are_whole(retention.num_retained_min) else expire_snapshots(table, retention)


def _is_none_old(table: FileStoreTable, latest_id: int, retention: Retention) -> bool:
    """Return whether many snapshots live and `_end` would keep the earliest: known on a disk without listing them."""
    earliest = table.snapshots.earliest_by_hint(latest_id - retention.num_retained_min)
    if earliest is None or latest_id - earliest >= retention.num_retained_max:
        return False
    following = table.snapshots.find(earliest + 1)
    return following is not None and following.time_millis >= retention.older_than_millis()


@one_at_a_time("an expiry")
def _expire_alone(table: FileStoreTable, retention: Retention) -> int:
    cause: Exception | None = None
    for _ in range(_ATTEMPTS):
        ids = table.snapshots.ids()
        end_id = _end(table, ids, retention)
        if not ids or end_id <= ids[0]:
            return 0
        try:
            expiry = _plan(table, [snapshot_id for snapshot_id in ids if snapshot_id < end_id], end_id)
        except (CorruptTableError, SnapshotNotFoundError, FileNotFoundError) as error:
            cause = error  # a tag, a branch or a snapshot may have gone while it was read: look again
            continue
        if _is_as_planned(table, expiry):
            return _carry_out(table, expiry)
        cause = SnapshotNotFoundError("tags, branches or snapshots have changed again and again meanwhile.")
    raise PaimonError(
        f"Snapshots of {table.path} are not expired, because it is not known which files something else still needs: "
        f"{cause}"
    ) from cause


def _is_as_planned(table: FileStoreTable, expiry: _Expiry) -> bool:
    """Return whether the plan still holds: no new tag or branch, and no rollback since."""
    if not table.schemas.is_still(table.schema.id):
        raise PaimonError(
            f"Snapshots of {table.path} are not expired: the table was dropped and made again meanwhile. Nothing has "
            f"been deleted; open it anew."
        )
    try:
        return tags_by_branch(table) == expiry.tags_by_branch and bool(expiry.stays.find(table.snapshots))
    except SnapshotNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class _Expiry:
    """What an expiry deletes, in this order."""

    data: dict[str, list[str]]
    manifests: list[str]
    lists: list[str]
    snapshots: list[Snapshot]
    end: int
    stays: SnapshotIdentity
    """The earliest snapshot that stays."""
    keep_changelogs: bool
    tags_by_branch: TagsByBranch
    """The tags and branches that were looked at."""


def _end(table: FileStoreTable, ids: Sequence[int], retention: Retention) -> int:
    """Return the id of the earliest snapshot that stays."""
    if not ids:
        return 0
    earliest, latest = ids[0], ids[-1]
    first = max(latest - retention.num_retained_max + 1, earliest)
    end = min(latest - retention.num_retained_min + 1, earliest + retention.max_deletes)
    options = table.options
    changelog_only = options.get(OPTIONS["consumer.changelog-only"]) and is_changelog_decoupled(options)
    if not changelog_only:
        next_read = ConsumerStore(table.file_io, table.paths).min_next_snapshot()
        end = end if next_read is None else min(end, next_read)
    older_than, living = retention.older_than_millis(), set(ids)
    for snapshot_id in range(first, end):
        # a snapshot expires only if its successor is old enough: so long it has not been the latest
        if snapshot_id + 1 in living:
            try:
                if table.snapshots.get(snapshot_id + 1).time_millis >= older_than:
                    return snapshot_id
            except SnapshotNotFoundError:
                continue
    return end


def _plan(table: FileStoreTable, ids: Sequence[int], end_id: int) -> _Expiry:
    """Plan what is deleted with the snapshots. Nothing is changed."""
    decoupled, seen = is_changelog_decoupled(table.options), tags_by_branch(table)
    serves_as_changelog = decoupled and table.options.get(OPTIONS["changelog-producer"]) == "none"
    end, going = table.snapshots.get(end_id), _existing(table, ids)
    unused = UnusedFiles(table)
    unused.read(listed for snapshot in [*going, end] for listed in (snapshot.base_list, snapshot.delta_list))
    previous = going[0].id if going else end_id
    for snapshot, changes in _changes(table, [*going[1:], end] if going else [], unused):
        if changes is None or snapshot.id != previous + 1:
            # an interrupted expiry has deleted all data files up to here before any metadata
            unused.data.clear()
        if changes is not None:
            unused.add_deleted(changes, compacted_only=serves_as_changelog)
        previous = snapshot.id
    for snapshot in going:
        unused.add_metadata(snapshot, data_lists=not serves_as_changelog, changelog=not decoupled)
        if not decoupled and snapshot.changelog_list is not None:
            unused.add_all(_changelog(table, snapshot.changelog_list))
    keep_needed(unused, begin=ids[0], end=end, gone_changelogs=None if decoupled else ())
    manifests, lists = sorted(unused.manifests), sorted(unused.lists)
    return _Expiry(unused.data_paths(), manifests, lists, going, end_id, SnapshotIdentity.of(end), decoupled, seen)


def _existing(table: FileStoreTable, ids: Sequence[int]) -> list[Snapshot]:
    found = []
    for snapshot_id in ids:
        try:
            found.append(table.snapshots.get(snapshot_id))
        except SnapshotNotFoundError:
            continue  # another expiry was quicker
    return found


def _changes(
    table: FileStoreTable, snapshots: Sequence[Snapshot], unused: UnusedFiles
) -> Iterator[tuple[Snapshot, list[FileChange] | None]]:
    """Yield the changes of commits, None where some of a commit's manifests are gone already.

    Raises:
        CorruptTableError: those of the last commit, which stays, cannot be read.
    """
    if snapshots:
        table.manifests.manifests_of(snapshots[-1].delta_list)
    wanted = [unused.read_lists.get(snapshot.delta_list, []) for snapshot in snapshots]
    changes = table.manifests.files_of(manifest for manifests in wanted for manifest in manifests)
    for snapshot, manifests in zip(snapshots, wanted, strict=True):
        found = [next(changes) for _ in manifests]
        there = [part for part in found if part is not None]
        if len(there) < len(found) and snapshot is snapshots[-1]:
            raise CorruptTableError(f"A manifest of snapshot {snapshot.id} of {table.path} is missing.")
        complete = len(there) == len(found) and snapshot.delta_list in unused.read_lists
        yield snapshot, [change for part in there for change in part] if complete else None


def _changelog(table: FileStoreTable, listed: RecordedFile) -> list[FileChange]:
    """Return the changelog files of a commit; what is gone already is left out.

    Raises:
        CorruptTableError: the list or one of its manifests is there but cannot be read.
    """
    found: list[FileChange] = []
    try:
        for columns in table.manifests.columns_of(table.manifests.manifests_of(listed), statistics=False):
            found += columns.changes()
    except ExpiredFileError:
        return found
    return found


@contextlib.contextmanager
def _going_on(table: FileStoreTable, what: str) -> Iterator[None]:
    """Say of a store that falls silent how the expiry is finished."""
    try:
        yield
    except StorageError as error:
        raise StorageError(
            f"{what} of {table.path} are not all expired: {error}. Expire them again when the store answers: that "
            "goes on where this has stopped"
        ) from error


def _carry_out(table: FileStoreTable, expiry: _Expiry) -> int:
    with _going_on(table, "Snapshots"):
        return _deleted(table, expiry)


def _deleted(table: FileStoreTable, expiry: _Expiry) -> int:
    start, paths = time.monotonic(), table.paths
    files = [path for names in expiry.data.values() for path in names]
    first = expiry.snapshots[0].id if expiry.snapshots else expiry.end
    _LOG.info("%s: snapshots %s to %s expire, with %s data files", table.path, first, expiry.end - 1, len(files))
    delete_unless_silent(table, files)
    if table.options.get(OPTIONS["snapshot.clean-empty-directories"]):
        delete_empty_directories(table.file_io, expiry.data, len(table.schema.partition_keys))
    delete_unless_silent(table, expiry.manifests)
    delete_unless_silent(table, expiry.lists)
    of_path = {paths.snapshot_path(snapshot.id): snapshot for snapshot in expiry.snapshots}
    left = [] if expiry.keep_changelogs else delete_unless_silent(table, list(of_path), in_order=True)
    for path, snapshot in of_path.items() if expiry.keep_changelogs else ():
        write_changelog(table, snapshot)
        left += delete_unless_silent(table, [path])
    table.snapshots.write_earliest_hint(min((of_path[path].id for path in left), default=expiry.end))
    _LOG.info(
        "%s: %s snapshots expired, with at most %s files, in %.1f s",
        table.path,
        len(of_path) - len(left),
        len(files) + len(expiry.manifests) + len(expiry.lists),
        time.monotonic() - start,
    )
    return len(of_path) - len(left)


def write_changelog(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Keep a snapshot that is about to expire as a long-lived changelog."""
    io, paths = table.file_io, table.paths
    io.write_bytes(paths.changelog_path(snapshot.id), snapshot.to_json().encode(), overwrite=True)
    io.write_bytes(f"{paths.changelog_dir}/LATEST", str(snapshot.id).encode("ascii"), overwrite=True)


def retain_latest_only() -> Retention:
    """The retention that keeps one snapshot only."""
    return Retention(1, 1, timedelta(0), 2**31 - 1)


def expire_changelogs(table: FileStoreTable, retention: Retention | None = None) -> int:
    """Expire the oldest long-lived changelogs, with their files; return how many.

    The latest of them stays, as in Java.

    Args:
        table: the branch.
        retention: what stays; as the table's options say when not given.

    Raises:
        OptionError: the numbers of ``retention`` do not go together.
        PaimonError: what something else needs cannot be read; nothing has been deleted.
    """
    retention = retention or Retention.of_changelogs(table.options)
    retention.check()
    ids, latest = changelog_ids(table, table.paths), table.snapshots.latest_id()
    if not ids or latest is None:
        return 0
    first = max(latest - retention.num_retained_max + 1, ids[0])
    end = min(latest - retention.num_retained_min + 1, ids[0] + retention.max_deletes, ids[-1])
    next_read = ConsumerStore(table.file_io, table.paths).min_next_snapshot()
    end = end if next_read is None else min(end, next_read)
    older_than, young = retention.older_than_millis(), end
    for changelog_id in (number for number in ids if first <= number <= end):
        if _long_lived(table, changelog_id).time_millis >= older_than:
            young = changelog_id
            break
    return _expire(table, [number for number in ids if number < min(end, young)])


def expire_all_changelogs(table: FileStoreTable) -> int:
    """Expire all long-lived changelogs, without regard to the options; return how many.

    Raises:
        PaimonError: what something else needs cannot be read; nothing has been deleted.
    """
    done = _expire(table, changelog_ids(table, table.paths))
    for hint in ("EARLIEST", "LATEST"):
        table.file_io.delete_quietly(f"{table.paths.changelog_dir}/{hint}")
    return done


def _long_lived(table: FileStoreTable, changelog_id: int) -> Snapshot:
    try:
        return read_changelog(table, table.paths, changelog_id)
    except FileNotFoundError as error:
        raise PaimonError(
            f"Changelog {changelog_id} of {table.path} is gone: changelogs are expired by someone else as well."
        ) from error


def _expire(table: FileStoreTable, ids: Sequence[int]) -> int:
    check_nothing_lost(table)
    return _expire_changelogs_alone(table, ids) if ids else 0


@one_at_a_time("an expiry")
def _expire_changelogs_alone(table: FileStoreTable, ids: Sequence[int]) -> int:
    earliest = table.snapshots.earliest_id()
    if earliest is None:
        return 0
    going = [_long_lived(table, changelog_id) for changelog_id in ids]
    seen = tags_by_branch(table)
    try:
        end = table.snapshots.get(earliest)
        unused = _unused(table, going, end)
        keep_needed(unused, begin=ids[0], end=end, gone_changelogs=frozenset(ids))
        data = unused.data_paths()
    except (CorruptTableError, SnapshotNotFoundError, FileNotFoundError) as error:
        raise PaimonError(
            f"Changelogs of {table.path} are not expired, because it is not known which files something else still "
            f"needs: {error}"
        ) from error
    if tags_by_branch(table) != seen:
        raise PaimonError(f"Changelogs of {table.path} are not expired: tags or branches have changed meanwhile.")
    with _going_on(table, "Changelogs"):
        delete_unless_silent(table, [path for paths in data.values() for path in paths])
        if table.options.get(OPTIONS["snapshot.clean-empty-directories"]):
            delete_empty_directories(table.file_io, data, len(table.schema.partition_keys))
        delete_unless_silent(table, sorted(unused.manifests))
        delete_unless_silent(table, sorted(unused.lists))
        of_path = {table.paths.changelog_path(changelog_id): changelog_id for changelog_id in ids}
        left = delete_unless_silent(table, list(of_path), in_order=True)
    hint, earliest = f"{table.paths.changelog_dir}/EARLIEST", min((of_path[path] for path in left), default=ids[-1] + 1)
    table.file_io.write_bytes(hint, str(earliest).encode("ascii"), overwrite=True)
    _LOG.info("%s: %s of the changelogs %s to %s expired", table.path, len(ids) - len(left), ids[0], ids[-1])
    return len(ids) - len(left)


def _unused(table: FileStoreTable, going: Sequence[Snapshot], end: Snapshot) -> UnusedFiles:
    """Return the data files of changelogs: changelog files, or files of writes that compactions replaced."""
    unused, own = UnusedFiles(table), UnusedFiles(table)
    for changelog in going:
        if changelog.changelog_list is not None:
            own.add_all(_entries(table, changelog.changelog_list) or ())
            unused.add_list(changelog.changelog_list)
            continue
        changes = _entries(table, changelog.delta_list)
        if changes is None:
            unused.data.clear()  # an interrupted expiry has deleted all data files up to here
        else:
            unused.add_deleted(changes)
        unused.add_list(changelog.delta_list)
        unused.add_list(changelog.base_list)
    if unused.data:
        unused.keep_data(table.manifests.live_columns(end, statistics=False).file_names)
    unused.data.update(own.data)
    return unused


def _entries(table: FileStoreTable, listed: RecordedFile) -> list[FileChange] | None:
    """Return the entries of the manifests of a list; None when one of them is gone already.

    Raises:
        CorruptTableError: one is there but cannot be read.
    """
    manifests = table.manifests
    try:
        found = manifests.columns_of(manifests.manifests_of(listed), statistics=False)
        return [change for columns in found for change in columns.changes()]
    except ExpiredFileError:
        return None
