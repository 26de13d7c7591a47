"""Commits that change no file, alongside Java's: merged manifests, statistics."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.metadata_commit import commit_statistics, compact_manifests
from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.statistics import AnalyzedColumn, Statistics
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import make_table

pytestmark = pytest.mark.oracle
COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("p", "STRING NOT NULL")]


def written(oracle: Any, **options: str) -> str:
    """A table with a manifest of each of its commits, some of them with deleted files."""
    name = oracle.fresh_name("metadata")
    given = {"bucket": "1", "write-only": "true", **{key.replace("_", "-"): value for key, value in options.items()}}
    oracle.create(name, COLUMNS, pk=["k", "p"], partition=["p"], options=given)
    for version in range(4):
        oracle.write(name, [(k, f"v{version}", f"p{k % 3}") for k in range(version, 9)])
    oracle.write(name, [(0, "over", "p0")], overwrite={"p": "p0"})
    return str(name)


def path_of(oracle: Any, name: str) -> str:
    return str(Path(oracle.warehouse) / name.replace(".", ".db/", 1))


def manifests(table: FileStoreTable) -> list[tuple[int, int, int]]:
    """Added files, deleted files and entries of each base manifest of the latest snapshot."""
    latest = table.snapshots.latest()
    assert latest is not None
    delta = {meta.file_name for meta in table.manifests.delta_manifests(latest)}
    found = [meta for meta in table.manifests.data_manifests(latest) if meta.file_name not in delta]
    return [(m.num_added_files, m.num_deleted_files, len(table.manifests.read_manifest(m))) for m in found]


def test_manifests_are_merged_as_java_merges_them(oracle: Any, tmp_path: Path) -> None:
    name = written(oracle)
    rows = oracle.rows(name)
    ours = str(tmp_path / "wh" / "db.db" / "t")
    shutil.copytree(path_of(oracle, name), ours)
    table = load_table(ours)
    before = table.snapshots.latest()
    assert before is not None
    assert len(manifests(table)) == 4
    assert compact_manifests(table, dry_run=True) is None
    assert compact_manifests(table) == before.id + 1
    oracle.compact_manifests(name)
    theirs = load_table(path_of(oracle, name))
    assert manifests(table) == manifests(theirs)
    assert len(manifests(table)) == 1
    mine, other = table.snapshots.latest(), theirs.snapshots.latest()
    assert mine is not None
    assert other is not None
    kept = (
        "commit_kind",
        "commit_identifier",
        "schema_id",
        "total_record_count",
        "delta_record_count",
        "changelog_record_count",
        "watermark",
        "statistics",
        "index_manifest",
        "properties",
        "changelog_manifest_list",
    )
    assert {key: getattr(mine, key) for key in kept} == {key: getattr(other, key) for key in kept}
    assert mine.commit_kind is CommitKind.COMPACT
    assert not table.manifests.delta_manifests(mine)
    assert oracle.rows(ours) == rows
    assert compact_manifests(table) is None, "there is nothing left to merge"
    assert {path.name for path in Path(ours, "manifest").iterdir()} >= {mine.base_manifest_list}
    entries = [e for m in table.manifests.data_manifests(mine) for e in table.manifests.read_manifest(m)]
    assert {entry.kind for entry in entries} == {FileKind.ADD}


def test_nothing_is_left_where_nothing_is_merged(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    assert compact_manifests(table) is None
    assert not (tmp_path / "t" / "manifest").exists()


def test_java_reads_our_statistics_and_later_commits_keep_them(oracle: Any) -> None:
    name = written(oracle)
    path = path_of(oracle, name)
    table = load_table(path)
    latest = table.snapshots.latest()
    assert latest is not None
    columns = {
        "k": AnalyzedColumn(col_id=0, distinct_count=9, min="0", max="8", null_count=0, avg_len=4, max_len=4),
        "v": AnalyzedColumn(col_id=1, distinct_count=3, null_count=0, avg_len=2, max_len=4),
    }
    found = Statistics(
        snapshot_id=latest.id, schema_id=0, merged_record_count=9, merged_record_size=1000, col_stats=columns
    )
    assert commit_statistics(table, found) == latest.id + 1
    analyzed = table.snapshots.latest()
    assert analyzed is not None
    assert analyzed.commit_kind is CommitKind.ANALYZE
    assert analyzed.delta_record_count == 0
    assert analyzed.total_record_count == latest.total_record_count
    (row,) = oracle.read(f"{name}$statistics").to_pylist()
    assert (row["snapshot_id"], row["mergedRecordCount"], row["mergedRecordSize"]) == (latest.id, 9, 1000)
    assert '"distinctCount" : 9' in row["colstat"].replace('":', '" :').replace("  ", " ")
    oracle.write(name, [(50, "more", "p1")])
    assert load_table(path).snapshots.latest().statistics == analyzed.statistics  # type: ignore[union-attr]


def test_statistics_that_cannot_be_committed_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")

    def refuse(*_: Any) -> None:
        raise CommitConflictError("rivals won")

    monkeypatch.setattr("paimon_spark.commit.metadata_commit.commit_part", refuse)
    with pytest.raises(CommitConflictError):
        commit_statistics(table, Statistics(snapshot_id=1, schema_id=0))
    assert not list((tmp_path / "t" / "statistics").iterdir())
