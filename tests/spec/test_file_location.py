"""Options about the place and the names of data files: nothing leads outside, and what Java can read stays legal."""

from __future__ import annotations

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.file_names import (
    DIRECTORY,
    EXTERNAL,
    PREFIXES,
    check_prefix,
    data_directory,
    external_roots,
    is_root,
    validate_file_location,
)
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate

OUTSIDE = [
    "..",
    "../x",
    "../../../victim",
    "a/../../b",
    "/etc",
    "/",
    "//",
    "file:/tmp/x",
    "s3://b/x",
    "a\0b",
    "a\nb",
    ".",
]
BAD_PREFIXES = ["../x-", "a/b/", "/abs-", "a\\b-", "x\0", "x\n", "a:b-", "\ud800", "x" * 300]
ROOTS = ["/", "//", "file:/", "file:///", "hdfs://host/", "hdfs://host:9000", "s3://", "a,/", " / "]


@pytest.mark.parametrize("text", OUTSIDE)
def test_the_directory_of_the_data_stays_below_the_table(text: str) -> None:
    with pytest.raises(OptionError, match=DIRECTORY):
        validate_file_location({DIRECTORY: text})
    if text.strip("/"):
        with pytest.raises(OptionError, match=DIRECTORY):
            data_directory({DIRECTORY: text})


@pytest.mark.parametrize("text", ["", "branch", "snapshot/x", "schema", "./manifest", "x/../tag"])
def test_a_new_table_keeps_no_data_where_other_files_are(text: str) -> None:
    with pytest.raises(OptionError, match=DIRECTORY):
        validate_file_location({DIRECTORY: text})


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        *[("data", "data"), ("a/b", "a/b"), ("./x", "x"), ("a//b", "a/b"), ("a/../b", "b"), ("x/", "x")],
        *[(" sp ", " sp "), ("a%2Fb", "a%2Fb"), ("..x", "..x"), ("ü", "ü")],
    ],
)
def test_directories_that_java_takes(text: str, directory: str) -> None:
    validate_file_location({DIRECTORY: text})
    assert data_directory({DIRECTORY: text}) == directory


@pytest.mark.parametrize("key", PREFIXES)
@pytest.mark.parametrize("text", BAD_PREFIXES)
def test_a_prefix_is_part_of_a_name(key: str, text: str) -> None:
    with pytest.raises(OptionError, match=key):
        check_prefix(key, text)
    with pytest.raises(OptionError, match=key):
        validate(create_schema([DataField(0, "id", IntType())], options={key: text}))


@pytest.mark.parametrize("text", ["", "x-", ".hidden-", "_x", "a%b-", "a b-", "ü-", ".."])
def test_prefixes_that_java_reads(text: str) -> None:
    validate(create_schema([DataField(0, "id", IntType())], options=dict.fromkeys(PREFIXES, text)))


@pytest.mark.parametrize("text", ROOTS)
def test_a_whole_file_system_is_no_external_path(text: str) -> None:
    assert is_root(text.rpartition(",")[2].strip())
    with pytest.raises(OptionError, match="whole file system"):
        external_roots({EXTERNAL: text})


@pytest.mark.parametrize("text", ["file:/a/../b", "file:///a/./b", "/a/.."])
def test_an_external_path_says_where_it_leads(text: str) -> None:
    with pytest.raises(OptionError, match=r"without '\.' and '\.\.'"):
        external_roots({EXTERNAL: text})


def test_external_paths_that_java_takes_are_read_and_those_it_refuses_not_written() -> None:
    assert external_roots({EXTERNAL: "file:///a/b/, s3://bucket, hdfs://h/x"}) == (
        *("file:///a/b", "s3://bucket", "hdfs://h/x"),
    )
    assert external_roots({}) == ()
    validate_file_location({EXTERNAL: "file:///a/b,s3://bucket/x"})
    with pytest.raises(OptionError, match="whole bucket"):
        validate_file_location({EXTERNAL: "s3://bucket/"})
    with pytest.raises(OptionError, match="scheme should not be null"):
        validate_file_location({EXTERNAL: "/a/b"})
