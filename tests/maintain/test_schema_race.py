"""ALTER TABLE, then a write with the new columns, at every call of a write or rewrite: no value is lost or moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import CommitConflictError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.row_order import Curve, RowOrder
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_rewrite import all_of_each_partition, sort_units
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.data_types import BigIntType, DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.schema_change import AddColumn, DropColumn, RenameColumn, SchemaChange, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.interrupting import Operation, with_a_rival
from tests.support.killing import IMPATIENT
from tests.support.plans import plan_of
from tests.support.seeds import chance

pytestmark = pytest.mark.thorough

Rows = dict[int, dict[str, object]]
KINDS: dict[str, tuple[bool, dict[str, str]]] = {
    "append": (False, {"bucket": "-1"}),
    "keyed": (True, {"bucket": "1"}),
    "dynamic": (True, {"bucket": "-1"}),
    "partial": (True, {"bucket": "1", "merge-engine": "partial-update"}),
    "vectors": (True, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "lookup": (True, {"bucket": "1", "changelog-producer": "lookup"}),
}
CHANGES: dict[str, Sequence[SchemaChange]] = {
    "add": [AddColumn(("w",), IntType())],
    "drop": [DropColumn(("b",))],
    "rename": [RenameColumn(("a",), "w")],
    "type": [UpdateColumnType(("a",), BigIntType())],
    "reused name": [DropColumn(("b",)), RenameColumn(("a",), "b")],
}


def make(directory: Path, kind: str) -> None:
    keyed, options = KINDS[kind]
    fields = [DataField(at, name, parse_type(text)) for at, (name, text) in enumerate(
        {"k": "INT NOT NULL", "a": "INT", "b": "INT"}.items()
    )]  # fmt: skip
    named = {"write-only": "true", **options}
    create_table(str(directory / "t"), create_schema(fields, ("k",) if keyed else (), (), named, None))
    for keys in ([1, 2, 3], [4, 5]):
        write(directory, {key: {"a": key, "b": 10 * key} for key in keys})


def write(directory: Path, given: Rows) -> None:
    """Write rows by the schema of the moment in which the table is opened."""
    table = load_table(str(directory / "t"), options=IMPATIENT)
    names = list(next(iter(given.values())))
    columns = [pa.array([row[name] for row in given.values()]) for name in names]
    wide = {field.name for field in table.schema.fields if isinstance(field.type, BigIntType)}
    types = [pa.int64() if name in wide else pa.int32() for name in names]
    columns = [column.cast(type_) for column, type_ in zip(columns, types, strict=True)]
    batch = pa.record_batch([pa.array(list(given), pa.int32()), *columns], names=["k", *names])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def contents(directory: Path) -> Rows:
    """All rows: where queries leave level 0 out, after a compaction."""
    table = load_table(str(directory / "t"), options=IMPATIENT)
    if table.options.deletion_vectors_enabled:
        compact(table, full=True)
    plan = plan_of(load_table(str(directory / "t")))
    batches = (batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields, plan.residual))
    return {row.pop("k"): row for batch in batches for row in batch.to_pylist()}


def insert(directory: Path) -> None:
    write(directory, {6: {"a": 6, "b": 60}})


def compacted(directory: Path) -> None:
    compact(load_table(str(directory / "t"), options={**IMPATIENT, "compaction.min.file-num": "2"}), full=True)


def ordered(directory: Path) -> None:
    table = load_table(str(directory / "t"), options=IMPATIENT)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    order = RowOrder.of(table, Curve.ORDER, ["k"])
    sort_units(table, snapshot, all_of_each_partition(table, snapshot, CompactScope()), order)


def updated(directory: Path) -> None:
    """Write every row again as it is, as an UPDATE does."""
    table = load_table(str(directory / "t"), options=IMPATIENT)

    def attempt(latest: Snapshot | None) -> None:
        assert latest is not None
        plan = TableScan.of(table.reading_level_0(), ROWS, snapshot_id=latest.id).plan()
        rows = [b for split in plan.splits for b in read_split(plan.table, split, plan.fields, plan.residual)]
        writing = plan_write(table, data_schema=rows[0].schema, rows_of=SnapshotIdentity.of(latest))
        commit(table, [write_batches(writing, rows, 0)], planned_on=writing.snapshot, rows_read=True)

    run_again(table, attempt)


def expected(change: str, *, inserted: bool) -> Rows:
    """The rows after the change, the rival's row 9, and the operation."""
    old = {key: {"a": key, "b": 10 * key} for key in (*range(1, 6), *([6] if inserted else []))}
    after: dict[str, Callable[[dict[str, int]], dict[str, object]]] = {
        "add": lambda row: {**row, "w": None},
        "drop": lambda row: {"a": row["a"]},
        "rename": lambda row: {"w": row["a"], "b": row["b"]},
        "type": dict,
        "reused name": lambda row: {"b": row["a"]},
    }
    return {key: after[change](row) for key, row in old.items()} | {9: ROW[change]}


