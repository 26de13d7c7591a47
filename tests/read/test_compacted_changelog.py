"""Changelog files that Flink has joined (``precommit-compact``): several buckets' files are regions of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.file_names import FileRegion, compacted_changelog_region, data_file_format
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.history import table_files
from tests.support.plans import plan_of

STEM = "compacted-changelog-0b2f"


def joined(path: Path, file_format: str) -> FileStoreTable:
    """A table of two buckets whose changelog files lie in one file, as Flink makes it."""
    fields = [DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "v", parse_type("STRING"))]
    options = {"bucket": "2", "changelog-producer": "input", "changelog-file.format": file_format}
    table = create_table(str(path / "t"), create_schema(fields, ("k",), (), options, None))
    data = pa.table({"k": pa.array(range(100), pa.int32()), "v": [f"v{k}" for k in range(100)]})
    message = write_batches(plan_write(table, data_schema=data.schema, shuffled=True), data.to_batches(), 0)
    whole, offset, parts = b"", 0, []
    first = message.messages[0].bucket
    for part in message.messages:
        (file,) = part.changelog_files
        own = Path(table.path) / f"bucket-{part.bucket}" / file.file_name
        whole += own.read_bytes()
        own.unlink()
        parts.append((part, file, offset))
        offset = len(whole)
    length = parts[0][1].file_size
    base = f"{STEM}${first}-{length}"
    named = [
        replace(
            part,
            changelog_files=(
                replace(
                    file,
                    file_name=f"{base}.cc-{file_format}"
                    if not offset
                    else f"{base}-{offset}-{file.file_size}.cc-{file_format}",
                ),
            ),
        )
        for part, file, offset in parts
    ]
    (Path(table.path) / f"bucket-{first}" / f"{base}.cc-{file_format}").write_bytes(whole)
    commit(table, [replace(message, messages=tuple(named))])
    return table


def changed(table: FileStoreTable) -> list[int]:
    plan = plan_of(table.with_options({"incremental-between": "0,1"}))
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return sorted(row["k"] for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_regions_are_read_as_files(tmp_path: Path, file_format: str) -> None:
    table = joined(tmp_path, file_format)
    assert changed(table) == list(range(100))


def test_the_joined_file_stays_while_a_snapshot_needs_it(tmp_path: Path) -> None:
    table = joined(tmp_path, "parquet")
    assert remove_files_before(table, 2**62).file_count == 0
    assert changed(table) == list(range(100))
    data = pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]})
    commit(table, [write_batches(plan_write(table, data_schema=data.schema), data.to_batches(), 0)])
    assert expire_snapshots(table, retain_latest_only()) == 1
    assert not [name for name in table_files(table) if STEM in name]


def test_names_of_regions() -> None:
    directory = "/wh/t/dt=1/bucket-3"
    real = f"{directory}/{STEM}$3-70.cc-orc"
    assert compacted_changelog_region(real) == FileRegion(real, 0, 70)
    assert compacted_changelog_region(f"/wh/t/dt=1/bucket-7/{STEM}$3-70-70-12.cc-orc") == FileRegion(real, 70, 12)
    assert data_file_format(f"{STEM}$3-70.cc-orc") == "orc"
    assert compacted_changelog_region(f"{directory}/data-1.orc") is None
    assert compacted_changelog_region(f"{directory}/compacted-changelog-1.orc") is None, "a prefix of the user's"
    for name in ("$3.cc-orc", "$x-1.cc-orc", "$3-1-2.cc-orc", "$3-1-2-3-4.cc-orc", f"${'9' * 30}-1.cc-orc"):
        with pytest.raises(CorruptTableError):
            compacted_changelog_region(f"{directory}/{STEM}{name}")


def test_a_region_beyond_its_file(tmp_path: Path) -> None:
    table = joined(tmp_path, "parquet")
    (file,) = Path(table.path).glob(f"bucket-*/{STEM}*")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CorruptTableError):
        changed(table)
