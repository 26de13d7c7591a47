"""One step of the compaction of a table with data evolution: files of some columns become files of all of them.

Equals Java's ``DataEvolutionCompactTask``: files that hold columns of the same rows are put together, with small
neighbours, into one file whose rows keep their ids. Files of BLOB and VECTOR columns stay. Deleted rows keep their
places, and the new file gets their deletion vectors (``DataEvolutionCompactDeletionVectorRewriter``). No data file is
opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.maintain.compact.rewrite import DataEvolutionRows, Rewrite
from paimon_spark.maintain.compact.step import BucketFiles, CompactStep, split_files
from paimon_spark.read.data_evolution import columns_of, holds_part, row_range_groups
from paimon_spark.spec.data_types import VectorType

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable


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
