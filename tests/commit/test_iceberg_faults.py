"""Iceberg metadata that is missing, damaged or hostile, or not written: no commit fails, the next one repairs it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.table.iceberg_files import IcebergFiles
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.iceberg import (
    SCHEMA,
    assert_same,
    avro_files,
    iceberg,
    metadata_path,
    named_files,
    new_table,
    row,
    rows,
    store_table,
)


def test_metadata_of_a_timeline_that_was_rolled_back_is_not_gone_on_with(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"metadata.iceberg.previous-versions-max": 10})
    for number in range(3):
        table.append([row(number, "a")])
    directory = Path(table.path) / "metadata"
    old = {path.name: path.read_bytes() for path in directory.iterdir()}
    rollback_to_snapshot(store_table(table), 1)
    for name, data in old.items():  # as if whoever rolled back knew nothing of Iceberg
        (directory / name).write_bytes(data)
    table.append([row(7, "b")])
    assert assert_same(table) == [(0, "a", "x"), (7, "b", "x")]
    assert not (directory / "v3.metadata.json").exists()
    table.append([row(8, "c")])
    assert len(assert_same(table)) == 3


@pytest.mark.parametrize("at", ["manifest list", "metadata", "hint"])
def test_a_commit_stands_whatever_becomes_of_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    table = new_table(tmp_path)
    table.append([row(1, "a")])

    def fail(*_: object) -> None:
        raise OSError("the store is away")

    name = {"manifest list": "write_list", "metadata": "write_metadata", "hint": "write_hint"}[at]
    with monkeypatch.context() as patched:
        patched.setattr(IcebergFiles, name, fail)
        assert table.append([row(2, "b")]).snapshot_id == 2
    assert "readers of Iceberg do not see it" in caplog.text
    assert len(rows(table.scan().to_arrow())) == 2
    assert len(iceberg(table).scan().to_arrow()) == 1, "readers see the snapshot before, whole"
    table.append([row(3, "c")])
    assert len(assert_same(table)) == 3
    assert avro_files(table) == named_files(table)


def damage_json(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = next(directory.glob("v*.json"))
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "no metadata": lambda directory, _: next(directory.glob("v*.json")).unlink(),
    "cut": lambda directory, _: next(directory.glob("v*.json")).write_bytes(b"{"),
    "no directory": lambda directory, _: shutil.rmtree(directory),
    "no snapshots": lambda directory, _: damage_json(directory, lambda found: found.update(snapshots=[])),
    "a number": lambda directory, _: damage_json(directory, lambda found: found.update(schemas=5)),
    "no manifest": lambda directory, _: [path.unlink() for path in directory.glob("*-m*.avro")] and None,
    "manifest": lambda directory, _: [path.write_bytes(b"Obj") for path in directory.glob("*-m*.avro")] and None,
    "list": lambda directory, _: [path.write_bytes(b"Obj") for path in directory.glob("snap*")] and None,
    "no such number": lambda directory, _: damage_json(
        directory, lambda found: found.update({"last-column-id": 2**70})
    ),
    "another table": lambda directory, _: damage_json(directory, lambda found: found.update(location="/etc")),
    "list elsewhere": lambda directory, other: damage_json(
        directory, lambda found: found["snapshots"][-1].update({"manifest-list": str(other / "snap-1-x.avro")})
    ),
    "list above": lambda directory, _: damage_json(
        directory, lambda found: found["snapshots"][-1].update({"manifest-list": f"{directory}/../manifest/x"})
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_metadata_is_made_anew(tmp_path: Path, damage: str) -> None:
    table = new_table(tmp_path)
    table.append([row(1, "a"), row(2, "b")])
    other = tmp_path / "other"
    other.mkdir()
    (other / "keep").write_text("keep")
    DAMAGES[damage](Path(table.path) / "metadata", other)
    table.delete("k = 1")
    assert assert_same(table) == [(2, "b", "x")]
    assert [path.name for path in other.iterdir()] == ["keep"]
    assert avro_files(table) == named_files(table)


def test_manifests_that_lead_elsewhere_are_neither_read_nor_deleted(tmp_path: Path) -> None:
    kept = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "snapshot.time-retained": "1 ms"}
    table = new_table(tmp_path, **kept)
    table.append([row(1, "a")])
    store = IcebergFiles(store_table(table))
    location = json.loads(metadata_path(table).read_text())["snapshots"][-1]["manifest-list"]
    (manifest,) = store.manifests(location)
    outside = tmp_path / Path(manifest.path).name
    shutil.copy(manifest.path, outside)
    hostile = replace(manifest, path=str(outside))
    format_ = store._format
    Path(location).write_bytes(format_.encode_list([hostile]))
    table.append([row(2, "b")])
    table.delete("k = 1")
    assert assert_same(table) == [(2, "b", "x")]
    assert outside.exists()


def test_a_link_out_of_the_table_gets_no_metadata(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path)
    (tmp_path / "outside").mkdir()
    (Path(table.path) / "metadata").symlink_to(tmp_path / "outside")
    table.append([row(1, "a")])
    assert list((tmp_path / "outside").iterdir()) == []
    assert "symbolic link" in caplog.text


def test_writers_at_once_leave_metadata_of_the_last_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path, write_only=True)

    def write(writer: int) -> None:
        own = paimon_spark.open_table(table.path)
        for number in range(4):
            own.append([row(writer * 10 + number, "a")])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert len(assert_same(table)) == 12
    table.append([row(99, "last")])
    assert len(assert_same(table)) == 13


def test_a_batch_that_comes_again_writes_the_metadata_that_was_lost(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    opened = store_table(table)
    plan = plan_write(opened, data_schema=SCHEMA)
    batches = pa.Table.from_pylist([row(1, "a")], SCHEMA).to_batches()
    messages = [write_batches(plan, batches, 0)]
    assert commit(opened, messages, commit_user="stream", identifier=1) == 1
    shutil.rmtree(Path(table.path) / "metadata")
    assert commit(opened, messages, commit_user="stream", identifier=1) == 1
    assert len(assert_same(table)) == 1
