"""Changes between two points of tables that Java writes on the spot: the same rows, kinds and refusals as Java's."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.read.row_view import plan_view
from paimon_spark.read.row_views import row_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from tests.support.golden import row_multiset

pytestmark = pytest.mark.oracle

COLUMNS = [("k", "INT NOT NULL"), ("a", "STRING"), ("b", "DOUBLE"), ("s", "INT")]
_names = itertools.count()


def ours(
    path: str, system: str | None = None, *, columns: list[str] | None = None, where: str | None = None, **options: str
) -> pa.Table:
    table = load_table(path, options={key.replace("_", "-"): value for key, value in options.items()})
    view = row_view(system)
    assert view is not None
    predicate = None if where is None else parse_filter(where, view.fields(table))
    plan = plan_view(table, view, columns=columns, predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def javas(oracle: Any, name: str, system: str | None = None, **options: str) -> pa.Table:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return oracle.read(f"{name}${system}" if system else name, options=named or None)


def path_of(oracle: Any, name: str) -> str:
    database, table = name.split(".")
    return f"{oracle.warehouse}/{database}.db/{table}"


def new_name() -> str:
    return f"inc.t{next(_names)}"


def assert_equal(oracle: Any, name: str, system: str | None = None, **options: str) -> int:
    got, want = ours(path_of(oracle, name), system, **options), javas(oracle, name, system, **options)
    assert got.schema.names == want.schema.names
    assert row_multiset(got) == row_multiset(want), (system, options)
    return got.num_rows


def changed_table(oracle: Any, *, options: dict[str, str], deletes: bool = True, compacts: bool = True) -> str:
    """A table with a history: inserts, updates, deletes, a compaction, an evolved schema, tags at some snapshots."""
    name = new_name()
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "2", **options})
    oracle.write(name, [(i, f"a{i}", i / 2, 1) for i in range(20)])
    oracle.create_tag(name, "first")
    oracle.write(name, [(i, None if i % 4 == 0 else f"b{i}", float("nan"), i % 3) for i in range(0, 30, 2)])
    if compacts:
        oracle.compact(name)
    oracle.create_tag(name, "second")
    if deletes:
        gone = [(i, f"a{i}", i / 2, 9) for i in range(5, 9)]
        oracle.write(name, gone, kinds=["-D"] * len(gone))
    oracle.alter(name, ("add", "c", "STRING"), ("rename", "a", "aa"))
    oracle.write(name, [(i, f"c{i}", None, 2, "new") for i in range(3, 12, 3)])
    oracle.create_tag(name, "third")
    oracle.write(name, [(i, f"a{i}", i / 2, 1, None) for i in (1, 3, 17)])
    return name


ENGINES = {
    "deduplicate": {},
    "sequence field": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "partial-update with groups": {
        "merge-engine": "partial-update", "fields.s.sequence-group": "b", "ignore-delete": "true"
    },
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "avro, write-only": {"file.format": "avro", "write-only": "true"},
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_are_those_of_java(oracle: Any, engine: str) -> None:
    name = changed_table(oracle, options=ENGINES[engine])
    latest = max(oracle.snapshots(name))
    seen = 0
    for start, end in ((0, latest), (1, 3), (2, latest - 1), (latest - 1, latest), (2, 2)):
        between = f"{start},{end}"
        for mode in ("auto", "delta", "changelog"):
            for system in (None, "audit_log", "binlog"):
                seen += assert_equal(
                    oracle, name, system, incremental_between=between, incremental_between_scan_mode=mode
                )
    for system in ("audit_log", "binlog"):
        seen += assert_equal(oracle, name, system)
    assert seen > 100


@pytest.mark.parametrize("engine", [name for name in ENGINES if "partial" not in name])
def test_differences_are_those_of_java(oracle: Any, engine: str) -> None:
    name = changed_table(oracle, options=ENGINES[engine])
    latest = max(oracle.snapshots(name))
    diff = {"incremental_between_scan_mode": "diff"}
    seen = 0
    for start, end in itertools.combinations(range(1, latest + 1), 2):
        for system in (None, "audit_log"):
            seen += assert_equal(oracle, name, system, incremental_between=f"{start},{end}", **diff)
    for first, second in (("first", "second"), ("first", "third"), ("second", "third"), ("third", "third")):
        for system in (None, "audit_log"):
            seen += assert_equal(oracle, name, system, incremental_between=f"{first},{second}")
    assert seen > 100
