"""Which of some keys a snapshot has, bucket by bucket, and columns of their rows. The driver plans; tasks look up.

Only files and row groups within the range of the keys are read, and of them the key columns first. Other columns are
read within the range of the keys that were found.

Where the keys of a table live: each primary key of a snapshot with its partition and its bucket.

Equals Java's ``IndexBootstrap``, which reads the keys of all buckets. The driver plans; tasks read only keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_generator import generate_splits
from paimon_spark.read.split_read import partition_constants, read_split
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.predicate import Leaf, Predicate, all_of
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.snapshot_identity import snapshot_expiry_errors

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DateType)
_RANGED = (*_WHOLE, t.DecimalType, t.VarCharType)
_MEMORY_OF_FILES = 2
"""How much more memory rows take than their compressed files, at least."""
_MOST_LISTED = 256
"""Keys that a filter names one by one."""

BucketLocation = tuple[bytes, int]
"""Partition bytes and bucket."""
LeftOut = Callable[[Sequence[bytes]], Sequence[bool]]
"""Tells of partitions whether their keys do not count."""


def has_plain_equality(data_type: DataType) -> bool:
    """Whether two values of a key are equal in a comparison of SQL exactly where they are the same key."""
    return isinstance(data_type, (*_RANGED, t.BooleanType))


@dataclass(frozen=True, slots=True)
class Found:
    """The keys that a bucket has."""

    rows: npt.NDArray[np.int64]
    """Positions, ascending, of those that were found among those that were looked for."""
    columns: pa.Table | None
    """For each of them the columns of its row; None where none are wanted."""


@dataclass(frozen=True)
class KeyLookup:
    """Looks up keys of one snapshot."""

    plan: ReadPlan
    """Of the keys and then the columns that are wanted of their rows; its splits stand in `splits`."""
    keys: tuple[str, ...]
    """The primary key without partition columns."""
    splits: Mapping[tuple[bytes, int], tuple[DataSplit, ...]]
    """By partition and bucket."""
    old_row_bytes: int = 0
    """About how much memory a row takes that is found, of the columns that are wanted; 0 where none are."""

    @classmethod
    def planned(cls, table: FileStoreTable, snapshot: Snapshot | None, wanted: Collection[str]) -> KeyLookup:
        """Plan it. Runs on the driver.

        Args:
            table: with a primary key, and the options of the statement.
            snapshot: None: there is none, and no key is found.
            wanted: columns of the rows that are found.

        Raises:
            CorruptTableError: a manifest is missing or cannot be read.
            SnapshotNotFoundError: the snapshot has expired meanwhile.
        """
        schema = table.schema
        keys = tuple(schema.trimmed_primary_keys)
        columns = (*map(schema.field, keys), *(field for field in schema.fields if field.name in wanted))
        plan = TableScan(table.reading_level_0(), snapshot, ROWS, columns, keeps_keys=True).plan()
        splits: dict[tuple[bytes, int], list[DataSplit]] = {}
        for split in plan.splits:
            splits.setdefault((split.partition, split.bucket), []).append(split)
        rows = sum(file.row_count for split in plan.splits for file in split.files)
        size = sum(file.size for split in plan.splits for file in split.files) if wanted else 0
        by_slot = {slot: tuple(found) for slot, found in splits.items()}
        return cls(replace(plan, splits=()), keys, by_slot, _MEMORY_OF_FILES * size // max(1, rows))

    def find(self, partition: bytes, bucket: int, keys: pa.Table) -> Found:
        """Look up keys of one bucket. Runs in tasks.

        Args:
            partition: the bytes of the partition.
            bucket: the bucket.
            keys: the columns `keys` in the table's types, without nulls, at least one row; a key may come twice.

        Raises:
            CorruptTableError: a data file is missing or damaged.
            SnapshotNotFoundError: the snapshot has expired meanwhile.
        """
        key_fields, wanted = self.plan.fields[: len(self.keys)], self.plan.fields[len(self.keys) :]
        sought = _Keys([_whole(keys.column(name)) for name in self.keys])
        splits = self._with_keys(self.splits.get((partition, bucket), ()), sought)
        there = np.zeros(sought.count, dtype=np.bool_)
        for batch in self._batches(splits, key_fields, self._within(key_fields, keys)):
            there[sought.find(batch)[1]] = True
        rows = np.flatnonzero(there[sought.codes])
        if not wanted:
            return Found(rows, None)
        parts = [to_arrow_schema(wanted).empty_table()]
        slot = np.full(sought.count, -1, dtype=np.int64)
        count = 0
        if len(rows):
            within = self._within(key_fields, keys.take(pa.array(rows)))
            for batch in self._batches(splits, self.plan.fields, within):
                positions, numbers = sought.find(batch)
                slot[numbers] = np.arange(count, count + len(numbers))
                count += len(numbers)
                chosen = batch.select([field.name for field in wanted]).take(pa.array(positions))
                parts.append(pa.Table.from_batches([chosen]))
        return Found(rows, pa.concat_tables(parts).take(pa.array(slot[sought.codes[rows]])))

    def _with_keys(self, splits: Sequence[DataSplit], sought: _Keys) -> list[DataSplit]:
        """The splits without files whose range of keys has none that is looked for, by the first column of the key.

        Files whose type of that column was another one stay, and so do those of keys that are no whole numbers.
        """
        schema = self.plan.table.schema
        wanted = sought.first_numbers()
        if wanted is None:
            return list(splits)
        types = [schema.field(name).type for name in self.keys]
        found = []
        for split in splits:
            known = [at for at, file in enumerate(split.files) if file.min_key and file.schema_id == schema.id]
            low, high = (
                (
                    _as_numbers(decode_rows(ends, types, serialized=True, fields=[0])[0])
                    for ends in zip(*((split.files[at].min_key, split.files[at].max_key) for at in known), strict=True)
                )
                if known
                else (wanted[:0], wanted[:0])
            )
            has_none = np.searchsorted(wanted, low) == np.searchsorted(wanted, high, "right")
            gone = {known[at] for at in np.flatnonzero(has_none).tolist()}
            kept = tuple(file for at, file in enumerate(split.files) if at not in gone)
            if kept:
                found.append(split if not gone else replace(split, files=kept))
        return found

    def _batches(
        self, splits: Sequence[DataSplit], fields: Sequence[DataField], within: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        for split in splits:
            yield from self.plan.read(self.plan.table, split, fields, within)

    @staticmethod
    def _within(fields: Sequence[DataField], keys: pa.Table) -> Predicate | None:
        """A filter that all keys pass, and few others."""
        parts: list[Predicate] = []
        for field in fields:
            column = keys.column(field.name)
            if not isinstance(field.type, _RANGED):
                continue
            ends = pc.min_max(column).as_py()
            parts.append(Leaf("between", field.name, (ends["min"], ends["max"])))
            if keys.num_rows <= _MOST_LISTED:
                parts.append(Leaf("in", field.name, tuple(column.unique().to_pylist())))
        return all_of(parts) if parts else None


class _Keys:
    """Keys that are looked for; equal ones have the same number, from 0."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: list[pa.Array] = []
        self._steps: list[Any] = []
        self.codes: npt.NDArray[np.int64]
        """The number of each key."""
        self.count = 0
        self._sorted = None
        whole = _whole_numbers(columns[0]) if len(columns) == 1 else None
        if whole is not None:
            self._sorted, self.codes = np.unique(whole, return_inverse=True)
            self.count = len(self._sorted)
            return
        codes: npt.NDArray[np.int64] = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            values = column.unique()
            found = pc.index_in(column, value_set=values).to_numpy().astype(np.int64)
            step, codes = np.unique(codes * len(values) + found, return_inverse=True)
            self._values.append(values)
            self._steps.append(step)
        self.codes, self.count = codes, len(self._steps[-1])

    def first_numbers(self) -> npt.NDArray[np.int64] | None:
        """The values of the first column, ascending; None where they are no whole numbers or days."""
        if self._sorted is not None:
            return self._sorted
        numbers = _whole_numbers(self._values[0])
        return None if numbers is None else np.sort(numbers)

    def find(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows of a batch whose keys are looked for, and the numbers of these; the key columns come first."""
        if self._sorted is not None:
            values = _whole_numbers(batch.column(0))
            assert values is not None
            return _matches(self._sorted, values)
        rows: npt.NDArray[np.int64] = np.arange(batch.num_rows)
        codes: npt.NDArray[np.int64] = np.zeros(batch.num_rows, dtype=np.int64)
        for at, (values, step) in enumerate(zip(self._values, self._steps, strict=True)):
            found = pc.index_in(batch.column(at), value_set=values)
            known = found.is_valid().to_numpy(zero_copy_only=False)[rows]
            rows = rows[known]
            code = codes[known] * len(values) + found.fill_null(0).to_numpy().astype(np.int64)[rows]
            slots = np.minimum(np.searchsorted(step, code), len(step) - 1)
            same = step[slots] == code
            rows, codes = rows[same], slots[same]
        return rows, codes


def _matches(
    wanted: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where `values` are among `wanted`, which are ascending: positions in both."""
    if not len(values):
        nothing: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        return nothing, nothing
    low, high = np.searchsorted(wanted, values[0]), np.searchsorted(wanted, values[-1], "right")
    if high - low < len(values) and bool(np.all(values[1:] > values[:-1])):
        slots = np.searchsorted(values, wanted[low:high])
        same = values[slots] == wanted[low:high]
        return slots[same], low + np.flatnonzero(same)
    slots = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    rows = np.flatnonzero(wanted[slots] == values)
    return rows, slots[rows]


def _whole_numbers(column: pa.Array) -> npt.NDArray[np.int64] | None:
    """A column of whole numbers or days as numbers; None for any other."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    return column.to_numpy().astype(np.int64, copy=False) if pa.types.is_signed_integer(column.type) else None


def _as_numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    numbers = _whole_numbers(column)
    assert numbers is not None
    return numbers


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def plan_key_locations(
    table: FileStoreTable, snapshot: Snapshot, *, left_out: LeftOut | None = None, parallelism: int = 1
) -> list[DataSplit]:
    """Plan a read of all keys of a snapshot, of files of every level. Runs on the driver.

    Args:
        table: with a primary key.
        snapshot: what is read.
        left_out: partitions whose keys do not count.
        parallelism: how many tasks can run at once.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
        SnapshotNotFoundError: the snapshot has expired meanwhile.
    """
    with snapshot_expiry_errors(table, snapshot.id):
        files = table.manifests.live_columns(snapshot, statistics=False)
        kept = files.buckets != POSTPONE_BUCKET
        if left_out is not None:
            kept &= ~np.array(left_out(files.partitions), dtype=np.bool_).reshape(-1)
        vectors = vectors_of(table, snapshot)
        return generate_splits(table, snapshot.id, files.filter(kept), parallelism, vectors=vectors)


def read_key_locations(
    table: FileStoreTable, split: DataSplit, fields: Sequence[DataField]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the keys of a split and the bucket that they are in. Runs in tasks.

    Args:
        table: as planned.
        split: of `plan_key_locations`.
        fields: columns of the primary key and of the partition.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    constants = partition_constants(table, split)
    stored = [field for field in fields if field.name not in constants]
    for batch in read_split(table.reading_level_0(), split, stored):
        columns = [
            pa.repeat(constants[field.name], batch.num_rows) if field.name in constants else batch.column(field.name)
            for field in fields
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields]), split.bucket


def numbers_of_keys(splits: Sequence[DataSplit]) -> tuple[dict[BucketLocation, int], set[BucketLocation]]:
    """How many keys each bucket has, as far as its files say.

    Returns:
        For each bucket a number that is not below that of its keys; and the buckets of which it is more than a bound:
        their files hold each key once.
    """
    most: dict[BucketLocation, int] = {}
    merged: set[BucketLocation] = set()
    for split in splits:
        location = (split.partition, split.bucket)
        rows = sum(file.share(file.row_count) - (file.delete_row_count or 0) for file in split.files)
        most[location] = most.get(location, 0) + max(0, rows)
        if not split.raw_convertible:
            merged.add(location)
    return most, most.keys() - merged


def count_keys(table: FileStoreTable, split: DataSplit) -> int:
    """Read the keys of a split, and count them. Runs in tasks."""
    fields = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
    return sum(batch.num_rows for batch, _ in read_key_locations(table, split, fields))
