"""VARIANT columns written shredded: by a schema of the options or by one of the first rows, on write and compaction."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.variant_utils import VariantUtils

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, IntType, RowType, VariantType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.variant_shredding import unshredded
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.seeds import chance
from tests.support.variants import plain, shredding_schema

SCHEMA = shredding_schema(v={"a": "BIGINT", "b": ["STRING"], "c": {"x": "DECIMAL(9, 2)", "y": "VARIANT"}})
CONFIGURED = {"variant.shreddingSchema": SCHEMA}
INFERRED = {"variant.inferShreddingSchema": "true"}


def variants(values: list[Any]) -> pa.Array:
    parsed = [VariantUtils.parse_json(json.dumps(value)) for value in values]
    rows = [{"value": value, "metadata": metadata} for value, metadata in parsed]
    kind = to_arrow_schema([DataField(0, "v", VariantType())]).field("v").type
    return pa.array([None if value is None else row for value, row in zip(values, rows, strict=True)], kind)


def value_of(random: Any, options: dict[str, str]) -> Any:
    """Mostly what the schema expects; where it is inferred, always an object: else nothing would be shredded."""
    if random.random() < 0.15:
        others = [5, "text", [1, "x", {}], 2.5] if options == CONFIGURED else []
        return random.choice([None, {}, {"a": None}, *others])
    value: dict[str, Any] = {"a": random.choice([1, -(2**40), "no", 1.5]), "rest": random.random() < 0.5}
    if random.random() < 0.8:
        value["b"] = [random.choice(["x", "yy", 3]) for _ in range(random.randrange(4))]
    if random.random() < 0.8:
        value["c"] = {"x": random.choice([1.25, 7, 1e20, None]), "y": random.choice([[1], {"z": "deep"}, "q"])}
    return value


def make(path: Path, options: dict[str, str], key: str = "") -> FileStoreTable:
    fields = [DataField(0, "k", IntType(nullable=not key)), DataField(1, "v", VariantType())]
    keys = (key,) if key else ()
    return create_table(str(path / "t"), create_schema(fields, keys, (), {"bucket": "1", **options}, None))


def write(table: FileStoreTable, rows: dict[int, Any]) -> None:
    data = pa.table([pa.array(rows, pa.int32()), variants(list(rows.values()))], to_arrow_schema(table.schema.fields))
    plan = plan_write(table, data_schema=data.schema)
    commit(table, [write_batches(plan, iter(data.to_batches()), 0)])


def read(table: FileStoreTable) -> dict[int, Any]:
    view = find_view(None)
    assert view is not None
    plan = plan_of(table, view)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    found = pa.Table.from_batches(batches, to_arrow_schema(plan.fields)).combine_chunks()
    return dict(zip(found["k"].to_pylist(), plain(found["v"].combine_chunks()), strict=True))


def kinds_of_files(table: FileStoreTable) -> list[str]:
    """The types that the files of a table have for the column."""
    view = find_view(None)
    assert view is not None
    files = [file for split in plan_of(table, view).splits for file in split.files]
    return [str(pq.read_schema(file.path).field("v").type) for file in files]


@pytest.mark.parametrize("options", [CONFIGURED, INFERRED], ids=["configured", "inferred"])
@pytest.mark.parametrize("key", ["", "k"], ids=["append", "key"])
def test_values_come_back(tmp_path: Path, options: dict[str, str], key: str) -> None:
    random = chance("shredded", key, *options)
    bucket = {} if key else {"bucket": "-1", "compaction.min.file-num": "2"}
    table = make(tmp_path, {**options, **bucket}, key)
    rows = {k: value_of(random, options) for k in range(60)}
    write(table, rows)
    more = {k: value_of(random, options) for k in range(40 if key else 60, 80)}
    write(table, more)
    rows |= more
    assert all("typed_value" in kind for kind in kinds_of_files(table))
    assert read(table) == rows
    compact(table, full=True)
    assert len(kinds_of_files(table)) == 1
    assert "typed_value" in kinds_of_files(table)[0]
    assert read(table) == rows


@pytest.mark.parametrize("options", [{}, {"variant.shreddingSchema": '{"type": "ROW", "fields": []}'}], ids=str)
def test_other_columns_stay_whole(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, options)
    write(table, {1: {"a": 1}})
    assert "typed_value" not in kinds_of_files(table)[0]
    assert read(table) == {1: {"a": 1}}


def test_columns_have_javas_names_and_ids(tmp_path: Path) -> None:
    """As ``ParquetSchemaConverter`` writes the row types of ``PaimonShreddingUtils``."""
    table = make(tmp_path, CONFIGURED)
    write(table, {1: {"a": 1}})
    view = find_view(None)
    assert view is not None
    path = plan_of(table, view).splits[0].files[0].path
    text = str(pq.ParquetFile(path).schema)
    assert "optional group field_id=1 v {" in text
    for line in (
        "required binary field_id=0 metadata;",
        "optional binary field_id=1 value;",
        "optional group field_id=2 typed_value {",
        "required group field_id=1 a {",
        "optional binary field_id=0 value;",
        "optional int64 field_id=1 typed_value;",
        "required group field_id=3 c {",
        "required group field_id=5 y {",
    ):
        assert line in text, text


def test_the_first_rows_say_what_is_inferred(tmp_path: Path) -> None:
    fields = [DataField(0, "v", VariantType()), DataField(1, "s", RowType((DataField(2, "w", VariantType()),)))]
    options = {**INFERRED, "variant.shredding.maxInferBufferRow": "10"}
    path = str(tmp_path / "x.parquet")
    writer = create_data_file(FileIO.for_path(path), path, "parquet", fields, options=options)
    values = [{"n": i} for i in range(10)] + [{"late": "x"}] * 10
    nested = pa.StructArray.from_arrays([variants(values)], fields=[to_arrow_schema(fields).field("s").type.field(0)])
    data = pa.table([variants(values), nested], schema=to_arrow_schema(fields))
    for start in range(0, 20, 3):
        writer.write(data.slice(start, 3))
    writer.close()
    kinds = pq.read_schema(path)
    assert [field.name for field in kinds.field("v").type.field("typed_value").type] == ["n"]
    assert "typed_value" in str(kinds.field("s").type)
    with open_data_file(FileIO.for_path(path), path, "parquet") as reader:
        (batch,) = reader.read_batches(fields)
    assert plain(batch.column("v")) == values
    assert plain(batch.column("s").field("w")) == values


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"variant.shreddingSchema": "ROW<v INT>"}, "must be a ROW type in JSON"),
        ({"variant.shreddingSchema": '"INT"'}, "It is INT"),
        ({**INFERRED, "variant.shredding.maxSchemaWidth": "0"}, "must be at least 1"),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, options: dict[str, str], text: str) -> None:
    table = make(tmp_path, {}).with_options(options)
    with pytest.raises(OptionError, match=text):
        write(table, {1: 5})


@pytest.mark.oracle
@pytest.mark.parametrize("options", [CONFIGURED, INFERRED], ids=["configured", "inferred"])
def test_java_goes_on_with_our_files_and_we_with_javas(oracle: Any, options: dict[str, str]) -> None:
    """Both write and compact one table with keys in turn; each reads what the other has written."""
    random = chance("shredded", "oracle", *options)
    name = oracle.fresh_name("variants")
    oracle.create(name, [("k", "INT"), ("v", "VARIANT")], pk=("k",), options={"bucket": "1", **options})
    table = load_table(oracle.location(name).removeprefix("file:"))
    rows: dict[int, Any] = {}
    for turn in range(4):
        more = {k: value_of(random, options) for k in range(20 * turn, 20 * turn + 40)}
        rows |= more
        if turn % 2:
            data = pa.table({"k": pa.array(more, pa.int32()), "v": variants(list(more.values()))})
            oracle.write(name, data)
        else:
            write(table, more)
        found = oracle.read(name)
        seen = dict(zip(found["k"].to_pylist(), plain(found["v"].combine_chunks()), strict=True))
        assert seen == rows
        assert read(table) == rows
    compact(table, full=True)
    found = oracle.read(name)
    assert dict(zip(found["k"].to_pylist(), plain(found["v"].combine_chunks()), strict=True)) == rows
    oracle.compact(name)
    assert read(table) == rows


@pytest.mark.oracle
def test_java_reads_typed_columns_of_every_type(oracle: Any) -> None:
    """Of the types that files get by inference, and of smaller ones that a schema names."""
    kinds = {"inferred": INFERRED, "named": {"variant.shreddingSchema": json.dumps(row_schema(NAMED))}}
    group = [pa.field(name, pa.struct([("typed_value", array.type)])) for name, array in TYPED.items()]
    typed = pa.StructArray.from_arrays(
        [pa.StructArray.from_arrays([array], ["typed_value"]) for array in TYPED.values()], fields=group
    )
    metadata = pa.array([VariantUtils.parse_json(json.dumps(dict.fromkeys(TYPED)))[1]] * 3, pa.binary())
    values = unshredded(pa.StructArray.from_arrays([metadata, typed], ["metadata", "typed_value"]))
    for options in kinds.values():
        name = oracle.fresh_name("variants")
        oracle.create(name, [("k", "INT"), ("v", "VARIANT")], options={"bucket": "-1", **options})
        table = load_table(oracle.location(name).removeprefix("file:"))
        data = pa.table([pa.array([0, 1, 2], pa.int32()), values], to_arrow_schema(table.schema.fields))
        plan = plan_write(table, data_schema=data.schema)
        commit(table, [write_batches(plan, iter(data.to_batches()), 0)])
        (kind,) = kinds_of_files(table)
        assert kind.count("typed_value") == len(TYPED) - 2  # of the column, and of each type but bytes and timestamps
        found = oracle.read(name)["v"].combine_chunks()
        assert plain(found) == plain(values)
        assert list(read(table).values()) == plain(values)


TYPED = {
    "bool": pa.array([True, False, True]),
    "bytes": pa.array([b"", b"\x00\xff", b"q" * 300]),
    "date": pa.array([0, -1, 19000], pa.int32()).view(pa.date32()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-999.99"), Decimal("0.01")], pa.decimal128(9, 2)),
    "double": pa.array([0.0, -1.5, float("inf")]),
    "float": pa.array([0.0, -1.5, 2.25], pa.float32()),
    "instant": pa.array([1_600_000_000_123_000, 0, -1000], pa.int64()).view(pa.timestamp("us", "UTC")),
    "int": pa.array([1, -128, 127]),
    "large": pa.array([Decimal(10) ** 37, Decimal(-1), Decimal(2**63)], pa.decimal128(38, 0)),
    "text": pa.array(["", "é" * 40, "z" * 700]),
    "time": pa.array([1_600_000_000_123_000, 0, -1000], pa.int64()).view(pa.timestamp("us")),
}
NAMED = {
    "bool": "BOOLEAN", "bytes": "VARBINARY(9)", "date": "DATE", "decimal": "DECIMAL(5, 2)", "double": "DOUBLE",
    "float": "FLOAT", "instant": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "int": "TINYINT", "large": "DECIMAL(38, 0)",
    "text": "CHAR(3)", "time": "TIMESTAMP(3)",
}  # fmt: skip


def row_schema(names: dict[str, str]) -> dict[str, Any]:
    """The schema of a column `v` with these fields."""
    fields = [{"id": at, "name": name, "type": kind} for at, (name, kind) in enumerate(names.items(), 1)]
    return {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": fields}}]}
