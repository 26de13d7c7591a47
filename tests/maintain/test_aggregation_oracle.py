"""Every aggregate function in every file format: Java and we write and compact one table in turns, with retractions."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.merge_cases import KEY_TIME, NESTED, canonical, rows_of, rows_table
from tests.support.plans import plan_of
from tests.support.seeds import chance

pytestmark = pytest.mark.oracle

TAKES_BACK = ("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update")
FUNCTIONS: list[tuple[str, str, dict[str, str]]] = [
    *(("sum", kind, {}) for kind in ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(12, 2)")),
    ("sum", "DECIMAL(30, 4)", {}),
    ("product", "DOUBLE", {}),
    *(("max", kind, {}) for kind in ("INT", "STRING", "DATE", "DECIMAL(12, 2)")),
    ("min", "DOUBLE", {}),
    *((name, "STRING", {}) for name in ("last_value", "last_non_null_value", "first_value", "first_non_null_value")),
    ("bool_and", "BOOLEAN", {}),
    ("bool_or", "BOOLEAN", {}),
    ("listagg", "STRING", {}),
    ("listagg", "STRING", {"distinct": "true", "list-agg-delimiter": ";"}),
    ("collect", "ARRAY<INT>", {}),
    ("collect", "ARRAY<INT>", {"distinct": "true"}),
    ("merge_map", "MAP<STRING, INT>", {}),
    ("merge_map_with_keytime", KEY_TIME, {}),
    ("nested_update", NESTED, {}),
    ("nested_update", NESTED, {"nested-key": "a"}),
    ("nested_partial_update", NESTED, {"nested-key": "a"}),
]
HASHED = ("collect", "merge_map", "merge_map_with_keytime", "nested_update", "nested_partial_update")
"""Their elements have no order."""


def columns_and_options() -> tuple[dict[str, str], dict[str, str]]:
    columns, options = {"k": "INT NOT NULL"}, {"bucket": "2", "merge-engine": "aggregation"}
    for i, (function, kind, given) in enumerate(FUNCTIONS):
        columns[f"v{i}"] = kind
        options[f"fields.v{i}.aggregate-function"] = function
        options.update({f"fields.v{i}.{key}": text for key, text in given.items()})
        if function not in TAKES_BACK:
            options[f"fields.v{i}.ignore-retract"] = "true"
    return columns, options


def value(rng: random.Random, kind: str) -> Any:
    if rng.random() < 0.25:
        return None
    number = rng.randrange(1, 4)
    if kind.startswith("DECIMAL"):
        return pa.scalar(str(number)).cast(pa.decimal128(12, 2)).as_py()
    if kind.startswith(("ARRAY<INT", "ARRAY<ROW")):
        size = rng.randrange(3)
        if kind == NESTED:
            return [{"a": a, "b": rng.randrange(3), "c": rng.choice(["x", None])} for a in rng.sample(range(3), size)]
        return [rng.randrange(3) for _ in range(size)]
    if kind == KEY_TIME:
        return [(key, {"v": number, "ts": str(rng.randrange(4))}) for key in rng.sample("abc", rng.randrange(3))]
    if kind.startswith("MAP"):
        return [(key, number) for key in rng.sample("abc", rng.randrange(3))]
    return {"BOOLEAN": number > 1, "STRING": f"t{number}"}.get(kind, float(number) if kind in _FLOATS else number)


_FLOATS = ("FLOAT", "DOUBLE")


def rows(rng: random.Random, columns: dict[str, str], count: int) -> pa.Table:
    made = [
        {
            **{name: value(rng, kind) for name, kind in columns.items()},
            "k": rng.randrange(15),
            "_SEQUENCE_NUMBER": 0,
            "_VALUE_KIND": rng.choice([0, 0, 0, 2, 1, 3]),
        }
        for _ in range(count)
    ]
    return rows_table(columns, made)


def write_ours(table: FileStoreTable, data: pa.Table) -> None:
    given = data.drop_columns(["_SEQUENCE_NUMBER"])
    plan = plan_write(table, data_schema=given.schema)
    commit(table, [write_batches(plan, given.to_batches(), 0)])


def comparable(found: pa.Table, columns: dict[str, str]) -> Counter[str]:
    plain = []
    for row in rows_of(found.select(list(columns))):
        for i, (function, _, _) in enumerate(FUNCTIONS):
            if function in HASHED and row[f"v{i}"] is not None:
                row[f"v{i}"] = sorted(row[f"v{i}"], key=repr)
        plain.append(repr(canonical(row)))
    return Counter(plain)


def ours(table: FileStoreTable) -> pa.Table:
    plan = plan_of(table)
    batches = [b for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def check_levels(table: FileStoreTable) -> None:
    """No overlap above level 0, sequence bounds and delete counts that fit."""
    by_run: dict[tuple[int, int], list[Any]] = {}
    for entry in table.manifests.live_entries(table.snapshots.latest()):
        file = entry.file
        assert file.min_sequence_number <= file.max_sequence_number
        assert 0 <= file.delete_row_count <= file.row_count
        assert file.level < table.options.num_levels - 1 or file.delete_row_count == 0
        if file.level:
            by_run.setdefault((entry.bucket, file.level), []).append((file.min_key, file.max_key))
    for ranges in by_run.values():
        keys = [int.from_bytes(key[-8:], "little") for pair in sorted(ranges) for key in pair]
        assert sorted(keys) == sorted(set(keys)) or len(ranges) == 1


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_java_and_we_take_turns(oracle: Any, file_format: str) -> None:
    rng = chance("aggregation", file_format)
    columns, options = columns_and_options()
    name = f"db.functions_{file_format}"
    extra = {"file.format": file_format, "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    oracle.create(name, list(columns.items()), pk=["k"], options={**options, **extra})
    path = oracle.location(name).removeprefix("file:")
    awake = {"write-only": "false"}
    for turn in range(8):
        data = rows(rng, columns, 12)
        if turn % 2:
            oracle.write(path, data.drop_columns(["_SEQUENCE_NUMBER"]).rename_columns([*columns, "_kind"]))
        else:
            write_ours(load_table(path), data)
        if turn in (2, 5):
            compact(load_table(path, options=awake), full=turn == 5)
        elif turn in (3, 6):
            oracle.compact(path, full=turn == 3)
        table = load_table(path)
        check_levels(table)
        assert comparable(ours(table), columns) == comparable(
            oracle.read(path).cast(to_arrow_schema(table.schema.fields)), columns
        )
