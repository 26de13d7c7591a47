"""The process ends at every call of the store in turn: the table stays readable, and a second run finishes the work."""

import contextlib
import multiprocessing
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import PaimonError
from paimon_spark.maintain.files import lease
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.read.split_read import read_split
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.faults import IMPATIENT, FaultyFileIO
from tests.support.killing import KILLED
from tests.support.plans import plan_of

A, B, C, D, X, Y = ({number: name} for number, name in enumerate("abcdxy", start=1))
TRUNCATE = OverwriteSpec.static()


def write(table: FileStoreTable, rows: dict[int, str], *, over: bool = True) -> None:
    commit(table, [message(table, data_file(table, rows))], overwrite=TRUNCATE if over else None)


def rows(path: str, branch: str = "main", tag: str | None = None) -> dict[int, str]:
    table = load_table(path, branch=branch, options={} if tag is None else {"scan.tag-name": tag})
    plan = plan_of(table)
    return {
        row["k"]: row["v"]
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    }


def expire(table: FileStoreTable, *ids: int) -> None:
    for snapshot_id in ids:
        Path(table.paths.snapshot_path(snapshot_id)).unlink()
    table.snapshots.write_earliest_hint(min(table.snapshots.ids()))


def history(path: Path) -> str:
    """Snapshots 1 to 4, each replacing all rows, tags one to four; 1 and 2 have expired. Branch b: three, then x, y."""
    table = make_table(path, bucket="-1")
    for name, some in zip(("one", "two", "three", "four"), (A, B, C, D), strict=True):
        write(table, some)
        tags.create_tag(table, name)
        if name == "three":
            branches.create_branch(table, "b", tag="three")
    there = load_table(str(path), branch="b")
    there.schemas.commit_next(lambda latest: replace(latest, id=latest.id + 1, comment="branch"))
    there = load_table(str(path), branch="b")
    write(there, X)
    write(there, Y)
    tags.create_tag(there, "last")
    expire(table, 1, 2)
    return table.path


@dataclass(frozen=True)
class Deed:
    """What is done, which states of main may be seen in between, and what must be there in the end."""

    run: Callable[[FileStoreTable], object]
    states: tuple[dict[int, str], ...]
    kept_tags: tuple[str, ...]
    """Tags that can be read whenever it ends."""


def delete_two(table: FileStoreTable) -> None:
    tags.delete_tags(table, "one, two", ignore_if_missing=True)


def back_to_snapshot(table: FileStoreTable) -> None:
    rollback.rollback_to_snapshot(table, 3)


def back_to_expired_tag(table: FileStoreTable) -> None:
    rollback.rollback_to_tag(table, "one")


def forward(table: FileStoreTable) -> None:
    fast_forward(table, "b")


def forward_to_expired(table: FileStoreTable) -> None:
    fast_forward(table, "old")


def make_branch(table: FileStoreTable) -> None:
    branches.create_branch(table, "new", tag="one", ignore_if_exists=True)


def make_empty_branch(table: FileStoreTable) -> None:
    branches.create_branch(table, "new", ignore_if_exists=True)


def delete_branch(table: FileStoreTable) -> None:
    branches.delete_branch(table, "b", ignore_if_missing=True)


def rename_branch(table: FileStoreTable) -> None:
    if table.branches.exists("b"):
        branches.rename_branch(table, "b", "c")


def again(table: FileStoreTable) -> None:
    rollback_to_as_latest(table, tag="three")


ALL = ("one", "two", "three", "four")
DEEDS = {
    delete_two: Deed(delete_two, (D,), ("three", "four")),
    back_to_snapshot: Deed(back_to_snapshot, (D, C), ("one", "two", "three")),
    back_to_expired_tag: Deed(back_to_expired_tag, (D, C, A), ("one",)),
    forward: Deed(forward, (D, C, X, Y), ("one", "two", "three")),
    forward_to_expired: Deed(forward_to_expired, (D, C, B, X), ("one", "two")),
    make_branch: Deed(make_branch, (D,), ALL),
    make_empty_branch: Deed(make_empty_branch, (D,), ALL),
    delete_branch: Deed(delete_branch, (D,), ALL),
    rename_branch: Deed(rename_branch, (D,), ALL),
    again: Deed(again, (D, C), ALL),
}


def origin(folder: Path, run: Callable[[FileStoreTable], object]) -> str:
    """The table on which a deed is done."""
    path = history(folder)
    if run is forward_to_expired:
        table = load_table(path)
        branches.create_branch(table, "old", tag="two")
        write(load_table(path, branch="old"), X)
    return path


