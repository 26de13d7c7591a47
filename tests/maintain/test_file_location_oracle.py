"""Tables whose data Java has put elsewhere: legal ones are read, expired and cleaned, and nothing alongside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.table.table import load_table
from paimon_spark.write.data_file_spec import entropy_directories
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table
from tests.support.plans import plan_of

LONG_AGO = 1_500_000_000


def ids(path: str) -> list[int]:
    plan = plan_of(load_table(path))
    batches = (batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields, plan.residual))
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


def locations(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {
        "ext": {
            "data-file.external-paths": f"file:{tmp_path}/e1/places_ext,file://{tmp_path}/places_ext/e2",
            "data-file.external-paths.strategy": "round-robin",
        },
        "entropy": {
            "data-file.external-paths": f"file:{tmp_path}/e3/places_entropy",
            "data-file.external-paths.strategy": "entropy-inject",
        },
        "deep": {"data-file.path-directory": "a/b"},
        "dots": {"data-file.path-directory": "a/../b//c/"},
        "prefix": {"data-file.prefix": ".x y%2F-"},
    }


@pytest.mark.parametrize("kind", ["ext", "entropy", "deep", "dots", "prefix"])
def test_tables_of_java_with_data_elsewhere(oracle: Any, tmp_path: Path, kind: str) -> None:
    name = f"db.places_{kind}"
    oracle.create(name, [("id", "INT NOT NULL"), ("p", "STRING")], partition=["p"], options=locations(tmp_path)[kind])
    for number in range(3):
        oracle.write(name, [(number, "x y")], overwrite={} if number else None)
    path = str(Path(oracle.warehouse, "db.db", f"places_{kind}"))
    roots = (Path(path), tmp_path)
    assert ids(path) == [2]
    for root in roots:
        for file in root.rglob("*"):
            os.utime(file, (LONG_AGO, LONG_AGO))
    table = load_table(path)
    assert remove_orphan_files(table).file_count == 0
    assert expire_snapshots(table, retain_latest_only()) == 2
    assert sum(len(list(root.rglob("*.parquet"))) for root in roots) == 1
    assert ids(path) == [2]
    assert oracle.rows(name) == [(2, "x y")]


@pytest.mark.parametrize("kind", ["ext", "entropy", "weights", "one scheme", "no keys"])
def test_what_we_write_elsewhere_java_reads_and_goes_on_with(oracle: Any, tmp_path: Path, kind: str) -> None:
    first, second = f"file:{tmp_path}/e1/t", f"file:///{tmp_path}/e2/t/"
    strategy = {"entropy": "entropy-inject", "weights": "weight-robin", "one scheme": "specific-fs"}
    options = {
        "data-file.external-paths": f"{first}, {second}" + (", s3://elsewhere/t" if kind == "one scheme" else ""),
        "data-file.external-paths.strategy": strategy.get(kind, "round-robin"),
        "data-file.external-paths.weights": "1,3",
        "data-file.external-paths.specific-fs": "FILE",
        "file-index.bloom-filter.columns": "id",
        "file-index.in-manifest-threshold": "1 b",
        "data-file.path-directory": "inner",
    }
    keyed = kind != "no keys"
    options |= {"bucket": "1", "changelog-producer": "input"} if keyed else {"bucket": "-1"}
    name = oracle.fresh_name("locations")
    key = ["id", "p"] if keyed else []
    oracle.create(name, [("id", "INT NOT NULL"), ("p", "STRING NOT NULL")], partition=["p"], pk=key, options=options)
    path = oracle.location(name).removeprefix("file:")
    for number in range(4):
        append(path, [(number, "x y"), (number + 10, "z")])
    oracle.write(name, [(99, "z")])
    expected = sorted([*range(4), *range(10, 14), 99])
    assert ids(path) == expected == sorted(row[0] for row in oracle.rows(name))
    assert not list(Path(path).rglob("*.parquet"))
    ours = external_paths(path)
    assert all(text.startswith(f"file:{tmp_path}/e") and "/t/inner/p=" in text for text in ours)
    if kind == "entropy":  # Java's file among them
        assert all(tuple(text.split("/")[-5:-1]) == entropy_directories(text.rpartition("/")[2]) for text in ours)
    compact(load_table(path))
    assert ids(path) == expected == sorted(row[0] for row in oracle.rows(name))
    # no part of the roots is the table's name
    table = load_table(path, options={"external-paths.may-delete": f"file:{tmp_path}/e1, file:{tmp_path}/e2/t"})
    for root in (Path(path), tmp_path):
        for file in root.rglob("*"):
            os.utime(file, (LONG_AGO, LONG_AGO))
    (tmp_path / "e1" / "other.parquet").write_text("of somebody else")
    expire_snapshots(table, retain_latest_only())
    live = {Path(text.removeprefix("file:")) for text in external_paths(path)}
    assert set(tmp_path.glob("e?/t/**/data-*.parquet")) == live
    assert (tmp_path / "e1" / "other.parquet").exists()
    assert ids(path) == expected


@pytest.mark.parametrize("vectors", [False, True])
def test_index_files_next_to_the_data(oracle: Any, vectors: bool) -> None:
    options = {"bucket": "-1", "index-file-in-data-file-dir": "true", "dynamic-bucket.target-row-num": "3"}
    options |= {"deletion-vectors.enabled": "true", "dynamic-bucket.target-row-num": "1000"} if vectors else {}
    name = oracle.fresh_name("locations")
    columns = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL")]
    oracle.create(name, columns, partition=["p"], pk=["id", "p"], options=options)
    path = oracle.location(name).removeprefix("file:")

    def write(*keys: int) -> None:
        append(path, [(key, "x") for key in keys])
        if vectors:  # what waits in level 0 is not seen
            compact(load_table(path), full=False)

    write(*range(1, 400 if vectors else 4))
    oracle.write(name, [(3, "x"), (4, "x"), (5, "x")])
    write(4, 6, 7)
    oracle.write(name, [(1, "x"), (7, "x"), (8, "x")])
    write(8, 9)
    wanted = list(range(1, 400 if vectors else 10))
    assert ids(path) == wanted
    assert sorted(row[0] for row in oracle.rows(name)) == wanted
    latest = load_table(path).snapshots.latest()
    assert latest is not None
    entries = load_table(path).manifests.index_entries(latest)
    assert {entry.index_type for entry in entries} == {"HASH", *(["DELETION_VECTORS"] if vectors else [])}
    for entry in entries:
        assert list(Path(path).rglob(entry.file_name)) == [Path(path, "p=x", f"bucket-{entry.bucket}", entry.file_name)]
    table = load_table(path)
    for file in Path(path).rglob("*"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    expire_snapshots(table, retain_latest_only())
    assert remove_orphan_files(table).file_count == 0
    assert {file.name for file in Path(path, "p=x").rglob("index-*")} == {entry.file_name for entry in entries}
    assert ids(path) == wanted


def external_paths(path: str) -> list[str]:
    table = load_table(path)
    latest = table.snapshots.latest()
    assert latest is not None
    return [str(entry.file.external_path) for entry in table.manifests.live_entries(latest)]


def append(path: str, rows: list[tuple[int, str]]) -> None:
    table = load_table(path)
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    batch = pa.RecordBatch.from_pylist([{"id": number, "p": p} for number, p in rows], schema)
    commit(table, [write_batches(plan, [batch], 0)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data-file.external-paths": "/x/t"}, "scheme should not be null"),
        ({"data-file.external-paths": "s3://bucket/t"}, "another store"),
        ({"data-file.external-paths.strategy": "specific-fs"}, "needs 'data-file.external-paths.specific-fs'"),
        (
            {
                "data-file.external-paths.strategy": "specific-fs",
                "data-file.external-paths.specific-fs": "oss",
            },
            "External paths should not be empty",
        ),
        (
            {
                "data-file.external-paths": "file:/a/t,file:/b/t",
                "data-file.external-paths.strategy": "weight-robin",
                "data-file.external-paths.weights": "1",
            },
            "external paths and weights should be the same",
        ),
    ],
)
def test_external_paths_that_cannot_be_written(tmp_path: Path, options: dict[str, str], words: str) -> None:
    every = {
        "data-file.external-paths": f"file:{tmp_path}/e/t",
        "data-file.external-paths.strategy": "round-robin",
        **options,
    }
    table = make_table(tmp_path / "t", bucket="-1")
    schema = to_arrow_schema(table.schema.fields)
    opened = load_table(table.path, options=every)
    with pytest.raises(PaimonError, match=words):
        plan_write(opened, data_schema=schema)


def test_without_a_strategy_files_stay_in_the_table(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", bucket="-1", data_file__external_paths=f"file:{tmp_path}/e/t")
    schema = to_arrow_schema(table.schema.fields)
    plan = plan_write(table, data_schema=schema)
    rows = pa.RecordBatch.from_pylist([{**dict.fromkeys(schema.names), "k": 1}], schema)
    commit(table, [write_batches(plan, [rows], 0)])
    assert len(list(Path(table.path).rglob("*.parquet"))) == 1
    assert not (tmp_path / "e").exists()
