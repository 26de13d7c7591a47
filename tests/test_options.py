"""Options: the table of keys, the values, the view of a table's options."""

import csv
import pickle
import pkgutil
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.options import (
    OPTIONS,
    PATTERNS,
    CoreOptions,
    OptionKind,
    canonical_options,
    check_new_options,
    find_option,
    parse_duration,
    parse_memory_size,
    unknown_option_error,
)
from paimon_spark.spec.schema import TableSchema


def test_the_table_is_complete_and_documented() -> None:
    assert len(OPTIONS) > 450
    for option in (*OPTIONS.values(), *PATTERNS):
        assert option.description != option.key, option.key
        assert option.description.endswith("."), option.key
        assert (option.type is OptionKind.ENUM) == bool(option.choices), option.key
        if option.default is not None and option.type is OptionKind.ENUM:
            assert option.default in option.choices, option.key


@pytest.mark.parametrize(("name", "free"), [("options.csv", {"description", "instead"}), ("refusals.csv", {"advice"})])
def test_the_cells_of_the_tables(name: str, free: set[str]) -> None:
    data = pkgutil.get_data("paimon_spark.options", name)
    assert data is not None
    rows = list(csv.DictReader(data.decode().splitlines(), strict=True))
    assert len({row["key"] for row in rows}) >= len(rows) - (name == "refusals.csv")
    known = {option.key for option in (*OPTIONS.values(), *PATTERNS)}
    for row in rows:
        assert row["key"] in known
        assert not {None} & {*row, *row.values()}, row["key"]
        assert all(text == " ".join(text.split()) for text in row.values()), row["key"]
        assert all(
            " " not in text or column in free | {"default", "choices", "fallback_keys", "only", "unless"}
            for column, text in row.items()
        ), row["key"]
        assert {row.get("immutable", ""), row.get("honoured", "")} <= {"", "yes"}, row["key"]
        assert not (row.get("only") and row.get("unless")), row["key"]
        assert all(not row[column] or row[column].endswith((".", ">")) for column in free), row["key"]


def test_java_immutable_options() -> None:
    immutable = {key for key, option in OPTIONS.items() if option.immutable}
    assert {"type", "bucket-key", "bucket-function.type", "merge-engine", "primary-key", "partition"} <= immutable
    assert {"rowkind.field", "row-tracking.enabled", "force-lookup", "index-file-in-data-file-dir"} <= immutable
    assert not {"bucket", "file.format", "sequence.field"} & immutable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128 mb", 128 << 20),
        ("64kb", 64 << 10),
        ("1024", 1024),
        ("2 G", 2 << 30),
        ("500 B", 500),
        ("1 tebibytes", 1 << 40),
    ],
)
def test_memory_sizes(text: str, expected: int) -> None:
    assert parse_memory_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "mb", "-1 mb", "1 parsec", "99999999999999999999", "9223372036854775807 kb", "1.5 mb"]
)
def test_bad_memory_sizes(text: str) -> None:
    with pytest.raises(OptionError):
        parse_memory_size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 h", timedelta(hours=1)),
        ("10 ms", timedelta(milliseconds=10)),
        ("5000", timedelta(seconds=5)),
        ("2 DAYS", timedelta(days=2)),
        ("3min", timedelta(minutes=3)),
        ("7 µs", timedelta(microseconds=7)),
        ("9223372036854775807 d", timedelta.max),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "h", "1 fortnight", "-1 s", "1.5 h"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(OptionError):
        parse_duration(text)


