"""Writing the rows anew that deletion vectors leave, in tables with data evolution; these rows get new ids.

Equals Java's ``DataEvolutionDeletionVectorMaterializeCoordinator``. Compaction keeps the positions of marked rows, and
their vectors; here the files are replaced. The commit is an OVERWRITE (Java: COMPACT): the ids of
rows change, so a concurrent change of these rows is a conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.commit.conflict_detection import RowsRead
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import run_again, undone_where_void
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.compact.compaction import Executor, check_compactable, rewrite_here
from paimon_spark.maintain.compact.rewrite import DataEvolutionRows, Rewrite
from paimon_spark.maintain.compact.step import BucketFiles, split_files
from paimon_spark.maintain.files.deletion import delete_written
from paimon_spark.read.sections import holds_part, row_range_groups
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.deletion_vectors import changed_vectors, delete_index_files
from paimon_spark.write.message import CommitMessage

if TYPE_CHECKING:
    from paimon_spark.maintain.compact.rewrite import RewriteResult
    from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_Bin = tuple[BucketFiles, tuple["DataFileMeta", ...]]


def materialize_deletion_vectors(
    table: FileStoreTable, partitions: Predicate | None = None, *, execute: Executor = rewrite_here
) -> int | None:
    """Replace the files with deleted rows by files without; return the id of the new snapshot. Runs on the driver.

    Args:
        table: with its dynamic options.
        partitions: a condition over partition columns; all without.
        execute: does the rewriting.

    Returns:
        None where no row is marked.

    Raises:
        UnsupportedError: the table has no data evolution, no deletion vectors, or the rows have BLOB or VECTOR files.
        CommitConflictError: other commits changed the same rows every time; nothing was changed.
    """
    options = table.options
    if not table.schema.kind.has_data_evolution:
        raise UnsupportedError(
            "Materializing deletion vectors only supports unaware-bucket data evolution tables: compact other tables."
        )
    if not options.deletion_vectors_enabled:
        raise UnsupportedError("Materializing deletion vectors requires deletion vectors to be enabled.")
    check_compactable(table)

    def attempt(snapshot: Snapshot | None) -> int | None:
        bins = [] if snapshot is None else _bins(table, snapshot, partitions)
        return None if snapshot is None or not bins else _replace(table, snapshot, bins, execute)

    return run_again(table, attempt)


def _bins(table: FileStoreTable, snapshot: Snapshot, partitions: Predicate | None) -> list[_Bin]:
    """Return the files that are replaced, as many together as make a file of the target size."""
    vectors = vectors_of(table, snapshot)
    locations: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in table.manifests.live_entries(snapshot, predicate=partitions):
        locations.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry)
    target = table.options.target_file_size_bytes(False)
    bins: list[_Bin] = []
    for location, entries in locations.items():
        files = tuple(entry.file for entry in entries)
        bucket = BucketFiles(*location, files, vectors)
        bin_files: list[DataFileMeta] = []
        groups = row_range_groups([file.first_row_id for file in files], [file.row_count for file in files])
        for group in ([files[at] for at in numbers] for numbers in groups):
            if not any(bucket.vector_of(file) is not None for file in group):
                continue
            if any(holds_part(file.file_name) for file in group):
                raise UnsupportedError(
                    f"Materializing deletion vectors of rows with BLOB or VECTOR files is not supported: "
                    f"{group[0].file_name} of table {table.path}."
                )
            if bin_files and _size(bin_files) + _size(group) > target:
                bins.append((bucket, tuple(bin_files)))
                bin_files = []
            bin_files += group
        bins += [(bucket, tuple(bin_files))] if bin_files else []
    return bins


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


def _replace(table: FileStoreTable, snapshot: Snapshot, bins: Sequence[_Bin], execute: Executor) -> int | None:
    """Write the rows of the files anew, and commit the new files in their place."""
    rewrites = []
    for bucket, bin_files in bins:
        low, high = min(f.min_sequence_number for f in bin_files), max(f.max_sequence_number for f in bin_files)
        section = tuple(split_files(table, bucket, bin_files))
        rows = DataEvolutionRows(None, low, high)
        rewrites.append(Rewrite(bucket.partition, bucket.bucket, 0, (section,), data_evolution=rows))
    dropped = {(bucket.partition, bucket.bucket, file.file_name) for bucket, bin_files in bins for file in bin_files}
    made: list[RewriteResult] = []
    index = changed_vectors(table, table.manifests.index_entries(snapshot), dropped=dropped)

    def discard() -> None:
        written = [(b.partition, b.bucket, f) for (b, _), r in zip(bins, made, strict=False) for f in r.written]
        delete_written(table, written)
        delete_index_files(table, index)

    try:
        made += execute(table, rewrites)
    except BaseException:
        discard()
        raise
    with undone_where_void(discard):
        messages = [
            CommitMessage(
                bucket.partition,
                bucket.bucket,
                bucket.total_buckets,
                result.files,
                deleted_files=bin_files,
                index_changes=index if number == 0 else (),
            )
            for number, ((bucket, bin_files), result) in enumerate(zip(bins, made, strict=True))
        ]
        ranges = [(file.first_row_id or 0, file.row_count) for _, bin_files in bins for file in bin_files]
        done = commit(
            table,
            messages,
            planned_on=SnapshotIdentity.of(snapshot),
            rows_read=True,
            of_rows=RowsRead.of(table.schema, ranges, None),
            after_commit=maintenance(table),
        )
    _LOG.info("Applied the deletion vectors of %d files of %s.", len(dropped), table.path)
    return done
