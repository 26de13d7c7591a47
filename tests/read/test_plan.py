"""Planning: pruning is safe for every predicate, splits are those of Java, damage is named."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.read import split_generator
from paimon_spark.read.split import RowGroups
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Always, And, Leaf, Not, Or, Predicate, evaluate, fields
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import GOLDEN, GoldenRead, golden_tables, not_yet, row_multiset
from tests.support.plans import plan_of
from tests.support.seeds import pairs

LATEST = {"id": "latest", "options": {}}
READABLE = [
    table
    for table in golden_tables()
    if not_yet(GoldenRead(table, LATEST)) is None
    and not table.name.startswith("pk_aggregation_overflow")  # an error in Java 2.x and here
    and any(read["id"] == "latest" for read in table.expect["reads"])
]


def rows(plan: ReadPlan) -> pa.Table:
    batches = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def golden_table(name: str, **options: str) -> FileStoreTable:
    return load_table(
        str(GOLDEN / name / "table"), options={k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    )


def predicates(table: pa.Table, seed: int) -> Iterator[Predicate]:
    """Predicates made of values that the table holds, and of some that it does not."""
    random = np.random.default_rng(seed)
    leaves: list[Predicate] = []
    for name in table.schema.names:
        if pa.types.is_nested(table.schema.field(name).type):
            continue
        values = [value for value in table.column(name).unique().to_pylist() if value is not None]
        leaves.append(Leaf("is_null", name))
        if not values:
            continue
        one, other = (values[i] for i in random.integers(0, len(values), 2))
        leaves.append(Leaf("eq", name, (one,)))
        leaves.append(Leaf("in", name, (one, other)))
        leaves.append(Not(Leaf("eq", name, (other,))))
        if not isinstance(one, bool):
            low, high = sorted((one, other), key=lambda v: (v != v, v))
            leaves.append(Leaf(str(random.choice(["lt", "le", "gt", "ge"])), name, (one,)))
            leaves.append(Leaf("between", name, (low, high)))
        if isinstance(one, str):
            leaves.append(Leaf("starts_with", name, (one[:2],)))
    random.shuffle(leaves)  # type: ignore[arg-type]
    yield from leaves[:9]
    for _ in range(2):
        left, middle, right = (leaves[i] for i in random.integers(0, len(leaves), 3))
        yield And((left, right))
        yield Or((left, And((middle, right))))
        yield And((Or((left, middle)), Not(right)))


@pytest.mark.parametrize("golden", READABLE, ids=lambda t: t.name)
def test_a_filtered_read_is_the_filtered_full_read(golden: Any) -> None:
    table = load_table(str(golden.path))
    full = rows(plan_of(table))
    for predicate in predicates(full, len(golden.name)):
        expected = full.filter(evaluate(predicate, full.combine_chunks()))
        assert row_multiset(rows(plan_of(table, predicate=predicate))) == row_multiset(expected), predicate


@pytest.mark.parametrize("golden", READABLE[::4], ids=lambda t: t.name)
def test_columns_of_the_filter_need_not_be_wanted(golden: Any) -> None:
    table = load_table(str(golden.path))
    full = rows(plan_of(table))
    for predicate in list(predicates(full, 1))[:6]:
        wanted = [name for name in full.schema.names if name not in fields(predicate)][-2:]
        expected = full.filter(evaluate(predicate, full.combine_chunks()))
        found = rows(plan_of(table, columns=wanted, predicate=predicate))
        assert found.schema.names == wanted
        if wanted:
            assert row_multiset(found) == row_multiset(expected.select(wanted))


@pytest.mark.parametrize(
    "name", ["append_types_parquet", "pk_many_levels", "append_partitioned_plain", "mixed_formats"]
)
def test_rows_can_be_counted_without_any_column(name: str) -> None:
    table = golden_table(name)
    plan = plan_of(table, columns=[])
    counted = [b.num_rows for split in plan.splits for b in read_split(plan.table, split, (), plan.residual)]
    assert sum(counted) == rows(plan_of(table)).num_rows > 0


def test_a_plan_and_its_splits_travel_to_tasks() -> None:
    plan = plan_of(golden_table("pk_many_levels"), predicate=Leaf("gt", "k", (0,)))
    again = [
        batch
        for split in plan.splits
        for batch in read_split(
            pickle.loads(pickle.dumps(plan.table)), pickle.loads(pickle.dumps(split)), plan.fields, plan.residual
        )
    ]
    assert row_multiset(pa.Table.from_batches(again)) == row_multiset(rows(plan))


def manifests_read(table: FileStoreTable, predicate: Predicate | None) -> int:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return len(table.manifests.prune_manifests(table.manifests.data_manifests(snapshot), predicate))


def test_a_partition_filter_reads_only_manifests_and_files_of_its_partitions() -> None:
    table = golden_table("old_0_9_append")
    everything = plan_of(table)
    key = table.schema.partition_keys[0]
    one = rows(everything).column(key).unique()[0].as_py()
    predicate = Leaf("eq", key, (one,))
    plan = plan_of(table, predicate=predicate)
    assert 0 < len(plan.splits) < len(everything.splits)
    assert len({split.partition for split in plan.splits}) == 1
    assert plan.residual is None
    assert manifests_read(table, predicate) <= manifests_read(table, None)
    assert manifests_read(table, Leaf("is_null", key)) == 0


def test_a_key_filter_prunes_buckets_and_overlapping_files() -> None:
    table = golden_table("pk_many_levels")
    full = rows(plan_of(table))
    key = full.column("k")[0].as_py()
    files = sum(len(split.files) for split in plan_of(table).splits)
    one = plan_of(table, predicate=Leaf("eq", "k", (key,)))
    assert sum(len(split.files) for split in one.splits) < files
    assert rows(one).num_rows == 1
    assert plan_of(table, predicate=Leaf("gt", "k", (2**31 - 1,))).splits == ()


def test_a_value_filter_never_drops_single_files_of_an_overlapping_bucket() -> None:
    table = golden_table("pk_many_levels")
    files = {f.name for split in plan_of(table).splits for f in split.files}
    values = rows(plan_of(table)).schema.names[1:]
    for name in values:
        planned = plan_of(table, predicate=Leaf("is_not_null", name))
        assert {f.name for split in planned.splits for f in split.files} == files


def test_nothing_is_read_for_what_is_never_true() -> None:
    assert plan_of(golden_table("pk_many_levels"), predicate=Always(False)).splits == ()


def test_splits_are_those_of_java() -> None:
    """Files of one level without deletes are raw; sections of touching keys stay together (Java's split generator)."""
    table = golden_table("pk_many_levels")
    plan = plan_of(table)
    assert all(not split.raw_convertible or all(not f.min_key for f in split.files) for split in plan.splits)
    assert len(plan.splits) == 1
    assert not plan.splits[0].raw_convertible
    assert all(split.raw_convertible for split in plan_of(golden_table("pk_dedup_int", scan__snapshot_id="9")).splits)
    tiny = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    many = plan_of(load_table(table.path, options=tiny))
    assert len(many.splits) >= len(plan.splits)
    assert row_multiset(rows(many)) == row_multiset(rows(plan))


def test_a_large_parquet_file_is_cut_by_row_groups() -> None:
    table = golden_table("append_types_parquet")
    plan = plan_of(table)
    smallest = min(f.size for split in plan.splits for f in split.files)
    options = {"source.split.target-size": f"{smallest // 3} b", "source.split.open-file-cost": "1 b"}
    cut = plan_of(load_table(table.path, options=options))
    assert {f.row_groups[1] for split in cut.splits for f in split.files if f.row_groups} >= {3}
    assert row_multiset(rows(cut)) == row_multiset(rows(plan))
    counted = plan_of(load_table(table.path, options=options), columns=[])
    total = sum(b.num_rows for s in counted.splits for b in read_split(counted.table, s, (), None))
    assert total == rows(plan).num_rows


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_one_file_gives_every_task_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]) -> None:
    """A file that a compaction made of many is read by as many tasks as those were, unless few rows are wanted."""
    monkeypatch.setattr(split_generator, "_LEAST_SLICE_BYTES", 1 << 10)
    data = pa.table({"k": np.arange(600_000), "v": np.arange(600_000) % 7})
    options = {"bucket": 1} if keys else {}
    made = paimon_spark.create_table(tmp_path / "t", data.schema, primary_keys=keys, write_only=True, **options)
    made.append(data)
    made.compact(full=True)
    table = load_table(str(tmp_path / "t"), options={"source.split.open-file-cost": "1 kb"})
    cut = plan_of(table, parallelism=3, whole_files=False)
    slices = [[RowGroups(at, at + 1, 3)] for at in range(3)]
    assert [[file.row_groups for file in split.files] for split in cut.splits] == slices
    assert [rows(replace(cut, splits=(split,))).num_rows for split in cut.splits] == [1 << 18, 1 << 18, 75_712]
    assert rows(cut).sort_by("k").cast(data.schema).equals(data)
    for other in (
        plan_of(table),
        plan_of(table, parallelism=3, limit=5, whole_files=False),
        plan_of(table, parallelism=3),
    ):
        assert [file.row_groups for split in other.splits for file in split.files] == [None]
    monkeypatch.undo()
    assert len(plan_of(table, parallelism=3, whole_files=False).splits) == 1
    paimon_spark.open_table(tmp_path / "t").append(data.slice(0, 10))
    merged = [split for split in plan_of(table, parallelism=3, whole_files=False).splits if not split.raw_convertible]
    assert [file.row_groups for split in merged for file in split.files] == [None, None] * bool(keys)


