"""Which changes an incremental read sees: the `incremental-*` options, resolved to snapshots.

Equals Java's ``AbstractDataTableScan.createIncrementalStartingScanner``, ``IncrementalDeltaStartingScanner``,
``IncrementalDiffStartingScanner`` and ``SchemaValidation.validateStartupMode``. Runs on the driver. A range that begins
in expired snapshots is read where long-lived changelogs cover it, which Java's batch reads do not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, SnapshotNotFoundError
from paimon_spark.spec.file_names import CHANGELOG_PREFIX, numbered_name_id
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from paimon_spark.spec.tag import TagPeriod
from paimon_spark.table.time_travel import (
    INCREMENTAL_KEYS,
    MODE,
    TRAVEL_KEYS,
    count_until,
    parse_timestamp_millis,
    time_text,
)

if TYPE_CHECKING:
    from datetime import tzinfo

    from paimon_spark.table.table import FileStoreTable

BETWEEN, BETWEEN_TIMESTAMP, TO_AUTO_TAG = INCREMENTAL_KEYS

_SCAN_MODE = "incremental-between-scan-mode"
_TAG_TO_SNAPSHOT = "incremental-between-tag-to-snapshot"

CHANGE_KEYS = (*INCREMENTAL_KEYS, MODE, _SCAN_MODE, _TAG_TO_SNAPSHOT)
"""The options that say which changes are read."""


class ChangeSource(Enum):
    """Where changes are taken from."""

    DELTA = "delta"
    """Files that APPEND commits added: rows as they were written."""
    CHANGELOG = "changelog"
    """Changelog files of all commits but OVERWRITE."""
    DIFF = "diff"
    """The states at both ends, compared."""


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The changes after one point of time up to another. Plain values."""

    source: ChangeSource
    start_id: int = 0
    """The snapshot whose changes are the last not to be read (delta, changelog)."""
    end_id: int = 0
    """The snapshot whose changes are the last to be read (delta, changelog)."""
    before: Snapshot | None = None
    """The earlier state (diff); None is an empty table."""
    after: Snapshot | None = None
    """The later state (diff); None without `before`: there is nothing to read."""

    def describe(self) -> str:
        """Both ends, for EXPLAIN."""
        if self.source is not ChangeSource.DIFF:
            return f"{self.source.value} of snapshots {self.start_id + 1} to {self.end_id}"
        ends = ["none" if snapshot is None else str(snapshot.id) for snapshot in (self.before, self.after)]
        return f"diff of snapshots {ends[0]} and {ends[1]}"


NO_CHANGES = ChangeRange(ChangeSource.DELTA)
"""A range without snapshots."""


def asks_for_changes(options: Mapping[str, str]) -> bool:
    """Return whether a read with these options is incremental."""
    mode = options.get(MODE, "default").strip().lower()
    return mode in ("incremental", "latest-delta") or any(key in options for key in INCREMENTAL_KEYS)


def resolve_changes(table: FileStoreTable, *, zone: tzinfo | None = None) -> ChangeRange:
    """Return what an incremental read with the table's options looks at.

    Args:
        table: with its dynamic options.
        zone: time zone of times in texts; the process's local one when not given.

    Raises:
        OptionError: options contradict each other, or hold no two points in the right order.
        SnapshotNotFoundError: there is no such snapshot or tag; the message names what exists.
    """
    options = table.options
    key = _checked_key(options)
    if key is None:
        latest = table.snapshots.latest_id()
        return NO_CHANGES if latest is None else _between_ids(table, latest - 1, latest, ChangeSource.DELTA)
    if key == TO_AUTO_TAG:
        return _to_auto_tag(table, options[key].strip())
    first, second = _two(key, options[key])
    if key == BETWEEN_TIMESTAMP:
        return _between_times(table, _millis(first, options[key], zone), _millis(second, options[key], zone))
    if table.tags.exists(first) and table.tags.exists(second):
        return _between_tags(table, first, second)
    try:
        start, end = int(first), int(second)
    except ValueError:
        names = ", ".join(table.tags.names()) or "none"
        raise SnapshotNotFoundError(
            f"Didn't find two tags for start '{first}' and end '{second}', and they are not two snapshot Ids. "
            f"Please set two tags or two snapshot Ids. The tags are: {names}."
        ) from None
    if end < start:
        raise OptionError(f"Ending snapshotId {end} should be >= starting snapshotId {start}.")
    if start == end or table.snapshots.earliest_id() is None:
        return NO_CHANGES
    return _between_ids(table, start, end, _source(table))


