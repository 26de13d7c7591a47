"""What a commit stamps on new files: row ids, and snapshot ids as sequence numbers.

Equals Java's ``RowTrackingCommitUtils`` (docs/internals/format.md §12) and ``stampSequenceWithSnapshotId`` (§7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from paimon_spark.errors import CommitError
from paimon_spark.spec.file_names import is_blob_file, is_vector_file
from paimon_spark.spec.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry

_ROW_ID = "_ROW_ID"


def with_row_ids(
    entries: Iterable[ManifestEntry], *, snapshot_id: int, next_row_id: int, by_partition: bool = False
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Give new files of a row-tracking table their sequence numbers and first row ids.

    Args:
        entries: the files of the snapshot, in their order.
        snapshot_id: id of the snapshot to be.
        next_row_id: the latest snapshot's ``nextRowId``.
        by_partition: files of a partition get ids next to each other (``row-tracking.partition-group-on-commit``).

    Returns:
        The stamped entries, and the new ``nextRowId``.

    Raises:
        CommitError: a blob file does not follow the file with the other columns of its rows.
    """
    if by_partition:
        groups: dict[bytes, list[ManifestEntry]] = {}
        for entry in entries:
            groups.setdefault(entry.partition, []).append(entry)
        entries = chain.from_iterable(groups.values())
    stamped = []
    of_last = next_row_id
    companion_starts: dict[tuple[str, ...] | None, int] = {}
    for entry in entries:
        file = _with_snapshot_sequence(entry.file, snapshot_id)
        has_row_ids = file.first_row_id is not None or _ROW_ID in (file.write_cols or ())
        if file.file_source == FileSource.APPEND and not has_row_ids:
            if is_blob_file(file.file_name) or is_vector_file(file.file_name):  # the rows of the file before it
                start = companion_starts.get(file.write_cols, of_last)
                companion_starts[file.write_cols] = start + file.row_count
                if start + file.row_count > next_row_id:
                    raise CommitError(f"File {file.file_name} has no rows before it to which its values belong.")
                file = replace(file, first_row_id=start)
            else:
                file = replace(file, first_row_id=next_row_id)
                of_last, companion_starts = next_row_id, {}
                next_row_id += file.row_count
        stamped.append(replace(entry, file=file))
    return tuple(stamped), next_row_id


def _with_snapshot_sequence(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    if file.max_sequence_number == 0:
        return replace(file, max_sequence_number=snapshot_id)
    return file


def with_snapshot_sequences(entries: Sequence[ManifestEntry], *, snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Set the sequence numbers of added files to the snapshot's id (``sequence.snapshot-ordering``, not in COMPACT)."""
    return tuple(
        replace(entry, file=replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id))
        if entry.kind == FileKind.ADD
        else entry
        for entry in entries
    )
