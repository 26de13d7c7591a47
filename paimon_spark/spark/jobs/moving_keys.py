"""Writes to tables whose primary key lacks a partition column: a key that comes with another partition is one key.

Java: ``GlobalIndexAssigner`` and its ``ExistingProcessor``. A Spark job reads the keys that there are, with their
partitions and buckets, and joins them to the new rows; so rows of one key meet in one task, whatever their partitions:

- deduplicate: the last row of a key stays, and its old row is deleted where it was;
- partial-update, aggregation: all rows go to the partition in which the key is, or came first;
- first-row: a row of a known key is left out, unless it has its key's partition.

All of this is Spark's own (join, window, SQL): rows are sorted and spilled by Spark, never collected on the driver.
Only the places of new keys come from Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructField, StructType

from paimon_spark.commit.overwrite import Beside, OverwriteSpec, PartitionScope
from paimon_spark.commit.run_again import run_again
from paimon_spark.read.key_places import plan_key_places
from paimon_spark.spark.columns.arrow_cast import batches_from_spark, convert_batches
from paimon_spark.spark.columns.bucket_expression import kept_as_given
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.jobs.clustering import PACKED_STRUCT, targets_of
from paimon_spark.spark.jobs.existing_keys import bucket_plan, cores, existing_keys
from paimon_spark.spark.jobs.write_tasks import number_of_tasks, run_write
from paimon_spark.spark.source.table_write import planned
from paimon_spark.spec.data_types import DoubleType, FloatType
from paimon_spark.spec.overwrite_mode import OverwriteMode
from paimon_spark.spec.row_kind import RowKind
from paimon_spark.spec.special_fields import VALUE_KIND
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.moving_keys import KeyRule, check_places, key_rule
from paimon_spark.write.new_keys import AS_BEFORE, FLAG, KNOWN, MOVES, NEW, OLD_BUCKET, pack_placed
from paimon_spark.write.packed_rows import TASK
from paimon_spark.write.plan import WritePlan, plan_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.snapshot import Operation, Snapshot
    from paimon_spark.table.table import FileStoreTable

_RETRACT = f"_kind IN ({RowKind.UPDATE_BEFORE.value}, {RowKind.DELETE.value})"


def write_moving_keys(
    df: DataFrame,
    table: FileStoreTable,
    overwrite: OverwriteSpec | None,
    *,
    operation: Operation | None = None,
    rows_of: SnapshotIdentity | None = None,
) -> int | None:
    """Write rows and commit them; return the id of the new snapshot. Runs on the driver.

    The commit is refused if another one has changed keys in the range of this one's meanwhile: each would hold a key
    that the other has put into another partition. Then the write runs again, from a fresh read of the keys.

    Args:
        df: the rows; columns are matched by name.
        table: the table with the options of this write.
        overwrite: what to replace; None to append.
        operation: what the snapshot says about the statement; None for nothing.
        rows_of: the snapshot that the rows are made of: its reader runs the write again then. None where they are new.

    Raises:
        SchemaMismatchError: the rows do not fit the table's columns.
        UnsupportedError: keys or partitions of this type are not supported.
        CommitConflictError: other commits were faster each time; nothing was committed.
    """
    check_places(table.schema)

    def attempt(snapshot: Snapshot | None) -> int | None:
        return _write(df, table, overwrite, operation, SnapshotIdentity.of(snapshot))

    if rows_of is None:
        return run_again(table, attempt)
    return _write(df, table, overwrite, operation, rows_of)


def _write(
    df: DataFrame,
    table: FileStoreTable,
    overwrite: OverwriteSpec | None,
    operation: Operation | None,
    at: SnapshotIdentity,
) -> int | None:
    mode = None if overwrite is None else overwrite.kind
    plan = plan_write(table, overwrite=mode, data_schema=spark_arrow_schema(df.schema), rows_of=at)
    rows = _Rows.of(df, plan)
    if overwrite is not None:
        overwrite = _named_partitions(rows, overwrite)
    splits = _splits(plan, overwrite, cores(df.sparkSession))
    dynamic = bucket_plan(df.sparkSession, plan, splits)
    placing = replace(plan, dynamic=dynamic)
    placed, names = _placed(rows, placing, splits)
    sent = spark_arrow_schema(placed.schema)
    given = pa.schema([sent.field(number).with_name(name) for number, name in enumerate(names)])
    write = planned(table, given, overwrite, placing=placing, operation=operation, rows_of=at, packed=True)
    tasks = number_of_tasks(df, table)
    packed = map_in_arrow(placed, partial(_pack, write.plan, targets_of(tasks)), PACKED_STRUCT)
    return run_write(packed.repartition(tasks, TASK), write)


def _pack(plan: WritePlan, targets: Sequence[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Place and pack the rows of one task. Runs in tasks."""
    flags = [pa.field(FLAG, pa.int32()), pa.field(OLD_BUCKET, pa.int32())]
    schema = pa.schema([*plan.data_schema, *flags])
    named = (batch.rename_columns(schema.names) for batch in batches)
    context = TaskContext.get()
    return pack_placed(plan, batches_from_spark(named, schema), context.partitionId() if context else 0, targets)


