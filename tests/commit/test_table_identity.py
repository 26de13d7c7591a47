"""A commit knows its table: one that was dropped and made again, or restored, is another one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit import publish
from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import CommitConflictError, PaimonError, SchemaError, TableNotFoundError
from paimon_spark.maintain.expire import snapshots as expiring
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import WritePlan, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import all_files, data_file, fake_file, make_table, message

ANOTHER = "is not the table that this commit was planned for"


def write(table: FileStoreTable) -> tuple[WritePlan, list[object]]:
    batch = pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int32()), "v": ["a"]})
    plan = plan_write(table, data_schema=batch.schema)
    return plan, [write_batches(plan, [batch], 0)]


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    table = make_table(tmp_path / "t", bucket="-1")
    commit(table, [message(table, data_file(table, {1: "old"}))])
    return load_table(table.path)


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_table_that_was_made_again_takes_no_files_of_the_old_one(table: FileStoreTable, key: tuple[str, ...]) -> None:
    plan, messages = write(table)
    shutil.rmtree(table.path)
    new = make_table(table.path, bucket="-1" if not key else "1", primary_key=key)
    for rows in ([], [1]):
        if rows:
            commit(new, [message(new, fake_file("f"))])
        before = all_files(new, "manifest", "snapshot")
        with pytest.raises(CommitConflictError, match=ANOTHER):
            commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]
        with pytest.raises(CommitConflictError, match=ANOTHER):
            commit(table, [], overwrite=OverwriteSpec.truncate())
        assert all_files(new, "manifest", "snapshot") == before


def test_a_table_that_is_gone_is_said_to_be(table: FileStoreTable) -> None:
    plan, messages = write(table)
    shutil.rmtree(table.path)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]


def test_an_older_state_that_was_put_back_is_reported_by_its_snapshots(table: FileStoreTable, tmp_path: Path) -> None:
    shutil.copytree(table.path, tmp_path / "backup")
    commit(table, [message(table, data_file(table, {2: "later"}))])
    plan, messages = write(table)
    shutil.rmtree(table.path)
    shutil.copytree(tmp_path / "backup", table.path)
    with pytest.raises(CommitConflictError, match="rolled back"):
        commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]


def test_a_changed_schema_is_no_other_table(table: FileStoreTable) -> None:
    from dataclasses import replace

    plan, messages = write(table)
    load_table(table.path).schemas.commit_next(lambda latest: replace(latest, id=latest.id + 1))
    assert commit(table, messages, planned_on=plan.snapshot) == 2  # type: ignore[arg-type]
    assert table.snapshots.get(2).schema_id == 1


def test_a_statement_is_not_run_again_on_another_table(table: FileStoreTable) -> None:
    calls = []

    def attempt(latest: object) -> None:
        calls.append(latest)
        plan, messages = write(table)
        shutil.rmtree(table.path)
        make_table(table.path, bucket="-1")
        commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]

    with pytest.raises(CommitConflictError, match=ANOTHER):
        run_again(table, attempt)
    assert len(calls) == 1


def test_expiry_deletes_nothing_of_another_table(table: FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        commit(table, [message(table, data_file(table, {number: "x"}))])
    plan, new = expiring._plan, []

    def late(*args: object) -> object:
        planned = plan(*args)  # type: ignore[arg-type]
        shutil.rmtree(table.path)
        new.append(make_table(table.path, bucket="-1"))
        for number in range(5):
            commit(new[0], [message(new[0], data_file(new[0], {number: "new"}))])
        return planned

    monkeypatch.setattr(expiring, "_plan", late)
    with pytest.raises(PaimonError, match="dropped and made again meanwhile"):
        expire_snapshots(table, Retention.of_snapshots(table.options).with_arguments(retain_max=1, retain_min=1))
    assert new[0].snapshots.ids() == [1, 2, 3, 4, 5]


@pytest.fixture
def before_publishing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Run something after the last check of a commit, right before its snapshot is created; once."""

    def hook(deed: Callable[[], object]) -> None:
        encode, done = publish.json_bytes, []

        def late(*args: object) -> bytes:
            if not done:
                done.append(True)
                deed()
            return encode(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(publish, "json_bytes", late)

    return hook


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_made_anew_during_the_last_step_keeps_no_foreign_snapshot(
    table: FileStoreTable, before_publishing: Callable[[Callable[[], object]], None], rows: int
) -> None:
    plan, messages = write(table)

    def anew() -> None:
        shutil.rmtree(table.path)
        made = make_table(table.path, bucket="-1")
        for number in range(rows):
            commit(made, [message(made, data_file(made, {number: "new"}))])

    before_publishing(anew)
    with pytest.raises(CommitConflictError, match=ANOTHER):
        commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]
    new = load_table(table.path)
    assert new.snapshots.ids() == ([1] if rows else [])
    assert commit(new, [message(new, data_file(new, {7: "mine"}))]) == (2 if rows else 1)


def test_a_table_dropped_during_the_last_step_stays_dropped(
    table: FileStoreTable, before_publishing: Callable[[Callable[[], object]], None]
) -> None:
    plan, messages = write(table)
    before_publishing(lambda: shutil.rmtree(table.path))
    with pytest.raises(TableNotFoundError, match="was dropped while it was written"):
        commit(table, messages, planned_on=plan.snapshot)  # type: ignore[arg-type]
    assert not [path for path in Path(table.path).rglob("*") if path.is_file()]
    assert make_table(table.path, bucket="-1").snapshots.latest() is None


def test_no_table_is_made_where_snapshots_are_left(table: FileStoreTable) -> None:
    shutil.rmtree(table.paths.schema_dir)
    with pytest.raises(SchemaError, match=r"has snapshots .* but no schema"):
        make_table(table.path, bucket="-1")
    assert not Path(table.paths.schema_dir).exists()
