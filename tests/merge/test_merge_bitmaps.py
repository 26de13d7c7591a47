"""rbm32 and rbm64 against the bitmaps that Java wrote and united."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import DataError
from paimon_spark.merge.aggregation import create_aggregator
from paimon_spark.merge.segments import Segments
from paimon_spark.merge.sort import sort_order
from paimon_spark.spec.data_types import VarBinaryType
from paimon_spark.spec.roaring import ARRAY, BITMAP, Bitmap32, Bitmap64, Container


@pytest.fixture(scope="module")
def java_files(golden: Path) -> pa.Table:
    """The rows that Java's merge reader merged, in any order."""
    folder = golden / "pk_aggregation_sketches" / "table" / "bucket-0"
    columns = ["k", "r32", "r64", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    return pa.concat_tables([pq.read_table(path, columns=columns) for path in sorted(folder.glob("*.parquet"))])


@pytest.mark.parametrize(("column", "function"), [("r32", "rbm32"), ("r64", "rbm64")])
def test_the_union_has_the_bytes_of_java(golden: Path, java_files: pa.Table, column: str, function: str) -> None:
    with pa.OSFile(str(golden / "pk_aggregation_sketches" / "reads" / "latest.arrow")) as file:
        expected = pa.ipc.open_file(file).read_all().sort_by("k")
    order = sort_order(java_files, ["k"])
    aggregator = create_aggregator(function, column, VarBinaryType(), {})
    values = java_files.column(column).combine_chunks()
    merged = aggregator.merge(values, Segments(order.order, order.starts))
    assert merged.to_pylist() == expected.column(column).to_pylist()


@pytest.mark.parametrize("form", [Bitmap32, Bitmap64])
@pytest.mark.parametrize("data", [b"", b"\x01", b"\x3b\x30\xff\xff" + b"\xff" * 40, b"\x01" * 60, b"\x00\x01\x02\x03"])
def test_bytes_that_are_no_bitmap_are_an_error(form: type[Bitmap32] | type[Bitmap64], data: bytes) -> None:
    if form is Bitmap64 and data[:1] == b"\x00":
        assert form.decode(data).encode() == b"\x00"
        return
    with pytest.raises(DataError, match="roaring bitmap"):
        form.decode(data)


def test_every_kind_of_container_comes_back() -> None:
    sets = [range(5), range(0, 9000, 2), range(70000), [1, 65537, 1 << 31], [*range(3), *range(100000, 170000, 3)]]
    for numbers in sets:
        for other in sets:
            united = bitmap_of(numbers)
            united.add_all(bitmap_of(other))
            assert numbers_of(Bitmap32.decode(united.encode())) == sorted({*numbers, *other})


def bitmap_of(numbers: range | list[int]) -> Bitmap32:
    values = np.array(numbers, np.int64)
    containers = {}
    for key in sorted(set((values >> 16).tolist())):
        low = (values[values >> 16 == key] & 0xFFFF).astype(np.uint16)
        containers[key] = Container(ARRAY if len(low) <= 4096 else BITMAP, low)
    return Bitmap32(containers)


def numbers_of(bitmap: Bitmap32) -> list[int]:
    return [(key << 16) + value for key, c in bitmap.containers.items() for value in c.values.tolist()]
