"""Options of compaction, the partitions and buckets it is given, and the tables that it refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import (
    OptionError,
    UnsupportedError,
)
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.levels import CompactStrategy
from paimon_spark.maintain.compact.scope import parse_partitions, scope_of
from paimon_spark.options import CoreOptions
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import STRING, data_file, fake_file, make_table, message

# -- options ----------------------------------------------------------------------------------------------------------


def test_off_peak_hours() -> None:
    given = {
        "compaction.offpeak-ratio": "30",
        "compaction.offpeak.start.hour": "22",
        "compaction.offpeak.end.hour": "3",
    }
    ratios = {
        hour: CompactStrategy.of(CoreOptions(given), full=False, now=datetime(2024, 1, 1, hour)).size_ratio
        for hour in (2, 3, 12, 21, 22)
    }
    assert ratios == {2: 31, 3: 1, 12: 1, 21: 1, 22: 31}
    never = CoreOptions({**given, "compaction.offpeak.end.hour": "-1"})
    assert CompactStrategy.of(never, full=False, now=datetime(2024, 1, 1, 23)).size_ratio == 1


@pytest.mark.parametrize(
    ("options", "picked"),
    [
        ({}, None),
        ({"compaction.force-up-level-0": "true"}, (4, 2)),
        ({"num-sorted-run.compaction-trigger": "3", "num-levels": "6"}, (4, 2)),
        ({"num-sorted-run.compaction-trigger": "3", "compaction.max-size-amplification-percent": "1"}, (5, 3)),
        ({"compaction.total-size-threshold": "10 kb"}, None),
        ({"compaction.total-size-threshold": "11 kb"}, (5, 3)),
        ({"compaction.incremental-size-threshold": "200 b"}, None),
        ({"compaction.incremental-size-threshold": "199 b"}, (5, 3)),
        ({"compaction.optimization-interval": "2 h"}, None),
        ({"compaction.optimization-interval": "30 min"}, (5, 3)),
    ],
)
def test_early_and_forced_compactions(options: dict[str, str], picked: tuple[int, int] | None) -> None:
    now = datetime(2024, 1, 1, 12)
    hour_ago = (now - timedelta(hours=1) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    files = [replace(fake_file(f"{at}"), max_sequence_number=at) for at in (7, 8)]
    files.append(replace(fake_file("old"), level=5, file_size=10_140, creation_time_millis=hour_ago))
    unit = CompactStrategy.of(CoreOptions(options), full=False, now=now).pick(files)
    assert (None if unit is None else (unit.level, len(unit.files))) == picked


def test_expired_partitions_are_left_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partition=["dt"], bucket="-1", compaction__min__file_num="2")
    for day in ("2020-01-01", "2999-01-01", "no day"):
        for number in range(2):
            commit(table, [message(table, data_file(table, {number: day}, partition=day), partition=day)])
    skipping = {"compaction.skip-expired-partitions": "true", "partition.expiration-time": "7 d"}
    named = {"partition.timestamp-formatter": "yyyy-MM-dd", "write-only": "true"}
    assert compact(table.with_options({**skipping, **named})) is not None
    days = [table.paths.partition_path(e.partition) for e in table.manifests.live_entries(table.snapshots.latest())]
    assert sorted(days) == ["dt=2020-01-01", "dt=2020-01-01", "dt=2999-01-01", "dt=no day"]


def test_files_of_a_clustered_table_are_not_joined(tmp_path: Path) -> None:
    options = {"bucket": "-1", "clustering.incremental": "true", "clustering.columns": "k"}
    table = make_table(tmp_path / "t", **options)
    with pytest.raises(UnsupportedError, match=r"'clustering\.incremental' = true"):
        compact(table)
    assert not (tmp_path / "t" / "snapshot").exists()


# -- scope ------------------------------------------------------------------------------------------------------------

LOCATIONS = [(None, 1), ("a", 1), ("a", 2), ("b'c", 3)]


def locations(table: FileStoreTable, **scope: Any) -> list[tuple[Any, ...]]:
    """The partitions that a scope holds."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    found = scope_of(table, **scope).bucket_files(table, snapshot)
    return sorted((tuple(DataLayout.of(table.schema).partition_values(each.partition)) for each in found), key=repr)


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """A table partitioned by dt STRING and hh INT, with the partitions of `LOCATIONS`."""
    fields = [DataField(0, "k", IntType()), DataField(1, "dt", STRING), DataField(2, "hh", IntType())]
    schema = create_schema(fields, (), ("dt", "hh"), {"bucket": "-1"}, None)
    table = create_table(str(tmp_path_factory.mktemp("parted") / "t"), schema)
    for dt, hh in LOCATIONS:
        batch = pa.RecordBatch.from_pydict(
            {"k": pa.array([1], pa.int32()), "dt": pa.array([dt], pa.string()), "hh": pa.array([hh], pa.int32())}
        )
        commit(table, [write_batches(plan_write(table, data_schema=batch.schema), [batch], 0)])
    return table


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dt=a", [("a", 1), ("a", 2)]),
        ("dt='a',hh=2", [("a", 2)]),
        ('hh=1;dt="a"', [("a", 1), ("a", 2), (None, 1)]),
        ("dt=b'c", [("b'c", 3)]),
        (" hh = '3' ", [("b'c", 3)]),
        ("dt=__DEFAULT_PARTITION__", [(None, 1)]),
        ("dt=nix", []),
    ],
)
def test_partitions_as_text(parted: FileStoreTable, text: str, found: list[Any]) -> None:
    assert locations(parted, partitions=parse_partitions(text)) == sorted(found, key=repr)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("dt = 'a' AND hh > 1", [("a", 2)]),
        ("dt IS NULL OR hh = 3", [("b'c", 3), (None, 1)]),
        ("HH IN (2, 3)", [("a", 2), ("b'c", 3)]),
        ("hh < 0", []),
    ],
)
def test_partitions_by_condition(parted: FileStoreTable, where: str, found: list[Any]) -> None:
    assert locations(parted, where=where) == sorted(found, key=repr)


def test_scopes_that_are_none(parted: FileStoreTable, tmp_path: Path) -> None:
    assert locations(parted, partitions=[{"dt": None}]) == [(None, 1)]
    assert locations(parted) == locations(parted, idle_time=timedelta(0)) == sorted(LOCATIONS, key=repr)
    assert locations(parted, idle_time=timedelta(hours=1)) == []
    plain = make_table(tmp_path / "t", bucket="-1")
    wrong: list[tuple[FileStoreTable, dict[str, Any], str]] = [
        (plain, {"where": "k = 1"}, "should be a partitioned table"),
        (plain, {"partitions": [{"dt": "a"}]}, "should be a partitioned table"),
        (
            plain,
            {"buckets": [0]},
            "only supported for fixed-bucket tables, but the table bucket mode is BUCKET_UNAWARE",
        ),
        (parted, {"where": "k = 1"}, "Only partition predicate is supported"),
        (parted, {"partitions": [{"hh": "x"}]}, "hh"),
        (parted, {"partitions": [{"k": "1"}]}, r"Partition keys \[k\] are invalid"),
    ]
    for table, given_scope, text in wrong:
        with pytest.raises(OptionError, match=text):
            scope_of(table, **given_scope)
