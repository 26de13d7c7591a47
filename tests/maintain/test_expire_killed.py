"""Expiry, orphan cleaning and purge may end at any point: all stays readable, and a second run finishes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.expire.snapshots import expire_all_changelogs, expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.spec.manifest import FileSource
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files
from tests.support.killing import ended_by_error, ended_by_exit, link_copy

EVERYTHING = 2**62


def expire(table: FileStoreTable) -> None:
    expire_snapshots(table, retain_latest_only())


def expire_all(table: FileStoreTable) -> None:
    expire(table)
    expire_all_changelogs(table)


def clean(table: FileStoreTable) -> None:
    remove_files_before(table, EVERYTHING)


def delete_tag(table: FileStoreTable) -> None:
    tags.delete_tag(table, "three", ignore_if_missing=True)


def drop_partitions(table: FileStoreTable) -> None:
    expire_partitions(table.with_options({"partition.expiration-time": "1 d"}))


def history(path: Path, rounds: int = 3, **options: str) -> FileStoreTable:
    """Key table: writes, compactions with hash index files, a tag of an old snapshot and a branch from it."""
    table = make_table(path, primary_key=["k"], bucket="-1", **options)
    previous = None
    for number in range(1, rounds + 1):
        new = data_file(table, {number: f"v{number}"}, sequence=number)
        commit(table, [message(table, new, hashes=[number])])
        result = data_file(table, {n: f"v{n}" for n in range(1, number + 1)}, level=5, source=FileSource.COMPACT)
        before = (new,) if previous is None else (previous, new)
        commit(table, [message(table, compact_before=before, compact_after=(result,))])
        previous = result
    tags.create_tag(table, "three", snapshot_id=min(3, 2 * rounds))
    tags.create_tag(table, "latest")
    branches.create_branch(table, "b", tag="three")
    return table


def readable(table: FileStoreTable, expected: dict[str, dict[int, str]]) -> None:
    """Check the rows of the latest snapshot, of every tag that is there, and of the branch."""
    ids = table.snapshots.ids()
    assert ids
    assert ids[-1] == 6
    assert rows(table) == expected["snapshot 6"]
    for name in table.tags.names():
        assert rows(table, tag=name) == expected[f"tag {name}"]
    if "b" in table.branches.names():
        assert rows(load_table(table.path, branch="b")) == expected["tag three"]


def shown(table: FileStoreTable) -> dict[str, dict[int, str]]:
    found = {f"snapshot {number}": rows(table, snapshot_id=number) for number in table.snapshots.ids()}
    return found | {f"tag {name}": rows(table, tag=name) for name in table.tags.names()}


CASES = {
    "expire": (expire, {}, ended_by_error),
    "expire with changelogs": (expire_all, {"changelog__num_retained__min": "50"}, ended_by_exit),
    "expire with changelogs, errors": (expire_all, {"changelog__num_retained__min": "50"}, ended_by_error),
    "delete tag": (delete_tag, {}, ended_by_error),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_second_run_finishes(tmp_path: Path, case: str) -> None:
    operation, options, ended = CASES[case]
    table = history(tmp_path / "t", **options)
    expected = shown(table)
    if operation is delete_tag:
        branches.delete_branch(table, "b")
        expire(table)
    whole = load_table(str(link_copy(table.path, tmp_path / "whole")))
    operation(whole)
    wanted = table_files(whole)
    assert len(wanted) < len(table_files(table))
    for copy in ended(table.path, operation, tmp_path):
        readable(copy, expected)
        operation(copy)
        if operation is delete_tag:
            clean(copy)
        assert table_files(copy) == wanted
    readable(whole, expected)


@pytest.mark.parametrize("ended", [ended_by_error, ended_by_exit])
def test_cleaning_again(tmp_path: Path, ended: Callable[..., Iterator[FileStoreTable]]) -> None:
    table = history(tmp_path / "t")
    expected = shown(table)
    for name in ("bucket-0/data-left.parquet", "manifest/manifest-left", "snapshot/.snapshot-9.left.tmp"):
        (tmp_path / "t" / name).write_bytes(b"left")
    wanted = {name for name in table_files(table) if "left" not in name}
    for copy in ended(table.path, clean, tmp_path):
        clean(copy)
        assert table_files(copy) == wanted
    readable(table, expected)


@pytest.mark.thorough
def test_purging_again(tmp_path: Path) -> None:
    table = history(tmp_path / "t", rounds=1)
    for copy in ended_by_error(table.path, purge_files, tmp_path):
        assert rows(copy) in ({1: "v1"}, {})
        purge_files(copy)
        assert {name.rpartition("/")[0] for name in table_files(copy)} == {"schema", "snapshot", "manifest"}
        assert len(table_files(copy, "snapshot")) == 3
        assert rows(copy) == {}


@pytest.mark.thorough
def test_partitions_again(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1")
    for number, day in enumerate(("2020-01-01", "2020-01-02", "9999-01-01")):
        commit(table, [message(table, data_file(table, {number: "v"}, partition=day), partition=day)])
    for copy in ended_by_error(table.path, drop_partitions, tmp_path):
        assert rows(copy) in ({0: "v", 1: "v", 2: "v"}, {2: "v"})
        drop_partitions(copy)
        assert rows(copy) == {2: "v"}


def test_with_a_concurrent_writer(tmp_path: Path) -> None:
    """Commits and expiries in turn, and files that are not committed yet: cleaning leaves what is young."""
    table = make_table(tmp_path / "t", bucket="-1")
    pending = data_file(table, {100: "late"})
    for number in range(6):
        commit(table, [message(table, data_file(table, {number: "v"}))], overwrite=OverwriteSpec.static())
        expire(table)
        remove_files_before(table, int((time.time() - 3600) * 1000))
    commit(table, [message(table, pending)])
    assert rows(table) == {5: "v", 100: "late"}
    hour_ago = time.time() - 3600
    stale = data_file(table, {7: "stale"})
    stale_path = Path(table.paths.bucket_dir("", 0)) / stale.file_name
    os.utime(stale_path, (hour_ago, hour_ago))
    remove_files_before(table, int((time.time() - 600) * 1000))
    assert not stale_path.exists()
    assert rows(table) == {5: "v", 100: "late"}
