"""Manifests are merged as bytes, and say the same as when each entry is decoded and encoded."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paimon_spark.commit.manifest_merge import ManifestAccess, ManifestMergeOptions, merge_manifests
from paimon_spark.commit.manifest_write import ManifestWriter
from paimon_spark.commit.settings import CommitSettings
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.manifest import DataFileMeta, FileKind, ManifestEntry, ManifestFileMeta, SimpleStats
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table
from tests.support.manifest_entries import merge_entries

INT = parse_type("INT")
LONG = parse_type("BIGINT")
EMPTY_KEY = serialize_row([1], [LONG])


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    columns = [("p", "INT NOT NULL"), *((f"c{i}", "BIGINT") for i in range(6))]
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns)]
    return create_table(str(tmp_path / "t"), create_schema(fields, (), ("p",), {}, None))


def entry(number: int, kind: FileKind = FileKind.ADD, **file: object) -> ManifestEntry:
    stats = SimpleStats(serialize_row([number] * 6, [LONG] * 6), serialize_row([number + 9] * 6, [LONG] * 6), (0,) * 6)
    meta = DataFileMeta(
        f"data-{number:08d}-{number * 7919 % 10007}.parquet",
        1000 + number,
        10 + number % 3,
        min_key=EMPTY_KEY,
        max_key=EMPTY_KEY,
        value_stats=stats,
        schema_id=number % 4,
        level=number % 6,
        creation_time_millis=1_700_000_000_000 + number,
    )
    return ManifestEntry(kind, serialize_row([number % 5], [INT]), number % 7, 7, replace(meta, **file))


def merged_both_ways(
    table: FileStoreTable, manifests: list[ManifestFileMeta], options: ManifestMergeOptions
) -> tuple[list[ManifestFileMeta], list[ManifestEntry]]:
    """The merged manifests and their entries, checked against decoded entries."""
    settings = replace(CommitSettings.of(table.options), manifest_merge=options)
    writer = ManifestWriter(table, settings)
    access = ManifestAccess(table.manifests.raw_entries, writer.write_raw, lambda metas, _: list(metas))
    merged = merge_manifests(manifests, options, access)
    entries = [e for meta in merged for e in table.manifests.read_manifest(meta)]
    for meta in merged:
        (again,) = ManifestWriter(table, CommitSettings.of(table.options)).write_manifests(
            table.manifests.read_manifest(meta)
        )
        assert replace(meta, file_name="", file_size=0) == replace(again, file_name="", file_size=0)
        assert meta.file_size == Path(table.paths.manifest_path(meta.file_name)).stat().st_size
    return merged, entries


def write(table: FileStoreTable, entries: list[ManifestEntry], per_manifest: list[int]) -> list[ManifestFileMeta]:
    writer = ManifestWriter(table, CommitSettings.of(table.options))
    ends = np.cumsum(per_manifest).tolist()
    return [m for s, e in zip([0, *ends], ends, strict=False) for m in writer.write_manifests(entries[s:e])]


SHAPES = {
    "many alike": [20] * 60,  # walked side by side
    "few": [300, 300],  # decoded
    "uneven": [1] * 60 + [700] + [3, 40] * 5,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rare", [False, True])
def test_a_minor_merge(table: FileStoreTable, shape: str, rare: bool) -> None:
    total = sum(SHAPES[shape])
    entries = [entry(n) for n in range(total)]
    for n in range(0, total, 3):  # some are deleted at once, some later, some were added long before
        entries[-1 - n] = replace(entries[n // 2], kind=FileKind.DELETE) if n < total // 2 else entries[-1 - n]
    if rare:
        entries[5] = entry(5, extra_files=("x",), embedded_file_index=b"i", external_path="/e/f")
        entries[6] = entry(6, first_row_id=12)
    manifests = write(table, entries, SHAPES[shape])
    options = ManifestMergeOptions(1 << 30, 1 << 40, 2)
    merged, found = merged_both_ways(table, manifests, options)
    assert found == merge_entries(entries)
    assert len(merged) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_full_merge_rolls_at_the_target(table: FileStoreTable, shape: str) -> None:
    total = sum(SHAPES[shape])
    adds = [entry(n, first_row_id=n * 10) for n in range(total)]
    deletes = [replace(e, kind=FileKind.DELETE) for e in adds[::7]]
    manifests = write(table, [*adds, *deletes], [*SHAPES[shape], len(deletes)])
    target = max(m.file_size for m in manifests) + 1  # all are small
    merged, found = merged_both_ways(table, manifests, ManifestMergeOptions(target, 1, 30))
    assert found == [e for n, e in enumerate(adds) if n % 7]
    assert [m.num_added_files for m in merged] == ([1000, len(found) - 1000] if len(found) > 1000 else [len(found)])


@pytest.mark.thorough
def test_memory_is_that_of_some_manifests(table: FileStoreTable) -> None:
    writer = ManifestWriter(table, CommitSettings.of(table.options))
    manifests = [m for n in range(400) for m in writer.write_manifests([entry(n * 60 + i) for i in range(60)])]
    size = sum(m.file_size for m in manifests)
    options = ManifestMergeOptions(size // 4, size // 2, 30)
    settings = replace(CommitSettings.of(table.options), manifest_merge=options)
    access = ManifestAccess(
        table.manifests.raw_entries, ManifestWriter(table, settings).write_raw, lambda metas, _: list(metas)
    )
    tracemalloc.start()
    merged = merge_manifests(manifests, options, access)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(m.num_added_files for m in merged) == 24_000
    assert len(merged) == 2
    assert peak < 50 << 20  # 25 measured
