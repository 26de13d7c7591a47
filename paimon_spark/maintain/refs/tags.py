"""Tags: made, replaced, renamed, deleted and expired by users, and made by the table itself.

Equals the tag methods of Java's ``AbstractFileStoreTable``, ``TagManager``, ``TagTimeExpire``, ``TagAutoManager``,
``TagAutoCreation`` and ``TagBatchCreation`` (docs/internals/format.md §9, docs/internals/spec/tags-proposal.txt). A tag
of a period is made from the first snapshot after it, and named after it. With option `tag.create-success-file` a file
tells other systems that a tag is there (``SuccessFileTagCallback``): ``tag/tag-success-file/<tag>_SUCCESS`` comes with
a new tag and goes when the tag is deleted or expires; it stays as it is when the tag is replaced, renamed, or gone by a
rollback. The same file says that a partition is whole (``SuccessFile``).
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_spark.commit.iceberg_metadata import refresh_iceberg
from paimon_spark.errors import CorruptTableError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.files.lease import one_at_a_time, others_at_work
from paimon_spark.maintain.files.needed_files import delete_unused_files
from paimon_spark.maintain.files.repairs import check_nothing_lost
from paimon_spark.options import OPTIONS, Stage, refuse
from paimon_spark.spec.file_names import SNAPSHOT_PREFIX
from paimon_spark.spec.json_text import pretty_json
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID
from paimon_spark.spec.tag import TagPeriod, process_time, tag_time
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.time_travel import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_CREATION, _MODIFICATION = "creationTime", "modificationTime"


def renewed_success_file(old: bytes | None, *, path: str) -> bytes:
    """Return a success file of now; one that is there keeps its creation time.

    Raises:
        CorruptTableError: what is there is no success file.
    """
    now = int(time.time() * 1000)
    created = now
    if old is not None:
        try:
            created = int(json.loads(old)[_CREATION])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptTableError(f"The success file {path} cannot be read.", path=path) from error
    return pretty_json({_CREATION: created, _MODIFICATION: now}).encode()


def success_file_path(table: FileStoreTable, tag: str) -> str:
    """Return where the success file of a tag is.

    Raises:
        PaimonError: the name cannot be part of a file name.
    """
    name = table.paths.tag_path(tag).rpartition("/")[2].removeprefix("tag-")
    return f"{table.paths.tag_dir}/tag-success-file/{name}_SUCCESS"


def notify_creation(table: FileStoreTable, tag: str) -> None:
    """Write the success file of a new tag, where the table's option asks for it; one that is there keeps its age.

    Readers of Iceberg are informed of the tag too.

    Raises:
        CorruptTableError: the existing file is not a success file.
    """
    refresh_iceberg(table)
    if not table.options.value("tag.create-success-file"):
        return
    path = success_file_path(table, tag)
    old = table.file_io.read_bytes(path) if table.file_io.exists(path) else None
    table.file_io.write_bytes(path, renewed_success_file(old, path=path), overwrite=True)


def notify_deletion(table: FileStoreTable, tag: str) -> None:
    """Delete the success file of a tag that is gone, where the table's option asks for such files; tell of it."""
    refresh_iceberg(table)
    if table.options.value("tag.create-success-file"):
        table.file_io.delete_quietly(success_file_path(table, tag))


_NO_WATERMARK = -(2**63)
_DEFAULT_RETAINED = OPTIONS["tag.default-time-retained"]


