"""Writes by Java and by us that compact what they made due: the same files after each of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.automatic_compaction import KEEP, write
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.seeds import chance

pytestmark = pytest.mark.oracle

ALIKE = {"file.format": "avro", "file.compression": "null", **KEEP}
"""Sizes of files decide: those of Avro are the same by Java and by us."""
TABLES: dict[str, dict[str, str]] = {
    "few runs": {"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "20"},
    "size ratio": {"num-sorted-run.compaction-trigger": "2", "compaction.max-size-amplification-percent": "100000"},
    "file number": {
        "num-sorted-run.compaction-trigger": "4",
        "num-levels": "6",
        "compaction.max-size-amplification-percent": "100000",
        "compaction.size-ratio": "20",
    },
    "level 0": {"compaction.force-up-level-0": "true"},
    "thresholds": {
        "compaction.total-size-threshold": "2 kb",
        "compaction.incremental-size-threshold": "2 kb",
        "compaction.size-ratio": "20",
    },
    "append": {"compaction.min.file-num": "3", "bucket-key": "k"},
}
EVEN = ("few runs", "file number", "thresholds")
"""Writes of one size: where newer runs are larger, Java 1.4.2 takes along more than 2.1 does."""


@pytest.mark.parametrize("kind", TABLES)
def test_a_write_compacts_what_java_compacts(oracle: Any, tmp_path: Path, kind: str) -> None:
    """Snapshots by kind and files by level and rows are equal after each write; either goes on with the other's."""
    rng = chance("automatic compaction", kind)
    keys = [] if kind == "append" else ["k"]
    table = make_table(tmp_path / "t0", primary_key=keys, bucket="1", **TABLES[kind], **ALIKE)
    model: dict[int, str] = {}
    for step in range(16):
        count = 40 if kind in EVEN else rng.choice([1, 40, 300])
        some = {key: f"{step}-{rng.randrange(9)}" for key in rng.sample(range(2000), count)}
        if not keys:
            some = {step * 1000 + number: text for number, text in enumerate(some.values())}
        model |= some
        twin = load_table(shutil.copytree(table.path, tmp_path / f"t{step + 1}").as_posix())
        oracle.write(table.path, list(some.items()))
        write(twin, some)
        assert history(twin) == history(table), step
        assert facts(twin) == facts(table), step
        table = rng.choice([table, twin])
    assert rows(table) == model
    assert dict(oracle.rows(table.path)) == model
    assert "COMPACT" in history(table)


def history(table: FileStoreTable) -> list[str]:
    table = load_table(table.path)
    return [table.snapshots.get(number).commit_kind.value for number in table.snapshots.ids()]


def facts(table: FileStoreTable) -> list[tuple[int, int, int]]:
    entries = table.manifests.live_entries(load_table(table.path).snapshots.latest())
    return sorted((e.file.level, e.file.row_count, e.file.max_sequence_number) for e in entries)
