"""One step of a bucket's compaction: which files are rewritten together, and which only move to another level.

Equals Java's ``MergeTreeCompactTask`` for tables with keys, ``AppendCompactCoordinator`` and
``BucketedAppendCompactManager`` for those without, ``DataEvolutionCompactTask`` for those with data evolution.
Everything is decided from metadata; no data file is opened.

With data evolution, files that hold columns of the same rows are put together, with small neighbours, into one file
whose rows keep their ids. Files of BLOB and VECTOR columns stay. Deleted rows keep their positions, and the new file
gets their deletion vectors (``DataEvolutionCompactDeletionVectorRewriter``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paimon_spark.maintain.compact.lookup_rewrite import KeyRanges, LookupPlan, Upgrade
from paimon_spark.maintain.compact.rewrite import DataEvolutionRows, Rewrite
from paimon_spark.read.sections import columns_of, holds_part, key_ranks, row_range_groups
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.data_types import VectorType
from paimon_spark.table.deletion_vectors import VectorLocation, Vectors

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.levels import CompactUnit
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable

_FULL_MIN_FILES = 3


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The files of one (partition, bucket)."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    vectors: Vectors = field(default_factory=dict)
    """Deletion vectors, of these files and others."""

    def vector_of(self, file: DataFileMeta) -> VectorLocation | None:
        """Return where the deletion vector of a file lies."""
        return self.vectors.get((self.partition, self.bucket, file.file_name))


@dataclass(frozen=True, slots=True)
class CompactStep:
    """What is done to a bucket at once."""

    rewrites: tuple[tuple[Rewrite, tuple[DataFileMeta, ...]], ...] = ()
    """What a task does, and the files that its result replaces; none where it only writes a changelog."""
    upgrades: tuple[DataFileMeta, ...] = ()
    """Files that move to `level` as they are."""
    level: int = 0

    def __bool__(self) -> bool:
        return bool(self.rewrites or self.upgrades)


def small_file_bytes(options: CoreOptions, *, keyed: bool) -> int:
    """Return the size from which on a file is large enough to be left as it is."""
    return int(options.target_file_size_bytes(keyed) * float(options.value("compaction.small-file-ratio")))


def size_tier(options: CoreOptions, size: int) -> int:
    """Return the tier of a small file: one holds files of up to four times the size of those in the tier before.

    Only files of one tier are joined after a write, so that a row is written again a few times, however small the
    writes are: not once for every few writes until its file is large.
    """
    cost = max(1, options.split_open_file_cost_bytes)
    return ((size + cost) // cost).bit_length() // 2


class MergeTreeCompactPlanner:
    """Steps of buckets of a table with keys: small files are rewritten with their neighbours, large ones upgraded."""

    def __init__(
        self,
        table: FileStoreTable,
        *,
        rewrite_all: bool,
        has_expired: Callable[[DataFileMeta], bool] | None = None,
        changelog: bool = True,
    ) -> None:
        """Take what is the same for all buckets.

        Args:
            table: with dynamic options.
            rewrite_all: no file is upgraded, all are rewritten.
            has_expired: tells whether a file holds rows that are too old, so that it is not upgraded.
            changelog: whether there may be a changelog, where the table has one of compactions.
        """
        self._changelog = changelog
        self._table = table
        self._must_rewrite = lambda file: rewrite_all or (has_expired is not None and has_expired(file))
        self._looks_up = table.options.needs_lookup
        self._small_bytes = small_file_bytes(table.options, keyed=True)
        self._logs_top_level = changelog and table.options.changelog_producer == "full-compaction"

    def step(self, bucket: BucketFiles, unit: CompactUnit, top: int) -> CompactStep:
        """Return what a unit of compaction does."""
        files = (*unit.files, *(file for file in bucket.files if file.level > unit.level))
        ranges, splits = self._ranges(bucket, files)
        sections = ranges.sections(splits[: len(unit.files)])
        higher = splits[len(unit.files) :]
        lookup = None
        if self._looks_up:
            lookup = LookupPlan(self._table, higher, ranges, level=unit.level, top=top, changelog=self._changelog)
        logs = unit.level == top and self._logs_top_level
        one = _UnitStep(bucket, unit, top, lookup, self._small_bytes, self._must_rewrite, logs=logs)
        return one.of(sections)

    def _ranges(self, bucket: BucketFiles, files: Sequence[DataFileMeta]) -> tuple[KeyRanges, list[SplitFile]]:
        low, high = key_ranks(
            self._table, [f.min_key for f in files], [f.max_key for f in files], [f.schema_id for f in files]
        )
        splits = split_files(self._table, bucket, files)
        ranks = zip(low.tolist(), high.tolist(), strict=True)
        return KeyRanges({file.name: rank for file, rank in zip(splits, ranks, strict=True)}), splits


class _UnitStep:
    """The step of one unit: gathers what is rewritten together, section by section."""

    def __init__(
        self,
        bucket: BucketFiles,
        unit: CompactUnit,
        top: int,
        lookup: LookupPlan | None,
        small_bytes: int,
        must_rewrite: Callable[[DataFileMeta], bool],
        *,
        logs: bool,
    ) -> None:
        self._bucket = bucket
        self._unit = unit
        self._top = top
        self._lookup = lookup
        self._small_bytes = small_bytes
        self._logs = logs
        self._makes_changelog = lookup is not None and lookup.makes_changelog
        self._must_rewrite = must_rewrite
        self._metas = {file.file_name: file for file in unit.files}
        self._gathered: list[Sequence[SplitFile]] = []
        self._rewrites: list[tuple[Rewrite, tuple[DataFileMeta, ...]]] = []
        self._upgrades: list[SplitFile] = []

    def of(self, sections: Sequence[Sequence[SplitFile]]) -> CompactStep:
        """Return what is done with sections, which come in key order."""
        unit = self._unit
        for section in sections:
            if len(section) > 1 or (section[0].size < self._small_bytes and not unit.each_alone):
                self._gathered.append(section)
            elif unit.each_alone:
                self._rewrite([section])
            else:
                self._rewrite_gathered()
                self._upgrade(section[0])
        self._rewrite_gathered()
        return CompactStep(
            tuple(self._rewrites), tuple(self._metas[file.name] for file in self._upgrades), self._unit.level
        )

    def _rewrite_gathered(self) -> None:
        if len(self._gathered) == 1 and len(self._gathered[0]) == 1 and not self._unit.each_alone:
            self._upgrade(self._gathered[0][0])
        elif self._gathered:
            self._rewrite(self._gathered)
        self._gathered = []

    def _upgrade(self, file: SplitFile) -> None:
        may_delete = self._unit.level == self._top and file.delete_row_count != 0
        if may_delete or self._must_rewrite(self._metas[file.name]):
            self._rewrite([[file]])
            return
        if file.level == self._unit.level:
            return
        upgrade = Upgrade.LOOKED_UP if self._logs else Upgrade.AS_IT_IS  # Java: UpgradeStrategy.CHANGELOG_NO_REWRITE
        if self._lookup is not None and not self._logs:
            upgrade = self._lookup.upgrade_of(file)
        if upgrade is not Upgrade.AS_IT_IS:
            self._rewrite([[file]], new_files=upgrade is Upgrade.REWRITTEN, upgraded=True)
        if upgrade is not Upgrade.REWRITTEN:
            self._upgrades.append(file)

    def _rewrite(
        self, sections: Sequence[Sequence[SplitFile]], *, new_files: bool = True, upgraded: bool = False
    ) -> None:
        unit, lookup = self._unit, self._lookup
        files = [file for section in sections for file in section]
        drop_deletes = unit.drop_deletes
        if upgraded:  # Java: not that of the unit
            drop_deletes = self._logs or (lookup is not None and lookup.deletes_by_vectors)
        higher = None if lookup is None or self._logs else lookup.higher_runs(files)
        rewrite = Rewrite(
            self._bucket.partition,
            self._bucket.bucket,
            unit.level,
            _frozen(sections),
            drop_deletes,
            changelog=self._logs or (higher is not None and self._makes_changelog),
            new_files=new_files,
            higher_runs=higher,
        )
        self._rewrites.append((rewrite, tuple(self._metas[file.name] for file in files) if new_files else ()))


class AppendCompactPlanner:
    """Steps of buckets of a table without keys: small files are joined."""

    def __init__(self, table: FileStoreTable, *, full: bool, unaware: bool, by_tier: bool = False) -> None:
        """Take what is the same for all buckets.

        Args:
            table: with dynamic options.
            full: join all files of a bucket if most are small; otherwise only the next few.
            unaware: the table has no buckets: files may be joined in any order.
            by_tier: only files of about one size are joined (`size_tier`), in tables without buckets.
        """
        options = table.options
        self._by_tier = by_tier
        self._table = table
        self._full = full
        self._unaware = unaware
        self._target_bytes = options.target_file_size_bytes(False)
        self._small_bytes = small_file_bytes(options, keyed=False)
        self._min_files = int(options.value("compaction.min.file-num"))
        self._open_cost = options.split_open_file_cost_bytes
        self._rewrite_all = bool(options.value("compaction.force-rewrite-all-files"))

    def step(self, bucket: BucketFiles) -> CompactStep:
        """Return what is done to a bucket (of a table without buckets: to a partition)."""
        if self._unaware:
            marked = [file for file in bucket.files if bucket.vector_of(file) is not None]
            plain = [file for file in bucket.files if bucket.vector_of(file) is None]
            tiers: dict[int, list[DataFileMeta]] = {}
            for file in plain:
                tier = size_tier(self._table.options, file.file_size) if self._by_tier else 0
                tiers.setdefault(tier, []).append(file)
            joined = [bin_files for files in tiers.values() for bin_files in self._binned(files)]
            bins: Sequence[Sequence[DataFileMeta]] = [*self._binned_by_index(bucket, marked), *joined]
        else:
            ordered = sorted(bucket.files, key=lambda file: file.min_sequence_number)
            # Java: with too few files, a full compaction picks as a partial one does
            names = {file.file_name for file in ordered if bucket.vector_of(file) is not None}
            everything = self._full and (self._rewrite_all or bool(names) or len(ordered) >= _FULL_MIN_FILES)
            bins = [self._all(ordered, names) if everything else self._next(ordered)]
        return CompactStep(
            tuple((self._rewrite(bucket, bin_files), tuple(bin_files)) for bin_files in bins if bin_files)
        )

    def _rewrite(self, bucket: BucketFiles, bin_files: Sequence[DataFileMeta]) -> Rewrite:
        sections = tuple((file,) for file in split_files(self._table, bucket, bin_files))
        return Rewrite(bucket.partition, bucket.bucket, 0, sections, first_sequence=bin_files[0].min_sequence_number)

    def _binned_by_index(self, bucket: BucketFiles, files: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Join files with deletion vectors, those of one index file together: it goes with them. None is left out."""
        of_index: dict[str, list[DataFileMeta]] = {}
        for file in files:
            location = bucket.vector_of(file)
            of_index.setdefault("" if location is None else location.path, []).append(file)
        bins: list[list[DataFileMeta]] = [[]]
        size = 0
        for group in sorted(of_index.values(), key=lambda group: sum(file.file_size for file in group)):
            bins[-1] += group
            size += sum(file.file_size + self._open_cost for file in group)
            if len(bins[-1]) > 1 and size >= self._target_bytes * 2:
                bins.append([])
                size = 0
        return [bin_files for bin_files in bins if bin_files]

    def _binned(self, files: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Join small files, the smallest first, to about twice the target size; the rest if it is many."""
        bins: list[list[DataFileMeta]] = []
        bin_files: list[DataFileMeta] = []
        size = 0
        for file in sorted(files, key=lambda f: (f.file_size, f.creation_time_millis or 0)):
            if file.file_size >= self._small_bytes:
                break
            bin_files.append(file)
            size += file.file_size + self._open_cost
            if len(bin_files) > 1 and size >= self._target_bytes * 2:
                bins.append(bin_files)
                bin_files, size = [], 0
        if len(bin_files) >= max(2, self._min_files):
            bins.append(bin_files)
        return bins

    def _all(self, ordered: Sequence[DataFileMeta], marked: Container[str]) -> Sequence[DataFileMeta]:
        """All files but large ones at the beginning, if most of them are small or rows of some are deleted."""
        if self._rewrite_all:
            return ordered
        due = (file.file_size < self._small_bytes or file.file_name in marked for file in ordered)
        rest = ordered[next((i for i, is_due in enumerate(due) if is_due), len(ordered)) :]
        if marked:  # Java: joins them again and again, with no vector left
            return rest
        small = sum(file.file_size < self._small_bytes for file in rest)
        return rest if small > len(rest) - small and len(rest) >= _FULL_MIN_FILES else ()

    def _next(self, ordered: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        """The first files next to each other that are enough and not too large together."""
        start = size = 0
        for end, file in enumerate(ordered, start=1):
            size += file.file_size
            if end - start >= self._min_files:
                return ordered[start:end]
            if size >= self._target_bytes * 2:
                size -= ordered[start].file_size
                start += 1
        return ()


def split_files(table: FileStoreTable, bucket: BucketFiles, files: Sequence[DataFileMeta]) -> list[SplitFile]:
    """Return what a task must know to read files of a bucket, in the same order; names and paths are checked."""
    location = (bucket.partition, bucket.bucket)
    found = [SplitFile.of(file, table.paths.data_file_path(*location, file)) for file in files]
    if not bucket.vectors:
        return found
    return [file._replace(deletion_vector=bucket.vectors.get((*location, file.name))) for file in found]


def _frozen(sections: Sequence[Sequence[SplitFile]]) -> tuple[tuple[SplitFile, ...], ...]:
    return tuple(map(tuple, sections))


class DataEvolutionCompactPlanner:
    """Steps of partitions of a table with data evolution."""

    def __init__(self, table: FileStoreTable, *, full: bool) -> None:
        """Take what is the same for all partitions.

        Args:
            table: with dynamic options.
            full: put all together that is not large; otherwise only where there are ``compaction.min.file-num`` files.
        """
        self._table = table
        self._target_bytes = table.options.target_file_size_bytes(False)
        self._companion_vectors = table.options.value("vector.file.format") is not None
        self._least = 2 if full else max(2, int(table.options.value("compaction.min.file-num")))

    def step(self, bucket: BucketFiles) -> CompactStep:
        """Return what is done to a partition.

        Raises:
            CorruptTableError: a file has no row ids.
        """
        files = bucket.files
        ranges = row_range_groups([file.first_row_id for file in files], [file.row_count for file in files])
        groups = [[files[i] for i in group if not holds_part(files[i].file_name)] for group in ranges]
        bins: list[list[DataFileMeta]] = []
        bin_files: list[DataFileMeta] = []
        for group in filter(None, groups):
            if bin_files and (
                _end(bin_files) != group[0].first_row_id or _size(bin_files) + _size(group) > self._target_bytes
            ):
                bins.append(bin_files)
                bin_files = []
            if any(map(self._has_companion, group)):
                bins.append(bin_files)
                bin_files = []
            else:
                bin_files = [*bin_files, *group]
        bins.append(bin_files)
        chosen = [bin_files for bin_files in bins if len(bin_files) >= self._least]
        return CompactStep(tuple((self._rewrite(bucket, bin_files), tuple(bin_files)) for bin_files in chosen))

    def _has_companion(self, file: DataFileMeta) -> bool:
        """Whether a file holds VECTOR columns of rows whose new files would not (``vector.file.format``)."""
        columns = columns_of(self._table.schemas.get(file.schema_id), file.write_cols)
        return self._companion_vectors and any(isinstance(column.type, VectorType) for column in columns)

    def _rewrite(self, bucket: BucketFiles, bin_files: Sequence[DataFileMeta]) -> Rewrite:
        first = bin_files[0].first_row_id
        assert first is not None
        lowest, highest = min(f.min_sequence_number for f in bin_files), max(f.max_sequence_number for f in bin_files)
        rows = DataEvolutionRows(first, lowest, highest)
        files = split_files(self._table, bucket, bin_files)
        sections = (tuple(file._replace(deletion_vector=None) for file in files),)
        return Rewrite(bucket.partition, bucket.bucket, 0, sections, data_evolution=rows)


def _end(bin_files: Sequence[DataFileMeta]) -> int:
    return (bin_files[-1].first_row_id or 0) + bin_files[-1].row_count


def _size(files: Sequence[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)
