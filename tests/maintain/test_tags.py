"""Tags: made, replaced, renamed, deleted with their files, expired; nothing goes that anything still needs."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.refs import rollback, tags
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of

TRUNCATE = OverwriteSpec.static()


def rows(table: FileStoreTable, **options: str) -> dict[int, str]:
    named = {key.replace("_", "-").replace("scan-", "scan."): value for key, value in options.items()}
    plan = plan_of(load_table(table.path, options=named, branch=table.branch))
    return {
        row["k"]: row["v"]
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    }


def files(table: FileStoreTable) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


def expire(table: FileStoreTable, *ids: int) -> None:
    """Delete snapshot files as an expiry that must keep everything else would."""
    for snapshot_id in ids:
        Path(table.paths.snapshot_path(snapshot_id)).unlink()
    table.snapshots.write_earliest_hint(min(table.snapshots.ids()))


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshots 1 to 4, each replacing all rows: {1: a}, {2: b}, {3: c}, {4: d}; tags one to four."""
    table = make_table(tmp_path / "t", bucket="-1")
    for key, value in enumerate("abcd", start=1):
        commit(table, [message(table, data_file(table, {key: value}))], overwrite=TRUNCATE)
        tags.create_tag(table, ["one", "two", "three", "four"][key - 1])
    return table


def test_the_files_of_an_expired_tag_go_with_it(table: FileStoreTable) -> None:
    expire(table, 1, 2)
    before = files(table)
    tags.delete_tag(table, "two")
    gone = before - files(table)
    assert sum("/bucket-0/" in path for path in gone) == 1
    assert any("/manifest/manifest-list-" in path for path in gone)
    assert rows(table) == {4: "d"}
    assert [rows(table, scan_tag_name=name) for name in ("one", "three", "four")] == [{1: "a"}, {3: "c"}, {4: "d"}]
    assert rows(table, scan_snapshot_id="3") == {3: "c"}


def test_nothing_goes_while_the_snapshot_or_another_tag_of_it_is_there(table: FileStoreTable) -> None:
    before = files(table)
    tags.delete_tag(table, "two")
    assert before - files(table) == {table.paths.tag_path("two")}
    tags.create_tag(table, "other", snapshot_id=1)
    expire(table, 1)
    before = files(table)
    tags.delete_tag(table, "one")
    assert before - files(table) == {table.paths.tag_path("one")}
    assert rows(table, scan_tag_name="other") == {1: "a"}


def test_a_branch_made_from_the_tag_keeps_its_files(table: FileStoreTable) -> None:
    branch = Path(table.path) / "branch" / "branch-b"
    for folder, name in (("schema", "schema-0"), ("tag", "tag-two"), ("snapshot", "snapshot-2")):
        (branch / folder).mkdir(parents=True)
        shutil.copy(Path(table.path) / folder / name, branch / folder / name)
    expire(table, 1, 2)
    before = files(table)
    tags.delete_tag(table, "two")
    assert before - files(table) == {table.paths.tag_path("two")}
    assert rows(load_table(f"{table.path}$branch_b")) == {2: "b"}


def test_an_unreadable_table_loses_nothing(table: FileStoreTable) -> None:
    expire(table, 1, 2)
    Path(table.paths.manifest_path(table.tags.get("one").snapshot.base_manifest_list)).write_bytes(b"?")
    before = files(table)
    tags.delete_tag(table, "two")
    assert before - files(table) == {table.paths.tag_path("two")}


def test_files_added_again_later_are_kept(table: FileStoreTable) -> None:
    """Snapshot 5 adds the file of snapshot 2 once more: it stands in 2 and 5, not in the neighbours 1, 3 and 4."""
    held = table.manifests.live_entries(table.snapshots.get(2))
    commit(table, [message(table, *(entry.file for entry in held))], overwrite=TRUNCATE)
    tags.create_tag(table, "five")
    expire(table, 1, 2)
    tags.delete_tag(table, "two")
    assert Path(table.paths.data_file_path(held[0].partition, held[0].bucket, held[0].file)).exists()


def test_deleting_several_tags_or_one_with_a_comma(table: FileStoreTable) -> None:
    with pytest.raises(SnapshotNotFoundError, match="Tag 'five' doesn't exist"):
        tags.delete_tags(table, "one, five")
    assert table.tags.exists("one")
    tags.delete_tags(table, "one, two,five", ignore_if_missing=True)
    assert table.tags.names() == ["four", "three"]
    table.tags.rename("three", "a, b")
    tags.delete_tags(table, "a, b")
    assert table.tags.names() == ["four"]


