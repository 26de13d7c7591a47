"""New values of some columns by row id, in tables with data evolution: files, snapshots and conflicts. No session."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CommitConflictError, DataError, OptionError, UnsupportedError
from paimon_spark.maintain.column_update import ColumnUpdate, commit_columns, plan_column_update, update_columns
from paimon_spark.maintain.compact.compaction import compact, rewrite_here
from paimon_spark.maintain.row_deletion import commit_deletions, encode_positions
from paimon_spark.maintain.row_level import check_row_delete, check_update
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.spec.snapshot import CommitKind, Operation
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.table.schema_change import AddColumn, SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

DATA_EVOLUTION = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
COLUMNS = {"k": "INT", "a": "STRING", "b": "INT", "p": "INT"}
Make = Callable[..., FileStoreTable]


def create(path: str, partition: list[str], options: Mapping[str, str]) -> FileStoreTable:
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(COLUMNS.items())]
    return create_table(path, create_schema(fields, partition_keys=partition, options={**DATA_EVOLUTION, **options}))


def append(table: FileStoreTable, keys: range, p: int = 0) -> None:
    table = load_table(table.path)
    schema = to_arrow_schema(table.schema.fields)
    given = [{"k": k, "a": f"a{k}", "b": k, "p": p} for k in keys]
    plan = plan_write(table, data_schema=schema)
    commit(table, [write_batches(plan, [pa.RecordBatch.from_pylist(given, schema)], 0)])


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a table with the rows 0 to 9 and 10 to 14 in two files."""

    def made(*partition: str, **options: str) -> FileStoreTable:
        table = create(str(tmp_path / "t"), list(partition), {key.replace("_", "-"): v for key, v in options.items()})
        append(table, range(10))
        append(table, range(10, 15))
        return load_table(table.path)

    return made


def written(table: FileStoreTable, values: Mapping[int, Mapping[str, Any]], batch_rows: int = 3) -> TaskMessage | None:
    """New files for the values of rows by their ids."""
    columns = list(next(iter(values.values())))
    latest = table.snapshots.latest()
    assert latest is not None
    schema = pa.schema([to_arrow_schema(table.schema.fields).field(name) for name in columns])
    update: ColumnUpdate = plan_column_update(table, columns, schema, latest.id)
    rows = [{**new, "_ROW_ID": row_id} for row_id, new in sorted(values.items())]
    given = pa.Table.from_pylist(rows, schema.append(pa.field("_ROW_ID", pa.int64())))
    return update_columns(update, given.to_batches(max_chunksize=batch_rows))


def update(table: FileStoreTable, values: Mapping[int, Mapping[str, Any]], **how: Any) -> None:
    table = load_table(table.path)
    latest = table.snapshots.latest()
    message = written(table, values)
    assert latest is not None
    assert message is not None
    commit_columns(table, [message], latest, Operation.UPDATE, **how)


def rows_of(table: FileStoreTable, *columns: str) -> dict[int, tuple[Any, ...]]:
    table = load_table(table.path)
    view = find_view("row_tracking")
    assert view is not None
    plan = plan_of(table, view)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return {row["_ROW_ID"]: tuple(row[name] for name in columns) for batch in batches for row in batch.to_pylist()}


def test_files_hold_the_changed_columns_of_touched_groups(make: Make) -> None:
    table = make()
    update(table, {3: {"b": 300, "a": None}, 9: {"b": 900, "a": "nine"}})
    expected = {k: (k, f"a{k}", k) for k in range(15)} | {3: (3, None, 300), 9: (9, "nine", 900)}
    assert rows_of(table, "k", "a", "b") == expected
    latest = table.snapshots.latest()
    assert latest is not None
    (entry,) = table.manifests.live_entries(latest)[2:]
    file = entry.file
    assert (latest.commit_kind, latest.operation) == (CommitKind.APPEND, Operation.UPDATE)
    assert (file.first_row_id, file.row_count, file.write_cols) == (0, 10, ("a", "b"))
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 3)
    assert latest.next_row_id == 15
    update(table, {14: {"b": -1}})
    assert rows_of(table, "a", "b")[14] == ("a14", -1)
    assert rows_of(table, "a", "b")[3] == (None, 300)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_random_updates_equal_a_model(make: Make, file_format: str) -> None:
    rng = random.Random(file_format)
    table = make(**{"file.format": file_format, "read.batch-size": "4"})
    model = {k: {"k": k, "a": f"a{k}", "b": k, "p": 0} for k in range(15)}
    for turn in range(12):
        columns = rng.sample(["a", "b", "p"], rng.randint(1, 3))
        chosen = rng.sample(sorted(model), rng.randint(1, len(model)))
        values = {"a": f"new{turn}", "b": turn, "p": None}
        update(table, {row_id: {name: values[name] for name in columns} for row_id in chosen})
        for row_id in chosen:
            model[row_id].update({name: values[name] for name in columns})
        if turn == 6:
            compact(load_table(table.path))
        if turn == 8:
            append(table, range(15, 18))
            model |= {k: {"k": k, "a": f"a{k}", "b": k, "p": 0} for k in range(15, 18)}
        assert rows_of(table, "k", "a", "b", "p") == {i: tuple(row.values()) for i, row in model.items()}


