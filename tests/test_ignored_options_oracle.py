"""Ignoring is right: with all ignored options at values that are not the default, Java and we see the same rows."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.options import Scope
from paimon_spark.table.table import load_table
from tests.support.options_tried import EVERY, key_of, read, value_of, write

pytestmark = pytest.mark.oracle

JAVA_REFUSES = {
    "page-size": "64 kb",  # a power of two
    "stream-scan-mode": "none",
    "auto-create": "false",
    "spill-compression": "lz4",
    "lookup.cache-spill-compression": "lz4",
    "global-index.external-path": "file:/tmp/x",
    "vector.file.format": None,
    "data-file.external-paths.weights": "1",
    "file-index.bloom-filter.v.x": None,
}
"""Options whose sample value Java does not take, and another value; None: none without what else is refused."""
NOT_FOR = {"pk": ("clustering.incremental",), "append": ("streaming-read-overwrite",)}
COLUMNS = [("k", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "BIGINT")]


def ignored(kind: str) -> dict[str, str]:
    given: dict[str, str | None] = {
        key_of(option): value_of(option)
        for option in EVERY
        if option.instead is not None and option.scope is Scope.TABLE and option.key not in NOT_FOR[kind]
    }
    given |= {key: value for key, value in JAVA_REFUSES.items() if key in given}
    return {key: value for key, value in given.items() if value is not None}


def rows(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["dt"], row["v"]) for row in table)


@pytest.mark.parametrize("kind", ["pk", "append"])
def test_no_ignored_option_changes_a_row(oracle: Any, kind: str) -> None:
    options = ignored(kind)
    assert len(options) > 190
    name, keys = f"db.ignored_{kind}", ["k", "dt"] if kind == "pk" else []
    oracle.create(
        name, COLUMNS, pk=keys, partition=["dt"], options={"bucket": "2" if kind == "pk" else "-1", **options}
    )
    oracle.write(name, [(k, f"d{k % 2}", k) for k in range(20)])
    oracle.write(name, [(k, f"d{k % 2}", k * 10) for k in range(5)])
    table = load_table(oracle.location(name))
    assert options.items() <= table.schema.options.items()
    assert rows(read(table)) == sorted(oracle.rows(name))
    write(table, [{"k": 1, "dt": "d1", "v": 77}, {"k": 50, "dt": "d0", "v": 78}])
    assert rows(read(table)) == sorted(oracle.rows(name))
    assert {(1, "d1", 77), (50, "d0", 78)} <= set(oracle.rows(name))


def test_rows_older_than_record_level_expire_time_are_read_as_java_reads_them(oracle: Any) -> None:
    """Java drops them in compactions, and shows them until then."""
    name = "db.record_level"
    options = {"bucket": "1", "record-level.expire-time": "1 s", "record-level.time-field": "v"}
    oracle.create(name, COLUMNS, pk=["k"], options={**options, "write-only": "true"})
    oracle.write(name, [(1, "a", 5), (2, "b", 6)])
    table = load_table(oracle.location(name))
    assert rows(read(table)) == sorted(oracle.rows(name)) == [(1, "a", 5), (2, "b", 6)]
    write(table, [{"k": 3, "dt": "c", "v": 7}])
    assert rows(read(table)) == sorted(oracle.rows(name)) == [(1, "a", 5), (2, "b", 6), (3, "c", 7)]
