"""Tags that a table makes by itself, after commits or when asked to.

Equals Java's ``TagAutoManager``, ``TagAutoCreation`` and ``TagBatchCreation`` (docs/internals/format.md §9). A tag of a
period is made from the first snapshot after it, and named after it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from paimon_spark.errors import SnapshotNotFoundError
from paimon_spark.maintain.files.needed_files import delete_unused_files
from paimon_spark.maintain.files.one_at_a_time import one_at_a_time
from paimon_spark.maintain.refs.tags import delete_tags, expire_tags, notify_creation, notify_deletion
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID
from paimon_spark.spec.tag import TagPeriod, process_time, tag_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_BATCH_PREFIX = "batch-write-"


def tags_by_period(options: CoreOptions) -> bool:
    """Return whether the options ask for a tag of each period."""
    return options.value("tag.automatic-creation") in ("process-time", "watermark")


def check_automatic_tags(options: CoreOptions) -> None:
    """Check the options of automatic tags. To be called before a commit that makes some.

    Raises:
        OptionError: a zone does not exist, or the delay is not shorter than the period.
    """
    if options.value("tag.automatic-creation") == "none":
        return
    TagPeriod.of(options)
    tag_time(options, 0, 0)
    process_time(options, 0)


def run_automatic_tags(table: FileStoreTable) -> list[str]:
    """Make the tags of the periods that are over, and expire tags; return the names of new tags.

    For tables whose option `tag.automatic-creation` is process-time or watermark; others only let tags expire, which
    the option `tag.time-expire-enabled` can turn off.

    Raises:
        OptionError: an option of automatic tags has a value that cannot be used.
        PaimonError: a tag or snapshot cannot be read or written.
    """
    made = create_due_tags(table)
    if table.options.value("tag.time-expire-enabled"):
        expire_tags(table)
    return made


def create_due_tags(table: FileStoreTable) -> list[str]:
    """Make the tags of the periods that are over, of tables that have such tags; return their names.

    The first snapshot after the end of a period gets its tag.
    """
    if not tags_by_period(table.options):
        return []
    period, latest = TagPeriod.of(table.options), table.snapshots.latest()
    begun = _latest_tag(table, period)
    if latest is None or not _is_due(table.options, period, latest, None if begun is None else period.next(begun[0])):
        return []  # times and watermarks ascend, so no earlier snapshot is due either
    return _create_tags(table, period)


def _latest_tag(table: FileStoreTable, period: TagPeriod) -> tuple[datetime, str] | None:
    """Return the latest period that has its tag, and the tag's name."""
    return max(((time, name) for name in table.tags.names() if (time := period.time(name)) is not None), default=None)


@one_at_a_time("create_tag")
def _create_tags(table: FileStoreTable, period: TagPeriod) -> list[str]:
    options, begun = table.options, _latest_tag(table, period)
    delay, next_tag = options.value("tag.creation-delay"), None if begun is None else period.next(begun[0])
    made: list[str] = []
    since = FIRST_SNAPSHOT_ID if begun is None else table.tags.get(begun[1]).snapshot.id + 1
    for snapshot in _snapshots_from(table, since):
        time = tag_time(options, snapshot.time_millis, snapshot.watermark)
        if time is None or (next_tag is not None and time - delay < period.next(next_tag)):
            continue
        this_tag = period.previous(time)
        if next_tag is not None and options.value("tag.automatic-completion"):
            this_tag = next_tag
        name = period.name(this_tag)
        retained = options.value("tag.default-time-retained")
        if table.tags.create(name, snapshot, time_retained=retained, ignore_if_exists=True):
            notify_creation(table, name)
            made.append(name)
        next_tag = period.next(this_tag)
        _keep_newest(table, period, options.value("tag.num-retained-max"))
    return made


def _is_due(options: CoreOptions, period: TagPeriod, snapshot: Snapshot, next_tag: datetime | None) -> bool:
    time = tag_time(options, snapshot.time_millis, snapshot.watermark)
    if time is None:
        return False
    return next_tag is None or time - options.value("tag.creation-delay") >= period.next(next_tag)


def _snapshots_from(table: FileStoreTable, first: int) -> Iterator[Snapshot]:
    """Yield the living snapshots from one on; those that expire meanwhile are passed over."""
    for snapshot_id in table.snapshots.ids():
        if snapshot_id >= first:
            try:
                yield table.snapshots.get(snapshot_id)
            except SnapshotNotFoundError:
                continue


def _keep_newest(table: FileStoreTable, period: TagPeriod, most: int | None) -> None:
    """Delete the automatic tags of the earliest snapshots beyond `tag.num-retained-max`."""
    if most is None:
        return
    automatic: dict[int, list[str]] = {}
    for name, tag in table.tags.list().items():
        if period.time(name) is not None:
            automatic.setdefault(tag.snapshot.id, []).append(name)
    for snapshot_id in sorted(automatic)[: max(0, len(automatic) - most)]:
        delete_tags(table, automatic[snapshot_id], ignore_if_missing=True)


@one_at_a_time("create_tag")
def create_batch_tag(table: FileStoreTable) -> str | None:
    """Give the latest snapshot the tag of a batch write, in place of an older one of that name; return the name.

    The tag is called ``batch-write-<date>``, or as `tag.batch.customized-name` says. Of all tags of the table, those of
    the earliest snapshots are then deleted beyond `tag.num-retained-max`.

    Raises:
        PaimonError: a tag or snapshot cannot be read or written.
    """
    latest = table.snapshots.latest()
    if latest is None:
        return None
    options = table.options
    name = options.value("tag.batch.customized-name")
    name = name or f"{_BATCH_PREFIX}{process_time(options, latest.time_millis):%Y-%m-%d}"
    # Java: deletes the older tag first; replaced, there is always one of the name
    before = table.tags.get(name).snapshot if table.tags.exists(name) else None
    retained = options.value("tag.default-time-retained")
    if before is None:
        table.tags.create(name, latest, time_retained=retained)
    else:
        table.tags.replace(name, latest, time_retained=retained)
        if before.id != latest.id and not table.snapshots.exists(before.id):
            delete_unused_files(table, [before])
    notify_deletion(table, name)  # Java: deletes the tag and makes it anew
    notify_creation(table, name)
    most = options.value("tag.num-retained-max")
    if most is not None:
        _delete_oldest(table, most)
    return name


def _delete_oldest(table: FileStoreTable, most: int) -> None:
    """Delete tags of the earliest snapshots, of one snapshot the older files first, until ``most`` are left."""
    changed = {entry.name: entry.mtime_millis for entry in table.file_io.list_names(table.paths.tag_dir)}
    names = sorted((tag.snapshot.id, changed.get(f"tag-{name}", 0), name) for name, tag in table.tags.list().items())
    delete_tags(table, [name for _, _, name in names[: max(0, len(names) - most)]], ignore_if_missing=True)
