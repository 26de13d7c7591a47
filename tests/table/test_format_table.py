"""Tables of plain files: where files that an engine wrote go."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from paimon_spark.errors import CatalogServerError, CorruptTableError, DataError, SchemaError
from paimon_spark.spec.data_types import DataField, DataType, DateType, IntType, VarCharType
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


class Partitions:
    """Stands for the server of a REST catalog that keeps partitions."""

    def __init__(self, *known: dict[str, str]) -> None:
        self.known = list(known)
        self.refuses = False
        self.reported: list[Any] = []

    def registered_partitions(self) -> list[dict[str, str]]:
        return self.known

    def register_partitions(self, partitions: Any, statistics: Any, **how: bool) -> None:
        if self.refuses:
            raise CatalogServerError("refused")
        self.known += [each for each in partitions if each not in self.known]
        self.reported.append(([(s["spec"], s["recordCount"], s["fileCount"]) for s in statistics], how))

    def unregister_partitions(self, partitions: Any) -> None:
        self.known = [each for each in self.known if each not in partitions]


def kept_by(server: Partitions, path: Path, key: DataType, name: str = "csv", **options: str) -> FormatTable:
    path.mkdir()
    fields = (FIELDS[0], DataField(1, "p", key))
    schema = format_schema(fields, options, format_name=name, partition_keys=["p"])
    return FormatTable(str(path), schema, FileIO.for_path(str(path), {}), cast("Any", server))


def test_dates_are_named_as_java_names_them_or_as_spark_does(tmp_path: Path) -> None:
    """Java's own writer gives days since 1970. A partition that is there keeps its directory."""
    path = tmp_path / "t"
    path.mkdir()
    fields = (FIELDS[0], DataField(1, "p", DateType()))
    table = FormatTable(
        str(path), format_schema(fields, {}, format_name="csv", partition_keys=["p"]), FileIO.for_path(str(path), {})
    )
    (path / "p=20454").mkdir()
    (path / "p=20454" / "data.csv").write_text("7\n")
    assert [each.values for each in table.partitions()] == [(date(2026, 1, 1),)]
    table.take_in(staged(table, "p=2026-01-01", "p=2026-01-02"), None)
    assert sorted(folder.name for folder in path.iterdir()) == ["p=2026-01-02", "p=20454"]
    assert len(list((path / "p=20454").iterdir())) == 2
    (path / "p=2026-01-01").mkdir()
    (path / "p=2026-01-01" / "more.csv").write_text("8\n")
    assert [Path(each).name for each in table.same_partitions(["p=20454"])] == ["p=2026-01-01", "p=20454"]


def test_a_catalog_that_keeps_partitions_says_which_there_are(tmp_path: Path) -> None:
    server = Partitions({"p": "20454"}, {"p": "20455"}, {"p": "20454"})
    table = kept_by(server, tmp_path / "t", DateType())
    (tmp_path / "t" / "p=20460").mkdir()
    assert [each.values for each in table.partitions()] == [(date(2026, 1, 1),), (date(2026, 1, 2),)]
    table.take_in(staged(table, "p=2026-01-01", "p=2026-01-03", "p=__HIVE_DEFAULT_PARTITION__"), None)
    names = ("20454", "20456", "__DEFAULT_PARTITION__")
    told = [({"p": name}, -1, 1) for name in names]
    assert [(sorted(said, key=str), how) for said, how in server.reported] == [(told, {"replaces": False})]
    assert all((tmp_path / "t" / f"p={name}").is_dir() for name in names)
    server.refuses = True
    before = table.files()
    with pytest.raises(CatalogServerError):
        table.take_in(staged(table, "p=2026-01-09"), None)
    assert table.files() == before
    server.refuses = False
    with pytest.raises(SchemaError, match=r"p=20454 of .* exists already"):
        table.add_partitions([{"p": date(2026, 2, 1)}, {"p": date(2026, 1, 1)}], tolerant=False)
    table.add_partitions([{"p": date(2026, 2, 1)}, {"p": date(2026, 1, 1)}], tolerant=True)
    assert (tmp_path / "t" / "p=20485").is_dir()
    table.repair(adds=True, drops=False)
    assert {"p": "20460"} in server.known
    table.repair(adds=False, drops=True)
    assert {"p": "20455"} not in server.known
    table.drop_partitions([each for each in table.partitions() if each.values == (date(2026, 1, 1),)])
    assert not (tmp_path / "t" / "p=20454").exists()
    server.known = [{"q": "1"}]
    with pytest.raises(CorruptTableError, match="whose partition columns are p"):
        table.partitions()


@pytest.mark.parametrize(("name", "write"), [("parquet", parquet.write_table), ("orc", orc.write_table)])
def test_rows_are_reported_where_files_say_them(tmp_path: Path, name: str, write: Any) -> None:
    server = Partitions()
    table = kept_by(server, tmp_path / "t", VarCharType(VarCharType.MAX), name)
    for replaces, count in ((False, 3), (True, 2)):
        place = Path(staged(table, "p=a"))
        (place / "p=a" / "part-0.csv").unlink()
        write(pa.table({"v": list(range(count))}), str(place / "p=a" / f"part-{count}"))
        old = (lambda _: table.files()) if replaces else None
        table.take_in(str(place), old)
        assert server.reported[-1] == ([({"p": "a"}, count, 1)], {"replaces": replaces})
    table.truncate()
    assert server.reported[-1] == ([({"p": "a"}, 0, 0)], {"replaces": True})
    assert server.known == [{"p": "a"}]


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


@pytest.mark.parametrize("name", [".", ".."])
def test_no_name_of_the_default_partition_leads_out_of_the_table(tmp_path: Path, name: str) -> None:
    options = {"format-table.partition-path-only-value": "true", "partition.default-name": name}
    table = table_at(tmp_path / "t", **options)
    with pytest.raises(DataError, match="hidden from every reader"):
        table.take_in(staged(table, "p=__HIVE_DEFAULT_PARTITION__"), nothing)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]
