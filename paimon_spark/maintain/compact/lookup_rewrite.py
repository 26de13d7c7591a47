"""A compaction with lookup: level-0 rows are joined by key with the newest older rows, and move up.

Equals Java's ``LookupMergeTreeCompactRewriter`` and ``ChangelogMergeTreeRewriter``. Files of a unit are rewritten,
upgraded with a changelog, or only upgraded. Out of a unit come data files, changelog files, and the positions of rows
in higher levels that are replaced. Runs in tasks; memory is bounded as that of other rewrites.

The rows of a compaction to the top level, and their changelog: what became of the rows of that level.

Equals Java's ``FullChangelogMergeTreeCompactRewriter``. Runs in tasks; memory is bounded by
``read.merge.memory-budget``. The options of changelog producers say which compactions have such a changelog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.changelog import (
    LookupMerge,
    inserted,
    lookup_engine,
    merge_with_changelog,
    rows_of_keys,
    without_deletes,
)
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead, RecordExpiry, RowPositions
from paimon_spark.read.sections import runs_of, sections_of
from paimon_spark.read.split_read import partition_scalars
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.data_types import BigIntType, DateType, IntType, SmallIntType, TinyIntType, VarCharType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.special_fields import without_retracts

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable

_COMPARABLE = (TinyIntType, SmallIntType, IntType, BigIntType, DateType, VarCharType)
_FILE = "_FILE"
_POSITION = "_POSITION"


@dataclass
class Deletions:
    """Positions of rows of higher levels that newer rows replace, by file. Grows while rows are merged."""

    def __post_init__(self) -> None:
        self._found: dict[str, list[np.ndarray]] = defaultdict(list)

    def add(self, names: Sequence[str], rows: pa.Table) -> None:
        """Note rows with the columns number of the file and position."""
        files, positions = rows.column(_FILE).to_numpy(), rows.column(_POSITION).to_numpy()
        for number in np.unique(files).tolist():
            self._found[names[number]].append(positions[files == number])

    def packed(self) -> tuple[tuple[str, bytes], ...]:
        """What `RewriteResult.deletions` holds."""
        return tuple(
            (name, np.sort(np.concatenate(parts)).astype("<i8").tobytes()) for name, parts in self._found.items()
        )


class LookupRewrite:
    """Reads and merges the files of one rewrite."""

    def __init__(
        self,
        table: FileStoreTable,
        partition: bytes,
        sections: Sequence[Sequence[SplitFile]],
        higher_runs: Sequence[Sequence[SplitFile]],
        *,
        changelog: bool,
        drop_deletes: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            table: with the schema and options that the new files get.
            partition: serialized partition values.
            sections: groups of files with overlapping key ranges, in key order, some of level 0.
            higher_runs: in which older rows are looked up, the highest level first.
            changelog: whether a changelog is made.
            drop_deletes: whether merged rows of kind -U and -D are left out.
        """
        self._table = table
        self._files = [file for section in sections for file in section]
        self._higher_runs = higher_runs
        self._changelog = changelog
        self._drop_deletes = drop_deletes
        self._engine = merge_engine_for(table.schema)
        self._constants = partition_scalars(table, partition)
        self._budget = int(table.options.value("read.merge.memory-budget"))
        self.deletions = Deletions()

    @cached_property
    def _merge(self) -> LookupMerge:
        options = self._table.options
        return LookupMerge(
            lookup_engine(self._engine),
            first_row=options.merge_engine == "first-row",
            # Java: takes the row of level 0 even then
            whole_rows=whole_rows_are_needed(options)
            or (options.merge_engine != "first-row" and holds_older_rows(self._files, self._higher_runs)),
            changelog=self._changelog,
            ignored=ignored_columns(options),
        )

    def pieces(self) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """Yield merged rows, in key order, and their changelog; `deletions` grows meanwhile.

        Raises:
            CorruptTableError: a data file is missing or damaged.
            DataError: the merge engine cannot take a row.
        """
        runs = runs_of(self._files)
        above_zero = sum(run[0].level > 0 for run in runs)
        higher = self._higher_runs
        names = [file.name for run in higher for file in run]
        size = block_bytes(self._budget, len(runs) + len(higher))
        schema = self._table.schema
        expiry = RecordExpiry.of(self._table)
        fields = tuple(schema.fields)
        reader = FileRead(self._table, fields, self._constants, key_value=True, batch_bytes=size, expiry=expiry)
        streams = [*self._higher_streams(higher, size), *reader.runs(runs, None)]
        keys = schema.trimmed_primary_keys
        for piece in aligned_batches(streams, keys, budget_bytes=self._budget, followers=len(higher)):
            above, newer = (
                [batch for run in part for batch in run]
                for part in (piece[len(higher) : len(higher) + above_zero], piece[len(higher) + above_zero :])
            )
            if not above and not newer:
                continue
            rows = pa.Table.from_batches([*above, *newer])
            found = rows_of_keys(piece[: len(higher)], rows, keys)
            del piece
            result = self._merge.merge(found, rows, sum(batch.num_rows for batch in above))
            if found is not None and len(result.found) and self._deletes_older_rows:
                self.deletions.add(names, found.select([_FILE, _POSITION]).take(pa.array(result.found)))
            rows = without_retracts(result.rows) if self._drop_deletes else result.rows
            yield rows, result.changelog

    @cached_property
    def _key_range(self) -> Predicate | None:
        """A condition on the first key column that holds for all keys that are compacted; None where there is none."""
        schema = self._table.schema
        keys = [schema.field(name) for name in schema.trimmed_primary_keys]
        if not isinstance(keys[0].type, _COMPARABLE) or any(file.schema_id != schema.id for file in self._files):
            return None
        bounds = [bound for file in self._files for bound in (file.min_key, file.max_key)]
        values = decode_rows(bounds, [key.type for key in keys], serialized=True, fields=[0])[0]
        if values.null_count:
            return None
        ends = pc.min_max(values).as_py()
        return Leaf("between", keys[0].name, (ends["min"], ends["max"]))

    @property
    def _deletes_older_rows(self) -> bool:
        return self._table.options.deletion_vectors_enabled

    def _higher_streams(self, runs: Sequence[Sequence[SplitFile]], size: int) -> Iterator[Iterator[pa.RecordBatch]]:
        schema = self._table.schema
        whole = self._merge.whole_rows
        keys = schema.trimmed_primary_keys
        fields = tuple(f for f in schema.fields if whole or f.name in keys)
        reader = FileRead(
            self._table,
            fields,
            self._constants,
            key_value=whole,
            batch_bytes=size,
            filters_rows=False,
            dictionaries=frozenset(field.name for field in fields if field.name not in keys),
        )
        first = 0
        expiry = RecordExpiry.of(self._table) if whole else None
        for run in runs:
            rows = self._numbered(reader, run, first)
            yield rows if expiry is None else expiry.kept(rows)
            first += len(run)

    def _numbered(self, reader: FileRead, run: Sequence[SplitFile], first: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a run, where rows are to be marked with the number of their file and their position."""
        for number, file in enumerate(run, first):
            if not self._deletes_older_rows:
                yield from reader.batches(file, self._key_range)
                continue
            positions = RowPositions(self._table, file)
            for batch in reader.batches(file, None):
                numbers = np.full(batch.num_rows, number, np.int32)
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.array(numbers), pa.array(positions.take(batch.num_rows))],
                    names=[*batch.schema.names, _FILE, _POSITION],
                )


def holds_older_rows(files: Sequence[SplitFile], higher_runs: Iterable[Sequence[SplitFile]]) -> bool:
    """Whether files of level 0 may hold older rows than those of higher levels: of writers that knew neither."""
    lowest = min((file.min_seq for file in files if file.level == 0), default=None)
    return lowest is not None and any(file.max_seq >= lowest for run in higher_runs for file in run)


def whole_rows_are_needed(options: CoreOptions) -> bool:
    """Whether values of older rows count, or only where these rows are."""
    if options.merge_engine == "first-row":
        return False
    positions_do = options.deletion_vectors_enabled and not makes_changelog(options)
    return not (positions_do and options.merge_engine == "deduplicate" and not options.sequence_fields)


def makes_changelog(options: CoreOptions) -> bool:
    """Whether compactions of level 0 make a changelog."""
    return options.changelog_producer == "lookup"


class Upgrade(Enum):
    """How a file that meets no other gets to a higher level."""

    AS_IT_IS = auto()
    """Only its level changes."""
    LOOKED_UP = auto()
    """Its level changes, and its rows are read for a changelog or for deletions."""
    REWRITTEN = auto()
    """Its rows are merged with older ones into new files."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The files of a bucket with the ranks of their smallest and largest keys."""

    ranks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def sections(self, files: Sequence[SplitFile]) -> list[list[SplitFile]]:
        """Group files whose key ranges touch; see `sections_of`."""
        low, high = (np.array([self.ranks[file.name][side] for file in files], dtype=np.int64) for side in (0, 1))
        return sections_of(files, low, high)

    def touching(self, candidates: Sequence[SplitFile], files: Sequence[SplitFile]) -> list[SplitFile]:
        """Return the candidates that may hold keys between the smallest and the largest of some files, in key order."""
        low = min(self.ranks[file.name][0] for file in files)
        high = max(self.ranks[file.name][1] for file in files)
        found = [file for file in candidates if self.ranks[file.name][0] <= high and self.ranks[file.name][1] >= low]
        return sorted(found, key=lambda file: self.ranks[file.name])


class LookupPlan:
    """The lookups of one unit of compaction in one bucket."""

    def __init__(
        self,
        table: FileStoreTable,
        higher: Sequence[SplitFile],
        ranges: KeyRanges,
        *,
        level: int,
        top: int,
        changelog: bool = True,
    ) -> None:
        """Take what is the same for all files of the unit.

        Args:
            table: with dynamic options.
            higher: files of the bucket above the level of the unit.
            ranges: of all files of the bucket.
            level: where the files of the unit go.
            top: the highest level of the bucket.
            changelog: whether a changelog is made, where the table has one of lookups.
        """
        self._options = table.options
        self.makes_changelog = changelog and makes_changelog(table.options)
        self._higher = higher
        self._ranges = ranges
        self._level = level
        self._top = top

    def higher_runs(self, files: Sequence[SplitFile]) -> tuple[tuple[SplitFile, ...], ...] | None:
        """Return the runs in which older rows of some files are looked up, the highest level first.

        None where none of the files is of level 0: their rows are merged with all older ones already.
        """
        if self._level == 0 or all(file.level > 0 for file in files):
            return None
        levels: dict[int, list[SplitFile]] = {}
        for file in self._ranges.touching(self._higher, files):
            levels.setdefault(file.level, []).append(file)
        return tuple(tuple(levels[level]) for level in sorted(levels, reverse=True))

    def upgrade_of(self, file: SplitFile) -> Upgrade:
        """Tell how a file that meets no other of the unit gets to its level."""
        options = self._options
        if file.level != 0 or self._level == 0:
            return Upgrade.AS_IT_IS
        other_format = options.file_format_at(file.level) != options.file_format_at(self._level)
        deletes = options.deletion_vectors_enabled and file.delete_row_count != 0
        newest_wins = options.merge_engine == "deduplicate" and not options.sequence_fields
        # Java: raises it even then, and the older row replaces the newer one
        newest_wins = newest_wins and not holds_older_rows([file], [self._ranges.touching(self._higher, [file])])
        if other_format or deletes or not (self._level == self._top or newest_wins):
            return Upgrade.REWRITTEN
        deletes_rows = self.deletes_by_vectors and self._level < self._top
        return Upgrade.LOOKED_UP if self.makes_changelog or deletes_rows else Upgrade.AS_IT_IS

    @property
    def deletes_by_vectors(self) -> bool:
        """Whether replaced rows of higher levels are marked as deleted."""
        return self._options.deletion_vectors_enabled


def ignored_columns(options: CoreOptions) -> frozenset[str] | None:
    """The columns ignored when comparing rows; None where a row that is merged anew counts as changed.

    Java: ``changelog-producer.row-deduplicate`` and ``changelog-producer.row-deduplicate-ignore-fields``.
    """
    if not options.value("changelog-producer.row-deduplicate"):
        return None
    names = options.value("changelog-producer.row-deduplicate-ignore-fields")
    return frozenset(name.strip() for name in str(names or "").split(",") if name.strip())


Pieces = Iterator[tuple[pa.Table, pa.Table | None]]
"""Pieces of merged rows, and of their changelog; both in key order over all pieces."""


def rows_with_changelog(
    table: FileStoreTable, partition: bytes, sections: Sequence[Sequence[SplitFile]], top: int
) -> Pieces:
    """Yield the rows that a compaction to the top level keeps, and what they tell of the rows of that level before.

    Args:
        table: with the schema and options that the new files get.
        partition: serialized partition values.
        sections: groups of files with overlapping key ranges, in key order.
        top: the top level.
    """
    budget = int(table.options.value("read.merge.memory-budget")) * 2 // 3  # the changelog takes its part
    constants = partition_scalars(table, partition)
    ignored = ignored_columns(table.options)
    for section in sections:
        runs = runs_of(section)
        most = block_bytes(budget, len(runs))
        reader = FileRead(
            table,
            tuple(table.schema.fields),
            constants,
            key_value=True,
            batch_bytes=most,
            expiry=RecordExpiry.of(table),
        )
        if len(runs) == 1:
            yield from _unmerged(reader, runs[0], top)
        else:
            yield from _merged(reader, runs, top, budget, ignored)


def _unmerged(reader: FileRead, run: Sequence[SplitFile], top: int) -> Pieces:
    """The rows of one run, whose keys come once: Java gives a single row to no merge function."""
    for batch in reader.run(run, None):
        rows = pa.Table.from_batches([batch])
        yield without_deletes(rows), None if run[0].level == top else inserted(rows)


def _merged(
    reader: FileRead, runs: Sequence[Sequence[SplitFile]], top: int, budget: int, ignored: Collection[str] | None
) -> Pieces:
    engine = merge_engine_for(reader.table.schema)
    has_top = runs[0][0].level == top  # runs come oldest first, each of one level
    for ready in aligned_batches(reader.runs(runs, None), engine.keys, budget_bytes=budget):
        newer = [batch for run in ready[has_top:] for batch in run]
        if not newer:
            yield pa.Table.from_batches(ready[0]), None
            continue
        rows = pa.Table.from_batches(newer)
        of_top = pa.Table.from_batches(ready[0] if has_top else [], schema=rows.schema)
        yield merge_with_changelog(of_top, rows, engine, ignored=ignored)
