"""Where a stream stands: a snapshot, how many of its files are read, and whether the whole state is being read.

Java's connector notes the last split that was read (``PaimonSourceOffset``), a number that depends on filters and on
the size of splits. Here it is a number of files in an order that depends on the snapshot alone (`stream_step`).

How much one micro-batch may hold (Java: ``PaimonReadLimits``; options `read.stream.*`).

Where a stream begins: every `scan.*` option of a stream, and the consumer's progress.

Equals Java's ``AbstractDataTableScan.createStartingScanner(true)``, the ``Continuous…StartingScanner`` classes and
``PaimonMicroBatchStream.initOffset``. It differs where Java's connector loses rows: a full scan of a table without
snapshots waits for the first one and reads its state; a full scan from a snapshot that has expired takes the earliest
state; tags name snapshots. Runs on the driver, once per query.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.read.change_range import earliest_readable_changes
from paimon_spark.spec.snapshot import FIRST_SNAPSHOT_ID
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.time_travel import (
    CREATED_AFTER,
    INCREMENTAL_KEYS,
    MODE,
    SNAPSHOT_ID,
    TAG_NAME,
    TIMESTAMP,
    TIMESTAMP_MILLIS,
    TRAVEL_KEYS,
    VERSION,
    count_until,
    latest_compacted,
    option_number,
    parse_timestamp_millis,
)

if TYPE_CHECKING:
    from datetime import tzinfo

    import numpy.typing as npt

    from paimon_spark.options import CoreOptions
    from paimon_spark.table.table import FileStoreTable

_KEYS = ("snapshot", "position", "full")
_OFFICIAL = "snapshotId"

MAX_FILES = "read.stream.maxFilesPerTrigger"
MAX_BYTES = "read.stream.maxBytesPerTrigger"
MAX_ROWS = "read.stream.maxRowsPerTrigger"
MIN_ROWS = "read.stream.minRowsPerTrigger"
MAX_DELAY = "read.stream.maxTriggerDelayMs"
LIMIT_KEYS = (MAX_FILES, MAX_BYTES, MAX_ROWS, MIN_ROWS, MAX_DELAY)

CONSUMER_ID = "consumer-id"
_TIMES = (TIMESTAMP, TIMESTAMP_MILLIS)
_POINTS = (SNAPSHOT_ID, TAG_NAME, VERSION)
_KEYS_OF_MODE: Mapping[str, tuple[str, ...]] = {
    "latest-full": (),
    "full": (),
    "latest": (),
    "compacted-full": (),
    "from-timestamp": _TIMES,
    "from-snapshot": _POINTS,
    "from-snapshot-full": _POINTS,
    **{mode: (key,) for mode, key in CREATED_AFTER.items()},
}
"""The modes of streams, and the options of which each needs one."""


@dataclass(frozen=True, slots=True, order=True)
class StreamOffset:
    """What is read next."""

    snapshot_id: int
    """The snapshot that is read next; it may not exist yet."""
    position: int = 0
    """How many of its files are read already."""
    full: bool = False
    """Whether the state at the snapshot is read, not its changes."""

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it in the checkpoint."""
        return {"snapshot": self.snapshot_id, "position": self.position, "full": self.full}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Return the offset that a checkpoint holds.

        Raises:
            PaimonError: it is none of ours; the message says what to do.
        """
        if _OFFICIAL in value:
            raise PaimonError(
                f"The checkpoint was written by another Paimon connector, whose offset {dict(value)} names a split of "
                "its own. Start with a new checkpoint directory and the options 'scan.mode' = 'from-snapshot', "
                f"'scan.snapshot-id' = '{value[_OFFICIAL]}', which reads that snapshot's changes once more."
            )
        snapshot_id, position, full = (value.get(key) for key in _KEYS)
        counts = all(type(number) is int and number >= 0 for number in (snapshot_id, position))
        if not counts or type(full) is not bool:
            raise PaimonError(
                f"The checkpoint holds the offset {dict(value)}, which is none of a Paimon stream: use a checkpoint "
                "directory of its own for each query."
            )
        return cls(int(str(snapshot_id)), int(str(position)), full)

    def following(self) -> StreamOffset:
        """The offset behind all files of the snapshot."""
        return StreamOffset(self.snapshot_id + 1)


@dataclass(frozen=True)
class ReadLimits:
    """The limits of one stream; None where there is none."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    """A batch waits for so many rows,"""
    max_delay_millis: int | None = None
    """but not longer than this after the batch before."""

    @classmethod
    def of(cls, options: CoreOptions) -> ReadLimits:
        """Return the limits that options state.

        Raises:
            OptionError: a limit is not positive, or one of the two options for the fewest rows is missing.
        """
        values = [options.value(key) if key in options else None for key in LIMIT_KEYS]
        for key, value in zip(LIMIT_KEYS, values, strict=True):
            if value is not None and value <= 0:
                raise OptionError(f"Option '{key}' cannot be '{value}': it is a number above 0.")
        if (values[3] is None) != (values[4] is None):
            raise OptionError(
                f"Can't provide only one of {MIN_ROWS} and {MAX_DELAY}: the first says how many rows a batch waits "
                "for, the second how long at most."
            )
        return cls(*values)

    @property
    def any_given(self) -> bool:
        """Whether there is any limit."""
        return any(value is not None for value in (self.max_files, self.max_bytes, self.max_rows, self.min_rows))


@dataclass
class Budget:
    """What is left of the limits while one batch is put together."""

    limits: ReadLimits | None
    """None: no limit."""
    used: dict[str, int] = field(default_factory=lambda: {"files": 0, "bytes": 0, "rows": 0})
    is_full: bool = False

    def admit(self, weights: Mapping[str, npt.NDArray[np.int64]]) -> int:
        """Take the first units that fit, of an empty batch always one that weighs something; return how many.

        Args:
            weights: ``files``, ``bytes`` and ``rows`` of each unit.
        """
        count = taken = len(weights["files"])
        for name, most in self._most().items():
            sums = np.cumsum(weights[name])
            taken = min(taken, int(np.searchsorted(sums, most - self.used[name], side="right")))
        if taken < count:
            self.is_full = True
            if not self.used["files"] and not weights["files"][:taken].any():
                heavy = np.flatnonzero(weights["files"][taken:])
                taken += int(heavy[0]) + 1 if len(heavy) else 0
        for name, values in weights.items():
            self.used[name] += int(values[:taken].sum())
        return taken

    def _most(self) -> dict[str, int]:
        limits = self.limits
        if limits is None:
            return {}
        found = {"files": limits.max_files, "bytes": limits.max_bytes, "rows": limits.max_rows}
        return {name: most for name, most in found.items() if most is not None}

    def waits(self, last_batch: float) -> bool:
        """Whether the batch is too small to be read yet.

        Args:
            last_batch: when the last batch was put together, seconds of the monotonic clock; minus infinity for none.
        """
        limits = self.limits
        if limits is None or limits.min_rows is None or limits.max_delay_millis is None:
            return False
        waited = (time.monotonic() - last_batch) * 1000
        return self.used["rows"] < limits.min_rows and waited <= limits.max_delay_millis


def stream_mode(options: Mapping[str, str]) -> str:
    """Return the scan mode of a stream with these options, which fit together.

    Raises:
        OptionError: two of them contradict each other, one is missing, or one belongs to batch reads.
    """
    mode = options.get(MODE, "default").strip().lower()
    changes = next((key for key in INCREMENTAL_KEYS if key in options), None)
    if changes is not None or mode in ("incremental", "latest-delta"):
        asked = f"{MODE} = {mode}" if changes is None else changes
        raise OptionError(
            f"Cannot read incremental in streaming mode: option '{asked}' belongs to batch reads. A stream starts by "
            "'scan.snapshot-id' or 'scan.timestamp' and goes on."
        )
    given = [key for key in (*TRAVEL_KEYS, *CREATED_AFTER.values()) if key in options]
    if len(given) > 1:
        raise OptionError(f"A stream starts at one point, but the options set {' and '.join(given)}.")
    if mode == "default":
        if not given:
            return "latest-full"
        of = [m for m, keys in _KEYS_OF_MODE.items() if given[0] in keys]
        if not of:
            raise OptionError(
                f"Cannot scan from watermark in streaming mode: option '{given[0]}' belongs to batch reads. A stream "
                "starts by 'scan.snapshot-id' or 'scan.timestamp'."
            )
        return of[0]
    if mode not in _KEYS_OF_MODE:
        raise OptionError(f"Option '{MODE}' cannot be '{mode}' for a stream: it is one of {', '.join(_KEYS_OF_MODE)}.")
    keys = _KEYS_OF_MODE[mode]
    if keys and (not given or given[0] not in keys):
        raise OptionError(f"must set only one key in [{', '.join(keys)}] when you use {mode} for {MODE}")
    if given and not keys:
        raise OptionError(f"{given[0]} must be null when you use {mode} for {MODE}")
    return mode


def initial_offset(table: FileStoreTable, *, zone: tzinfo | None = None) -> StreamOffset:
    """Return where a new stream over the table begins.

    Args:
        table: with the options of the stream.
        zone: of `scan.timestamp`; the process's local one when not given.

    Raises:
        OptionError: options contradict each other, or hold no number or time.
        SnapshotNotFoundError: there is no such tag.
    """
    options = table.options
    mode = stream_mode(options)
    consumer = options.get(CONSUMER_ID)
    if consumer is not None and not options.value("consumer.ignore-progress"):
        found = ConsumerStore(table.file_io, table.paths).get(consumer)
        if found is not None:
            return _from_changes(table, found)
    if mode in ("latest-full", "full", "from-file-creation-time"):
        return _full(table.snapshots.latest_id())
    if mode == "latest":
        return StreamOffset(table.snapshots.latest_id() or FIRST_SNAPSHOT_ID)
    if mode == "compacted-full":
        snapshot = latest_compacted(table, options)
        return _full(None if snapshot is None else snapshot.id)
    if mode == "from-timestamp":
        return _at_time(table, _millis(table, zone))[0]
    if mode == "from-creation-timestamp":
        offset, early = _at_time(table, option_number(options, CREATED_AFTER[mode]))
        beyond = offset.snapshot_id > (table.snapshots.latest_id() or 0)
        return _full(table.snapshots.latest_id()) if early or beyond else offset
    wanted = _snapshot_id(table)
    if mode == "from-snapshot":
        return _from_changes(table, wanted)
    if any(tag.snapshot.id == wanted for tag in table.tags.list().values()):
        return StreamOffset(wanted, full=True)
    return StreamOffset(max(wanted, table.snapshots.earliest_id() or FIRST_SNAPSHOT_ID), full=True)


def _full(snapshot_id: int | None) -> StreamOffset:
    return StreamOffset(FIRST_SNAPSHOT_ID if snapshot_id is None else snapshot_id, full=True)


def _from_changes(table: FileStoreTable, snapshot_id: int) -> StreamOffset:
    """Begin at a snapshot's changes, or at the earliest that there are."""
    earliest = earliest_readable_changes(table)
    return StreamOffset(max(1, snapshot_id) if earliest is None else max(snapshot_id, earliest))


def _at_time(table: FileStoreTable, millis: int) -> tuple[StreamOffset, bool]:
    """Begin at the first commit at a time or later; and whether all commits are that young."""
    ids = table.snapshots.ids()
    if not ids:
        return StreamOffset(FIRST_SNAPSHOT_ID), True
    earlier = count_until(table.snapshots, ids, millis - 1)
    if earlier:
        return StreamOffset(ids[earlier - 1] + 1), False
    return _from_changes(table, 0), True


def _millis(table: FileStoreTable, zone: tzinfo | None) -> int:
    options = table.options
    if TIMESTAMP_MILLIS in options:
        return option_number(options, TIMESTAMP_MILLIS)
    return parse_timestamp_millis(options[TIMESTAMP], zone=zone)


def _snapshot_id(table: FileStoreTable) -> int:
    options = table.options
    if SNAPSHOT_ID in options:
        return option_number(options, SNAPSHOT_ID)
    name = options[TAG_NAME if TAG_NAME in options else VERSION]
    if TAG_NAME not in options and not table.tags.exists(name) and name.isascii() and name.isdigit():
        return int(name)
    return table.tags.get(name).snapshot.id
