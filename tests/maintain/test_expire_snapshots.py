"""Expiry of snapshots: what stays, what goes, and that nothing goes which a tag, a branch or a consumer needs."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain import after_commit
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.expire import snapshots
from paimon_spark.maintain.expire.snapshots import (
    Retention,
    expire_all_changelogs,
    expire_changelogs,
    expire_snapshots,
    retain_latest_only,
)
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.spec.manifest import FileSource
from paimon_spark.table import consumer_store
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

TRUNCATE = OverwriteSpec.static()
LATEST_ONLY = retain_latest_only()


def replace_rows(table: FileStoreTable, *values: str) -> None:
    """One snapshot for each value, which replaces all rows by {number: value}."""
    for value in values:
        number = (table.snapshots.latest_id() or 0) + 1
        commit(table, [message(table, data_file(table, {number: value}))], overwrite=TRUNCATE)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshots 1 to 5, each with other rows: {1: a} to {5: e}."""
    made = make_table(tmp_path / "t", bucket="-1")
    replace_rows(made, *"abcde")
    return made


def age(table: FileStoreTable, **millis: int) -> None:
    """Let snapshots be that old."""
    for name, back in millis.items():
        path = Path(table.paths.snapshot_path(int(name.lstrip("s"))))
        content = json.loads(path.read_text())
        content["timeMillis"] = time.time_ns() // 1_000_000 - back
        path.write_text(json.dumps(content))


def retention(minimum: int = 1, maximum: int = 2**31 - 1, *, hours: float = 1, most: int = 50) -> Retention:
    return Retention(minimum, maximum, timedelta(hours=hours), most)


def test_what_only_old_snapshots_held_goes(table: FileStoreTable) -> None:
    assert expire_snapshots(table, retention(maximum=2)) == 3
    assert table.snapshots.ids() == [4, 5]
    assert rows(table) == {5: "e"}
    assert rows(table, snapshot_id=4) == {4: "d"}
    assert len(table_files(table, "bucket-0")) == 2
    assert Path(table.paths.earliest_hint_path).read_text() == "4"
    needed = {Path(table.paths.manifest_path(name)) for name in _manifest_names(table, 4, 5)}
    assert set(Path(table.paths.manifest_dir).iterdir()) == needed
    assert expire_snapshots(table, retention(maximum=2)) == 0


def _manifest_names(table: FileStoreTable, *ids: int) -> set[str]:
    found: set[str] = set()
    for snapshot_id in ids:
        snapshot = table.snapshots.get(snapshot_id)
        for listed in (snapshot.base_list, snapshot.delta_list):
            found |= {each.name for each in (listed, *table.manifests.manifests_of(listed))}
    return found


def test_numbers_and_times_bound_what_goes(table: FileStoreTable) -> None:
    assert expire_snapshots(table, retention(minimum=5)) == 0
    assert expire_snapshots(table, retention(hours=1)) == 0, "all are young"
    age(table, s1=9_000_000, s2=9_000_000, s3=8_000_000)
    assert expire_snapshots(table, retention(hours=1, most=1)) == 1
    assert expire_snapshots(table, retention(hours=1)) == 1, "3 is old, but was the latest until a moment ago"
    assert table.snapshots.ids() == [3, 4, 5]
    assert expire_snapshots(table, retention(hours=1, maximum=2)) == 1, "the number goes before the time"
    older = retention().with_arguments(older_than=datetime.now() - timedelta(minutes=1))
    assert expire_snapshots(table, older) == 0
    assert expire_snapshots(table, LATEST_ONLY) == 1
    assert table.snapshots.ids() == [5]


def test_numbers_must_go_together(table: FileStoreTable) -> None:
    with pytest.raises(OptionError, match=r"retainMax \(2\) must not be less than retainMin \(3\)"):
        expire_snapshots(table, retention(3, 2))
    with pytest.raises(OptionError, match="at least 1"):
        expire_snapshots(table, retention(0))


def test_tags_keep_their_files_and_give_them_back(table: FileStoreTable) -> None:
    tags.create_tag(table, "two", snapshot_id=2)
    tags.create_tag(table, "four", snapshot_id=4)
    assert expire_snapshots(table, LATEST_ONLY) == 4
    assert rows(table, tag="two") == {2: "b"}
    assert rows(table, tag="four") == {4: "d"}
    assert len(table_files(table, "bucket-0")) == 3
    tags.delete_tag(table, "two")
    tags.delete_tag(table, "four")
    assert rows(table) == {5: "e"}
    assert len(table_files(table, "bucket-0")) == 1
    assert set(Path(table.paths.manifest_dir).iterdir()) == {
        Path(table.paths.manifest_path(name)) for name in _manifest_names(table, 5)
    }


