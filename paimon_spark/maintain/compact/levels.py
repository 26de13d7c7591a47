"""Which files of a bucket with keys are compacted together, and to which level: pure functions over file metadata.

Equals Java's ``Levels``, ``CompactStrategy.pickFullCompaction``, ``UniversalCompaction``, ``ForceUpLevel0Compaction``,
``EarlyFullCompaction`` and ``OffPeakHours`` (docs/internals/format.md §7).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.manifest import DataFileMeta


@dataclass(frozen=True, slots=True)
class LevelRun:
    """One sorted run: a file of level 0, or all files of a higher level."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """The files to compact, and where they go (Java: ``CompactUnit``)."""

    level: int
    """The level of the result."""
    files: tuple[DataFileMeta, ...]
    drop_deletes: bool
    """Whether nothing older than these files can hold their keys, so that deletes need not be kept."""
    each_alone: bool = False
    """Rewrite every file by itself, whatever its size: at the top level, where all files or those with old rows are."""


@dataclass(frozen=True, slots=True)
class CompactStrategy:
    """The options that decide which runs are compacted."""

    num_levels: int
    full: bool
    trigger: int
    size_ratio: float
    """Percentage by which a run may be larger than the newer ones and still be taken along."""
    max_amplification: int
    force_level_0: bool
    full_interval_millis: int | None
    total_size_threshold: int | None
    incremental_size_threshold: int | None
    rewrite_all: bool
    now_millis: int
    """The wall clock, as files have it."""
    has_expired: Callable[[DataFileMeta], bool] | None = None
    """Tells whether a file holds rows that are too old (`record-level.expire-time`); None where rows do not expire."""
    keeps_no_deletes: bool = False
    """Rows of levels above are deleted by deletion vectors, so that no delete must be kept for them."""

    @classmethod
    def of(
        cls,
        options: CoreOptions,
        *,
        full: bool,
        now: datetime | None = None,
        has_expired: Callable[[DataFileMeta], bool] | None = None,
    ) -> CompactStrategy:
        """Read the options of a table.

        Args:
            options: of the table, dynamic ones included.
            full: everything becomes one run; otherwise what a writer would compact.
            now: local wall clock.
            has_expired: see the field.

        Raises:
            OptionError: an option has a value that cannot be used.
        """
        clock = now or datetime.now()
        interval: timedelta | None = options.value("compaction.optimization-interval")
        return cls(
            num_levels=options.num_levels,
            full=full,
            trigger=int(options.value("num-sorted-run.compaction-trigger")),
            size_ratio=float(options.value("compaction.size-ratio")) + _off_peak_ratio(options, clock.hour),
            max_amplification=int(options.value("compaction.max-size-amplification-percent")),
            force_level_0=_forces_level_0(options),
            keeps_no_deletes=options.deletion_vectors_enabled,
            full_interval_millis=None if interval is None else interval // timedelta(milliseconds=1),
            total_size_threshold=options.value("compaction.total-size-threshold"),
            incremental_size_threshold=options.value("compaction.incremental-size-threshold"),
            rewrite_all=bool(options.value("compaction.force-rewrite-all-files")),
            now_millis=(clock - datetime(1970, 1, 1)) // timedelta(milliseconds=1),
            has_expired=has_expired,
        )

    def pick(self, files: Sequence[DataFileMeta], with_deleted_rows: Container[str] = ()) -> CompactUnit | None:
        """Return what to compact of a bucket's files; None is nothing.

        Args:
            files: all of the bucket.
            with_deleted_rows: names of those that have a deletion vector.
        """
        runs = level_runs(files)
        if not runs:
            return None
        top = self.top_level(files)
        if self.full:
            picked = self._everything(runs, top, with_deleted_rows)
        else:
            picked = self._universal(runs, top) or (self._level_0(runs, top) if self.force_level_0 else None)
            if picked and len(picked.files) == 1 and picked.files[0].level == picked.level:
                return None
        if picked and picked.level and self.keeps_no_deletes:
            return replace(picked, drop_deletes=True)
        return picked

    def may_pick(self, runs: int) -> bool:
        """Whether something may be picked of so many sorted runs; where it may not, nobody need look at the files."""
        early = (self.full_interval_millis, self.total_size_threshold, self.incremental_size_threshold)
        if self.full or self.force_level_0 or (runs > 1 and any(limit is not None for limit in early)):
            return True
        return runs >= self.trigger

    def top_level(self, files: Sequence[DataFileMeta]) -> int:
        """Return the highest level that a bucket can have."""
        return max(self.num_levels, max(file.level for file in files) + 1) - 1

    def _everything(self, runs: Sequence[LevelRun], top: int, with_deleted_rows: Container[str]) -> CompactUnit | None:
        if len(runs) == 1 and runs[0].level == top:
            rewritten = tuple(
                file
                for file in runs[0].files
                if self.rewrite_all or self._has_expired(file) or file.file_name in with_deleted_rows
            )
            return CompactUnit(top, rewritten, drop_deletes=True, each_alone=True) if rewritten else None
        return _unit(runs, len(runs), top)

    def _has_expired(self, file: DataFileMeta) -> bool:
        return self.has_expired is not None and self.has_expired(file)

    def _universal(self, runs: Sequence[LevelRun], top: int) -> CompactUnit | None:
        if self._is_early(runs, top):
            return _unit(runs, len(runs), top)
        if len(runs) < self.trigger:
            return None
        newer = sum(run.size_bytes for run in runs[:-1])
        if newer * 100 > self.max_amplification * runs[-1].size_bytes:
            return _unit(runs, len(runs), top)
        count = self._by_size_ratio(runs, 1, taken=False)
        if count is None and len(runs) > self.trigger:
            count = self._by_size_ratio(runs, len(runs) - self.trigger + 1, taken=False)
        return None if count is None else _unit_of_newest(runs, count, top)

    def _level_0(self, runs: Sequence[LevelRun], top: int) -> CompactUnit | None:
        newest = sum(run.level == 0 for run in runs)
        count = self._by_size_ratio(runs, newest, taken=True) if newest else None
        return None if count is None else _unit_of_newest(runs, count, top)

    def _by_size_ratio(self, runs: Sequence[LevelRun], count: int, *, taken: bool) -> int | None:
        """Extend the ``count`` newest runs by older ones that are not much larger; None when that takes none along."""
        size = sum(run.size_bytes for run in runs[:count])
        taken = taken or count > 1
        for run in runs[count:]:
            if size * (100.0 + self.size_ratio) / 100.0 < run.size_bytes and (not taken or run.level > 1):
                break
            size += run.size_bytes
            count += 1
            taken = True
        return count if taken else None

    def _is_early(self, runs: Sequence[LevelRun], top: int) -> bool:
        """Whether options ask for a full compaction first (Java: ``EarlyFullCompaction``)."""
        if len(runs) == 1:
            return False
        if self.full_interval_millis is not None:
            tops = [file.creation_time_millis or 0 for run in runs for file in run.files if file.level == top]
            if not tops or self.now_millis - max(tops) > self.full_interval_millis:
                return True
        sizes = [(run.level, run.size_bytes) for run in runs]
        if self.total_size_threshold is not None and sum(size for _, size in sizes) < self.total_size_threshold:
            return True
        below = sum(size for level, size in sizes if level != top)
        return self.incremental_size_threshold is not None and below > self.incremental_size_threshold


def level_runs(files: Sequence[DataFileMeta]) -> list[LevelRun]:
    """Return the sorted runs of a bucket, newest first: each file of level 0, then the levels upwards."""
    newest = sorted(
        (file for file in files if file.level == 0),
        key=lambda f: (-f.max_sequence_number, f.min_sequence_number, f.creation_time_millis or 0, f.file_name),
    )
    levels: dict[int, list[DataFileMeta]] = {}
    for file in files:
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    return [LevelRun(0, (file,)) for file in newest] + [LevelRun(n, tuple(levels[n])) for n in sorted(levels)]


def _unit(runs: Sequence[LevelRun], count: int, level: int) -> CompactUnit:
    files = tuple(file for run in runs[:count] for file in run.files)
    # the other runs are older: if none is at the level of the result or above, deletes have nothing left to remove
    highest = max(run.level for run in runs)
    return CompactUnit(level, files, drop_deletes=level != 0 and level >= highest)


def _unit_of_newest(runs: Sequence[LevelRun], count: int, top: int) -> CompactUnit:
    """Compact the ``count`` newest runs to the level below the next one; never to level 0."""
    level = top if count == len(runs) else max(0, runs[count].level - 1)
    if level == 0:
        for run in runs[count:]:
            count += 1
            if run.level != 0:
                level = run.level
                break
    return _unit(runs, count, top if count == len(runs) else level)


def _forces_level_0(options: CoreOptions) -> bool:
    """Whether level 0 is compacted even where no other rule takes it.

    Java: with `GENTLE` a writer does so once in ``lookup-compact.max-interval`` commits of its own; a batch writer
    makes one.
    """
    if options.needs_lookup:
        return bool(options.value("lookup-compact") == "RADICAL")
    return bool(options.value("compaction.force-up-level-0"))


def _off_peak_ratio(options: CoreOptions, hour: int) -> int:
    """Return what is added to the size ratio at this hour of the local day."""
    start, end = (int(options.value(key)) for key in ("compaction.offpeak.start.hour", "compaction.offpeak.end.hour"))
    if -1 in (start, end) or start == end:
        return 0
    within = start <= hour < end if start < end else hour < end or start <= hour
    return int(options.value("compaction.offpeak-ratio")) if within else 0
