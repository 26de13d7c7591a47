"""Expiring long-lived changelogs: what stays readable as a stream after its snapshot has expired.

Equals Java's ``ExpireChangelogImpl`` and ``ChangelogDeletion`` (docs/internals/format.md §9), with `unused_files` to
say what is still needed. Runs on the driver; it may be killed at any point and run again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, ExpiredFileError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.expire.snapshots import Retention
from paimon_spark.maintain.files.changelog_files import changelog_ids, read_changelog
from paimon_spark.maintain.files.deletion import delete_empty_directories, delete_files
from paimon_spark.maintain.files.lost_snapshot import check_nothing_lost
from paimon_spark.maintain.files.needed_files import keep_needed, tags_by_branch
from paimon_spark.maintain.files.one_at_a_time import one_at_a_time
from paimon_spark.maintain.files.unused_files import UnusedFiles
from paimon_spark.options import OPTIONS
from paimon_spark.table.consumer_store import ConsumerStore

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import FileChange, RecordedFile
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


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
        if _changelog(table, changelog_id).time_millis >= older_than:
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


def _changelog(table: FileStoreTable, changelog_id: int) -> Snapshot:
    try:
        return read_changelog(table, table.paths, changelog_id)
    except FileNotFoundError as error:
        raise PaimonError(
            f"Changelog {changelog_id} of {table.path} is gone: changelogs are expired by someone else as well."
        ) from error


def _expire(table: FileStoreTable, ids: Sequence[int]) -> int:
    check_nothing_lost(table)
    return _expire_alone(table, ids) if ids else 0


@one_at_a_time("an expiry")
def _expire_alone(table: FileStoreTable, ids: Sequence[int]) -> int:
    earliest = table.snapshots.earliest_id()
    if earliest is None:
        return 0
    going = [_changelog(table, changelog_id) for changelog_id in ids]
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
    delete_files(table, [path for paths in data.values() for path in paths])
    if table.options.get(OPTIONS["snapshot.clean-empty-directories"]):
        delete_empty_directories(table.file_io, data, len(table.schema.partition_keys))
    delete_files(table, sorted(unused.manifests))
    delete_files(table, sorted(unused.lists))
    of_path = {table.paths.changelog_path(changelog_id): changelog_id for changelog_id in ids}
    left = delete_files(table, list(of_path), in_order=True)
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
