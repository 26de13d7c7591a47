"""Expiry of partitions: by their values and by their last change."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.table.partitions import partition_time
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows

DAYS = ("2020-01-01", "2020-01-02", "9999-09-09")


def add(table: FileStoreTable, *days: str | None) -> None:
    for day in days:
        number = (table.snapshots.latest_id() or 0) + 1
        commit(table, [message(table, data_file(table, {number: "v"}, partition=day), partition=day)])


def made(path: Path, *days: str | None, **options: str) -> FileStoreTable:
    table = make_table(path / "t", partition=["dt"], bucket="-1", **options)
    add(table, *days)
    return table


def test_by_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = made(tmp_path, *DAYS, "no time", None, partition__expiration_time="1 d")
    assert expire_partitions(table) == [{"dt": "2020-01-01"}, {"dt": "2020-01-02"}]
    assert set(rows(table)) == {3, 4, 5}
    assert "'dt': 'no time'} is no time and does not expire" in caplog.text
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.commit_kind.value == "OVERWRITE"
    assert expire_partitions(table) == []
    assert table.snapshots.latest_id() == snapshot.id


def test_only_so_many_and_in_batches(tmp_path: Path) -> None:
    days = [f"2020-01-{day:02}" for day in range(1, 8)]
    table = made(tmp_path, *reversed(days), partition__expiration_time="1 d", partition__expiration_max_num="5")
    batches = table.with_options({"partition.expiration-batch-size": "2"})
    assert [partition["dt"] for partition in expire_partitions(batches)] == days[:5]
    assert table.snapshots.latest_id() == 7 + 3
    assert set(rows(table)) == {1, 2}


def test_by_the_last_change(tmp_path: Path) -> None:
    options = {"partition__expiration_time": "1 d", "partition__expiration_strategy": "update-time"}
    table = made(tmp_path, "x", **options)
    assert expire_partitions(table) == []
    assert expire_partitions(table.with_options({"partition.expiration-time": "0 ms"})) == [{"dt": "x"}]


def test_what_is_needed(tmp_path: Path) -> None:
    table = made(tmp_path, *DAYS)
    with pytest.raises(OptionError, match="Both the partition expiration time and partition field can not be null"):
        expire_partitions(table)
    wrong = table.with_options({"partition.expiration-time": "1 d", "partition.expiration-strategy": "size"})
    with pytest.raises(OptionError, match="Unknown partitionExpireStrategy: size"):
        expire_partitions(wrong)


def test_after_a_commit(tmp_path: Path) -> None:
    table = made(tmp_path, *DAYS, partition__expiration_time="1 d")
    add_with_hook(table)
    assert len(rows(table)) == 4, "batch writes look only where they are asked to"
    add_with_hook(table.with_options({"end-input.check-partition-expire": "true"}))
    assert len(rows(table)) == 3
    add(table, "2020-01-03")
    add_with_hook(table.with_options({"partition.expiration-check-interval": "0 s"}))
    assert len(rows(table)) == 4


def add_with_hook(table: FileStoreTable) -> None:
    number = (table.snapshots.latest_id() or 0) + 1
    file = data_file(table, {number: "v"}, partition="9999-01-01")
    commit(table, [message(table, file, partition="9999-01-01")], after_commit=maintenance(table))


@pytest.mark.parametrize(
    ("values", "pattern", "formatter", "expected"),
    [
        ({"dt": "2024-2-3"}, None, None, datetime(2024, 2, 3)),
        ({"dt": "2024-02-03 4:05:06.5"}, None, None, datetime(2024, 2, 3, 4, 5, 6, 500_000)),
        ({"dt": "2024-13-32"}, None, None, datetime(2025, 2, 1)),
        ({"dt": "2024-02-03 04"}, None, None, None),
        ({"dt": "20240203"}, None, "yyyyMMdd", datetime(2024, 2, 3)),
        ({"dt": "20240231"}, None, "yyyyMMdd", datetime(2024, 2, 29)),
        ({"dt": "20240232"}, None, "yyyyMMdd", None),
        ({"dt": "2024020"}, None, "yyyyMMdd", None),
        ({"dt": "2024-02-03", "hh": "7"}, "$dt $hh:00:00", None, datetime(2024, 2, 3, 7)),
        ({"d": "3", "dt": "2024-02-03"}, "$dt", None, datetime(2024, 2, 3)),
        ({"y": "2024", "m": "11", "d": "09"}, "$y-$m-$d", "yyyy-MM-dd", datetime(2024, 11, 9)),
        ({"dt": "2024/02/03T07"}, None, "yyyy/MM/dd'T'HH", datetime(2024, 2, 3, 7)),
        ({"dt": "24-2-3"}, None, "yy-M-d", datetime(2024, 2, 3)),
        ({"dt": "2024-02"}, None, "yyyy-MM", None),
        ({"dt": "99999-01-01"}, None, None, datetime.max),
    ],
)
def test_times_of_partitions(
    values: dict[str, str], pattern: str | None, formatter: str | None, expected: datetime | None
) -> None:
    assert partition_time(values, pattern, formatter) == expected


def test_formats_that_cannot_be_used() -> None:
    with pytest.raises(OptionError, match=r"'partition.timestamp-formatter' = 'YYYY-ww' cannot be used"):
        partition_time({"dt": "2024"}, None, "YYYY-ww")


COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING"), ("hh", "STRING")]
CHOICES = {
    "values": {},
    "formatter": {"partition.timestamp-formatter": "yyyyMMdd"},
    "pattern": {"partition.timestamp-pattern": "$dt $hh:00:00"},
    "hours": {"partition.timestamp-pattern": "$dt$hh", "partition.timestamp-formatter": "yyyyMMddHH"},
    "at most": {"partition.expiration-max-num": "1"},
    "updates": {"partition.expiration-strategy": "update-time"},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_java_drops_the_same_partitions(oracle: Any, tmp_path: Path, choice: str) -> None:
    hour_ago = datetime.now() - timedelta(hours=30)
    values = ["2020-01-01", "20200101", "2020-1-1", "2020-13-01", "20201301", "x", None, f"{hour_ago:%Y-%m-%d}"]
    written = [
        {"k": number, "v": "v", "dt": value, "hh": hour}
        for number, (value, hour) in enumerate((value, hour) for value in values for hour in ("5", "05", None))
    ]
    left = {}
    for who in ("java", "ours"):
        name = f"expiring.{choice.replace(' ', '_')}_{who}_{tmp_path.name[-4:]}"
        oracle.create(name, COLUMNS, partition=["dt", "hh"], options={"bucket": "-1"})
        oracle.write(name, written)
        options = {"partition.expiration-time": "1 d", "partition.expiration-check-interval": "0 s", **CHOICES[choice]}
        late = [{"k": 99, "v": "v", "dt": "9999-01-01", "hh": "00"}]
        oracle.write(name, late, options=options if who == "java" else {})
        if who == "ours":
            expire_partitions(load_table(oracle.location(name).removeprefix("file:"), options=options))
        left[who] = sorted(row["k"] for row in oracle.read(name).to_pylist())
    assert left["ours"] == left["java"]
    assert (len(left["ours"]) < len(written) + 1) == (choice != "updates")
