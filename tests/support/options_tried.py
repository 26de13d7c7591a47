"""Each option with a value that it accepts, and tables that are written and read with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.after_commit import maintain
from paimon_spark.options import (
    OPTIONS,
    PATTERNS,
    Option,
    OptionKind,
    Refusal,
)
from paimon_spark.options.registry import fill_pattern, free_parts
from paimon_spark.read.row_views import find_view
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

EVERY = (*OPTIONS.values(), *PATTERNS)

FREE = {"field": "v", "type": "bloom-filter", "option": "x", "class": "a.B"}

SAMPLES = {
    OptionKind.BOOL: "true",
    OptionKind.INT: "3",
    OptionKind.LONG: "3",
    OptionKind.FLOAT: "0.3",
    OptionKind.MEMORY: "3 mb",
    OptionKind.DURATION: "3 h",
    OptionKind.STRING: "v",
    OptionKind.MAP: "1:v",
}


def key_of(option: Option) -> str:
    """A key that the option stands for."""
    parts = free_parts(option.key) if "<" in option.key or option.key.endswith("*") else ()
    return fill_pattern(option.key, tuple(FREE[part] for part in parts)) if parts else option.key


def value_of(option: Option, refused: Refusal | None = None) -> str:
    """A value that is not the default, and is one of those that are refused."""
    values = option.choices or (("true", "false") if option.type is OptionKind.BOOL else (SAMPLES[option.type],))
    candidates = [*(refused.only if refused else ()), *values]
    return next(
        text
        for text in candidates
        if option.parse(text) != option.default and (refused is None or refused.concerns(text))
    )


def write(table: FileStoreTable, rows: list[dict[str, Any]], *, watermark: int | None = None, **plan: Any) -> None:
    data = pa.Table.from_pylist(rows, to_arrow_schema(table.schema.fields))
    planned = plan_write(table, data_schema=data.schema, **plan)
    commit(
        table,
        [write_batches(planned, data.to_batches(), 0)],
        watermark=watermark,
        after_commit=lambda s: maintain(table, s),
    )


def read(table: FileStoreTable, view: str | None = None) -> list[dict[str, Any]]:
    found = find_view(view)
    assert found is not None
    plan = plan_of(table, found)
    read_of = read_split if view is None else plan.read
    batches = [batch for split in plan.splits for batch in read_of(plan.table, split, plan.fields, plan.residual)]
    return [row for batch in batches for row in batch.to_pylist()]
