"""New deletion vectors: what a commit puts into the index manifest, and what others did meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitConflictError, CorruptTableError, DataError
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.deletion_vectors import vectors_of
from paimon_spark.write.deletion_vectors import delete_index_files
from paimon_spark.write.message import CommitMessage
from tests.support.commits import NO_PARTITION
from tests.support.vectors import change, put, rows_of, table_of, without


@pytest.mark.parametrize("wide", ["false", "true"])
@pytest.mark.parametrize("bucketed", [None, "true"])
def test_deleted_rows_add_up(tmp_path: Path, wide: str, bucketed: str | None) -> None:
    table, (a, b, c) = table_of(tmp_path, deletion_vectors__bitmap64=wide, bucketed=bucketed)
    put(table, change(table, {a: [1, 5], b: [7]}))
    assert rows_of(table) == {"0": without(1, 5), "1": without(7), "2": without()}
    put(table, change(table, {a: [0, 5, 99], c: [3]}))
    assert rows_of(table) == {"0": without(0, 1, 5, 99), "1": without(7), "2": without(3)}
    locations = vectors_of(table, table.snapshots.latest())
    assert {key[2]: location.cardinality for key, location in locations.items()} == {a: 4, b: 1, c: 1}
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.commit_kind.value == "OVERWRITE"
    entries = table.manifests.index_entries(snapshot)
    assert len(entries) == 1
    for entry in entries:
        assert entry.file_size == Path(table.paths.index_file_path(entry)).stat().st_size
        assert entry.row_count == len(entry.deletion_vectors or ())


@pytest.mark.parametrize("bucketed", [None, "true"])
def test_a_file_that_goes_takes_its_vector_along(tmp_path: Path, bucketed: str | None) -> None:
    table, (a, b, _) = table_of(tmp_path, bucketed=bucketed)
    put(table, change(table, {a: [1], b: [7]}))
    snapshot = table.snapshots.latest()
    gone = [e.file for e in table.manifests.live_entries(snapshot) if e.file.file_name == a]
    put(table, change(table, {}, [a]), deleted_files=tuple(gone))
    assert {key[2] for key in vectors_of(table, table.snapshots.latest())} == {b}
    assert rows_of(table) == {"1": without(7), "2": without()}
    with pytest.raises(CommitConflictError, match="the same commit takes out"):
        change(table, {b: [1]}, [b])
    put(
        table,
        change(table, {}, [b]),
        deleted_files=tuple(
            e.file for e in table.manifests.live_entries(table.snapshots.latest()) if e.file.file_name == b
        ),
    )
    assert table.manifests.index_entries(table.snapshots.latest()) == []  # type: ignore[arg-type]


def test_files_are_packed_to_the_target_size_and_only_touched_ones_are_replaced(tmp_path: Path) -> None:
    table, names = table_of(tmp_path, files=6, deletion_vector__index_file__target_size="60 b")
    put(table, change(table, {name: [1, 50] for name in names}))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    before = {entry.file_name: entry for entry in table.manifests.index_entries(snapshot)}
    assert [entry.row_count for entry in before.values()] == [2, 2, 2]
    changes = change(table, {names[0]: [9]})
    assert [entry.kind for entry in changes] == [FileKind.DELETE, FileKind.ADD]
    put(table, changes)
    after = {entry.file_name for entry in table.manifests.index_entries(table.snapshots.latest())}  # type: ignore[arg-type]
    assert len(after & before.keys()) == 2


@pytest.mark.parametrize("bucketed", [None, "true"])
def test_two_commits_that_read_the_same_state_are_a_conflict(tmp_path: Path, bucketed: str | None) -> None:
    table, (a, b, _) = table_of(tmp_path, bucketed=bucketed)
    first, second = change(table, {a: [1]}), change(table, {a: [2]})
    put(table, first)
    with pytest.raises(CommitConflictError, match="File deletion conflicts detected"):
        put(table, second)
    delete_index_files(table, second)
    other = change(table, {b: [3]})
    put(table, change(table, {a: [4]}))
    if bucketed:  # Java: loses the vector of the first one
        with pytest.raises(CommitConflictError, match="Deletion vectors of bucket 0"):
            put(table, other)
    else:
        put(table, other)
        assert rows_of(table)["1"] == without(3)
    assert rows_of(table)["0"] == without(1, 4)
    rest = {path.name for path in (tmp_path / "t" / "index").iterdir()}
    assert not rest & {entry.file_name for entry in second if entry.kind == FileKind.ADD}


@pytest.mark.parametrize("bucketed", [None, "true"])
def test_a_compaction_that_did_not_see_a_deletion_is_a_conflict(tmp_path: Path, bucketed: str | None) -> None:
    table, (a, _, _) = table_of(tmp_path, bucketed=bucketed)
    gone = tuple(e.file for e in table.manifests.live_entries(table.snapshots.latest()) if e.file.file_name == a)
    put(table, change(table, {a: [1]}))
    rewritten = CommitMessage(NO_PARTITION, 0, table.options.bucket, (), compact_before=gone)
    with pytest.raises(CommitConflictError, match="File deletion conflicts detected"):
        commit(table, [rewritten])


def test_what_cannot_be_is_reported(tmp_path: Path) -> None:
    table, (a, b, _) = table_of(tmp_path)
    with pytest.raises(DataError, match="row 100 cannot be deleted"):
        change(table, {a: [1, 100]})
    put(table, change(table, {a: [1], b: [2]}))
    (index,) = (tmp_path / "t" / "index").iterdir()
    index.write_bytes(index.read_bytes()[:-3])
    with pytest.raises(CorruptTableError, match="damaged"):
        change(table, {a: [5]})
    assert list((tmp_path / "t" / "index").iterdir()) == [index]
