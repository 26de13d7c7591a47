"""Which snapshot a batch read sees: every `scan.*` option that travels in time.

Equals Java's ``TimeTravelUtil``, ``CoreOptions.startupMode``, ``SchemaValidation.validateStartupMode`` and the
``Static…StartingScanner`` classes. A time before every living snapshot falls back to the closest older tag
(docs/internals/spec/tags-proposal.txt), which Java does not do.
"""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, SnapshotNotFoundError
from paimon_spark.options.core_options import AT_SNAPSHOT
from paimon_spark.spec.option_validation import startup_mode
from paimon_spark.spec.snapshot import CommitKind, Snapshot

if TYPE_CHECKING:
    from datetime import tzinfo

    from paimon_spark.table.snapshot_store import SnapshotStore
    from paimon_spark.table.table import FileStoreTable

SNAPSHOT_ID = "scan.snapshot-id"
TAG_NAME = "scan.tag-name"
VERSION = "scan.version"
TIMESTAMP = "scan.timestamp"
TIMESTAMP_MILLIS = "scan.timestamp-millis"
WATERMARK = "scan.watermark"
MODE = "scan.mode"

TRAVEL_KEYS = (SNAPSHOT_ID, TAG_NAME, VERSION, TIMESTAMP, TIMESTAMP_MILLIS, WATERMARK)
"""The options that name a point of time; at most one may be set."""

INCREMENTAL_KEYS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
"""The options that ask for the changes between two points of time instead of the state at one."""

BY_FILE_TIME, BY_CREATION = "from-file-creation-time", "from-creation-timestamp"
CREATED_AFTER = {BY_CREATION: "scan.creation-time-millis", BY_FILE_TIME: "scan.file-creation-time-millis"}
"""Modes that read only files that are younger than the option says."""

_LOG = logging.getLogger(__name__)
_CLOCKS_DIFFER_MILLIS = 60_000
_WATERMARK_PREFIX = "watermark-"
_NO_WATERMARK = -(2**63)
_BATCH_IDENTIFIER = 2**63 - 1
_MODES_AT_LATEST = frozenset({"latest-full", "full", "latest"})
_KEYS_OF_MODE: Mapping[str, tuple[str, ...]] = {
    "from-timestamp": (TIMESTAMP, TIMESTAMP_MILLIS),
    "from-snapshot": (SNAPSHOT_ID, TAG_NAME, WATERMARK, VERSION),
    "from-snapshot-full": (SNAPSHOT_ID,),
    **{mode: (key,) for mode, key in CREATED_AFTER.items()},
}
_OF_CHANGES = ("incremental", "latest-delta")


def has_time_travel(options: Mapping[str, str]) -> bool:
    """Return whether the options name a point of time."""
    return any(key in options for key in TRAVEL_KEYS)


def check_scan_options(options: Mapping[str, str]) -> str:
    """Check that the `scan.*` options fit together; return the scan mode in effect.

    Raises:
        OptionError: two of them contradict each other, one misses what it needs, or there is no such mode.
    """
    mode = options.get(MODE, "default").strip().lower()
    given = [key for key in (*TRAVEL_KEYS, *CREATED_AFTER.values()) if key in options]
    changes = next((key for key in INCREMENTAL_KEYS if key in options), None)
    if mode in _OF_CHANGES or changes:
        asked = f"{MODE} = {mode}" if changes is None else changes
        raise OptionError(
            f"Option '{asked}' reads changes, but here the table is wanted as it is at one point of time."
        )
    if len(given) > 1:
        known = ", ".join((*TRAVEL_KEYS, *CREATED_AFTER.values()))
        raise OptionError(
            f"Only one of the following parameters may be set : [{known}]; this read sets {' and '.join(given)}."
        )
    if mode == "default":
        return "latest-full" if not given else next(m for m, keys in _KEYS_OF_MODE.items() if given[0] in keys)
    if mode in _KEYS_OF_MODE:
        if not given or given[0] not in _KEYS_OF_MODE[mode]:
            keys = ", ".join(_KEYS_OF_MODE[mode])
            raise OptionError(f"must set only one key in [{keys}] when you use {mode} for {MODE}")
    elif mode in _MODES_AT_LATEST or mode == "compacted-full":
        if given:
            raise OptionError(f"{given[0]} must be null when you use {mode} for {MODE}")
    else:
        known = ", ".join(["default", *sorted(_MODES_AT_LATEST), "compacted-full", *_KEYS_OF_MODE])
        raise OptionError(f"Option '{MODE}' cannot be '{mode}': it is one of {known}.")
    return mode