def snapshots_of(table: FileStoreTable, changes: ChangeRange) -> list[Snapshot]:
    """Return the snapshots of a delta or changelog range in order, expired ones from their long-lived changelogs.

    Raises:
        SnapshotNotFoundError: one of them is gone.
    """
    return [snapshot_or_changelog(table, number) for number in range(changes.start_id + 1, changes.end_id + 1)]


def _checked_key(options: Mapping[str, str]) -> str | None:
    """Return the one option that says what to read; None for the latest commit (scan.mode latest-delta)."""
    mode = options.get(MODE, "default").strip().lower()
    given = [key for key in INCREMENTAL_KEYS if key in options]
    points = [key for key in TRAVEL_KEYS if key in options]
    if mode == "latest-delta":
        if given or points:
            raise OptionError(f"{(given or points)[0]} must be null when you use {mode} for {MODE}")
        return None
    if mode not in ("default", "incremental"):
        raise OptionError(f"{given[0]} must be null when you use {mode} for {MODE}")
    if len(given) != 1:
        raise OptionError(
            f"must set only one key in [{', '.join(INCREMENTAL_KEYS)}] when you use incremental for {MODE}"
            + (f"; this read sets {' and '.join(given)}" if given else "")
        )
    if points:
        raise OptionError(f"{points[0]} must be null when you set {given[0]}: changes are read between two points")
    return given[0]


