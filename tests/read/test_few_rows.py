"""Which predicates name few rows, and how many rows of a Parquet file a reader decodes for them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