def resolve_snapshot(
    table: FileStoreTable, options: Mapping[str, str] | None = None, *, zone: tzinfo | None = None
) -> Snapshot | None:
    """Return the snapshot that a batch read with ``options`` sees; None when nothing was committed yet.

    Args:
        table: where to look.
        options: the table's own options when not given.
        zone: time zone of `scan.timestamp`; the process's local one when not given.

    Raises:
        OptionError: scan options contradict each other or hold no number or time.
        SnapshotNotFoundError: there is no such snapshot or tag; the message names what exists.
    """
    chosen = table.options if options is None else options
    mode = check_scan_options(chosen)
    if SNAPSHOT_ID in chosen:
        return table.snapshots.get(option_number(chosen, SNAPSHOT_ID))
    if TAG_NAME in chosen:
        return table.tags.get(chosen[TAG_NAME]).snapshot
    if WATERMARK in chosen:
        return snapshot_at_watermark(table, option_number(chosen, WATERMARK))
    if (time_millis := named_time(chosen, zone)) is not None:
        return snapshot_at_time(table, time_millis)
    if VERSION in chosen:
        return _at_version(table, chosen[VERSION])
    if mode == "compacted-full":
        return latest_compacted(table, chosen)
    if AT_SNAPSHOT in chosen:
        return table.snapshots.get(option_number(chosen, AT_SNAPSHOT))
    return (_created_at(table, chosen) if mode == BY_CREATION else None) or table.snapshots.latest()


def travel(table: FileStoreTable, *, zone: tzinfo | None = None) -> tuple[FileStoreTable, Snapshot | None]:
    """Return the table as its scan options ask for it, and the snapshot to read.

    With a point of time given, the fields are those of the snapshot's schema; otherwise those of the latest schema.
    The options are the latest ones in both cases, about columns by their names in these fields (`options_at`).
    """
    snapshot = resolve_snapshot(table, zone=zone)
    if snapshot is not None and has_time_travel(table.options):
        return table.at_snapshot(snapshot), snapshot
    return table, snapshot


def named_time(options: Mapping[str, str], zone: tzinfo | None) -> int | None:
    """The time (epoch milliseconds) as of which options read; None where they name none.

    Raises:
        OptionError: an option holds no time.
    """
    if TIMESTAMP_MILLIS in options:
        return option_number(options, TIMESTAMP_MILLIS)
    return parse_timestamp_millis(options[TIMESTAMP], zone=zone) if TIMESTAMP in options else None


def is_in_future(time_millis: int) -> bool:
    """Whether a time (epoch milliseconds) is later than clocks differ."""
    return time_millis > time.time() * 1000 + _CLOCKS_DIFFER_MILLIS


def files_since(table: FileStoreTable) -> int | None:
    """The time (epoch milliseconds) from which on files must be made to be read, as the options say; None for all.

    `scan.creation-time-millis` says it only where it leads to no snapshot.
    """
    mode = startup_mode(table.options)
    if mode not in CREATED_AFTER or (mode == BY_CREATION and _created_at(table, table.options) is not None):
        return None
    return option_number(table.options, CREATED_AFTER[mode])


def _created_at(table: FileStoreTable, options: Mapping[str, str]) -> Snapshot | None:
    """The snapshot behind the last one that is older than `scan.creation-time-millis`; None where there is not both."""
    ids = table.snapshots.ids()
    earlier = count_until(table.snapshots, ids, option_number(options, CREATED_AFTER[BY_CREATION]) - 1) if ids else 0
    return table.snapshots.get(ids[earlier]) if 0 < earlier < len(ids) else None


def snapshot_at_time(table: FileStoreTable, time_millis: int) -> Snapshot:
    """Return the latest snapshot committed at or before ``time_millis``, else the closest older tag.

    Raises:
        SnapshotNotFoundError: neither a snapshot nor a tag is that old.
    """
    ids = table.snapshots.ids()
    found = count_until(table.snapshots, ids, time_millis)
    if found and is_in_future(time_millis):
        _LOG.warning(
            "The time %s to read %s as of is in the future: its newest snapshot, %d, is read, and later reads may give "
            "other rows. Name a snapshot or a tag to stay on one.",
            time_text(time_millis),
            table.path,
            ids[found - 1],
        )
    if found:
        return table.snapshots.get(ids[found - 1])
    tagged = [tag.snapshot for tag in table.tags.list().values() if tag.snapshot.time_millis <= time_millis]
    if tagged:
        return max(tagged, key=lambda snapshot: (snapshot.time_millis, snapshot.id))
    earliest = time_text(table.snapshots.get(ids[0]).time_millis) if ids else "null"
    raise SnapshotNotFoundError(
        f"There is currently no snapshot earlier than or equal to timestamp [{time_text(time_millis)}], "
        f"the earliest snapshot's timestamp is [{earliest}], and no tag is older."
    )