@dataclass(frozen=True)
class _Rows:
    """The rows, their columns numbered; behind them, as the table stores them, ``_s0`` and on: keys and partitions."""

    frame: DataFrame
    plan: WritePlan
    fields: tuple[DataField, ...]
    """The columns of the primary key and of the partition."""
    partition_columns: tuple[int, ...]
    """The numbers of the partition columns in the rows that are written; missing ones come behind all others."""

    @classmethod
    def of(cls, df: DataFrame, plan: WritePlan) -> _Rows:
        schema, mapping = plan.table.schema, plan.mapping
        fields = tuple(schema.field(name) for name in dict.fromkeys([*schema.primary_keys, *schema.partition_keys]))
        positions = dict(zip(schema.field_names, mapping.sources, strict=True))
        numbered = df.toDF(*(str(number) for number in range(len(df.columns))))
        sources = [positions[field.name] for field in fields]
        if all(
            source is not None and kept_as_given(field, plan.data_schema.field(source).type)
            for field, source in zip(fields, sources, strict=True)
        ):
            frame = numbered.selectExpr("*", *(f"`{source}` AS _s{at}" for at, source in enumerate(sources)))
        else:
            stored = to_spark_struct(fields)
            added = [StructField(f"_s{at}", column.dataType) for at, column in enumerate(stored.fields)]
            wide = StructType([*numbered.schema.fields, *added])
            frame = map_in_arrow(numbered, partial(_add_stored, plan, tuple(f.name for f in fields)), wide)
        missing = iter(range(len(df.columns), len(df.columns) + len(fields)))
        partitions = (positions[name] for name in schema.partition_keys)
        return cls(frame, plan, fields, tuple(next(missing) if at is None else at for at in partitions))

    @property
    def names(self) -> list[str]:
        """The columns that are written, without the row kind: those of the data, and partition columns it lacks."""
        schema = self.plan.table.schema
        names = list(self.plan.mapping.data_names)
        for name, at in zip(schema.partition_keys, self.partition_columns, strict=True):
            if at >= len(names):
                names.append(name)
        return names

    @property
    def kind(self) -> str:
        """The row kind as SQL; a text that is none is left to the writer."""
        mapping = self.plan.mapping
        if mapping.kind_field is not None:
            number = self.kind_column
            cases = " ".join(f"WHEN '{kind.short_string}' THEN {kind.value}" for kind in RowKind)
            return f"coalesce(CASE `{number}` {cases} END, 0)"
        return "0" if mapping.kind_source is None else f"CAST(`{mapping.kind_source}` AS INT)"

    @property
    def kind_column(self) -> int | None:
        """The number of the column that ``rowkind.field`` names."""
        mapping = self.plan.mapping
        names = [field.name for field in mapping.fields]
        return None if mapping.kind_field is None else mapping.sources[names.index(mapping.kind_field)]


