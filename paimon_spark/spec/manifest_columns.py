"""Entries of many manifests as columns, for planning: entries are built only for the files that are kept.

Runs on the driver when a read or a commit is planned, over up to some 100,000 files: a number takes 8 bytes, equal
values are shared, and statistics are left out unless they are asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from sys import getsizeof
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from paimon_spark.spec.manifest import DataFileMeta, FileChange, FileKind, ManifestEntry, Record, SimpleStats

Identity = tuple[Any, ...]
"""Identity of a data file in a snapshot."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A column in which all entries have one value, such as the columns that a writer never fills."""

    value: Any


Values = list[Any] | npt.NDArray[Any] | Constant
"""A column: required numbers as an array or one value, all else as a list or one value."""


_SAMPLE = 20


def _column(values: list[Any]) -> Values:
    return Constant(values[0]) if values and values.count(values[0]) == len(values) else values


def _is_equal(column: Values, one: Constant) -> bool:
    return isinstance(column, Constant) and column == one


ENTRY_FIELDS = ("_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")
"""Avro keys of an entry's own values."""

NUMBERS: Mapping[str, type[np.signedinteger[Any]]] = {
    "_KIND": np.int8,
    "_BUCKET": np.int32,
    "_TOTAL_BUCKETS": np.int32,
    "_FILE_SIZE": np.int64,
    "_ROW_COUNT": np.int64,
    "_MIN_SEQUENCE_NUMBER": np.int64,
    "_MAX_SEQUENCE_NUMBER": np.int64,
    "_SCHEMA_ID": np.int64,
    "_LEVEL": np.int32,
}
"""Avro keys of the numbers that every entry has."""

