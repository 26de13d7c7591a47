"""Directories of partitions and buckets, and which external paths are believed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.split_read import read_split
from paimon_spark.spec import data_types as t
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.manifest import FileKind, ManifestEntry, entry_record
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.table import load_table
from tests.support.commits import fake_file, make_table, rewrite_entries
from tests.support.golden import GOLDEN, golden_tables
from tests.support.plans import plan_of


def test_the_files_of_every_golden_table_are_where_the_paths_say() -> None:
    seen = 0
    for golden in golden_tables():
        table = load_table(str(golden.path))
        for entry in table.manifests.live_entries(table.snapshots.latest()):
            path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
            assert Path(path).stat().st_size == entry.file.file_size
            seen += 1
    assert seen > 500


def test_directories_follow_the_options() -> None:
    plain = DataLayout()
    assert plain.bucket_dir("/t", "", 3) == "/t/bucket-3"
    assert plain.bucket_dir("/t", "a=1/b=2", 0) == "/t/a=1/b=2/bucket-0"
    assert plain.bucket_dir("/t", "", -2) == "/t/bucket-postpone"
    assert DataLayout(data_directory="data").bucket_dir("/t", "a=1", 0) == "/t/data/a=1/bucket-0"
    assert plain.partition_path(bytes(12)) == ""


_TYPES = (t.IntType(), t.VarCharType(20), t.BigIntType(), t.CharType(3), t.DateType())
_VALUES = (
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(["a", " ", "a/b", "%2F", "é=", ""]),
    st.dates(),
)


@given(st.lists(st.tuples(*(st.none() | values for values in _VALUES)), max_size=9), st.integers(1, len(_TYPES)))
def test_paths_of_many_partitions_are_those_of_each(rows: list[tuple[object, ...]], columns: int) -> None:
    types = _TYPES[:columns]
    layout = DataLayout(tuple("k/=éz"[:columns]), types, "_ _")
    partitions = [serialize_row(row[:columns], types) for row in rows]
    assert layout.partition_paths(partitions) == list(map(layout.partition_path, partitions))


def external_table(tmp_path: Path, external: str, options: dict[str, str]) -> tuple[Path, str]:
    """A copy of a golden table whose only data file has an external path."""
    root = tmp_path / "t"
    shutil.copytree(GOLDEN / "append_variant" / "table", root)
    table = load_table(str(root))
    schema = replace(table.schema, id=1, options={**table.schema.options, **options})
    Path(table.paths.schema_path(1)).write_text(schema.to_json())
    rewrite_entries(
        table, lambda e: replace(e, file=replace(e.file, external_path=external.format(name=e.file.file_name)))
    )
    name = next(root.glob("**/data-*")).name
    return root, name


def test_an_external_file_is_read_where_the_options_allow_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    root, name = external_table(
        tmp_path, f"{outside}/bucket-0/{{name}}", {"data-file.external-paths": f"s3://x/y, {outside}/"}
    )
    (outside / "bucket-0").mkdir(parents=True)
    shutil.move(next(root.glob(f"**/{name}")), outside / "bucket-0" / name)
    plan = plan_of(load_table(str(root)))
    rows = pa.Table.from_batches([b for s in plan.splits for b in read_split(plan.table, s, plan.fields)])
    assert rows.num_rows == plan.splits[0].row_count > 0


@pytest.mark.parametrize(
    ("external", "allowed"),
    [
        ("/elsewhere/{name}", None),
        ("/elsewhere/{name}", "/outside"),
        ("/outside/../etc/{name}", "/outside"),
        ("/outsider/{name}", "/outside"),
        ("/outside/other-name", "/outside"),
        ("/outside/./{name}", "/outside"),
        ("", "/outside"),
    ],
)
def test_other_external_paths_are_not_believed(tmp_path: Path, external: str, allowed: str | None) -> None:
    root, _ = external_table(tmp_path, external, {"data-file.external-paths": allowed} if allowed else {})
    with pytest.raises(CorruptTableError, match=r"external path .*'data-file\.external-paths"):
        plan_of(load_table(str(root)))


@pytest.mark.parametrize("name", ["", ".", "..", "../data-7.parquet", "..\\data-7.parquet", "data-7\0.parquet"])
def test_a_name_that_leads_elsewhere_is_found_among_many(tmp_path: Path, name: str) -> None:
    table = make_table(tmp_path / "t")
    entry = ManifestEntry(FileKind.ADD, bytes(12), 0, -1, fake_file("data-1.parquet"))
    entries = [replace(entry, file=replace(entry.file, file_name=each)) for each in ["data-1.parquet"] * 30 + [name]]
    files = ManifestColumns.from_records([entry_record(each) for each in entries])
    with pytest.raises(CorruptTableError, match="is not the name of a file of this table"):
        DataLayout.of(table.schema).data_file_directories(table.path, files)
