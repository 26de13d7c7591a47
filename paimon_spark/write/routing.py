"""Partition and bucket of whole columns of rows, and the rows grouped by them; ranges of keys of large buckets.

No Python loop over rows. A task should hold `write-buffer-size`: a bucket up to this size is sorted as a whole, so its
files do not overlap. The rows of a larger one are cut by key, into ranges of about half that size, since sizes are
estimated, and several tasks share it. All rows of one key stay in one task, and the files of two tasks do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.merge.sort import dense_ranks, sort_order
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.hashing import bucket_ids, key_hashes
from paimon_spark.spec.manifest import EMPTY_SERIALIZED_ROW
from paimon_spark.spec.schema import TableSchema
from paimon_spark.write.bucket_filling import residue_classes
from paimon_spark.write.dynamic_bucket import DynamicBuckets
from paimon_spark.write.rows import MappedRows

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField, DataType

Codes = npt.NDArray[np.int64]
LocationArray = npt.NDArray[np.int64]

NO_PARTITION = EMPTY_SERIALIZED_ROW
"""Partition bytes of a table without partitions."""

_DENSE_LIMIT = 1 << 22
_STRATEGY = "partition.sink-strategy"


class BucketRanges(Protocol):
    """Ranges of keys by which buckets are cut (`KeyRanges`)."""

    def numbered(
        self, buckets: npt.NDArray[np.integer], rows: pa.Table, codes: Codes | None, partitions: list[bytes]
    ) -> npt.NDArray[np.int64]:
        """Numbers of the ranges of rows."""


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows of one (partition, bucket), in the order of their arrival."""

    partition: bytes
    bucket: int
    rows: pa.Table
    kinds: npt.NDArray[np.int8] | None


class Router:
    """Routes rows of one table in one task."""

    def __init__(
        self,
        schema: TableSchema,
        dynamic: DynamicBuckets | None,
        note: Callable[[bytes, LocationArray], None] | None = None,
        total_buckets: Mapping[bytes, int] | None = None,
    ) -> None:
        """Take what the schema says.

        Args:
            schema: the table's schema, dynamic options applied.
            dynamic: assigns keys to buckets of a table with dynamic buckets; None for every other mode.
            note: gets the positions of rows that were assigned before, of each partition; None where nobody must know.
            total_buckets: number of buckets of those partitions that have another than the schema says.
        """
        self._note = note
        self._kind = schema.kind
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._dynamic = dynamic
        names = schema.trimmed_primary_keys if dynamic is not None else schema.bucket_keys
        self._bucket_fields = [schema.field(name) for name in names]
        self._num_buckets = schema.core_options.bucket
        self._total_buckets = total_buckets or {}
        self._function = str(schema.core_options.value("bucket-function.type"))

    def route(self, mapped: MappedRows) -> Iterator[RoutedRows]:
        """Group rows by partition and bucket; a group keeps the order of arrival.

        Rows of a single group are passed on as they are, without a copy; the rows of several groups are copied, each
        group on its own, so that no group keeps the memory of another alive.
        """
        rows = mapped.rows
        if not rows.num_rows:
            return
        if not self._kind.has_buckets and not self._partition_fields:
            yield RoutedRows(NO_PARTITION, 0, rows, mapped.kinds)
            return
        partition_codes, partitions = partition_groups(rows, self._partition_fields)
        if mapped.locations is None:
            buckets = self._buckets(rows, partition_codes, partitions)
        else:
            buckets = self._assigned(mapped.locations, partition_codes, partitions)
        group_codes, groups = _group(partition_codes, buckets)
        if len(groups) == 1:
            partition, bucket = groups[0]
            yield RoutedRows(partitions[partition], bucket, rows, mapped.kinds)
            return
        positions = positions_of(group_codes, len(groups))
        for (partition, bucket), chosen, part in zip(groups, positions, split_rows(rows, positions), strict=True):
            kinds = None if mapped.kinds is None else mapped.kinds[chosen]
            yield RoutedRows(partitions[partition], bucket, part, kinds)

    def _assigned(self, locations: LocationArray, partition_codes: Codes | None, partitions: list[bytes]) -> Codes:
        """The bucket of each row where an earlier task has assigned it."""
        if self._note is not None and partition_codes is None:
            self._note(partitions[0], locations)
        elif self._note is not None and partition_codes is not None:
            for partition, chosen in zip(partitions, positions_of(partition_codes, len(partitions)), strict=True):
                self._note(partition, locations[chosen])
        buckets: Codes = locations >> 32
        return buckets

    def _buckets(self, rows: pa.Table, partition_codes: Codes | None, partitions: list[bytes]) -> Codes | None:
        """The bucket of each row; None when all are bucket 0."""
        if not self._kind.has_buckets or self._kind.postpones_buckets:
            return None
        columns = [whole(rows, f.name) for f in self._bucket_fields]
        types = [f.type for f in self._bucket_fields]
        if self._dynamic is None:
            return self._fixed(columns, types, partition_codes, partitions)
        hashes = key_hashes(columns, types)
        if partition_codes is None:
            (found,) = self._dynamic.assign([(partitions[0], hashes)])
            return found.astype(np.int64)
        positions = positions_of(partition_codes, len(partitions))
        groups = [(partition, hashes[chosen]) for partition, chosen in zip(partitions, positions, strict=True)]
        buckets = np.empty(len(hashes), dtype=np.int64)
        buckets[np.concatenate(positions)] = np.concatenate(self._dynamic.assign(groups))
        return buckets

    def _fixed(
        self, columns: list[pa.Array], types: list[DataType], codes: Codes | None, partitions: list[bytes]
    ) -> Codes | None:
        """The bucket of each row where the number of buckets is fixed, for each partition its own."""
        numbers = np.array([self._total_buckets.get(partition, self._num_buckets) for partition in partitions])
        found: Codes | None = None
        for number in np.unique(numbers).tolist():
            same = None if number == 1 else bucket_ids(columns, types, number, self._function).astype(np.int64)
            if codes is None or (numbers == number).all():
                return same
            found = np.zeros(len(codes), dtype=np.int64) if found is None else found
            if same is not None:
                found = np.where((numbers == number)[codes], same, found)
        return found


