"""Files of splits as columns: what comes back is what went in, and it is small."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.read import split_generator
from paimon_spark.read.split import (
    DataSplit,
    FileBlock,
    KeyRangeSplit,
    PackedFiles,
    RowGroups,
    SplitFile,
    from_wire,
    splits_from_wire,
    splits_to_wire,
    to_wire,
)
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.table.deletion_vectors import VectorLocation
from tests.support.plans import plan_of
from tests.support.synthetic import metadata_table

_ONE = "1d988891-69ed-4613-bb70-733c0b662c30"
_UUIDS = st.uuids(version=4).map(str)
_NAMES = st.one_of(
    st.builds("data-{}-{}.parquet".format, _UUIDS, st.integers(0, 20)),
    st.builds("{}{}".format, _UUIDS, st.text("-abc.", max_size=3)),
    st.text("-0af.", min_size=1, max_size=40),
    st.just("data-2D988891-69ED-4613-BB70-733C0B662C30-0.orc"),
)
_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_FILES = st.builds(
    SplitFile,
    name=_NAMES,
    directory=st.sampled_from(["/w/t/bucket-0/", "s3://other/", f"/wh/{_ONE}/t/bucket-0/", f"/wh/{_ONE}/ext/b/"]),
    format=st.sampled_from(["parquet", "orc"]),
    size=_NUMBERS,
    row_count=st.integers(0, 3),
    level=st.integers(0, 5),
    min_seq=_NUMBERS,
    max_seq=_NUMBERS,
    schema_id=st.integers(0, 1),
    delete_row_count=st.none() | st.integers(0, 2),
    min_key=st.binary(max_size=3),
    max_key=st.binary(min_size=2, max_size=2),
    row_groups=st.none() | st.just(RowGroups(1, 2, 3)),
    write_cols=st.none() | st.just(("a", "b")),
    deletion_vector=st.none() | st.just(VectorLocation("/w/t/index/i", 1, 2)),
    created_millis=st.integers(0, 2),
)


@given(st.lists(_FILES, min_size=1, max_size=6))
def test_what_comes_back_is_what_went_in(files: list[SplitFile]) -> None:
    count, columns = pickle.loads(pickle.dumps(to_wire(files)))
    assert [SplitFile._make(file) for file in from_wire(count, columns)] == files
    block = FileBlock(files)
    for start in range(len(files)):
        packed = PackedFiles(block, start, len(files) - start)
        assert packed == tuple(files[start:]) == tuple(packed)
        assert packed[-1] == files[-1]
        assert packed[1:] == tuple(files[start + 1 :])


_PLAIN = st.builds(
    DataSplit,
    snapshot_id=st.integers(1, 2),
    partition=st.binary(max_size=2),
    bucket=st.integers(-2, 3),
    total_buckets=st.integers(-1, 4),
    files=st.lists(_FILES, max_size=3).map(tuple),
    raw_convertible=st.booleans(),
    branch=st.none() | st.just("b"),
)
_RANGES = st.builds(lambda split: KeyRangeSplit.of(split, split.files, "k", 1, None), _PLAIN)


@given(st.lists(_PLAIN, max_size=5) | st.lists(_PLAIN | _RANGES, max_size=3))
def test_the_splits_of_a_task_come_back_as_they_went_in(splits: list[DataSplit]) -> None:
    assert splits_from_wire(pickle.loads(pickle.dumps(splits_to_wire(splits)))) == tuple(splits)


@pytest.mark.parametrize("block", [150, 200, 1000, 1])
@pytest.mark.parametrize(("primary_key", "most"), [(False, 85), (True, 95)])
def test_a_large_plan_travels_in_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, primary_key: bool, most: int, block: int
) -> None:
    """Also where the files fill the last block."""
    table = metadata_table(tmp_path / "t", manifests=40, files=50, primary_key=primary_key, manifests_per_day=4)
    plain = plan_of(table).splits
    monkeypatch.setattr(split_generator, "_MANY_FILES", 100)
    monkeypatch.setattr(split_generator, "_FILES_OF_BLOCK", block)
    packed = plan_of(table).splits
    assert packed == plain
    assert any(isinstance(split.files, PackedFiles) for split in packed)
    assert len(pickle.dumps(packed)) < most * 2000
    assert pickle.loads(pickle.dumps(packed)) == plain


def test_work_grows_with_the_files_not_with_files_times_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = metadata_table(tmp_path / "t", manifests=40, files=50, primary_key=True, manifests_per_day=1)
    made = []
    own = ManifestColumns._list

    def counted(self: ManifestColumns, name: str) -> list[Any]:
        made.append(len(self))
        return own(self, name)

    monkeypatch.setattr(ManifestColumns, "_list", counted)
    plan = plan_of(table)
    assert len({(split.partition, split.bucket) for split in plan.splits}) == 400
    assert sum(made) < 60 * 2000, "24 columns of all files when this was written; 425 where each bucket made one"
