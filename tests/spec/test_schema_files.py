"""Schema, snapshot and tag files: byte for byte as Java writes them, old versions, hostile files."""

import json
import pickle
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, SchemaError
from paimon_spark.spec.data_types import DataField, RowType
from paimon_spark.spec.schema import BucketMode, TableSchema, assign_field_ids, create_schema
from paimon_spark.spec.snapshot import CommitKind, Operation, Snapshot
from paimon_spark.spec.tag import Tag
from paimon_spark.spec.type_parser import parse_type
from tests.support.data_types import NAMES, TYPES

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
LONGS = st.integers(-(2**63), 2**63 - 1)


def files(golden: Path, folder: str) -> list[Path]:
    found = sorted(golden.glob(f"*/table/**/{folder}/{folder}-*"))
    assert found
    return found


def test_golden_schemas(golden: Path) -> None:
    current = 0
    for path in files(golden, "schema"):
        data = path.read_bytes()
        schema = TableSchema.from_json(data, path=str(path))
        assert path.name == f"schema-{schema.id}"
        if schema.version == 3:
            current += 1
            assert schema.to_json().encode() == data, path
        else:
            assert schema.options["file.format"]
            assert TableSchema.from_json(schema.to_json()) == schema
            assert json.loads(data)["options"].items() <= schema.options.items()
        if schema.id == 0 and "branch" not in str(path):
            assert assign_field_ids(schema.fields) == (schema.fields, schema.highest_field_id)
    assert current > 140


@pytest.mark.parametrize("folder", ["snapshot", "tag", "changelog"])
def test_golden_snapshots_and_tags(golden: Path, folder: str) -> None:
    for path in files(golden, folder):
        data = path.read_bytes()
        kind = Tag if folder == "tag" else Snapshot
        value = kind.from_json(data, path=str(path))
        if "/old_" in str(path) and ": null" in data.decode().replace(" : ", ": "):
            given = {key: item for key, item in json.loads(data).items() if item is not None}
            assert json.loads(value.to_json()) == given
        else:
            assert value.to_json().encode() == data, path


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    fields = [DataField(0, n, draw(TYPES), draw(st.none() | TEXT), draw(st.none() | TEXT)) for n in names]
    keys = draw(st.lists(st.sampled_from(names), unique=True))
    options = draw(st.dictionaries(TEXT.filter(lambda k: not k.startswith("p")), TEXT, max_size=4))
    return create_schema(fields, keys, (), options, draw(st.none() | TEXT), time_millis=draw(st.integers(0, 2**50)))


@given(schemas(), st.dictionaries(st.sampled_from(["new", "newer"]), st.integers() | TEXT | st.none()))
def test_schema_round_trip(schema: TableSchema, unknown: dict[str, Any]) -> None:
    text = schema.to_json()
    assert json.loads(text)["fields"] == [f.to_json() for f in schema.fields]
    assert TableSchema.from_json(text) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    extended = json.dumps({**json.loads(text), **unknown})
    assert TableSchema.from_json(extended).unknown == unknown
    assert json.loads(TableSchema.from_json(extended).to_json()) == json.loads(extended)


SNAPSHOTS = st.builds(
    Snapshot,
    id=st.integers(1, 2**40),
    schema_id=st.integers(0, 100),
    base_manifest_list=TEXT,
    delta_manifest_list=TEXT,
    commit_user=TEXT,
    commit_identifier=LONGS,
    commit_kind=st.sampled_from(CommitKind),
    time_millis=LONGS,
    total_record_count=LONGS,
    delta_record_count=LONGS,
    uuid=st.none() | TEXT,
    base_manifest_list_size=st.none() | LONGS,
    index_manifest=st.none() | TEXT,
    watermark=st.none() | LONGS,
    properties=st.none() | st.dictionaries(TEXT, TEXT),
    operation=st.none() | st.sampled_from(Operation) | st.just("SOMETHING_NEW"),
    unknown=st.dictionaries(st.just("logOffsets"), st.dictionaries(TEXT, st.integers())),
)


@given(SNAPSHOTS)
def test_snapshot_round_trip(snapshot: Snapshot) -> None:
    assert Snapshot.from_json(snapshot.to_json().encode()) == snapshot
    assert next(iter(json.loads(snapshot.to_json()))) == "version"
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot


@given(SNAPSHOTS, st.datetimes(), st.timedeltas(timedelta(0), timedelta(days=9999)), st.integers(0, 999))
def test_tag_round_trip(snapshot: Snapshot, created: datetime, retained: timedelta, nanos: int) -> None:
    tag = Tag(snapshot, created, retained, nanos)
    assert Tag.from_json(tag.to_json()) == tag
    plain = Tag(snapshot)
    assert plain.to_json() == snapshot.to_json()
    assert Tag.from_json(plain.to_json()) == plain


def test_duration_as_jackson() -> None:
    snapshot = Snapshot.from_json(minimal_snapshot())

    def written(retained: timedelta) -> str:
        return Tag(snapshot, datetime(2024, 1, 2, 3, 4), retained).to_json().splitlines()[-2].strip()

    assert written(timedelta(days=1)) == '"tagTimeRetained" : 86400.000000000'
    assert written(timedelta(0)) == '"tagTimeRetained" : 0.0'
    assert written(timedelta(milliseconds=1500)) == '"tagTimeRetained" : 1.500000000'
    assert '"tagCreateTime" : [ 2024, 1, 2, 3, 4 ]' in Tag(snapshot, datetime(2024, 1, 2, 3, 4), timedelta(1)).to_json()


