"""Databases and tables of a warehouse by name: no name leads elsewhere, and nothing goes that is no Paimon table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.storage import local_files
from paimon_spark.table import filesystem_catalog
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.new_schema import undo_create
from paimon_spark.table.paths import is_path_name, parse_table_path
from paimon_spark.table.table import create_table

BAD = ["", " ", ".", "..", "../evil", "a/b", "/abs", "a\\b", "a\0b", "a\nb", "a\x1fb", "a\u2028b", "\ud800", "x" * 300]
BAD_NEW = [*BAD, "a:b", "ü" * 127]


def _schema() -> TableSchema:
    return create_schema([DataField(0, "id", IntType())])


@pytest.fixture
def catalog(tmp_path: Path) -> FilesystemCatalog:
    """A warehouse with the database d, its table t, and a neighbour that nobody may touch."""
    (tmp_path / "evil").mkdir()
    catalog = FilesystemCatalog(str(tmp_path / "wh"))
    catalog.create_database("d")
    catalog.create_table("d", "t", _schema())
    return catalog


@pytest.mark.parametrize("name", [*BAD_NEW, "a$b", "t$branch_x", "t$files"])
def test_no_table_is_made_or_renamed_to_a_name_that_leads_elsewhere(catalog: FilesystemCatalog, name: str) -> None:
    before = sorted(Path(catalog.warehouse).parent.rglob("*"))
    with pytest.raises(SchemaError):
        catalog.create_table("d", name, _schema())
    with pytest.raises(SchemaError):
        catalog.rename_table("d", "t", "d", name)
    assert sorted(Path(catalog.warehouse).parent.rglob("*")) == before


@pytest.mark.parametrize("name", BAD_NEW)
def test_no_database_is_made_of_a_name_that_leads_elsewhere(catalog: FilesystemCatalog, name: str) -> None:
    before = sorted(Path(catalog.warehouse).parent.rglob("*"))
    with pytest.raises(SchemaError):
        catalog.create_database(name)
    with pytest.raises(PaimonError):
        catalog.rename_table("d", "t", name, "u")
    with pytest.raises(PaimonError):
        catalog.drop_database(name, cascade=True)
    assert not catalog.table_exists(name, "t")
    assert sorted(Path(catalog.warehouse).parent.rglob("*")) == before


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_dropped_by_a_name_that_leads_elsewhere(catalog: FilesystemCatalog, name: str) -> None:
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("d", name)
    assert catalog.tables("d") == ["t"]


@pytest.mark.parametrize("name", ["a b", ".hidden", "ü", "x" * 250, "1", "a'b", "a%2Fb"])
def test_names_that_java_takes_are_taken(catalog: FilesystemCatalog, name: str) -> None:
    catalog.create_table("d", name, _schema())
    assert catalog.tables("d") == sorted(["t", name])
    catalog.drop_table("d", name)
    assert catalog.tables("d") == ["t"]


@pytest.mark.parametrize("path", ["..", "/..", "/wh/d.db/..", "/wh/d.db/.", ""])
def test_a_path_that_ends_in_dots_names_no_table(path: str) -> None:
    with pytest.raises(PaimonError, match="Cannot read a table name"):
        parse_table_path(path)


def test_a_path_of_a_new_table_ends_in_a_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="control characters"):
        create_table(f"{tmp_path}/a\nb", _schema())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../evil", "a/b", "./a", "~/a", "a/"])
def test_a_name_with_a_slash_is_a_whole_path(name: str) -> None:
    with pytest.raises(SchemaError, match="named by the whole of it"):
        is_path_name(name)


@pytest.mark.parametrize(
    ("name", "is_path"), [("/wh/d.db/t", True), ("s3://b/t", True), ("file:/t", True), ("t", False), ("t$files", False)]
)
def test_whole_paths_are_paths(name: str, *, is_path: bool) -> None:
    assert is_path_name(name) is is_path


@pytest.mark.parametrize("other", ["notes.txt", "parquet_files/part-0.parquet", ".hidden", "t2/data.csv"])
def test_a_database_with_anything_else_in_it_stays(catalog: FilesystemCatalog, other: str) -> None:
    database = Path(catalog.database_path("d"))
    file = database / other
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(PaimonError, match=rf"what is no Paimon table: {other.split('/')[0]}"):
        catalog.drop_database("d", cascade=True)
    assert catalog.tables("d") == ["t"]
    catalog.drop_table("d", "t")
    with pytest.raises(PaimonError, match=rf"not empty.*{other.split('/')[0]}"):
        catalog.drop_database("d")
    assert file.read_text() == "mine"


def test_a_database_goes_when_only_tables_and_empty_directories_are_in_it(catalog: FilesystemCatalog) -> None:
    (Path(catalog.database_path("d")) / "empty").mkdir()
    with pytest.raises(PaimonError, match="drop its tables first, or use CASCADE"):
        catalog.drop_database("d")
    catalog.drop_database("d", cascade=True)
    assert catalog.databases() == ["default"]
    assert not Path(catalog.database_path("d")).exists()


def test_a_database_that_is_a_link_elsewhere_loses_nothing_but_its_tables(
    catalog: FilesystemCatalog, tmp_path: Path
) -> None:
    (tmp_path / "evil" / "keep").mkdir()
    os.symlink(tmp_path / "evil", Path(catalog.warehouse) / "linked.db")
    os.symlink(tmp_path / "evil" / "keep", Path(catalog.database_path("d")) / "link")
    catalog.drop_database("d", cascade=True)
    catalog.drop_database("linked", cascade=True)
    assert catalog.databases() == ["default"]
    assert (tmp_path / "evil").is_dir()


def test_a_table_that_could_not_be_deleted_is_not_called_dropped(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "delete", lambda path, *, recursive: None)
    with pytest.raises(PaimonError, match="is not dropped"):
        catalog.drop_table("d", "t")
    assert catalog.tables("d") == ["t"]


def test_a_table_that_could_not_be_filled_leaves_what_was_there_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("letter.txt", "data/part-0.parquet", "bucket-list.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    table = create_table(str(home), _schema())
    (home / "bucket-0").mkdir()
    (home / "bucket-0" / "data-0.parquet").write_text("theirs")
    undo_create(str(home), {})
    assert sorted(path.name for path in home.iterdir()) == ["bucket-list.txt", "data", "letter.txt"]
    undo_create(str(home), {})
    create_table(table.path, _schema())


def test_the_default_database_is_there_and_made_with_its_first_table(tmp_path: Path) -> None:
    catalog = FilesystemCatalog(str(tmp_path / "wh"))
    assert (catalog.databases(), catalog.tables("default")) == (["default"], [])
    assert catalog.database_exists("default")
    with pytest.raises(PaimonError, match="already exists"):
        catalog.create_database("default")
    assert not (tmp_path / "wh").exists()
    catalog.create_database("d")
    catalog.create_table("d", "t", _schema())
    catalog.rename_table("d", "t", "default", "moved")
    catalog.create_table("default", "t", _schema())
    assert (catalog.databases(), catalog.tables("default")) == (["d", "default"], ["moved", "t"])
    catalog.drop_database("default", cascade=True)
    assert (catalog.databases(), catalog.tables("default")) == (["d", "default"], [])


def test_tables_of_a_local_disk_are_found_without_threads(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(catalog.database_path("d")) / "no_table").mkdir()
    monkeypatch.setattr(filesystem_catalog, "ThreadPoolExecutor", None)
    assert catalog.tables("d") == ["t"]
    assert catalog.tables("default") == []
