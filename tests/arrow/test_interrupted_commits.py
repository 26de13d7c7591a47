"""A commit that is interrupted, or followed by an error, once its snapshot is there: no file of it is deleted.

One that is void for certain leaves none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.commit import file_store_commit
from paimon_spark.commit.metadata_commit import commit_statistics
from paimon_spark.commit.publish import Publication
from paimon_spark.errors import CommitConflictError, CommitError, CommittedError, StorageError
from paimon_spark.maintain import committed_write
from paimon_spark.maintain.compact.compaction import materialize_deletion_vectors
from paimon_spark.maintain.compact.index_rewrite import rewrite_file_index
from paimon_spark.maintain.copy_table import copy_table
from paimon_spark.maintain.files.repairs import remove_unexisting_files
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.statistics import Statistics
from paimon_spark.table.table import load_table
from tests.support.commits import files_below

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string())])
MORE = pa.table({"k": pa.array([4], pa.int32()), "v": ["d"]})


@dataclass
class Case:
    run: Callable[[ArrowTable], Any]
    options: dict[str, Any] = field(default_factory=dict)
    before: Callable[[ArrowTable], Any] = lambda table: None
    rows: int = 3


def _unlink_one(table: ArrowTable) -> None:
    table.append(MORE)
    latest = load_table(table.path).snapshots.latest()
    assert latest is not None
    live = load_table(table.path).manifests.live_entries(latest)
    newest = min(live, key=lambda entry: entry.file.row_count)
    Path(load_table(table.path).paths.data_file_path(newest.partition, newest.bucket, newest.file)).unlink()


def _statistics(table: ArrowTable) -> None:
    opened = load_table(table.path)
    latest = opened.snapshots.latest()
    assert latest is not None
    commit_statistics(opened, Statistics(snapshot_id=latest.id, schema_id=latest.schema_id, merged_record_count=3))


DATA_EVOLUTION = {"row_tracking_enabled": True, "data_evolution_enabled": True, "deletion_vectors_enabled": True}
KEYED = {"primary_keys": "k", "bucket": 1}
CASES = {
    "append": Case(lambda table: table.append(MORE), rows=4),
    "append by key": Case(lambda table: table.append(MORE), KEYED, rows=4),
    "overwrite": Case(lambda table: table.overwrite(ROWS)),
    "upsert": Case(lambda table: table.upsert(MORE), KEYED, rows=4),
    "delete": Case(lambda table: table.delete("k = 1"), rows=2),
    "delete by vectors": Case(lambda table: table.delete("k = 1"), {"deletion_vectors_enabled": True}, rows=2),
    "delete by key": Case(lambda table: table.delete("k = 1"), KEYED, rows=2),
    "postponed": Case(lambda table: table.append(MORE), {"primary_keys": "k", "bucket": -2}, rows=4),
    "compact": Case(lambda table: table.compact(), KEYED, lambda table: table.append(MORE), rows=4),
    "materialize": Case(
        lambda table: materialize_deletion_vectors(load_table(table.path)),
        DATA_EVOLUTION,
        lambda table: table.delete("k = 1"),
        rows=2,
    ),
    "indexes": Case(
        lambda table: rewrite_file_index(load_table(table.path).as_if({"file-index.bloom-filter.columns": "k"}))
    ),
    "unexisting files": Case(
        lambda table: remove_unexisting_files(load_table(table.path)), {"deletion_vectors_enabled": True}, _unlink_one
    ),
    "copy": Case(
        lambda table: copy_table(load_table(f"{table.path}_source"), table.path, {}),
        before=lambda table: _other(table).append(ROWS),
    ),
    "statistics": Case(_statistics),
}


def _other(table: ArrowTable) -> ArrowTable:
    return paimon_spark.create_table(f"{table.path}_source", SCHEMA, write_only=True)


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ArrowTable:
    case = CASES[request.param]
    table = paimon_spark.create_table(str(tmp_path / "d.db" / "t"), SCHEMA, write_only=True, **case.options)
    table.append(ROWS)
    case.before(table)
    return table


@pytest.mark.parametrize(("table", "case"), [(name, name) for name in CASES], indirect=["table"])
def test_an_interrupt_behind_the_publication(table: ArrowTable, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = file_store_commit.publish_snapshot

    def interrupted(*given: Any, **named: Any) -> bool:
        assert publish(*given, **named) is Publication.DONE
        raise KeyboardInterrupt

    before = load_table(table.path).snapshots.latest_id()
    monkeypatch.setattr(file_store_commit, "publish_snapshot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        CASES[case].run(table)
    monkeypatch.undo()
    found = load_table(table.path)
    assert (found.snapshots.latest_id() or 0) > (before or 0)
    assert paimon_spark.open_table(table.path).scan().to_arrow().num_rows == CASES[case].rows
    latest = found.snapshots.latest()
    assert latest is not None
    if latest.statistics is not None:
        assert found.file_io.exists(found.paths.statistics_path(latest.statistics))


@pytest.mark.parametrize(("table", "case"), [(name, name) for name in CASES], indirect=["table"])
def test_a_lost_commit_leaves_no_file(table: ArrowTable, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alter_table(load_table(table.path), [SetOption("commit.max-retries", "0")])
    before = files_below(table.path)
    monkeypatch.setattr(file_store_commit, "publish_snapshot", lambda *_given, **_named: False)
    with pytest.raises(CommitConflictError):
        CASES[case].run(paimon_spark.open_table(table.path))
    assert files_below(table.path) == before


def test_rows_that_reads_do_not_see_in_time_stay(tmp_path: Path) -> None:
    options = {"visibility_callback_enabled": True, "visibility_callback_timeout": "100 ms"}
    path = str(tmp_path / "d.db" / "t")
    table = paimon_spark.create_table(path, SCHEMA, write_only=True, **KEYED, deletion_vectors_enabled=True, **options)
    with pytest.raises(CommitError, match="holds the rows"):
        table.append(ROWS)
    paimon_spark.open_table(path, write_only=False).compact()
    assert paimon_spark.open_table(path).scan().to_arrow().num_rows == 3


def test_rows_stay_where_nobody_can_show_whether_reads_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_given: Any) -> None:
        raise StorageError("the store does not answer")

    path = str(tmp_path / "d.db" / "t")
    table = paimon_spark.create_table(path, SCHEMA)
    monkeypatch.setattr(committed_write, "wait_until_visible", unreachable)
    with pytest.raises(CommittedError, match=r"holds the rows; do not write them again.*does not answer"):
        table.append(ROWS)
    assert paimon_spark.open_table(path).scan().to_arrow().num_rows == 3
