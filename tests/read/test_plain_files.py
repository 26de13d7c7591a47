"""Which plans any reader of Parquet may carry out: those of files that are the rows, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.incremental_read import read_written
from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.read.split import RowGroups
from paimon_spark.read.table_scan import ReadPlan
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import fake_file, make_table, message
from tests.support.plans import plan_of


def one_file(path: Path, *, keys: bool = False) -> FileStoreTable:
    """A table (k, v) with one file, at level 1."""
    table = make_table(path, primary_key=("k",), bucket="1") if keys else make_table(path)
    commit(table, [message(table, fake_file("data-0-0.parquet", level=1))])
    return table


def with_split(plan: ReadPlan, **changes: Any) -> ReadPlan:
    (split,) = plan.splits
    return replace(plan, splits=(replace(split, **changes),))


def with_file(plan: ReadPlan, **changes: Any) -> ReadPlan:
    (file,) = plan.splits[0].files
    return with_split(plan, files=(file._replace(**changes),))


def test_files_of_an_append_table_are_its_rows(tmp_path: Path) -> None:
    plan = plan_of(one_file(tmp_path / "t"))
    assert holds_plain_rows(plan)
    assert holds_plain_rows(with_split(plan, raw_convertible=False))
    assert holds_plain_rows(with_file(plan, delete_row_count=None))
    assert holds_plain_rows(with_file(plan, row_groups=RowGroups(1, 2, 2)))


def test_whatever_else_a_plan_says_makes_it_another(tmp_path: Path) -> None:
    plan = plan_of(one_file(tmp_path / "t"))
    assert not holds_plain_rows(replace(plan, splits=()))
    assert not holds_plain_rows(replace(plan, read=read_written))
    assert not holds_plain_rows(with_split(plan, branch="b"))
    assert holds_plain_rows(with_file(plan, first_row_id=0))
    assert not holds_plain_rows(with_file(plan, write_cols=("k",)))
    assert not holds_plain_rows(with_file(plan, format="orc"))


def test_files_with_keys_must_say_that_they_are_rows(tmp_path: Path) -> None:
    plan = plan_of(one_file(tmp_path / "t", keys=True))
    assert holds_plain_rows(plan)
    assert holds_plain_rows(with_file(plan, level=0, created_millis=1))
    assert not holds_plain_rows(with_split(plan, raw_convertible=False))
    assert not holds_plain_rows(with_file(plan, delete_row_count=None))
    assert not holds_plain_rows(with_file(plan, delete_row_count=1))


@pytest.mark.parametrize(
    ("name", "sql_type", "plain"),
    [
        ("v", "STRING", True),
        ("x.y", "TIMESTAMP(6)", True),
        ("v", "TIMESTAMP(7)", False),
        ("v", "TIMESTAMP(9) WITH LOCAL TIME ZONE", False),
        ("v", "TIME(3)", False),
        ("v", "VARIANT", False),
        ("K", "STRING", False),
        ("_key_K", "STRING", False),
        ("_VALUE_KIND", "STRING", False),
        ("_sequence_number", "BIGINT", False),
    ],
)
def test_names_and_types_that_a_reader_could_mistake_are_not_plain(
    tmp_path: Path, name: str, sql_type: str, plain: bool
) -> None:
    """The second column of the table, which is a string `v` else."""
    one_file(tmp_path / "t", keys=True)
    path = tmp_path / "t" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["fields"][1] |= {"name": name, "type": sql_type}
    path.write_text(json.dumps(schema))
    assert holds_plain_rows(plan_of(load_table(str(tmp_path / "t")), columns=[name])) == plain
