"""Buckets of new keys, said before the shuffle: one pass over the keys places them, each bucket then has one task.

As Java's dynamic bucket sink does it: assigners first, a shuffle by (partition, bucket), then writers. A place is one
BIGINT: the bucket in the high 32 bits, the key's hash in the low ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.bucket import key_hashes
from paimon_spark.spec.hash_index import decode_hash_index
from paimon_spark.write.bucket_filling import DynamicBucketPlan, KnownBucket
from paimon_spark.write.dynamic_bucket import DynamicBuckets
from paimon_spark.write.hash_runs import Hashes, distinct
from paimon_spark.write.placement_log import StoredPlacementLog, record_name
from paimon_spark.write.plan import WritePlan
from paimon_spark.write.routing import partition_groups, positions_of, whole

PLACE = "_PAIMON_PLACE"
"""The column of places in the batches of a placed write, behind all others."""

_CHUNK_ROWS = 1 << 18
_COMPACT_AT = 1 << 22
Places = npt.NDArray[np.int64]


def place_columns(plan: WritePlan) -> list[int]:
    """Positions of the columns of the data that say where a row belongs: those of the primary key."""
    return [
        source
        for field, source in zip(plan.mapping.fields, plan.mapping.sources, strict=True)
        if source is not None and field.name in plan.table.schema.primary_keys
    ]


def place_rows(plan: WritePlan, batches: Iterator[pa.RecordBatch], task_id: int) -> Iterator[pa.Array]:
    """Place the keys of one task.

    Args:
        plan: of a table with dynamic buckets.
        batches: the columns `place_columns`, named as those of the data.
        task_id: the same for all attempts of a task.

    Yields:
        For each batch the places of its rows, BIGINT.

    Raises:
        DataError: a key is null, or a value that its column cannot hold.
        OptionError: all buckets are full and no id is left.
    """
    dynamic = plan.dynamic
    assert dynamic is not None
    table = plan.table
    log = None if dynamic.log is None else StoredPlacementLog(table.file_io, table.paths, dynamic.log)
    placing = _Placing(plan, DynamicBuckets(dynamic, hash_loader(plan), log, task_id))
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _CHUNK_ROWS:
            yield from placing.place(waiting)
            waiting, rows = [], 0
    if waiting:
        yield from placing.place(waiting)


class _Placing:
    """Places chunks of rows."""

    def __init__(self, plan: WritePlan, buckets: DynamicBuckets) -> None:
        schema = plan.table.schema
        chosen = place_columns(plan)
        position = {source: number for number, source in enumerate(chosen)}
        pairs = [
            (field, position[source])
            for field, source in zip(plan.mapping.fields, plan.mapping.sources, strict=True)
            if source is not None and source in position
        ]
        self._mapping = replace(
            plan.mapping,
            fields=tuple(field for field, _ in pairs),
            sources=tuple(number for _, number in pairs),
            kind_source=None,
            kind_field=None,
            data_names=tuple(plan.data_schema.names[source] for source in chosen),
        )
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._key_fields = [schema.field(name) for name in schema.trimmed_primary_keys]
        self._buckets = buckets

    def place(self, batches: list[pa.RecordBatch]) -> Iterator[pa.Array]:
        data = pa.Table.from_batches(batches)
        if not data.num_rows:
            yield from (pa.array([], pa.int64()) for _ in batches)
            return
        rows = self._mapping.columns(data)
        hashes = key_hashes([whole(rows, f.name) for f in self._key_fields], [f.type for f in self._key_fields])
        codes, partitions = partition_groups(rows, self._partition_fields)
        buckets = np.empty(len(hashes), dtype=np.int64)
        if codes is None:
            (found,) = self._buckets.assign([(partitions[0], hashes)])
            buckets[:] = found
        else:
            positions = positions_of(codes, len(partitions))
            groups = [(partition, hashes[chosen]) for partition, chosen in zip(partitions, positions, strict=True)]
            buckets[np.concatenate(positions)] = np.concatenate(self._buckets.assign(groups))
        places = buckets << 32 | hashes.view(np.uint32)
        start = 0
        for batch in batches:
            yield pa.array(places[start : start + batch.num_rows])
            start += batch.num_rows


def hash_loader(plan: WritePlan) -> Callable[[KnownBucket], Hashes]:
    """What reads the hash index file of a bucket."""
    table = plan.table

    def load(known: KnownBucket) -> Hashes:
        path = table.paths.index_path(known.file_name)
        return decode_hash_index(table.file_io.read_bytes(path), path=path)

    return load


def placement_records(plan: WritePlan) -> tuple[str, int] | None:
    """The placement log of a placed write, and its number of records; the commit deletes them. Runs on the driver."""
    log = None if plan.dynamic is None or not plan.placed else plan.dynamic.log
    if log is None:
        return None
    there = plan.table.file_io.exists
    paths = plan.table.paths
    low, high = -1, 0  # record `low` is there, `high` is not, once found
    while there(paths.index_path(record_name(log, high))):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if there(paths.index_path(record_name(log, middle))) else (low, middle)
    return (log, high) if high else None


class PlacedKeys:
    """The keys that one task of a placed write meets: which of them the hash index does not have yet."""

    def __init__(self, plan: DynamicBucketPlan, load: Callable[[KnownBucket], Hashes]) -> None:
        self._known = plan.known
        self._load = load
        self._places: dict[bytes, list[Places]] = {}
        self._counts: dict[bytes, int] = {}

    def note(self, partition: bytes, places: Places) -> None:
        """Take the places of rows of a partition."""
        parts = self._places.setdefault(partition, [])
        parts.append(places)
        self._counts[partition] = count = self._counts.get(partition, 0) + len(places)
        if count > _COMPACT_AT:
            merged = distinct(np.concatenate(parts))
            self._places[partition] = [merged]
            self._counts[partition] = len(merged) // 2  # so that the next turn comes after as many rows

    def new_hashes(self) -> dict[tuple[bytes, int], Hashes]:
        """Hashes that the planned snapshot did not know, by (partition, bucket), each sorted and distinct."""
        found: dict[tuple[bytes, int], Hashes] = {}
        for partition, parts in self._places.items():
            places = distinct(np.concatenate(parts))
            buckets = (places >> 32).astype(np.int64)
            borders = np.flatnonzero(np.diff(buckets)) + 1
            known = {bucket.bucket: bucket for bucket in self._known.get(partition, ())}
            for part in np.split(places, borders):
                bucket = int(part[0] >> 32)
                hashes = np.sort((part & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
                if bucket in known:
                    hashes = np.setdiff1d(hashes, self._load(known[bucket]), assume_unique=True)
                if len(hashes):
                    found[partition, bucket] = hashes
        return found