def partition_groups(rows: pa.Table, fields: list[DataField]) -> tuple[Codes | None, list[bytes]]:
    """The partition of each row.

    Args:
        rows: at least one row.
        fields: the partition columns, in the order of the partition keys.

    Returns:
        A code for each row (None when all rows are of one partition), and the partition bytes of each code.
    """
    if not fields:
        return None, [NO_PARTITION]
    codes: Codes = np.zeros(rows.num_rows, dtype=np.int64)
    count = 1
    for field in fields:
        encoded = whole(rows, field.name).dictionary_encode(null_encoding="encode")
        size = len(encoded.dictionary)
        if size == 1:
            continue
        codes = codes * size + encoded.indices.to_numpy()
        codes, count = _dense(codes, count * size)
    first = np.empty(count, dtype=np.int64)
    first[codes[::-1]] = np.arange(rows.num_rows - 1, -1, -1)
    some = rows.select([f.name for f in fields]).take(pa.array(first))
    encoded_rows = encode_rows([whole(some, f.name) for f in fields], [f.type for f in fields])
    partitions = encoded_rows.to_bytes_list(serialized=True)
    return (None if count == 1 else codes), partitions


def partitions_together(schema: TableSchema) -> bool:
    """Whether a shuffle brings the rows of a partition of an append table to as few tasks as possible.

    Where ``partition.sink-strategy`` asks for it, whatever order a query gives its rows.
    """
    strategy = str(schema.core_options.value(_STRATEGY)).upper()
    return _partitions_alone(schema) and strategy in ("HASH", "PARTITION_DYNAMIC")


def partitions_are_free(schema: TableSchema) -> bool:
    """Whether ``partition.sink-strategy`` is unset, and the rows of an append table's partitions belong to no bucket.

    Then a session may shuffle rows by partition, unless it undoes what a query says about them. Java and the official
    connector shuffle only where the option asks for it.
    """
    return _partitions_alone(schema) and _STRATEGY not in schema.options


def _partitions_alone(schema: TableSchema) -> bool:
    return not schema.kind.has_buckets and bool(schema.partition_keys)


