"""Indexes of data files that are built anew: what options ask for now, of files of any schema; no row changes."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.errors import CommitConflictError, CorruptTableError, OptionError
from paimon_spark.maintain.compact import index_rewrite
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.index_rewrite import rewrite_file_index
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.snapshot import CommitKind
from paimon_spark.table.schema_change import RenameColumn, SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.file_indexes import INDEXES, OFF, bodies, expected, files_of, make, multiset, read, rows, write


def bare(path: Path, **options: str) -> FileStoreTable:
    """A table whose files have no index, and whose options ask for them since."""
    table = make(path, **options)
    for start in (0, 50):
        write(table.without_options(tuple(INDEXES)), rows(list(range(start, start + 50))))
    assert not any(file.extra_files or file.embedded_file_index for file in files_of(table))
    return table


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_files_get_the_indexes_that_options_ask_for(tmp_path: Path, threshold: str) -> None:
    table = bare(tmp_path / "t", file_index__in_manifest_threshold=threshold)
    before = multiset(read(table))
    done = rewrite_file_index(table)
    assert (done.snapshot_id, done.partitions, done.files) == (3, 1, 2)
    snapshot = table.snapshots.get(3)
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.total_record_count == 100
    wanted = [expected(table, rows(list(range(start, start + 50)))) for start in (0, 50)]
    for file in files_of(table):
        data = file.embedded_file_index or (tmp_path / "t" / "bucket-0" / file.extra_files[0]).read_bytes()
        wanted.remove(bodies(data))
    assert not wanted
    assert multiset(read(table)) == before
    assert [row["k"] for row in read(table, Leaf("eq", "k", (77,)))] == [77]
    again = rewrite_file_index(table)
    assert again.files == (2 if threshold == "0 b" else 0)  # as Java: an index alongside a file is always written anew
    if threshold == "0 b":
        names = [name for file in files_of(table) for name in file.extra_files]
        assert len(names) == len(set(names)) == 2


def test_what_is_no_longer_asked_for_goes(tmp_path: Path) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    write(table, rows([1, 2, 3]))
    fewer = table.without_options(tuple(INDEXES)).with_options({"file-index.bsi.columns": "n"})
    assert rewrite_file_index(fewer).files == 1
    (file,) = files_of(table)
    assert set(bodies((tmp_path / "t" / "bucket-0" / file.extra_files[0]).read_bytes())) == {"n"}
    assert rewrite_file_index(table.without_options(tuple(INDEXES))).files == 1
    (file,) = files_of(table)
    assert (file.extra_files, file.embedded_file_index) == ((), None)
    assert len(read(load_table(table.path))) == 3


def test_files_of_older_schemas_keep_their_names(tmp_path: Path) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="1 mb")
    write(table.without_options(tuple(INDEXES)), rows([1, 2, 3]))
    alter_table(table, [RenameColumn(("v",), "w")])
    table = load_table(table.path)
    write(table, rows([4, 5]).rename_columns(["k", "w", "n", "m"]))
    assert rewrite_file_index(table).files == 1  # the other has its indexes
    old, new = sorted(files_of(table), key=lambda file: -file.row_count)
    assert set(bodies(old.embedded_file_index or b"")) == {"k", "v", "n", "m[a]"}
    assert set(bodies(new.embedded_file_index or b"")) == {"k", "w", "n", "m[a]"}
    assert [row["k"] for row in read(table, Leaf("eq", "w", ("v2",)))] == [2]
    assert read(table, Leaf("eq", "w", ("v6",))) == []


def test_tables_with_keys(tmp_path: Path) -> None:
    table = bare(tmp_path / "t", key="k", write_only="true", file_index__in_manifest_threshold="0 b")
    write(table.without_options(tuple(INDEXES)), rows([3, 60]))
    before = multiset(read(table))
    levels = sorted((file.file_name, file.level, file.row_count) for file in files_of(table))
    assert rewrite_file_index(table).files == 3
    assert sorted((file.file_name, file.level, file.row_count) for file in files_of(table)) == levels
    assert multiset(read(table)) == before
    compact(table)
    assert multiset(read(table)) == before


def test_expiry_keeps_the_data_files(tmp_path: Path) -> None:
    table = bare(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    rewrite_file_index(table)
    rewrite_file_index(table)
    before = multiset(read(table))
    expire_snapshots(table, Retention(1, 1, timedelta(0), 100))
    assert table.snapshots.ids() == [4]
    assert multiset(read(load_table(table.path))) == before
    assert [row["k"] for row in read(table, Leaf("eq", "k", (77,)))] == [77]


def test_only_some_partitions_and_settings_that_can_be(tmp_path: Path) -> None:
    table = bare(tmp_path / "t")
    with pytest.raises(OptionError, match="not supported by 'bsi'"):
        rewrite_file_index(table.with_options({"file-index.bsi.columns": "v"}))
    assert table.snapshots.latest_id() == 2


def test_the_loser_of_a_race_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bare(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    plain = index_rewrite.commit

    def racing(*args: object, **named: object) -> object:
        monkeypatch.setattr(index_rewrite, "commit", plain)
        assert rewrite_file_index(table).files == 2
        return plain(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(index_rewrite, "commit", racing)
    with pytest.raises(CommitConflictError):
        rewrite_file_index(table)
    listed = {name for file in files_of(table) for name in file.extra_files}
    assert {path.name for path in (tmp_path / "t" / "bucket-0").glob("*.index")} == listed
    assert [row["k"] for row in read(table, Leaf("eq", "k", (77,)))] == [77]


def test_a_damaged_data_file_stops_it(tmp_path: Path) -> None:
    table = bare(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    sorted((tmp_path / "t" / "bucket-0").glob("*.parquet"))[1].write_bytes(b"x")
    with pytest.raises(CorruptTableError):
        rewrite_file_index(table)
    assert not list((tmp_path / "t" / "bucket-0").glob("*.index"))
    assert table.snapshots.latest_id() == 2


def test_index_options_are_altered(tmp_path: Path) -> None:
    table = make(tmp_path / "t").without_options(tuple(INDEXES))
    alter_table(load_table(table.path), [SetOption("file-index.bitmap.columns", "n,v")])
    assert load_table(table.path).schema.options["file-index.bitmap.columns"] == "n,v"
    with pytest.raises(OptionError, match="does not exist"):
        alter_table(load_table(table.path), [SetOption("file-index.bitmap.columns", "nowhere")])


@pytest.mark.parametrize(
    ("name", "column"),
    [("data_evolution", "k"), ("row_tracking", "k"), ("pk_dv_v1", "k"), ("append_dv_bitmap64", "id")],
)
def test_rows_vectors_and_row_ids_stay(golden: Path, tmp_path: Path, name: str, column: str) -> None:
    shutil.copytree(golden / name / "table", tmp_path / "t")
    table = load_table(str(tmp_path / "t"))
    before, snapshot = multiset(read(table)), table.snapshots.latest()
    files = {file.file_name: file for file in files_of(table)}
    assert rewrite_file_index(table.with_options({"file-index.bitmap.columns": column})).files
    for file in files_of(table):
        was = files.pop(file.file_name)
        assert replace(file, extra_files=was.extra_files, embedded_file_index=was.embedded_file_index) == was
    assert not files
    after = table.snapshots.latest()
    assert snapshot is not None
    assert after is not None
    assert (after.next_row_id, after.total_record_count) == (snapshot.next_row_id, snapshot.total_record_count)
    assert multiset(read(load_table(table.path))) == before
    for value in (1, 2, 7):
        point = Leaf("eq", column, (value,))
        assert multiset(read(table, point)) == multiset(read(table.with_options(OFF), point))


def test_orphan_files_are_those_that_nothing_names(tmp_path: Path) -> None:
    table = bare(tmp_path / "t", file_index__in_manifest_threshold="0 b")
    rewrite_file_index(table)
    rewrite_file_index(table)
    folder = tmp_path / "t" / "bucket-0"
    lost = folder / f"{files_of(table)[0].file_name}-0123456789ab-1.index"
    lost.write_bytes(b"of a task that was tried again")
    for path in folder.iterdir():
        os.utime(path, (10**9, 10**9))
    remove_orphan_files(table)
    assert not lost.exists()
    assert len(list(folder.glob("*.index"))) == 4  # older snapshots need them
    expire_snapshots(table, Retention(1, 1, timedelta(0), 100))
    remove_orphan_files(table)
    assert {path.name for path in folder.iterdir()} >= {n for file in files_of(table) for n in file.extra_files}
    assert len(read(load_table(table.path), Leaf("ge", "k", (0,)))) == 100
