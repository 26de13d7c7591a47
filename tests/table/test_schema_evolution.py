"""Changes of a schema: what they make of columns, keys and options, and what is refused with Java's words."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paimon_spark.errors import PaimonError, SchemaChangeError
from paimon_spark.spec.data_types import DataField, RowType
from paimon_spark.spec.schema import TableSchema, check_field_ids, create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from paimon_spark.table.schema_evolution import alter_table, changed_schema
from paimon_spark.table.table import create_table, load_table

INT, BIGINT, STRING = parse_type("INT"), parse_type("BIGINT"), parse_type("STRING")
NESTED = parse_type(
    {
        "type": "ROW",
        "fields": [
            {"id": 0, "name": "x", "type": "INT"},
            {
                "id": 1,
                "name": "y",
                "type": {
                    "type": "ARRAY",
                    "element": {"type": "ROW", "fields": [{"id": 2, "name": "z", "type": "INT"}]},
                },
            },
        ],
    }
)


def column(name: str, data_type: object) -> DataField:
    return DataField(-1, name, parse_type(data_type))


@pytest.fixture
def schema() -> TableSchema:
    """Columns k (key), v, s (sequence group of v), r (ROW), a (ARRAY), m (MAP), p (partition)."""
    fields = [
        column("k", "INT"),
        column("v", "STRING"),
        column("s", "INT"),
        DataField(-1, "r", NESTED),
        column("a", {"type": "ARRAY", "element": "INT"}),
        column("m", {"type": "MAP", "key": "STRING", "value": "INT"}),
        column("p", "STRING"),
    ]
    options = {
        "bucket": "1",
        "bucket-key": "k",
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v",
        "fields.v.aggregate-function": "max",
    }
    return create_schema(fields, ["p", "k"], ["p"], options)


def change(schema: TableSchema, *changes: SchemaChange, has_snapshots: bool = True) -> TableSchema:
    return changed_schema(schema, changes, has_snapshots=has_snapshots, table_name="db.t")


def test_a_change_is_the_next_schema(schema: TableSchema) -> None:
    after = change(schema, AddColumn(("n",), INT, "new", Position("k")), UpdateColumnComment(("v",), "text"))
    assert after.id == schema.id + 1
    assert after.field_names == ("k", "n", "v", "s", "r", "a", "m", "p")
    assert after.field("n").id == schema.highest_field_id + 1 == after.highest_field_id
    assert (after.field("n").description, after.field("v").description) == ("new", "text")


def test_renames_follow_into_keys_and_options(schema: TableSchema) -> None:
    after = change(schema, RenameColumn(("k",), "key"), RenameColumn(("v",), "w"), RenameColumn(("s",), "seq"))
    assert after.primary_keys == ("p", "key")
    assert after.options["bucket-key"] == "key"
    assert after.options["fields.seq.sequence-group"] == "w"
    assert after.options["fields.w.aggregate-function"] == "max"
    assert [f.id for f in after.fields] == [f.id for f in schema.fields]


def test_names_can_change_places(schema: TableSchema) -> None:
    after = change(schema, RenameColumn(("a",), "b"), RenameColumn(("m",), "a"), RenameColumn(("b",), "m"))
    assert (after.field("m").id, after.field("a").id) == (schema.field("a").id, schema.field("m").id)


def test_nested_fields(schema: TableSchema) -> None:
    after = change(
        schema,
        AddColumn(("r", "y", "element", "q"), STRING, position=Position()),
        RenameColumn(("r", "x"), "xx"),
        UpdateColumnType(("r", "xx"), BIGINT),
        UpdateColumnType(("a", "element"), BIGINT),
        UpdateColumnType(("m", "value"), BIGINT),
        UpdateColumnPosition(("r", "y"), Position()),
    )
    assert after.field("r").type.sql() == "ROW<`y` ARRAY<ROW<`q` STRING, `z` INT>>, `xx` BIGINT>"
    assert after.field("a").type.sql() == "ARRAY<BIGINT>"
    assert after.field("m").type.sql() == "MAP<STRING, BIGINT>"
    check_field_ids(after.fields)
    dropped = change(after, DropColumn(("r", "y")))
    row = dropped.field("r").type
    assert isinstance(row, RowType)
    assert row.field_names == ("xx",)


def test_ids_of_dropped_columns_are_not_used_again(schema: TableSchema) -> None:
    dropped = change(schema, DropColumn(("a",)))
    again = change(dropped, AddColumn(("a",), parse_type({"type": "ARRAY", "element": "INT"})))
    assert again.field("a").id > schema.highest_field_id


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (Position(), ("a", "k", "v", "s", "r", "m", "p")),
        (Position("k"), ("k", "a", "v", "s", "r", "m", "p")),
        (Position("p"), ("k", "v", "s", "r", "m", "p", "a")),
    ],
)
def test_positions(schema: TableSchema, position: Position, names: tuple[str, ...]) -> None:
    assert change(schema, UpdateColumnPosition(("a",), position)).field_names == names


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (DropColumn(("k",)), "Cannot drop partition key or primary key: [k]"),
        (DropColumn(("p",)), "Cannot drop partition key or primary key: [p]"),
        (RenameColumn(("p",), "q"), "Cannot rename partition column: [p]"),
        (RenameColumn(("v",), "s"), "Column s already exists in the db.t table."),
        (AddColumn(("v",), INT), "Column v already exists in the db.t table."),
        (AddColumn(("n",), INT.with_nullable(False)), "Column n cannot specify NOT NULL in the db.t table"),
        (AddColumn(("n",), INT, position=Position("nope")), "Column nope does not exist in the db.t table."),
        (DropColumn(("nope",)), "Column nope does not exist in the db.t table."),
        (DropColumn(("r", "nope")), "Column r.nope does not exist in the db.t table."),
        (DropColumn(("a", "element")), "a.element is what a holds"),
        (UpdateColumnType(("p",), INT), "Cannot update partition column: [p]"),
        (UpdateColumnType(("k",), BIGINT), "Cannot update primary key"),
        (UpdateColumnType(("s",), parse_type("DATE")), "cannot be converted to DATE without losing information"),
        (UpdateColumnNullability(("k",), nullable=True), "Cannot change nullability of primary key"),
        (UpdateColumnNullability(("s",), nullable=False), "Cannot update column type from nullable to non nullable"),
        (UpdateColumnPosition(("a",), Position("a")), "Cannot move itself for column a"),
        (UpdateColumnDefault(("s",), "x"), "Unsupported default value `x` for type INT"),
        (SetOption("merge-engine", "first-row"), "Change 'merge-engine' is not supported yet"),
        (SetOption("primary-key", "v"), "Change 'primary-key' is not supported yet"),
        (SetOption("bucket", "-1"), "Cannot change bucket to -1."),
        (SetOption("path", "/x"), "Change path is not supported yet."),
        (SetOption("write-only", "maybe"), "Could not parse value 'maybe' for key 'write-only'"),
        (RemoveOption("bucket"), "Cannot reset bucket."),
        (RemoveOption("merge-engine"), "Change 'merge-engine' is not supported yet"),
        (SetOption("merge_engine", "first-row"), "Did you mean 'merge-engine'?"),
        (SetOption("fields.v.sequence_group", "a"), "Did you mean 'fields.v.sequence-group'?"),
        (SetOption("fields.nope.sequence-group", "a"), "Field nope can not be found in table schema"),
        (SetOption("fields.a.sequence-group", "nope"), "Field nope can not be found in table schema"),
        (DropColumn(("v",)), "Field v can not be found in table schema"),
    ],
)
def test_refusals(schema: TableSchema, refused: SchemaChange, words: str) -> None:
    with pytest.raises(PaimonError) as error:
        change(schema, refused)
    assert words in str(error.value)


def test_what_is_allowed_depends_on_options_and_data(schema: TableSchema) -> None:
    nullable = change(schema, SetOption("alter-column-null-to-not-null.disabled", "false"))
    assert not change(nullable, UpdateColumnNullability(("s",), nullable=False)).field("s").type.nullable
    strict = change(schema, SetOption("disable-explicit-type-casting", "true"))
    assert change(strict, UpdateColumnType(("s",), BIGINT)).field("s").type == BIGINT
    with pytest.raises(SchemaChangeError, match="without losing information"):
        change(strict, UpdateColumnType(("s",), parse_type("SMALLINT")))
    empty = change(schema, SetOption("ignore-delete", "true"), has_snapshots=False)
    with pytest.raises(SchemaChangeError, match="Cannot change ignore-delete from true to false"):
        change(empty, SetOption("ignore-delete", "false"))


def test_setting_what_is_set_and_the_comment(schema: TableSchema) -> None:
    after = change(schema, SetOption("primary-key", "p, k"), SetOption("merge-engine", "partial-update"))
    assert after.options == schema.options
    assert change(schema, SetOption("comment", "hi")).comment == "hi"
    assert change(change(schema, SetOption("comment", "hi")), RemoveOption("comment")).comment is None


def test_a_sequence_group_may_be_added_and_properties_of_ones_own_kept(schema: TableSchema) -> None:
    after = change(schema, SetOption("fields.a.sequence-group", "m"), SetOption("team", "blue"))
    assert (after.options["fields.a.sequence-group"], after.options["team"]) == ("m", "blue")
    old = change(schema, SetOption("team", "red"))
    java = old.with_options({**old.options, "merge_engine": "x"})  # Java keeps every key
    assert change(java, SetOption("merge_engine", "y")).options["merge_engine"] == "y"
    assert "merge_engine" not in change(java, RemoveOption("merge_engine")).options


def test_two_sessions_at_once_keep_both_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "db.db" / "t")
    create_table(path, create_schema([column("a", "INT")]))
    tables = [load_table(path) for _ in range(8)]

    def add(number: int) -> None:
        alter_table(tables[number], [AddColumn((f"c{number}",), INT)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    latest = load_table(path).schema
    assert latest.id == 8
    assert set(latest.field_names) == {"a", *(f"c{number}" for number in range(8))}
    check_field_ids(latest.fields)