def shuffle_ids(
    schema: TableSchema, rows: pa.Table, num_tasks: int, ranges: BucketRanges | None = None
) -> npt.NDArray[np.int32]:
    """For each row the task that must get it, so that a write may be planned with ``shuffled=True``.

    Args:
        schema: the table's schema, dynamic options applied.
        rows: columns of the table in the table's types (``RowMapping.apply``), at least the partition and key columns.
        num_tasks: number of tasks of the write.
        ranges: of keys, by which fixed buckets are cut.

    Returns:
        Values from 0 to ``num_tasks`` - 1: equal for rows of one (partition, bucket, range of keys) of a table with
        fixed buckets; for dynamic buckets equal for all rows of one key.
    """
    if not rows.num_rows:
        return np.empty(0, dtype=np.int32)
    codes, partitions = partition_groups(rows, [schema.field(n) for n in schema.partition_keys])
    dynamic = schema.kind.assigns_buckets
    fields = [schema.field(n) for n in (schema.trimmed_primary_keys if dynamic else schema.bucket_keys)]
    columns, types = [whole(rows, f.name) for f in fields], [f.type for f in fields]
    options = schema.core_options
    if dynamic:
        values = key_hashes(columns, types)
    elif fields and options.bucket > 0:
        values = bucket_ids(columns, types, options.bucket, str(options.value("bucket-function.type")))
    else:
        values = np.zeros(rows.num_rows, dtype=np.int32)
    numbers = values if ranges is None else ranges.numbered(values, rows, codes, partitions)
    return bucket_tasks(codes, partitions, numbers, num_tasks)


def bucket_tasks(
    codes: Codes | None, partitions: list[bytes], buckets: npt.NDArray[np.integer], num_tasks: int
) -> npt.NDArray[np.int32]:
    """The task of each row: buckets of one partition are spread evenly.

    Args:
        codes: the partition of each row, as `partition_groups` gives it.
        partitions: the bytes of each partition.
        buckets: of each row, or numbers of ranges of buckets.
        num_tasks: number of tasks.

    Returns:
        Values from 0 to ``num_tasks`` - 1, shape (rows,).
    """
    if codes is None:
        return residue_classes(partitions[0], buckets, num_tasks)
    result = np.empty(len(buckets), dtype=np.int32)
    for partition, chosen in zip(partitions, positions_of(codes, len(partitions)), strict=True):
        result[chosen] = residue_classes(partition, buckets[chosen], num_tasks)
    return result


def whole(rows: pa.Table, name: str) -> pa.Array:
    """A column as one array."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _dense(codes: Codes, limit: int) -> tuple[Codes, int]:
    """Renumber codes below ``limit`` to 0..n-1, in ascending order; returns n as well."""
    if limit > _DENSE_LIMIT:
        found, inverse = np.unique(codes, return_inverse=True)
        return inverse.astype(np.int64), len(found)
    used = np.zeros(limit, dtype=np.bool_)
    used[codes] = True
    numbers = np.cumsum(used) - 1
    return numbers[codes], int(numbers[-1]) + 1


def _group(partition_codes: Codes | None, buckets: Codes | None) -> tuple[Codes, list[tuple[int, int]]]:
    """Codes of (partition, bucket) pairs from 0 on, and the pair of each code."""
    if buckets is None:
        if partition_codes is None:
            return np.zeros(0, dtype=np.int64), [(0, 0)]
        return partition_codes, [(p, 0) for p in range(int(partition_codes.max()) + 1)]
    width = int(buckets.max()) + 1
    if partition_codes is None:
        codes, limit = buckets, width
    else:
        codes, limit = partition_codes * width + buckets, (int(partition_codes.max()) + 1) * width
    dense, count = _dense(codes, limit)
    pairs = np.empty(count, dtype=np.int64)
    pairs[dense] = codes
    return dense, [divmod(pair, width) for pair in pairs.tolist()]


def split_rows(rows: pa.Table, positions: list[npt.NDArray[np.int64]]) -> list[pa.Table]:
    """The rows at each group's positions, copied column by column (little memory is touched at a time)."""
    indices = [pa.array(chosen) for chosen in positions]
    columns = []
    for name in rows.column_names:
        column = whole(rows, name)
        columns.append([column.take(index) for index in indices])
    return [pa.Table.from_arrays(list(arrays), schema=rows.schema) for arrays in zip(*columns, strict=True)]


def positions_of(codes: Codes, count: int) -> list[npt.NDArray[np.int64]]:
    """The rows of each code, ascending: one stable sort of the codes, cut at the borders."""
    small = codes.astype(np.uint16) if count <= 1 << 16 else codes  # numpy sorts 16 bits by radix
    order = np.argsort(small, kind="stable")
    borders = np.cumsum(np.bincount(codes, minlength=count))[:-1]
    return np.split(order, borders)


