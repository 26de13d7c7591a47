"""Compaction with lookup by us and by Java: the same files, changelog and rows; each goes on with the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.maintain.test_compact_oracle import GROUPS, Twins, facts, ours, theirs
from tests.support.golden import row_multiset
from tests.support.seeds import chance
from tests.write.test_changelog_oracle import FORMATS, changelog_facts, changes, shape

pytestmark = pytest.mark.oracle

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "g"},
    "partial_update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "groups": GROUPS,
    "removing_group": {**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
}
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "last_non_null_value",
    "fields.b.ignore-retract": "true",
    "fields.g.aggregate-function": "max",
    "fields.g.ignore-retract": "true",
    "fields.default-aggregate-function": "last_value",
}
ENGINES["aggregation"] = AGGREGATION
LOOKUPS: dict[str, dict[str, str]] = {
    "changelog": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "both": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "forced": {"force-lookup": "true"},
}
LEVELS = {"num-sorted-run.compaction-trigger": "4", "num-levels": "4"}
"""So that files' sizes, which differ a little from Java's, decide nothing after the first pick."""
CASES = [
    *((engine, lookup) for engine in ENGINES for lookup in LOOKUPS),
    ("first_row", "forced"),
    ("first_row", "changelog"),
]
ENGINES["first_row"] = {"merge-engine": "first-row"}
KINDS = {"groups": "+I,+U,-U", "first_row": "+I,+I,+U"}


@pytest.mark.parametrize(("engine", "lookup"), CASES)
@pytest.mark.parametrize("seed", range(2))
def test_lookup_compaction_makes_what_java_makes(
    oracle: Any, tmp_path: Path, engine: str, lookup: str, seed: int
) -> None:
    """Runs of many sizes on several levels; both compact the files that Java has."""
    rng = chance("lookup", engine, lookup, seed)
    options = {**LOOKUPS[lookup], **ENGINES[engine], **LEVELS, "file.format": rng.choice(FORMATS)}
    if rng.random() < 0.5:
        options["changelog-producer.row-deduplicate"] = "true"
        options |= rng.choice([{}, {"changelog-producer.row-deduplicate-ignore-fields": "a,g"}])
    if rng.random() < 0.5:
        options["target-file-size"] = rng.choice(["1 kb", "100 b"])
    twins = Twins(oracle, tmp_path, options, partitioned=rng.random() < 0.3)
    kinds = KINDS.get(engine, "+I,+I,+U,-D")
    for step in range(5):
        for _ in range(rng.randrange(1, 3)):
            twins.write(rng, rows=rng.choice([1, 3, 40]), keys=60, kinds=kinds)
        java, mine = twins.both(full=step == 3)
        latest = mine.snapshots.latest()
        assert latest is not None
        assert shape(latest) == shape(java.snapshots.get(latest.id))
        assert latest.id == java.snapshots.latest_id()
        assert facts(mine) == facts(java)
        assert changelog_facts(mine, latest.id) == changelog_facts(java, latest.id)
        assert theirs(oracle, mine) == ours(mine) == theirs(oracle, java)
    if "changelog-producer" not in options:
        return
    between = {"incremental-between": f"0,{latest.id}"}
    want = row_multiset(oracle.read(f"{java.path}$audit_log", options=between))
    assert row_multiset(oracle.read(f"{mine.path}$audit_log", options=between)) == want
    assert row_multiset(changes(mine, "audit_log", **between)) == want
