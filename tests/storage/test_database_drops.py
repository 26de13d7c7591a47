"""DROP DATABASE deletes no table that somebody makes there at that moment, on any store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.storage.file_io import FileIO, FileStatus, FsspecFileIO, LocalFileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, insert, rows_of

Store: TypeAlias = tuple[str, dict[str, str]]
"""A warehouse and the options of its store."""


@pytest.fixture(scope="module", params=["local", *sorted(SERVERS)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "local":
        yield str(tmp_path_factory.mktemp("wh")), {}
        return
    with store_server(request.param) as server:
        yield server.root, server.options


def schema() -> TableSchema:
    return create_schema(FIELDS, ["k"], [], {"bucket": "1"})


@pytest.mark.parametrize("listing", [1, 2, 3, 4])
def test_a_table_that_is_made_meanwhile_stays(store: Store, listing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    root, options = store
    catalog = FilesystemCatalog(root, options)
    catalog.create_database("d")
    insert(catalog.create_table("d", "t", schema()), {1: 1})
    path = catalog.database_path("d")
    made: list[str] = []
    seen = 0
    kind = LocalFileIO if not options else FsspecFileIO
    list_names = kind.list_names

    def listed(self: FileIO, directory: str) -> list[FileStatus]:
        nonlocal seen
        found = list_names(self, directory)
        seen += directory == path
        if directory == path and seen == listing and not made:
            made.append("late")
            insert(FilesystemCatalog(root, options).create_table("d", "late", schema()), {2: 2})
        return found

    monkeypatch.setattr(kind, "list_names", listed)
    with contextlib.suppress(PaimonError):
        catalog.drop_database("d", cascade=True)
    monkeypatch.undo()
    if made:
        assert rows_of(catalog.load_table("d", "late")) == {2: 2}
        catalog.drop_table("d", "late")
        if catalog.database_exists("d"):
            catalog.drop_database("d", cascade=True)
    assert not catalog.database_exists("d")


def test_directories_without_files_go_and_files_stay(store: Store) -> None:
    root, options = store
    io = FileIO.for_path(root, options)
    for directory in ("tree", "tree/a", "tree/a/b", "tree/c"):
        io.mkdirs(f"{root}/{directory}")
    io.write_bytes(f"{root}/tree/c/file", b"x")
    assert not io.delete_empty_tree(f"{root}/tree")
    assert io.read_bytes(f"{root}/tree/c/file") == b"x"
    io.delete_quietly(f"{root}/tree/c/file")
    assert io.delete_empty_tree(f"{root}/tree")
    assert not io.exists(f"{root}/tree")
    assert io.delete_empty_tree(f"{root}/tree"), "what is not there is gone"


def test_only_a_link_to_an_empty_directory_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "empty").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "tree" / "file").symlink_to(tmp_path / "elsewhere" / "missing")
    assert not LocalFileIO().delete_empty_tree(str(tmp_path / "tree"))
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["file", "link"]
    (tmp_path / "tree" / "file").unlink()
    (tmp_path / "elsewhere" / "empty").rmdir()
    assert LocalFileIO().delete_empty_tree(str(tmp_path / "tree"))
    assert (tmp_path / "elsewhere").is_dir()