def over(path: str, io: FileIO) -> FileStoreTable:
    """The table over a store that fails."""
    table = load_table(path, file_io=FileIO.for_path(path), options=IMPATIENT)
    object.__setattr__(table, "file_io", io)
    object.__setattr__(table.schemas, "_file_io", io)
    for store in ("snapshots", "manifests", "tags", "branches"):
        table.__dict__.pop(store, None)
    return table


def picture(path: str) -> dict[str, bytes | None]:
    """The files of a table: metadata of branches with contents (hints as what they lead to), other files by name.

    The lease of a process that ended is left until somebody else takes it, who deletes it.
    """
    found: dict[str, bytes | None] = {}
    for file in Path(path).rglob("*"):
        name = str(file.relative_to(path))
        if file.is_file() and file.name not in ("LATEST", "EARLIEST") and not file.name.startswith(lease.PREFIX):
            small = file.parent.name in ("snapshot", "schema", "tag")
            found[name] = file.read_bytes() if small else None
    for branch in ("main", *load_table(path).branches.names()):
        snapshots = load_table(path, branch=branch).snapshots
        found[f"{branch} ends"] = f"{snapshots.earliest_id()} {snapshots.latest_id()}".encode()
    return found


def check(path: str, deed: Deed, what: str) -> None:
    """Whatever is there can be read."""
    assert rows(path) in deed.states, what
    table = load_table(path)
    for name in deed.kept_tags:
        assert rows(path, tag=name) == dict(zip(ALL, (A, B, C, D), strict=True))[name], what
    for snapshot_id in table.snapshots.ids():
        table.manifests.live_entries(table.snapshots.get(snapshot_id))
        table.schemas.get(table.snapshots.get(snapshot_id).schema_id)


LOST_ANSWERS = (delete_two, back_to_expired_tag, forward, forward_to_expired, again)
"""What is also tried with a deed that is done while its answer never comes."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("run", "after"),
    [*((run, False) for run in DEEDS), *((run, True) for run in LOST_ANSWERS)],
    ids=lambda value: value.__name__ if callable(value) else "after" if value else "before",
)
def test_a_process_that_ends_at_any_call_leaves_work_that_a_second_run_finishes(
    tmp_path: Path, run: Callable[[FileStoreTable], object], after: bool
) -> None:
    deed, start = DEEDS[run], origin(tmp_path / "origin", run)
    whole = str(tmp_path / "whole")
    shutil.copytree(start, whole)
    counted = FaultyFileIO(FileIO.for_path(whole))
    run(over(whole, counted))
    wanted = picture(whole)
    assert rows(whole) == deed.states[-1]
    for number in range(counted.calls):
        path = str(tmp_path / f"fault{number}")
        shutil.copytree(start, path)
        what = f"call {number}: {counted.seen[number]}"
        with contextlib.suppress(PaimonError, OSError):
            run(over(path, FaultyFileIO(FileIO.for_path(path), number, after=after, forever=True)))
        check(path, deed, what)
        if run is again:  # each run commits once more; what counts is the outcome
            if rows(path) != C:
                run(load_table(path))
            assert rows(path) == C
        else:
            run(load_table(path))
            assert picture(path) == wanted, what
        shutil.rmtree(path)


class Exits(FaultyFileIO):
    """Leaves the process by ``os._exit``, without Python's clean-up, at one call."""

    def _call(self, name, deed):  # type: ignore[no-untyped-def]
        if self.calls == self.fail_at:
            os._exit(KILLED)
        return super()._call(name, deed)


def forward_that_exits(start: Path, copies: Path, numbers: range) -> None:
    """In a process of its own, without threads, which a fork would stop in the middle of what they do."""
    for number in numbers:
        path = str(copies / f"exit{number}")
        shutil.copytree(start, path)
        child = os.fork()
        if child == 0:
            forward(over(path, Exits(FileIO.for_path(path), number)))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def test_a_process_that_really_exits(tmp_path: Path) -> None:
    """The same without Python's clean-up: a process leaves by ``os._exit`` in the middle of a fast-forward."""
    start, deed = Path(origin(tmp_path / "origin", forward)), DEEDS[forward]
    shutil.copytree(start, tmp_path / "whole")
    counted = FaultyFileIO(FileIO.for_path(str(start)))
    forward(over(str(tmp_path / "whole"), counted))
    wanted = picture(str(tmp_path / "whole"))
    numbers = range(0, counted.calls, 7)
    spawned = multiprocessing.get_context("spawn").Process(target=forward_that_exits, args=(start, tmp_path, numbers))
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
    for number in numbers:
        path = str(tmp_path / f"exit{number}")
        check(path, deed, f"call {number}")
        forward(load_table(path))
        assert picture(path) == wanted
