"""Consumers: Java's files, moved, deleted by pattern, expired."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.table.consumer_store import ConsumerStore, clear_consumers, expire_consumers, reset_consumer
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    made = make_table(tmp_path / "t", bucket="-1")
    for number in (1, 2, 3):
        commit(made, [message(made, data_file(made, {number: "v"}))])
    return made


def store(table: FileStoreTable) -> ConsumerStore:
    return ConsumerStore(table.file_io, table.paths)


def test_moved_and_deleted(table: FileStoreTable) -> None:
    assert store(table).list() == {}
    assert store(table).min_next_snapshot() is None
    reset_consumer(table, "b", 3)
    reset_consumer(table, "a", 1)
    reset_consumer(table, "a", 2)
    assert store(table).list() == {"a": 2, "b": 3}
    assert store(table).min_next_snapshot() == 2
    path = Path(table.paths.consumer_dir) / "consumer-a"
    assert path.read_text() == '{\n  "nextSnapshot" : 2\n}'
    reset_consumer(table, "a")
    reset_consumer(table, "a")
    assert store(table).list() == {"b": 3}


def test_what_is_refused(table: FileStoreTable) -> None:
    with pytest.raises(SnapshotNotFoundError, match="snapshot 4 next, which does not exist: the snapshots are 1 to 3"):
        reset_consumer(table, "a", 4)
    with pytest.raises(PaimonError, match=r"Consumer id '\.\./a' is not allowed"):
        reset_consumer(table, "../a", 1)
    with pytest.raises(OptionError, match=r"'\(' is no regular expression"):
        clear_consumers(table, including="(")
    reset_consumer(table, "a", 1)
    path = Path(table.paths.consumer_dir) / "consumer-a"
    path.write_text("{}")
    with pytest.raises(CorruptTableError, match="consumer-a"):
        store(table).list()


def test_cleared_by_patterns(table: FileStoreTable) -> None:
    def fill() -> None:
        for name in ("job_1", "job_2", "other"):
            reset_consumer(table, name, 1)

    fill()
    assert clear_consumers(table, including="job_.*", excluding=".*2") == ["job_1"]
    assert clear_consumers(table, including="job") == [], "the whole id must match"
    assert clear_consumers(table, excluding="other") == ["job_2"]
    fill()
    assert clear_consumers(table, including=" ", excluding="") == ["job_1", "job_2", "other"]
    assert store(table).list() == {}


def test_expired_when_unchanged(table: FileStoreTable) -> None:
    reset_consumer(table, "old", 1)
    reset_consumer(table, "new", 1)
    os.utime(Path(table.paths.consumer_dir) / "consumer-old", (1_500_000_000, 1_500_000_000))
    assert expire_consumers(table, timedelta(days=1)) == ["old"]
    assert store(table).list() == {"new": 1}


def test_java_keeps_what_our_consumers_have_not_read(oracle: Any, tmp_path: Path) -> None:
    name = f"consumers.{tmp_path.name}"
    oracle.create(name, [("k", "INT NOT NULL"), ("v", "STRING")], pk=["k"], options={"bucket": "1"})
    for number in range(5):
        oracle.write(name, [{"k": number, "v": "v"}], options={"write-only": "true"})
    table = load_table(oracle.location(name).removeprefix("file:"))
    reset_consumer(table, "ours", 3)
    oracle.expire_snapshots(name, retain_max=1, retain_min=1)
    assert table.snapshots.ids() == [3, 4, 5]
    assert oracle.read(f"{name}$consumers").to_pylist() == [{"consumer_id": "ours", "next_snapshot_id": 3}]