def time_text(millis: int) -> str:
    """A time in messages, in this process's zone, which it names: ``2024-05-01 10:30:00.000+02:00``.

    Times that Python's calendar does not have stay milliseconds.
    """
    try:
        time = datetime.fromtimestamp(millis // 1000).astimezone().replace(microsecond=millis % 1000 * 1000)
    except (ValueError, OverflowError, OSError):
        return str(millis)
    return time.isoformat(sep=" ", timespec="milliseconds")


def snapshot_at_watermark(table: FileStoreTable, watermark: int) -> Snapshot:
    """Return the first snapshot whose watermark is ``watermark`` or later.

    Raises:
        SnapshotNotFoundError: no snapshot is that far.
    """
    best: int | None = None
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        if snapshot.watermark is None or snapshot.watermark == _NO_WATERMARK:
            continue
        if snapshot.watermark >= watermark:
            return snapshot
        best = snapshot.watermark
    reached = "no snapshot has a watermark" if best is None else f"the latest watermark is [{best}]"
    raise SnapshotNotFoundError(
        f"There is currently no snapshot later than or equal to watermark[{watermark}]: {reached}."
    )


def parse_timestamp_millis(text: str, *, zone: tzinfo | None = None, key: str = TIMESTAMP) -> int:
    """Return the epoch milliseconds of ``2024-01-31``, ``2024-01-31 10:20:30[.123]`` or the same with ``T``.

    Args:
        text: the time; a zone in it (``+01:00``, ``Z``) counts.
        zone: zone of a time without one; the process's local one when not given.
        key: of the option, for messages.

    Raises:
        OptionError: the text is no time.
    """
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise OptionError(f"Option '{key}' cannot be '{text}': it is a time like '2024-01-31 10:20:30.123'.") from error
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone) if zone is not None else parsed.astimezone()
    return int(parsed.timestamp() // 1 * 1000) + parsed.microsecond // 1000


def _at_version(table: FileStoreTable, version: str) -> Snapshot:
    """Resolve `scan.version`: a tag first, then `watermark-N`, then a snapshot id."""
    if table.tags.exists(version):
        return table.tags.get(version).snapshot
    if version.startswith(_WATERMARK_PREFIX) and version[len(_WATERMARK_PREFIX) :].isdigit():
        return snapshot_at_watermark(table, int(version[len(_WATERMARK_PREFIX) :]))
    if version.isascii() and version.isdigit():
        return table.snapshots.get(int(version))
    return table.tags.get(version).snapshot  # raises and names the tags that exist


def latest_compacted(table: FileStoreTable, options: Mapping[str, str]) -> Snapshot | None:
    """Return the latest snapshot of a (full) compaction, the latest of all without one."""
    delta_commits = options.get("full-compaction.delta-commits")
    full_only = delta_commits is not None or options.get("changelog-producer") == "full-compaction"
    every = int(delta_commits) if delta_commits else 1
    for snapshot in table.snapshots.newest_first():
        identifier = snapshot.commit_identifier
        if snapshot.commit_kind == CommitKind.COMPACT and (
            not full_only or identifier % every == 0 or identifier == _BATCH_IDENTIFIER
        ):
            return snapshot
    return table.snapshots.latest()


def option_number(options: Mapping[str, str], key: str) -> int:
    """The number that an option holds.

    Raises:
        OptionError: it holds none.
    """
    try:
        return int(options[key].strip())
    except ValueError as error:
        raise OptionError(f"Option '{key}' cannot be '{options[key]}': it is a number.") from error


_SKEW_MILLIS = 1000
"""Synchronised clocks differ by less."""

_JUST_NOW_MILLIS = 60_000


def next_commit_millis(latest: Snapshot | None) -> int:
    """Return the time of a snapshot that is made now: not before that of its predecessor."""
    return max(time.time_ns() // 1_000_000, latest.time_millis if latest else 0)


def count_until(snapshots: SnapshotStore, ids: Sequence[int], time_millis: int) -> int:
    """Return how many of the snapshots were committed at or before a time.

    A snapshot with a time in the future was made with a wrong clock: only its order is known. A read of "now" sees it.

    Args:
        snapshots: gives them.
        ids: ascending.
        time_millis: epoch milliseconds.
    """

    def millis(snapshot_id: int) -> int:
        return snapshots.get(snapshot_id).time_millis

    if not ids or millis(ids[-1]) <= time_millis:
        return len(ids)
    now = time.time_ns() // 1_000_000 + _SKEW_MILLIS
    if time_millis <= now < millis(ids[-1]):
        past = bisect.bisect_right(ids, now, key=millis)
        if time_millis >= (millis(ids[past - 1]) if past else now - _JUST_NOW_MILLIS):
            return len(ids)
    return bisect.bisect_right(ids, time_millis, key=millis)
