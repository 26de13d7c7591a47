"""Rows of cross-partition updates, joined to the keys that there are: by whole columns, in tasks.

Java: ``GlobalIndexAssigner`` and its ``ExistingProcessor``. Rows and known keys come to the task of their key, packed
(`packed_rows`); there each engine's rule says where a row goes, and rows are packed for the task of their bucket.

The merge engine says what becomes of a key that comes with another partition (Java: ``ExistingProcessor.create``).

Rows and known keys wait to be joined in memory, or in files where they are too many.

Runs in tasks. Memory is bounded by ``write-buffer-size``; what does not fit goes to files by the hash of the key, which
are read one after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.binary_row_encoder import encode_rows
from paimon_spark.spec.data_types import DataField, DoubleType, FloatType
from paimon_spark.spec.hashing import key_hashes
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind, is_retract
from paimon_spark.write.bucket_assignment import LOCATION
from paimon_spark.write.bucket_filling import StoredAssignmentLog
from paimon_spark.write.dynamic_bucket import NewKeys
from paimon_spark.write.packed_rows import pack_chunk, unpack_rows
from paimon_spark.write.plan import WritePlan
from paimon_spark.write.routing import bucket_tasks, partition_groups, positions_of, split_rows, whole
from paimon_spark.write.task_write import chunk_bytes, combine_batches

OLD_BUCKET = "_PAIMON_BUCKET"
"""The bucket in which a known key is: the column that rows do not have."""

_PARTS = 64


def hashes_of_keys(rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int32]:
    """The hash of the primary key of each row, shape (rows,)."""
    fields = [schema.field(name) for name in schema.primary_keys]
    return np.ascontiguousarray(key_hashes([whole(rows, f.name) for f in fields], [f.type for f in fields]))


class CrossPartitionSpill:
    """Rows and known keys of one task: in memory, or in files by the hash of the key where they are too many."""

    def __init__(self, schema: TableSchema, budget: int) -> None:
        """Hold nothing yet.

        Args:
            schema: of the table.
            budget: bytes that are held in memory.
        """
        self._schema = schema
        self._budget = budget
        self._held: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._bytes = 0
        self._files: dict[tuple[int, int], tuple[IO[bytes], pa.RecordBatchStreamWriter]] = {}

    def __enter__(self) -> CrossPartitionSpill:
        return self

    def __exit__(self, *_error: object) -> None:
        for file, _ in self._files.values():
            file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, or known keys."""
        self._held[OLD_BUCKET in batch.schema.names].append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._budget:
            self._write()

    def _write(self) -> None:
        for kind, held in enumerate(self._held):
            if not held:
                continue
            rows = pa.Table.from_batches(held)
            held.clear()
            parts = (hashes_of_keys(rows, self._schema).view(np.uint32) >> 16) % _PARTS
            positions = positions_of(parts.astype(np.int64), _PARTS)
            filled = [part for part, chosen in enumerate(positions) if len(chosen)]
            for part, chosen in zip(filled, split_rows(rows, [positions[p] for p in filled]), strict=True):
                if (part, kind) not in self._files:
                    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
                    self._files[part, kind] = file, pa.ipc.new_stream(file, rows.schema)
                self._files[part, kind][1].write_table(chosen)
        self._bytes = 0

    def rows_in_memory(self) -> pa.Table | None:
        """The rows that were added, where all of them are held; None otherwise, and where there are none."""
        return None if self._files else self._table(0)

    def parts(self) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
        """Rows and known keys of the same keys; None where there are none."""
        if not self._files:
            yield self._table(0), self._table(1)
            return
        self._write()
        for _, writer in self._files.values():
            writer.close()
        for part in range(_PARTS):
            yield self._read(part, 0), self._read(part, 1)

    def _table(self, kind: int) -> pa.Table | None:
        return pa.Table.from_batches(self._held[kind]) if self._held[kind] else None

    def _read(self, part: int, kind: int) -> pa.Table | None:
        if (part, kind) not in self._files:
            return None
        file = self._files[part, kind][0]
        file.seek(0)
        return pa.ipc.open_stream(file).read_all()


class KeyRule(Enum):
    """What is done with a new row whose key is in another partition."""

    DELETE_OLD = "the old row is deleted in its partition"
    USE_OLD = "the new row goes to the old partition"
    SKIP_NEW = "the new row is left out"


