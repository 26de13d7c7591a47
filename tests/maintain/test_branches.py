"""Branches: made, written, deleted, renamed, fast-forwarded and merged."""

import contextlib
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import (
    CommitError,
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward, merge_branch
from paimon_spark.read.split_read import read_split
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of


def rows(table: FileStoreTable, branch: str = "main", **options: str) -> dict[int, str]:
    named = {key.replace("_", "-").replace("scan-", "scan."): value for key, value in options.items()}
    plan = plan_of(load_table(table.path, options=named, branch=branch))
    return {
        row["k"]: row["v"]
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    }


def write(table: FileStoreTable, branch: str = "main", **values: str) -> None:
    """Append rows such as k1="a"."""
    there = load_table(table.path, branch=branch)
    commit(there, [message(there, data_file(there, {int(key[1:]): value for key, value in values.items()}))])


def next_schema(table: FileStoreTable, branch: str, comment: str) -> None:
    """Give a branch one more schema, which differs by its comment."""
    there = load_table(table.path, branch=branch)
    there.schemas.commit_next(lambda latest: replace(latest, id=latest.id + 1, comment=comment))


def metadata(table: FileStoreTable) -> dict[str, bytes]:
    """The snapshots, schemas and tags of the main branch, without hints."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for folder in ("schema", "snapshot", "tag")
        for path in (Path(table.path) / folder).glob("*-*")
    }


def files(table: FileStoreTable) -> dict[str, bytes]:
    """All files of the table."""
    return {str(path): path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Snapshot 1: {1: a}, tagged one; snapshot 2 adds {2: b}."""
    table = make_table(tmp_path / "t", bucket="-1")
    write(table, k1="a")
    tags.create_tag(table, "one")
    write(table, k2="b")
    return table


def test_an_empty_branch_has_the_columns_and_its_own_commits(table: FileStoreTable) -> None:
    assert branches.create_branch(table, "b")
    assert rows(table, "b") == {}
    write(table, "b", k7="x")
    assert (rows(table, "b"), rows(table)) == ({7: "x"}, {1: "a", 2: "b"})
    assert table.branches.names() == ["b"]
    tags.create_tag(load_table(f"{table.path}$branch_b"), "there")
    assert (load_table(f"{table.path}$branch_b").tags.names(), table.tags.names()) == (["there"], ["one"])


def test_a_branch_from_a_tag_has_its_rows_and_the_tag(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    write(table, "b", k7="x")
    assert rows(table, "b") == {1: "a", 7: "x"}
    assert rows(table, "b", scan_tag_name="one") == {1: "a"}
    assert load_table(f"{table.path}$branch_b").snapshots.ids() == [1, 2]


def test_a_branch_from_an_expired_tag(table: FileStoreTable) -> None:
    Path(table.paths.snapshot_path(1)).unlink()
    branches.create_branch(table, "b", tag="one")
    assert rows(table, "b") == {1: "a"}


def test_a_branch_from_a_snapshot_keeps_its_rows_by_a_tag(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", snapshot_id=1)
    assert rows(table, "b") == {1: "a"}
    assert table.tags.get("branch-b").snapshot.id == 1
    with pytest.raises(SnapshotNotFoundError, match="#9 doesn't exist"):
        branches.create_branch(table, "c", snapshot_id=9)
    with pytest.raises(OptionError, match="not both"):
        branches.create_branch(table, "c", snapshot_id=1, tag="one")
    assert table.branches.names() == ["b"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main", "default branch"),
        (" ", "blank"),
        ("12", "pure numeric"),
        ("a/b", "slash"),
        ("..", "not allowed"),
        ("b", "already exists"),
    ],
)
def test_names_that_no_branch_can_have(table: FileStoreTable, name: str, text: str) -> None:
    branches.create_branch(table, "b")
    branches.create_branch(table, "c")
    with pytest.raises(PaimonError, match=text):
        branches.create_branch(table, name)
    with pytest.raises(PaimonError, match=text):
        branches.rename_branch(table, "c", name)
    assert table.branches.names() == ["b", "c"]


def test_an_option_cannot_lead_out_of_the_table(table: FileStoreTable) -> None:
    with pytest.raises(PaimonError, match="not allowed"):
        load_table(table.path, options={"branch": "x/../../../other"})


def test_a_branch_that_is_there_or_a_missing_tag(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    assert not branches.create_branch(table, "b", ignore_if_exists=True)
    assert rows(table, "b") == {1: "a"}
    with pytest.raises(SnapshotNotFoundError, match=r"Tag 'nope' doesn't exist. The tags are: one"):
        branches.create_branch(table, "c", tag="nope")
    assert not table.branches.exists("c")


def test_deleting_branches(table: FileStoreTable) -> None:
    for name in ("b", "c", "d"):
        branches.create_branch(table, name, tag="one")
    with pytest.raises(PaimonError, match=r"'x' doesn't exist. The branches are: b, c, d"):
        branches.delete_branch(table, "b,x")
    branches.delete_branch(table, "b, c")
    assert table.branches.names() == ["d"]
    with pytest.raises(TableNotFoundError):
        load_table(f"{table.path}$branch_b")
    with pytest.raises(PaimonError, match="is the main branch"):
        branches.delete_branch(table, "main")
    with pytest.raises(PaimonError, match="table was opened"):
        branches.delete_branch(load_table(f"{table.path}$branch_d"), "d")
    with pytest.raises(PaimonError, match=r"configured as 'scan.fallback-branch'"):
        branches.delete_branch(table.with_options({"scan.fallback-branch": "d"}), "d")
    branches.delete_branch(table, ["x", "d"], ignore_if_missing=True)
    assert table.branches.names() == []
    assert rows(table) == {1: "a", 2: "b"}


def test_renaming_a_branch(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    branches.rename_branch(table, "b", "c")
    assert (table.branches.names(), rows(table, "c")) == (["c"], {1: "a"})
    with pytest.raises(PaimonError, match="'b' doesn't exist"):
        branches.rename_branch(table, "b", "d")
    with pytest.raises(PaimonError, match="Cannot rename the main branch"):
        branches.rename_branch(table, "main", "d")


def test_a_half_made_branch_is_finished_and_nothing_in_it_is_deleted(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    whole = files(table)
    Path(table.path, "branch/branch-b/schema/schema-0").unlink()
    tags.create_tag(table, "two")
    held = files(table)
    with pytest.raises(PaimonError, match=r"exists in part: .*/(snapshot-1|tag-one) .*delete_branch"):
        branches.create_branch(table, "b", tag="two")
    with pytest.raises(PaimonError, match="exists in part"):
        branches.create_branch(table, "b")
    assert files(table) == held
    assert branches.create_branch(table, "b", tag="one", ignore_if_exists=True)
    assert files(table) == whole | held
    there = load_table(f"{table.path}$branch_b")
    assert (there.tags.names(), there.snapshots.ids(), rows(table, "b")) == (["one"], [1], {1: "a"})


@pytest.mark.parametrize("name", ["notes.txt", "snapshot/snapshot-7", "snapshot/LATEST", "tag/tag-x", "mine/file"])
def test_a_directory_with_something_else_is_not_made_a_branch(table: FileStoreTable, name: str) -> None:
    kept = Path(table.path, "branch/branch-b", name)
    kept.parent.mkdir(parents=True)
    kept.write_text("somebody's")
    with pytest.raises(PaimonError, match=f"exists in part: .*{name} .* is not what this branch begins with"):
        branches.create_branch(table, "b", tag="one")
    assert kept.read_text() == "somebody's"
    branches.delete_branch(table, "b")
    branches.create_branch(table, "b", tag="one")
    assert rows(table, "b") == {1: "a"}


def test_two_that_make_a_branch_at_once_do_not_harm_each_other(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes while the first has written its snapshot, and somebody writes to what it has made."""
    io, calls = type(table.file_io), []
    create = io.create_exclusive

    def slow(self: Any, path: str, data: bytes) -> bool:
        calls.append(path)
        if len(calls) == 3:  # the first maker pauses here
            branches.create_branch(table, "b", tag="one")
            write(table, "b", k7="x")
        return create(self, path, data)

    monkeypatch.setattr(io, "create_exclusive", slow)
    branches.create_branch(table, "b", tag="one")
    assert rows(table, "b") == {1: "a", 7: "x"}


def _make_branches(path: str, number: int, barrier: Any, results: Any) -> None:
    """Make branches at once with other processes, each from its own tag; half of the branches are made by two."""
    table, made = load_table(path), []
    for turn in range(_TURNS):
        barrier.wait()
        with contextlib.suppress(PaimonError):
            branches.create_branch(table, f"b{turn}", tag=f"t{number // 2 if turn % 2 else number}")
            made.append(turn)
    results.put((number, made))


_TURNS = 20


def test_of_several_processes_one_makes_a_branch(table: FileStoreTable) -> None:
    """Each branch begins with one tag, that of a process that was informed so; never with two."""
    for number in range(4):
        write(table, **{f"k{number + 10}": "x"})
        tags.create_tag(table, f"t{number}")
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    makers = [
        context.Process(target=_make_branches, args=(table.path, number, barrier, results)) for number in range(4)
    ]
    for process in makers:
        process.start()
    made = dict(results.get(timeout=120) for _ in makers)
    for process in makers:
        process.join()
    for turn in range(_TURNS):
        there = load_table(f"{table.path}$branch_b{turn}")
        (tag,) = there.tags.names()
        winners = [number for number, turns in made.items() if turn in turns]
        assert winners, "somebody must have made it"
        assert {f"t{number // 2 if turn % 2 else number}" for number in winners} == {tag}
        assert turn % 2 or len(winners) == 1
        assert there.snapshots.ids() == [there.tags.get(tag).snapshot.id]
        assert rows(table, f"b{turn}") == rows(table, scan_tag_name=tag)
        assert not any(path.name.startswith(".") for path in Path(there.paths.branch_root).rglob("*"))


@pytest.mark.parametrize("tag", ["one", "two", None])
def test_a_claim_that_was_left_behind(table: FileStoreTable, tag: str | None) -> None:
    """Who was ended before the first file was written is succeeded only by one who makes the same branch."""
    tags.create_tag(table, "two")
    claim = Path(table.path, "branch/branch-b/.begins-with")
    claim.parent.mkdir(parents=True)
    claim.write_text('{"tag":"one","snapshotId":1}')
    if tag == "one":
        branches.create_branch(table, "b", tag="one")
        assert rows(table, "b") == {1: "a"}
        assert not claim.exists()
        return
    with pytest.raises(PaimonError, match=r"exists in part: .*begins-with .*delete_branch"):
        branches.create_branch(table, "b", tag=tag)
    branches.delete_branch(table, "b")
    branches.create_branch(table, "b", tag=tag)
    assert rows(table, "b") == ({} if tag is None else {1: "a", 2: "b"})


def test_nothing_is_left_of_a_branch_that_could_not_be_made(table: FileStoreTable) -> None:
    tags.create_tag(table, "branch-b", snapshot_id=2)
    before = files(table)
    with pytest.raises(PaimonError, match="Tag 'branch-b' already exists"):
        branches.create_branch(table, "b", snapshot_id=1)
    assert files(table) == before
    assert table.branches.names() == []


def test_fast_forward_takes_all_of_the_branch(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    next_schema(table, "main", "ours")
    next_schema(table, "main", "ours again")
    write(table, k3="c")
    tags.create_tag(table, "three")
    next_schema(table, "b", "theirs")
    write(table, "b", k7="x")
    write(table, "b", k8="y")
    tags.create_tag(load_table(f"{table.path}$branch_b"), "seven", snapshot_id=2)
    assert fast_forward(table, "b") == 3
    assert rows(table) == {1: "a", 7: "x", 8: "y"}
    now = load_table(table.path)
    assert (now.tags.names(), now.snapshots.ids()) == (["one", "seven"], [1, 2, 3])
    assert (now.schema.id, now.schema.comment) == (1, "theirs")
    write(table, k9="z")
    assert rows(table) == {1: "a", 7: "x", 8: "y", 9: "z"}
    assert rows(table, "b") == {1: "a", 7: "x", 8: "y"}


@pytest.mark.parametrize(("name", "what"), [("schema-2", "schema 2"), ("tag-three", "the tag 'three'")])
def test_fast_forward_where_something_cannot_be_deleted(
    table: FileStoreTable, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    branches.create_branch(table, "b", tag="one")
    next_schema(table, "main", "ours")
    next_schema(table, "main", "ours again")
    write(table, k3="c")
    tags.create_tag(table, "three")
    write(table, "b", k7="x")
    delete = LocalFileIO.delete_quietly

    def refuse(io: LocalFileIO, path: str, *, recursive: bool = False) -> bool:
        return not path.endswith(name) and delete(io, path, recursive=recursive)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "delete_quietly", refuse)
        with pytest.raises(CommitError, match=f"to branch 'b' is not complete: {what} could not be deleted"):
            fast_forward(table, "b")
    assert fast_forward(table, "b") == 2
    now = load_table(table.path)
    assert (rows(table), now.schema.id, now.tags.names()) == ({1: "a", 7: "x"}, 0, ["one"])


def test_fast_forward_to_a_branch_that_began_empty(table: FileStoreTable) -> None:
    branches.create_branch(table, "b")
    write(table, "b", k7="x")
    fast_forward(table, "b")
    assert (rows(table), table.snapshots.ids(), table.tags.names()) == ({7: "x"}, [1], [])


@pytest.mark.parametrize("schemas_differ", [False, True])
def test_fast_forward_where_the_first_snapshot_has_expired(table: FileStoreTable, schemas_differ: bool) -> None:
    branches.create_branch(table, "b", tag="one")
    if schemas_differ:
        schema = Path(table.path, "schema/schema-0")
        schema.write_text(schema.read_text().replace('"timeMillis"', '"comment" : "other", "timeMillis"'))
    write(table, "b", k7="x")
    write(table, k3="c")
    for number in (1, 2):
        Path(table.paths.snapshot_path(number)).unlink()
    fast_forward(table, "b")
    assert (rows(table), table.snapshots.ids()) == ({1: "a", 7: "x"}, [1, 2])
    assert table.snapshots.earliest_id() == 1


def test_fast_forward_a_second_time_takes_what_is_new(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    write(table, "b", k7="x")
    fast_forward(table, "b")
    before = metadata(table)
    assert fast_forward(table, "b") == 2
    assert metadata(table) == before
    write(table, "b", k8="y")
    assert fast_forward(table, "b") == 3
    assert rows(table) == {1: "a", 7: "x", 8: "y"}


def test_what_cannot_be_fast_forwarded(table: FileStoreTable) -> None:
    branches.create_branch(table, "b")
    for name, text in (
        ("main", "cannot be used in fast-forward"),
        ("x", "doesn't exist"),
        ("b", "does not have a snapshot"),
    ):
        with pytest.raises(PaimonError, match=text):
            fast_forward(table, name)
    with pytest.raises(PaimonError, match="current branch 'b'"):
        fast_forward(load_table(f"{table.path}$branch_b"), "b")
    assert rows(table) == {1: "a", 2: "b"}


def test_merging_shares_the_files_and_is_done_once(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    write(table, "b", k7="x")
    assert merge_branch(table, "b") == 3
    assert rows(table) == {1: "a", 2: "b", 7: "x"}
    assert merge_branch(table, "b") is None
    assert merge_branch(table, "main", "b") == 3
    assert rows(table, "b") == {1: "a", 2: "b", 7: "x"}


def test_what_cannot_be_merged(table: FileStoreTable, tmp_path: Path) -> None:
    branches.create_branch(table, "empty")
    for source, target, text in (
        ("", "main", "Source branch name '' is blank"),
        ("main", "main", "into itself"),
        ("x", "main", "'x' doesn't exist"),
        ("empty", "main", "does not have a snapshot"),
        ("main", "empty", "Cannot merge into branch 'empty'"),
    ):
        with pytest.raises(PaimonError, match=text):
            merge_branch(table, source, target)
    tags.create_tag(table, "two")
    branches.create_branch(table, "later", tag="two")
    with pytest.raises(PaimonError, match="does not start at snapshot 1"):
        merge_branch(table, "later")
    branches.create_branch(table, "over", tag="one")
    there = load_table(table.path, branch="over")
    commit(there, [message(there, data_file(there, {5: "e"}))], overwrite=OverwriteSpec.static())
    with pytest.raises(PaimonError, match="commit kind 'OVERWRITE'"):
        merge_branch(table, "over")
    keyed = make_table(tmp_path / "keyed", primary_key=["k"], bucket="1")
    commit(keyed, [message(keyed, data_file(keyed, {1: "a"}))])
    tags.create_tag(keyed, "one")
    branches.create_branch(keyed, "b", tag="one")
    with pytest.raises(UnsupportedError, match="has primary keys"):
        merge_branch(keyed, "b")


def test_a_merge_needs_the_schemas_of_the_files(table: FileStoreTable) -> None:
    branches.create_branch(table, "b", tag="one")
    next_schema(table, "b", "theirs")
    write(table, "b", k7="x")
    with pytest.raises(PaimonError, match="does not contain schema id 1"):
        merge_branch(table, "b")
    next_schema(table, "main", "ours")
    with pytest.raises(PaimonError, match="schema history mismatch for schema id 1"):
        merge_branch(table, "b")
    assert rows(table) == {1: "a", 2: "b"}
