"""Indexes of data files leave out files and rows, and never a row that matches.

Reads with `file-index.read.enabled` = `false` (`OFF`) show what there is to leave out.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError
from paimon_spark.maintain.column_update import commit_columns, plan_column_update, update_columns
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read import file_read, pruning
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.schema_change import AddColumn, RenameColumn, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.file_indexes import INDEXES, OFF, make, multiset, read, rows, write
from tests.support.plans import plan_of

OPERATORS = ("eq", "eq", "in", "ne", "lt", "ge", "between", "is_null", "is_not_null", "not_in", "eq_null_safe")
SMALL = {"file-index.bloom-filter.v.items": "100", "file-index.bloom-filter.k.items": "100"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened."""
    paths: list[str] = []
    plain = file_read.open_data_file

    def counting(io: Any, path: str, *args: Any, **named: Any) -> Any:
        paths.append(path)
        return plain(io, path, *args, **named)

    monkeypatch.setattr(file_read, "open_data_file", counting)
    return paths


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_a_point_filter_opens_only_files_that_can_hold_it(tmp_path: Path, threshold: str, opened: list[str]) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold=threshold, **SMALL)
    for start in range(20):  # each file holds every 20th key, so that statistics say nothing
        write(table, rows(list(range(start, 2000, 20))))
    for key in (407, 1001, 1234):
        opened.clear()
        assert [row["k"] for row in read(table, Leaf("eq", "k", (key,)))] == [key]
        assert len(opened) <= 6  # one, and some by chance: fpp is 0.1
        planned = plan_of(table, predicate=Leaf("eq", "k", (key,)))
        assert sum(len(split.files) for split in planned.splits) <= 6
    opened.clear()
    without = table.with_options(OFF)
    assert [row["k"] for row in read(without, Leaf("eq", "k", (407,)))] == [407]
    assert len(opened) == 20


def test_rows_of_a_file_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b", file_index__range_bitmap__columns="k")
    write(table, rows(list(range(5000))))
    seen = []
    plain = file_read.masked

    def watching(batches: Any, kept: pa.BooleanArray, *args: Any, **named: Any) -> Any:
        seen.append(kept.true_count)
        return plain(batches, kept, *args, **named)

    monkeypatch.setattr(file_read, "masked", watching)
    predicate = And((Leaf("ge", "k", (1000,)), Leaf("eq", "v", ("v3",)), Not(Leaf("eq", "k", (1004,)))))
    expected = [k for k in range(1000, 5000) if k % 7 == 3 and k != 1004]
    assert [row["k"] for row in read(table, predicate)] == expected
    assert seen == [len(expected)]


def predicates(chance: random.Random, names: dict[str, list[Any]]) -> Predicate:
    kind = chance.choice(["leaf"] * 4 + ["and", "or", "not"])
    if kind in ("and", "or"):
        return (And if kind == "and" else Or)((predicates(chance, names), predicates(chance, names)))
    if kind == "not":
        return Not(predicates(chance, names))
    name = chance.choice(list(names))
    literals = names[name]
    op = chance.choice(
        ["eq", "eq", "in", "ne", "lt", "ge", "between", "is_null", "is_not_null", "not_in", "eq_null_safe"]
    )
    count = {"is_null": 0, "is_not_null": 0, "between": 2}.get(op, chance.randrange(1, 4) if op.endswith("in") else 1)
    return Leaf(op, name, tuple(chance.choice(literals) for _ in range(count)))


KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "append_orc": {"file__format": "orc"},
    "append_embedded": {"file_index__in_manifest_threshold": "1 mb", "file__format": "avro"},
    "deduplicate": {"key": "k", "num_sorted_run__compaction_trigger": "100"},
    "deduplicate_embedded": {"key": "k", "file_index__in_manifest_threshold": "1 mb", "write_only": "true"},
    "partial_update": {"key": "k", "merge_engine": "partial-update", "write_only": "true"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_same_with_and_without(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    table = make(tmp_path / "t", **{"file_index__in_manifest_threshold": "0 b", **KINDS[kind]}, **SMALL)
    for step in range(5):
        numbers = [chance.randrange(400) for _ in range(60)]
        data = rows(numbers if table.schema.primary_keys else sorted(numbers))
        if chance.random() < 0.5:  # another value of the same keys
            data = data.set_column(2, "n", pa.array([chance.choice([None, 5, n]) for n in numbers], pa.int32()))
        write(table, data)
        if step == 3:
            compact(table.with_options({"compaction.min.file-num": "2"}))
    names = {"k": [0, 17, 200, 399, 1000], "v": ["v0", "v3", "v6", "w"], "n": [5, 17, -3, 399]}
    left_out = 0
    points = [Leaf("eq", "k", (key,)) for key in range(10, 400, 39)]
    for predicate in [*points, *(predicates(chance, names) for _ in range(15))]:
        expected = multiset(read(table.with_options(OFF), predicate))
        assert multiset(read(table, predicate)) == expected, predicate
        full = sum(len(s.files) for s in plan_of(table.with_options(OFF), predicate=predicate).splits)
        left_out += full - sum(len(s.files) for s in plan_of(table, predicate=predicate).splits)
    assert left_out > 0


def test_evolved_schemas(tmp_path: Path) -> None:
    chance = random.Random(3)
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b", **SMALL)
    write(table, rows(list(range(0, 50))))
    alter_table(table, [RenameColumn(("v",), "w"), AddColumn(("v",), table.schema.field("v").type)])
    table = load_table(table.path)
    data = rows(list(range(50, 100))).rename_columns(["k", "w", "n", "m"])
    write(table, data.append_column("v", pa.array(["new"] * 50)))
    alter_table(table, [UpdateColumnType(("n",), table.schema.field("k").type.with_nullable(True))])
    table = load_table(table.path)
    write(table, data.append_column("v", pa.array(["v3"] * 50)).set_column(2, "n", pa.array(range(50), pa.int64())))
    names = {"k": [3, 55], "w": ["v0", "v3", "x"], "v": ["v3", "new", "v0"], "n": [3, 4, 55, 2**40]}
    for _ in range(40):
        predicate = predicates(chance, names)
        assert multiset(read(table, predicate)) == multiset(read(table.with_options(OFF), predicate)), predicate


def test_settings_of_one_write_are_found(tmp_path: Path, opened: list[str]) -> None:
    table = make(tmp_path / "t").without_options(tuple(INDEXES))
    for start in range(10):
        write(
            table.with_options(INDEXES | {"file-index.in-manifest-threshold": "0 b"}), rows(list(range(start, 500, 10)))
        )
    assert [row["k"] for row in read(load_table(table.path), Leaf("eq", "k", (123,)))] == [123]
    assert len(opened) < 6


def test_tasks_look_at_what_the_plan_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b", **SMALL)
    for start in range(8):
        write(table, rows(list(range(start, 800, 8))))
    monkeypatch.setattr(pruning, "_MOST_FILES", 2)
    predicate = Leaf("eq", "k", (404,))
    plan = plan_of(table, predicate=predicate)
    assert 6 <= sum(len(split.files) for split in plan.splits) <= 8
    assert [row["k"] for row in read(table, predicate)] == [404]
    assert len(opened) <= 4


def test_partitions_and_indexes_together(tmp_path: Path) -> None:
    fields = [DataField(0, "p", parse_type("STRING")), DataField(1, "k", parse_type("BIGINT"))]
    options = {"bucket": "-1", "file-index.bitmap.columns": "k,p"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, (), ("p",), options, None))
    write(table, pa.table({"p": ["a", "a", "b", None], "k": [1, 2, 2, 3]}))
    found = read(table, And((Leaf("in", "p", ("a", "b")), Or((Leaf("eq", "k", (2,)), Leaf("eq", "p", ("b",)))))))
    assert found == [{"p": "a", "k": 2}, {"p": "b", "k": 2}]
    assert read(table, And((Leaf("is_null", "p"), Leaf("ge", "k", (1,))))) == [{"p": None, "k": 3}]


def damage(data: bytes) -> list[bytes]:
    return [data[:40], data[:-200], b"x" + data[1:], b""]


@pytest.mark.parametrize(("column", "literal"), [("k", 3), ("v", "v3"), ("n", 3)])
def test_damage_is_reported_and_hides_nothing(tmp_path: Path, column: str, literal: Any) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    write(table, rows(list(range(100))))
    (index,) = (tmp_path / "t" / "bucket-0").glob("*.index")
    predicate = Leaf("eq", column, (literal,))
    expected = multiset(read(table.with_options(OFF), predicate))
    reported = 0
    for damaged in damage(index.read_bytes()):
        index.write_bytes(damaged)
        try:
            assert multiset(read(table, predicate)) == expected  # the bytes of this index are whole
        except CorruptTableError as error:
            reported += index.name in str(error)
    assert reported >= 2
    index.unlink()
    with pytest.raises(CorruptTableError, match="missing"):
        read(table, predicate)
    assert multiset(read(table.with_options(OFF), predicate)) == expected
    assert len(read(table)) == 100


def test_changes_are_left_out_by_their_indexes(tmp_path: Path, opened: list[str]) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b", **SMALL)
    for start in range(10):
        write(table, rows(list(range(start, 1000, 10))))
    changes = load_table(table.path, options={"incremental-between": "2,9"})
    opened.clear()
    wanted = Leaf("eq", "k", (403,))
    assert [row["k"] for row in read(changes, wanted)] == [403]
    assert len(opened) <= 2
    without = load_table(table.path, options={"incremental-between": "2,9", **OFF})
    opened.clear()
    assert [row["k"] for row in read(without, wanted)] == [403]
    assert len(opened) == 7


def test_rows_of_several_files_are_left_out_by_the_newest_ones_index(tmp_path: Path, opened: list[str]) -> None:
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "v", parse_type("INT"))]
    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    options |= {"file-index.bloom-filter.columns": "k,v", "file-index.bloom-filter.v.fpp": "0.0001"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=options))
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    for start in range(6):
        keys = list(range(start, 600, 6))
        given = pa.RecordBatch.from_pydict({"k": keys, "v": keys}, schema)
        commit(
            load_table(table.path), [write_batches(plan_write(load_table(table.path), data_schema=schema), [given], 0)]
        )
    latest = load_table(table.path).snapshots.latest()
    assert latest is not None
    changed = pa.schema([("v", pa.int32())])
    update = plan_column_update(load_table(table.path), ["v"], changed, latest.id)
    ids = pa.table({"v": pa.array([1001], pa.int32()), "_ROW_ID": pa.array([5])})  # the row of key 30
    message = update_columns(update, ids.to_batches())
    assert message is not None
    commit_columns(load_table(table.path), [message], latest, Operation.UPDATE)
    table = load_table(table.path)
    for value, keys, files in ((1001, [30], 2), (30, [], 0), (31, [31], 1), (24, [24], 2)):
        opened.clear()
        assert [row["k"] for row in read(table, Leaf("eq", "v", (value,)))] == keys
        assert len(opened) == files
    assert len(read(load_table(table.path, options=OFF), Leaf("eq", "v", (1001,)))) == 1
