"""A key is in one partition only, whatever rows come and whether they fit into memory: against a dict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.spec.data_types import DataField, DoubleType, IntType, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.bucket_assignment import LOCATION
from paimon_spark.write.bucket_filling import DynamicBucketPlan
from paimon_spark.write.cross_partition_update import (
    ORDER,
    assign_all_rows,
    assign_partitions,
    cross_partition_schema,
    pack_known_keys,
    pack_new_rows,
)
from paimon_spark.write.packed_rows import unpack_rows
from paimon_spark.write.plan import WritePlan, plan_write

SCHEMA = pa.schema([("k", pa.float64()), ("p", pa.int32()), ("v", pa.string()), ("_VALUE_KIND", pa.int8())])
KEYS = [0.0, -0.0, 1.0, float("nan"), 2.5, 7.0]
ROWS = st.lists(st.tuples(st.sampled_from(range(6)), st.sampled_from([None, 1, 2]), st.sampled_from([0, 2, 3])))
KNOWN = st.dictionaries(st.sampled_from(range(6)), st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 3)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cross_partition")


def make(folder: Path, engine: str, budget: str) -> FileStoreTable:
    kinds = {"k": DoubleType(nullable=False), "p": IntType(), "v": VarCharType(length=VarCharType.MAX)}
    fields = [DataField(number, name, kind) for number, (name, kind) in enumerate(kinds.items())]
    options = {"bucket": "-1", "merge-engine": engine, "write-buffer-size": budget}
    path = str(folder / f"{engine}-{budget.replace(' ', '')}")
    schema = create_schema(fields, ["k"], ["p"], options)
    if (Path(path) / "schema").exists():
        return load_table(path)
    return create_table(path, schema, file_io=FileIO.for_path(path))


def assigned(
    plan: WritePlan, rows: list[tuple[int, int | None, int]], known: dict[int, tuple[int | None, int]], tasks: int
) -> list[tuple[int, int | None, int, int]]:
    """Key number, partition, kind and bucket of each row as it is written, by some tasks or by the one that writes."""
    columns = [[KEYS[k] for k, *_ in rows], [p for _, p, _ in rows], [str(i) for i in range(len(rows))]]
    data = pa.table([*columns, [kind for *_, kind in rows]], schema=SCHEMA)
    keys = [
        (pa.record_batch([pa.array([KEYS[key]]), pa.array([partition], pa.int32())], names=["k", "p"]), bucket)
        for key, (partition, bucket) in known.items()
    ]
    after = replace(plan_write(plan.table, data_schema=cross_partition_schema(plan.table.schema)), dynamic=plan.dynamic)
    if tasks == 1:
        # rows come in any order of their numbers
        data = data.append_column(ORDER, pa.array(range(len(rows)), pa.int64()))
        batches = [batch for start in range(0, len(rows), 2) for batch in data.slice(start, 2).to_batches()]
        found = list(assign_all_rows(plan, after, reversed(batches), keys))
    else:
        targets = list(range(tasks))
        packed = list(pack_new_rows(plan, data.to_batches(), 0, targets)) if rows else []
        packed += pack_known_keys(plan.table.schema, keys, targets)
        each = [[batch for batch in packed if batch.column(0)[0].as_py() == task] for task in targets]
        found = [
            batch for task in targets for batch in unpack_rows(assign_partitions(after, each[task], task, targets))
        ]
    numbers = {repr(value): number for number, value in enumerate(KEYS)}
    written = [row for batch in found for row in batch.to_pylist()]
    return [(numbers[repr(row["k"])], row["p"], row["_VALUE_KIND"], row[LOCATION] >> 32) for row in written]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
@settings(max_examples=60)
@given(rows=ROWS, known=KNOWN, small=st.booleans(), tasks=st.sampled_from([1, 2]))
def test_a_key_is_in_one_partition(
    folder: Path,
    engine: str,
    rows: list[tuple[int, int | None, int]],
    known: dict[int, tuple[int | None, int]],
    small: bool,
    tasks: int,
) -> None:
    table = make(folder, engine, "1 b" if small else "1 mb")
    counts = DynamicBucketPlan(known={}, target_rows=2, max_buckets=-1, keys_apart=True, log=None)
    plan = replace(plan_write(table, data_schema=SCHEMA), dynamic=counts)
    found = assigned(plan, rows, known, tasks)
    now: dict[int, set[tuple[int | None, int]]] = {key: {location} for key, location in known.items()}
    for key, partition, kind, bucket in found:
        if kind == 3 and engine == "deduplicate" and (partition, bucket) in now.get(key, set()):
            now[key].discard((partition, bucket))
        elif kind != 3:
            now.setdefault(key, set()).add((partition, bucket))
    assert all(len(locations) <= 1 for locations in now.values())
    last = {key: (partition, kind) for key, partition, kind in rows}
    for key, (partition, kind) in last.items():
        if engine == "deduplicate" and kind != 3:
            assert {location[0] for location in now[key]} == {partition}
        elif engine != "deduplicate" and key in known:
            assert {p for k, p, *_ in found if k == key} <= {known[key][0]}
