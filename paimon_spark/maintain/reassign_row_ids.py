"""New row ids for the partitions of a table with data evolution whose ids are scattered.

Equals Java's ``DataEvolutionRowIdReassigner``: ids are given to whole files in manifests, no data file is touched. Rows
that are written by turns into several partitions have ids by turns; afterwards those of a partition lie together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from paimon_spark.commit.metadata_commit import WholeState, commit_state
from paimon_spark.errors import (
    CommitConflictError,
    CorruptTableError,
    OptionError,
    UnsupportedError,
)
from paimon_spark.read.sections import row_range_groups
from paimon_spark.spec.special_fields import ROW_ID
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import ManifestEntry
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_USER = "reassign-row-id"


@dataclass(frozen=True, slots=True)
class RowIdsReassigned:
    """What became of the row ids."""

    previous_snapshot_id: int
    new_snapshot_id: int | None
    """None where nothing was done."""
    files: int
    rows: int
    first_row_id: int
    """The first new id; the next one to be given where nothing was done."""
    next_row_id: int
    reason: str = ""
    """Why nothing was done."""

    def message(self, table: str) -> str:
        """What Java's procedure answers."""
        if self.new_snapshot_id is None:
            return (
                f"Skipped. Row IDs for table '{table}' were not reassigned because {self.reason}: "
                f"snapshot {self.previous_snapshot_id} unchanged, nextRowId={self.next_row_id}."
            )
        return (
            f"Success. Reassigned row IDs for table '{table}': snapshot {self.previous_snapshot_id} -> "
            f"{self.new_snapshot_id}, nextRowId {self.first_row_id} -> {self.next_row_id}, files={self.files}, "
            f"rows={self.rows}, indexFiles=0."
        )


def reassign_row_ids(table: FileStoreTable, partitions: Predicate | None = None) -> RowIdsReassigned:
    """Give the rows of scattered partitions new ids, next to each other. Runs on the driver.

    Args:
        table: the branch.
        partitions: a condition over partition columns; all without.

    Raises:
        OptionError: the table has no data evolution, or no snapshot.
        UnsupportedError: a global index holds ids, or a file holds them itself.
        CommitConflictError: other commits were faster every time; nothing was changed.
    """
    for key, wanted in (
        ("row-tracking.enabled", table.options.row_tracking_enabled),
        ("data-evolution.enabled", table.schema.kind.has_data_evolution),
    ):
        if not wanted:
            raise OptionError(f"Table '{table.path}' must enable '{key}=true' before reassigning row IDs.")
    done: list[RowIdsReassigned] = []  # the last is that of the last attempt

    def state(latest: Snapshot) -> WholeState:
        result, live = _reassigned(table, latest, partitions)
        done.append(result)
        if result.new_snapshot_id is None:
            raise _NothingToDoError
        return WholeState(latest, live, [], result.next_row_id)

    if table.snapshots.latest_to_follow() is None:
        raise OptionError(f"Cannot reassign row IDs for empty table '{table.path}'.")
    try:
        commit_state(table, f"{_USER}_{uuid.uuid4()}", state)
    except _NothingToDoError:
        pass
    except CommitConflictError as error:
        raise CommitConflictError(
            f"Failed to reassign row IDs because a newer snapshot has been committed: {error}"
        ) from error
    return done[-1]


class _NothingToDoError(Exception):
    """No row gets another id."""


def _reassigned(
    table: FileStoreTable, latest: Snapshot, partitions: Predicate | None
) -> tuple[RowIdsReassigned, list[ManifestEntry]]:
    """Return what becomes of the row ids after a snapshot, and all files with their new ones."""
    start = latest.next_row_id or 0
    unchanged = RowIdsReassigned(latest.id, None, 0, 0, start, start)
    if not table.schema.partition_keys:
        return replace(unchanged, reason="table is not partitioned"), []
    live = list(table.manifests.live_entries(latest))
    chosen = {entry.partition for entry in table.manifests.live_entries(latest, predicate=partitions)}
    given, next_row_id = _new_ids(table, latest, live, chosen, start)
    if not given:
        return replace(unchanged, reason="no partition requires row-id reassignment"), []
    entries = [
        entry if at not in given else replace(entry, file=replace(entry.file, first_row_id=given[at]))
        for at, entry in enumerate(live)
    ]
    rows = next_row_id - start
    return RowIdsReassigned(latest.id, latest.id + 1, len(given), rows, start, next_row_id), entries


def _new_ids(
    table: FileStoreTable, latest: Snapshot, live: list[ManifestEntry], chosen: set[bytes], start: int
) -> tuple[dict[int, int], int]:
    """Return the new first row ids by the position of the file, and the next id after all of them."""
    by_partition: dict[bytes, list[int]] = {}
    for at, entry in enumerate(live):
        if entry.partition in chosen:
            by_partition.setdefault(entry.partition, []).append(at)
    scattered: dict[bytes, list[list[int]]] = {}
    for partition, positions in by_partition.items():
        files = [live[at].file for at in positions]
        groups = row_range_groups([file.first_row_id for file in files], [file.row_count for file in files])
        locations = [[positions[number] for number in group] for group in groups]
        ranges = [_range(live, group) for group in locations]
        if any(one[1] != other[0] for one, other in pairwise(ranges)):
            scattered[partition] = locations
    _check(table, latest, (live[at] for groups in scattered.values() for group in groups for at in group), scattered)
    layout = DataLayout.of(table.schema)
    given: dict[int, int] = {}
    offset = start
    for partition in sorted(scattered, key=lambda one: _order(layout, one)):
        for group in scattered[partition]:
            first, end = _range(live, group)
            for at in group:
                given[at] = offset + (live[at].file.first_row_id or 0) - first
            offset += end - first
    return given, offset


def _range(live: list[ManifestEntry], group: Iterable[int]) -> tuple[int, int]:
    """The first row id of files that hold columns of the same rows, and the one behind the last."""
    files = [live[at].file for at in group]
    firsts = [file.first_row_id for file in files if file.first_row_id is not None]
    if len(firsts) < len(files):
        raise CorruptTableError("A data file of a table with data evolution has no first row id.")
    return min(firsts), max(first + file.row_count for first, file in zip(firsts, files, strict=True))


def _order(layout: DataLayout, partition: bytes) -> list[tuple[bool, object]]:
    """A key by which partitions are sorted as Java sorts them: nulls first."""
    return [(value is not None, 0 if value is None else value) for value in layout.partition_values(partition)]


def _check(
    table: FileStoreTable, latest: Snapshot, entries: Iterable[ManifestEntry], partitions: Iterable[bytes]
) -> None:
    """Refuse files and indexes that hold ids themselves."""
    for entry in entries:
        if ROW_ID.name in (entry.file.write_cols or ()):
            raise UnsupportedError(
                f"Cannot reassign row IDs for file '{entry.file.file_name}' because it physically stores the row-id "
                "field."
            )
    changed = set(partitions)
    for index in table.manifests.index_entries(latest) if changed else ():
        if index.global_index is not None and index.partition in changed:
            raise UnsupportedError(
                f"Global index file {index.file_name} of table {table.path} holds row IDs, which cannot be reassigned "
                "here: drop the index first, or use another Paimon engine."
            )
