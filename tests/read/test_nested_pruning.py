"""Nested fields that a read has no use for are not decoded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.spec.data_types import ArrayType, DataField, IntType, RowType, VarCharType
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file

TEXT = VarCharType(length=VarCharType.MAX)
INNER = RowType((DataField(3, "c", IntType()), DataField(4, "d.e", TEXT)))
WHOLE = DataField(
    0, "s", RowType((DataField(1, "a", IntType()), DataField(2, "b", INNER), DataField(5, "l", ArrayType(IntType()))))
)
ROWS = [{"a": 1, "b": {"c": 2, "d.e": "x"}, "l": [1, 2]}, None, {"a": None, "b": None, "l": None}]


@pytest.fixture
def path(tmp_path: Path) -> str:
    target = str(tmp_path / "data-0.parquet")
    writer = create_data_file(
        FileIO.for_path(target, {}), target, "parquet", [WHOLE], compression="zstd", zstd_level=1, options={}
    )
    inner = pa.struct([("c", pa.int32()), ("d.e", pa.string())])
    kind = pa.struct([("a", pa.int32()), ("b", inner), ("l", pa.list_(pa.int32()))])
    writer.write(pa.table({"s": pa.array(ROWS, kind)}))
    writer.close()
    return target


@pytest.mark.parametrize(
    ("wanted", "leaves", "rows"),
    [
        (RowType((DataField(1, "a", IntType()),)), ["s.a"], [{"a": 1}, None, {"a": None}]),
        (
            RowType((DataField(2, "b", RowType((DataField(4, "d.e", TEXT),))),)),
            ["s.b.d.e"],
            [{"b": {"d.e": "x"}}, None, {"b": None}],
        ),
        (
            RowType((DataField(5, "l", ArrayType(IntType())), DataField(1, "a", IntType()))),
            ["s.a", "s.l"],
            [{"l": [1, 2], "a": 1}, None, {"l": None, "a": None}],
        ),
    ],
)
def test_only_the_fields_wanted_are_decoded(
    path: str, wanted: RowType, leaves: list[str], rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    plain: Callable[..., Any] = pq.ParquetFile.iter_batches

    def noting(self: pq.ParquetFile, batch_size: int, groups: Any, columns: list[str], **more: Any) -> Any:
        asked.append(columns)
        return plain(self, batch_size, groups, columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noting)
    with open_data_file(FileIO.for_path(path, {}), path, "parquet", Path(path).stat().st_size) as reader:
        found = pa.Table.from_batches(list(reader.read_batches([DataField(0, "s", wanted)])))
    assert [sorted(columns) for columns in asked] == [leaves]
    assert found.column("s").to_pylist() == rows
