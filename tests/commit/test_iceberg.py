"""Iceberg metadata beside Paimon's: pyiceberg reads the same rows after every kind of commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

import paimon_spark
from paimon_spark.arrow import ArrowTable

SHARED = {"metadata.iceberg.storage": "table-location"}
SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string()), pa.field("p", pa.string(), False)])


def new_table(tmp_path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> ArrowTable:
    return paimon_spark.create_table("d.t", schema, catalog=str(tmp_path / "wh"), **{**SHARED, **options})


def metadata_path(table: ArrowTable) -> Path:
    directory = Path(table.path) / "metadata"
    return directory / f"v{(directory / 'version-hint.text').read_text()}.metadata.json"


def iceberg(table: ArrowTable) -> StaticTable:
    return StaticTable.from_metadata(str(metadata_path(table)))


def rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def assert_same(table: ArrowTable) -> list[tuple[Any, ...]]:
    """Check that readers of Iceberg see the rows of the table, and that every file in the metadata is needed."""
    ours = rows(table.scan().to_arrow())
    theirs = iceberg(table)
    assert rows(theirs.scan().to_arrow()) == ours
    assert theirs.current_snapshot().snapshot_id == table.snapshots()["snapshot_id"][-1].as_py()
    return ours


def row(k: int, v: str | None, p: str = "x") -> dict[str, Any]:
    return {"k": k, "v": v, "p": p}


def avro_files(table: ArrowTable) -> set[str]:
    return {path.name for path in (Path(table.path) / "metadata").glob("*.avro")}


def named_files(table: ArrowTable) -> set[str]:
    """Manifest lists and manifests of all snapshots that the metadata has."""
    found = iceberg(table)
    lists = {Path(each.manifest_list).name for each in found.snapshots()}
    return lists | {Path(m.manifest_path).name for each in found.snapshots() for m in each.manifests(found.io)}


def test_appends_are_seen_and_add_one_manifest_each(tmp_path: Path) -> None:
    table = new_table(tmp_path, partition_keys="p")
    for number in range(4):
        table.append([row(number, f"v{number}", "ab"[number % 2])])
        assert len(assert_same(table)) == number + 1
    found = iceberg(table)
    assert [each.snapshot_id for each in found.snapshots()] == [1, 2, 3, 4]
    assert [each.parent_snapshot_id for each in found.snapshots()] == [None, 1, 2, 3]
    assert [len(each.manifests(found.io)) for each in found.snapshots()] == [1, 2, 3, 4]
    assert [path.name for path in (Path(table.path) / "metadata").glob("v*")].count("v4.metadata.json") == 1
    assert avro_files(table) == named_files(table)
    assert rows(found.scan(snapshot_id=2).to_arrow()) == [(0, "v0", "a"), (1, "v1", "b")]
    assert rows(found.scan(row_filter="p = 'b' and k > 1").to_arrow()) == [(3, "v3", "b")]


def test_overwrites_and_deletes_are_seen(tmp_path: Path) -> None:
    table = new_table(tmp_path, partition_keys="p")
    table.append([row(1, "a", "a"), row(2, None, "b"), row(3, "c", "c")])
    table.overwrite([row(9, "new", "b")], where="p = 'b'")
    assert_same(table)
    assert iceberg(table).current_snapshot().summary.operation.value == "overwrite"
    table.delete("k = 3")
    assert assert_same(table) == [(1, "a", "a"), (9, "new", "b")]
    table.delete()
    assert assert_same(table) == []
    table.append([row(5, "e", "a")])
    assert assert_same(table) == [(5, "e", "a")]
    assert avro_files(table) == named_files(table)
