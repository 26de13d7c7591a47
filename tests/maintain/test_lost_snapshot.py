"""A snapshot file that is lost, or is another's: reads say so, commits and deletions stop until it is accept_lost."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, TableNotFoundError
from paimon_spark.maintain.expire.snapshots import expire_all_changelogs, expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.maintain.files.repairs import accept_lost
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table import snapshot_store
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.table.time_travel import resolve_snapshot
from paimon_spark.write.plan import plan_write
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files
from tests.support.plans import plan_of

LONG_AGO = 1_500_000_000


def add(table: FileStoreTable, number: int) -> int | None:
    return commit(table, [message(table, data_file(table, {number: "x"}))])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes a hint late here: the looks at it are as many, and follow each other at once."""
    monkeypatch.setattr(snapshot_store, "_HINT_PAUSES_SECONDS", (0.001,) * len(snapshot_store._HINT_PAUSES_SECONDS))


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Five snapshots with a row each, the last of which is lost; a branch and a tag of an expired snapshot."""
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 4):
        add(made, number)
    tags.create_tag(made, "first", snapshot_id=1)
    branches.create_branch(made, "br", tag="first")
    expire_snapshots(made, retain_latest_only())
    for number in (4, 5):
        add(made, number)
    lose(made, 5)
    return made


def lose(table: FileStoreTable, snapshot_id: int) -> None:
    Path(table.paths.snapshot_path(snapshot_id)).unlink()
    for path in Path(table.path).rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


STOPPED: dict[str, Callable[[FileStoreTable], Any]] = {
    "expire_snapshots": lambda table: expire_snapshots(table, retain_latest_only()),
    "remove_orphan_files": remove_orphan_files,
    "delete_tag": lambda table: tags.delete_tag(table, "first"),
    "delete_branch": lambda table: branches.delete_branch(table, "br"),
    "rollback": lambda table: rollback.rollback_to_snapshot(table, 3),
    "rollback_to_tag": lambda table: rollback.rollback_to_tag(table, "first"),
    "fast_forward": lambda table: fast_forward(table, "br"),
    "purge": purge_files,
    "commit": lambda table: add(table, 6),
    "overwrite": lambda table: commit(table, [], overwrite=OverwriteSpec.truncate()),
    "plan_write": lambda table: plan_write(table, data_schema=to_arrow_schema(table.schema.fields)),
    "rollback_to_as_latest": lambda table: rollback_to_as_latest(table, tag="first"),
}


@pytest.mark.parametrize("deed", STOPPED)
def test_nothing_is_deleted_or_committed_before_it_is_decided(table: FileStoreTable, deed: str) -> None:
    before = table_files(table)
    with pytest.raises(CorruptTableError, match=r"snapshot-5 is missing, although LATEST names it.*accept_lost_snap"):
        STOPPED[deed](table)
    assert {name for name in table_files(table) if not name.startswith("bucket-")} == {
        name for name in before if not name.startswith("bucket-")
    }
    assert before <= table_files(table)
    STOPPED[deed](accept_lost(table, accept_lost_snapshot=True))


def test_readers_go_on_by_the_listing_and_say_so(table: FileStoreTable, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert rows(table) == {1: "x", 2: "x", 3: "x", 4: "x"}
        assert rows(table) == {1: "x", 2: "x", 3: "x", 4: "x"}
    reported = [record for record in caplog.records if "snapshot-5 is missing" in record.getMessage()]
    assert len(reported) == 1
    assert "what was committed after snapshot 4 is not read" in reported[0].getMessage()


def test_what_is_decided_is_decided_for_all(table: FileStoreTable) -> None:
    accept_lost(table, accept_lost_snapshot=False)
    assert table.snapshots.lost_id() == 5
    rollback.rollback_to_snapshot(accept_lost(table, accept_lost_snapshot=True), 4)
    assert add(table, 7) == 5
    assert rows(table) == {1: "x", 2: "x", 3: "x", 4: "x", 7: "x"}


def test_a_file_that_is_restored_is_all_it_takes(table: FileStoreTable) -> None:
    path = Path(table.paths.snapshot_path(5))
    text = Path(table.paths.snapshot_path(4)).read_text()
    path.write_text(json.dumps({**json.loads(text), "id": 5}))
    assert add(table, 6) == 6
    assert expire_snapshots(table, retain_latest_only()) == 3


def test_a_lost_snapshot_of_another_branch_counts(table: FileStoreTable) -> None:
    accept_lost(table, accept_lost_snapshot=True)
    branch = load_table(table.path, branch="br")
    assert add(branch, 9) == 2
    lose(branch, 2)
    with pytest.raises(CorruptTableError, match=r"branch-br/snapshot/snapshot-2 is missing.*t\$branch_br'"):
        remove_orphan_files(table)
    remove_orphan_files(accept_lost(table, accept_lost_snapshot=True))
    assert rows(branch) == {1: "x"}


def test_without_any_snapshot_left_there_is_nothing_to_go_on_by(table: FileStoreTable) -> None:
    for snapshot_id in (3, 4):
        lose(table, snapshot_id)
    with pytest.raises(CorruptTableError, match="no snapshot is left"):
        rows(table)
    with pytest.raises(CorruptTableError, match="no snapshot is left"):
        add(table, 6)
    accept_lost(table, accept_lost_snapshot=True)
    assert rows(table) == {}
    assert add(table, 6) == 1


def test_a_hint_that_a_rollback_moves_meanwhile_is_no_loss(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, hints = table.snapshots, iter([5, 4, 4])
    monkeypatch.setattr(type(store), "_read_hint", lambda *_: next(hints))
    assert store.lost_id() is None


@pytest.mark.parametrize("hint", ["4", "3", "1", "0", "-1", "", "abc"])
def test_hints_that_are_behind_or_senseless_are_no_loss(table: FileStoreTable, hint: str) -> None:
    Path(table.paths.latest_hint_path).write_text(hint)
    assert table.snapshots.lost_id() is None
    assert add(table, 6) == 5


@pytest.mark.parametrize("number", [1, 4, 6, 2**62])
def test_a_snapshot_file_is_that_of_its_id(table: FileStoreTable, number: int) -> None:
    path = Path(table.paths.snapshot_path(5))
    text = Path(table.paths.snapshot_path(4)).read_text()
    path.write_text(json.dumps({**json.loads(text), "id": number}))
    for deed in (rows, lambda table: add(table, 9), lambda table: expire_snapshots(table, retain_latest_only())):
        with pytest.raises(Exception, match=rf"snapshot-5 holds the snapshot id {number}") as error:
            deed(table)
        assert "CorruptTableError" in repr(error.value) or "not expired" in str(error.value)
    with pytest.raises(CorruptTableError) as caught:
        table.snapshots.latest()
    assert caught.value.path == str(path)


def test_a_changelog_file_is_that_of_its_id(table: FileStoreTable) -> None:
    accept_lost(table, accept_lost_snapshot=True)
    path = Path(table.paths.changelog_path(2))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(Path(table.paths.snapshot_path(4)).read_bytes())
    with pytest.raises(CorruptTableError, match="changelog-2 holds the snapshot id 4"):
        expire_all_changelogs(table)


def test_a_table_that_was_dropped_is_no_empty_table(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    assert resolve_snapshot(table) is None
    assert rows(table) == {}
    (Path(table.paths.schema_path(0))).unlink()
    Path(table.paths.schema_dir).rmdir()
    for deed in (resolve_snapshot, plan_of, lambda gone: commit(gone, [], overwrite=OverwriteSpec.truncate())):
        with pytest.raises(TableNotFoundError):
            deed(table)


def test_java_refuses_such_a_table_and_goes_on_once_it_is_decided(oracle: Any) -> None:
    oracle.create("db.lost", [("k", "INT NOT NULL"), ("v", "STRING")])
    for number in (1, 2, 3):
        oracle.write("db.lost", [(number, "x")])
    table = load_table(str(Path(oracle.warehouse, "db.db", "lost")))
    lose(table, 3)
    with pytest.raises(Exception, match="snapshot-3 does not exist"):
        oracle.rows("db.lost")
    assert rows(table) == {1: "x", 2: "x"}
    rollback.rollback_to_snapshot(accept_lost(table, accept_lost_snapshot=True), 2)
    assert oracle.rows("db.lost") == [(1, "x"), (2, "x")]
    assert oracle.write("db.lost", [(4, "y")]) == [3]
    assert rows(table) == {1: "x", 2: "x", 4: "y"}


def test_an_older_snapshot_that_is_lost_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 6):
        add(made, number)
    lose(made, 3)
    with caplog.at_level(logging.WARNING):
        remove_orphan_files(made)
    assert "snapshots 3 have no file, although older ones live" in caplog.text
    assert len(rows(load_table(made.path))) == 5
