"""Tables of plain files: where files that an engine wrote go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import DataError
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.format_table import FormatTable, format_schema

FIELDS = (DataField(0, "v", IntType()), DataField(1, "p", VarCharType(VarCharType.MAX)))


def table_at(path: Path, **options: str) -> FormatTable:
    path.mkdir()
    schema = format_schema(FIELDS, options, format_name="csv", partition_keys=["p"])
    return FormatTable(str(path), schema, FileIO.for_path(str(path), {}))


def staged(table: FormatTable, *directories: str) -> str:
    for name in directories:
        folder = Path(table.path) / ".staging-1" / name
        folder.mkdir(parents=True)
        (folder / "part-0.csv").write_text("1\n")
    return f"{table.path}/.staging-1"


def nothing(_homes: Any) -> list[str]:
    return []


@pytest.mark.parametrize("values_only", ["false", "true"])
def test_files_come_to_their_partitions(tmp_path: Path, values_only: str) -> None:
    table = table_at(tmp_path / "t", **{"format-table.partition-path-only-value": values_only})
    table.take_in(staged(table, "p=a b%2Fc", "p=__HIVE_DEFAULT_PARTITION__"), nothing)
    assert sorted(str(each.values) for each in table.partitions()) == ["('a b/c',)", "(None,)"]
    assert len(table.files()) == 2
    assert not (tmp_path / "t" / ".staging-1").exists()


@pytest.mark.parametrize("value", ["..", ".hidden", "_hidden", ""])
def test_no_row_goes_where_no_reader_looks(tmp_path: Path, value: str) -> None:
    """Values alone name directories: those of a hidden directory, or of the one above, are refused before a move."""
    table = table_at(tmp_path / "t", **{"format-table.partition-path-only-value": "true"})
    place = staged(table, "p=a", f"p={value}")
    with pytest.raises(DataError, match="hidden from every reader"):
        table.take_in(place, nothing)
    assert table.files() == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]
    named = table_at(tmp_path / "named")
    named.take_in(staged(named, f"p={value}"), nothing)
    assert len(named.files()) == 1