def test_branches_keep_their_files_in_both_directions(table: FileStoreTable) -> None:
    tags.create_tag(table, "three", snapshot_id=3)
    branches.create_branch(table, "b", tag="three")
    branch = load_table(table.path, branch="b")
    replace_rows(branch, "x", "y")
    assert expire_snapshots(table, LATEST_ONLY) == 4
    tags.delete_tag(table, "three")
    assert rows(branch, snapshot_id=3) == {3: "c"}
    assert rows(branch, tag="three") == {3: "c"}
    tags.delete_tag(branch, "three")
    assert expire_snapshots(branch, LATEST_ONLY) == 2
    assert rows(branch) == {5: "y"}
    assert rows(table) == {5: "e"}
    assert len(table_files(table, "bucket-0")) == 2


def test_a_branch_does_not_take_what_main_still_has(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    commit(table, [message(table, data_file(table, {1: "a"}))])
    tags.create_tag(table, "one")
    branches.create_branch(table, "b", tag="one")
    branch = load_table(table.path, branch="b")
    replace_rows(branch, "x", "y")
    tags.delete_tag(branch, "one")
    tags.delete_tag(table, "one")
    assert expire_snapshots(branch, LATEST_ONLY) == 2
    assert rows(table) == {1: "a"}
    assert rows(branch) == {3: "y"}


def test_consumers_keep_what_they_have_not_read(table: FileStoreTable) -> None:
    consumer_store.reset_consumer(table, "slow", 3)
    consumer_store.reset_consumer(table, "quick", 5)
    assert expire_snapshots(table, LATEST_ONLY) == 2
    assert table.snapshots.ids() == [3, 4, 5]
    only = table.with_options({"consumer.changelog-only": "true", "changelog.num-retained.min": "20"})
    assert expire_snapshots(only, LATEST_ONLY) == 2


def test_what_cannot_be_known_is_not_deleted(table: FileStoreTable) -> None:
    Path(table.paths.tag_dir).mkdir()
    Path(table.paths.tag_path("broken")).write_text("{")
    before = table_files(table)
    with pytest.raises(PaimonError, match=r"not expired, because it is not known which files.*tag-broken"):
        expire_snapshots(table, LATEST_ONLY)
    assert table_files(table) == before


def test_empty_directories_go_when_asked_for(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1")
    for value in ("a", "b"):
        file = data_file(table, {1: value}, partition=value)
        commit(table, [message(table, file, partition=value)], overwrite=TRUNCATE)
    kept = tmp_path / "kept"
    kept.mkdir()
    assert expire_snapshots(table, LATEST_ONLY) == 1
    assert (tmp_path / "t" / "dt=a" / "bucket-0").is_dir()
    file = data_file(table, {1: "c"}, partition="c")
    commit(table, [message(table, file, partition="c")], overwrite=TRUNCATE)
    assert expire_snapshots(table.with_options({"snapshot.clean-empty-directories": "true"}), LATEST_ONLY) == 1
    assert not (tmp_path / "t" / "dt=b").exists()
    assert (tmp_path / "t" / "dt=c" / "bucket-0").is_dir()


def changelog_table(path: Path) -> FileStoreTable:
    """A key table whose writes (1, 3, 5) are compacted by the next snapshot each; changelogs outlive snapshots."""
    table = make_table(
        path, primary_key=["k"], bucket="1", changelog__num_retained__min="20", changelog__num_retained__max="30"
    )
    previous = None
    for number in range(1, 4):
        new = data_file(table, {1: f"v{number}"}, sequence=number)
        commit(table, [message(table, new)])
        result = data_file(table, {1: f"v{number}"}, sequence=number, level=5, source=FileSource.COMPACT)
        before = (new,) if previous is None else (previous, new)
        commit(table, [message(table, compact_before=before, compact_after=(result,))])
        previous = result
    return table


def test_changelogs_outlive_snapshots(tmp_path: Path) -> None:
    table = changelog_table(tmp_path / "t")
    copies = {number: Path(table.paths.snapshot_path(number)).read_text() for number in table.snapshots.ids()}
    assert expire_snapshots(table, LATEST_ONLY) == 5
    assert sorted(path.name for path in Path(table.paths.changelog_dir).iterdir()) == [
        "LATEST",
        *(f"changelog-{number}" for number in range(1, 6)),
    ]
    assert (Path(table.paths.changelog_dir) / "LATEST").read_text() == "5"
    for number in range(1, 6):
        assert json.loads(Path(table.paths.changelog_path(number)).read_text()) == json.loads(copies[number])
    assert rows(table) == {1: "v3"}
    assert len(table_files(table, "bucket-0")) == 4, "three writes, which serve as the changelog, and the last result"
    assert expire_changelogs(table) == 0
    assert expire_changelogs(table, Retention(1, 3, timedelta(0), 50)) == 4
    assert sorted(path.name for path in Path(table.paths.changelog_dir).glob("changelog-*")) == ["changelog-5"]
    assert len(table_files(table, "bucket-0")) == 2
    assert expire_all_changelogs(table) == 1
    assert list(Path(table.paths.changelog_dir).iterdir()) == []
    assert rows(table) == {1: "v3"}


def test_after_a_commit_what_is_old_goes(tmp_path: Path) -> None:
    options = {"snapshot__num_retained__min": "1", "snapshot__num_retained__max": "2"}
    table = make_table(tmp_path / "t", bucket="-1", **options)
    for number in range(1, 6):
        file = data_file(table, {number: "v"})
        commit(table, [message(table, file)], overwrite=TRUNCATE, after_commit=maintenance(table))
    assert table.snapshots.ids() == [4, 5]
    assert len(table_files(table, "bucket-0")) == 2
    quiet = table.with_options({"write-only": "true"})
    assert maintenance(quiet) is None


def test_writes_to_postponed_buckets_expire_no_snapshots(tmp_path: Path) -> None:
    """Java: ``PrimaryKeyFileStoreTable.newExpireRunnable``; a compaction into real buckets expires them."""
    options = {"snapshot__num_retained__min": "1", "snapshot__num_retained__max": "1"}
    table = make_table(tmp_path / "t", primary_key=("k",), bucket="-2", **options)
    for _ in range(4):
        commit(table, [], overwrite=TRUNCATE, after_commit=maintenance(table))
    assert table.snapshots.ids() == [1, 2, 3, 4]
    commit(table, [], overwrite=TRUNCATE, after_commit=maintenance(table.as_if({"bucket": "1"})))
    assert table.snapshots.ids() == [5]


def test_what_fails_after_a_commit_does_not_fail_it(table: FileStoreTable, caplog: pytest.LogCaptureFixture) -> None:
    Path(table.paths.tag_dir).mkdir()
    Path(table.paths.tag_path("broken")).write_text("{")
    few = table.with_options({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    consumer_store.reset_consumer(table, "old", 5)
    ageing = few.with_options({"consumer.expiration-time": "1 ms"})
    time.sleep(0.01)
    commit(ageing, [message(table, data_file(table, {6: "f"}))], after_commit=maintenance(ageing))
    assert table.snapshots.ids() == [1, 2, 3, 4, 5, 6]
    assert "the work after snapshot 6 is not done" in caplog.text
    assert ConsumerStore(table.file_io, table.paths).list() == {}, "the rest is done all the same"


def test_an_expiry_in_the_background(tmp_path: Path) -> None:
    options = {"snapshot__num_retained__min": "1", "snapshot__num_retained__max": "1"}
    table = make_table(tmp_path / "t", bucket="-1", snapshot__expire__execution_mode="async", **options)
    for number in range(1, 4):
        commit(table, [message(table, data_file(table, {number: "v"}))], after_commit=maintenance(table))
    end = time.monotonic() + 20
    while len(table.snapshots.ids()) > 1 and time.monotonic() < end:
        time.sleep(0.02)
    assert table.snapshots.ids() == [3]


def test_an_expiry_in_the_background_waits_for_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"snapshot__num_retained__min": "1", "snapshot__num_retained__max": "1"}
    table = make_table(tmp_path / "t", bucket="-1", snapshot__expire__execution_mode="async", **options)
    commit(table, [message(table, data_file(table, {1: "v"}))], after_commit=maintenance(table))
    begun, go_on, delete = threading.Event(), threading.Event(), snapshots.delete_unless_silent

    def slowly(*given: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return delete(*given, **named)

    monkeypatch.setattr(snapshots, "delete_unless_silent", slowly)
    commit(table, [message(table, data_file(table, {2: "v"}))], after_commit=maintenance(table))
    assert begun.wait(20)
    commit(table, [message(table, data_file(table, {3: "v"}))], after_commit=maintenance(table))
    time.sleep(0.3)
    go_on.set()
    end = time.monotonic() + 20
    while len(table.snapshots.ids()) > 1 and time.monotonic() < end:
        time.sleep(0.02)
    assert table.snapshots.ids() == [3]


def test_meeting_another_expiry_is_no_alarm(
    table: FileStoreTable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = PaimonError("Snapshots are not expired: it is not known which files something else still needs")

    def fail(_: FileStoreTable, latest_id: int) -> None:
        assert latest_id == 1
        raise problem

    monkeypatch.setattr(after_commit, "expire_after_commit", fail)
    snapshot = table.snapshots.get(1)
    for cause, levels in ((SnapshotNotFoundError("gone"), []), (None, ["WARNING"])):
        problem.__cause__ = cause
        caplog.clear()
        after_commit.maintain(table, snapshot)
        assert [record.levelname for record in caplog.records] == levels