def key_rule(schema: TableSchema) -> KeyRule:
    """The rule of the table's merge engine."""
    engine = schema.core_options.merge_engine
    if engine == "deduplicate":
        return KeyRule.DELETE_OLD
    return KeyRule.SKIP_NEW if engine == "first-row" else KeyRule.USE_OLD


def needs_shuffle(schema: TableSchema) -> UnsupportedError:
    """The error of a write that cannot bring the rows of a key together."""
    return UnsupportedError(
        f"The primary key {', '.join(schema.primary_keys)} lacks partition columns "
        f"({', '.join(schema.partition_keys)}), so rows of one key must come together before they are written, which "
        f"a save by format('paimon') cannot ask this session for. Write with PaimonTable.for_path(spark, path).append("
        f"df) or .overwrite(df), or with INSERT INTO by paimon_spark.sql; in a stream, do so in foreachBatch."
    )


ORDER = "_PAIMON_ORDER"
"""Number of a row in the order of all rows of the write."""

_TASK_BITS = 40
Numbers = npt.NDArray[np.int64]


def location_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns of the primary key and of the partition."""
    return tuple(schema.field(name) for name in dict.fromkeys([*schema.primary_keys, *schema.partition_keys]))


def cross_partition_schema(schema: TableSchema) -> pa.Schema:
    """The columns of the rows that are written: those of the table, and the row kind."""
    return to_arrow_schema([*schema.fields, VALUE_KIND])


def pack_new_rows(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], task_id: int, targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Pack the rows of one task for the tasks of their keys. Rows whose kind the table ignores are left out.

    Raises:
        DataError: a row cannot be taken.
    """
    schema = plan.table.schema
    start = task_id << _TASK_BITS
    for chunk in combine_batches(batches, plan.data_schema, chunk_bytes(plan)):
        rows = _mapped(plan, chunk, np.arange(start, start + chunk.num_rows, dtype=np.int64))
        start += chunk.num_rows
        if rows.num_rows:
            yield from pack_chunk(rows, _key_tasks(rows, schema, len(targets)), targets)