_MOST_BUCKETS = "dynamic-bucket.max-buckets"
_MOST_RANGES = 256
_MOST_TASKS = 2048
_ROWS_OF_RANGE = 20  # fewer rows of a sample say nothing about where to cut


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Where the buckets of some partitions are cut; picklable."""

    bounds: Mapping[bytes, pa.Table]
    """Of each partition that is cut the smallest key of each range but the first, ascending, distinct; columns of the
    trimmed primary key."""
    tasks: int = 1
    """How many tasks the write should have, so that each has one range of one bucket."""

    def count(self, partition: bytes) -> int:
        """Number of ranges of each bucket of a partition."""
        bounds = self.bounds.get(partition)
        return 1 if bounds is None else bounds.num_rows + 1

    def numbered(
        self, buckets: npt.NDArray[np.integer], rows: pa.Table, codes: Codes | None, partitions: Sequence[bytes]
    ) -> npt.NDArray[np.int64]:
        """Numbers of the ranges of rows: equal for rows of one bucket and range, ascending from bucket to bucket.

        Args:
            buckets: of each row.
            rows: at least the columns of the trimmed primary key.
            codes: the partition of each row, as `partition_groups` gives it.
            partitions: the bytes of each partition.
        """
        numbers = buckets.astype(np.int64)
        everything = [np.arange(rows.num_rows)] if codes is None else positions_of(codes, len(partitions))
        for partition, chosen in zip(partitions, everything, strict=True):
            bounds = self.bounds.get(partition)
            if bounds is not None:
                part = rows if codes is None else rows.take(pa.array(chosen))
                numbers[chosen] = numbers[chosen] * (bounds.num_rows + 1) + _range_numbers(bounds, part)
        return numbers


def _range_numbers(bounds: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
    """For each row how many bounds are not above its key."""
    ranks = dense_ranks([pa.concat_arrays([whole(bounds, name), whole(rows, name)]) for name in bounds.column_names])
    return np.searchsorted(ranks[: bounds.num_rows], ranks[bounds.num_rows :], side="right").astype(np.int64)


def cut_buckets(sample: pa.Table, schema: TableSchema, *, rows: float, row_bytes: int) -> KeyRanges | None:
    """Cut the buckets of a write where they are larger than a task should hold.

    Args:
        sample: partition and key columns of some rows of the write, in the table's types.
        schema: of a table with a primary key and with fixed or dynamic buckets.
        rows: number of rows of the write.
        row_bytes: size of a row in memory.

    Returns:
        None where no bucket is so large.
    """
    if not sample.num_rows:
        return None
    options = schema.core_options
    held = max(1, int(options.value("write-buffer-size")))
    codes, partitions = partition_groups(sample, [schema.field(name) for name in schema.partition_keys])
    positions = [np.arange(sample.num_rows)] if codes is None else positions_of(codes, len(partitions))
    bounds, tasks = {}, 0
    for partition, chosen in zip(partitions, positions, strict=True):
        size = rows * len(chosen) / sample.num_rows
        buckets = _number_of_buckets(schema, size)
        size *= row_bytes / buckets
        ranges = min(_MOST_RANGES, -int(-2 * size // held), len(chosen) // _ROWS_OF_RANGE) if size > held else 1
        if ranges > 1:
            cuts = _quantiles(sample.take(pa.array(chosen)), schema.trimmed_primary_keys, ranges)
            if cuts.num_rows:
                bounds[partition] = cuts
        tasks += buckets * (1 + (bounds[partition].num_rows if partition in bounds else 0))
    return KeyRanges(bounds, min(tasks, _MOST_TASKS)) if bounds else None


def most_rows_of_bucket(schema: TableSchema) -> int | None:
    """How many new keys a dynamic bucket takes at most; None where buckets are fixed, or their number is limited."""
    options = schema.core_options
    if not schema.kind.assigns_buckets or int(options.value(_MOST_BUCKETS)) != -1:
        return None
    return int(options.value("dynamic-bucket.target-row-num"))


def _number_of_buckets(schema: TableSchema, rows: float) -> int:
    """The number of buckets that rows of one partition fill."""
    options = schema.core_options
    if not schema.kind.assigns_buckets:
        return options.bucket
    filled = math.ceil(rows / float(options.value("dynamic-bucket.target-row-num")))
    most = int(options.value(_MOST_BUCKETS))
    return filled if most == -1 else min(filled, most)


def _quantiles(rows: pa.Table, keys: Sequence[str], ranges: int) -> pa.Table:
    order = sort_order(rows, keys)
    numbers = np.repeat(np.arange(len(order.starts)), order.counts)  # the number of the key of each row in order
    cuts = np.unique(numbers[np.arange(1, ranges) * rows.num_rows // ranges])
    chosen = order.order[order.starts[cuts[cuts > 0]]]
    return rows.select(list(keys)).take(pa.array(chosen))
