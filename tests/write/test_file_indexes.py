"""Indexes of data files, written by writes and compactions, in metadata or next to the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import DataError, OptionError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.table.schema_change import RenameColumn, SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from tests.support.file_indexes import bodies, expected, files_of, make, rows, write
from tests.support.plans import plan_of


def container_of(table: FileStoreTable, file: DataFileMeta) -> bytes:
    if file.embedded_file_index is not None:
        assert not file.extra_files
        return file.embedded_file_index
    assert file.extra_files == (f"{file.file_name}.index",)
    return (Path(table.path) / "bucket-0" / file.extra_files[0]).read_bytes()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_append_tables(tmp_path: Path, file_format: str, threshold: str) -> None:
    table = make(tmp_path / "t", file__format=file_format, file_index__in_manifest_threshold=threshold)
    for start in (0, 100, 200):
        write(table, rows(list(range(start, start + 60))))
    for file, start in zip(files_of(table), (0, 100, 200), strict=True):
        assert (file.embedded_file_index is None) == (threshold == "0 b")
        assert bodies(container_of(table, file)) == expected(table, rows(list(range(start, start + 60))))
    compact(table.with_options({"compaction.min.file-num": "2"}))
    (file,) = files_of(table)
    plan = plan_of(table)
    batches = [batch for split in plan.splits for batch in plan.read(plan.table, split, plan.fields, None)]
    assert bodies(container_of(table, file)) == expected(table, pa.Table.from_batches(batches))


def test_tables_with_keys(tmp_path: Path) -> None:
    table = make(tmp_path / "t", key="k", num_sorted_run__compaction_trigger="100")
    write(table, rows([5, 3, 1]))
    write(table, rows([3, 2]))
    first, second = sorted(files_of(table), key=lambda file: file.max_sequence_number)
    assert bodies(container_of(table, first)) == expected(table, rows([1, 3, 5]))
    assert bodies(container_of(table, second)) == expected(table, rows([2, 3]))
    compact(table)
    (file,) = files_of(table)
    assert bodies(container_of(table, file)) == expected(table, rows([1, 2, 3, 5]))


def test_changelog_files_have_none(tmp_path: Path) -> None:
    table = make(tmp_path / "t", key="k", changelog_producer="input")
    write(table, rows([1, 2, 3]))
    assert (
        len(list((tmp_path / "t" / "bucket-0").glob("*.index")))
        + sum(file.embedded_file_index is not None for file in files_of(table))
        == 1
    )


def test_set_and_renamed_later(tmp_path: Path) -> None:
    table = make(tmp_path / "t", file_index__in_manifest_threshold="1 mb")
    alter_table(table, [RenameColumn(("v",), "w"), SetOption("file-index.bitmap.columns", "n")])
    table = load_table(table.path)
    assert table.schema.options["file-index.bloom-filter.columns"] == "w,k"
    data = rows([1, 2]).rename_columns(["k", "w", "n", "m"])
    write(table, data)
    (file,) = files_of(table)
    assert bodies(container_of(table, file)) == expected(table, data)
    assert set(bodies(container_of(table, file))) == {"k", "w", "n"}


def test_no_index_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    table = make(tmp_path / "t", file_index__bsi__columns="k", file_index__in_manifest_threshold="0 b")
    with pytest.raises(DataError, match="bsi"):
        write(table, rows([1]).set_column(0, "k", pa.array([-(2**63)])))
    assert not [path for path in (tmp_path / "t").rglob("*") if "bucket" in str(path) and path.is_file()]


@pytest.mark.parametrize(
    "options",
    [
        {"file-index.bitmap.columns": "m"},
        {"file-index.bsi.columns": "v"},
        {"file-index.tree.columns": "k"},
        {"file-index.bitmap.columns": "nowhere"},
    ],
)
def test_refused_before_the_first_byte(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path / "t").with_options(options)
    with pytest.raises(OptionError, match=r"file-index|not supported by|does not exist"):
        plan_write(table, data_schema=rows([1]).schema)
