"""Files that are gone, snapshots behind a gap, marks of partitions: alongside Java, on every kind of table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import mark_partitions_done
from paimon_spark.maintain.files.repairs import remove_unexisting_files, repair_earliest_snapshot
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX
from paimon_spark.storage.local_files import local_path
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message

KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keys": {"pk": ["k", "p"], "options": {"bucket": "2", "write-only": "true"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
}


def files_of(table: FileStoreTable) -> list[Path]:
    latest = table.snapshots.latest()
    assert latest is not None
    live = table.manifests.live_columns(latest)
    return [Path(local_path(path)) for path in DataLayout.of(table.schema).data_file_paths(table.path, live)]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_gone(kind: str, oracle: Any) -> None:
    name = oracle.fresh_name("gone")
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("p", "STRING NOT NULL")]
    oracle.create(name, columns, partition=["p"], **KINDS[kind])
    for first in (0, 10):
        oracle.write(name, [(k, f"v{k}", f"p{k % 2}") for k in range(first, first + 10)])
    table = load_table(oracle.location(name))
    if kind == "vectors":
        for file in files_of(table):
            oracle.delete_positions(name, {file.name: [0]})
    before = {tuple(row.values()) for row in oracle.read(name).to_pylist()}
    assert remove_unexisting_files(table) == []
    gone = files_of(table)[0]
    moved = gone.rename(gone.parent.parent / "aside")
    assert remove_unexisting_files(table, dry_run=True) == [str(gone)]
    reported = table.snapshots.latest_id()
    assert [Path(path).name for path in remove_unexisting_files(table)] == [gone.name]
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == (reported or 0) + 1
    assert gone.name not in {file.name for file in files_of(table)}
    left = {tuple(row.values()) for row in oracle.read(name).to_pylist()}
    assert left < before
    assert left
    marked = {
        meta.data_file_name
        for entry in table.manifests.index_entries(latest)
        if entry.index_type == DELETION_VECTORS_INDEX
        for meta in entry.deletion_vectors or ()
    }
    assert gone.name not in marked
    assert len(marked) == (3 if kind == "vectors" else 0)
    oracle.write(name, [(100, "more", "p0")])
    assert remove_unexisting_files(table) == []
    moved.unlink()


def test_a_store_that_does_not_answer_loses_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path / "t")
    commit(table, [message(table, data_file(table, {1: "a"}))])
    monkeypatch.setattr(type(table.file_io), "list_names", _refuse)
    with pytest.raises(PermissionError):
        remove_unexisting_files(table)
    with pytest.raises(OptionError, match="parallelism must be at least 1"):
        remove_unexisting_files(table, parallelism=0)


def _refuse(*_: Any) -> None:
    raise PermissionError("not yours")


@pytest.mark.oracle
def test_the_earliest_snapshot_is_moved_behind_a_gap(oracle: Any) -> None:
    name = oracle.fresh_name("earliest")
    oracle.create(name, [("k", "INT")])
    for k in range(5):
        oracle.write(name, [(k,)])
    path = Path(oracle.location(name))
    table = load_table(str(path))
    for wrong, words in ((0, "must not be earlier"), (6, "must not be later"), (3, "not immediately follow")):
        with pytest.raises(OptionError, match=words):
            repair_earliest_snapshot(table, wrong)
    (path / "snapshot" / "snapshot-3").unlink()
    with pytest.raises(OptionError, match="Snapshot 3 does not exist"):
        repair_earliest_snapshot(table, 2)
    assert repair_earliest_snapshot(table, 4) == 1
    assert (path / "snapshot" / "EARLIEST").read_text() == "4"
    assert table.snapshots.earliest_id() == 4
    assert len(oracle.read(name, options={"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"})) == 4
    assert repair_earliest_snapshot(table, 4) == 4
    with pytest.raises(OptionError, match="empty table"):
        repair_earliest_snapshot(make_table(path.parent / "none_yet"), 1)


def test_partitions_are_marked(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["p", "q"])
    paths = mark_partitions_done(table, [{"q": "x=y", "p": "a/.."}, {"p": "b"}])
    assert [path.removeprefix(f"{table.path}/") for path in paths] == ["p=a%2F../q=x%3Dy/_SUCCESS", "p=b/_SUCCESS"]
    first = json.loads(Path(paths[0]).read_text())
    assert list(first) == ["creationTime", "modificationTime"]
    Path(paths[0]).write_text('{"creationTime" : 5, "modificationTime" : 6}')
    mark_partitions_done(table, [{"p": "a/..", "q": "x=y"}])
    again = json.loads(Path(paths[0]).read_text())
    assert again["creationTime"] == 5
    assert again["modificationTime"] >= first["modificationTime"]
    Path(paths[0]).write_text("{}")
    with pytest.raises(CorruptTableError, match="success file"):
        mark_partitions_done(table, [{"p": "a/..", "q": "x=y"}])
    with pytest.raises(OptionError, match=r"Partition keys \[z\] are invalid"):
        mark_partitions_done(table, [{"z": "1"}])
    for action in ("done-partition", "mark-event", "custom", "success-file,http-report", "what"):  # a directory
        with pytest.raises(UnsupportedError, match=f"'{action.split(',')[-1]}' is not supported"):
            mark_partitions_done(table.with_options({"partition.mark-done-action": action}), [{"p": "a"}])
