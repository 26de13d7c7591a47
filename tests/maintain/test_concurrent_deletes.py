"""What deletes files, while somebody makes, renames or moves what needs them; wrong clocks; damaged tables."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, PaimonError, SnapshotNotFoundError
from paimon_spark.maintain.expire import snapshots as expire_snapshots
from paimon_spark.maintain.expire.snapshots import retain_latest_only
from paimon_spark.maintain.files import needed_files, orphan_files
from paimon_spark.maintain.files.deletion import UnusedFiles
from paimon_spark.maintain.refs import branches, fast_forward, rollback, tags
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.table.ref_store import BranchStore, TagStore
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files

EVERYTHING = 2**62
KEEP_TWO = replace(retain_latest_only(), num_retained_min=2, num_retained_max=2)


def write(table: FileStoreTable, values: dict[int, str], **file: Any) -> None:
    """Replace all rows."""
    new = replace(data_file(table, values), **file)
    commit(table, [message(table, new)], overwrite=OverwriteSpec.static())


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshots 1 to 4, each replaces all rows; tag two."""
    made = make_table(tmp_path / "t", bucket="-1")
    for number in range(1, 5):
        write(made, {number: f"v{number}"})
        if number == 2:
            tags.create_tag(made, "two")
    return made


def expire(table: FileStoreTable) -> int:
    return expire_snapshots.expire_snapshots(table, retain_latest_only())


