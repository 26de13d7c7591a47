"""Shredded VARIANTs read in part: at the touched paths nothing differs from the whole values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.spec.data_types import DataField, IntType, RowType, VariantType
from paimon_spark.spec.variant_shredding import touched
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import open_data_file
from tests.support.variants import KEYS, SCHEMAS, VALUES, column, group, plain

PATHS = st.lists(st.lists(st.sampled_from(KEYS), max_size=3).map(tuple), max_size=3).map(tuple)


def at(value: Any, path: tuple[str, ...]) -> Any:
    """What a path finds; None where there is nothing."""
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def read_in_part(path: Path, paths: tuple[tuple[str, ...], ...] | None) -> pa.Array:
    field = DataField(0, "v", VariantType(paths=paths))
    with open_data_file(FileIO.for_path(str(path)), str(path), "parquet") as reader:
        return pa.concat_arrays([batch.column("v") for batch in reader.read_batches([field])])


@pytest.mark.parametrize("kind", SCHEMAS.values(), ids=list(SCHEMAS))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(VALUES, min_size=1, max_size=8), paths=PATHS)
def test_the_touched_paths_of_a_file(
    tmp_path: Path, kind: pa.DataType, values: list[Any], paths: tuple[tuple[str, ...], ...]
) -> None:
    array = column(values, kind, {1})
    pq.write_table(pa.table({"v": array}), tmp_path / "x.parquet")
    found = plain(read_in_part(tmp_path / "x.parquet", paths))
    wanted = [None if i == 1 else value for i, value in enumerate(values)]
    for path in paths:
        assert [at(value, path) for value in found] == [at(value, path) for value in wanted], path
    nulls = read_in_part(tmp_path / "x.parquet", paths).is_null().to_pylist()
    assert nulls == [i == 1 for i in range(len(values))]


def test_columns_of_other_paths_are_not_read(tmp_path: Path) -> None:
    """Their pages are damaged here."""
    kind = pa.struct([("b", group(pa.string())), ("a", group(pa.struct([("x", group(pa.int64()))])))])
    values = [{"a": {"x": i, "y": 0.5}, "b": f"text {i}"} for i in range(100)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"v": column(values, kind)}), path, use_dictionary=False, compression="none")
    metadata = pq.read_metadata(path).row_group(0)
    chunk = next(
        metadata.column(n)
        for n in range(metadata.num_columns)
        if metadata.column(n).path_in_schema == "v.typed_value.b.typed_value"
    )
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = bytes(
        chunk.total_compressed_size
    )
    path.write_bytes(data)
    found = plain(read_in_part(path, (("a", "x"), ("nothing",))))
    assert [value["a"]["x"] for value in found] == list(range(100))
    assert "b" not in found[0]
    with pytest.raises(Exception, match="not a valid Parquet file"):
        read_in_part(path, None)


def test_parts_of_a_type() -> None:
    binary = pa.field("value", pa.binary())
    metadata = pa.field("metadata", pa.binary())
    inner = pa.struct([("x", group(pa.int64())), ("y", group(pa.int64()))])
    kind = pa.struct([metadata, binary, ("typed_value", pa.struct([("a", group(inner)), ("b", group(pa.string()))]))])
    only_x = group(pa.struct([("x", group(pa.int64()))]))
    assert touched(kind, [("a", "x"), ("c",)]) == pa.struct(
        [metadata, binary, ("typed_value", pa.struct([("a", only_x)]))]
    )
    assert touched(kind, [("a",), ("a", "x")]) == pa.struct(
        [metadata, binary, ("typed_value", pa.struct([("a", group(inner))]))]
    )
    assert touched(kind, [("b", "q")]).field("typed_value").type == pa.struct([("b", pa.struct([binary]))])
    assert touched(kind, []) == pa.struct([metadata, binary])
    assert touched(kind, [()]) == kind
    dotted = pa.struct([metadata, binary, ("typed_value", pa.struct([("a.b", group(pa.int64()))]))])
    assert touched(dotted, [("c",)]) == dotted


def test_paths_are_no_part_of_a_type() -> None:
    assert VariantType(paths=(("a",),)) == VariantType()
    assert VariantType(paths=(("a",),)).to_json() == "VARIANT"
    assert "paths" not in repr(VariantType(paths=(("a",),)))


def test_a_variant_in_a_row(tmp_path: Path) -> None:
    kind = pa.struct([("b", group(pa.string())), ("a", group(pa.int64()))])
    inner = column([{"a": 1, "b": "x"}, {"a": "y"}, None], kind)
    rows = pa.StructArray.from_arrays([pa.array([1, 2, 3], pa.int32()), inner], ["n", "v"])
    pq.write_table(pa.table({"c": rows}), tmp_path / "x.parquet")
    row = RowType((DataField(1, "n", IntType()), DataField(2, "v", VariantType(paths=(("a",),)))))
    with open_data_file(FileIO.for_path(str(tmp_path)), str(tmp_path / "x.parquet"), "parquet") as reader:
        (batch,) = reader.read_batches([DataField(0, "c", row)])
    assert plain(batch.column("c").field("v")) == [{"a": 1}, {"a": "y"}, None]
