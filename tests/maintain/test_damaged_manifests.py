"""What deletes files reads no more from a damaged manifest than a read does: it stops, and no needed file goes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.maintain.expire.snapshots import expire_changelogs, expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows, table_files
from tests.support.seeds import chance

EVERYTHING = 2**62
CHANGELOGS = {"changelog__num_retained__max": "100", "snapshot__num_retained__max": "99"}


def make_history(path: Path, **options: str) -> FileStoreTable:
    """Six commits, each manifest of another size; tags of the second and fourth; a branch; three snapshots live."""
    table = make_table(path, partition=["dt"], bucket="-1", write_only="true", **options)
    for number in range(1, 7):
        value = "p" * number
        files = [data_file(table, {number: "v" * at}, partition=value) for at in range(1, number % 3 + 2)]
        overwrite = OverwriteSpec.static() if number % 2 else None
        own = (data_file(table, {number: "changed" * number}, partition=value),)
        more = {"changelog_files": own} if options else {}
        commit(table, [message(table, *files, partition=value, **more)], overwrite=overwrite)
        if number in (2, 4):
            tags.create_tag(table, f"of{number}")
    branches.create_branch(table, "b", tag="of2")
    branch = load_table(table.path, branch="b")
    commit(branch, [message(branch, data_file(branch, {9: "x" * 30}, partition="x" * 30), partition="x" * 30)])
    expire_snapshots(table, retain_latest_only().with_arguments(retain_min=3, retain_max=3))
    return table


def all_rows(table: FileStoreTable) -> dict[str, dict[int, str]]:
    """Rows of every living snapshot and tag of both branches."""
    found = {}
    for branch in ("main", "b"):
        at = load_table(table.path, branch=branch)
        found |= {f"{branch} {number}": rows(at, snapshot_id=number) for number in at.snapshots.ids()}
        found |= {f"{branch} {name}": rows(at, tag=name) for name in at.tags.names()}
    return found


def metadata(table: FileStoreTable) -> list[Path]:
    return sorted(path for path in Path(table.paths.manifest_dir).iterdir() if not path.name.startswith("index"))


def hurt(path: Path, others: list[Path], random_: random.Random) -> bool:
    """Give a file another size: as another file of its kind, or cut, or longer."""
    data = path.read_bytes()
    like = [
        other.read_bytes()
        for other in others
        if ("-list-" in other.name) == ("-list-" in path.name) and other.stat().st_size != len(data)
    ]
    match random_.randrange(4):
        case 0:
            path.write_bytes(data[: random_.randrange(len(data))])
        case 1:
            path.write_bytes(data + data[-random_.randrange(1, 9) :])
        case _:
            path.write_bytes(random_.choice(like))
    return path.read_bytes() != data


def delete_tag(table: FileStoreTable) -> None:
    tags.delete_tag(table, "of2")


DELETING: dict[str, Callable[[FileStoreTable], object]] = {
    "orphans": lambda table: remove_files_before(table, EVERYTHING),
    "expire": lambda table: expire_snapshots(table, retain_latest_only()),
    "expire one": lambda table: expire_snapshots(table, retain_latest_only().with_arguments(max_deletes=1)),
    "delete tag": delete_tag,
    "expire a branch": lambda table: expire_snapshots(load_table(table.path, branch="b"), retain_latest_only()),
    "changelogs": lambda table: expire_changelogs(table, retain_latest_only()),
}


@pytest.mark.parametrize("options", [{}, CHANGELOGS], ids=["plain", "changelogs"])
def test_no_needed_file_goes(tmp_path: Path, options: dict[str, str]) -> None:
    table = make_history(tmp_path / "t", **options)
    expected, whole = all_rows(table), tmp_path / "whole"
    shutil.copytree(table.path, whole)
    random_, stopped = chance("damaged manifests", *options), 0
    for turn in range(60):
        shutil.rmtree(table.path)
        shutil.copytree(whole, table.path)
        path = random_.choice(metadata(table))
        data, name = path.read_bytes(), random_.choice(list(DELETING))
        if not hurt(path, metadata(table), random_):
            continue
        before = table_files(table)
        try:
            DELETING[name](table)
        except PaimonError:
            stopped += 1
            assert table_files(table) == before, f"{turn}: {name} has deleted files though it stopped at {path.name}"
        if path.exists():
            path.write_bytes(data)
        left = all_rows(table)
        assert left == {at: expected[at] for at in left}, (
            f"{turn}: {name} deleted what is needed, {path.name} being hurt"
        )
    assert stopped > 15


def named_by(table: FileStoreTable) -> Iterator[tuple[str, Path]]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    yield "base list", Path(table.paths.manifest_path(snapshot.base_manifest_list))
    yield "delta list", Path(table.paths.manifest_path(snapshot.delta_manifest_list))
    for meta in table.manifests.data_manifests(snapshot):
        yield "manifest", Path(table.paths.manifest_path(meta.file_name))


def test_each_file_of_the_latest_snapshot_exchanged(tmp_path: Path) -> None:
    """For another of its kind: both are whole, and only the recorded size tells."""
    table = make_history(tmp_path / "t")
    for what, path in named_by(table):
        data = path.read_bytes()
        other = next(
            other
            for other in metadata(table)
            if ("-list-" in other.name) == ("list" in what) and other.stat().st_size != len(data)
        )
        shutil.copy(other, path)
        before = table_files(table)
        with pytest.raises(CorruptTableError, match=path.name):
            remove_files_before(table, EVERYTHING)
        assert table_files(table) == before
        path.write_bytes(data)


def test_a_manifest_in_place_of_one_of_its_size(tmp_path: Path) -> None:
    """A read finds a file twice, and so does the removal of orphans, though sizes and counts are right."""
    table = make_table(tmp_path / "t", bucket="-1", write_only="true", manifest__compression="null")
    for number in (1, 2, 3):
        commit(table, [message(table, data_file(table, {number: "v"}))])
    manifests = [path for what, path in named_by(table) if what == "manifest"]
    same = [path for path in manifests if path.stat().st_size == manifests[0].stat().st_size]
    assert len(same) > 1, "else nothing is tested here"
    shutil.copy(same[0], same[1])
    before = table_files(table)
    with pytest.raises(CorruptTableError, match="already added"):
        remove_files_before(table, EVERYTHING)
    assert table_files(table) == before
