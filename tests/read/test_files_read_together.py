"""Small files that are read together give the rows, in the order, and the errors of the same files read one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark import create_table, open_table
from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.read import small_files
from paimon_spark.read.aggregate import count_split, count_splits
from paimon_spark.read.row_views import find_view
from paimon_spark.read.small_files import are_many_and_small, read_splits
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import ReadPlan, resolve_source
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.small_parquet import SmallParquetFiles
from paimon_spark.table.schema_change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import golden_reads
from tests.support.plans import plan_of


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that were read together, however few there are."""
    paths: list[str] = []
    read = SmallParquetFiles.read

    def noted(self: SmallParquetFiles, path: str, size: int, rows: int) -> Any:
        found = read(self, path, size, rows)
        if found is not None:
            paths.append(path)
        return found

    monkeypatch.setattr(SmallParquetFiles, "read", noted)
    monkeypatch.setattr(small_files, "_LEAST_FILES", 1)
    return paths


def one_by_one(plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    for split in plan.splits:
        yield from read_split(plan.table, split, plan.fields, plan.residual)


def all_at_once(plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    return read_splits(plan.table, plan.splits, plan.fields, plan.residual)


def table_of(plan: ReadPlan, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    found = pa.Table.from_batches(batches, to_arrow_schema(plan.fields))
    return found.combine_chunks()


def assert_same(plan: ReadPlan) -> pa.Table:
    expected, found = table_of(plan, one_by_one(plan)), table_of(plan, all_at_once(plan))
    assert found.schema == expected.schema
    assert found.num_rows == expected.num_rows
    for column, other in zip(found.columns, expected.columns, strict=True):
        assert repr(column.to_pylist()) == repr(other.to_pylist())  # NaN is equal to itself so
    return found


def test_golden_tables(together: list[str]) -> None:
    tried = 0
    for case in golden_reads():
        if case.error or case.system:
            continue
        try:
            table = load_table(str(case.table.path), options=case.options, branch=case.branch)
            view = find_view(None)
            assert view is not None
            text = case.sql_filter(tuple(column) for column in case.table.expect["columns"])
            predicate = None if text is None else parse_filter(text, view.fields(resolve_source(table)[0]))
            plan = plan_of(table, view, columns=case.columns, predicate=predicate)
            if plan.read is not read_split:
                continue
            list(one_by_one(plan))
        except PaimonError:
            continue
        assert_same(plan)
        tried += 1
    assert tried > 300
    assert len(together) > 400


PARTITIONS: dict[str, tuple[str, list[Any]]] = {
    "INT": ("INT", [1, -5, None]),
    "STRING": ("STRING", ["a", "ä/b", "", None]),
    "DATE": ("DATE", [date(2024, 5, 1), date(1, 1, 1), None]),
    "BOOLEAN": ("BOOLEAN", [True, False]),
    "DECIMAL": ("DECIMAL(10, 2)", [pa.scalar("1.25").cast(pa.decimal128(10, 2)).as_py()]),
}


def filled(path: Path, kind: str, *, keys: bool, steps: int = 12) -> FileStoreTable:
    """A partitioned table of many small files whose schema changes on the way."""
    chance = random.Random(f"{kind} {keys}")
    sql_type, values = PARTITIONS[kind]
    options = {"primary_key": "k,p", "bucket": "1"} if keys else {}
    data_type = to_arrow_schema_of(sql_type)
    schema = pa.schema(
        [("k", pa.int64()), ("v", pa.string()), ("p", data_type), ("n", pa.int32()), ("f", pa.float64())]
    )
    kept = {"compaction_min_file_num": "500", "num_sorted_run_compaction_trigger": "500"}
    create_table(str(path), schema, partition_by=["p"], **options, **kept)
    for step in range(steps):
        if step == 4:
            alter_table(load_table(str(path)), [RenameColumn(("v",), "w"), AddColumn(("v",), parse_type("STRING"))])
        if step == 8:
            alter_table(load_table(str(path)), [UpdateColumnType(("n",), parse_type("BIGINT")), DropColumn(("f",))])
        rows = chance.randrange(1, 30)
        names = load_table(str(path)).schema.fields
        made = {
            "k": [step * 1000 + at for at in range(rows)],
            "v": [chance.choice([None, "", "x", f"v{at}"]) for at in range(rows)],
            "w": [f"w{at}" for at in range(rows)],
            "p": [chance.choice([each for each in values if each is not None or not keys]) for _ in range(rows)],
            "n": [chance.choice([None, at]) for at in range(rows)],
            "f": [chance.choice([float("nan"), -0.0, None, 1.5]) for _ in range(rows)],
        }
        arrow = to_arrow_schema(names)
        open_table(str(path)).append(pa.table({field.name: pa.array(made[field.name], field.type) for field in arrow}))
    return load_table(str(path))


def to_arrow_schema_of(sql_type: str) -> pa.DataType:
    from paimon_spark.spec.arrow_types import to_arrow_type

    return to_arrow_type(parse_type(sql_type))


PREDICATES: Sequence[Predicate | None] = (
    None,
    Leaf("gt", "n", (7,)),
    Leaf("is_null", "v", ()),
    Leaf("eq", "w", ("w3",)),
    Leaf("is_null", "p", ()),
)


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("kind", PARTITIONS)
def test_tables_of_many_schemas_and_partitions(tmp_path: Path, together: list[str], kind: str, *, keys: bool) -> None:
    table = filled(tmp_path / "t", kind, keys=keys)
    plan = plan_of(table)
    rows = assert_same(plan)
    assert rows.num_rows == sum(split.row_count for split in plan.splits)
    for columns in (None, ["v"], ["p", "w", "k"], ["n", "p"], ["p"]):
        for predicate in PREDICATES:
            assert_same(plan_of(table, columns=columns, predicate=predicate))
    if not keys:
        assert set(together) == {file.path for split in plan.splits for file in split.files}


def made_of_files(path: Path, files: int = 12, **options: str) -> FileStoreTable:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
    table = create_table(str(path), schema, partition_by=["p"], **options)
    table.append(
        pa.table(
            {
                "k": range(files * 3),
                "v": ["x"] * files * 3,
                "p": pa.array([at // 3 for at in range(files * 3)], pa.int32()),
            }
        )
    )
    return load_table(str(path))


def outcome(plan: ReadPlan, batches: Iterator[pa.RecordBatch]) -> tuple[list[Any], str]:
    """The rows that come before an error, and the error."""
    rows: list[Any] = []
    try:
        for batch in batches:
            rows += batch.to_pylist()
    except PaimonError as error:
        return rows, f"{type(error).__name__}: {error}"
    return rows, ""


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "longer", "other rows", "page"])
def test_damage_is_reported_as_of_one_file(tmp_path: Path, together: list[str], damage: str) -> None:
    plan = plan_of(made_of_files(tmp_path / "t"))
    file = Path(plan.splits[7].files[0].path)
    data = file.read_bytes()
    if damage == "other rows":
        pq.write_table(pq.read_table(file, partitioning=None).slice(0, 2), file)
        size = file.stat().st_size
        splits = [
            split.with_files([each._replace(size=size) for each in split.files]) if at == 7 else split
            for at, split in enumerate(plan.splits)
        ]
        plan = replace(plan, splits=tuple(splits))
    elif damage == "gone":
        file.unlink()
    elif damage == "page":
        at = data.index(b"PAR1") + 20
        file.write_bytes(data[:at] + bytes(255 - byte for byte in data[at : at + 8]) + data[at + 8 :])
    else:
        file.write_bytes({"cut": data[:-9], "empty": b"", "longer": data + b"more"}[damage])
    rows, error = outcome(plan, all_at_once(plan))
    assert (rows, error) == outcome(plan, one_by_one(plan))
    assert len(rows) == 21
    assert file.name in error
    assert len(together) == 7


def test_rows_come_in_parts_of_some_size(tmp_path: Path, together: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "DEFAULT_BATCH_ROWS", 10)
    plan = plan_of(made_of_files(tmp_path / "t"))
    assert [batch.num_rows for batch in all_at_once(plan)] == [12, 12, 12]
    assert_same(plan)


def test_texts_that_may_not_fit_are_read_from_one_file_at_a_time(tmp_path: Path, together: list[str]) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = create_table(str(tmp_path / "t"), schema, compaction_min_file_num="500")
    for step in range(9):
        text = "x" * 200_000 if step == 4 else "y"
        table.append(pa.table({"k": range(2000), "v": pa.array([text] * 2000)}))
    plan = plan_of(load_table(str(tmp_path / "t")), columns=["k", "v"])
    assert max(file.size for split in plan.splits for file in split.files) < small_files.SMALL_FILE_BYTES
    batches = list(all_at_once(plan))
    assert sum(batch.num_rows for batch in batches) == 18_000
    assert max(batch.nbytes for batch in batches) <= max(batch.nbytes for batch in one_by_one(plan))
    assert len(together) == 8


def test_a_column_named_as_a_field_of_another_is_not_mixed_up(tmp_path: Path, together: list[str]) -> None:
    schema = pa.schema([("a", pa.struct([("b", pa.int32())])), ("a.b", pa.int32()), ("k", pa.int32())])
    table = create_table(str(tmp_path / "t"), schema, compaction_min_file_num="500")
    for step in range(9):
        table.append(
            pa.table({"a": [{"b": 1}], "a.b": pa.array([2], pa.int32()), "k": pa.array([step], pa.int32())}, schema)
        )
    plan = plan_of(load_table(str(tmp_path / "t")), columns=["k", "a.b"])
    try:
        list(one_by_one(plan))
    except CorruptTableError:
        assert outcome(plan, all_at_once(plan))[1] == outcome(plan, one_by_one(plan))[1]
    else:
        assert assert_same(plan).column("a.b").to_pylist() == [2] * 9
    assert together == []


@pytest.mark.parametrize("option", ["scan.ignore-lost-files", "scan.ignore-corrupt-files"])
def test_files_that_may_be_passed_over_are_read_one_by_one(tmp_path: Path, together: list[str], option: str) -> None:
    table = made_of_files(tmp_path / "t").with_options({option: "true"})
    plan = plan_of(table)
    assert sum(batch.num_rows for batch in all_at_once(plan)) == 36
    assert together == []


def test_what_counts_as_many_and_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made_of_files(tmp_path / "t")
    splits = plan_of(table).splits
    assert not are_many_and_small(table, splits)
    monkeypatch.setattr(small_files, "_MANY_FILES", 12)
    assert are_many_and_small(table, splits)
    assert not are_many_and_small(table, splits[:-1])
    monkeypatch.setattr(small_files, "_FEW_ROWS", 2)
    assert not are_many_and_small(table, splits)
    monkeypatch.setattr(small_files, "_FEW_ROWS", 3)
    monkeypatch.setattr(small_files, "_FEW_BYTES", 100)
    assert not are_many_and_small(table, splits)


def test_parts_of_rows_are_not_rows(tmp_path: Path, together: list[str]) -> None:
    """Files of data evolution may hold other columns of the same rows: only what a plan says is raw is."""
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "500"}
    plan = plan_of(made_of_files(tmp_path / "t", **options))
    assert_same(plan)
    assert len(together) == 12
    assert_same(replace(plan, splits=tuple(replace(split, raw_convertible=False) for split in plan.splits)))
    assert len(together) == 12


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deletes": {"rowkind_field": "op"},
    "deletes that are ignored": {"rowkind_field": "op", "ignore_delete": "true"},
    "sequence field": {"sequence_field": "n"},
    "partial-update": {"merge_engine": "partial-update"},
    "sequence groups": {
        "merge_engine": "partial-update",
        "fields.n.sequence-group": "v,f",
        "fields.f.aggregate-function": "sum",
    },
    "a function for all columns": {"merge_engine": "aggregation", "fields.default-aggregate-function": "max"},
    "a function that is for numbers": {
        "merge_engine": "aggregation",
        "fields.default-aggregate-function": "sum",
        "fields.v.aggregate-function": "first_value",
        "fields.op.aggregate-function": "first_value",
    },
    "aggregation": {
        "merge_engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "listagg",
        "fields.f.aggregate-function": "max",
    },
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("buckets", ["1", "2"])
def test_buckets_are_merged_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: list[str], engine: str, buckets: str
) -> None:
    """Equal keys of other buckets and partitions stay apart, whatever the engine makes of those of one."""
    chance = random.Random(engine)
    columns = {"k": pa.int64(), "p": pa.string(), "v": pa.string(), "n": pa.int32(), "f": pa.int64(), "op": pa.string()}
    options = {"primary_key": "k,p", "bucket": buckets, "write_only": "true", **ENGINES[engine]}
    table = create_table(str(tmp_path / "t"), pa.schema(columns), partition_by=["p"], **options)
    for _ in range(5):
        keys = sorted({(k, p) for k in chance.choices(range(12), k=9) for p in chance.choices(["a", "b", ""], k=2)})
        rows = {
            "k": [k for k, _ in keys],
            "p": [p for _, p in keys],
            "v": [chance.choice([None, f"v{chance.randrange(100)}"]) for _ in keys],
            "n": [chance.randrange(5) if engine == "sequence field" else chance.choice([None, 1, 2, 3]) for _ in keys],
            "f": [chance.choice([None, 7, 8]) for _ in keys],
            "op": [chance.choice(["+I", "+I", "-D"]) if "deletes" in engine else "+I" for _ in keys],
        }
        table.append(pa.table({name: pa.array(values, columns[name]) for name, values in rows.items()}))
    plan = plan_of(load_table(str(tmp_path / "t")))
    assert sum(not split.raw_convertible for split in plan.splits) >= 3
    rows_found = assert_same(plan)
    assert set(together) == {file.path for split in plan.splits for file in split.files}
    monkeypatch.setattr(small_files, "_MANY_MERGED_FILES", 1)
    opened = len(together)
    assert count_splits(plan.table, plan.splits) == rows_found.num_rows
    assert sum(count_split(plan.table, split) for split in plan.splits) == rows_found.num_rows
    assert len(together) == 2 * opened
    keys_found = list(zip(rows_found.column("k").to_pylist(), rows_found.column("p").to_pylist(), strict=True))
    assert len(set(keys_found)) == len(keys_found) > 20
    for names in (["v"], ["p"], ["f", "k"], []):
        for predicate in (None, Leaf("gt", "n", (1,)), Leaf("eq", "p", ("b",)), Leaf("eq", "k", (5,))):
            assert_same(plan_of(plan.table, columns=names, predicate=predicate))


def test_a_row_that_cannot_be_merged_is_an_error_behind_the_rows_before(tmp_path: Path, together: list[str]) -> None:
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("n", pa.int32()), ("op", pa.string())])
    options = {"primary_key": "k,p", "bucket": "1", "write_only": "true", "merge_engine": "aggregation"}
    options |= {"rowkind_field": "op", "fields.n.aggregate-function": "max"}
    before = set()
    for wrong in range(4):
        path = str(tmp_path / f"t{wrong}")
        table = create_table(path, schema, partition_by=["p"], **options)
        for kind in ("+I", "-D"):
            kinds = [kind if p == wrong else "+I" for p in range(4)]
            numbers = pa.array(range(4), pa.int32())
            table.append(pa.table({"k": [1] * 4, "p": numbers, "n": numbers, "op": kinds}))
        plan = plan_of(load_table(path))
        rows, error = outcome(plan, all_at_once(plan))
        assert (rows, error) == outcome(plan, one_by_one(plan))
        assert "retract" in error
        before.add(len(rows))
    assert before == {0, 1, 2, 3}
    assert len(together) == 32


