"""Files whose rows have other ids than a query asks for are not read, where ids of rows follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import create_table
from paimon_spark.read.audit_log import read_tracked
from paimon_spark.read.metadata_columns import planned_metadata_fields, prune_by_metadata
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import ReadPlan, TableScan
from paimon_spark.spec.manifest import EMPTY_STATS, ManifestFileMeta, RecordedFile
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import And, Leaf, Or, Predicate
from paimon_spark.spec.special_fields import ROW_ID
from paimon_spark.table.manifest_store import ManifestStore, manifests_with_row_ids
from paimon_spark.table.table import load_table
from tests.support.plans import plan_of

TRACKED = {"row-tracking.enabled": "true", "compaction.min.file-num": "50"}
ID = ROW_ID.name


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ReadPlan:
    """Three files of two rows each."""
    path = tmp_path_factory.mktemp("data_evolution") / "t"
    table = create_table(str(path), pa.schema([("k", pa.int32())]), **TRACKED, **{"data-evolution.enabled": "true"})
    for k in (0, 2, 4):
        table.append(pa.table({"k": pa.array([k, k + 1], pa.int32())}))
    return plan_of(load_table(str(path)))


@pytest.mark.parametrize(
    ("predicates", "kept"),
    [
        ([Leaf("eq", ID, (0,))], [0]),
        ([Leaf("in", ID, (1, 5))], [0, 4]),
        ([Leaf("in", ID, (6, 7))], []),
        ([Leaf("ge", ID, (1,)), Leaf("le", ID, (2,))], [0, 2]),
        ([Or((Leaf("eq", ID, (0,)), Leaf("eq", ID, (3,))))], [0, 2]),
        ([And((Leaf("eq", ID, (0,)), Leaf("in", ID, (2, 3))))], []),
        ([Or((Leaf("eq", ID, (0,)), Leaf("eq", "__paimon_bucket", (7,))))], [0, 2, 4]),
        ([Leaf("eq", ID, (0,)), Leaf("eq", "__paimon_bucket", (7,))], []),
        ([Leaf("eq", ID, (3,)), Leaf("eq", "__paimon_bucket", (0,))], [2]),
    ],
)
def test_files_with_other_ids_are_left_out(plan: ReadPlan, predicates: list[Predicate], kept: list[int]) -> None:
    pruned = prune_by_metadata(plan, predicates)
    assert sorted(file.first_row_id or 0 for split in pruned.splits for file in split.files) == kept
    fields = (*plan.fields, ROW_ID)
    rows = [
        row
        for split in pruned.splits
        for batch in read_tracked(plan.table, split, fields, None)
        for row in batch.to_pylist()
    ]
    assert sorted((row["k"], row[ID]) for row in rows) == [(k + n, k + n) for k in kept for n in (0, 1)]


def test_ids_that_rows_of_a_file_have_of_their_own_leave_out_none(tmp_path: Path) -> None:
    """A compaction keeps the ids of rows in its file: they need not follow each other."""
    create_table(str(tmp_path / "t"), pa.schema([("k", pa.int32())]), **TRACKED)
    assert ROW_ID not in planned_metadata_fields(load_table(str(tmp_path / "t")).schema)


def manifest(first: int | None, last: int | None) -> ManifestFileMeta:
    return ManifestFileMeta(f"{first}-{last}", 1, 1, 0, EMPTY_STATS, 0, min_row_id=first, max_row_id=last)


@pytest.mark.parametrize(
    ("ranges", "kept"),
    [
        ([(0, 3), (4, 5)], [(0, 3)]),
        ([(4, 5), (0, 3)], [(0, 3)]),
        ([(0, 3), (2, 8), (8, 9), (10, 11)], [(0, 3), (2, 8), (8, 9)]),  # files of the same rows, or DELETEs of them
        ([(9, 9), (0, 0), (1, 1)], [(1, 1)]),
        ([(0, 3), (None, None), (7, 9)], [(0, 3), (None, None), (7, 9)]),
        ([], []),
    ],
)
def test_manifests_with_other_ids_are_left_out(ranges: list[tuple[Any, Any]], kept: list[tuple[Any, Any]]) -> None:
    found = manifests_with_row_ids([manifest(*each) for each in ranges], Leaf("in", ID, (1, 20)))
    assert [(meta.min_row_id, meta.max_row_id) for meta in found] == kept


def test_no_manifest_of_other_rows_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_table(
        str(tmp_path / "t"), pa.schema([("k", pa.int32())]), **TRACKED, **{"data-evolution.enabled": "true"}
    )
    for k in (0, 2, 4):
        made.append(pa.table({"k": pa.array([k, k + 1], pa.int32())}))
    table = load_table(str(tmp_path / "t"))
    read: list[str] = []
    columns_of = ManifestStore.columns_of

    def counted(store: ManifestStore, manifests: Sequence[RecordedFile], **options: Any) -> Iterator[ManifestColumns]:
        read.extend(each.name for each in manifests)
        return columns_of(store, manifests, **options)

    monkeypatch.setattr(ManifestStore, "columns_of", counted)
    for ids, manifests in (((3,), 1), ((0, 5), 2), ((0, 2, 4), 3), ((7,), 0)):
        read.clear()
        asked = Leaf("in", ID, ids)
        plan = prune_by_metadata(replace(TableScan.of(table, ROWS), row_ids=asked).plan(), [asked])
        assert len(read) == manifests
        assert sum(len(split.files) for split in plan.splits) == manifests