def pack_known_keys(
    schema: TableSchema, keys: Iterable[tuple[pa.RecordBatch, int]], targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Pack known keys, with their buckets, for the tasks of the keys."""
    for batch, bucket in keys:
        if batch.num_rows:
            rows = _in_bucket(batch, bucket)
            yield from pack_chunk(rows, _key_tasks(rows, schema, len(targets)), targets)


def partitions_of_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> set[bytes]:
    """The partitions that rows name, for an overwrite of them."""
    fields = [plan.table.schema.field(name) for name in plan.table.schema.partition_keys]
    found: set[bytes] = set()
    for chunk in combine_batches(batches, plan.data_schema, chunk_bytes(plan)):
        rows = plan.mapping.apply(chunk).rows
        if rows.num_rows:
            found.update(partition_groups(rows, fields)[1])
    return found


def assign_partitions(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], task_id: int, targets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Join the rows and the known keys of one task, and pack the rows for the tasks of their buckets.

    Args:
        plan: of the write, with the number of keys of each bucket.
        batches: packed rows and packed known keys, in any order.
        task_id: the same for all attempts of a task.
        targets: for each writing task the number that leads to it.

    Raises:
        DataError: a key would move, but its table ignores deletes.
    """
    assignment = _BucketAssignment(plan, task_id)
    budget = int(plan.table.options.value("write-buffer-size"))
    with CrossPartitionSpill(plan.table.schema, budget) as spill:
        for batch in unpack_rows(batches):
            spill.add(batch)
        for rows, known in spill.parts():
            if rows is not None:
                assigned = assignment.assign(rows, known)
                if assigned.rows.num_rows:
                    ids = bucket_tasks(assigned.partitions, assigned.names, assigned.buckets, len(targets))
                    yield from pack_chunk(assigned.rows, ids, targets)


def assign_all_rows(
    given: WritePlan,
    plan: WritePlan,
    batches: Iterable[pa.RecordBatch],
    known: Iterable[tuple[pa.RecordBatch, int]],
) -> Iterator[pa.RecordBatch]:
    """Join all rows of a write and the keys of its table, in one task that writes the rows as well.

    Args:
        given: the plan by which the rows come.
        plan: of the write, with the number of keys of each bucket.
        batches: rows with the columns of `given`, behind them `ORDER`.
        known: the keys, each batch with its bucket; they are read once all rows have come.

    Yields:
        Rows as the plan takes them, behind their columns their buckets.

    Raises:
        DataError: a row cannot be taken, or a key would move, but its table ignores deletes.
    """
    assignment = _BucketAssignment(plan, 0)
    schema = plan.table.schema
    with CrossPartitionSpill(schema, int(plan.table.options.value("write-buffer-size"))) as spill:
        ordered = pa.schema([*given.data_schema, pa.field(ORDER, pa.int64())])
        for chunk in combine_batches(batches, ordered, chunk_bytes(plan)):
            numbers = chunk.column(ORDER).to_numpy()
            for batch in _mapped(given, chunk.drop_columns([ORDER]), numbers).to_batches():
                spill.add(batch)
        held = spill.rows_in_memory()
        wanted = None if held is None else key_column(held, schema).unique()
        for keys in _joined(known, chunk_bytes(plan)):
            found = keys if wanted is None else keys.filter(pc.is_in(key_column(keys, schema), value_set=wanted))
            for batch in found.to_batches():
                spill.add(batch)
        for rows, old in spill.parts():
            if rows is not None:
                yield from assignment.assign(rows, old).rows.to_batches()


def _mapped(plan: WritePlan, chunk: pa.Table, numbers: Numbers) -> pa.Table:
    """Rows in the columns of the table, with their kinds and their numbers."""
    mapped = plan.mapping.apply(chunk, numbers)
    kinds = np.zeros(mapped.rows.num_rows, dtype=np.int8) if mapped.kinds is None else mapped.kinds
    return mapped.rows.append_column(VALUE_KIND.name, pa.array(kinds)).append_column(ORDER, pa.array(mapped.locations))


def _joined(known: Iterable[tuple[pa.RecordBatch, int]], most_bytes: int) -> Iterator[pa.Table]:
    """Known keys with their buckets, many at a time."""
    parts: list[pa.Table] = []
    size = 0
    for batch, bucket in known:
        parts.append(_in_bucket(batch, bucket))
        size += parts[-1].nbytes
        if size >= most_bytes:
            yield pa.concat_tables(parts)
            parts, size = [], 0
    if parts:
        yield pa.concat_tables(parts)


def _in_bucket(keys: pa.RecordBatch, bucket: int) -> pa.Table:
    """Known keys with their bucket."""
    buckets = pa.repeat(pa.scalar(bucket, pa.int32()), keys.num_rows)
    return pa.Table.from_batches([keys]).append_column(OLD_BUCKET, buckets)


def _key_tasks(rows: pa.Table, schema: TableSchema, count: int) -> npt.NDArray[np.int32]:
    return (hashes_of_keys(rows, schema).view(np.uint32) % np.uint32(count)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """Rows as they are written."""

    rows: pa.Table
    """Behind their columns their buckets."""
    partitions: Numbers
    """For each row the number of its partition."""
    names: list[bytes]
    """The partitions."""
    buckets: npt.NDArray[np.int32]


def key_column(rows: pa.Table, schema: TableSchema) -> pa.Array:
    """One column that is equal where primary keys are, as their bytes are."""
    fields = [schema.field(name) for name in schema.primary_keys]
    if len(fields) == 1 and not isinstance(fields[0].type, FloatType | DoubleType) and not fields[0].type.nullable:
        return whole(rows, fields[0].name)
    columns, types = [whole(rows, field.name) for field in fields], [field.type for field in fields]
    return pa.array(encode_rows(columns, types).to_bytes_list(serialized=True), pa.binary())


class _BucketAssignment:
    """Where the rows of one task go."""

    def __init__(self, plan: WritePlan, task_id: int) -> None:
        dynamic, table = plan.dynamic, plan.table
        assert dynamic is not None
        log = None if dynamic.log is None else StoredAssignmentLog(table.file_io, table.paths, dynamic.log)
        self._keys = NewKeys(dynamic, log, task_id)
        self._schema = table.schema
        self._rule = key_rule(table.schema)
        self._ignores_deletes = plan.mapping.ignore_delete
        self._kind_field = plan.mapping.kind_field
        self._partition_fields = [table.schema.field(name) for name in table.schema.partition_keys]

    def assign(self, rows: pa.Table, known: pa.Table | None) -> AssignedRows:
        """Assign rows of some keys, of which all known keys are given."""
        rows = rows.take(pa.array(np.argsort(rows.column(ORDER).to_numpy(), kind="stable")))
        rows = rows.drop_columns([ORDER]).combine_chunks()
        old, codes = self._matched(rows, known)
        taken = None if known is None else known.take(pa.array(old[old >= 0])).combine_chunks()
        partitions: dict[bytes, int] = {}
        own = self._partitions(rows, partitions)
        olds = np.full(len(own), -1, dtype=np.int64)  # partition of the old row
        buckets = np.full(len(own), -1, dtype=np.int64)
        at_old = np.full(len(own), -1, dtype=np.int64)  # row of `taken`
        if taken is not None and taken.num_rows:
            has = old >= 0
            olds[has] = self._partitions(taken, partitions)
            buckets[has] = taken.column(OLD_BUCKET).to_numpy()
            at_old[has] = np.arange(taken.num_rows)
        order = np.argsort(codes, kind="stable")
        starts = np.ones(len(order), dtype=np.bool_)
        starts[1:] = codes[order[1:]] != codes[order[:-1]]
        found = _Found(rows, taken, own, olds, buckets, at_old, order, starts)
        assigned = self._last_rows(found) if self._rule is KeyRule.DELETE_OLD else self._kept(found)
        names = list(partitions)
        fresh = np.flatnonzero(assigned.new)
        if len(fresh):
            assigned.buckets[fresh] = self._new(assigned.partitions[fresh], names)
        final = assigned.buckets[assigned.bucket_of]
        out = assigned.rows.append_column(pa.field(LOCATION, pa.int64()), pa.array(final << 32))
        return AssignedRows(out, assigned.partitions, names, final.astype(np.int32))

    def _matched(self, rows: pa.Table, known: pa.Table | None) -> tuple[Numbers, Numbers]:
        """For each row the known key that is its own (-1: none), and a number that rows of one key share."""
        keys = key_column(rows, self._schema).dictionary_encode()
        codes = keys.indices.to_numpy().astype(np.int64)
        if known is None:
            return np.full(rows.num_rows, -1, dtype=np.int64), codes
        # the fewer rows are looked up: the set of their keys is the one that is hashed
        there = pc.index_in(key_column(known, self._schema), value_set=keys.dictionary)
        first = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
        hit = np.flatnonzero(there.is_valid())
        first[there.drop_null().to_numpy()] = hit
        return first[codes], codes

    def _partitions(self, rows: pa.Table, numbers: dict[bytes, int]) -> Numbers:
        """The number of the partition of each row, at least one."""
        codes, names = partition_groups(rows, self._partition_fields)
        known = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
        return np.full(rows.num_rows, known[0]) if codes is None else known[codes]

    def _new(self, partitions: Numbers, names: list[bytes]) -> Numbers:
        positions = positions_of(partitions, len(names))
        groups = [(name, len(chosen)) for name, chosen in zip(names, positions, strict=True) if len(chosen)]
        buckets = np.empty(len(partitions), dtype=np.int64)
        buckets[np.concatenate(positions)] = np.concatenate(self._keys.assign(groups))
        return buckets

    def _last_rows(self, found: _Found) -> _Assigned:
        """Of each key the last row, and its old row as -D where that is in another partition."""
        ends = np.append(found.starts[1:], True)
        last = np.sort(found.order[ends])
        kinds = found.rows.column(VALUE_KIND.name).to_numpy()
        moves = (found.olds[last] >= 0) & (found.olds[last] != found.own[last])
        if self._ignores_deletes and moves.any():
            raise DataError(
                "A row has another partition than the one in which its key is, so the old row would be deleted "
                "there; but the table ignores deletes ('ignore-delete'). Keep the partition of the key, or give "
                "the table a primary key with all partition columns."
            )
        stay = last[~(moves & is_retract(kinds[last]))]
        gone = last[moves]
        rows = found.rows.take(pa.array(np.concatenate([stay, gone])))
        if len(gone):
            assert found.taken is not None
            rows = self._with_partitions(rows, found, np.concatenate([np.full(len(stay), -1), found.at_old[gone]]))
            deletes = np.arange(rows.num_rows) >= len(stay)
            rows = self._with_kinds(
                rows, np.where(deletes, RowKind.DELETE.value, rows.column(VALUE_KIND.name)), deletes
            )
        partitions = np.concatenate([found.own[stay], found.olds[gone]])
        same = found.olds[stay] == found.own[stay]
        new = np.concatenate([~same, np.zeros(len(gone), dtype=np.bool_)])
        buckets = np.concatenate([np.where(same, found.buckets[stay], -1), found.buckets[gone]])
        return _Assigned(rows, partitions, buckets, new, np.arange(len(new)))

    def _kept(self, found: _Found) -> _Assigned:
        """All rows in the partition in which their key is, or came first; or only those that name it."""
        order = found.order
        first = np.maximum.accumulate(np.where(found.starts, np.arange(len(order)), 0))  # the key's first row
        has = found.olds[order] >= 0
        target = np.where(has, found.olds[order], found.own[order[first]])
        differs = target != found.own[order]
        new = ~has & found.starts
        buckets = found.buckets[order].copy()
        if self._rule is KeyRule.SKIP_NEW:
            kept = np.flatnonzero(~differs)
            number = np.cumsum(~differs) - 1  # the first row of a new key is always kept
            rows = found.rows.take(pa.array(order[kept]))
            return _Assigned(
                rows, target[kept], buckets[kept], new[kept], number[np.where(has, np.arange(len(order)), first)[kept]]
            )
        rows = found.rows.take(pa.array(order))
        if differs.any():
            offset = 0 if found.taken is None else found.taken.num_rows
            source = np.where(has, found.at_old[order], offset + order[first])
            rows = self._with_partitions(rows, found, np.where(differs, source, -1))
        return _Assigned(rows, target, buckets, new, np.where(has, np.arange(len(order)), first))

    def _with_partitions(self, rows: pa.Table, found: _Found, source: Numbers) -> pa.Table:
        """The rows, some with the partition of another one: of a known key, behind these of a row; -1 for its own."""
        for field in self._partition_fields:
            others = [] if found.taken is None else [whole(found.taken, field.name)]
            others.append(whole(found.rows, field.name))
            values = pa.concat_arrays([whole(rows, field.name), *(c.cast(others[-1].type) for c in others)])
            index = np.where(source < 0, np.arange(rows.num_rows), rows.num_rows + source)
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, rows.schema.field(at), values.take(pa.array(index)))
        return rows

    def _with_kinds(self, rows: pa.Table, kinds: npt.NDArray[np.int8], deletes: npt.NDArray[np.bool_]) -> pa.Table:
        at = rows.schema.get_field_index(VALUE_KIND.name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(kinds.astype(np.int8)))
        if self._kind_field is not None:
            at = rows.schema.get_field_index(self._kind_field)
            texts = pc.if_else(pa.array(deletes), RowKind.DELETE.short_string, whole(rows, self._kind_field))
            rows = rows.set_column(at, rows.schema.field(at), texts)
        return rows


class _Found:
    """Rows of some keys in their order, and what is known of each."""

    def __init__(
        self,
        rows: pa.Table,
        taken: pa.Table | None,
        own: Numbers,
        olds: Numbers,
        buckets: Numbers,
        at_old: Numbers,
        order: Numbers,
        starts: npt.NDArray[np.bool_],
    ) -> None:
        self.rows, self.taken = rows, taken
        self.own, self.olds, self.buckets, self.at_old = own, olds, buckets, at_old
        self.order, self.starts = order, starts


class _Assigned:
    """Rows as they are written: their partitions, buckets (of `new` ones not yet), and whose bucket each row has."""

    def __init__(
        self,
        rows: pa.Table,
        partitions: Numbers,
        buckets: Numbers,
        new: npt.NDArray[np.bool_],
        bucket_of: Numbers,
    ) -> None:
        self.rows, self.partitions, self.buckets, self.new, self.bucket_of = rows, partitions, buckets, new, bucket_of
