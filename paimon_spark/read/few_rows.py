"""Plans of which few rows are decoded: by the pages that can match, or since few rows are wanted. Runs on the driver.

Statistics of manifests leave out files; the footers and page indexes of the files that are left tell how many of their
rows a reader decodes. That is asked of few files, and only of those whose reading begins with the same anyway.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.read.sections import columns_of
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.predicate import Leaf, fields, implied_by, split_and
from paimon_spark.storage.data_file import DEFAULT_BATCH_ROWS
from paimon_spark.storage.formats import open_data_file

if TYPE_CHECKING:
    from collections.abc import Collection

    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_MOST_VALUES = 64
_LEAST_BATCH_ROWS = 1_024
_LOWER, _UPPER = ("gt", "ge"), ("lt", "le")


def pins_rows(predicate: Predicate | None) -> bool:
    """Return whether a predicate has a column with few values, or with a range that has two ends."""
    ends: dict[str, set[bool]] = {}
    for part in () if predicate is None else split_and(predicate):
        if not isinstance(part, Leaf):
            continue
        if part.op in ("eq", "between") or (part.op == "in" and len(part.literals) <= _MOST_VALUES):
            return True
        if part.op in (*_LOWER, *_UPPER):
            ends.setdefault(part.field, set()).add(part.op in _LOWER)
    return any(len(found) > 1 for found in ends.values())


def decodes_few_rows(plan: ReadPlan, most: int) -> bool:
    """Return whether a reader decodes at most so many rows of the files of a plan.

    Args:
        plan: its splits are of a snapshot of one table.
        most: rows.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    rows = 0
    seen: set[str] = set()  # a file may be cut into splits
    for split in plan.splits:
        for file in split.files:
            if file.path in seen:
                continue
            seen.add(file.path)
            if file.row_count > most - rows:
                rows += _decoded_rows(plan, split, file)
            else:
                rows += file.row_count
            if rows > most:
                return False
    return True


def _decoded_rows(plan: ReadPlan, split: DataSplit, file: SplitFile) -> int:
    table = plan.table
    predicate = plan.residual
    if table.schema.kind.is_keyed and not split.raw_convertible:
        predicate = implied_by(predicate, table.schema.trimmed_primary_keys)  # a newer row may have another value
    if predicate is None or file.deletion_vector is not None or file.file_index is not None:
        return file.row_count
    columns = columns_of(table.schemas.get(file.schema_id), file.write_cols)
    pushed = FieldMapping.of(columns, _columns_of(table, fields(predicate)), {}).file_predicate(predicate)
    if pushed is None:
        return file.row_count
    options = table.schema.options
    with open_data_file(
        table.file_io, file.path, file.format, file.size, rows=file.row_count, options=options
    ) as opened:
        return opened.most_rows(pushed)


def _columns_of(table: FileStoreTable, names: Collection[str]) -> list[DataField]:
    return [field for field in table.schema.fields if field.name in names]


def of_first_rows(plan: ReadPlan, rows: int) -> ReadPlan:
    """Return the same plan, whose batches hold about so many rows: not all rows of its splits are wanted."""
    return (
        replace(plan, read=partial(read_split, batch_rows=first_batch_rows(rows))) if plan.read is read_split else plan
    )


def first_batch_rows(rows: int) -> int:
    """Return how many rows a batch has where only so many rows are wanted."""
    return min(DEFAULT_BATCH_ROWS, max(rows, _LEAST_BATCH_ROWS))
