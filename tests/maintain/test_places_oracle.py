"""Tables whose data Java has put elsewhere: legal ones are read, expired and cleaned, and nothing beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import load_table
from tests.support.plans import plan_of

LONG_AGO = 1_500_000_000


def ids(path: str) -> list[int]:
    plan = plan_of(load_table(path))
    batches = (batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields, plan.residual))
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


def places(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {
        "ext": {
            "data-file.external-paths": f"file:{tmp_path}/e1/ext,file://{tmp_path}/e2/ext",
            "data-file.external-paths.strategy": "round-robin",
        },
        "entropy": {
            "data-file.external-paths": f"file:{tmp_path}/e3/entropy",
            "data-file.external-paths.strategy": "entropy-inject",
        },
        "deep": {"data-file.path-directory": "a/b"},
        "dots": {"data-file.path-directory": "a/../b//c/"},
        "prefix": {"data-file.prefix": ".x y%2F-"},
    }


@pytest.mark.parametrize("kind", ["ext", "entropy", "deep", "dots", "prefix"])
def test_tables_of_java_with_data_elsewhere(oracle: Any, tmp_path: Path, kind: str) -> None:
    name = f"db.places_{kind}"
    oracle.create(name, [("id", "INT NOT NULL"), ("p", "STRING")], partition=["p"], options=places(tmp_path)[kind])
    for number in range(3):
        oracle.write(name, [(number, "x y")], overwrite={} if number else None)
    path = str(Path(oracle.warehouse, "db.db", f"places_{kind}"))
    roots = (Path(path), tmp_path)
    assert ids(path) == [2]
    for root in roots:
        for file in root.rglob("*"):
            os.utime(file, (LONG_AGO, LONG_AGO))
    table = load_table(path)
    assert remove_orphan_files(table).file_count == 0
    assert expire_snapshots(table, retain_latest_only()) == 2
    assert sum(len(list(root.rglob("*.parquet"))) for root in roots) == 1
    assert ids(path) == [2]
    assert oracle.rows(name) == [(2, "x y")]
