"""Opening and creating tables, dynamic options, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spec.data_types import BigIntType, DataField, IntType, VarCharType
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.table.new_schema import new_table_schema
from paimon_spark.table.support import check_readable, check_writable
from paimon_spark.table.table import FileStoreTable, create_table, load_table, table_exists
from tests.support.commits import fake_file, make_table, message
from tests.support.golden import GOLDEN


def schema(primary_keys: tuple[str, ...] = ("id",), **options: str) -> TableSchema:
    fields = [DataField(0, "id", BigIntType()), DataField(1, "v", VarCharType(VarCharType.MAX))]
    return create_schema(fields, primary_keys, (), {key.replace("_", "-"): value for key, value in options.items()})


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return create_table(
        str(tmp_path / "t"),
        create_schema(
            [DataField(0, "id", BigIntType()), DataField(1, "v", VarCharType(VarCharType.MAX))],
            ("id",),
            (),
            {"bucket": "2", "ignore-delete": "true", "sequence.field": "v"},
        ),
    )


def test_a_table_is_created_once(tmp_path: Path, table: FileStoreTable) -> None:
    assert table_exists(str(tmp_path / "t"))
    assert load_table(str(tmp_path / "t") + "/").schema == table.schema
    assert sorted(path.name for path in (tmp_path / "t").rglob("*")) == ["schema", "schema-0"]
    with pytest.raises(SchemaError, match="creation is not allowed"):
        create_table(str(tmp_path / "t"), schema())


def test_a_missing_table_or_branch_is_named(tmp_path: Path, table: FileStoreTable) -> None:
    assert not table_exists(str(tmp_path / "nothing"))
    with pytest.raises(TableNotFoundError, match=f"no Paimon table at {tmp_path}/nothing"):
        load_table(str(tmp_path / "nothing"))
    for load in (
        lambda: load_table(f"{tmp_path}/t$branch_b"),
        lambda: load_table(f"{tmp_path}/t", branch="b"),
        lambda: load_table(f"{tmp_path}/t", options={"branch": "b"}),
    ):
        with pytest.raises(TableNotFoundError, match=f"branch 'b' of {tmp_path}/t"):
            load()


def test_a_branch_is_named_in_three_ways() -> None:
    path = str(GOLDEN / "branches" / "table")
    by_path = load_table(f"{path}$branch_b")
    assert by_path.branch == "b"
    assert by_path == load_table(path, branch="b") == load_table(path, options={"branch": "b"})
    assert by_path.snapshots.ids() == [2, 3, 4]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("merge-engine", "partial-update", "Cannot change merge-engine from deduplicate to partial-update."),
        ("bucket-key", "id", "Cannot change bucket-key from its default to id."),
        ("primary-key", "v", "Cannot change primary-key from id to v."),
        ("bucket", "3", "Cannot change bucket from 2 to 3."),
        ("ignore-delete", "false", "Cannot change ignore-delete from true to false."),
        ("deletion-vectors.enabled", "true", "Cannot change deletion-vectors.enabled from false to true."),
    ],
)
def test_an_immutable_option_cannot_change(table: FileStoreTable, key: str, value: str, message: str) -> None:
    with pytest.raises(OptionError) as raised:
        table.with_options({key: value})
    assert str(raised.value).startswith(message)


def test_what_stays_the_same_is_no_change(table: FileStoreTable) -> None:
    same = {
        "merge-engine": "deduplicate",
        "primary-key": " id ",
        "bucket": "2",
        "IGNORE-DELETE": "TRUE",
        "write-only": "true",
        "Scan.Snapshot-Id": "1",
    }
    changed = table.with_options(same)
    assert changed.options["write-only"] == "true"
    assert changed.options["scan.snapshot-id"] == "1"
    assert changed.schema.options["ignore-delete"] == "TRUE"
    assert "ignore-delete" in changed.schema.options
    assert "IGNORE-DELETE" not in changed.schema.options
    assert changed.with_latest_schema().options == table.options
    assert table.with_options({}) is table


def test_options_of_the_store_are_no_options_of_the_table(table: FileStoreTable) -> None:
    opened = load_table(table.path, options={"s3.access-key": "secret", "fs.x": "y", "write-only": "true"})
    assert "s3.access-key" not in opened.schema.options
    assert "fs.x" not in opened.schema.options
    assert opened.options["write-only"] == "true"
    assert "secret" not in repr(opened)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("chain-table.enabled", "true"),
        ("type", "format-table"),
        ("type", "object-table"),
        ("query-auth.enabled", "true"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(key: str, value: str) -> None:
    refused = schema().with_options({key: value})
    with pytest.raises(UnsupportedError, match=rf"option '{key}' = '{value}' is not supported yet\. \w+"):
        check_readable(refused)


def test_an_object_table_is_refused_by_name_though_it_has_no_columns() -> None:
    with pytest.raises(UnsupportedError, match="'type' = 'object-table' is not supported"):
        new_table_schema([], {"type": "object-table"})


@pytest.mark.parametrize("key", ["chain-table.enabled", "query-auth.enabled"])
def test_what_cannot_be_read_cannot_be_written(key: str) -> None:
    with pytest.raises(UnsupportedError, match=f"Writing with option '{key}'"):
        check_writable(schema().with_options({key: "true"}))


def test_governing_needs_a_server(tmp_path: Path) -> None:
    governed = new_table_schema([DataField(0, "k", IntType())], {"query-auth.enabled": "true"})
    with pytest.raises(UnsupportedError, match=r"A table with option 'query-auth\.enabled' = 'true'.*REST"):
        create_table(str(tmp_path / "t"), governed)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_expire_need_a_column_of_their_time() -> None:
    """As in Java the table is there and read, but not written."""
    expiring = schema().with_options({"record-level.expire-time": "1 d"})
    check_readable(expiring)
    with pytest.raises(OptionError, match="You should set time field for record-level expire"):
        check_writable(expiring)


@pytest.mark.parametrize("options", [{}, {"type": "table"}, {"merge-engine": "partial-update"}, {"bucket": "4"}])
def test_plain_tables_are_let_through(options: dict[str, str]) -> None:
    check_readable(schema().with_options(options))
    check_writable(schema().with_options(options))


@pytest.mark.parametrize("where", ["comment", "option", "column", "commit user"])
def test_half_a_surrogate_pair_is_refused_with_its_location(tmp_path: Path, where: str) -> None:
    half = "ab\ud800"
    name = half if where == "column" else "k"
    options = {"my.option": half} if where == "option" else {}
    schema = create_schema([DataField(0, name, IntType())], (), (), options, half if where == "comment" else None)

    def write() -> None:
        if where == "commit user":
            table = make_table(tmp_path / "t")
            commit(table, [message(table, fake_file("a"))], commit_user=half)
        else:
            create_table(str(tmp_path / "t"), schema)

    with pytest.raises(SchemaError, match=r"half of a surrogate pair.*ab.ud800") as caught:
        write()
    str(caught.value).encode("utf-8")