def test_a_column_that_no_file_has_yet(make: Make) -> None:
    table = make()
    alter_table(table, [AddColumn(("z",), parse_type("BIGINT"))])
    update(table, {2: {"z": 20}, 12: {"z": 120}})
    found = rows_of(table, "z")
    assert found == {k: ({2: 20, 12: 120}.get(k),) for k in range(15)}


def test_updates_of_other_columns_or_rows_go_side_by_side(make: Make) -> None:
    table = make()
    read = table.snapshots.latest()
    assert read is not None
    messages = [written(table, values) for values in ({1: {"a": "x"}}, {1: {"b": 5}}, {12: {"b": 6}})]
    for message, name in zip(messages, "abb", strict=True):
        assert message is not None
        commit_columns(load_table(table.path), [message], read, Operation.UPDATE, columns_read=[name])
    assert rows_of(table, "a", "b")[1] == ("x", 5)
    assert rows_of(table, "a", "b")[12] == ("a12", 6)


@pytest.mark.parametrize(
    ("rival", "columns_read"),
    [
        (lambda table: update(table, {2: {"a": "y"}}), []),
        (lambda table: update(table, {2: {"b": 7}}), ["b"]),
        (lambda table: update(table, {2: {"b": 7}}), None),
        (lambda table: compact(load_table(table.path)), []),
        (lambda table: commit(load_table(table.path), [], overwrite=OverwriteSpec.truncate()), []),
    ],
    ids=["same column", "column that was read", "any column", "compaction", "rows are gone"],
)
def test_what_another_commit_changed_is_a_conflict(
    make: Make, rival: Callable[[FileStoreTable], object], columns_read: list[str] | None
) -> None:
    table = make()
    read = table.snapshots.latest()
    message = written(table, {1: {"a": "x"}})
    rival(table)
    before = rows_of(table, "a", "b")
    assert read is not None
    assert message is not None
    with pytest.raises(CommitConflictError):
        commit_columns(load_table(table.path), [message], read, Operation.UPDATE, columns_read=columns_read)
    assert rows_of(table, "a", "b") == before


def test_a_compaction_meanwhile_of_the_same_range_is_none(make: Make, tmp_path: Path) -> None:
    table = create(str(tmp_path / "one"), [], {})
    append(table, range(10))
    update(table, {4: {"b": 40}})
    read = load_table(table.path).snapshots.latest()
    message = written(load_table(table.path), {5: {"b": 50}})
    compact(load_table(table.path))
    assert read is not None
    assert message is not None
    commit_columns(load_table(table.path), [message], read, Operation.UPDATE, columns_read=["b"])
    assert {k: v for k, (v,) in rows_of(table, "b").items() if k != v} == {4: 40, 5: 50}


def test_rows_are_named_once_and_must_exist(make: Make) -> None:
    table = make()
    schema = pa.schema([("b", pa.int32())])
    latest = table.snapshots.latest()
    assert latest is not None
    plan = plan_column_update(table, ["b"], schema, latest.id)

    def given(ids: list[int]) -> list[pa.RecordBatch]:
        columns = [pa.array(ids, pa.int32()), pa.array(ids, pa.int64())]
        return [pa.RecordBatch.from_arrays(columns, names=["b", "_ROW_ID"])]

    files = sorted(Path(table.path).rglob("*.parquet"))
    with pytest.raises(DataError, match="id 3 would get new values twice"):
        update_columns(plan, given([1, 3, 3]))
    with pytest.raises(DataError, match="Row id 99 is none"):
        update_columns(plan, given([1, 99]))
    assert sorted(Path(table.path).rglob("*.parquet")) == files
    assert update_columns(plan, []) is None


def test_what_java_refuses_is_refused(make: Make) -> None:
    table = make("p")
    with pytest.raises(UnsupportedError, match=r"Update to partition .* for data evolution tables\."):
        check_update(table, ["p"])
    check_update(table, ["a", "b"])
    with pytest.raises(UnsupportedError, match=r"data evolution tables with DeletionVector enabled\."):
        check_row_delete(table)


