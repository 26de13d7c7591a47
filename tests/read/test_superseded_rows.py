"""Rows of overlapping files that are not rows of the table: without them the files give what a merge gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read import superseded_rows as superseded
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.plain_files import merged_splits
from paimon_spark.read.split_read import partition_constants, read_split
from paimon_spark.read.superseded_rows import superseded_rows
from paimon_spark.read.table_scan import ReadPlan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.special_fields import RowKind
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.deletion_vectors import deleted_rows
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import golden_tables
from tests.support.plans import plan_of
from tests.support.rounds import FarDisk
from tests.support.seeds import chance

KEYS: dict[str, Callable[[int], Any]] = {
    "INT": lambda n: n - 50,
    "BIGINT": lambda n: (n - 50) << 40,
    "STRING": lambda n: "ä" * (n % 3) + f"{n % 7} a long prefix {n}",
    "BYTES": lambda n: bytes([n % 2] * (n % 9)) + bytes([n]),
    "BOOLEAN": lambda n: n % 2 == 0,
    "DATE": lambda n: n,
    "TIMESTAMP(9)": lambda n: n,
    "DECIMAL(12, 2)": lambda n: Decimal(n - 50).scaleb(-2),
    "DECIMAL(38, 3)": lambda n: Decimal((n - 50) * 10**30).scaleb(-3),
    "DOUBLE": lambda n: float("nan") if n == 3 else -0.0 if n == 4 else 0.0 if n == 5 else n / 7,
}
OPTIONS: dict[str, dict[str, str]] = {
    "plain": {},
    "sequence": {"sequence.field": "s"},
    "descending": {"sequence.field": "s,v", "sequence.field.sort-order": "descending"},
    "ignore deletes": {"ignore-delete": "true"},
    "lookup": {"force-lookup": "true", "sequence.field": "s"},
    "snapshots": {"sequence.snapshot-ordering": "true"},
    "vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    "orc": {"file.format": "orc"},
}


def write(table: FileStoreTable, columns: dict[str, list[Any]]) -> None:
    kinds = columns.pop("_VALUE_KIND")
    schema = to_arrow_schema(table.schema.fields)
    arrays = [pa.array(columns.get(field.name, [None] * len(kinds)), field.type) for field in schema]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array(kinds, pa.int8())], names=[*schema.names, "_VALUE_KIND"])
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def merged(plan: ReadPlan) -> Counter[str]:
    """The rows as a task gives them."""
    return Counter(
        str(list(row.values()))
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields)
        for row in batch.to_pylist()
    )


def not_left_out(plan: ReadPlan) -> tuple[Counter[str], int]:
    """The rows of the files that are not left out, and how many are."""
    splits = merged_splits(plan)
    found = superseded_rows(plan.table, splits, 2)
    rows, count = merged(replace(plan, splits=tuple(split for split in plan.splits if split.raw_convertible))), 0
    for split in splits:
        reader = FileRead(plan.table, plan.fields, partition_constants(plan.table, split))
        for file in split.files:
            bits, vector = found.get(file.path, np.zeros(file.row_count, np.uint8)), file.deletion_vector
            if file.path not in found and vector is not None:
                bits = deleted_rows(plan.table.file_io, vector, file.row_count)
            left_out = np.unpackbits(bits, count=file.row_count, bitorder="little").astype(bool)
            count += int(left_out.sum())
            table = pa.Table.from_batches(reader.batches(file._replace(deletion_vector=None), None))
            rows.update(str(list(row.values())) for row in table.filter(pa.array(~left_out)).to_pylist())
    return rows, count


@pytest.mark.parametrize(
    ("key", "kind"), [(key, list(OPTIONS)[(2 * at + i) % len(OPTIONS)]) for at, key in enumerate(KEYS) for i in (0, 1)]
)
def test_the_rest_of_the_rows_is_what_a_merge_gives(
    tmp_path: Path, key: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.merge.stream._LEAST_BLOCK_BYTES", 1 << 10)
    random = chance("superseded", key, kind)
    names = [("p", "INT NOT NULL"), ("k", f"{key} NOT NULL"), ("s", "INT"), ("v", "STRING"), ("w", "INT")]
    fields = [DataField(at, name, parse_type(text)) for at, (name, text) in enumerate(names)]
    primary, partition = random.choice([(("k",), ()), (("k", "w"), ()), (("p", "k"), ("p",)), (("w", "k"), ())])
    if "w" in primary:
        fields[4] = DataField(4, "w", IntType(nullable=False))
    options = {"bucket": "2", "write-only": "true", "read.merge.memory-budget": "8 kb", **OPTIONS[kind]}
    path = str(tmp_path / "t")
    create_table(path, create_schema(fields, primary, partition, options, None))
    for number in range(5):
        rows = random.randrange(1, 80)
        values = {
            "p": [random.randrange(2) for _ in range(rows)],
            "k": [KEYS[key](random.randrange(100)) for _ in range(rows)],
            "s": [random.choice([None, 1, 2, 3]) for _ in range(rows)],
            "v": [f"{number}-{random.randrange(9)}" for _ in range(rows)],
            "w": [random.randrange(3) for _ in range(rows)],
            "_VALUE_KIND": [RowKind.DELETE if random.random() < 0.2 else RowKind.INSERT for _ in range(rows)],
        }
        table = load_table(path)
        write(table, values)
        if number == 1 and random.random() < 0.7:
            compact(load_table(path, options={"write-only": "false"}), full=random.random() < 0.5)
    plan = plan_of(load_table(path))
    rest, left_out = not_left_out(plan)
    assert rest == merged(plan)
    assert left_out or not merged_splits(plan)


def test_tables_of_java_have_the_rows_that_a_merge_gives(golden: Path) -> None:
    """Deletes, levels, vectors, old files, sequence fields, types of keys; columns that came later."""
    compared = 0
    for case in golden_tables():
        path = golden / case.name / "table"
        if not (path / "schema").exists():
            continue
        table = load_table(str(path))
        if not table.schema.primary_keys or not table.options.one_row_wins or table.snapshots.latest() is None:
            continue
        plan = plan_of(table)
        if plan.read is read_split and merged_splits(plan):
            assert not_left_out(plan)[0] == merged(plan), case.name
            compared += 1
    assert compared > 10


def test_what_was_found_of_files_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", parse_type("STRING"))]
    options = {"bucket": "1", "write-only": "true"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("k",), (), options, None))
    for number in range(3):
        write(table, {"k": [1, 2, number + 3], "v": [str(number)] * 3, "_VALUE_KIND": [0] * 3})
    opened: list[str] = []
    batches = FileRead.batches
    monkeypatch.setattr(FileRead, "batches", lambda *a: opened.append(a[1].name) or batches(*a))
    first = superseded_rows(table, merged_splits(plan_of(table)), 1)
    assert sum(int(np.unpackbits(bits).sum()) for bits in first.values()) == 4
    assert len(opened) == 3
    assert superseded_rows(table, merged_splits(plan_of(table)), 1).keys() == first.keys()
    assert len(opened) == 3
    descending = table.with_options({"sequence.field": "v", "sequence.field.sort-order": "descending"})
    other = superseded_rows(descending, merged_splits(plan_of(descending)), 1)
    assert len(opened) == 6
    assert [bits.tolist() for bits in other.values()] == [bits.tolist() for bits in first.values()][::-1]
    monkeypatch.setattr(superseded._KEPT, "_most", 4)
    write(table, {"k": [1], "v": ["3"], "_VALUE_KIND": [0]})
    superseded_rows(table, merged_splits(plan_of(table)), 1)
    superseded_rows(table, merged_splits(plan_of(table)), 1)
    assert len(opened) == 10
    superseded_rows(descending, merged_splits(plan_of(descending)), 1)
    superseded_rows(table, merged_splits(plan_of(table)), 1)
    assert len(opened) == 18


@pytest.fixture
def far_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FileStoreTable, FarDisk]:
    """Four buckets of four overlapping files each, none of which comes whole."""
    monkeypatch.setattr("paimon_spark.storage.read_ahead.SMALL_FILE_BYTES", 1 << 10)
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", parse_type("STRING"))]
    options = {"bucket": "4", "write-only": "true"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("k",), (), options, None))
    for number in range(4):
        rows = range(number * 500, number * 500 + 20_000)
        write(table, {"k": list(rows), "v": [f"{number}-{row}" for row in rows], "_VALUE_KIND": [0] * len(rows)})
    far = FarDisk()
    return load_table(str(tmp_path / "t"), file_io=far), far


def test_keys_of_files_far_away_take_few_rounds(far_table: tuple[FileStoreTable, FarDisk]) -> None:
    table, far = far_table
    plan = plan_of(table)
    far.rounds()
    superseded_rows(plan.table, merged_splits(plan), 2)
    rounds = far.rounds()
    assert sum(rounds) == 32
    assert len(rounds) <= 4, rounds


def test_a_small_budget_merges_fewer_buckets_at_once(far_table: tuple[FileStoreTable, FarDisk]) -> None:
    table, far = far_table
    plan = plan_of(table.with_options({"read.merge.memory-budget": "16 mb"}))
    far.rounds()
    superseded_rows(plan.table, merged_splits(plan), 1)
    rounds = far.rounds()
    assert max(rounds) <= 4, "the four files of one bucket"
    assert len(rounds) <= 12, rounds


def test_rows_of_files_far_away_are_merged_in_few_rounds(far_table: tuple[FileStoreTable, FarDisk]) -> None:
    table, far = far_table
    plan = plan_of(table)
    far.rounds()
    assert sum(batch.num_rows for batch in read_split(plan.table, plan.splits[0], plan.fields)) > 1000
    rounds = far.rounds()
    assert len(rounds) <= 4, rounds