def once(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, call: int, deed: Callable[[], object]) -> None:
    """Do something right before one call of a function."""
    real, calls = getattr(where, name), []

    def wrapped(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            deed()
        return real(*args, **options)

    monkeypatch.setattr(where, name, wrapped)


def test_a_tag_that_comes_before_the_files_go(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, expire_snapshots, "tags_by_branch", 2, lambda: tags.create_tag(table, "new", snapshot_id=3))
    assert expire(table) == 3
    assert rows(table, tag="new") == {3: "v3"}
    assert rows(table, tag="two") == {2: "v2"}


def test_a_tag_that_comes_to_hold_another_snapshot(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, expire_snapshots, "tags_by_branch", 2, lambda: tags.replace_tag(table, "two", snapshot_id=3))
    assert expire(table) == 3
    assert rows(table, tag="two") == {3: "v3"}


def test_going_back_before_the_files_go(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, expire_snapshots, "tags_by_branch", 2, lambda: rollback.rollback_to_snapshot(table, 3))
    assert expire(table) == 2
    assert (table.snapshots.ids(), rows(table)) == ([3], {3: "v3"})


def test_tags_that_come_and_come(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = [], expire_snapshots.tags_by_branch

    def busy(of: FileStoreTable) -> Any:
        made.append(tags.create_tag(table, f"t{len(made)}", snapshot_id=1))
        return real(of)

    monkeypatch.setattr(expire_snapshots, "tags_by_branch", busy)
    before = table_files(table, "bucket-0")
    with pytest.raises(PaimonError, match=r"not expired, .* changed again and again"):
        expire(table)
    assert (table_files(table, "bucket-0"), table.snapshots.ids()) == (before, [1, 2, 3, 4])


@pytest.mark.parametrize("deed", ["expire", "clean", "delete tag"])
def test_a_branch_that_is_renamed_meanwhile(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    """It was listed by its old name, and is read when it has the new one."""
    branches.create_branch(table, "b", tag="two")
    if deed != "expire":
        expire(table)
    if deed == "clean":
        tags.delete_tag(table, "two")
    if deed != "delete tag":
        tags.delete_tag(table, "two", ignore_if_missing=True)
    before = table_files(table, "bucket-0")

    asked: list[int] = []
    real = BranchStore.names

    def names(self: BranchStore) -> list[str]:
        found = real(self)
        asked.append(1)
        if len(asked) == {"expire": 2, "clean": 3, "delete tag": 1}[deed]:
            os.rename(table.paths.for_branch("b").branch_root, table.paths.for_branch("c").branch_root)
        return found

    monkeypatch.setattr(BranchStore, "names", names)
    if deed == "expire":
        assert expire(table) == 3
    elif deed == "clean":
        orphan_files.remove_files_before(table, EVERYTHING)
    else:
        tags.delete_tag(table, "two")
    assert len(asked) > 3 or deed == "delete tag", "it has looked again"
    monkeypatch.undo()
    assert rows(load_table(table.path, branch="c")) == {2: "v2"}
    assert deed == "expire" or table_files(table, "bucket-0") == before


def test_a_tag_that_is_renamed_while_orphans_are_looked_for(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire(table)
    once(monkeypatch, TagStore, "get", 1, lambda: table.tags.rename("two", "zwei"))
    orphan_files.remove_files_before(table, EVERYTHING)
    assert rows(table, tag="zwei") == {2: "v2"}


def test_tags_that_are_never_where_they_were_listed(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: TagStore, name: str) -> Any:
        raise SnapshotNotFoundError(name)

    monkeypatch.setattr(TagStore, "get", gone)
    before = table_files(table)
    with pytest.raises(PaimonError, match="cleaning aborted; try again later"):
        orphan_files.remove_files_before(table, EVERYTHING)
    assert table_files(table) == before


@pytest.mark.parametrize("days", [2, 5])
def test_a_clock_that_was_wrong_when_a_file_was_made(tmp_path: Path, days: int) -> None:
    """The file seems younger than the tag that holds it."""
    table = make_table(tmp_path / "t", bucket="-1")
    ahead = data_file(table, {1: "a"}).creation_time_millis
    assert ahead is not None
    write(table, {1: "a"}, creation_time_millis=ahead + days * 86_400_000)
    tags.create_tag(table, "one")
    write(table, {2: "b"})
    write(table, {3: "c"})
    assert expire_snapshots.expire_snapshots(table, KEEP_TWO) == 1
    assert rows(table, tag="one") == {1: "a"}


def test_the_nearest_tag_needs_little_reading(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags that are much older than all files in doubt are not read."""
    later = data_file(table, {1: "x"}).creation_time_millis
    assert later is not None
    for number in (5, 6):
        write(table, {number: f"v{number}"}, creation_time_millis=later + 30 * 86_400_000)
    expire_snapshots.expire_snapshots(table, replace(retain_latest_only(), num_retained_min=2, num_retained_max=2))
    read: list[int] = []
    real = needed_files.UnusedFiles.keep_live
    monkeypatch.setattr(
        needed_files.UnusedFiles,
        "keep_live",
        lambda self, snapshot, **options: (read.append(snapshot.id), real(self, snapshot, **options)),
    )
    assert expire(table) == 1
    assert read == []


def test_a_branch_from_a_tag_whose_changelog_has_gone(tmp_path: Path) -> None:
    """Expiry of the table goes on, and the branch keeps its rows."""
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", changelog_producer="input")
    for number in range(1, 4):
        new, reported = (data_file(table, {number: f"v{number}"}, sequence=number) for _ in range(2))
        commit(table, [message(table, new, changelog_files=(reported,))])
        if number == 1:
            tags.create_tag(table, "one")
    assert table.snapshots.get(1).changelog_manifest_list is not None
    expire_snapshots.expire_snapshots(table, replace(retain_latest_only(), num_retained_min=2, num_retained_max=2))
    branches.create_branch(table, "b", tag="one")
    name = table.tags.get("one").snapshot.changelog_manifest_list
    assert name is not None
    assert not Path(table.paths.manifest_path(name)).exists()
    assert expire(table) == 1
    assert (rows(table), rows(load_table(table.path, branch="b"))) == ({1: "v1", 2: "v2", 3: "v3"}, {1: "v1"})


def test_a_tag_that_is_deleted_while_a_branch_is_made_from_it(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire(table)
    once(monkeypatch, branches, "_check_no_others", 1, lambda: tags.delete_tag(table, "two"))
    with pytest.raises(SnapshotNotFoundError, match="Branch 'b' is not made: tag 'two' was deleted meanwhile"):
        branches.create_branch(table, "b", tag="two")
    assert table.branches.names() == []


@pytest.mark.parametrize("tagged", [False, True])
def test_a_snapshot_that_expires_while_it_is_tagged(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, tagged: bool
) -> None:
    once(monkeypatch, TagStore, "create", 2 if tagged else 1, lambda: expire(table))
    if tagged:
        tags.create_tag(table, "three", snapshot_id=3)
        assert tags.create_tag(table, "again", snapshot_id=3)
        assert rows(table, tag="again") == {3: "v3"}
        return
    with pytest.raises(SnapshotNotFoundError, match="#3 has expired meanwhile"):
        tags.create_tag(table, "new", snapshot_id=3)
    assert table.tags.names() == ["two"]


def test_fast_forward_keeps_the_schemas_of_what_stays(table: FileStoreTable) -> None:
    """A rollback was committed as the latest snapshot, and the branch begins there: with the older schema."""
    table.schemas.commit_next(lambda latest: replace(latest, id=1, comment="newer"))
    table = load_table(table.path)
    write(table, {5: "v5"})
    done = rollback_to_as_latest(table, snapshot_id=4)
    tags.create_tag(table, "back", snapshot_id=done.current_snapshot_id)
    branches.create_branch(table, "b", tag="back")
    before = table_files(table)
    with pytest.raises(PaimonError, match=r"snapshot 5 has schema 1, which the branch has not"):
        fast_forward.fast_forward(table, "b")
    assert table_files(table) == before
    assert rows(table, snapshot_id=5) == {5: "v5"}
    expire(table)
    for name in table.tags.names():
        if table.tags.get(name).snapshot.id < 6:
            tags.delete_tag(table, name)
    fast_forward.fast_forward(table, "b")
    assert rows(load_table(table.path)) == {4: "v4"}


@pytest.mark.parametrize("what", ["base list", "delta list", "manifest", "tag's list", "tag's manifest"])
def test_a_damaged_table_loses_no_data_files(table: FileStoreTable, what: str) -> None:
    """What is missing is not what an expiry may have taken: nobody knows which files it named."""
    expire(table)
    snapshot = table.tags.get("two").snapshot if what.startswith("tag") else table.snapshots.get(4)
    name = {"base list": snapshot.base_manifest_list}.get(what, snapshot.delta_manifest_list)
    if what.endswith("manifest"):
        name = table.manifests.manifests_of(snapshot.delta_list)[0].name
    Path(table.paths.manifest_path(name)).unlink()
    before = table_files(table)
    with pytest.raises(CorruptTableError, match=f"{name} is missing, which .* needs"):
        orphan_files.remove_files_before(table, EVERYTHING)
    assert table_files(table) == before


def test_a_snapshot_that_expires_meanwhile_is_no_damage(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def more() -> None:
        write(table, {5: "v5"})
        expire(table)

    once(monkeypatch, orphan_files, "named_files", 1, more)
    orphan_files.remove_files_before(table, 1)
    assert rows(table) == {5: "v5"}


def test_a_later_snapshot_that_expires_while_it_is_kept(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several snapshots expire at once: the list of what a later one added is gone, too."""
    plain, (first, second) = UnusedFiles.keep_live, table.snapshots.ids()[:2]
    gone = table.snapshots.get(second)

    def expired(unused: UnusedFiles, snapshot: Snapshot, **options: Any) -> None:
        plain(unused, snapshot, **options)
        if snapshot.id == first:
            os.remove(table.paths.snapshot_path(second))
            os.remove(table.paths.manifest_path(gone.delta_manifest_list))

    monkeypatch.setattr(UnusedFiles, "keep_live", expired)
    with pytest.raises(SnapshotNotFoundError, match=rf"Snapshot {second} of .* expired meanwhile: try again"):
        needed_files.unneeded_names(table, {"data-no": None})


def test_a_first_snapshot_that_expires_while_it_is_kept(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its manifest lists go with it: that is no damage, and nothing is deleted."""
    plain, first = UnusedFiles.keep_live, table.snapshots.ids()[0]
    latest = rows(table)

    def expired(unused: UnusedFiles, snapshot: Snapshot, **options: Any) -> None:
        if snapshot.id == first:
            os.remove(table.paths.snapshot_path(first))
            os.remove(table.paths.manifest_path(snapshot.base_manifest_list))
        plain(unused, snapshot, **options)

    monkeypatch.setattr(UnusedFiles, "keep_live", expired)
    with pytest.raises(SnapshotNotFoundError, match=rf"Snapshot {first} of .* expired meanwhile: try again"):
        needed_files.unneeded_names(table, {"data-no": None})
    assert rows(table) == latest


@pytest.mark.parametrize("number", [0, 1])
def test_a_snapshot_that_is_half_expired_while_it_is_kept(table: FileStoreTable, number: int) -> None:
    """An expiry deletes manifests before the snapshot that names them: that is no damage, and nothing is deleted."""
    snapshot_id = table.snapshots.ids()[number]
    (manifest,) = table.manifests.manifests_of(table.snapshots.get(snapshot_id).delta_list)
    os.remove(table.paths.manifest_path(manifest.name))
    before = table_files(table)
    with pytest.raises(SnapshotNotFoundError, match=rf"Snapshot {snapshot_id} of .* expires at this time.*try again"):
        needed_files.unneeded_names(table, {"data-no": None})
    assert table_files(table) == before


def test_a_latest_snapshot_that_has_lost_a_manifest_is_damage(table: FileStoreTable) -> None:
    latest = table.snapshots.latest()
    assert latest is not None
    (manifest,) = table.manifests.manifests_of(latest.delta_list)[-1:]
    os.remove(table.paths.manifest_path(manifest.name))
    with pytest.raises(CorruptTableError, match=manifest.name):
        needed_files.unneeded_names(table, {"data-no": None})


def test_a_snapshot_whose_id_is_taken_again_while_it_is_kept(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest snapshot was rolled back, and the next commit has its id."""
    plain, latest = UnusedFiles.keep_metadata, table.snapshots.ids()[-1]

    def rolled_back(unused: UnusedFiles, snapshot: Snapshot, **options: Any) -> None:
        if snapshot.id == latest:
            monkeypatch.undo()
            rollback.rollback_to_snapshot(table, latest - 1)
            write(table, {9: "v9"})
            for listed in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
                Path(table.paths.manifest_path(listed)).unlink(missing_ok=True)
        plain(unused, snapshot, **options)

    monkeypatch.setattr(UnusedFiles, "keep_metadata", rolled_back)
    with pytest.raises(SnapshotNotFoundError, match=rf"Snapshot {latest} of .* expired meanwhile: try again"):
        needed_files.unneeded_names(table, {"data-no": None})
    assert rows(table) == {9: "v9"}


@pytest.mark.parametrize("own", [True, False])
def test_external_files_of_other_tables_stay(tmp_path: Path, own: bool) -> None:
    """Several tables may have the same option: only a path with the table's name is its own."""
    root = tmp_path / "external" / ("t" if own else "all")
    table = make_table(tmp_path / "t", bucket="-1", data_file__external_paths=f"file:{root}")
    write(table, {1: "a"})
    left = root / "bucket-0" / f"data-{uuid.uuid4()}-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    orphan_files.remove_files_before(table, EVERYTHING)
    assert left.exists() != own
    assert SnapshotStore(table.file_io, table.paths).ids() == [1]
