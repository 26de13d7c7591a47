"""Which predicates name few rows, and how many rows a reader decodes for them, or for the first rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_spark
from paimon_spark.merge import stream
from paimon_spark.read.few_rows import pins_rows
from paimon_spark.spec.predicate import And, Leaf, Or, Predicate
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.storage.formats import open_data_file

ROWS = 60_000


@pytest.mark.parametrize(
    ("predicate", "pinned"),
    [
        (None, False),
        (Leaf("eq", "k", (1,)), True),
        (Leaf("in", "k", tuple(range(64))), True),
        (Leaf("in", "k", tuple(range(65))), False),
        (Leaf("between", "k", (1, 2)), True),
        (Leaf("gt", "k", (1,)), False),
        (And((Leaf("gt", "k", (1,)), Leaf("le", "k", (9,)))), True),
        (And((Leaf("gt", "k", (1,)), Leaf("le", "v", (9,)))), False),
        (And((Leaf("gt", "k", (1,)), Leaf("ge", "k", (9,)))), False),
        (Or((Leaf("eq", "k", (1,)), Leaf("eq", "v", (1,)))), False),
    ],
)
def test_predicates_that_pin_rows(predicate: Predicate | None, pinned: bool) -> None:
    assert pins_rows(predicate) is pinned


@pytest.mark.parametrize("index", [True, False])
def test_rows_in_pages_that_may_match(tmp_path: Path, index: bool) -> None:
    """The index of the pages tells; without it whole row groups, which the footer's statistics leave out."""
    path = tmp_path / "data-1.parquet"
    rows = pa.table({"k": pa.array(range(ROWS), pa.int64()), "v": pa.array([n % 7 for n in range(ROWS)], pa.int64())})
    pq.write_table(rows, path, write_page_index=index, data_page_size=8_192, row_group_size=ROWS // 2)
    with open_data_file(LocalFileIO(), str(path), "parquet", path.stat().st_size, rows=ROWS) as reader:
        one = reader.most_rows(Leaf("eq", "k", (40_000,)))
        assert (0 < one < ROWS // 2) if index else one == ROWS // 2
        assert reader.most_rows(Leaf("eq", "k", (ROWS,))) == 0
        assert reader.most_rows(Leaf("eq", "v", (3,))) == ROWS


def test_first_rows_of_overlapping_runs_merge_one_batch_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LIMIT merged as many rows as fit the budget of a whole read."""
    path = f"{tmp_path}/db.db/t"
    rows = pa.table({"k": pa.array(range(ROWS), pa.int64()), "v": ["a"] * ROWS})
    paimon_spark.create_table(path, rows.schema, primary_key=["k"], bucket="1", write_only="true")
    for step in (1, 2, 3):
        paimon_spark.open_table(path).upsert(rows.take(list(range(0, ROWS, step))))
    merged: list[int] = []

    def counted(batches: Sequence[pa.RecordBatch]) -> Any:
        merged.extend(batch.num_rows for batch in batches)
        return table_of(batches)

    table_of = stream.table_of
    monkeypatch.setattr(stream, "table_of", counted)
    found = paimon_spark.open_table(path).scan(limit=10).to_arrow()
    assert found.to_pylist() == rows.slice(0, 10).to_pylist()
    assert sum(merged) <= 10_000
    merged.clear()
    found = paimon_spark.open_table(path).scan(where="v = 'a' AND k >= 59000", limit=10).to_arrow()
    assert found.column("k").to_pylist() == list(range(59_000, 59_010))
    assert paimon_spark.open_table(path).scan(limit=50_000).to_arrow().num_rows == 50_000
