"""Pruning files and buckets by a filter over metadata columns. Runs on the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.read.metadata_columns import BUCKET, FILE_PATH, metadata_fields
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import evaluate

if TYPE_CHECKING:
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


def prune_by_metadata(plan: ReadPlan, predicate: Predicate) -> ReadPlan:
    """The plan without files that a predicate over `pruned_metadata_fields` rules out.

    A split whose rows are merged from several files keeps all files or none. Such rows have no file path:
    `refuse_merged_splits` refuses a read that asks for it.
    """
    pairs = [(split, file) for split in plan.splits for file in split.files]
    values = {
        BUCKET: pa.array([split.bucket for split, _ in pairs], pa.int32()),
        FILE_PATH: pa.array([file.path for _, file in pairs], pa.string()),
    }
    fields = pruned_metadata_fields(plan.schema)
    batch = pa.RecordBatch.from_arrays([values[field.name] for field in fields], schema=to_arrow_schema(fields))
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
