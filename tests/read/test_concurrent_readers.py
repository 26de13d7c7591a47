"""Readers and streams next to a writer, compactions, expiry and orphan removal: a committed state or a clear error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paimon_spark.table.table import load_table
from tests.support.commits import make_table
from tests.support.plans import plan_of
from tests.support.racing import race
from tests.support.readers import KEYS, check_state, read_concurrently

pytestmark = pytest.mark.thorough

COMMITS = 12
KINDS: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "append-rows": {"bucket": "-1", "row-tracking.enabled": "true"},
    "deduplicate": {"bucket": "2", "changelog-producer": "input"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true", "changelog-producer": "input"},
    "partial-update": {"bucket": "2", "merge-engine": "partial-update", "changelog-producer": "input"},
    "first-row": {"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"},
    "dynamic": {"bucket": "-1", "changelog-producer": "input"},
}
KEYED = ("deduplicate", "vectors", "partial-update", "first-row", "dynamic")


@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_committed_states(tmp_path: Path, kind: str) -> None:
    options = {"write-only": "true", "source.split.target-size": "1 b", **KINDS[kind]}
    table = make_table(tmp_path / kind, primary_key=["k"] if kind in KEYED else [], **options)
    deeds = Counter(deed.kind for deed in race(read_concurrently, table.path, 5, COMMITS))
    assert deeds["write"] == COMMITS
    assert all(deeds[kind] for kind in ("compact", "expire", "read")), deeds
    table = load_table(table.path)
    plan = plan_of(table)
    read = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    rows = [(row["k"], row["v"]) for batch in read for row in batch.to_pylist()]
    check_state(table, rows)
    assert {value for _, value in rows} >= ({f"{COMMITS:09}"} if not table.options.batch_scan_skips_level_0 else set())
    assert len(rows) == (KEYS if kind in KEYED and kind != "first-row" else len({v for _, v in rows}) * KEYS)