def test_files_that_two_deleted_tags_share_go_at_once(table: FileStoreTable) -> None:
    tags.create_tag(table, "again", snapshot_id=2)
    expire(table, 1, 2)
    before = files(table)
    tags.delete_tags(table, "one,two,again")
    gone = before - files(table)
    assert sum("/bucket-0/" in path for path in gone) == 2
    assert (rows(table), rows(table, scan_tag_name="three")) == ({4: "d"}, {3: "c"})


def test_a_tag_of_an_expired_snapshot_serves_for_another(table: FileStoreTable) -> None:
    expire(table, 1)
    tags.create_tag(table, "uno", snapshot_id=1)
    tags.replace_tag(table, "four", snapshot_id=1, time_retained=timedelta(hours=3))
    assert rows(table, scan_tag_name="uno") == rows(table, scan_tag_name="four") == {1: "a"}
    with pytest.raises(SnapshotNotFoundError, match="given snapshot #9 doesn't exist"):
        tags.create_tag(table, "nine", snapshot_id=9)
    with pytest.raises(SnapshotNotFoundError, match="'nine' doesn't exist"):
        tags.replace_tag(table, "nine")


def test_nothing_to_tag_and_default_time(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1", tag__default_time_retained="2 d")
    table = load_table(str(tmp_path / "t")).with_options({"tag.default-time-retained": "2 d"})
    with pytest.raises(SnapshotNotFoundError, match="latest snapshot doesn't exist"):
        tags.create_tag(table, "x")
    commit(table, [message(table, data_file(table, {1: "a"}))])
    tags.create_tag(table, "x", time_retained=tags.default_time_retained(table))
    assert table.tags.get("x").time_retained == timedelta(days=2)
    tags.create_tag(table, "for_ever")
    assert table.tags.get("for_ever").time_retained is None


def test_success_files_come_and_go_with_tags(table: FileStoreTable) -> None:
    def reported() -> dict[str, dict[str, int]]:
        folder = Path(table.paths.tag_dir, "tag-success-file")
        return {path.name: json.loads(path.read_text()) for path in folder.glob("*")}

    tags.create_tag(table, "silent")
    assert reported() == {}
    table = table.with_options({"tag.create-success-file": "true"})
    tags.create_tag(table, "a")
    tags.create_tag(table, "b", time_retained=timedelta(microseconds=1))
    (first,) = [file for name, file in reported().items() if name == "a_SUCCESS"]
    assert first["creationTime"] == first["modificationTime"] > 1_700_000_000_000
    assert set(table.tags.names()) == {"one", "two", "three", "four", "silent", "a", "b"}
    tags.expire_tags(table)
    tags.delete_tag(table, "silent")
    assert list(reported()) == ["a_SUCCESS"]
    table.file_io.delete_quietly(table.paths.tag_path("a"))
    tags.create_tag(table, "a")
    assert reported()["a_SUCCESS"]["creationTime"] == first["creationTime"]
    tags.delete_tag(table.with_options({"tag.create-success-file": "false"}), "a")
    assert list(reported()) == ["a_SUCCESS"]
    Path(table.paths.tag_dir, "tag-success-file", "a_SUCCESS").write_text("[]")
    with pytest.raises(CorruptTableError, match="a_SUCCESS"):
        tags.create_tag(table, "a")


def test_a_tag_of_the_first_snapshot_after_a_time(table: FileStoreTable) -> None:
    third = table.snapshots.get(3)
    assert tags.create_tag_from_timestamp(table, "t3", third.time_millis).id == 3
    expire(table, 1)
    assert tags.create_tag_from_timestamp(table, "t1", 0).id == 1
    with pytest.raises(SnapshotNotFoundError, match="commit-time is later"):
        tags.create_tag_from_timestamp(table, "t9", third.time_millis + 10**9)


def test_a_tag_of_the_first_snapshot_after_a_watermark(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    for key, watermark in enumerate((None, 10, 20, 20, 30), start=1):
        commit(table, [message(table, data_file(table, {key: "x"}))], watermark=watermark)
    assert tags.create_tag_from_watermark(table, "w11", 11).id == 3
    assert tags.create_tag_from_watermark(table, "w0", -5, time_retained=timedelta(hours=1)).id == 2
    assert table.tags.get("w0").time_retained == timedelta(hours=1)
    expire(table, 1, 2)
    assert tags.create_tag_from_watermark(table, "again", 5).id == 2
    with pytest.raises(SnapshotNotFoundError, match="watermark is later than 31"):
        tags.create_tag_from_watermark(table, "w31", 31)


def test_tags_expire_by_their_time_or_their_age(table: FileStoreTable) -> None:
    then = datetime.now() - timedelta(hours=2)
    snapshot = table.snapshots.get(2)
    table.tags.create("hour", snapshot, time_retained=timedelta(hours=1), create_time=then)
    table.tags.create("day", snapshot, time_retained=timedelta(days=1), create_time=then)
    assert tags.expire_tags(table) == ["hour"]
    assert tags.expire_tags(table) == []
    assert tags.expire_tags(table, older_than=datetime.now() - timedelta(hours=1)) == ["day"]
    assert tags.expire_tags(table, older_than=datetime.now() + timedelta(hours=1)) == ["one", "two", "three", "four"]


def test_rollback_forgets_what_came_later(table: FileStoreTable) -> None:
    assert rollback.rollback_to_snapshot(table, 2) == rollback.Rollback(4, 2)
    assert (rows(table), table.snapshots.ids(), table.tags.names()) == ({2: "b"}, [1, 2], ["one", "two"])
    assert commit(table, [message(table, data_file(table, {9: "z"}))]) == 3
    assert rows(table) == {2: "b", 9: "z"}
    with pytest.raises(SnapshotNotFoundError, match="'77' doesn't exist: there are 1 to 3"):
        rollback.rollback_to_snapshot(table, 77)


@pytest.mark.parametrize("by_id", [True, False])
def test_rollback_to_an_expired_tag_brings_its_snapshot_back(table: FileStoreTable, by_id: bool) -> None:
    expire(table, 1, 2)
    done = rollback.rollback_to_snapshot(table, 2) if by_id else rollback.rollback_to_tag(table, "two")
    assert done == rollback.Rollback(4, 2)
    assert (rows(table), table.snapshots.ids(), table.snapshots.earliest_id()) == ({2: "b"}, [2], 2)
    assert table.tags.names() == ["one", "two"]


def test_rollback_to_a_time_or_a_watermark(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    with pytest.raises(SnapshotNotFoundError, match="can not rollback"):
        rollback.rollback_to_snapshot(table, 1)
    for key, watermark in enumerate((None, 10, None, 30), start=1):
        commit(table, [message(table, data_file(table, {key: "x"}))], watermark=watermark)
    times = [table.snapshots.get(snapshot_id).time_millis for snapshot_id in (1, 2, 3, 4)]
    with pytest.raises(SnapshotNotFoundError, match="earlier than 9"):
        rollback.rollback_to_watermark(table, 9)
    with pytest.raises(SnapshotNotFoundError, match="earlier than"):
        rollback.rollback_to_timestamp(table, times[0] - 1)
    assert rollback.rollback_to_timestamp(table, times[3] + 5).current_snapshot_id == 4
    assert rollback.rollback_to_watermark(table, 29).current_snapshot_id in (2, 3)


def test_long_lived_changelogs_are_forgotten_too(table: FileStoreTable) -> None:
    folder = Path(table.paths.changelog_dir)
    folder.mkdir()
    for snapshot_id in (1, 3):
        shutil.copy(table.paths.snapshot_path(snapshot_id), folder / f"changelog-{snapshot_id}")
    rollback.rollback_to_snapshot(table, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["LATEST", "changelog-1"]
    assert (folder / "LATEST").read_text() == "2"


def test_a_rename_that_was_stopped_is_finished_by_the_next(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stop:
        stop.setattr(type(table.tags), "_delete", stopped)
        with pytest.raises(KeyboardInterrupt):
            table.tags.rename("three", "drei")
    assert {"three", "drei"} <= set(table.tags.names())
    table.tags.rename("three", "drei")
    assert "three" not in table.tags.names()
    assert rows(table, scan_tag_name="drei") == {3: "c"}
    for name in ("drei", "four"):
        with pytest.raises(PaimonError, match="'four' already exists"):
            table.tags.rename(name, "four")
    assert {"drei", "four"} <= set(table.tags.names())


def test_older_than_with_an_offset_is_that_moment() -> None:
    moment = datetime(2024, 1, 31, 7, tzinfo=UTC).timestamp()
    assert tags.parse_older_than("2024-01-31 12:00:00+05:00").timestamp() == moment
    assert tags.parse_older_than("2024-01-31T04:30:00-02:30").timestamp() == moment
    assert tags.parse_older_than("2024-01-31").timestamp() == datetime(2024, 1, 31).timestamp()