def files_of_rows(table: FileStoreTable) -> list[tuple[str, tuple[str, ...] | None, int | None, int]]:
    """End of the name, columns, first row id and rows of each file."""
    latest = load_table(table.path).snapshots.latest()
    assert latest is not None
    files = [entry.file for entry in table.manifests.live_entries(latest)]
    return [(f.file_name.partition(".")[2], f.write_cols, f.first_row_id, f.row_count) for f in files]


def put(table: FileStoreTable, rows: list[dict[str, Any]]) -> None:
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    commit(table, [write_batches(plan, [pa.RecordBatch.from_pylist(rows, schema)], 0)])


def test_blobs_that_do_not_change_are_left_to_older_files(tmp_path: Path) -> None:
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate([("k", "INT"), ("b", "BLOB")])]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=DATA_EVOLUTION))
    put(table, [{"k": i, "b": None if i == 4 else b"old" * i} for i in range(6)])
    update(table, {1: {"b": b"new"}, 2: {"b": None}})
    assert files_of_rows(table)[-1] == ("blob", ("b",), 0, 6)
    blob = max(Path(table.path).rglob("*.blob"), key=lambda path: path.stat().st_mtime_ns)
    assert blob.stat().st_size < 60
    model = {i: (i, b"old" * i) for i in range(6)} | {1: (1, b"new"), 2: (2, None), 4: (4, None)}
    assert rows_of(table, "k", "b") == model
    update(table, {2: {"k": 20, "b": b"again"}, 4: {"k": 40, "b": b""}})
    assert rows_of(table, "k", "b") == model | {2: (20, b"again"), 4: (40, b"")}
    compact(load_table(table.path))
    assert rows_of(table, "k", "b") == model | {2: (20, b"again"), 4: (40, b"")}


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_vectors_have_files_of_their_own(tmp_path: Path, file_format: str) -> None:
    columns = [("k", "INT"), ("e", "VECTOR<FLOAT, 2>"), ("v", "INT"), ("f", "VECTOR<INT, 1>")]
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns)]
    options = {
        **DATA_EVOLUTION,
        "file.format": "orc",
        "vector.file.format": file_format,
        "vector.target-file-size": "1 b",
    }
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=options))
    rows = 2500
    put(table, [{"k": i, "e": [i, -i], "v": i, "f": [i]} for i in range(rows)])
    ending = f"vector.{file_format}"
    found = files_of_rows(table)
    assert found[0] == ("orc", ("k", "v"), 0, rows)
    assert {(name, columns) for name, columns, _, _ in found[1:]} == {(ending, ("e", "f"))}
    assert len(found) > 2
    model = {i: (i, [float(i), float(-i)], i, [i]) for i in range(rows)}
    assert rows_of(table, "k", "e", "v", "f") == model
    update(table, {2000: {"e": [0.5, 1.5]}, 3: {"e": [2.5, 3.5]}})
    model |= {i: (i, [x, x + 1], i, [i]) for i, x in ((2000, 0.5), (3, 2.5))}
    assert {columns for name, columns, _, _ in files_of_rows(table)[len(found) :]} == {("e",)}
    assert rows_of(table, "k", "e", "v", "f") == model
    update(table, {7: {"v": 70, "f": [700]}})
    model[7] = (7, [7.0, -7.0], 70, [700])
    compact(load_table(table.path))
    assert rows_of(table, "k", "e", "v", "f") == model


def test_vectors_written_before_they_had_files_are_kept(tmp_path: Path) -> None:
    columns = [("k", "INT"), ("e", "VECTOR<FLOAT, 2>")]
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns)]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options={**DATA_EVOLUTION, "file.format": "avro"}))
    for start in (0, 5):
        put(load_table(table.path), [{"k": i, "e": [i, i]} for i in range(start, start + 5)])
    alter_table(table, [SetOption("vector.file.format", "avro")])
    for start in (10, 15):
        put(load_table(table.path), [{"k": i, "e": [i, i]} for i in range(start, start + 5)])
    compact(load_table(table.path))
    assert rows_of(table, "k", "e") == {i: (i, [float(i), float(i)]) for i in range(20)}
    assert sorted(rows for name, _, _, rows in files_of_rows(table) if name == "avro") == [5, 5, 10]


def test_files_for_vectors_need_data_evolution() -> None:
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "e", parse_type("VECTOR<FLOAT, 2>"))]
    with pytest.raises(OptionError, match="Data evolution config must enabled for table with vector-store"):
        validate(create_schema(fields, options={"bucket": "-1", "vector.file.format": "parquet"}))