@pytest.mark.parametrize("sizes", [("1 b", "1 b"), ("1 b", "0 b"), ("0 b", "0 b"), ("128 mb", "0 b")])
def test_tiny_target_sizes_do_not_cut_files_into_slices_without_rows(sizes: tuple[str, str]) -> None:
    table = golden_table("append_types_parquet")
    plan = plan_of(table)
    files = [file for split in plan.splits for file in split.files]
    cut = plan_of(load_table(table.path, options=dict(zip(_SIZES, sizes, strict=True))))
    assert len(cut.splits) <= sum(min(file.row_count, 16) for file in files)
    assert row_multiset(rows(cut)) == row_multiset(rows(plan))


_SIZES = ("source.split.target-size", "source.split.open-file-cost")


@pytest.mark.parametrize(
    "name", ["pk_many_levels", "pk_partial_update_groups_multi", "pk_dedup_string", "pk_sequence_desc"]
)
def test_a_section_larger_than_the_memory_budget_gives_the_same_rows(name: str) -> None:
    table = golden_table(name)
    small = load_table(table.path, options={"read.merge.memory-budget": "1 kb"})
    assert row_multiset(rows(plan_of(small))) == row_multiset(rows(plan_of(table)))


def test_a_limit_plans_no_more_than_it_must() -> None:
    table = golden_table("many_manifests_append")
    tiny = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    table = load_table(table.path, options=tiny)
    everything = plan_of(table)
    few = plan_of(table, limit=1)
    assert len(few.splits) == 1 < len(everything.splits)
    assert rows(few).num_rows >= 1
    assert len(plan_of(table, limit=10**9).splits) == len(everything.splits)
    assert len(plan_of(table, limit=0).splits) == 0
    filtered = plan_of(table, limit=1, predicate=Leaf("is_not_null", table.schema.fields[0].name))
    assert len(filtered.splits) == len(everything.splits)


