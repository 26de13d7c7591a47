"""A store with S3's protocol: directories that are objects, moves that copy, and one winner of each creation."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

from paimon_spark.errors import CorruptTableError, PaimonError, TableNotFoundError
from paimon_spark.maintain.refs.branches import create_branch, rename_branch
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage import tree_changes
from paimon_spark.storage.file_io import FileIO, FsspecFileIO
from paimon_spark.storage.formats import check_sizes
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.table import load_table
from tests.support.s3_server import BUCKET, S3Server
from tests.support.store_servers import store_server

ROOT = f"s3a://{BUCKET}/wh"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with store_server("s3") as running:
        assert isinstance(running, S3Server)
        yield running


@pytest.fixture
def file_io(server: S3Server) -> Iterator[FileIO]:
    file_io = FileIO.for_path(ROOT, server.options)
    yield file_io
    file_io.delete_quietly(ROOT, recursive=True)
    assert server.store().find(BUCKET) == []


def names(file_io: FileIO, path: str) -> list[str]:
    return sorted(status.name for status in file_io.list_names(path))


def test_an_empty_database_is_there(server: S3Server, file_io: FileIO) -> None:
    catalog = FilesystemCatalog(ROOT, server.options)
    catalog.create_database("d")
    assert catalog.databases() == ["d", "default"]
    assert catalog.database_exists("d")
    assert catalog.is_empty("d")
    assert server.store().call_s3("list_objects_v2", Bucket=BUCKET)["Contents"][0]["Key"] == "wh/d.db/"  # as s3a's
    with pytest.raises(PaimonError, match="already exists"):
        catalog.create_database("d")
    catalog.drop_database("d")
    assert catalog.databases() == ["default"]
    assert not file_io.exists(f"{ROOT}/d.db")


def test_a_directory_that_holds_something_gets_no_object(server: S3Server, file_io: FileIO) -> None:
    file_io.write_bytes(f"{ROOT}/d/a/file", b"1")
    file_io.mkdirs(f"{ROOT}/d")
    file_io.mkdirs(f"s3a://{BUCKET}")
    assert server.store().find(BUCKET) == [f"{BUCKET}/wh/d/a/file"]


def fill(file_io: FileIO) -> None:
    for name in ("schema/schema-0", "snapshot/snapshot-1", "bucket-0/data-[1]*.parquet", "bucket-0/data-2.parquet"):
        file_io.write_bytes(f"{ROOT}/old/{name}", name.encode())


@pytest.mark.parametrize("name", ["p?", "p*", "p[x]"])
def test_a_directory_whose_name_is_a_pattern_goes_whole(file_io: FileIO, name: str) -> None:
    file_io.mkdirs(f"{ROOT}/{name}/empty")
    for key in ("px/kept", f"{name}/a", f"{name}/b/c/d", f"{name}/z"):
        file_io.write_bytes(f"{ROOT}/{key}", b"1")
    assert file_io.delete_quietly(f"{ROOT}/{name}", recursive=True)
    assert names(file_io, ROOT) == ["px"]


def test_slashes_are_taken_for_one(server: S3Server, file_io: FileIO) -> None:
    """As Java does: tables of such a warehouse are found by both, and go with a drop."""
    catalog = open_catalog(f"s3a://{BUCKET}//wh//", server.options)
    catalog.create_database("d")
    catalog.create_table("d", "t", create_schema([DataField(0, "k", IntType())]))
    assert load_table(f"{ROOT}//d.db//t", options=server.options).path == f"{ROOT}/d.db/t"
    assert FilesystemCatalog(ROOT, server.options).tables("d") == ["t"]
    catalog.drop_database("d", cascade=True)
    assert names(file_io, ROOT) == []


def test_a_move_copies_and_deletes(server: S3Server, file_io: FileIO) -> None:
    fill(file_io)
    file_io.write_bytes(f"{ROOT}/older/file", b"stays")
    file_io.rename(f"{ROOT}/old", f"{ROOT}/new")
    assert names(file_io, ROOT) == ["new", "older"]
    assert names(file_io, f"{ROOT}/new/bucket-0") == ["data-2.parquet", "data-[1]*.parquet"]
    assert file_io.read_bytes(f"{ROOT}/new/bucket-0/data-[1]*.parquet") == b"bucket-0/data-[1]*.parquet"


def test_a_move_to_a_location_that_holds_files_is_refused(file_io: FileIO) -> None:
    fill(file_io)
    file_io.write_bytes(f"{ROOT}/new/left", b"")
    with pytest.raises(PaimonError, match="holds files already, 'left' among them"):
        file_io.rename(f"{ROOT}/old", f"{ROOT}/new")
    assert len(names(file_io, f"{ROOT}/old")) == 3
    with pytest.raises(FileNotFoundError):
        file_io.rename(f"{ROOT}/none", f"{ROOT}/else")


def test_objects_that_stand_for_directories_go_with_a_move(server: S3Server, file_io: FileIO) -> None:
    fill(file_io)
    for name in ("", "bucket-0/", "schema/", "empty/"):  # as s3a leaves them
        server.store().call_s3("put_object", Bucket=BUCKET, Key=f"wh/old/{name}", Body=b"")
    file_io.rename(f"{ROOT}/old", f"{ROOT}/new")
    assert names(file_io, ROOT) == ["new"]
    assert sorted(names(file_io, f"{ROOT}/new")) == ["bucket-0", "schema", "snapshot"]


def test_a_move_that_fails_leaves_the_old_table(file_io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(file_io)
    check = tree_changes.Move._check

    def failing(move: tree_changes.Move, before: Any) -> None:
        check(move, before)
        assert not file_io.list_names(f"{ROOT}/new/schema")  # last: without it nothing is a table
        raise OSError("the store is gone")

    monkeypatch.setattr(tree_changes.Move, "_check", failing)
    with pytest.raises(OSError, match="the store is gone"):
        file_io.rename(f"{ROOT}/old", f"{ROOT}/new")
    assert names(file_io, ROOT) == ["old"]
    assert len(names(file_io, f"{ROOT}/old")) == 3


def test_a_commit_during_a_move_stops_it(file_io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(file_io)
    copy = tree_changes.Move._copy

    def meanwhile(*given: Any) -> None:
        copy(*given)
        file_io.write_bytes(f"{ROOT}/old/snapshot/snapshot-2", b"2", overwrite=True)

    monkeypatch.setattr(tree_changes.Move, "_copy", meanwhile)
    with pytest.raises(PaimonError, match="was changed by another job while it was copied"):
        file_io.rename(f"{ROOT}/old", f"{ROOT}/new")
    assert names(file_io, ROOT) == ["old"]
    assert names(file_io, f"{ROOT}/old/snapshot") == ["snapshot-1", "snapshot-2"]


class Stopped(BaseException):
    """The process ends."""


@pytest.mark.parametrize("step", ["_clear", "_release"])
def test_a_rename_that_was_stopped_is_finished_by_the_next(
    server: S3Server, file_io: FileIO, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    catalog = FilesystemCatalog(ROOT, server.options)
    catalog.create_database("d")
    table = catalog.create_table("d", "old", create_schema([DataField(0, "a", IntType())]))
    create_branch(table, "b")

    def stopped(*given: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(tree_changes.Move, step, stopped)
        with pytest.raises(Stopped):
            rename_branch(table, "b", "c")
        assert table.branches.names() == ["b", "c"]
    rename_branch(table, "b", "c")
    assert table.branches.names() == ["c"]
    with monkeypatch.context() as patch:
        patch.setattr(tree_changes.Move, step, stopped)
        with pytest.raises(Stopped):
            catalog.rename_table("d", "old", "d", "new")
    assert catalog.tables("d") == (["new", "old"] if step == "_clear" else ["new"])
    catalog.rename_table("d", "old", "d", "new")
    assert names(file_io, f"{ROOT}/d.db") == ["new"]
    assert names(file_io, f"{ROOT}/d.db/new") == ["branch", "schema"]
    with pytest.raises(TableNotFoundError):
        catalog.rename_table("d", "old", "d", "new")


def test_sizes_of_files_are_checked_by_listing(file_io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {f"{ROOT}/t/bucket-{bucket}/data-{n}.parquet": 3 for bucket in range(2) for n in range(3)}
    for path in sizes:
        file_io.write_bytes(path, b"123")
    monkeypatch.setattr(FsspecFileIO, "size", None)  # one request for each file
    check_sizes(file_io, {**sizes, f"{ROOT}/t/bucket-7/missing.parquet": 3})
    file_io.write_bytes(next(iter(sizes)), b"1234", overwrite=True)
    with pytest.raises(CorruptTableError, match="has 4 bytes, but its manifest entry says 3"):
        check_sizes(file_io, sizes)


def created(work: tuple[dict[str, str], int]) -> list[bool]:
    options, worker = work
    file_io = FileIO.for_path(ROOT, options)
    return [file_io.create_exclusive(f"{ROOT}/race/snapshot-{n}", str(worker).encode()) for n in range(10)]


def test_of_several_processes_one_creates_an_object(server: S3Server, file_io: FileIO) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        won = pool.map(created, [(server.options, worker) for worker in range(4)])
    for n, results in enumerate(zip(*won, strict=True)):
        assert sum(results) == 1
        assert file_io.read_bytes(f"{ROOT}/race/snapshot-{n}") == str(results.index(True)).encode()