TUPLES = ("_EXTRA_FILES", "_VALUE_STATS_COLS", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES")
"""Avro keys of arrays; their values are tuples or None."""

STATISTICS = ("_KEY_STATS", "_VALUE_STATS")
STATISTICS_PARTS = ("_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS")

FILE_FIELDS = (
    "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY", "_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER",
    "_SCHEMA_ID", "_LEVEL", "_EXTRA_FILES", "_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX",
    "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES",
)  # fmt: skip
"""Avro keys of a data file's values; those that old files lack are None. Their order is `DataFileMeta`'s, whose
statistics come behind the keys."""

_KEYS_END = FILE_FIELDS.index("_MAX_KEY") + 1


_Number = TypeVar("_Number", bound=np.generic)


class _Numbers(Generic[_Number]):
    """An attribute that is the numbers under an Avro key."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get__(self, columns: ManifestColumns, owner: type) -> npt.NDArray[_Number]:
        return columns._numbers(self._key)


class ManifestColumns(Sequence[ManifestEntry]):
    """Decoded entries, column by column.

    It is a sequence of `ManifestEntry`; indexing builds one. Select with `take` and `filter` before building many.
    """

    kinds = _Numbers[np.int8]("_KIND")
    """`FileKind` of each entry."""
    buckets = _Numbers[np.int32]("_BUCKET")
    """Bucket of each entry."""
    total_buckets = _Numbers[np.int32]("_TOTAL_BUCKETS")
    """Bucket count of each entry's partition when it was written."""
    file_sizes = _Numbers[np.int64]("_FILE_SIZE")
    """Size of each data file in bytes."""
    row_counts = _Numbers[np.int64]("_ROW_COUNT")
    """Rows of each data file."""
    levels = _Numbers[np.int32]("_LEVEL")
    """Level of each data file."""
    schema_ids = _Numbers[np.int64]("_SCHEMA_ID")
    """Schema id of each data file."""
    max_sequence_numbers = _Numbers[np.int64]("_MAX_SEQUENCE_NUMBER")
    """Greatest sequence number of each data file."""

    def __init__(self, values: Mapping[str, Values], count: int) -> None:
        """Take columns as they are.

        Args:
            values: by Avro key; of statistics by `_KEY_STATS._MIN_VALUES` and so on, or without them.
            count: how many entries there are.
        """
        self._values = values
        self._count = count

    @classmethod
    def from_records(cls, records: Sequence[Record], *, statistics: bool = True) -> ManifestColumns:
        """Turn decoded Avro records into columns.

        Raises:
            OverflowError: a number is beyond its type.
        """
        files = [record["_FILE"] for record in records]
        found: dict[str, list[Any]] = {name: [record[name] for record in records] for name in ENTRY_FIELDS}
        found.update({name: [file.get(name) for file in files] for name in FILE_FIELDS})
        for name in TUPLES:
            found[name] = [None if value is None else tuple(value) for value in found[name]]
        values = {
            name: np.array(column, dtype=NUMBERS[name]) if name in NUMBERS else _column(column)
            for name, column in found.items()
        }
        for name in STATISTICS if statistics else ():
            stats = [file[name] for file in files]
            for part in STATISTICS_PARTS[:2]:
                values[f"{name}.{part}"] = [each[part] for each in stats]
            values[f"{name}.{STATISTICS_PARTS[2]}"] = [tuple(each.get(STATISTICS_PARTS[2]) or ()) for each in stats]
        return cls(values, len(records))

    @classmethod
    def concat(cls, parts: Sequence[ManifestColumns]) -> ManifestColumns:
        """Join the entries of several manifests in their order; all with statistics, or all without."""
        if not parts:
            return cls.from_records(())
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        values: dict[str, Values] = {}
        for name, first in parts[0]._values.items():
            if isinstance(first, Constant) and all(_is_equal(part._values[name], first) for part in parts):
                values[name] = first
            elif name in NUMBERS or isinstance(first, np.ndarray):
                values[name] = np.concatenate([part._numbers(name) for part in parts])
            else:
                values[name] = list(itertools.chain.from_iterable(part._list(name) for part in parts))
        return cls(values, sum(map(len, parts)))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            size = len(range(*index.indices(self._count)))
            values = {
                name: column if isinstance(column, Constant) else column[index] for name, column in self._values.items()
            }
            return ManifestColumns(values, size)
        return next(iter(self.take([index])))

    def __iter__(self) -> Iterator[ManifestEntry]:
        own = [self._list(name) for name in ENTRY_FIELDS]
        of_file = [self._list(name) for name in FILE_FIELDS]
        rows = zip(*of_file[:_KEYS_END], self.key_stats, self.value_stats, *of_file[_KEYS_END:], strict=True)
        for kind, partition, bucket, total, file in zip(*own, rows, strict=True):
            yield ManifestEntry(FileKind(kind), partition, bucket, total, DataFileMeta(*file))

    def take(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> ManifestColumns:
        """Select entries by position."""
        at = np.asarray(indices, dtype=np.int64)
        positions = at.tolist()
        pick = (
            itemgetter(*positions)
            if len(positions) > 1
            else lambda column: [column[position] for position in positions]
        )
        values: dict[str, Values] = {}
        for name, column in self._values.items():
            if isinstance(column, Constant):
                values[name] = column
            else:
                values[name] = column[at] if isinstance(column, np.ndarray) else list(pick(column))
        return ManifestColumns(values, len(positions))

    def filter(self, mask: npt.NDArray[np.bool_]) -> ManifestColumns:
        """Select the entries where the mask is true (shape: one bool per entry)."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def without_statistics(self) -> ManifestColumns:
        """Return the same entries without statistics of keys and values, which are most of the memory."""
        kept = {name: column for name, column in self._values.items() if not name.startswith(STATISTICS)}
        return ManifestColumns({**kept, "_VALUE_STATS_COLS": self._values["_VALUE_STATS_COLS"]}, self._count)

    def read_only(self) -> ManifestColumns:
        """Return the same entries, whose numbers can be changed no more: they are shared."""
        for column in self._values.values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        return self

    def shared(self) -> ManifestColumns:
        """Return the same entries, which keep what is derived of them to themselves."""
        return ManifestColumns(self._values, self._count)

    @property
    def estimated_bytes(self) -> int:
        """About what the entries take, by some of them."""
        every = max(1, self._count // _SAMPLE)
        size = 0
        for column in self._values.values():
            if isinstance(column, np.ndarray):
                size += column.itemsize
            elif isinstance(column, list) and column:
                some = column[::every]
                size += 8 + sum(map(getsizeof, some)) // len(some)
        return size * self._count

    def with_mask(self, name: str, mask: npt.NDArray[np.bool_]) -> ManifestColumns:
        """Return the same entries with a mask over them; `mask` gives it back."""
        return ManifestColumns({**self._values, name: mask}, self._count)

    def mask(self, name: str) -> npt.NDArray[np.bool_]:
        """Return what `with_mask` was given, for the entries that are left."""
        return np.asarray(self._values[name], dtype=bool)

    def has_mask(self, name: str) -> bool:
        """Whether the entries have a mask of this name."""
        return name in self._values

    def has_one_value(self, name: str) -> bool:
        """Whether all entries are known to have the same value under an Avro key."""
        return isinstance(self._values[name], Constant)

    def live(self) -> ManifestColumns:
        """Return the ADD entries that no DELETE entry names, in order (Java: ``readAndMergeFileEntries``)."""
        return self.without(self.deleted()) if self.kinds.any() else self

    def deleted(self) -> set[Identity]:
        """Return what the DELETE entries name, for `without`."""
        at = np.flatnonzero(self.kinds)
        return set(self.take(at).identities()) if len(at) else set()

    def revived(self, deleted: Set[Identity] = frozenset()) -> set[Identity]:
        """Return the files that are deleted and then added again, in this order, so that readers miss them."""
        deletes = np.flatnonzero(self.kinds)
        if not deleted and not len(deletes):
            return set()
        first = 0 if deleted else int(deletes[0])
        names = {identity[0] for identity in deleted} | {self.file_names[at] for at in deletes}
        suspects = [at for at, name in enumerate(self.file_names[first:], first) if name in names]
        found, gone = set[Identity](), set[Identity]()
        for kind, identity in zip(self.kinds[suspects], self.take(suspects).identities(), strict=True):
            if kind:
                gone.add(identity)
                found.discard(identity)
            elif identity in gone or identity in deleted:
                found.add(identity)
        return found

    def without(self, deleted: Set[Identity]) -> ManifestColumns:
        """Return the ADD entries of files that are not among the deleted ones, in order."""
        if not deleted and not self.kinds.any():
            return self
        names = {identity[0] for identity in deleted}
        keep = self.kinds == FileKind.ADD
        suspects = [i for i, name in enumerate(self.file_names) if name in names]
        if suspects:
            keep[suspects] &= [identity not in deleted for identity in self.take(suspects).identities()]
        return self.filter(keep)

    def identities(self) -> Iterator[Identity]:
        """What tells the file of each entry from others."""
        names = (
            "_FILE_NAME",
            "_PARTITION",
            "_BUCKET",
            "_LEVEL",
            "_EXTRA_FILES",
            "_EMBEDDED_FILE_INDEX",
            "_EXTERNAL_PATH",
        )
        return zip(*(self._list(name) for name in names), strict=True)

    def changes(self) -> list[FileChange]:
        """Return the identity of each entry's file."""
        names = (
            "_KIND", "_FILE_NAME", "_PARTITION", "_BUCKET", "_CREATION_TIME", "_FILE_SOURCE", "_EXTRA_FILES",
            "_EXTERNAL_PATH",
        )  # fmt: skip
        return list(map(FileChange._make, zip(*(self._list(name) for name in names), strict=True)))

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        column = self._values[name]
        if isinstance(column, Constant):
            return np.broadcast_to(np.array(column.value, dtype=NUMBERS[name]), self._count)
        return np.asarray(column)

    def _list(self, name: str) -> list[Any]:
        column = self._values[name]
        if isinstance(column, Constant):
            return [column.value] * self._count
        return column.tolist() if isinstance(column, np.ndarray) else column

    def file_values(self, name: str) -> list[Any]:
        """Values of one field of the data files by its Avro key; None where an old file lacks it."""
        return self._list(name)

    @property
    def partitions(self) -> list[bytes]:
        """Partition bytes of each entry."""
        return self._list("_PARTITION")

    @property
    def file_names(self) -> list[str]:
        """Name of each data file."""
        return self._list("_FILE_NAME")

    @cached_property
    def value_stats(self) -> list[SimpleStats]:
        """Value statistics of each data file; `stats.evolve_stats` decodes them for many files at once."""
        return self._statistics("_VALUE_STATS")

    @cached_property
    def key_stats(self) -> list[SimpleStats]:
        """Key statistics of each data file."""
        return self._statistics("_KEY_STATS")

    def _statistics(self, name: str) -> list[SimpleStats]:
        return list(map(SimpleStats, *(self._list(f"{name}.{part}") for part in STATISTICS_PARTS)))
