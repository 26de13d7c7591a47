"""``$ro`` and ``$row_tracking`` give the rows that Java gives, whatever the levels, slices and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.row_views import NAMED_VIEWS
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "BIGINT")]


def read(
    table: FileStoreTable, name: str, *, columns: Sequence[str] | None = None, where: str | None = None, tasks: int = 1
) -> pa.Table:
    view = NAMED_VIEWS[name]
    predicate = None if where is None else parse_filter(where, view.fields(table))
    plan = plan_of(table, view, columns=columns, predicate=predicate, parallelism=tasks)
    batches = [batch for split in plan.splits for batch in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def opened(oracle: Any, name: str, **options: str) -> FileStoreTable:
    return load_table(oracle.location(name).removeprefix("file:"), options=options)


@pytest.mark.parametrize("levels", [{}, {"num-levels": "3"}, {"num-sorted-run.compaction-trigger": "2"}])
def test_read_optimized(oracle: Any, levels: dict[str, str]) -> None:
    name = "views.ro" + "".join(levels.values()) + "".join(levels).replace("-", "").replace(".", "")
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "2", **levels})
    for number in range(4):
        oracle.write(name, [(k, f"v{number}", number * k) for k in range(number, 40, 3)])
        if number == 2:
            oracle.compact(name, full=True)
    oracle.write(name, [(0, "gone", 0)], kinds="-D")
    table, java = opened(oracle, name), oracle.read(f"{name}$ro")
    ours = read(table, "ro")
    assert ours.num_rows > 0
    assert row_multiset(ours) == row_multiset(java)
    assert row_multiset(ours) != row_multiset(oracle.read(name))
    some = read(table, "ro", columns=["n"], where="k < 10 AND v <> 'v1'")
    wanted = [row["n"] for row in java.to_pylist() if row["k"] < 10 and row["v"] != "v1"]
    assert sorted(some["n"].to_pylist()) == sorted(wanted)
    first = load_table(table.path, options={"scan.snapshot-id": "1"})
    assert row_multiset(read(first, "ro")) == row_multiset(oracle.read(f"{name}$ro", options={"scan.snapshot-id": 1}))


def test_read_optimized_without_keys_is_the_table(oracle: Any) -> None:
    oracle.create("views.plain", COLUMNS)
    oracle.write("views.plain", [(1, "a", 1), (2, "b", 2)])
    assert row_multiset(read(opened(oracle, "views.plain"), "ro")) == row_multiset(oracle.read("views.plain$ro"))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_row_tracking(oracle: Any, file_format: str) -> None:
    name = f"views.tracked_{file_format}"
    options = {"row-tracking.enabled": "true", "file.format": file_format, "file.block-size": "1 kb"}
    oracle.create(name, COLUMNS, options=options)
    for number in range(3):
        oracle.write(name, [(k, f"{number}-{k:05}", k) for k in range(400)])
    java = oracle.read(f"{name}$row_tracking")
    table = opened(oracle, name)
    assert row_multiset(read(table, "row_tracking")) == row_multiset(java)
    sliced = opened(oracle, name, **{"source.split.target-size": "2 kb", "source.split.open-file-cost": "1 b"})
    assert row_multiset(read(sliced, "row_tracking", tasks=8)) == row_multiset(java)
    some = read(table, "row_tracking", columns=["_ROW_ID", "v"], where="_ROW_ID >= 395 AND _ROW_ID < 405 AND n <> 2")
    assert row_multiset(some) == row_multiset(
        pa.Table.from_pylist(
            [
                {"_ROW_ID": row["_ROW_ID"], "v": row["v"]}
                for row in java.to_pylist()
                if 395 <= row["_ROW_ID"] < 405 and row["n"] != 2
            ],
            some.schema,
        )
    )
    numbers = read(table, "row_tracking", columns=["_SEQUENCE_NUMBER"])
    assert sorted(numbers["_SEQUENCE_NUMBER"].to_pylist()) == sorted(java["_SEQUENCE_NUMBER"].to_pylist())


def test_row_tracking_in_avro_which_java_cannot_read(oracle: Any) -> None:
    oracle.create("views.avro", COLUMNS, options={"row-tracking.enabled": "true", "file.format": "avro"})
    for number in (1, 2):
        oracle.write("views.avro", [(k, f"{number}", k) for k in range(3)])
    rows = read(opened(oracle, "views.avro"), "row_tracking", columns=["k", "_ROW_ID", "_SEQUENCE_NUMBER"])
    assert sorted(map(tuple, (row.values() for row in rows.to_pylist())), key=lambda row: row[1]) == [
        (row_id % 3, row_id, 1 + row_id // 3) for row_id in range(6)
    ]


def test_tables_that_track_no_rows_say_so(oracle: Any) -> None:
    oracle.create("views.untracked", COLUMNS)
    with pytest.raises(UnsupportedError, match=r"row-tracking\.enabled"):
        read(opened(oracle, "views.untracked"), "row_tracking")


@pytest.mark.parametrize("name", ["ro", "row_tracking"])
def test_changes_are_not_read_from_them(oracle: Any, name: str) -> None:
    oracle.create(f"views.changes_{name}", COLUMNS, options={"row-tracking.enabled": "true"})
    oracle.write(f"views.changes_{name}", [(1, "a", 1)])
    with pytest.raises(UnsupportedError, match="one version"):
        read(opened(oracle, f"views.changes_{name}", **{"incremental-between": "0,1"}), name)
