"""Which Parquet columns get a dictionary: few values yes, many no, small files and nested columns always."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.storage.parquet_columns import LEAST_ROWS, dictionary_columns, distinct_values

ROWS = 200_000
LIMIT = 1 << 20
_CASTS = {
    pa.date32(): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.timestamp("us"): pa.int64(),
    pa.binary(): pa.string(),
}
"""Types by way of which numbers become others."""


def _table(rows: int = ROWS) -> pa.Table:
    at = np.arange(rows)
    random = np.random.default_rng(7)
    return pa.table(
        {
            "unique": at,
            "real": random.random(rows),
            "some": random.integers(0, 3000, rows),
            "cycle": pa.array([f"left-{i}" for i in range(5000)]).take(pa.array(at % 5000)),
            "runs": at // 40,
            "pairs": at // 2,
            "name": pa.array(at).cast(pa.string()),
            "nothing": pa.nulls(rows, pa.int64()),
            "list.of": pa.array([[1, 2]] * rows),
        }
    )


def test_columns_of_many_values_get_no_dictionary() -> None:
    assert dictionary_columns(_table(), LIMIT) == ["some", "cycle", "runs", "nothing", "list.of.list.element"]


def test_a_dictionary_that_would_be_given_up_is_not_begun() -> None:
    values = pa.table({"v": np.random.default_rng(1).integers(0, 60_000, ROWS)})
    assert dictionary_columns(values, LIMIT) is True
    assert dictionary_columns(values, 1 << 16) == []


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us")),
        *(pa.time32("ms"), pa.decimal128(12, 2), pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_distinct_values_are_counted_whatever_their_type(kind: pa.DataType) -> None:
    """Numbers by their bits: of doubles -0.0 and 0.0 are two, as in a dictionary."""
    numbers = pa.array([None, 3, 1, 3, 0, 1, None, 7, 100, 3])
    column = numbers.cast(_CASTS.get(kind, pa.int8())).cast(kind)
    assert distinct_values(column) == 5
    assert distinct_values(column.slice(1, 3)) == 2
    assert distinct_values(column.slice(0, 1)) == 0


def test_two_zeros_are_two_entries() -> None:
    assert distinct_values(pa.array([0.0, -0.0, float("nan"), float("nan"), None])) == 3


def test_a_small_file_gets_all_its_dictionaries() -> None:
    assert dictionary_columns(_table(LEAST_ROWS - 1), LIMIT) is True


@pytest.mark.parametrize(("option", "expected"), [(None, {"some"}), ("true", {"some", "unique"}), ("false", set())])
def test_the_option_goes_over_the_sample(tmp_path: Path, option: str | None, expected: set[str]) -> None:
    fields = [DataField(0, "unique", parse_type("BIGINT")), DataField(1, "some", parse_type("BIGINT"))]
    rows = _table().select(["unique", "some"])
    path = f"{tmp_path}/data.parquet"
    options = {} if option is None else {"parquet.enable.dictionary": option}
    io = FileIO.for_path(path, {})
    writer = create_data_file(io, path, "parquet", fields, compression="zstd", zstd_level=1, options=options)
    writer.write(rows)
    writer.close()
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(i) for i in range(2)]
    assert {c.path_in_schema for c in columns if c.has_dictionary_page} == expected
    with open_data_file(io, path, "parquet", None, options={}) as reader:
        assert pa.Table.from_batches(reader.read_batches(fields)).equals(rows)


def test_texts_come_as_dictionaries_where_the_file_has_them(tmp_path: Path) -> None:
    """Not those that a writer gave the dictionary up for: to make one again takes longer than to read them."""
    kinds = {"cycle": "STRING", "name": "STRING", "some": "BIGINT", "raw": "BYTES", "s": "ROW<t STRING>"}
    fields = [DataField(at, name, parse_type(kind)) for at, (name, kind) in enumerate(kinds.items())]
    table = _table()
    raw = table["cycle"].cast(pa.binary())
    nested = pa.StructArray.from_arrays([table["cycle"].combine_chunks()], ["t"])
    rows = table.select(["cycle", "name", "some"]).append_column("raw", raw).append_column("s", nested)
    path = f"{tmp_path}/data.parquet"
    io = FileIO.for_path(path, {})
    writer = create_data_file(io, path, "parquet", fields, options={"parquet.enable.dictionary": "true"})
    writer.write(rows)
    writer.close()
    with open_data_file(io, path, "parquet") as reader:
        batches = list(reader.read_batches(fields, dictionaries=frozenset(kinds)))
        again = list(reader.read_batches(fields))
    coded = [field.name for field in batches[0].schema if pa.types.is_dictionary(field.type)]
    assert coded == ["cycle"]
    plain = again[0].schema
    assert pa.Table.from_batches([batch.cast(plain) for batch in batches]) == pa.Table.from_batches(again)