ROW: dict[str, dict[str, object]] = {
    "add": {"a": 9, "b": 90, "w": 900},
    "drop": {"a": 9},
    "rename": {"w": 9, "b": 90},
    "type": {"a": 2**40, "b": 90},
    "reused name": {"b": 9},
}


def cases() -> list[tuple[str, str, Operation]]:
    """A column is added alongside every operation; another change of this day alongside one for each kind."""
    found: list[tuple[str, str, Operation]] = []
    for kind, (keyed, _) in KINDS.items():
        operations: tuple[Operation, ...] = (insert, compacted, updated) if keyed else (insert, ordered)
        found += [(kind, "add", operation) for operation in operations]
        random = chance("schema race", kind)
        found.append((kind, random.choice([name for name in CHANGES if name != "add"]), random.choice(operations)))
    return found


@pytest.mark.parametrize(("kind", "change", "operation"), cases())
def test_columns_change_at_every_call(tmp_path: Path, kind: str, change: str, operation: Operation) -> None:
    make(tmp_path / "origin", kind)

    def rival(directory: Path) -> None:
        alter_table(load_table(str(directory / "t"), options=IMPATIENT), CHANGES[change])
        write(directory, {9: ROW[change]})

    wrong = []
    for number, (copy, error) in enumerate(with_a_rival(tmp_path / "origin", operation, rival, tmp_path)):
        found = contents(copy)
        wanted = expected(change, inserted=operation is insert and error is None)
        if found != wanted or not isinstance(error, PaimonError | None):
            wrong.append((number, error, found))
    assert not wrong


@pytest.mark.parametrize("change", ["add", "type"])
def test_files_with_newer_columns_are_not_written_anew(tmp_path: Path, change: str) -> None:
    make(tmp_path, "append")
    stale = load_table(str(tmp_path / "t"))
    alter_table(load_table(stale.path), CHANGES[change])
    write(tmp_path, {9: ROW[change]})
    snapshot = stale.snapshots.latest()
    assert snapshot is not None
    units = all_of_each_partition(stale, snapshot, CompactScope())
    before = sorted(path.name for path in Path(stale.path).rglob("data-*"))
    with pytest.raises(CommitConflictError, match="newer than the table was when it was opened"):
        sort_units(stale, snapshot, units, RowOrder.of(stale, Curve.ORDER, ["k"]))
    assert sorted(path.name for path in Path(stale.path).rglob("data-*")) == before
    assert contents(tmp_path) == expected(change, inserted=False)


def test_a_table_that_was_opened_before_is_compacted_with_its_new_columns(tmp_path: Path) -> None:
    make(tmp_path, "keyed")
    stale = load_table(str(tmp_path / "t"))
    alter_table(load_table(stale.path), CHANGES["add"])
    write(tmp_path, {9: ROW["add"]})
    assert compact(stale, full=True) is not None
    assert contents(tmp_path) == expected("add", inserted=False)
