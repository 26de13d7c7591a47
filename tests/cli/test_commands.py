"""The command line on tables that Java wrote: what it prints for people and scripts, what it changes, its errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.cli.main import main
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.table.table import load_table
from tests.support.golden import GOLDEN

Run = Callable[..., list[Any]]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A copy of a primary-key table of ten level-0 files in five snapshots."""
    return copy("pk_partial_update", tmp_path)


def copy(name: str, folder: Path) -> str:
    shutil.copytree(GOLDEN / name / "table", folder / "t")
    return str(folder / "t")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with ``--json``; give its lines."""

    def call(*arguments: str) -> list[Any]:
        code = main([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return call


def test_info(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    [seen] = run("info", path)
    assert (seen["kind"], seen["primary_keys"]) == ("primary-key table (partial-update)", ["k"])
    assert (seen["snapshot_id"], seen["snapshot_count"], seen["file_count"], seen["record_count"]) == (5, 5, 10, 139)
    assert {"name": "c", "type": "DECIMAL(10, 2)"} in seen["columns"]
    assert main(["info", path]) == 0
    text = capsys.readouterr().out
    assert "primary-key table (partial-update)" in text
    assert "merge-engine" in text


def test_secrets_are_not_printed(path: str, run: Run) -> None:
    [seen] = run("info", path, "-o", "s3.secret-key=hunter2")
    assert "hunter2" not in json.dumps(seen)


def test_lists(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["snapshot_id"] for row in run("snapshots", path, "--limit", "2")] == [5, 4]
    assert len(run("files", path)) == 10
    assert len(run("files", path, "--version", "1")) == 2
    assert run("tags", path) == []
    assert main(["files", path, "--limit", "1"]) == 0
    text = capsys.readouterr().out
    assert "10 files" in text
    assert " bucket-0/data-" in text
    assert path not in text


def test_tags(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tag", path, "first", "--snapshot", "1", "--retain", "7 d") == [{"tag": "first", "snapshot_id": 1}]
    [tag] = run("tags", path)
    assert (tag["tag_name"], tag["snapshot_id"], tag["record_count"]) == ("first", 1, 60)
    assert load_table(path).tags.get("first").time_retained.days == 7
    assert main(["tag", path, "first"]) == 1
    assert "already" in capsys.readouterr().err
    run("tag", path, "first", "--replace")
    assert load_table(path).tags.get("first").snapshot.id == 5
    run("tag", path, "first", "--delete")
    assert run("tags", path) == []
    assert main(["tag", path, "first", "--delete", "--replace"]) == 2


def test_read_gives_what_java_reads(path: str, run: Run) -> None:
    rows = run("read", path, "--limit", "0")
    assert len(rows) == len({row["k"] for row in rows}) == run("read", path, "--limit", "0", "--columns", "k").__len__()
    assert {row["k"]: row["b"] for row in rows}[2] == "b137"
    assert run("read", path, "--where", "k = 2", "--columns", "b, k") == [{"b": "b137", "k": 2}]
    assert len(run("read", path, "--limit", "3")) == 3
    assert len(run("read", path, "--limit", "0", "--version", "1")) == 60


def test_read_of_system_tables(path: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run("read", f"{path}$snapshots", "--columns", "snapshot_id", "--where", "snapshot_id < 3")
    assert rows == [{"snapshot_id": 1}, {"snapshot_id": 2}]
    assert {row["rowkind"] for row in run("read", f"{path}$audit_log", "--limit", "0")} == {"+I"}
    assert main(["read", f"{path}$nope"]) == 1
    assert main(["read", f"{path}$snapshots", "--columns", "nope"]) == 1
    assert "no column 'nope'" in capsys.readouterr().err
    assert main(["info", f"{path}$snapshots"]) == 2


def test_explain_shows_pruning(tmp_path: Path, run: Run) -> None:
    path = copy("append_partitioned_plain", tmp_path)
    [everything] = run("explain", path)
    table = load_table(path)
    key = table.schema.partition_keys[0]
    value = run("read", path, "--limit", "1")[0][key]
    [some] = run("explain", path, "--where", f"{key} = '{value}'")
    assert 0 < some["files"] < some["files_without_filter"] == everything["files"]
    assert some["residual_filter"] is None
    assert some["bytes"] < everything["bytes"]


def test_compact_expire_rollback(path: str, run: Run) -> None:
    before = run("read", path, "--limit", "0")
    assert run("tag", path, "first", "--snapshot", "1")
    assert run("compact", path) == [{"snapshot_id": 6}]
    assert {row["level"] for row in run("files", path)} == {5}
    assert run("compact", path) == [{"snapshot_id": None}]
    key = lambda row: row["k"]  # noqa: E731
    assert sorted(run("read", path, "--limit", "0"), key=key) == sorted(before, key=key)
    assert run("expire", path, "--retain-max", "2", "--retain-min", "1") == [{"expired": 4}]
    assert run("rollback", path, "--tag", "first", "--yes") == [{"previous_snapshot_id": 6, "current_snapshot_id": 1}]
    assert len(run("read", path, "--limit", "0")) == 60


def test_rollback_asks(path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("click.confirm", lambda *_, abort, **__: (_ for _ in ()).throw(__import__("click").Abort()))
    assert main(["rollback", path, "--snapshot", "1"]) == 1
    assert load_table(path).snapshots.latest_id() == 5
    assert main(["rollback", path]) == 2
    assert "Name one of" in capsys.readouterr().err


def test_orphans_are_counted_before_they_go(path: str, run: Run) -> None:
    stray = Path(path) / "bucket-0" / "data-00000000-0000-0000-0000-000000000000-0.parquet"
    stray.write_bytes(b"x" * 10)
    assert run("orphans", path) == [{"file_count": 0, "total_bytes": 0, "deleted": False}]  # younger than a day
    os.utime(stray, (1, 1))
    assert run("orphans", path) == [{"file_count": 1, "total_bytes": 10, "deleted": False}]
    assert stray.exists()
    assert run("orphans", path, "--delete") == [{"file_count": 1, "total_bytes": 10, "deleted": True}]
    assert not stray.exists()
    assert remove_orphan_files(load_table(path)).file_count == 0


def test_errors_are_one_line(tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said, code in (
        (["info", str(tmp_path / "none")], "no Paimon table", 1),
        (["read", path, "--where", "nope = 1"], "'nope' is not a column", 1),
        (["read", path, "--columns", "nope"], "'nope' does not exist", 1),
        (["read", path, "--version", "nope"], "nope", 1),
        (["info", path, "-o", "bucket"], "not KEY=VALUE", 2),
        (["info", path, "-o", "merge-engin=x"], "merge-engine", 1),
        (["tag", path, "x", "--retain", "soon"], "soon", 1),
        (["compact", path, "--where", "k = 1"], "partition predicate", 1),
    ):
        assert main(arguments) == code, arguments
        err = capsys.readouterr().err.strip()
        assert said in err
        assert "Traceback" not in err
        assert code == 2 or len(err.splitlines()) == 1


def test_values_as_json(tmp_path: Path, run: Run) -> None:
    rows = run("read", copy("append_types_parquet", tmp_path), "--limit", "0")
    assert rows
    assert all(isinstance(row, dict) for row in rows)


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("paimon_spark.cli.") and not name.endswith("main")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.box", None)
    assert main(["info", "x"]) == 2
    assert "pip install 'paimon-spark[cli]'" in capsys.readouterr().err


def test_as_a_program_without_pyspark(path: str) -> None:
    code = (
        "import sys; from paimon_spark.cli.main import main; code = main(['info', sys.argv[1]]); "
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules); sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-m", "paimon_spark", "tags", path], check=True, capture_output=True)
    assert b"0 tags" in done.stdout
