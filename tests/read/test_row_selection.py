"""Rows that a deletion vector marks are left out of every part of a file; positions are those of the file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError
from paimon_spark.read.file_read import RowSelection
from paimon_spark.read.metadata_columns import ROW_INDEX, read_with_metadata
from paimon_spark.read.row_views import find_view
from paimon_spark.read.split import DataSplit, RowGroups
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.deletion_vector import encode_vector
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.deletion_vectors import VectorLocation
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

ROWS = 30_000
DELETED = np.unique(np.concatenate([np.arange(3, ROWS, 7), np.arange(12_000, 19_000)]))
LEFT = np.setdiff1d(np.arange(ROWS), DELETED).tolist()


@pytest.fixture(params=["parquet", "orc", "avro"])
def marked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileStoreTable, DataSplit]:
    """A table of one file with several row groups, and a split that reads it with a vector."""
    fields = [DataField(0, "a", parse_type("BIGINT")), DataField(1, "s", parse_type("STRING"))]
    options = {"bucket": "-1", "file.format": request.param, "parquet.block.size": "100000"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, (), (), options, None))
    data = pa.table({"a": np.arange(ROWS), "s": [f"{i:030}" for i in range(ROWS)]}, to_arrow_schema(fields))
    commit(table, [write_batches(plan_write(table, data_schema=data.schema), data.to_batches(), 0)])
    (split,) = plan_of(table, find_view(None)).splits
    return table, with_vector(split, tmp_path / "vectors", DELETED)


def with_vector(split: DataSplit, path: Path, positions: Any, cardinality: int | None = None) -> DataSplit:
    vector, length = encode_vector(positions, wide=False)
    path.write_bytes(b"\1..." + vector)
    location = VectorLocation(str(path), 4, length, len(positions) if cardinality is None else cardinality)
    return dataclasses.replace(split, files=(split.files[0]._replace(deletion_vector=location),))


def values(table: FileStoreTable, split: DataSplit, predicate: Any = None, name: str = "a") -> list[Any]:
    wanted = tuple(field for field in table.schema.fields if field.name == name)
    return [v for batch in read_split(table, split, wanted, predicate) for v in batch.column(0).to_pylist()]


def test_marked_rows_are_left_out(marked: tuple[FileStoreTable, DataSplit]) -> None:
    table, split = marked
    assert values(table, split) == LEFT
    assert split.row_count == len(LEFT)
    assert sum(batch.num_rows for batch in read_split(table, split, (), None)) == len(LEFT)


def test_pruned_row_groups_do_not_shift_positions(marked: tuple[FileStoreTable, DataSplit]) -> None:
    table, split = marked
    for low in (0, 11_990, 21_000, ROWS - 5):
        assert values(table, split, Leaf("ge", "a", (low,))) == [i for i in LEFT if i >= low]
    assert values(table, split, Leaf("eq", "a", (int(DELETED[0]),))) == []


def test_slices_have_the_rows_of_the_file(marked: tuple[FileStoreTable, DataSplit]) -> None:
    table, split = marked
    parts = [
        dataclasses.replace(split, files=(split.files[0]._replace(row_groups=RowGroups(part, part + 1, 3)),))
        for part in range(3)
    ]
    assert [value for part in parts for value in values(table, part)] == LEFT
    counts = [sum(batch.num_rows for batch in read_split(table, part, (), None)) for part in parts]
    assert sum(counts) == len(LEFT)
    assert split.files[0].format != "parquet" or min(counts) > 0
    fields = table.schema.fields[:1]
    for predicate in (None, Leaf("ge", "a", (11_990,))):
        found = [
            pair
            for part in parts
            for batch in read_with_metadata(table, part, fields, predicate, [ROW_INDEX])
            for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        ]
        assert found == [(i, i) for i in LEFT if predicate is None or i >= 11_990]


def test_what_contradicts_the_manifest_is_reported(marked: tuple[FileStoreTable, DataSplit], tmp_path: Path) -> None:
    table, split = marked
    with pytest.raises(CorruptTableError, match="marks 1 rows, but its index manifest says 2"):
        values(table, with_vector(split, tmp_path / "v", np.array([5]), cardinality=2))
    with pytest.raises(CorruptTableError, match=f"marks row {ROWS} of"):
        values(table, with_vector(split, tmp_path / "v", np.array([5, ROWS])))
    (tmp_path / "vectors").unlink()
    with pytest.raises(CorruptTableError, match="is missing"):
        values(table, split)


def test_selections_are_combined() -> None:
    one = RowSelection.of_deleted(np.array([0b11010101, 0b11], np.uint8), 10)
    other = RowSelection.of_deleted(np.array([0b1000, 0], np.uint8), 10)
    assert (one & other).positions([4, 6], None).tolist() == [1, 5]
    assert (one & other).positions([4, 6], [1]).tolist() == [5]
    assert (one & other).without_empty_groups([1, 3, 2, 4], None) == [1, 2]


@pytest.mark.parametrize("name", ["pk_dv_v1", "pk_dv_bitmap64", "pk_dv_avro"])
def test_merge_on_read_shows_level_0(name: str, golden: Path) -> None:
    found = {}
    for option in ("false", "true"):
        table = load_table(str(golden / name / "table"), options={"deletion-vectors.merge-on-read": option})
        plan = plan_of(table, find_view(None))
        levels = {file.level for split in plan.splits for file in split.files}
        assert (0 in levels) == (option == "true")
        batches = [batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields)]
        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        found[option] = {row[0]: row for row in rows}
        assert len(found[option]) == len(rows)
    assert found["true"] != found["false"]
