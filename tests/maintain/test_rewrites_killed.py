"""Sorting, rescaling, copying and moving to a branch end at any call of the store: nothing is lost.

After each kill the table has its old or its new rows, for us and for Java; a second run finishes or says what to do.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CommitConflictError, CommitError, OptionError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.row_order import Curve, RowOrder
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_rewrite import all_of_each_partition, sort_units
from paimon_spark.maintain.copy_table import copy_table
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import branches, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward, merge_branch
from paimon_spark.spec.data_types import IntType
from paimon_spark.table.schema_change import AddColumn
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import OverwriteMode, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.interrupting import Operation, killed_at_every_call, with_a_rival
from tests.support.killing import IMPATIENT
from tests.support.levels import check_files
from tests.support.racing import rows_to_change
from tests.support.seeds import chance

EVERYTHING = 2**62
OLD = {1: "a", 2: "b", 3: "c"}
APPEND = {"bucket": "-1"}
KEYED = {"bucket": "1", "write-only": "true"}


def write(table: FileStoreTable, given: dict[int, str], overwrite: OverwriteSpec | None = None) -> None:
    """Commit rows, as another process does or instead of all others."""
    batch = pa.record_batch([pa.array(list(given), pa.int32()), pa.array(list(given.values()))], names=["k", "v"])
    try:
        plan = plan_write(table, data_schema=batch.schema, overwrite=OverwriteMode.STATIC if overwrite else None)
    except OptionError as error:  # rescaled meanwhile: as in Java, the next write has to name the new number
        if "the previous bucket num is 3" not in str(error):
            raise
        table = table.as_if({"bucket": "3"})
        plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot, overwrite=overwrite)


def opened(directory: Path, name: str = "t", branch: str = "main") -> FileStoreTable:
    return load_table(str(directory / name), branch=branch, options=IMPATIENT)


def made(directory: Path, *, keyed: bool = False, name: str = "t") -> FileStoreTable:
    options = {key.replace("-", "_"): value for key, value in (KEYED if keyed else APPEND).items()}
    table = make_table(directory / name, primary_key=["k"] if keyed else [], **options)
    write(table, {1: "a", 3: "c"})
    write(table, {2: "b"})
    return load_table(table.path)


def sort(directory: Path, curve: Curve) -> None:
    table = opened(directory)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    units = all_of_each_partition(table, snapshot, CompactScope())
    sort_units(table, snapshot, units, RowOrder.of(table, curve, ["v", "k"]))


def compacted(directory: Path) -> None:
    compact(opened(directory), full=True)


def rescale(directory: Path) -> None:
    """What the job does, in one task: all rows are read and written anew into three buckets."""
    table = opened(directory)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    given = rows(table, snapshot_id=snapshot.id)
    write(table.as_if({"bucket": "3", LAST_SAFE: str(snapshot.id)}), given, OverwriteSpec.static())


def copied(directory: Path) -> None:
    copy_table(opened(directory), str(directory / "copy"), {})


def to_branch(directory: Path) -> None:
    fast_forward(opened(directory), "b")


def from_branch(directory: Path) -> None:
    merge_branch(opened(directory), "b")


def branch(directory: Path) -> None:
    branches.create_branch(opened(directory), "new", tag="tag")


SAME: dict[str, tuple[bool, Operation]] = {
    "order": (False, partial(sort, curve=Curve.ORDER)),
    "zorder": (False, partial(sort, curve=Curve.ZORDER)),
    "compact": (True, compacted),
    "rescale": (True, rescale),
}
"""Operations that leave the rows as they are."""


def check(table: FileStoreTable, oracle: Any, *allowed: dict[int, str]) -> dict[int, str]:
    """Check that we, and Java where it is given, read one of the allowed states."""
    found = rows(table)
    assert found in allowed
    assert oracle is None or dict(oracle.rows(table.path)) == found
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("case", SAME)
def test_a_rewrite_is_killed_and_runs_again(tmp_path: Path, oracle: Any, case: str) -> None:
    keyed, operation = SAME[case]
    origin, scratch = tmp_path / "origin", tmp_path / "scratch"
    scratch.mkdir()
    made(origin, keyed=keyed)
    seen = set[int | None]()
    for copy in killed_at_every_call(origin, operation, scratch):
        table = opened(copy)
        found = table.snapshots.latest_id()
        java = None if found in seen else oracle
        check(table, java, OLD)
        seen.add(found)
        write(table, {4: "d"})
        operation(copy)
        remove_files_before(opened(copy), EVERYTHING)
        check(opened(copy), java, {**OLD, 4: "d"})
    assert seen == {2, 3}, "it was killed before and after the commit"


@pytest.mark.oracle
def test_a_compaction_that_shows_hidden_rows_is_killed_and_runs_again(tmp_path: Path, oracle: Any) -> None:
    """Readers see the rows of level 0 all at once or not yet; none is lost, none is there twice."""
    origin, scratch = tmp_path / "origin", tmp_path / "scratch"
    scratch.mkdir()
    options = {"bucket": "1", "write_only": "true", "deletion_vectors__enabled": "true"}
    table = make_table(origin / "t", primary_key=["k"], **options)
    write(table, {1: "a", 3: "c"})
    compacted(origin)
    write(table, {2: "b", 3: "C"})
    write(table, {5: "e"})
    old, new = {1: "a", 3: "c"}, {1: "a", 2: "b", 3: "C", 5: "e"}
    seen = set[int | None]()
    for copy in killed_at_every_call(origin, compacted, scratch):
        snapshot = opened(copy).snapshots.latest()
        assert snapshot is not None
        java = None if snapshot.id in seen else oracle
        check(opened(copy), java, old if snapshot.id == 4 else new)
        assert rows_to_change(opened(copy), snapshot) == new
        seen.add(snapshot.id)
        compacted(copy)
        remove_files_before(opened(copy), EVERYTHING)
        check(opened(copy), java, new)
        check_files(opened(copy).path)
    assert seen == {4, 5}, "it was killed before and after the commit"


RIVALS: dict[str, Callable[[Path], None]] = {
    "write": lambda directory: write(opened(directory), {4: "d"}),
    "compaction": compacted,
    "overwrite": lambda directory: write(opened(directory), {9: "z"}, OverwriteSpec.static()),
    "schema": lambda directory: [
        alter_table(opened(directory), [AddColumn(("w",), IntType())]),
        write(opened(directory), {4: "d"}),
    ][1],
}


@pytest.mark.thorough
@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("case", [case for case in SAME if case != "zorder"])
def test_a_rewrite_during_a_commit_at_every_call(tmp_path: Path, case: str, rival: str) -> None:
    keyed, operation = SAME[case]
    made(tmp_path / "origin", keyed=keyed)
    wanted = {"compaction": OLD, "overwrite": {9: "z"}}.get(rival, {**OLD, 4: "d"})
    for copy, error in with_a_rival(tmp_path / "origin", operation, RIVALS[rival], tmp_path):
        assert error is None or isinstance(error, CommitError), repr(error)
        assert rows(opened(copy)) == wanted
        operation(copy)
        assert rows(opened(copy)) == wanted


@pytest.mark.oracle
@pytest.mark.parametrize("keyed", [False, True])
def test_a_copy_is_killed_and_runs_again(tmp_path: Path, oracle: Any, keyed: bool) -> None:
    """It is finished, schemas and all."""
    origin, scratch = tmp_path / "origin", tmp_path / "scratch"
    scratch.mkdir()
    source = made(origin, keyed=keyed)
    for name in ("w", "x"):
        alter_table(load_table(source.path), [AddColumn((name,), IntType())])
    seen = set()
    for copy in killed_at_every_call(origin, copied, scratch):
        assert rows(opened(copy)) == OLD
        begun = (copy / "copy" / "schema" / "schema-0").exists()
        ids = opened(copy, "copy").snapshots.ids() if begun else []
        if ids:
            assert rows(opened(copy, "copy")) == OLD
        state = (begun, len(list((copy / "copy").glob("schema/schema-*"))), len(ids))
        copied(copy)
        target = opened(copy, "copy")
        remove_files_before(target, EVERYTHING)
        assert target.schema.fields == opened(copy).schema.fields
        assert rows(target) == OLD
        if state not in seen:
            assert {row[0]: row[1] for row in oracle.rows(target.path)} == OLD
        seen.add(state)
        write(target, {4: "d"})
        assert rows(opened(copy, "copy")) == {**OLD, 4: "d"}
    assert seen >= {(True, 1, 0), (True, 3, 0), (True, 3, 1)}


def branched(directory: Path) -> FileStoreTable:
    """A branch from snapshot 2 with a row and a column more, and a row that only the table has."""
    table = made(directory)
    tags.create_tag(table, "tag")
    branches.create_branch(table, "b", tag="tag")
    write(opened(directory, branch="b"), {4: "branch"})
    return table


@pytest.mark.oracle
def test_a_fast_forward_is_killed_and_runs_again(tmp_path: Path, oracle: Any) -> None:
    origin, scratch = tmp_path / "origin", tmp_path / "scratch"
    scratch.mkdir()
    table = branched(origin)
    alter_table(opened(origin, branch="b"), [AddColumn(("w",), IntType())])
    write(opened(origin, branch="b"), {5: "branch"})
    write(table, {6: "main"})
    write(table, {7: "main"})
    old, new = {**OLD, 6: "main", 7: "main"}, {**OLD, 4: "branch", 5: "branch"}
    between = ({**OLD, 6: "main"}, OLD, {**OLD, 4: "branch"})
    seen = []
    for copy in killed_at_every_call(origin, to_branch, scratch):
        found = rows(opened(copy))
        assert found in (old, new, *between)
        if found not in seen:
            assert {row[0]: row[1] for row in oracle.rows(str(copy / "t"))} == found
        seen.append(found)
        assert rows(opened(copy, branch="b")) == new
        to_branch(copy)
        assert rows(opened(copy)) == new
        write(opened(copy), {8: "later"})
        assert {row[0]: row[1] for row in oracle.rows(str(copy / "t"))} == {**new, 8: "later"}
    assert old in seen
    assert new in seen


def test_a_fast_forward_during_a_commit_at_every_call(tmp_path: Path) -> None:
    """The commit is forgotten, as what came since the branch began, or the fast-forward says that it came between."""
    branched(tmp_path / "origin")
    new = {**OLD, 4: "branch"}
    for copy, error in with_a_rival(tmp_path / "origin", to_branch, RIVALS["write"], tmp_path):
        assert error is None or isinstance(error, CommitError), repr(error)
        assert rows(opened(copy)) in ([new, {**new, 4: "d"}] if error is None else [{**OLD, 4: "d"}])
        to_branch(copy)
        write(opened(copy), {9: "later"})
        assert rows(opened(copy))[9] == "later"


@pytest.mark.parametrize("operation", [branch, from_branch])
def test_work_with_branches_is_killed_and_runs_again(tmp_path: Path, operation: Operation) -> None:
    origin, scratch = tmp_path / "origin", tmp_path / "scratch"
    scratch.mkdir()
    table = made(origin)
    tags.create_tag(table, "tag")
    branches.create_branch(table, "b", snapshot_id=1)
    write(opened(origin, branch="b"), {4: "branch"})
    new = OLD if operation is branch else {**OLD, 4: "branch"}
    for copy in killed_at_every_call(origin, operation, scratch):
        assert rows(opened(copy)) in (OLD, new)
        try:
            operation(copy)
        except PaimonError as error:
            assert "already exists" in str(error), error  # noqa: PT017 - it may be finished
        assert rows(opened(copy)) == new
        if operation is branch:
            assert rows(opened(copy, branch="new")) == OLD
        write(opened(copy), {8: "later"})
        assert rows(opened(copy)) == {**new, 8: "later"}


def _rewrite_for_ever(directory: Path, keyed: bool, started: Any) -> None:
    while True:
        for is_keyed, operation in SAME.values():
            if is_keyed == keyed:
                with contextlib.suppress(PaimonError):
                    operation(directory)
                started.set()


@pytest.mark.oracle
@pytest.mark.parametrize("keyed", [False, True])
def test_rewrites_are_killed_at_random_moments_during_commits(tmp_path: Path, oracle: Any, keyed: bool) -> None:
    """By SIGKILL, which the process cannot see, between its calls of the store or within them."""
    made(tmp_path, keyed=keyed)
    random, spawn = chance("rewrites killed", keyed), multiprocessing.get_context("spawn")
    expected, table = dict(OLD), opened(tmp_path)
    for turn in range(2):
        started = spawn.Event()
        process = spawn.Process(target=_rewrite_for_ever, args=(tmp_path, keyed, started), daemon=True)
        process.start()
        assert started.wait(60)
        for number in range(random.randint(1, 6)):
            key = 100 * turn + number + 10
            try:
                write(table, {key: "x"})
            except CommitConflictError:  # the table was rescaled between the plan and the commit
                write(table, {key: "x"})
            expected[key] = "x"
            time.sleep(random.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        check(opened(tmp_path), None, expected)
    remove_files_before(opened(tmp_path), EVERYTHING)
    check_files(table.path)
    for operation in (operation for is_keyed, operation in SAME.values() if is_keyed == keyed):
        operation(tmp_path)
        check(opened(tmp_path), oracle, expected)
