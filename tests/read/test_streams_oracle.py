"""Java and we stream the same random histories that Java wrote: the same rows with the same kinds of each snapshot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from paimon_spark.read.stream_offset import ReadLimits
from tests.support.seeds import chance
from tests.support.streams import batches_of, scan_of

pytestmark = pytest.mark.oracle

KINDS = ("+I", "-U", "+U", "-D")
TABLES: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "deduplicate": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "overwritten": {"streaming-read-overwrite": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "partial-update": {"merge-engine": "partial-update"},
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_same_streams(oracle: Any, kind: str) -> None:
    rng, keyed = chance("streams oracle", kind), kind != "append"
    name = oracle.fresh_name("streams")
    options = {"bucket": "2", "write-only": "true", "num-sorted-run.compaction-trigger": "3", **TABLES[kind]}
    oracle.create(name, [("k", "INT NOT NULL"), ("v", "STRING")], pk=["k"] if keyed else [], options=options)
    deletes = keyed and "merge-engine" not in options
    for turn in range(8):
        rows = [(rng.randrange(10), f"{turn}{rng.randrange(99)}") for _ in range(rng.randrange(1, 6))]
        kinds = [rng.choice(["+I", "+I", "+U", "-D"]) if deletes else "+I" for _ in rows]
        compacts = rng.random() < 0.5 or turn == 3  # once at least: `lookup` shows nothing else
        if turn and keyed and compacts:
            oracle.compact(name, full=rng.random() < 0.7, options={"write-only": "false"})
        if turn == 5 and kind in ("append", "deduplicate", "overwritten"):
            oracle.write(name, rows, overwrite={})
        else:
            oracle.write(name, rows, kinds=kinds)
    path = oracle.location(name).removeprefix("file:")
    compared = 0
    for given in (
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"},
        {"scan.mode": "latest-full"},
        {"scan.mode": "compacted-full"},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"},
    ):
        begin = scan_of(path, given).initial()
        state = begin.snapshot_id if begin.full else None
        wanted = Counter(_shown(row, kind_, snap, state) for snap, kind_, row in oracle.stream(name, given))
        limits = rng.choice([None, ReadLimits(max_files=1), ReadLimits(max_rows=3)])
        rows_found = [row for batch in batches_of(path, given, limits=limits, kinds=True) for row in batch.rows]
        found = Counter(_shown(row, row["rowkind"], row["_snapshot"], state) for row in rows_found)
        for gone in [key for key in found if key[0] == state and key[1] == "-D"]:
            del found[gone]  # the audit log of a state shows deletes, rows of the table do not
        if kind == "overwritten":  # Java's splits of an overwrite do not say their snapshot
            wanted, found = (Counter(key[1:] for key in side.elements()) for side in (wanted, found))
        assert found == wanted, given
        compared += sum(wanted.values())
    assert compared


def _shown(row: dict[str, Any], kind: str, snapshot: int | None, state: int | None) -> tuple[Any, ...]:
    """A row to be compared; those of a state are +I whatever their files say."""
    shown = "+I" if snapshot == state and state is not None and kind == "+U" else kind
    return snapshot, shown, row["k"], row["v"]
