"""Every golden table, read through table and read without Spark, gives the rows that Java gave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import DataError, OptionError, PaimonError, SnapshotNotFoundError, UnsupportedError
from paimon_spark.maintain.compact.step import BucketFiles, split_files
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.row_views import find_view
from paimon_spark.read.table_scan import resolve_source
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from tests.support.golden import (
    GoldenRead,
    assert_same_rows,
    by_newer_rules,
    follows_a_java_bug,
    golden_reads,
    not_yet,
)
from tests.support.merge_cases import rows_of as plain_rows
from tests.support.merge_model import ModelError, ModelTable
from tests.support.plans import plan_of

CASES = golden_reads()


def read_rows(
    path: str | Path,
    *,
    options: dict[str, str] | None = None,
    branch: str | None = None,
    columns: Sequence[str] | None = None,
    sql_filter: str | None = None,
    system: str | None = None,
) -> pa.Table:
    """The rows of a table, as a task would read them."""
    table = load_table(str(path), options=options, branch=branch)
    view = find_view(system)
    assert view is not None
    predicate = None if sql_filter is None else parse_filter(sql_filter, view.fields(resolve_source(table)[0]))
    plan = plan_of(table, view, columns=columns, predicate=predicate)
    batches = [batch for split in plan.splits for batch in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def rows_of(case: GoldenRead) -> pa.Table:
    return read_rows(
        case.table.path,
        options=case.options,
        branch=case.branch,
        columns=case.columns,
        sql_filter=case.sql_filter(tuple(column) for column in case.table.expect["columns"]),
        system=case.system,
    )


def wanted(case: GoldenRead) -> bool:
    return not case.error and not_yet(case) is None and not follows_a_java_bug(case)


@pytest.mark.parametrize("case", [c for c in CASES if wanted(c)], ids=lambda c: c.id)
def test_rows_are_those_of_java(case: GoldenRead) -> None:
    assert_same_rows(rows_of(case), case)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.error and not_yet(c) is None and not follows_a_java_bug(c)], ids=lambda c: c.id
)
def test_where_java_fails_we_fail_with_its_words(case: GoldenRead) -> None:
    with pytest.raises((SnapshotNotFoundError, OptionError, DataError)) as raised:
        rows_of(case)
    key_words = re.split(r"[,:\n]", case.message)[0].rstrip(".")
    key_words = re.sub(r"timestamp \[(\d+)\]", _as_time, key_words)
    assert key_words in str(raised.value)


def _as_time(match: re.Match[str]) -> str:
    """A time as our messages show it, where Java's have milliseconds."""
    return f"timestamp [{datetime.fromtimestamp(int(match[1]) / 1000, UTC).isoformat(' ', 'milliseconds')}]"


@pytest.mark.parametrize("case", [c for c in CASES if c.read.get("fixed_later")], ids=lambda c: c.id)
def test_what_a_later_java_reads_we_read(case: GoldenRead) -> None:
    rows = rows_of(case)
    assert f"{rows.num_rows} rows" in case.read["fixed_later"]


@pytest.mark.parametrize("case", [c for c in CASES if c.read.get("java_differs_from_full_read")], ids=lambda c: c.id)
def test_a_projection_has_the_rows_of_the_full_read(case: GoldenRead) -> None:
    assert case.columns is not None
    full = read_rows(case.table.path, options=case.options, branch=case.branch).select(case.columns)
    assert sorted(map(repr, full.to_pylist())) == sorted(map(repr, rows_of(case).to_pylist()))


@pytest.mark.parametrize("case", [c for c in CASES if by_newer_rules(c)], ids=lambda c: c.id)
def test_where_javas_versions_differ_the_rows_are_those_of_the_newer_rules(case: GoldenRead) -> None:
    """The model of tests/support/merge_model.py has the rules of 2.1, row by row."""
    columns = dict(map(tuple, case.table.expect["columns"]))
    table = load_table(str(case.table.path), options=case.options)
    snapshot = table.snapshots.get(int(case.options.get("scan.snapshot-id", table.snapshots.latest_id() or 0)))
    entries = sorted(table.manifests.live_entries(snapshot), key=lambda entry: entry.file.min_sequence_number)
    reader = FileRead(table, tuple(table.schema.fields), {}, key_value=True)
    files = split_files(table, BucketFiles(b"", 0, 1, ()), [entry.file for entry in entries])
    batches = [batch for file in files for batch in reader.batches(file, None)]
    rows = plain_rows(pa.Table.from_batches(batches))
    try:
        expected = ModelTable(columns, case.table.expect["primary_keys"], case.table.options()).merge(
            rows, drop_deletes=True
        )
    except ModelError:
        with pytest.raises(DataError, match="overflow"):
            rows_of(case)
        return
    loose = case.read.get("unordered_columns") or ()
    for row in (found := plain_rows(rows_of(case))):
        row.update({name: sorted(row[name], key=repr) for name in loose if row[name] is not None})
    for row in expected:
        row.update({name: sorted(row[name], key=repr) for name in loose if row[name] is not None})
    wanted_rows = [{name: row[name] for name in columns} for row in expected]
    assert sorted(found, key=repr) == sorted(wanted_rows, key=repr)


def test_the_cases_cover_what_is_claimed(golden: Path) -> None:
    assert golden.is_dir()
    in_scope = [case for case in CASES if wanted(case)]
    assert len(in_scope) > 400
    assert {key for case in in_scope for key in case.options} >= {
        "scan.snapshot-id", "scan.tag-name", "scan.version", "scan.watermark", "scan.timestamp-millis",
        "incremental-between", "incremental-between-timestamp", "incremental-between-scan-mode",
    }  # fmt: skip
    assert any(case.branch for case in in_scope)
    assert {case.system for case in in_scope} == {None, "audit_log", "binlog", "ro", "row_tracking"}
    assert any(case.read.get("filter") for case in in_scope)
    assert issubclass(UnsupportedError, PaimonError)
