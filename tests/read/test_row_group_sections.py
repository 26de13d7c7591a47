"""Splits that are cut between row groups, and newest rows of partial-update: the same rows as of a merge of all."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read import row_group_sections
from paimon_spark.read.plain_files import merged_splits, newest_row_wins
from paimon_spark.read.row_group_sections import cut_by_keys, in_key_ranges
from paimon_spark.read.split import DataSplit, KeyRangeSplit
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.special_fields import RowKind
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.seeds import chance

KEYS = {
    "INT": lambda n: n - 100,
    "BIGINT": lambda n: (n - 100) << 40,
    "STRING": lambda n: f"{n:03} ä" + "\U0001f600" * (n % 2),
    "DATE": lambda n: date(2026, 1, 1) + timedelta(n),
}
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "sequence group": {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
    "aggregation": {"merge-engine": "aggregation", "fields.w.aggregate-function": "sum"},
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_group_sections, "LEAST_ROWS", 4)
    monkeypatch.setattr(row_group_sections, "_LEAST_MERGED_BYTES", 1)


def write(table: FileStoreTable, rows: list[dict[str, Any]], *, deletes: bool = False) -> None:
    plain = pa.RecordBatch.from_pylist(rows, to_arrow_schema(table.schema.fields))
    kinds = pa.array([RowKind.DELETE if deletes else RowKind.INSERT] * len(rows), pa.int8())
    batch = pa.RecordBatch.from_arrays([*plain.columns, kinds], names=[*plain.schema.names, "_VALUE_KIND"])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def make(path: Path, key: str, options: dict[str, str], primary: tuple[str, ...] = ("k",)) -> FileStoreTable:
    names = [("k", f"{key} NOT NULL"), ("w", "INT"), ("s", "INT"), ("v", "STRING")]
    fields = [DataField(at, name, parse_type(text)) for at, (name, text) in enumerate(names)]
    if "w" in primary:
        fields[1] = replace(fields[1], type=IntType(nullable=False))
    given = {"bucket": "1", "write-only": "true", "parquet.block.row.count.limit": "4", **options}
    return create_table(str(path), create_schema(fields, primary, (), given, None))


def row(key: Any, number: int, **values: Any) -> dict[str, Any]:
    return {"k": key, "w": number % 3, "s": number, "v": f"v{number}", **values}


def rows_of(
    plan: ReadPlan, splits: Sequence[DataSplit] | None = None, condition: Predicate | None = None
) -> Counter[str]:
    return Counter(
        str(list(row.values()))
        for split in (plan.splits if splits is None else splits)
        for batch in read_split(plan.table, split, plan.fields, condition)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", KEYS)
def test_a_cut_plan_has_the_same_rows(tmp_path: Path, key: str, engine: str) -> None:
    random = chance("row groups", key, engine)
    table = make(tmp_path / "t", key, ENGINES[engine], random.choice([("k",), ("k", "w")]))
    for number in range(4):
        first = random.randrange(150) if number else 0
        count = random.randrange(1, 60) if number else 200
        step = random.choice([1, 2])
        write(table, [row(KEYS[key](n), n + number) for n in range(first, min(200, first + count), step)])
        if number == 1 and random.random() < 0.5:
            compact(load_table(table.path, options={"write-only": "false"}), full=True)
    if engine == "deduplicate":
        write(table, [row(KEYS[key](n), n) for n in range(20, 30)], deletes=True)
    plan = plan_of(load_table(table.path))
    cut = cut_by_keys(plan.table, plan.splits)
    assert rows_of(plan, cut) == rows_of(plan)
    alone = [file for split in cut if split.raw_convertible for file in split.files]
    assert any(file.row_groups is not None for file in alone)


def test_large_merged_parts_are_cut_too(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "INT", {})
    write(table, [row(n, n) for n in range(64)])
    write(table, [row(n, n + 1) for n in range(0, 48, 4)])
    plan = plan_of(load_table(table.path))
    cut = cut_by_keys(plan.table, plan.splits)
    assert len([split for split in cut if not split.raw_convertible]) > 1
    assert rows_of(plan, cut) == rows_of(plan)


@pytest.mark.parametrize("why", ["all overlap", "deletes alone", "key type", "orc", "few rows"])
def test_what_is_not_cut_stays_the_same_object(tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "DOUBLE" if why == "key type" else "INT"
    table = make(tmp_path / "t", key, {"file.format": "orc"} if why == "orc" else {})
    if why == "few rows":
        monkeypatch.setattr(row_group_sections, "LEAST_ROWS", 100)
    write(table, [row(n, n) for n in range(32)], deletes=why == "deletes alone")
    write(table, [row(n, n + 1) for n in (range(32) if why == "all overlap" else range(4))])
    splits = plan_of(load_table(table.path)).splits
    cut = cut_by_keys(table, splits)
    assert len(cut) == len(splits) == 1
    assert cut[0] is splits[0]


def row_groups(splits: Sequence[DataSplit]) -> int:
    """How many row groups are read. A cut between two keys is inside of one of them at the most in each file."""
    counts = [(file, pq.ParquetFile(file.path).num_row_groups) for split in splits for file in split.files]
    return sum(count if file.row_groups is None else len(file.row_groups.indexes(count)) for file, count in counts)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("cut_before", [False, True])
def test_ranges_of_keys_have_the_same_rows(tmp_path: Path, key: str, engine: str, cut_before: bool) -> None:
    random = chance("key ranges", key, engine)
    table = make(tmp_path / "t", key, ENGINES[engine], random.choice([("k",), ("k", "w")]))
    for number in range(4):
        first, step = (random.randrange(50), random.choice([1, 2, 3])) if number else (0, 1)
        write(table, [row(KEYS[key](n), n + number) for n in range(first, 150, step)])
    if engine == "deduplicate":
        write(table, [row(KEYS[key](n), n) for n in range(20, 90)], deletes=True)
    plan = plan_of(load_table(table.path))
    splits = cut_by_keys(plan.table, plan.splits) if cut_before else plan.splits
    cut = in_key_ranges(plan.table, splits, 40 if cut_before else 5)
    assert len([split for split in cut if isinstance(split, KeyRangeSplit)]) > 3
    cuts, files = len(cut) - len(splits), max(len(split.files) for split in splits)
    assert row_groups(splits) <= row_groups(cut) <= row_groups(splits) + cuts * files
    assert rows_of(plan, pickle.loads(pickle.dumps(cut))) == rows_of(plan)
    few = replace(plan, fields=tuple(field for field in plan.fields if field.name == "s"))
    condition = Leaf("gt", "s", (40,))
    assert rows_of(few, cut, condition) == rows_of(few, None, condition)


def test_a_scan_whose_tasks_have_enough_to_do_is_not_cut(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "INT", {"bucket": "8"})
    for _ in range(2):
        write(table, [row(n, n) for n in range(200)])
    splits = plan_of(load_table(table.path)).splits
    assert all(a is b for a, b in zip(in_key_ranges(table, splits, 4), splits, strict=True))


def test_one_key_is_one_range(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "INT", {}, ("k", "w"))
    for number in range(3):
        write(table, [row(7, number, w=w) for w in range(40)])
    splits = plan_of(load_table(table.path)).splits
    assert in_key_ranges(table, splits, 4) == list(splits)


def test_footers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", "INT", {})
    write(table, [row(n, n) for n in range(32)])
    write(table, [row(n, n + 1) for n in range(4)])
    plan = plan_of(load_table(table.path))
    first = cut_by_keys(plan.table, plan.splits)
    monkeypatch.setattr(row_group_sections, "open_data_file", None)
    assert cut_by_keys(plan.table, plan.splits) == first


PARTIAL = {"merge-engine": "partial-update"}


@pytest.mark.parametrize(
    ("options", "old", "new", "wins"),
    [
        (PARTIAL, {}, {}, True),
        (PARTIAL, {"v": None}, {}, True),  # the newer value is there
        (PARTIAL, {}, {"v": None}, False),
        (PARTIAL | {"sequence.field": "s"}, {}, {}, True),
        (PARTIAL | {"sequence.field": "s"}, {"v": None}, {}, False),  # an older file may have the newest row
        (PARTIAL | {"fields.s.sequence-group": "v"}, {}, {}, False),
        (PARTIAL | {"fields.s.sequence-group": "w", "fields.w.aggregate-function": "sum"}, {}, {}, False),
        (PARTIAL | {"changelog-producer": "lookup"}, {}, {}, False),
        ({}, {}, {}, False),  # it needs no such look
    ],
)
def test_the_newest_row_wins_where_newer_files_have_no_nulls(
    tmp_path: Path, options: dict[str, str], old: dict[str, Any], new: dict[str, Any], wins: bool
) -> None:
    table = make(tmp_path / "t", "INT", options)
    write(table, [row(n, n, **old) for n in range(8)])
    write(table, [row(n, n + 1, **new) for n in range(4, 12)])
    plan = plan_of(load_table(table.path))
    assert newest_row_wins(plan) == wins
    if wins:
        as_if = plan.table.as_if({"merge-engine": "deduplicate"})
        assert rows_of(replace(plan, table=as_if)) == rows_of(plan)


def test_only_the_columns_of_the_read_count(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "INT", {**PARTIAL, "fields.s.sequence-group": "v"})
    write(table, [row(n, n) for n in range(8)])
    write(table, [row(n, n + 1) for n in range(4)])
    plan = plan_of(load_table(table.path))
    fields = tuple(field for field in plan.fields if field.name in ("k", "w"))
    assert newest_row_wins(replace(plan, fields=fields))
    assert newest_row_wins(replace(plan, fields=fields[:1]))


def test_a_delete_is_merged(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "INT", {**PARTIAL, "partial-update.remove-record-on-delete": "true"})
    write(table, [row(n, n) for n in range(8)])
    write(table, [row(3, 3)], deletes=True)
    plan = plan_of(load_table(table.path))
    assert merged_splits(plan)
    assert not newest_row_wins(plan)
