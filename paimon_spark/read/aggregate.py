"""Counts, minima and maxima of a snapshot from its metadata alone, where that is exact.

Equals the official Spark connector's ``LocalAggregator``. Runs on the driver; no data file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.read.data_evolution import anchor_mask
from paimon_spark.read.file_scan import reads_all_files, scan_files
from paimon_spark.read.postponed_read import merges_postponed
from paimon_spark.read.pruning import column_bounds
from paimon_spark.read.sections import is_unmerged
from paimon_spark.read.split_generator import generate_splits
from paimon_spark.read.table_scan import residual_filter
from paimon_spark.spec import data_types as t
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.table.deletion_vectors import Vectors, vectors_of

if TYPE_CHECKING:
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.spec.stats import Bounds
    from paimon_spark.table.table import FileStoreTable

_EXACT: tuple[type[t.DataType], ...] = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DateType,
    t.DecimalType,
)
"""Types whose statistics are exact: not truncated (texts), no values left out (NaN)."""
_MOST_DIGITS = 6

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One count or extreme."""

    function: str
    """``count``, ``min``, ``max`` or ``sum``."""
    column: str | None = None
    """What is counted, compared or added; None counts rows."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What a query asks for."""

    calls: tuple[AggregateCall, ...]
    group_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateRows:
    """The answer: the columns of `group_by`, then one for each call."""

    fields: tuple[t.DataField, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Python values."""


def aggregate_snapshot(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None, wanted: Aggregation
) -> AggregateRows | None:
    """Answer from metadata; None where the rows must be read.

    Args:
        table: with the schema of the read.
        snapshot: what to look at; None holds no rows.
        predicate: rows that count are those for which it is true; over partition columns only.
        wanted: group columns must be partition columns.

    Raises:
        CorruptTableError: a manifest is missing or cannot be read.
    """
    schema = table.schema
    if merges_postponed(table) or not _is_exact(schema, wanted) or residual_filter(schema, predicate) is not None:
        return None
    fields = result_fields(schema, wanted)
    if snapshot is None:
        return AggregateRows(
            fields, () if wanted.group_by else (tuple(0 if c.function == "count" else None for c in wanted.calls),)
        )
    total = snapshot.total_record_count
    only_rows = all(call == AggregateCall("count") for call in wanted.calls)
    vectors = vectors_of(table, snapshot)
    data_evolution = table.schema.kind.has_data_evolution
    whole = not (wanted.group_by or schema.kind.is_keyed or vectors or data_evolution) and predicate is None
    if only_rows and whole and total is not None and reads_all_files(table):
        return AggregateRows(fields, ((total,) * len(wanted.calls),))
    files = scan_files(table, snapshot, predicate, statistics=bool(_bounded_columns(table, wanted)))
    files = files.filter(files.buckets != POSTPONE_BUCKET)
    if schema.kind.is_keyed and not _is_unmerged(table, snapshot, files):
        return None
    if data_evolution:
        anchors = anchor_mask(files)
        if not only_rows and not anchors.all():
            return None
        files = files.filter(anchors)
    deleted = _deleted_rows(files, vectors)
    return None if deleted is None else _answered(table, files, deleted, wanted, fields)


def _deleted_rows(files: ManifestColumns, vectors: Vectors) -> Rows | None:
    """How many rows of each file a vector deletes; None where a vector does not say."""
    if not vectors:
        return np.zeros(len(files), dtype=np.int64)
    names = zip(files.partitions, files.buckets.tolist(), files.file_names, strict=True)
    counts = [0 if location is None else location.cardinality for location in map(vectors.get, names)]
    return None if None in counts else np.array(counts, dtype=np.int64)


def _is_exact(schema: TableSchema, wanted: Aggregation) -> bool:
    if not set(wanted.group_by) <= set(schema.partition_keys):
        return False
    for call in wanted.calls:
        if call.function == "sum":
            return False
        if call.column is None or call.column in schema.partition_keys:
            continue
        if not schema.has_field(call.column):
            return False
        data_type = schema.field(call.column).type
        clock = (
            isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) and data_type.precision <= _MOST_DIGITS
        )
        if call.function != "count" and not isinstance(data_type, _EXACT) and not clock:
            return False
    return True


def result_fields(schema: TableSchema, wanted: Aggregation) -> tuple[t.DataField, ...]:
    """Return the columns of the answer."""
    groups = (schema.field(name) for name in wanted.group_by)
    return (*groups, *(_result_field(schema, call) for call in wanted.calls))


def counts_rows(schema: TableSchema, wanted: Aggregation) -> bool:
    """Return whether all that is asked for are numbers of rows, of partitions or of the table."""
    return set(wanted.group_by) <= set(schema.partition_keys) and set(wanted.calls) == {AggregateCall("count")}


def _result_field(schema: TableSchema, call: AggregateCall) -> t.DataField:
    name = f"{call.function}({call.column or '*'})"
    if call.function == "count" or call.column is None:
        return t.DataField(-1, name, t.BigIntType(nullable=False))
    kind = schema.field(call.column).type.with_nullable(True)
    return t.DataField(-1, name, _sum_type(kind) if call.function == "sum" else kind)


def _sum_type(kind: t.DataType) -> t.DataType:
    """Return the type of a partial sum as Spark's rule of partial push-down takes it: decimals keep their type."""
    if isinstance(kind, t.DecimalType):
        return kind
    return t.DoubleType() if isinstance(kind, t.FloatType | t.DoubleType) else t.BigIntType()


def _is_unmerged(table: FileStoreTable, snapshot: Snapshot, files: ManifestColumns) -> bool:
    """Return whether each row of each file is a row of the table."""
    if any(count != 0 for count in files.file_values("_DELETE_ROW_COUNT")):
        return False
    return all(is_unmerged(table, split) for split in generate_splits(table, snapshot.id, files))


def _bounded_columns(table: FileStoreTable, wanted: Aggregation) -> list[str]:
    """Return the columns that need the files' statistics."""
    names = {call.column for call in wanted.calls if call.column is not None}
    return sorted(names - set(table.schema.partition_keys))


def _answered(
    table: FileStoreTable, files: ManifestColumns, deleted: Rows, wanted: Aggregation, fields: tuple[t.DataField, ...]
) -> AggregateRows | None:
    bounded = _bounded_columns(table, wanted)
    if bounded and deleted.any():
        return None  # a deleted row may be the one with the extreme, or a null
    bounds = column_bounds(table, files, bounded)
    partitions = table.manifests.partition_batch(files.partitions) if table.schema.partition_keys else None
    counts = files.row_counts - deleted
    rows = []
    for group in _groups(counts, partitions, wanted.group_by):
        row: list[Any] = (
            [partitions.column(name)[int(group[0])].as_py() for name in wanted.group_by] if partitions else []
        )
        for call in wanted.calls:
            column = (
                None
                if partitions is None or call.column not in partitions.schema.names
                else partitions.column(call.column)
            )
            values = _value(
                call, counts[group], column if column is None else column.take(pa.array(group)), bounds, group
            )
            if values is None:
                return None
            row.append(values[0])
        rows.append(tuple(row))
    return AggregateRows(fields, tuple(rows))


def _groups(counts: Rows, partitions: pa.RecordBatch | None, group_by: Sequence[str]) -> list[Rows]:
    """Positions of the files of each group; files without rows make no group."""
    if not group_by or partitions is None:
        return [np.arange(len(counts), dtype=np.int64)]
    keys = list(zip(*(partitions.column(name).to_pylist() for name in group_by), strict=True))
    found: dict[tuple[Any, ...], list[int]] = {}
    for position, (key, rows) in enumerate(zip(keys, counts.tolist(), strict=True)):
        if rows:
            found.setdefault(key, []).append(position)
    return [np.array(group, dtype=np.int64) for group in found.values()]


def _value(
    call: AggregateCall, counts: Rows, partition: pa.Array | None, bounds: dict[str, Bounds], group: Rows
) -> tuple[Any] | None:
    """The value of a call over some files, in a tuple; None if metadata does not give it exactly."""
    if call.column is None:
        return (int(counts.sum()),)
    if partition is not None:
        if call.function == "count":
            return (int(counts[np.asarray(partition.is_valid())].sum()),)
        return (_extreme(call.function, partition.filter(pa.array(counts > 0))),)
    if call.column not in bounds:
        return None if counts.any() else (0 if call.function == "count" else None,)
    low, high, nulls = (array.take(pa.array(group)) for array in bounds[call.column])
    if nulls.null_count:
        return None
    valid = counts - np.asarray(nulls)
    if call.function == "count":
        return (int(valid.sum()),)
    side = low if call.function == "min" else high
    if bool((np.asarray(side.is_null()) & (valid > 0)).any()):
        return None
    return (_extreme(call.function, side.filter(pa.array(valid > 0))),)


def _extreme(function: str, values: pa.Array) -> Any:
    return (pc.min(values) if function == "min" else pc.max(values)).as_py()
