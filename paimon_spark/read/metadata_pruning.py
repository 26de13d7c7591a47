"""Pruning files and buckets by a filter over metadata columns. Runs on the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.read.data_evolution import groups_of_rows
from paimon_spark.read.metadata_columns import BUCKET, FILE_PATH, metadata_fields
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import all_of, evaluate, fields
from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.special_fields import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.read.plan import ReadPlan
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema

_OF_FILES = (BUCKET, FILE_PATH)


def pruned_metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The metadata columns that have one value in each file; without those that a column of the table hides."""
    own = set(schema.field_names)
    return tuple(field for field in metadata_fields(schema) if field.name in _OF_FILES and field.name not in own)


def planned_metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The metadata columns by which planning leaves out files.

    With data evolution ids of rows are among them: those of a file follow each other.
    """
    tracked = schema.kind.has_data_evolution and not schema.has_field(ROW_ID.name)
    return (*pruned_metadata_fields(schema), *((ROW_ID,) if tracked else ()))


def row_id_predicate(predicates: Sequence[Predicate]) -> Predicate | None:
    """What predicates over `planned_metadata_fields` ask of the row id alone; None for nothing."""
    of_rows = [each for each in predicates if fields(each) == {ROW_ID.name}]
    return all_of(of_rows) if of_rows else None


def prune_by_metadata(plan: ReadPlan, predicates: Sequence[Predicate]) -> ReadPlan:
    """The plan without files that one of the predicates over `planned_metadata_fields` rules out.

    A predicate over ids of rows and other columns rules out none.
    """
    of_rows = row_id_predicate(predicates)
    of_files = [each for each in predicates if ROW_ID.name not in fields(each)]
    if of_files:
        plan = _prune_by_files(plan, all_of(of_files))
    return _prune_by_row_ids(plan, of_rows) if of_rows is not None and plan.splits else plan


def _prune_by_row_ids(plan: ReadPlan, predicate: Predicate) -> ReadPlan:
    """The plan without groups of files whose rows have other ids."""
    groups = [(at, group) for at, split in enumerate(plan.splits) for group in groups_of_rows(split.files)]
    first = pa.array([min(file.first_row_id or 0 for file in group) for _, group in groups], pa.int64())
    last = [max((file.first_row_id or 0) + file.row_count for file in group) - 1 for _, group in groups]
    bounds = first, pa.array(last, pa.int64()), pa.nulls(len(groups), pa.int64()).fill_null(0)
    rows = pa.array([group[0].row_count for _, group in groups], pa.int64())
    kept: list[set[str]] = [set() for _ in plan.splits]
    for (at, group), wanted in zip(groups, prune_stats(predicate, {ROW_ID.name: bounds}, rows), strict=True):
        kept[at].update(file.name for file in group if wanted)
    splits = [
        replace(split, files=tuple(file for file in split.files if file.name in names))
        for split, names in zip(plan.splits, kept, strict=True)
        if names
    ]
    return replace(plan, splits=tuple(splits))


def _prune_by_files(plan: ReadPlan, predicate: Predicate) -> ReadPlan:
    """The plan without files that a predicate over `pruned_metadata_fields` rules out.

    A split whose rows are merged from several files keeps all files or none. Such rows have no file path:
    `refuse_merged_splits` refuses a read that asks for it.
    """
    pairs = [(split, file) for split in plan.splits for file in split.files]
    values = {
        BUCKET: pa.array([split.bucket for split, _ in pairs], pa.int32()),
        FILE_PATH: pa.array([file.path for _, file in pairs], pa.string()),
    }
    columns = pruned_metadata_fields(plan.schema)
    batch = pa.RecordBatch.from_arrays([values[field.name] for field in columns], schema=to_arrow_schema(columns))
    wanted = np.asarray(evaluate(predicate, batch).fill_null(False))
    splits: list[DataSplit] = []
    start = 0
    for split in plan.splits:
        mask = wanted[start : start + len(split.files)]
        start += len(split.files)
        if mask.all() or (mask.any() and not split.raw_convertible):
            splits.append(split)
        elif mask.any():
            kept = tuple(file for file, keep in zip(split.files, mask, strict=True) if keep)
            splits.append(replace(split, files=kept))
    return replace(plan, splits=tuple(splits))
