"""Deleting a tag takes the files that Java takes, and Java reads what rollbacks leave."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.table.table import load_table

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]


@pytest.fixture
def table(oracle: Any, tmp_path: Path) -> str:
    """Written and expired by Java: the last two snapshots live, tags hold the latest snapshot after each write."""
    name = f"tags.{tmp_path.name}"
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1", "num-sorted-run.compaction-trigger": "2"})
    for number in range(1, 8):
        oracle.write(name, [{"k": number % 3, "v": f"v{number}"}])
        latest = oracle.latest(name)
        oracle.create_tag(name, f"t{latest}")
    oracle.expire_snapshots(name, retain_max=2, retain_min=1)
    return name


def files(path: str | Path) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*") if file.is_file()}


def test_the_same_files_go_as_in_java(oracle: Any, table: str, tmp_path: Path) -> None:
    directory = oracle.location(table).removeprefix("file:")
    before = files(directory)
    for name in load_table(directory).tags.names():
        ours = tmp_path / name
        shutil.copytree(directory, ours)
        oracle.delete_tag(table, name)
        tags.delete_tag(load_table(str(ours)), name)
        assert files(ours) == files(directory), name
        shutil.rmtree(ours)
    assert {path.partition("/")[0] for path in before - files(directory)} >= {"bucket-0", "manifest", "tag"}


def test_java_reads_and_writes_on_after_a_rollback(oracle: Any, table: str) -> None:
    directory = oracle.location(table).removeprefix("file:")
    earliest = load_table(directory).tags.names()[0]
    expected = sorted(map(str, oracle.rows(table, options={"scan.tag-name": earliest})))
    done = rollback.rollback_to_tag(load_table(directory), earliest)
    assert sorted(map(str, oracle.rows(table))) == expected
    assert oracle.latest(table) == done.current_snapshot_id
    oracle.write(table, [{"k": 99, "v": "after"}])
    assert len(oracle.rows(table)) == len(expected) + 1
    assert load_table(directory).snapshots.earliest_id() == done.current_snapshot_id


def test_success_files_are_those_of_java(oracle: Any, tmp_path: Path) -> None:
    name = f"tags.{tmp_path.name}"
    oracle.create(name, COLUMNS, options={"bucket": "-1", "tag.create-success-file": "true"})
    oracle.write(name, [{"k": 1, "v": "x"}])
    path = oracle.location(name).removeprefix("file:")
    oracle.create_tag(name, "java")
    tags.create_tag(load_table(path), "ours")
    reported = {file.name: file for file in Path(path, "tag", "tag-success-file").iterdir()}
    assert set(reported) == {"java_SUCCESS", "ours_SUCCESS"}
    texts = [re.sub(r"\d+", "0", file.read_text()) for file in reported.values()]
    assert texts[0] == texts[1]
    assert sorted(row["tag_name"] for row in oracle.read(f"{name}$tags").to_pylist()) == ["java", "ours"]
    oracle.delete_tag(name, "ours")
    assert [file.name for file in Path(path, "tag", "tag-success-file").iterdir()] == ["java_SUCCESS"]
    tags.delete_tag(load_table(path), "java")
    assert list(Path(path, "tag", "tag-success-file").iterdir()) == []
