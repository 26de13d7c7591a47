"""Units of reading: the files of one bucket that one task reads, as plain values.

Equals Java's ``DataSplit`` in meaning, not in bytes: a split never leaves this package's own processes. It carries no
statistics, and a split of some files pickles to little more than the file names.

Two states are compared by splits of files that only one of them has, of one bucket or of buckets that were rescaled
(Java's ``IncrementalSplit`` of a batch read).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from paimon_spark.read.packed_files import from_wire, to_wire
from paimon_spark.spec.file_names import data_file_format
from paimon_spark.table.deletion_vectors import VectorLocation
from paimon_spark.table.file_indexes import IndexLocation

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.manifest_columns import ManifestColumns

_NUMBERS = (
    "file_size", "row_count", "level", "min_sequence_number", "max_sequence_number", "schema_id", "delete_row_count",
)  # fmt: skip
_KEYS = ("min_key", "max_key")
"""What a `SplitFile` takes over from `DataFileMeta`, in its own order; in manifests ``_FILE_SIZE`` and so on."""


class SplitFile(NamedTuple):
    """One data file of a split."""

    name: str
    directory: str
    """Where it lies, with a slash at the end; the files of a bucket share one object."""
    format: str
    """Identifier of the file format: ``parquet``, ``orc``, ``avro``."""
    size: int
    """Bytes."""
    row_count: int
    """Rows of the file: adds and deletes."""
    level: int
    min_seq: int
    max_seq: int
    schema_id: int
    delete_row_count: int | None
    """Retract rows of the file; None when unknown (old files), which counts as none like in Java."""
    min_key: bytes = b""
    """Serialized BinaryRow of the trimmed primary key; empty in raw splits, which have no use for it."""
    max_key: bytes = b""
    row_groups: tuple[int, int] | None = None
    """(i, n): only the i-th (from 0) of n equal slices of the file's row groups; None is the whole file.

    Slices are shares, not numbers of row groups, so that planning opens no data file; `row_count` and `size` stay those
    of the whole file.
    """

    first_row_id: int | None = None
    """Id of the file's first row in tables with row tracking; None where its rows have their ids as a column."""

    write_cols: tuple[str, ...] | None = None
    """Columns of the file's schema that it holds, and those of row tracking; None: all of the schema."""
    deletion_vector: VectorLocation | None = None
    """Where the positions of the file's deleted rows are; None where it has none."""
    file_index: IndexLocation | None = None
    """Where the file's indexes are, if they leave only some rows for the predicate of the read; else None."""
    created_millis: int = 0
    """Of a file of level 0 with keys its recorded creation time, which follows the order of commits; else 0."""

    @classmethod
    def of(cls, file: DataFileMeta, path: str) -> SplitFile:
        """Describe a file of a manifest that lies at a path."""
        taken = (getattr(file, name) for name in (*_NUMBERS, *_KEYS))
        name = file.file_name
        more = file.first_row_id, file.write_cols
        created = _created_at_level_0(file.level, file.creation_time_millis)
        return cls._make(
            (name, path.removesuffix(name), data_file_format(name), *taken, None, *more, None, None, created)
        )

    @classmethod
    def of_columns(cls, files: ManifestColumns, directories: Sequence[str], *, has_keys: bool) -> list[SplitFile]:
        """Describe many files of manifests by their directories, in the same order; without keys, keys are empty."""
        names = files.file_names
        numbers = [files.file_values(f"_{name.upper()}") for name in _NUMBERS]
        keys = [files.file_values(f"_{name.upper()}") if has_keys else repeat(b"") for name in _KEYS]
        first_row_ids, write_cols = files.file_values("_FIRST_ROW_ID"), files.file_values("_WRITE_COLS")
        formats = map(data_file_format, names)
        known = (*numbers, *keys, repeat(None), first_row_ids, write_cols)
        if not has_keys:
            return list(map(cls, names, directories, formats, *known))
        created = map(_created_at_level_0, files.file_values("_LEVEL"), files.file_values("_CREATION_TIME"))
        return list(map(cls, names, directories, formats, *known, repeat(None), repeat(None), created))

    @property
    def path(self) -> str:
        """Where the file is, with its name."""
        return self.directory + self.name

    @property
    def share(self) -> int:
        """How many equal slices the file is cut into; 1 for a whole file."""
        return 1 if self.row_groups is None else self.row_groups[1]

    @property
    def kept_rows(self) -> int | None:
        """Rows of the whole file that are not deleted by its vector; None where the vector does not say."""
        if self.deletion_vector is None:
            return self.row_count
        deleted = self.deletion_vector.cardinality
        return None if deleted is None else self.row_count - deleted


def _created_at_level_0(level: int, millis: int | None) -> int:
    return 0 if level else millis or 0


@dataclass(frozen=True, slots=True)
class DataSplit:
    """Files of one (partition, bucket) of one snapshot that are read together."""

    snapshot_id: int
    partition: bytes
    """Serialized BinaryRow of the partition values."""
    bucket: int
    total_buckets: int
    files: Sequence[SplitFile]
    """A tuple, or what is equal to it: files of a large plan are packed."""
    raw_convertible: bool
    """The files are read one after the other, with no merging and no deletes to drop."""
    branch: str | None = None
    """The other branch of a read of two (see `tags`); None is the plan's own."""

    @property
    def row_count(self) -> int:
        """Rows of the files that no vector deletes, before merging and filters; of a sliced file its share."""
        return sum((file.row_count if (kept := file.kept_rows) is None else kept) // file.share for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files; of a sliced file its share."""
        return sum(file.size // file.share for file in self.files)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as columns; what files share is written once."""
        position = self.partition, self.bucket, self.total_buckets
        head = (self.snapshot_id, *position, self.raw_convertible, self.branch)
        return _restored_split, (*head, *to_wire(self.files))


def _restored_split(*values: Any) -> DataSplit:
    snapshot_id, partition, bucket, total_buckets, raw_convertible, branch, count, columns = values
    restored = tuple(map(SplitFile._make, from_wire(count, columns)))
    return DataSplit(snapshot_id, partition, bucket, total_buckets, restored, raw_convertible, branch)


@dataclass(frozen=True, slots=True)
class DiffSplit(DataSplit):
    """Files of both states, those of `before` first."""

    before_counts: tuple[int, ...] = ()
    """How many of the files belong to each bucket of the earlier state."""
    after_counts: tuple[int, ...] = ()
    """How many of the rest belong to each bucket of the later state."""

    @property
    def before(self) -> list[Sequence[SplitFile]]:
        """Files of the earlier state, by bucket."""
        return self._parts()[: len(self.before_counts)]

    @property
    def after(self) -> list[Sequence[SplitFile]]:
        """Files of the later state, by bucket."""
        return self._parts()[len(self.before_counts) :]

    def _parts(self) -> list[Sequence[SplitFile]]:
        ends = [0, *accumulate((*self.before_counts, *self.after_counts))]
        return [self.files[start:end] for start, end in pairwise(ends)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split and the counts."""
        restore, arguments = DataSplit.__reduce__(self)
        return _restored, (restore(*arguments), self.before_counts, self.after_counts)


def _restored(split: DataSplit, before: tuple[int, ...], after: tuple[int, ...]) -> DiffSplit:
    position = split.partition, split.bucket, split.total_buckets
    return DiffSplit(split.snapshot_id, *position, split.files, False, split.branch, before, after)
