"""Expiry leaves the files that Java's leaves, with and without changelogs that live longer; Java reads the rest."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots, retain_latest_only
from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.table.table import load_table
from tests.support.history import rows, table_files

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]
CASES = {
    "plain": {},
    "input changelogs": {"changelog-producer": "input"},
    "hash index": {"bucket": "-1"},
    "long-lived": {"changelog.num-retained.min": "4", "changelog.num-retained.max": "5"},
    "long-lived input": {
        "changelog-producer": "input",
        "changelog.num-retained.min": "4",
        "changelog.num-retained.max": "5",
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_files_stay_as_in_java(oracle: Any, tmp_path: Path, case: str) -> None:
    """Java expires after its last write, we after the same write with ``write-only``."""
    name = f"expired.{tmp_path.name}"
    retained = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **CASES[case]}
    oracle.create(name, COLUMNS, pk=["k"], options={**options, "snapshot.num-retained.min": "100"})
    path = oracle.location(name).removeprefix("file:")
    for number in range(1, 9):
        oracle.write(path, [{"k": number % 3, "v": f"v{number}"}])
        if number == 3:
            oracle.create_tag(path, "three")
    ours = tmp_path / "ours"
    shutil.copytree(path, ours)
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    table = load_table(str(ours)).with_options(retained)
    latest = table.snapshots.latest()
    assert latest is not None
    after = maintenance(table)
    assert after is not None
    after(latest)
    kept = {**retained, "snapshot.ignore-empty-commit": "false"}
    oracle.expire_snapshots(path, retain_max=2, retain_min=2, options=kept)
    if "changelog" not in str(CASES[case]) or case == "input changelogs":
        assert table_files(table) == table_files(load_table(path))
    assert table.snapshots.ids() == [latest.id - 1, latest.id]
    expected = sorted(map(str, oracle.rows(path)))
    assert sorted(map(str, oracle.rows(str(ours)))) == expected
    tagged = {"scan.tag-name": "three"}
    expected = sorted(map(str, oracle.rows(path, options=tagged)))
    assert sorted(map(str, oracle.rows(str(ours), options=tagged))) == expected
    if case.startswith("long-lived"):
        ids = sorted(int(file.name.partition("-")[2]) for file in (ours / "changelog").glob("changelog-*"))
        assert ids == list(range(latest.id - 4, latest.id - 1)), "four or five with the snapshots, as the options say"
        stream = {**retained, "scan.mode": "from-snapshot", "scan.snapshot-id": str(ids[0])}
        changes = oracle.stream(str(whole), options=stream)
        assert changes
        assert oracle.stream(str(ours), options=stream) == changes


def test_java_reads_what_came_back(oracle: Any, tmp_path: Path) -> None:
    """A rollback as a new snapshot adds files again that snapshots deleted which expire."""
    name = f"back.{tmp_path.name}"
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1", "write-only": "true"})
    path = oracle.location(name).removeprefix("file:")
    for value in "abc":
        oracle.write(path, [{"k": 1, "v": value}], overwrite={})
    table = load_table(path)
    rollback.rollback_to_as_latest(table, snapshot_id=2)
    for tag in table.tags.names():
        tags.delete_tag(table, tag)
    assert expire_snapshots(table, Retention(1, 2, timedelta(days=1), 50)) == 2
    assert rows(table) == {1: "b"}
    assert oracle.read(path).to_pylist() == [{"k": 1, "v": "b"}]
    tags.create_tag(table, "back")
    oracle.write(path, [{"k": 1, "v": "d"}], overwrite={})
    assert expire_snapshots(table, retain_latest_only()) == 2
    assert rows(table, tag="back") == {1: "b"}
    assert oracle.read(path).to_pylist() == [{"k": 1, "v": "d"}]
