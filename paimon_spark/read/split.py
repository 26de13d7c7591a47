"""Units of reading: the files of one bucket that one task reads, as plain values.

Equals Java's ``DataSplit`` in meaning, not in bytes: a split never leaves this package's own processes. It carries no
statistics, and a split of some files pickles to little more than the file names.

The files are columns, in the memory of the driver, where a plan of a million files that held an object for each of
their values would take half a gigabyte, and on the way of a split to its task.

Two states are compared by splits of files that only one of them has, of one bucket or of buckets that were rescaled
(Java's ``IncrementalSplit`` of a batch read).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from paimon_spark.spec.file_names import data_file_format
from paimon_spark.spec.manifest_columns import Constant
from paimon_spark.spec.predicate import Leaf, Predicate, all_of
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


class RowGroups(NamedTuple):
    """Some of the row groups of a file, in order: equal slices of them, or those of a Parquet file that are named.

    Slices are shares, not numbers of row groups, so that planning opens no data file.
    """

    first: int
    """The first slice, from 0."""
    end: int
    """The slice after the last one."""
    of: int
    """How many slices there are: as many as row groups where `start_byte` is given."""
    start_byte: int | None = None
    """Where the first of the row groups begins, as far as known."""
    end_byte: int | None = None

    def indexes(self, count: int) -> range:
        """Which of ``count`` row groups these are."""
        return range(count * self.first // self.of, count * self.end // self.of)

    def share(self, amount: int) -> int:
        """The share of an amount of the whole file."""
        return amount * (self.end - self.first) // self.of


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
    row_groups: RowGroups | None = None
    """Only these; None is the whole file. `row_count`, `size` and keys stay those of the whole file."""

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

    def share(self, amount: int) -> int:
        """The share of its row groups in an amount of the whole file."""
        return amount if self.row_groups is None else self.row_groups.share(amount)

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
        return sum(file.share(file.row_count if (kept := file.kept_rows) is None else kept) for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files; of a sliced file its share."""
        return sum(file.share(file.size) for file in self.files)

    def with_files(self, files: Sequence[SplitFile]) -> DataSplit:
        """The same split of other files; of a `DataSplit` itself faster than `replace`."""
        head = self.snapshot_id, self.partition, self.bucket, self.total_buckets
        return DataSplit(*head, files, self.raw_convertible, self.branch)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as columns; what files share is written once."""
        position = self.partition, self.bucket, self.total_buckets
        head = (self.snapshot_id, *position, self.raw_convertible, self.branch)
        return _restored_split, (*head, *to_wire(self.files))


def _restored_split(*values: Any) -> DataSplit:
    snapshot_id, partition, bucket, total_buckets, raw_convertible, branch, count, columns = values
    restored = tuple(map(SplitFile._make, from_wire(count, columns)))
    return DataSplit(snapshot_id, partition, bucket, total_buckets, restored, raw_convertible, branch)


def splits_to_wire(splits: Sequence[DataSplit]) -> tuple[Any, ...]:
    """Return what the splits of a task pickle: of plain ones columns, which take less than a record for each split."""
    if len(splits) < 2 or any(type(split) is not DataSplit for split in splits):
        return tuple(splits)
    heads = [
        (s.snapshot_id, s.partition, s.bucket, s.total_buckets, s.raw_convertible, s.branch, len(s.files))
        for s in splits
    ]
    files = [file for split in splits for file in split.files]
    return to_wire(heads), to_wire(files)


def splits_from_wire(wire: tuple[Any, ...]) -> tuple[DataSplit, ...]:
    """Return the splits of `splits_to_wire`."""
    if not wire or isinstance(wire[0], DataSplit):
        return wire
    heads, files = from_wire(*wire[0]), map(SplitFile._make, from_wire(*wire[1]))
    return tuple(
        DataSplit(snapshot_id, partition, bucket, total_buckets, tuple(islice(files, count)), raw, branch)
        for snapshot_id, partition, bucket, total_buckets, raw, branch, count in heads
    )


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


@dataclass(frozen=True, slots=True)
class KeyRangeSplit(DataSplit):
    """The rows of a split, all of its files or some row groups of them, whose key is in a range."""

    key: str = ""
    """The first column of the primary key, without columns of the partition."""
    low: Any = None
    """Its least value; None for all."""
    high: Any = None
    """The value that all of them are below; None for all."""

    @property
    def condition(self) -> Predicate | None:
        """What is true of its rows."""
        bounds = (("ge", self.low), ("lt", self.high))
        leaves = [Leaf(name, self.key, (value,)) for name, value in bounds if value is not None]
        return all_of(leaves) if leaves else None

    @classmethod
    def of(cls, split: DataSplit, files: Sequence[SplitFile], key: str, low: Any, high: Any) -> KeyRangeSplit:
        """The part of a split, in these files."""
        position = split.partition, split.bucket, split.total_buckets
        return cls(split.snapshot_id, *position, files, split.raw_convertible, split.branch, key, low, high)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain split and the range."""
        restore, arguments = DataSplit.__reduce__(self)
        return _restored_range, (restore(*arguments), self.key, self.low, self.high)


def _restored_range(split: DataSplit, key: str, low: Any, high: Any) -> KeyRangeSplit:
    return KeyRangeSplit.of(split, split.files, key, low, high)


_File = TypeVar("_File", bound=tuple[Any, ...])
"""A file as a named tuple: `split.SplitFile`."""
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_BYTES = 16
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_BETWEEN = "/"
"""Stands between names of files: none has it."""

_Column = Constant | tuple[Any, ...] | npt.NDArray[Any]
WireColumn = tuple[Any, ...] | list[Any]
"""A tuple of the values, of one if they are equal; a list of the parts of names or keys."""