def create_tag(
    table: FileStoreTable,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained: timedelta | None = None,
    ignore_if_exists: bool = False,
) -> bool:
    """Give a snapshot a name; return whether a tag was written.

    A tag is written first, then others are looked for (`one_at_a_time`): who is not at work yet will see it.

    Args:
        table: the branch.
        name: of the tag.
        snapshot_id: the snapshot, a tag of it if it has expired; the latest one when not given.
        time_retained: how long the tag lives; for ever when not given, whatever `tag.default-time-retained` says
            (see `default_time_retained`), as with Java's ``CALL sys.create_tag``.
        ignore_if_exists: leave a tag of that name as it is instead of failing.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or none at all.
        PaimonError: there is such a tag, or its name is not allowed.
        UnsupportedError: an option asks for more than the tag.
    """
    refuse(table.options, Stage.TAG)
    snapshot = snapshot_to_tag(table, snapshot_id, "create")
    if _makes_tags(table) and not table.tags.exists(name):
        _check_not_tagged(table, name, snapshot)
    made = table.tags.create(name, snapshot, time_retained=time_retained, ignore_if_exists=ignore_if_exists)
    if made:
        _check_still_held(table, name, snapshot)
        notify_creation(table, name)
    return made


def _check_still_held(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    """Delete a new tag if its snapshot expired, perhaps with its files, or was rolled back before the tag was written.

    Raises:
        SnapshotNotFoundError: it has, and no other tag holds it.
        TableBusyError: another process is at work and does not end in time.
    """
    listed = {entry.name for entry in table.file_io.list_names(table.paths.snapshot_dir)}
    if not others_at_work(table, listed) and f"{SNAPSHOT_PREFIX}{snapshot.id}" in listed:
        return
    try:
        held = _is_held(table, name, snapshot)
    except BaseException:
        table.file_io.delete_quietly(table.paths.tag_path(name))
        raise
    if not held:
        table.file_io.delete_quietly(table.paths.tag_path(name))
        raise SnapshotNotFoundError(f"Cannot create tag '{name}': snapshot #{snapshot.id} has expired meanwhile.")


@one_at_a_time("create_tag")
def _is_held(table: FileStoreTable, name: str, snapshot: Snapshot) -> bool:
    """Whether the tag's snapshot, or another tag of it, is there, after all others have ended."""
    found = table.snapshots.find(snapshot.id)
    others = (tag.snapshot for other, tag in table.tags.list().items() if other != name)
    living = itertools.chain((found,) if found else (), others)
    return any(SnapshotIdentity.of(one) == SnapshotIdentity.of(snapshot) for one in living)


def default_time_retained(table: FileStoreTable) -> timedelta | None:
    """How long the table's option `tag.default-time-retained` lets new tags live; None without it."""
    retained: timedelta | None = table.options.get(_DEFAULT_RETAINED)
    return retained


@one_at_a_time("replace_tag")
def replace_tag(
    table: FileStoreTable, name: str, *, snapshot_id: int | None = None, time_retained: timedelta | None = None
) -> None:
    """Point an existing tag to another snapshot (the latest if none is given), with a new time to live.

    Raises:
        SnapshotNotFoundError: there is no such tag, or no such snapshot.
    """
    table.tags.get(name)
    snapshot = snapshot_to_tag(table, snapshot_id, "replace")
    _check_not_tagged(table, name, snapshot)
    table.tags.replace(name, snapshot, time_retained=time_retained)
    refresh_iceberg(table)


def _makes_tags(table: FileStoreTable) -> bool:
    """Whether the table gets a tag by each period."""
    return table.options.value("tag.automatic-creation") in ("process-time", "watermark")


def _check_not_tagged(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    """Refuse a second tag of a snapshot that is named like an automatic one, in a table that makes some."""
    if not _makes_tags(table):
        return
    period = TagPeriod.of(table.options)
    if period.time(name) is None:
        return
    automatic = [
        other
        for other, tag in table.tags.list().items()
        if tag.snapshot.id == snapshot.id and period.time(other) is not None
    ]
    if automatic:
        raise PaimonError(f"Snapshot {snapshot.id} is already auto-tagged with [{', '.join(automatic)}].")


@one_at_a_time("rename_tag")
def rename_tag(table: FileStoreTable, name: str, new_name: str) -> None:
    """Rename a tag.

    Raises:
        SnapshotNotFoundError: there is no tag ``name``.
        PaimonError: there is a tag ``new_name``, or its name is not allowed.
    """
    table.tags.rename(name, new_name)
    refresh_iceberg(table)


def delete_tag(table: FileStoreTable, name: str, *, ignore_if_missing: bool = False) -> None:
    """Delete a tag and, when its snapshot has expired, the files that nothing else needs.

    Raises:
        SnapshotNotFoundError: there is no such tag, and that is not ignored.
    """
    delete_tags(table, [name], ignore_if_missing=ignore_if_missing)


@one_at_a_time("delete_tag")
def delete_tags(table: FileStoreTable, names: str | Sequence[str], *, ignore_if_missing: bool = False) -> None:
    """Delete tags and, when their snapshots have expired, the files that nothing else needs.

    A copy of the tag of an expired snapshot is kept aside while its files are deleted. If the process is interrupted, a
    later call, for any tag, finishes the work.

    Args:
        table: the branch.
        names: of the tags; text is one name or, unless there is a tag of this name, several between commas.
        ignore_if_missing: pass over tags that do not exist.

    Raises:
        SnapshotNotFoundError: one of them does not exist, and that is not ignored; none has been deleted then.
        PaimonError: the file of one could not be deleted; it stays with all that it holds, the others have gone.
    """
    check_nothing_lost(table)
    if not isinstance(names, str):
        chosen = list(names)
    elif "," not in names or table.tags.exists(names):
        chosen = [names]
    else:
        chosen = [name.strip() for name in names.split(",")]
    aside = table.tags.deletions_begun()
    may_be_missing = set(chosen) if ignore_if_missing else set(aside)
    there = [name for name in chosen if name not in may_be_missing or table.tags.exists(name)]
    held = {name: table.tags.get(name).snapshot for name in there}
    expired = {name: snapshot for name, snapshot in held.items() if not table.snapshots.exists(snapshot.id)}
    for name in expired:
        table.tags.begin_deletion(name)
    kept = [name for name in there if not table.file_io.delete_quietly(table.paths.tag_path(name))]
    for name in kept:
        expired.pop(name, None)
    for name in there:
        if name not in kept:
            notify_deletion(table, name)
    if expired or aside:
        delete_unused_files(table, list(expired.values()), half_deleted=list(aside.values()))
    for name in {**aside, **expired, **dict.fromkeys(kept)}:
        table.tags.end_deletion(name)
    if kept:
        table.file_io.check_deletes(table.paths.tag_path(kept[0]))
        raise PaimonError(
            f"Tag '{kept[0]}' could not be deleted ({len(kept)} of {len(there)}): the file "
            f"{table.paths.tag_path(kept[0])} is still there. See that its directory can be written, then try again."
        )


def create_tag_from_timestamp(
    table: FileStoreTable, name: str, time_millis: int, *, time_retained: timedelta | None = None
) -> Snapshot:
    """Give a name to the first snapshot, or tagged snapshot, that was committed at or after a time; return it.

    Raises:
        SnapshotNotFoundError: nothing is that young.
        PaimonError: there is such a tag, or its name is not allowed.
    """
    get = table.snapshots.get
    living = (get(snapshot_id) for snapshot_id in table.snapshots.ids())
    found = [next((snapshot for snapshot in living if snapshot.time_millis >= time_millis), None)]
    found += [tag.snapshot for tag in table.tags.list().values() if tag.snapshot.time_millis >= time_millis]
    candidates = [snapshot for snapshot in found if snapshot is not None]
    if not candidates:
        asked = time_text(time_millis)
        raise SnapshotNotFoundError(f"Could not find any snapshot whose commit-time is later than {asked}.")
    snapshot = min(candidates, key=lambda candidate: (candidate.time_millis, candidate.id))
    create_tag(table, name, snapshot_id=snapshot.id, time_retained=time_retained)
    return snapshot


def create_tag_from_watermark(
    table: FileStoreTable, name: str, watermark: int, *, time_retained: timedelta | None = None
) -> Snapshot:
    """Give a name to the first snapshot, or tagged snapshot, whose watermark is as late or later; return it.

    Raises:
        SnapshotNotFoundError: no watermark is that late.
        PaimonError: there is such a tag, or its name is not allowed.
    """
    living = (table.snapshots.get(snapshot_id) for snapshot_id in table.snapshots.ids())
    found = next((snapshot for snapshot in living if _reaches(snapshot, watermark)), None)
    tagged = [tag.snapshot for tag in table.tags.list().values() if _reaches(tag.snapshot, watermark)]
    candidates = [snapshot for snapshot in (found, *tagged) if snapshot is not None]
    if not candidates:
        raise SnapshotNotFoundError(f"Could not find any snapshot whose watermark is later than {watermark}.")
    snapshot = min(candidates, key=lambda candidate: (candidate.watermark, candidate.id))
    create_tag(table, name, snapshot_id=snapshot.id, time_retained=time_retained)
    return snapshot


def _reaches(snapshot: Snapshot, watermark: int) -> bool:
    return snapshot.watermark is not None and snapshot.watermark != _NO_WATERMARK and snapshot.watermark >= watermark


def expire_tags(table: FileStoreTable, *, older_than: datetime | None = None) -> list[str]:
    """Delete the tags whose time is over; return their names.

    Args:
        table: the branch.
        older_than: delete the tags made before this local time as well, those without a time to live by the age of
            their files.
    """
    now, expired = datetime.now(), []
    files = table.tags.files()
    for name, tag in table.tags.list(files).items():
        created = tag.create_time
        over = created is not None and tag.time_retained is not None and _is_over(created, tag.time_retained, now)
        if created is None or tag.time_retained is None:
            changed = files[name].mtime_millis
            created = datetime.fromtimestamp(changed / 1000) if changed else None
        if over or (older_than is not None and created is not None and created < older_than):
            expired.append(name)
    if expired:
        delete_tags(table, expired, ignore_if_missing=True)
    return expired


def _is_over(created: datetime, retained: timedelta, now: datetime) -> bool:
    try:
        return created + retained < now
    except OverflowError:
        return False


def snapshot_to_tag(table: FileStoreTable, snapshot_id: int | None, verb: str) -> Snapshot:
    """Return a snapshot, or what a tag holds of it if it has expired; the latest one when none is given.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or none at all.
    """
    if snapshot_id is None:
        latest = table.snapshots.latest()
        if latest is None:
            raise SnapshotNotFoundError(
                f"Cannot {verb} tag because latest snapshot doesn't exist: there is nothing to tag, {table.path} has "
                "no snapshot yet. Write rows first"
            )
        return latest
    if table.snapshots.exists(snapshot_id):
        return table.snapshots.get(snapshot_id)
    for tag in table.tags.list().values():
        if tag.snapshot.id == snapshot_id:
            return tag.snapshot
    ids = table.snapshots.ids()
    living = f"the snapshots are {ids[0]} to {ids[-1]}" if ids else "the table has no snapshot"
    raise SnapshotNotFoundError(f"Cannot {verb} tag because given snapshot #{snapshot_id} doesn't exist: {living}.")


def moment(older_than: datetime | str | None) -> datetime | None:
    """Return the argument `older_than` of a method as a time.

    Raises:
        PaimonError: it is another thing, or a text that is no time.
    """
    if older_than is None or isinstance(older_than, datetime):
        return older_than
    if not isinstance(older_than, str):
        raise PaimonError(f"older_than is a datetime, or a text like '2024-01-31 10:20:30', and not {older_than!r}.")
    return parse_older_than(older_than)


def parse_older_than(text: str) -> datetime:
    """Return the local time of ``2024-01-31`` or ``2024-01-31 10:20:30[.123]``; an offset (``+02:00``) counts.

    Raises:
        PaimonError: the text is no time.
    """
    try:
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo is None else found.astimezone().replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise PaimonError(f"older_than '{text}' is no time like '2024-01-31 10:20:30'.") from error


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