def _add_stored(plan: WritePlan, names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add key and partition columns as the table stores them, in Spark's types. Runs in tasks."""
    schema = plan.table.schema
    target = spark_arrow_schema(to_spark_struct([schema.field(name) for name in names]))
    for batch in batches:
        named = batch.rename_columns(plan.data_schema.names)
        rows = pa.Table.from_batches(list(batches_from_spark([named], plan.data_schema)))
        stored = plan.mapping.columns(rows).select(names).combine_chunks()
        for part in stored.to_batches() or [pa.RecordBatch.from_pylist([], stored.schema)]:
            (shown,) = convert_batches([part], names, target)
            columns = [f"_s{at}" for at in range(len(names))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *shown.columns], names=[*batch.schema.names, *columns])


def _named_partitions(rows: _Rows, overwrite: OverwriteSpec) -> OverwriteSpec:
    """The overwrite with its partitions by name: rows that keys leave behind belong to no partition in the data."""
    schema = rows.plan.table.schema
    beside = Beside.DELETES if key_rule(schema) is KeyRule.DELETE_OLD else Beside.ROWS
    if overwrite.kind is not OverwriteMode.DYNAMIC:
        return replace(overwrite, beside=beside)
    columns = [f"_s{rows.fields.index(schema.field(name))}" for name in schema.partition_keys]
    found = rows.frame.select(*columns).distinct().collect()
    specs = [dict(zip(schema.partition_keys, row, strict=True)) for row in found]
    return OverwriteSpec(OverwriteMode.STATIC, partitions=specs, beside=beside, nothing=not specs)


def _splits(plan: WritePlan, overwrite: OverwriteSpec | None, cores: int) -> list[DataSplit]:
    """The files of the keys that there are, and stay."""
    table = plan.table
    snapshot = plan.snapshot.find(table.snapshots)
    if snapshot is None:
        return []
    left_out = None
    if overwrite is not None and not overwrite.nothing:
        specs = [*([overwrite.partition] if overwrite.partition else ()), *overwrite.partitions]
        left_out = PartitionScope(table, specs, condition=overwrite.condition).contains
    return plan_key_places(table, snapshot, left_out=left_out, parallelism=cores)


def _placed(rows: _Rows, plan: WritePlan, splits: Sequence[DataSplit]) -> tuple[DataFrame, list[str]]:
    """The rows as they are written, behind them `FLAG` and `OLD_BUCKET`; and the names of the columns before."""
    schema = plan.table.schema
    number_of = {field.name: at for at, field in enumerate(rows.fields)}
    keys = [(number_of[name], schema.field(name)) for name in schema.primary_keys]
    joined = _joined(rows, plan, splits, keys)
    partitions = [(number_of[name], schema.field(name)) for name in schema.partition_keys]
    same = " AND ".join(f"{_value(f'_s{at}', f)} <=> {_value(f'_e{at}', f)}" for at, f in partitions)
    keys_of = ", ".join(f"_k{at}" for at, _ in keys)
    rule = key_rule(schema)
    if rule is KeyRule.DELETE_OLD:
        chosen = _last_rows(joined, keys_of, same, partitions, ignores_deletes=plan.mapping.ignore_delete)
    else:
        chosen = _kept_in_place(joined, keys_of, partitions, drops=rule is KeyRule.SKIP_NEW)
    out = [f"_o{at} AS `{number}`" for number, (at, _) in zip(rows.partition_columns, partitions, strict=True)]
    by_number = dict(zip(rows.partition_columns, out, strict=True))
    columns = []
    names = rows.names
    for number, name in enumerate(names):
        text = by_number.get(number, f"`{number}`")
        if name == VALUE_KIND.name:
            text = f"CAST(_kind AS TINYINT) AS `{number}`"
        elif number == rows.kind_column:
            text = f"CASE WHEN _kind = {RowKind.DELETE.value} THEN '-D' ELSE `{number}` END AS `{number}`"
        columns.append(text)
    if VALUE_KIND.name not in names:
        columns.append(f"CAST(_kind AS TINYINT) AS `{len(names)}`")
        names.append(VALUE_KIND.name)
    return chosen.selectExpr(*columns, FLAG, OLD_BUCKET), names