def delete(table: FileStoreTable, *row_ids: int) -> None:
    """Mark rows in the oldest file of their group."""
    table = load_table(table.path)
    latest = table.snapshots.latest()
    assert latest is not None
    whole = [entry.file for entry in table.manifests.live_entries(latest)]
    marked = []
    for row_id in row_ids:
        group = [file for file in whole if 0 <= row_id - (file.first_row_id or 0) < file.row_count]
        anchor = min(group, key=lambda file: file.max_sequence_number)
        at = np.array([row_id - (anchor.first_row_id or 0)])
        marked.append((f"{table.path}/bucket-0/{anchor.file_name}", encode_positions(at)))
    commit_deletions(table, (), latest.id, marked, operation="DELETE", rows_read=True)


def test_deleted_rows_go_over_to_the_compacted_file(make: Make) -> None:
    table = make(**{"deletion-vectors.enabled": "true"})
    append(table, range(15, 25))
    delete(table, 0, 4, 11)
    update(table, {5: {"b": 500}, 12: {"b": 1200}, 4: {"b": 9}})
    delete(table, 4, 14, 20)
    model = {k: (k, f"a{k}", {5: 500, 12: 1200}.get(k, k)) for k in range(25) if k not in (0, 4, 11, 14, 20)}
    assert rows_of(table, "k", "a", "b") == model
    compact(load_table(table.path))
    assert files_of_rows(table) == [("parquet", None, 0, 25)]
    assert rows_of(table, "k", "a", "b") == model
    latest = load_table(table.path).snapshots.latest()
    (vector,) = vectors_of(load_table(table.path), latest).values()
    assert vector.cardinality == 5
    delete(table, 24)
    update(table, {1: {"a": "x"}})
    compact(load_table(table.path))
    del model[24]
    assert rows_of(table, "k", "a", "b") == model | {1: (1, "x", 1)}


def test_a_delete_during_a_compaction_is_a_conflict(make: Make) -> None:
    table = make(**{"deletion-vectors.enabled": "true"})
    delete(table, 3)

    def rewritten(table: FileStoreTable, rewrites: Any) -> Any:
        delete(table, 5, 12)
        return rewrite_here(table, rewrites)

    with pytest.raises(CommitConflictError):
        compact(load_table(table.path), execute=rewritten)
    assert set(rows_of(table, "k")) == set(range(15)) - {3, 5, 12}
    compact(load_table(table.path))
    assert set(rows_of(table, "k")) == set(range(15)) - {3, 5, 12}


def test_columns_of_rows_that_no_file_has_are_a_conflict(make: Make) -> None:
    """Whoever commits: files of some columns alone would bring rows back that are gone."""
    table = make()
    message = written(table, {1: {"a": "x"}, 12: {"a": "y"}})
    assert message is not None
    (first, second) = message.messages
    commit(load_table(table.path), [second])
    assert rows_of(table, "a")[12] == ("y",)
    commit(load_table(table.path), [], overwrite=OverwriteSpec.truncate())
    with pytest.raises(CommitConflictError, match="Row id existence conflict"):
        commit(load_table(table.path), [first])
    append(table, range(3))
    with pytest.raises(CommitConflictError, match="which no data file has any more"):
        commit(load_table(table.path), [first])
    assert rows_of(table, "k") == {15: (0,), 16: (1,), 17: (2,)}


def test_new_columns_lie_where_the_options_say(make: Make, tmp_path: Path) -> None:
    table = make(**{
        "data-file.external-paths": f"file:{tmp_path}/far/t", "data-file.external-paths.strategy": "round-robin"
    })  # fmt: skip
    update(table, {1: {"a": "x"}})
    latest = load_table(table.path).snapshots.latest()
    assert latest is not None
    paths = [str(entry.file.external_path) for entry in table.manifests.live_entries(latest)]
    assert len(paths) == 3
    assert all(path.startswith(f"file:{tmp_path}/far/t/bucket-0/") for path in paths)
    assert rows_of(table, "a")[1] == ("x",)
    files = sorted((tmp_path / "far").rglob("*.parquet"))
    schema = pa.schema([("b", pa.int32())])
    plan = plan_column_update(load_table(table.path), ["b"], schema, latest.id)
    bad = pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int32()), pa.array([1, 99])], names=["b", "_ROW_ID"])
    with pytest.raises(DataError):
        update_columns(plan, [bad])
    assert sorted((tmp_path / "far").rglob("*.parquet")) == files
