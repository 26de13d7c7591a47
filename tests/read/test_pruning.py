"""Which manifests are opened and which files are planned, on tables of metadata alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.read import split_generator
from paimon_spark.read.split import SplitFile
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.deletion_vectors import Vectors
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.plans import plan_of
from tests.support.synthetic import FIRST_DAY, metadata_table

MANIFESTS, FILES = 12, 30


@pytest.fixture(scope="module", params=[False, True], ids=["append", "primary key"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """Twelve days, one manifest of thirty files each; file i holds ids (and n, x) 100 i to 100 i + 99."""
    root = tmp_path_factory.mktemp("metadata") / "t"
    return metadata_table(root, manifests=MANIFESTS, files=FILES, primary_key=request.param)


class CountingFileIO(LocalFileIO):
    """Remembers which files were read."""

    __slots__ = ()

    def read_bytes(self, path: str) -> bytes:
        """Read a file and remember its name."""
        opened.append(Path(path).name)
        return LocalFileIO.read_bytes(self, path)


opened: list[str] = []


def day(number: int) -> object:
    return FIRST_DAY + timedelta(days=number)


@pytest.mark.parametrize(
    ("predicate", "days"),
    [
        (Leaf("eq", "dt", (day(3),)), {3}),
        (Leaf("lt", "dt", (day(2),)), {0, 1}),
        (Or((Leaf("eq", "dt", (day(0),)), Leaf("eq", "dt", (day(5),)))), {0, 5}),
        (Leaf("in", "dt", (day(1), day(99))), {1}),
        (Not(Leaf("ge", "dt", (day(1),))), {0}),
        (And((Leaf("eq", "dt", (day(3),)), Leaf("eq", "dt", (day(4),)))), set()),
        (Leaf("is_null", "dt"), set()),
        (And((Leaf("eq", "dt", (day(7),)), Leaf("ge", "x", (0.0,)))), {7}),
    ],
    ids=str,
)
def test_only_manifests_of_matching_partitions_are_opened(
    table: FileStoreTable, predicate: Predicate, days: set[int]
) -> None:
    counting = replace(table, file_io=CountingFileIO())
    opened.clear()
    plan = plan_of(counting, predicate=predicate)
    read = {int(name.split("-")[1]) for name in opened if name.startswith("manifest-")}
    assert read == days
    assert sum(len(split.files) for split in plan.splits) == FILES * len(days)


@pytest.mark.parametrize(
    ("predicate", "numbers"),
    [
        (Leaf("eq", "n", (1234,)), {12}),
        (Leaf("between", "n", (199, 300)), {1, 2, 3}),
        (Leaf("eq", "name", ("name000000500",)), {5}),
        (Leaf("starts_with", "name", ("name0000006",)), {6}),
        (And((Leaf("gt", "n", (500,)), Leaf("lt", "x", (700.0,)))), {5, 6}),
        (Leaf("is_null", "n"), set()),
        (Leaf("in", "n", (5, 905, 10**6)), {0, 9}),
    ],
    ids=str,
)
def test_value_statistics_rule_out_files(
    table: FileStoreTable, predicate: Predicate, numbers: set[int], request: pytest.FixtureRequest
) -> None:
    """Append: every file is judged alone. Primary key (level 0, overlapping by rule): whole buckets are."""
    plan = plan_of(table, predicate=predicate)
    planned = {int(file.name.split("-")[1]) for split in plan.splits for file in split.files}
    if not table.schema.primary_keys:
        assert planned == numbers
    else:
        everything = range(MANIFESTS * FILES)
        buckets = {(number // FILES, number % FILES % 10) for number in numbers}
        assert planned == {number for number in everything if (number // FILES, number % FILES % 10) in buckets}


def test_key_statistics_and_buckets_rule_out_files(tmp_path: Path) -> None:
    table = metadata_table(tmp_path / "t", manifests=1, files=50, primary_key=True)
    between = plan_of(table, predicate=Leaf("between", "id", (1050, 1250)))
    assert {int(f.name.split("-")[1]) for s in between.splits for f in s.files} == {10, 11, 12}
    one = plan_of(table, predicate=Leaf("eq", "id", (1050,)))
    assert {s.bucket for s in one.splits} <= {0}  # file 10 is in bucket 0; the key's own bucket may be another
    assert sum(len(s.files) for s in one.splits) <= 1


def test_a_limit_stops_at_the_first_splits_that_hold_enough(tmp_path: Path) -> None:
    table = metadata_table(tmp_path / "t", manifests=4, files=40)
    everything = plan_of(table)
    assert len(everything.splits) == 40  # 30 MB files, four to a split of 128 MB
    assert len(plan_of(table, limit=401).splits) == 2
    dated = plan_of(table, limit=401, predicate=Leaf("eq", "dt", (day(2),)))
    assert len(dated.splits) == 2


def test_a_limit_makes_no_splits_that_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = metadata_table(tmp_path / "t", manifests=20, files=300)
    made: list[int] = []
    split_files = split_generator.split_files

    def counting(table: FileStoreTable, files: ManifestColumns, vectors: Vectors) -> list[SplitFile]:
        made.append(len(files))
        return split_files(table, files, vectors)

    monkeypatch.setattr(split_generator, "split_files", counting)
    first = plan_of(table, limit=1).splits
    assert sum(made) < 1000
    assert first == plan_of(table).splits[:1]


def test_a_single_bucket_can_be_scanned(tmp_path: Path) -> None:
    metadata_table(tmp_path / "t", manifests=2, files=30, primary_key=True)
    plan = plan_of(load_table(str(tmp_path / "t"), options={"scan.bucket": "4"}))
    assert {split.bucket for split in plan.splits} == {4}
    assert sum(len(split.files) for split in plan.splits) == 6
