import os

import pytest

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.source.source_options import parse_columns, read_request, refuse_system_table, write_request
from paimon_spark.spec.schema_merge import MergeRules


def test_options_are_matched_without_case_and_spelled_as_paimon_does() -> None:
    request = read_request({"path": "/wh/t", "SCAN.Snapshot-ID": "3", "Columns": "a, b", "FILTER": "a = 1"})
    assert request.options == {"scan.snapshot-id": "3"}
    assert request.columns == ("a", "b")
    assert request.filter == "a = 1"


def test_keys_that_spark_adds_are_let_through() -> None:
    given = {"path": "/wh/t", "provider": "paimon", "owner": "me", "option.x": "1", "location": "/wh/t"}
    assert read_request(given).options == {}
    assert write_request(given, overwrite=False).options == {}


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("scan.snapshotid", "scan.snapshot-id"), ("colums", "columns"), ("scan.tag", "scan.tag-name")],
)
def test_an_unknown_read_option_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"Unknown option '{key}'. Did you mean .*'{nearest}'"):
        read_request({"path": "/wh/t", key: "1"})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("replace-where", "replaceWhere"), ("mergeengine", "merge-engine"), ("write.mergeschema", "write.merge-schema")],
)
def test_an_unknown_write_option_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"Unknown option '{key}'. Did you mean .*'{nearest}'"):
        write_request({"path": "/wh/t", key: "1"}, overwrite=True)


@pytest.mark.parametrize(
    "key", ["files", "snapshot", "replaces", "operation", "one-task-per-bucket", "snapshot-id", "snapshot_id"]
)
def test_no_option_shows_a_statements_read_or_write_what_to_do(key: str) -> None:
    with pytest.raises(OptionError, match=f"Unknown option 'paimon.{key}'"):
        read_request({"path": "/wh/t", f"paimon.{key}": "1"})
    with pytest.raises(OptionError, match=f"Unknown option 'paimon.{key}'"):
        write_request({"path": "/wh/t", f"paimon.{key}": "1"}, overwrite=True)


@pytest.mark.parametrize("options", [{}, {"path": " "}])
def test_a_missing_path(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"needs the path of a table directory: \.load\('/warehouse"):
        read_request(options)


def test_several_paths() -> None:
    with pytest.raises(OptionError, match="one table at a time"):
        read_request({"paths": '["/a","/b"]'})


def test_relative_paths_count_from_the_working_directory() -> None:
    assert read_request({"path": "wh/t"}).path == os.path.join(os.getcwd(), "wh", "t")
    assert read_request({"path": "s3://bucket/t"}).path == "s3://bucket/t"
    assert read_request({"path": "file:/wh/t"}).path == "file:/wh/t"


def test_columns_may_be_quoted() -> None:
    assert parse_columns("a, `b,c` ,`d``e`") == ("a", "b,c", "d`e")
    assert parse_columns(" a b ,it's,` c `, -- d") == ("a b", "it's", " c ", "-- d")


@pytest.mark.parametrize("text", ["", " ", "a,,b", "a,", "a,a", "`a", "``", "`a`b", "a`b`", "`a`,", ","])
def test_columns_that_are_no_list(text: str) -> None:
    with pytest.raises(OptionError, match="option 'columns'"):
        parse_columns(text)


@pytest.mark.parametrize("key", ["columns", "filter", "scan.snapshot-id", "incremental-between"])
def test_read_options_of_a_write(key: str) -> None:
    with pytest.raises(OptionError, match=f"option '{key}' has no meaning for a write"):
        write_request({"path": "/wh/t", key: "1"}, overwrite=False)


@pytest.mark.parametrize("key", ["replaceWhere", "partitionOverwriteMode", "write.merge-schema"])
def test_write_options_of_a_read(key: str) -> None:
    with pytest.raises(OptionError, match=f"option '{key}' has no meaning for a read"):
        read_request({"path": "/wh/t", key.lower(): "1"})


def test_overwrite_modes() -> None:
    assert write_request({"path": "/t"}, overwrite=True).dynamic_overwrite is None
    dynamic = {"path": "/t", "partitionoverwritemode": "DYNAMIC"}
    assert write_request(dynamic, overwrite=True).dynamic_overwrite is True
    with pytest.raises(OptionError, match="static or dynamic, not 'some'"):
        write_request({"path": "/t", "partitionoverwritemode": "some"}, overwrite=True)
    with pytest.raises(OptionError, match=r"needs mode\('overwrite'\)"):
        write_request({"path": "/t", "replacewhere": "dt = '1'"}, overwrite=False)
    with pytest.raises(OptionError, match="contradict"):
        write_request({**dynamic, "replacewhere": "dt = '1'"}, overwrite=True)


def test_merge_schema_is_a_boolean() -> None:
    assert write_request({"path": "/t", "write.merge-schema": "True"}, overwrite=False).merge_schema == MergeRules()
    with pytest.raises(OptionError, match=r"'write\.merge-schema' is true or false, not 'yes'"):
        write_request({"path": "/t", "write.merge-schema": "yes"}, overwrite=False)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ("true", None),
        ("merge", MergeRules()),
        ("merge,type-widening", MergeRules(widen=True)),
        ("merge,explicit-cast", MergeRules()),
        ("merge,type-widening,explicit-cast", MergeRules(widen=True, explicit=True)),
        ("type-widening,explicit-cast", None),
    ],
)
def test_each_option_of_merge_schema_needs_the_one_before(given: str, rules: MergeRules | None) -> None:
    keys = [f"write.merge-schema.{part}".removesuffix(".merge") for part in given.split(",") if part != "true"]
    assert write_request({"path": "/t", **dict.fromkeys(keys, "true")}, overwrite=False).merge_schema == rules


def test_store_options_keep_their_case() -> None:
    given = {"path": "s3://b/t", "s3.endpoint": "e", "fs.s3a.access.key": "k"}
    assert read_request(given).options == {"s3.endpoint": "e", "fs.s3a.access.key": "k"}


def test_system_tables_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"\$files in '/wh/t\$files'"):
        refuse_system_table("/wh/t$files", "files", "read")
    refuse_system_table("/wh/t", None, "read")
