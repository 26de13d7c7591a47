"""Names and paths of a table's files."""

from __future__ import annotations

import pytest

from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.table.paths import TableName, TablePaths, parse_table_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/wh/db.db/t", TableName("/wh/db.db/t")),
        ("/wh/db.db/t/", TableName("/wh/db.db/t")),
        ("s3://b/wh/t$branch_b1", TableName("s3://b/wh/t", "b1")),
        ("/wh/t$snapshots", TableName("/wh/t", "main", "snapshots")),
        ("/wh/t$branch_b1$files", TableName("/wh/t", "b1", "files")),
        ("t", TableName("t")),
        ("/wh/a$b/t", TableName("/wh/a$b/t")),
        ("s3://b//wh///db.db/t//", TableName("s3://b/wh/db.db/t")),
        ("file:///wh//t", TableName("file:///wh/t")),
        ("//wh//t", TableName("//wh/t")),
    ],
)
def test_a_path_names_table_branch_and_system_table(path: str, expected: TableName) -> None:
    assert parse_table_path(path) == expected


@pytest.mark.parametrize("path", ["/wh/t$a$b", "/wh/$snapshots", "/wh/t$branch_a$b$c"])
def test_a_path_that_names_no_table_is_refused(path: str) -> None:
    with pytest.raises(PaimonError, match="Cannot read a table name"):
        parse_table_path(path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\\b", "a\0"])
def test_a_name_from_a_file_never_leads_elsewhere(name: str) -> None:
    paths = TablePaths("/t")
    for make in (paths.manifest_path, paths.index_path, paths.statistics_path):
        with pytest.raises(CorruptTableError):
            make(name)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "a\0b"])
def test_a_tag_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(PaimonError, match="Tag name"):
        TablePaths("/t").tag_path(name)


def test_branches_share_data_but_not_metadata() -> None:
    main, branch = TablePaths("/t"), TablePaths("/t", "b")
    assert main.snapshot_path(3) == "/t/snapshot/snapshot-3"
    assert branch.snapshot_path(3) == "/t/branch/branch-b/snapshot/snapshot-3"
    assert branch.schema_path(0) == "/t/branch/branch-b/schema/schema-0"
    assert branch.tag_path("x y") == "/t/branch/branch-b/tag/tag-x y"
    assert branch.manifest_path("m") == main.manifest_path("m") == "/t/manifest/m"
    assert main.for_branch("b") == branch