def _joined(
    rows: _Rows, plan: WritePlan, splits: Sequence[DataSplit], keys: Sequence[tuple[int, DataField]]
) -> DataFrame:
    """The rows with the old partition (``_e0`` and on) and bucket of their keys, null where a key is new."""
    named = [f"_k{at}" for at, _ in keys]
    frame = rows.frame.selectExpr("*", f"{rows.kind} AS _kind", "monotonically_increasing_id() AS _order")
    if plan.mapping.ignore_delete:
        frame = frame.where(f"NOT {_RETRACT}")
    elif plan.mapping.ignore_update_before:
        frame = frame.where(f"_kind <> {RowKind.UPDATE_BEFORE.value}")
    frame = frame.selectExpr("*", *(f"{_key(f'_s{at}', field)} AS _k{at}" for at, field in keys))
    if not splits:
        shown = to_spark_struct(rows.fields).fields
        nothing = [f"CAST(NULL AS {column.dataType.simpleString()}) AS _e{at}" for at, column in enumerate(shown)]
        return frame.selectExpr("*", *nothing, f"CAST(NULL AS INT) AS {OLD_BUCKET}")
    existing = existing_keys(frame.sparkSession, plan.table, splits, rows.fields)
    shown_keys = [f"{_key(f'_e{at}', field)} AS _k{at}" for at, field in keys]
    return frame.join(existing.selectExpr(*shown_keys, "*"), named, "left")


def _value(column: str, field: DataField) -> str:
    """SQL by which Spark tells values of a column apart as Paimon does: 0.0 and -0.0 are two."""
    return f"CAST({column} AS STRING)" if isinstance(field.type, FloatType | DoubleType) else column


def _key(column: str, field: DataField) -> str:
    """The same, where null is a value too."""
    value = _value(column, field)
    return f"named_struct('v', {value})" if field.type.nullable else value


def _last_rows(
    joined: DataFrame, keys: str, same: str, partitions: Sequence[tuple[int, DataField]], *, ignores_deletes: bool
) -> DataFrame:
    """Of each key the last row, and its old row as -D where that is in another partition."""
    last = joined.selectExpr("*", f"row_number() OVER (PARTITION BY {keys} ORDER BY _order DESC) AS _n").where("_n = 1")
    moves = last.selectExpr("*", f"{OLD_BUCKET} IS NOT NULL AND NOT ({same}) AS _moves")
    if ignores_deletes:
        parts = "array(1)"
    else:
        parts = f"CASE WHEN _moves AND {_RETRACT} THEN array(0) WHEN _moves THEN array(0, 1) ELSE array(1) END"
    both = moves.selectExpr("*", f"explode({parts}) AS _part")
    new = MOVES if ignores_deletes else NEW
    given = [column for column in both.columns if column != "_kind"]
    return both.selectExpr(
        *(f"`{column}`" for column in given),
        f"CASE WHEN _part = 0 THEN {RowKind.DELETE.value} ELSE _kind END AS _kind",
        *(f"CASE WHEN _part = 0 THEN _e{at} ELSE _s{at} END AS _o{at}" for at, _ in partitions),
        f"CASE WHEN _part = 0 THEN {KNOWN} WHEN _moves THEN {new} WHEN {OLD_BUCKET} IS NULL THEN {NEW} ELSE {KNOWN} "
        f"END AS {FLAG}",
    )


def _kept_in_place(
    joined: DataFrame, keys: str, partitions: Sequence[tuple[int, DataField]], *, drops: bool
) -> DataFrame:
    """All rows in the partition in which their key is, or came first; or only those that name it."""
    window = f"OVER (PARTITION BY {keys} ORDER BY _order)"
    numbered = joined.selectExpr(
        "*",
        f"CASE WHEN {OLD_BUCKET} IS NOT NULL THEN {KNOWN} WHEN row_number() {window} = 1 THEN {NEW} ELSE {AS_BEFORE} "
        f"END AS {FLAG}",
        *(
            f"CASE WHEN {OLD_BUCKET} IS NOT NULL THEN _e{at} ELSE first_value(_s{at}) {window} END AS _o{at}"
            for at, _ in partitions
        ),
    )
    if not drops:
        return numbered
    same = " AND ".join(f"{_value(f'_s{at}', f)} <=> {_value(f'_o{at}', f)}" for at, f in partitions)
    return numbered.where(same)
