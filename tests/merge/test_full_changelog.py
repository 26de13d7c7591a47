"""Merging rows of the top level with newer ones, and the changelog that tells what became of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from paimon_spark.merge.changelog import inserted, merge_with_changelog
from paimon_spark.merge.factory import Deduplicate
from paimon_spark.merge.merge_engine import KeyLayout

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8())])
Row = tuple[int, int | None, int, int]
PLAIN = Deduplicate(KeyLayout(("k",)))


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def listed(rows: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def run(top: list[Row], newer: list[Row], engine: Deduplicate = PLAIN, *, ignored: set[str] | None = None) -> object:
    return tuple(map(listed, merge_with_changelog(table(top), table(newer), engine, ignored=ignored)))


TOP: list[Row] = [(1, 10, 0, 0), (2, 20, 1, 0), (4, 40, 2, 0)]


def test_each_key_with_newer_rows_is_in_the_changelog() -> None:
    newer: list[Row] = [(2, 21, 5, 0), (3, 30, 6, 0), (4, 40, 7, 3), (5, 50, 8, 3)]
    merged, changelog = run(TOP, newer)  # type: ignore[misc]
    assert merged == [(1, 10, 0, 0), (2, 21, 5, 0), (3, 30, 6, 0)]
    assert changelog == [(2, 20, 1, 1), (2, 21, 5, 2), (3, 30, 6, 0), (4, 40, 2, 3)]


def test_no_row_of_the_top_level() -> None:
    merged, changelog = run([], [(2, 21, 5, 2), (3, 30, 6, 0), (2, 22, 7, 2), (3, 30, 8, 3)])  # type: ignore[misc]
    assert merged == [(2, 22, 7, 2)]
    assert changelog == [(2, 22, 7, 0)]


def test_an_update_to_the_same_values() -> None:
    newer: list[Row] = [(1, 10, 5, 0), (2, 20, 6, 0), (2, None, 7, 0)]
    assert run(TOP, newer)[1] == [(1, 10, 0, 1), (1, 10, 5, 2), (2, 20, 1, 1), (2, None, 7, 2)]  # type: ignore[index]
    assert run(TOP, newer, ignored=set())[1] == [(2, 20, 1, 1), (2, None, 7, 2)]  # type: ignore[index]
    assert run(TOP, newer, ignored={"v"})[1] == []  # type: ignore[index]


def test_the_row_of_the_top_level_may_win() -> None:
    engine = Deduplicate(KeyLayout(("k",), ("v",)))
    merged, changelog = run(TOP, [(2, 3, 5, 0), (4, 41, 6, 0)], engine)  # type: ignore[misc]
    assert merged == [(1, 10, 0, 0), (2, 20, 1, 0), (4, 41, 6, 0)]
    assert changelog == [(2, 20, 1, 1), (2, 20, 1, 2), (4, 40, 2, 1), (4, 41, 6, 2)]
    assert run(TOP, [(2, 3, 5, 0)], engine, ignored=set())[1] == []  # type: ignore[index]


def test_keys_of_which_merging_leaves_nothing() -> None:
    engine = Deduplicate(KeyLayout(("k",)), ignore_delete=True)
    merged, changelog = run(TOP, [(3, 1, 5, 3), (3, 1, 6, 3), (5, 1, 7, 0)], engine)  # type: ignore[misc]
    assert merged == [*TOP, (5, 1, 7, 0)]
    assert changelog == [(5, 1, 7, 0)]


@pytest.mark.parametrize("rows", [[], [(1, 1, 0, 2), (2, 2, 1, 3)]])
def test_rows_without_older_ones_are_inserts(rows: list[Row]) -> None:
    assert listed(inserted(table(rows))) == [(1, 1, 0, 0)][: len(rows)]
