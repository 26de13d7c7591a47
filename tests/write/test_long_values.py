"""Keys and values of megabytes: what is written is readable, by Java too, or refused before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit import manifest_write
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import DataError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage import avro_format
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write import rolling
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

MEGABYTE = 1 << 20


def make(path: Path, key: tuple[str, ...] = ("k",), **options: str) -> FileStoreTable:
    fields = [DataField(0, "k", parse_type("STRING NOT NULL")), DataField(1, "v", parse_type("STRING"))]
    given = {"bucket": "1" if key else "-1", "write-only": "true"}
    given |= {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}
    return create_table(str(path), create_schema(fields, key, (), given, None))


def write(table: FileStoreTable, *rows: tuple[str, str]) -> None:
    data = pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]})
    commit(table, [write_batches(plan_write(table, data_schema=data.schema), data.to_batches(), 0)])


def lengths(table: FileStoreTable) -> list[tuple[int, str]]:
    plan = plan_of(load_table(table.path))
    rows = [r for s in plan.splits for b in read_split(plan.table, s, plan.fields) for r in b.to_pylist()]
    return sorted((len(row["k"]), row["v"][:3]) for row in rows)


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_key_of_three_megabytes(tmp_path: Path, file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", file_format=file_format)
    for version in ("one", "two"):
        write(table, ("x" * 3 * MEGABYTE, version), ("short", version))
    assert lengths(table) == [(5, "two"), (3 * MEGABYTE, "two")]
    compact(table)
    assert lengths(table) == [(5, "two"), (3 * MEGABYTE, "two")]
    monkeypatch.setattr(manifest_write, "_MOST_BYTES", 2 * MEGABYTE)
    write(table, ("y" * 3 * MEGABYTE, "new"))
    assert lengths(table) == [(5, "two"), (3 * MEGABYTE, "new"), (3 * MEGABYTE, "two")]


def test_manifests_roll_by_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", target__file__row__num="1")
    monkeypatch.setattr(manifest_write, "_MOST_BYTES", 5 * MEGABYTE)
    write(table, *((letter * 300_000, letter) for letter in "abcdefghij"))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    metas = table.manifests.delta_manifests(snapshot)
    assert len(lengths(table)) == 10
    assert sum(meta.num_added_files for meta in metas) == len(table.manifests.live_entries(snapshot)) == 10
    assert [meta.num_added_files for meta in metas] == [8, 2]


@pytest.mark.parametrize("key", [("k",), ()], ids=["key", "statistics"])
def test_what_no_manifest_can_hold_is_refused(
    tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t", key, metadata_stats__mode="full", file_format="avro")
    monkeypatch.setattr(rolling, "_MAX_METADATA_BYTES", MEGABYTE)
    with pytest.raises(DataError, match="primary key is too long"):
        write(table, ("x" * MEGABYTE, "v"))
    write(table, ("x" * 100_000, "v"))
    assert lengths(table) == [(100_000, "v")]
    assert len(list((tmp_path / "t").rglob("data-*"))) == 1


def test_a_row_that_no_avro_file_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", (), file_format="avro", metadata_stats__mode="none")
    write(table, ("x" * 20 * MEGABYTE, "v"))
    monkeypatch.setattr(avro_format, "_MAX_ROW_BYTES", 10 * MEGABYTE)
    with pytest.raises(DataError, match=r"20 MB.*parquet"):
        write(table, ("x" * 20 * MEGABYTE, "w"))
    assert lengths(table) == [(20 * MEGABYTE, "v")]


@pytest.mark.oracle
def test_long_keys_go_both_ways(oracle: Any, tmp_path: Path) -> None:
    columns = [("k", "STRING NOT NULL"), ("v", "STRING")]
    oracle.create("db.long_keys", columns, pk=["k"], options={"bucket": 1, "write-only": True})
    oracle.write("db.long_keys", [("x" * 3 * MEGABYTE, "one"), ("short", "one")])
    java = load_table(f"{oracle.warehouse}/db.db/long_keys")
    assert lengths(java) == [(5, "one"), (3 * MEGABYTE, "one")]
    write(java, ("x" * 3 * MEGABYTE, "two"), ("y" * 3 * MEGABYTE, "two"))
    found = sorted((len(k), v) for k, v in oracle.rows("db.long_keys"))
    assert found == [(5, "one"), (3 * MEGABYTE, "two"), (3 * MEGABYTE, "two")]
