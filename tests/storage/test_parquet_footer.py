"""A footer is changed in place: what is not changed is not decoded, and stays as it is."""

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.storage.parquet_footer import decode, encode, with_changed_items, with_schema


def footer_of(columns: int, groups: int) -> bytes:
    table = pa.table({f"c{i}": pa.array(range(40), pa.int64()) for i in range(columns)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=40 // groups)
    data = sink.getvalue()
    length = struct.unpack("<i", data[-8:-4])[0]
    return data[-8 - length : -8]


@pytest.mark.parametrize("columns", [1, 14, 15, 40])  # from 15 on, a list's size is a number of its own
@pytest.mark.parametrize("timestamps", [{}, {("c0",): ("us", True)}])
def test_only_the_schema_changes(columns: int, timestamps: dict[tuple[str, ...], tuple[str, bool]]) -> None:
    footer = footer_of(columns, 2)
    changed = decode(with_schema(footer, "paimon_schema", timestamps))
    before = decode(footer)
    names = [element[4][1] for element in changed[2][1].items]
    assert names == [b"paimon_schema", *(f"c{i}".encode() for i in range(columns))]
    assert (10 in changed[2][1].items[1]) == bool(timestamps)
    assert {key: value for key, value in changed.items() if key != 2} == {k: v for k, v in before.items() if k != 2}


def test_a_list_is_needed() -> None:
    with pytest.raises(ValueError, match="lacks a list"):
        with_changed_items(encode({1: (5, 7)}), 2, None, lambda _: None)
    with pytest.raises(ValueError, match="longer than its file"):
        with_changed_items(b"\x15", 2, None, lambda _: None)


def test_the_parts_of_a_footer_that_are_not_changed_are_not_decoded() -> None:
    footer = footer_of(3, 1)
    cut = len(footer) // 2
    kept = with_schema(footer[:cut], "paimon_schema", {})  # half a footer is no footer, yet its schema is there
    assert kept.endswith(footer[cut - 20 : cut])