def test_buckets_whose_files_tell_no_order_are_merged_alone(tmp_path: Path, together: list[str]) -> None:
    """Files of level 0 with common sequence numbers go by their commits, within a section."""
    options = {"primary_key": "k,p", "bucket": "1", "write_only": "true"}
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32())])
    table = create_table(str(tmp_path / "t"), schema, partition_by=["p"], **options)
    for _ in range(3):
        table.append(pa.table({"k": [1, 2], "p": pa.array([0, 1], pa.int32())}, schema))
    plan = plan_of(load_table(str(tmp_path / "t")))
    same = tuple(
        split.with_files([file._replace(min_seq=0, max_seq=1) for file in split.files]) for split in plan.splits
    )
    assert_same(replace(plan, splits=same))
    assert together == []
    assert_same(plan)
    assert len(together) == 6


def test_fewer_files_are_many_where_some_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "_MANY_MERGED_FILES", 24)
    options = {"primary_key": "k,p", "bucket": "1", "write_only": "true"}
    path = str(tmp_path / "t")
    table = made_of_files(tmp_path / "t", **options)
    assert not are_many_and_small(table, plan_of(table).splits)
    twice = [0, 1, 2] * 12
    open_table(path).append(
        pa.table({"k": twice, "v": ["y"] * 36, "p": pa.array([at // 3 for at in range(36)], pa.int32())})
    )
    splits = plan_of(load_table(path)).splits
    assert sum(len(split.files) for split in splits) == 24
    assert are_many_and_small(table, splits)
    assert not are_many_and_small(table, splits[:-1])
