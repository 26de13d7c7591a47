"""A write, a commit or a compaction whose snapshot expires while its manifests are read looks at the latest again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.snapshot_builder import SnapshotBuilder
from paimon_spark.errors import ExpiredFileError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.manifest_store import ManifestStore
from paimon_spark.table.table import FileStoreTable
from tests.support.store_tables import FIELDS, insert, rows_of

_KEEP = Retention(1, 1, timedelta(0), 10)
KINDS = {"fixed": {"bucket": "1"}, "dynamic": {"bucket": "-1"}}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> FileStoreTable:
    catalog = FilesystemCatalog(str(tmp_path), {})
    catalog.create_database("d")
    table = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], KINDS[request.param]))
    insert(table, {1: 1})
    insert(table, {2: 1})
    return table


def others_meanwhile(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, table: FileStoreTable, *, times: int = 1
) -> list[Any]:
    """Let another writer commit, and an expiry delete the snapshots before, at the first calls of a method."""
    plain: Callable[..., Any] = getattr(owner, name)
    calls: list[Any] = []

    def late(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if len(calls) <= times:
            with monkeypatch.context() as alone:
                alone.setattr(owner, name, plain)
                insert(table, {10 + len(calls): 1})
                assert expire_snapshots(table, _KEEP)
        return plain(*arguments, **named)

    monkeypatch.setattr(owner, name, late)
    return calls


def test_a_write_is_planned_on_a_later_snapshot(monkeypatch: pytest.MonkeyPatch, table: FileStoreTable) -> None:
    with monkeypatch.context() as patched:
        calls = others_meanwhile(patched, ManifestStore, "live_columns", table)
        insert(table, {3: 1})
    assert len(calls) > 1
    assert rows_of(table) == dict.fromkeys([1, 2, 3, 11], 1)


def test_a_commit_follows_a_later_snapshot(monkeypatch: pytest.MonkeyPatch, table: FileStoreTable) -> None:
    with monkeypatch.context() as patched:
        calls = others_meanwhile(patched, SnapshotBuilder, "next_snapshot", table, times=2)
        insert(table, {3: 1})
    assert len(calls) == 3
    assert rows_of(table) == dict.fromkeys([1, 2, 3, 11, 12], 1)
    expire_snapshots(table, _KEEP)
    named = {
        meta.file_name
        for snapshot in [table.snapshots.latest()]
        if snapshot is not None
        for meta in table.manifests.data_manifests(snapshot)
    }
    there = {Path(entry).name for entry in Path(table.paths.manifest_dir).glob("manifest-[!l]*")}
    assert named == there  # nothing is left of the attempts


def test_a_compaction_reads_a_later_snapshot(monkeypatch: pytest.MonkeyPatch, table: FileStoreTable) -> None:
    with monkeypatch.context() as patched:
        others_meanwhile(patched, CompactScope, "bucket_files", table)
        compact(table)
    assert rows_of(table) == dict.fromkeys([1, 2, 11], 1)


def test_a_damaged_latest_snapshot_is_an_error(table: FileStoreTable) -> None:
    latest = table.snapshots.latest()
    assert latest is not None
    Path(table.paths.manifest_path(latest.base_manifest_list)).unlink()
    for work in (lambda: insert(table, {3: 1}), lambda: compact(table)):
        with pytest.raises(ExpiredFileError, match="missing"):
            work()