def _two(key: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        example = "5,10" if key == BETWEEN else "2024-01-01 00:00:00,2024-01-02 00:00:00"
        what = "snapshot" if key == BETWEEN else "timestamp"
        raise OptionError(
            f"The {key} must specify start(exclusive) and end {what}, for example '{key}'='{example}'. But is: {text}"
        )
    return parts[0], parts[1]


def _millis(part: str, text: str, zone: tzinfo | None) -> int:
    try:
        return int(part)
    except ValueError:
        pass
    try:
        return parse_timestamp_millis(part, zone=zone)
    except OptionError as error:
        raise OptionError(
            f"The {BETWEEN_TIMESTAMP} must specify start(exclusive) and end timestamp, in milliseconds or like "
            f"'2024-01-31 10:20:30.123'. But is: {text}"
        ) from error


def _source(table: FileStoreTable) -> ChangeSource:
    mode = table.options.value(_SCAN_MODE)
    if mode == "auto":
        mode = "delta" if table.options.value("changelog-producer") == "none" else "changelog"
    return ChangeSource(mode)


def _between_ids(table: FileStoreTable, start: int, end: int, source: ChangeSource) -> ChangeRange:
    if source is ChangeSource.DIFF:
        return ChangeRange(source, before=table.snapshots.get(start), after=table.snapshots.get(end))
    earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    assert earliest is not None
    assert latest is not None
    kept = ChangeSource.DELTA if table.options.value("changelog-producer") == "none" else ChangeSource.CHANGELOG
    if start < earliest - 1 and source is kept:  # what a long-lived changelog keeps
        earliest = _earliest_changelog(table, earliest)
    if start < earliest - 1 or end > latest:
        raise SnapshotNotFoundError(
            f"The specified scan snapshotId range [{start}, {end}] is out of available snapshotId range "
            f"[{earliest}, {latest}]: changes can be read from {earliest - 1} (exclusive) to {latest}."
        )
    return ChangeRange(source, start, end)


def _between_tags(table: FileStoreTable, first: str, second: str) -> ChangeRange:
    start, end = table.tags.get(first).snapshot, table.tags.get(second).snapshot
    if table.options.value(_TAG_TO_SNAPSHOT):
        source = _source(table)
        if source is ChangeSource.DIFF:
            raise OptionError(
                f"{_SCAN_MODE} cannot be diff where {_TAG_TO_SNAPSHOT} is true: two tags are compared without either."
            )
        return _between_ids(table, start.id, end.id, source)
    if end.id < start.id:
        raise OptionError(
            f"Tag end {second} with snapshot id {end.id} should be >= tag start {first} with snapshot id {start.id}"
        )
    return NO_CHANGES if start.id == end.id else ChangeRange(ChangeSource.DIFF, before=start, after=end)


def _between_times(table: FileStoreTable, start_millis: int, end_millis: int) -> ChangeRange:
    if end_millis < start_millis:
        raise OptionError(
            f"Ending timestamp {time_text(end_millis)} should be >= starting timestamp {time_text(start_millis)}."
        )
    ids = table.snapshots.ids()
    if not ids:
        return NO_CHANGES
    earliest, latest = table.snapshots.get(ids[0]), table.snapshots.get(ids[-1])
    if start_millis == end_millis or start_millis > latest.time_millis or end_millis < earliest.time_millis:
        return NO_CHANGES
    start, end = (count_until(table.snapshots, ids, millis) - 1 for millis in (start_millis, end_millis))
    source = _source(table)
    if source is not ChangeSource.DIFF:
        return ChangeRange(source, ids[0] - 1 if start < 0 else ids[start], ids[end])
    after = table.snapshots.get(ids[end])
    if start < 0 and earliest.id == FIRST_SNAPSHOT_ID:
        return ChangeRange(source, before=None, after=after)
    return ChangeRange(source, before=table.snapshots.get(ids[max(start, 0)]), after=after)


def _to_auto_tag(table: FileStoreTable, name: str) -> ChangeRange:
    """The difference to the automatic tag before; without one, or without the tag itself, there is nothing to read."""
    period = TagPeriod.of(table.options)
    end_time = period.time(name)
    if end_time is None:
        raise OptionError(
            f"Specified tag '{name}' is not an auto-created tag: its name is not written as tag.creation-period "
            "and tag.period-formatter of the table say."
        )
    names = table.tags.names()
    times = {other: period.time(other) for other in names}
    earlier = {other: time for other, time in times.items() if time is not None and time < end_time}
    if name not in names or not earlier:
        return NO_CHANGES
    start = max(earlier, key=lambda other: earlier[other])
    return ChangeRange(ChangeSource.DIFF, before=table.tags.get(start).snapshot, after=table.tags.get(name).snapshot)


def earliest_readable_changes(table: FileStoreTable) -> int | None:
    """Return the first snapshot whose changes can be read, of its own or of a long-lived changelog; None without."""
    earliest = table.snapshots.earliest_id()
    return None if earliest is None else _earliest_changelog(table, earliest)


def _earliest_changelog(table: FileStoreTable, earliest: int) -> int:
    """Return the first of the long-lived changelogs that reach up to the earliest snapshot without a gap."""
    listed = table.file_io.list_names(table.paths.changelog_dir)
    numbers = {numbered_name_id(entry.name, CHANGELOG_PREFIX) for entry in listed if not entry.is_dir}
    while earliest - 1 in numbers:
        earliest -= 1
    return earliest


def snapshot_or_changelog(table: FileStoreTable, number: int) -> Snapshot:
    """Return a snapshot, an expired one from its long-lived changelog.

    Raises:
        SnapshotNotFoundError: neither is there.
    """
    try:
        return table.snapshots.get(number)
    except SnapshotNotFoundError:
        path = table.paths.changelog_path(number)
        try:
            return Snapshot.from_json(table.file_io.read_bytes(path), path=path)
        except FileNotFoundError:
            pass
        raise
