"""Queries may pass over data files that are missing or damaged, where their options say so. Nothing else does."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark import create_table, open_table
from paimon_spark.errors import CorruptTableError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.read.row_views import ROWS, find_view
from paimon_spark.read.table_scan import TableScan
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import load_table
from tests.support.plans import plan_of

LOST, CORRUPT = "scan.ignore-lost-files", "scan.ignore-corrupt-files"
KINDS = {
    "append": {},
    "keys": {"primary-key": "k", "bucket": "1", "write-only": "true"},
    "changes": {"primary-key": "k", "bucket": "1", "write-only": "true", "changelog-producer": "input"},
    "tracked": {"row-tracking.enabled": "true"},
    "data_evolution": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
}


def made(path: Path, kind: str, file_format: str = "parquet") -> tuple[str, Path]:
    """A table of three rows in three files, and the file of row 2."""
    options = {**KINDS[kind], "file.format": file_format, "compaction.min.file-num": "50"}
    table = create_table(str(path / "t"), pa.schema([("k", pa.int32()), ("v", pa.string())]), **options)
    found: list[Path] = []
    for k in (1, 2, 3):
        table.append(pa.table({"k": pa.array([k], pa.int32()), "v": [f"v{k}"]}))
        found += sorted(set(path.rglob(f"bucket-0/data-*.{file_format}")) - set(found))
    return str(path / "t"), found[1]


def keys(path: str, **options: str) -> list[int]:
    return sorted(open_table(path, **options).scan(columns=["k"]).to_arrow().column("k").to_pylist())


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", [*KINDS])
def test_a_query_passes_over_what_its_option_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, file_format: str
) -> None:
    path, file = made(tmp_path, kind, file_format)
    data = file.read_bytes()
    for content, wanted, other in ((None, LOST, CORRUPT), (b"no such", CORRUPT, LOST), (data[:-9], CORRUPT, LOST)):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        for options in ({}, {other: "true"}, {wanted: "false"}):
            with pytest.raises(CorruptTableError, match=file.name):
                keys(path, **options)
        with caplog.at_level(logging.WARNING):
            assert keys(path, **{wanted: "true"}) == [1, 3]
        assert any(file.name in line and wanted in line for line in caplog.messages)
        caplog.clear()
        file.write_bytes(data)


@pytest.mark.parametrize("view", ["audit_log", "row_tracking"])
def test_views_of_rows_pass_over_files_too(tmp_path: Path, view: str) -> None:
    path, file = made(tmp_path, "tracked")
    file.unlink()
    found = find_view(view)
    assert found is not None
    table = load_table(path, options={LOST: "true"})
    plan = TableScan.of(table, found).plan()
    batches = [batch for split in plan.splits for batch in plan.read(plan.table, split, plan.fields, None)]
    assert sorted(k for batch in batches for k in batch.column("k").to_pylist()) == [1, 3]


def test_what_a_table_has_stored_does_not_count(tmp_path: Path) -> None:
    path, file = made(tmp_path, "append")
    alter_table(load_table(path), [SetOption(LOST, "true")])
    file.unlink()
    with pytest.raises(CorruptTableError, match=file.name):
        keys(path)


@pytest.mark.parametrize("kind", ["append", "keys", "data_evolution"])
def test_statements_that_change_rows_and_compactions_never_do(tmp_path: Path, kind: str) -> None:
    path, file = made(tmp_path, kind)
    file.unlink()
    given = {LOST: "true", CORRUPT: "true", "write-only": "false", "compaction.min.file-num": "2"}
    table = load_table(path, options=given)
    scan = TableScan.of(table, ROWS, snapshot_id=3)
    plan = scan.plan()
    with pytest.raises(CorruptTableError, match=file.name):
        [list(plan.read(plan.table, split, plan.fields, None)) for split in plan.splits]
    with pytest.raises(CorruptTableError, match=file.name):
        compact(table, full=True)
    latest = load_table(path).snapshots.latest()
    assert latest is not None
    assert latest.id == 3


def test_other_readers_of_parquet_are_not_asked(tmp_path: Path) -> None:
    """Spark's own reader and those of Arrow know nothing of these options."""
    path, _ = made(tmp_path, "append")
    assert holds_plain_rows(plan_of(load_table(path)))
    assert not holds_plain_rows(plan_of(load_table(path, options={CORRUPT: "true"})))
