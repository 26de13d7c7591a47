"""What a compaction with lookup does with the files of a unit: rewrite, upgrade with a changelog, or only upgrade.

Equals the decisions of Java's ``LookupMergeTreeCompactRewriter`` and ``ChangelogMergeTreeRewriter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.maintain.compact.lookup_rewrite import holds_older_rows, makes_changelog
from paimon_spark.read.sections import sections_of

if TYPE_CHECKING:
    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable


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