def test_typed_access() -> None:
    options = CoreOptions(
        {
            "Bucket": "3",
            "MERGE-ENGINE": "Partial-Update",
            "file.format.per.level": "0:avro, 3:PARQUET",
            "sequence.field": "a, b",
            "partial-update.ignore-delete": "TRUE",
            "target-file-size": "1 mb",
        }
    )
    assert options.bucket == 3
    assert options.merge_engine == "partial-update"
    assert (options.file_format_at(0), options.file_format_at(1), options.file_format_at(3)) == (
        "avro",
        "parquet",
        "parquet",
    )
    assert options.sequence_fields == ("a", "b")
    assert options.ignore_delete
    assert options.target_file_size_bytes(True) == options.target_file_size_bytes(False) == 1 << 20
    assert CoreOptions().target_file_size_bytes(True) == 128 << 20
    assert CoreOptions().target_file_size_bytes(False) == 256 << 20
    assert options["bucket"] == "3"
    assert options.get("nope") is None
    assert options.get("nope", "x") == "x"
    assert options.get(OPTIONS["bucket"]) == 3
    assert options.get(OPTIONS["commit.max-retry-wait"]) == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("bucket", "many", "Could not parse value 'many' for key 'bucket'"),
        ("bucket", "3000000000", "does not fit 32 bits"),
        ("write-only", "yes", "Expected either true or false"),
        ("merge-engine", "merge", "Expected one of: [deduplicate, partial-update, aggregation, first-row]"),
        ("file.format.per.level", "avro", "key1:value1"),
    ],
)
def test_bad_values_name_the_option(key: str, text: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        CoreOptions({key: text}).value(key)
    assert words in str(caught.value)
    assert key in str(caught.value)


def test_core_options_are_values() -> None:
    options = CoreOptions({"bucket": "3"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(CoreOptions({"bucket": "3"}))
    assert options.merged({"BUCKET": "4", "x": "1"}).to_dict() == {"BUCKET": "4", "x": "1"}
    assert options.to_dict() == {"bucket": "3"}


def test_merged_replaces_fallback_keys() -> None:
    old = CoreOptions({"log.scan": "latest", "other": "1"})
    assert old.merged({"scan.mode": "full"}).value("scan.mode") == "full"


def test_repr_hides_secrets() -> None:
    options = CoreOptions(
        {"s3.secret-key": "hunter2", "fs.s3a.access.key": "hunter2", "s3.endpoint": "host", "dlf.token": "hunter2"}
    )
    assert "hunter2" not in repr(options)
    assert "host" in repr(options)


def test_canonical_keys() -> None:
    given = {
        "read.allow.fullscan": "1",
        "bucket": "2",
        "fields.userid.aggregate-function": "sum",
        "fields.userid,b.sequence-group": "c",
        "fields.default-aggregate-function": "max",
        "file-index.bloom-filter.columns": "b",
        "fields.x.y.stats-mode": "none",
        "s3.endpoint": "h",
        "nobody.knows": "1",
    }
    assert canonical_options(given, ["UserId", "B", "X.y"]) == {
        "read.allow.fullScan": "1",
        "bucket": "2",
        "fields.UserId.aggregate-function": "sum",
        "fields.UserId,B.sequence-group": "c",
        "fields.default-aggregate-function": "max",
        "file-index.bloom-filter.columns": "b",
        "fields.X.y.stats-mode": "none",
        "s3.endpoint": "h",
        "nobody.knows": "1",
    }


def test_columns_that_differ_by_case_are_not_guessed() -> None:
    given = {"fields.a.distinct": "true", "fields.aa.distinct": "true"}
    assert canonical_options(given, ["a", "A", "aA", "Aa"]) == given


def test_unknown_options_name_the_nearest() -> None:
    assert "'scan.snapshot-id'" in str(unknown_option_error("scan.snapshotid"))
    assert "'merge-engine'" in str(unknown_option_error("mergeengine"))
    assert "Did you mean" not in str(unknown_option_error("zzzzzz"))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("primary_key", "primary-key"),
        ("mergeEngine", "merge-engine"),
        ("merge-engin", "merge-engine"),
        ("Bucket_Key", "bucket-key"),
        ("buckets", "bucket"),
        ("sequence.feild", "sequence.field"),
        ("snapshot-id", "scan.snapshot-id"),
        ("num-retained.max", "snapshot.num-retained.max"),
        ("spark.paimon.bucket", "bucket"),
        ("fields.default-aggregate-functions", "fields.default-aggregate-function"),
        ("fields.v.sequence_group", "fields.v.sequence-group"),
        ("field.v.sequence-group", "fields.v.sequence-group"),
        ("v,a.b.sequence-group", "fields.v,a.b.sequence-group"),
        ("fields_v_sequence_group", "fields.<field>.sequence-group"),
        ("sequence-group", "fields.<field>.sequence-group"),
        ("fields.v.aggregate-functoin", "fields.v.aggregate-function"),
    ],
)
def test_slips_are_no_properties_of_a_table(key: str, meant: str) -> None:
    with pytest.raises(OptionError) as error:
        check_new_options([key], ["k", "v", "a.b"])
    assert f"Unknown option '{key}'. Did you mean '{meant}'" in str(error.value)


def test_other_keys_are_properties_of_a_table() -> None:
    own = [
        "owner",
        "team",
        "patch",
        "types",
        "my.prop",
        "format-version",
        "connector",
        "x.distinct",
        "io-cache.enabled",
    ]
    check_new_options([*own, "fields.v.stats-mode", "bucket", "Merge-Engine", "parquet.anything"], ["v"])
    with pytest.raises(OptionError, match=r"fields\.<column>\. and one of: aggregate-function, .*, sequence-group"):
        check_new_options(["fields.v.nope"], ["v"])


def test_every_option_of_the_golden_tables_is_known(golden: Path) -> None:
    keys = set()
    for path in golden.glob("*/table/**/schema/schema-*"):
        keys |= TableSchema.from_json(path.read_bytes()).options.keys()
    assert len(keys) > 50
    assert [key for key in sorted(keys) if find_option(key) is None] == []


def test_keywords_of_methods_are_the_options() -> None:
    from tests.readme.keyword_options import LOCATION, text

    assert LOCATION.read_text(encoding="utf-8") == text(), "run tests/readme/keyword_options.py"