def minimal_snapshot() -> str:
    return json.dumps(
        {
            **{"version": 3, "id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b"},
            **{"commitUser": "u", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1},
            **{"totalRecordCount": 0, "deltaRecordCount": 0},
        }
    )


def test_jackson_escapes() -> None:
    schema = create_schema(
        [DataField(0, "k", parse_type("INT"))], (), (), {"a": 'q"\\/\n\t\b\f\r\x01\x1f\x7fäö€𝄞'}, time_millis=1
    )
    assert '"q\\"\\\\/\\n\\t\\b\\f\\r\\u0001\\u001F\x7fäö€𝄞"' in schema.to_json()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"3", b"{", b"\xff\xfe", b'{"id": NaN}', b"[" * 100_000, b'{"fields": 3}', b"{}"),
        *(b'{"id": 1e400}', b'{"id": ' + b"9" * 5000 + b"}", b'{"a": "\\ud800"}'),
    ],
)
@pytest.mark.parametrize("kind", [TableSchema, Snapshot, Tag])
def test_hostile_files(kind: Any, data: bytes) -> None:
    with pytest.raises(CorruptTableError, match="some/file") as caught:
        kind.from_json(data, path="some/file")
    assert caught.value.path == "some/file"
    assert pickle.loads(pickle.dumps(caught.value)).path == "some/file"


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"version": 4},
            {"id": "x"},
            {"id": 2**63},
            {"fields": [{"id": 0}]},
            {"primaryKeys": ["nope"]},
            {"options": 3},
        ),
        *(
            {"highestFieldId": 1.5},
            {"partitionKeys": "a"},
            {"options": {"a": {}}},
            {"comment": 3},
            {"timeMillis": "now"},
        ),
        {"fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 0, "name": "b", "type": "INT"}]},
        {"fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "a", "type": "INT"}]},
    ],
)
def test_broken_schemas(change: dict[str, Any]) -> None:
    good = create_schema([DataField(0, "k", parse_type("INT"))], time_millis=1)
    with pytest.raises(CorruptTableError):
        TableSchema.from_json(json.dumps({**json.loads(good.to_json()), **change}))


def test_options_that_old_versions_imply() -> None:
    text = {"id": 0, "fields": [], "highestFieldId": -1, "partitionKeys": [], "primaryKeys": [], "options": {}}
    first = TableSchema.from_json(json.dumps(text))
    assert (first.version, first.options, first.time_millis) == (1, {"bucket": "1", "file.format": "orc"}, 0)
    assert TableSchema.from_json(json.dumps({**text, "version": 2})).options == {"file.format": "orc"}
    assert TableSchema.from_json(json.dumps({**text, "version": 3})).options == {}


def fields(*names: str) -> list[DataField]:
    return [DataField(0, name, parse_type("STRING")) for name in names]


def test_create_normalises() -> None:
    schema = create_schema(fields("a", "b", "c"), (), (), {"primary-key": "a, b", "partition": "b", "bucket": "2"})
    assert schema.primary_keys == ("a", "b")
    assert schema.partition_keys == ("b",)
    assert schema.options == {"bucket": "2"}
    assert [f.type.nullable for f in schema.fields] == [False, False, True]
    assert [f.id for f in schema.fields] == [0, 1, 2]
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("a",)
    nullable = create_schema(fields("a", "b"), ("a",), (), {"primary-key.nullable": "true"})
    assert nullable.field("a").type.nullable


def test_lists_that_java_does_not_trim() -> None:
    given = {"bucket-key": "a, b", "fields.c.sequence-group": " a ,b", "sequence.field": "a, b"}
    assert create_schema(fields("a", "b", "c"), (), (), given).options == {
        "bucket-key": "a,b",
        "fields.c.sequence-group": "a,b",
        "sequence.field": "a, b",
    }


def test_field_ids_of_nested_rows() -> None:
    row = parse_type("ROW<x ROW<y INT>, z ARRAY<ROW<w INT>>>")
    schema = create_schema([DataField(0, "a", row), DataField(0, "b", parse_type("INT"))])
    outer = schema.fields[0].type
    assert isinstance(outer, RowType)
    assert schema.fields[0].id == 0
    assert [f.id for f in outer.fields] == [2, 4]  # Java gives the id of a ROW's field after those inside it
    assert schema.fields[1].id == 5
    assert schema.highest_field_id == 5


@pytest.mark.parametrize(
    ("keys", "partition", "bucket", "mode"),
    [
        (("a",), (), "2", BucketMode.HASH_FIXED),
        (("a",), (), None, BucketMode.HASH_DYNAMIC),
        (("a",), ("b",), "-1", BucketMode.KEY_DYNAMIC),
        (("a", "b"), ("b",), "-1", BucketMode.HASH_DYNAMIC),
        (("a",), (), "-2", BucketMode.POSTPONE_MODE),
        ((), (), None, BucketMode.BUCKET_UNAWARE),
        ((), (), "3", BucketMode.HASH_FIXED),
    ],
)
def test_bucket_modes(keys: tuple[str, ...], partition: tuple[str, ...], bucket: str | None, mode: BucketMode) -> None:
    options = {} if bucket is None else {"bucket": bucket}
    assert create_schema(fields("a", "b"), keys, partition, options).bucket_mode is mode


def test_unknown_column_is_an_error_that_lists_them() -> None:
    with pytest.raises(SchemaError, match=r"'x' does not exist.*\['a', 'b'\]"):
        create_schema(fields("a", "b")).field("x")