class FileBlock(Generic[_File]):
    """The files of neighbouring splits, column by column; they are made again while somebody looks at them."""

    __slots__ = ("_columns", "_count", "_make")
    _shown: tuple[FileBlock[Any], list[Any]] | None = None
    """The block that was looked at last: splits are looked at in their order."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._make: Any = type(files[0])._make  # type: ignore[attr-defined]
        self._count = len(files)
        self._columns = tuple(map(_column, zip(*files, strict=True)))

    def files(self) -> list[_File]:
        """Return all files of the block."""
        shown = FileBlock._shown
        if shown is None or shown[0] is not self:
            columns = (_values(column, self._count) for column in self._columns)
            shown = FileBlock._shown = self, list(map(self._make, zip(*columns, strict=True)))
        return shown[1]


class PackedFiles(Sequence[_File]):
    """The files of one split, which lie in a block; equal to a tuple of the same files."""

    __slots__ = ("_block", "_count", "_start")

    def __init__(self, block: FileBlock[_File], start: int, count: int) -> None:
        self._block, self._start, self._count = block, start, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _File: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_File, ...]: ...
    def __getitem__(self, index: int | slice) -> _File | tuple[_File, ...]:
        return self._tuple()[index]

    def __iter__(self) -> Iterator[_File]:
        return iter(self._tuple())

    def __eq__(self, other: object) -> bool:
        return self._tuple() == (other._tuple() if isinstance(other, PackedFiles) else other)

    def __hash__(self) -> int:
        return hash(self._tuple())

    def __repr__(self) -> str:
        return repr(self._tuple())

    def _tuple(self) -> tuple[_File, ...]:
        return tuple(self._block.files()[self._start : self._start + self._count])


def _column(values: tuple[Any, ...]) -> _Column:
    if values.count(values[0]) == len(values):
        return Constant(values[0])
    fits = all(type(value) is int and _LEAST <= value <= _GREATEST for value in values)
    return np.array(values, dtype=np.int64) if fits else values


def _values(column: _Column, count: int) -> Sequence[Any] | repeat[Any]:
    if isinstance(column, Constant):
        return [column.value] * count
    return column.tolist() if isinstance(column, np.ndarray) else column


def to_wire(files: Sequence[_File]) -> tuple[int, tuple[WireColumn, ...]]:
    """Return what a split pickles of its files: their number and columns, with names and keys made short."""
    columns = zip(*files, strict=True)
    return len(files), tuple(map(_to_wire, columns))


def from_wire(count: int, columns: Sequence[WireColumn]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each file."""
    return zip(*(_from_wire(column, count) for column in columns), strict=True)


def _to_wire(values: tuple[Any, ...]) -> WireColumn:
    first = values[0]
    if len(values) > 1 and values.count(first) == len(values):
        return values[:1]
    if isinstance(first, str):
        return _short_names(values) or _short(values)
    if isinstance(first, bytes) and first:
        return _short_keys(values) or _short(values)
    return _short(values)


def _short(values: tuple[Any, ...]) -> WireColumn:
    return values[:1] if values.count(values[0]) == len(values) else values


def _from_wire(column: WireColumn, count: int) -> Sequence[Any]:
    if isinstance(column, list):
        return _long_names(*column) if isinstance(column[0], str) else _long_keys(*column)
    return column * count if len(column) == 1 else column


def _short_names(names: Sequence[str]) -> list[Any] | None:
    """The parts of names with a UUID each: what comes before it, the UUIDs, what comes between, the common end."""
    found = _UUID.search(names[0])
    if found is None:
        return None
    start, end = found.span()
    before = names[0][:start]
    if not all(name.startswith(before) and _UUID.fullmatch(name, start, end) for name in names):
        return None
    ids = bytes.fromhex("".join([name[start:end] for name in names]).replace("-", ""))
    tails = [name[end:] for name in names]
    if any(_BETWEEN in tail for tail in tails):  # a directory
        return None
    backwards = [tail[::-1] for tail in tails]
    after = tails[0][len(tails[0]) - _common(min(backwards), max(backwards)) :]
    if ids == ids[:_UUID_BYTES] * len(names):
        ids = ids[:_UUID_BYTES]
    return [before, ids, _BETWEEN.join([tail[: len(tail) - len(after)] for tail in tails]), after]


def _long_names(before: str, ids: bytes, tails: str, after: str) -> list[str]:
    digits, names = ids.hex(), tails.split(_BETWEEN)
    texts = [
        f"{before}{digits[i : i + 8]}-{digits[i + 8 : i + 12]}-{digits[i + 12 : i + 16]}-{digits[i + 16 : i + 20]}-"
        f"{digits[i + 20 : i + 32]}"
        for i in range(0, len(digits), 2 * _UUID_BYTES)
    ]
    if len(texts) == 1:
        texts *= len(names)
    return [f"{text}{tail}{after}" for text, tail in zip(texts, names, strict=True)]


def _common(least: str | bytes, greatest: str | bytes) -> int:
    """How many characters all values between two begin with."""
    unequal = (i for i, (left, right) in enumerate(zip(least, greatest, strict=False)) if left != right)
    return next(unequal, min(len(least), len(greatest)))


def _short_keys(keys: Sequence[bytes]) -> list[Any] | None:
    """The parts of keys of one length: their common beginning, the rest of all of them, its length in each."""
    before = keys[0][: _common(min(keys), max(keys))]
    size = len(keys[0]) - len(before)
    if not size or not all(len(key) == len(keys[0]) for key in keys):
        return None
    return [before, b"".join([key[len(before) :] for key in keys]), size]


def _long_keys(before: bytes, rest: bytes, size: int) -> list[bytes]:
    return [before + rest[i : i + size] for i in range(0, len(rest), size)]
