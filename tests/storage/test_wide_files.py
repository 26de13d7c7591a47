"""Files of thousands of columns: what is done for a column does not look at all the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.parquet_footer import decoded_bytes
from tests.support.data_files import read_file, write_file

WIDE = [DataField(i, f"c{i}", parse_type(("INT", "STRING", "DECIMAL(10, 2)")[i % 3])) for i in range(300)]


def test_the_schema_of_a_file_is_not_made_for_each_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    real = pq.ParquetFile.schema_arrow

    def counting(file: pq.ParquetFile) -> pa.Schema:
        made.append(file)
        return real.fget(file)

    rows = pa.table([pa.nulls(5, field.type) for field in to_arrow_schema(WIDE)], to_arrow_schema(WIDE))
    write_file(tmp_path / "f.parquet", WIDE, rows)
    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counting))
    assert read_file(tmp_path / "f.parquet", WIDE) == rows
    assert len(made) < 10


def test_sizes_are_of_the_columns_asked_for(tmp_path: Path) -> None:
    """Leaves are found below columns, also where names have dots or begin alike."""
    rows = pa.table(
        {
            "a": pa.array([1, 2], pa.int32()),
            "a.b": pa.array([1, 2], pa.int64()),
            "ab": pa.array([1.0, 2.0]),
            "s": pa.array([{"x": 1, "y": {"z": 2}}] * 2),
        }
    )
    pq.write_table(rows, tmp_path / "f.parquet")
    with pq.ParquetFile(tmp_path / "f.parquet") as file:

        def size(*columns: str) -> int:
            return decoded_bytes(file, [0], columns, 1 << 30, lambda _: file)[0]

        assert (size("a"), size("a.b"), size("ab"), size("s"), size("s.y"), size("s.y.z"), size("b")) == (
            24, 16, 16, 32, 16, 16, 0,
        )  # fmt: skip
        assert size("a", "s.x", "s") == 56