def test_an_unknown_column_is_named() -> None:
    table = golden_table("pk_many_levels")
    for ask in ({"columns": ["k", "nope"]}, {"predicate": Leaf("eq", "nope", (1,))}):
        with pytest.raises(OptionError, match="Column 'nope' does not exist in schema 0; its columns are k, "):
            plan_of(table, **ask)


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        shutil.copytree(GOLDEN / name / "table", tmp_path / name)
        return tmp_path / name

    return copy


@pytest.mark.parametrize(
    ("kind", "damage", "name"),
    pairs(
        ("manifest/manifest-list-*", "manifest/manifest-[!l]*", "**/data-*"),
        ("missing", "empty", "garbage", "cut"),
        ("pk_many_levels", "append_types_parquet", "pk_dedup_string", "append_types_avro"),
    ),
)
def test_a_missing_or_damaged_file_is_named(copied: Callable[[str], Path], kind: str, damage: str, name: str) -> None:
    root = copied(name)
    for path in [path for path in root.glob(kind) if path.is_file()]:
        data = path.read_bytes()
        path.unlink()
        if damage != "missing":
            path.write_bytes({"empty": b"", "garbage": b"no such thing " * 40, "cut": data[: len(data) // 2]}[damage])
    with pytest.raises(CorruptTableError, match=str(root)):
        rows(plan_of(load_table(str(root))))


def test_names_in_manifests_never_lead_outside_the_table(copied: Callable[[str], Path]) -> None:
    root = copied("append_types_parquet")
    path = root / "snapshot" / (root / "snapshot" / "LATEST").read_text().join(["snapshot-", ""])
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "baseManifestList": "../../outside"}))
    with pytest.raises(CorruptTableError, match="outside"):
        plan_of(load_table(str(root)))
