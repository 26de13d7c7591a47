"""Tags that a table makes by itself: by the clock, by the watermark, and after batch writes."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.refs import tags
from paimon_spark.options import CoreOptions
from paimon_spark.spec.tag import TagPeriod, time_zone
from paimon_spark.table.table import FileStoreTable
from tests.support.commits import data_file, make_table, message

HOUR = 3_600_000
START = 1_700_006_400_000  # 2023-11-15 00:00 in UTC


def table_with(folder: Path, **options: str) -> FileStoreTable:
    return make_table(folder / "t", bucket="-1", **options)


def write(table: FileStoreTable, **how: Any) -> int | None:
    return commit(table, [message(table, data_file(table, {1: "a"}))], after_commit=maintenance(table), **how)


def held(table: FileStoreTable) -> dict[str, int]:
    return {name: tag.snapshot.id for name, tag in table.tags.list().items()}


def by_watermark(folder: Path, hours: list[float | None], **options: str) -> dict[str, int]:
    """Tags after commits whose watermarks are so many hours after `START`."""
    table = table_with(folder, tag__automatic_creation="watermark", **options)
    for hour in hours:
        write(table, watermark=None if hour is None else START + int(hour * HOUR))
    return held(table)


def test_each_hour_gets_the_first_snapshot_after_it(tmp_path: Path) -> None:
    found = by_watermark(tmp_path, [None, 1.5, 1.9, 3.1, 3.2, 7], tag__creation_period="hourly")
    assert found == {"2023-11-15 00": 2, "2023-11-15 02": 4, "2023-11-15 06": 6}


def test_days_and_two_hours_and_other_lengths(tmp_path: Path) -> None:
    assert by_watermark(tmp_path / "a", [1, 25]) == {"2023-11-14": 1, "2023-11-15": 2}
    assert by_watermark(tmp_path / "b", [1, 25], tag__period_formatter="without_dashes") == {
        "20231114": 1,
        "20231115": 2,
    }
    two = by_watermark(tmp_path / "c", [3, 5], tag__creation_period="two-hours")
    assert two == {"2023-11-15 00": 1, "2023-11-15 02": 2}
    ten = by_watermark(tmp_path / "d", [0.5, 0.6, 0.7], tag__creation_period_duration="10 min")
    assert ten == {"202311150020": 1, "202311150030": 3}
    spaced = by_watermark(
        tmp_path / "e", [0.5], tag__creation_period="hourly", tag__period_formatter="without_dashes_and_spaces"
    )
    assert spaced == {"2023111423": 1}


def test_a_delay_lets_late_rows_in(tmp_path: Path) -> None:
    found = by_watermark(tmp_path, [0.5, 1.2, 1.4], tag__creation_period="hourly", tag__creation_delay="20 min")
    assert found == {"2023-11-14 23": 1, "2023-11-15 00": 3}


def test_a_zone_moves_the_periods(tmp_path: Path) -> None:
    assert by_watermark(tmp_path, [1], sink__watermark_time_zone="America/Los_Angeles") == {"2023-11-13": 1}


def test_missing_periods_are_completed_one_by_one(tmp_path: Path) -> None:
    options = {"tag__creation_period": "hourly", "tag__automatic_completion": "true"}
    found = by_watermark(tmp_path, [0.5, 4.5, 4.6, 4.7, 4.8, 4.9], **options)
    assert found == {
        "2023-11-14 23": 1,
        "2023-11-15 00": 2,
        "2023-11-15 01": 3,
        "2023-11-15 02": 4,
        "2023-11-15 03": 5,
    }


def test_the_oldest_automatic_tags_go(tmp_path: Path) -> None:
    table = table_with(
        tmp_path, tag__automatic_creation="watermark", tag__creation_period="hourly", tag__num_retained_max="2"
    )
    write(table, watermark=START)
    tags.create_tag(table, "mine")
    for hour in (1, 2, 3):
        write(table, watermark=START + hour * HOUR)
    assert held(table) == {"mine": 1, "2023-11-15 01": 3, "2023-11-15 02": 4}


def test_the_clock_makes_tags_too_and_they_expire(tmp_path: Path) -> None:
    table = table_with(
        tmp_path,
        tag__automatic_creation="process-time",
        sink__process_time_zone="GMT+01:00",
        tag__default_time_retained="1 h",
    )
    yesterday = datetime.now(time_zone("+01:00", key="x")) - timedelta(days=1)
    write(table)
    name = f"{yesterday:%Y-%m-%d}"
    assert held(table) == {name: 1}
    tag = table.tags.get(name)
    assert tag.time_retained == timedelta(hours=1)
    assert tag.create_time is not None
    old = replace(tag, create_time=tag.create_time - timedelta(hours=2))
    Path(table.paths.tag_path(name)).write_text(old.to_json())
    never = table.with_options({"tag.time-expire-enabled": "false"})
    assert tags.run_automatic_tags(never) == []
    assert held(table) == {name: 1}
    tags.run_automatic_tags(table)
    assert held(table) == {}


def test_snapshots_of_other_writers_are_tagged_later(tmp_path: Path) -> None:
    table = table_with(tmp_path, tag__automatic_creation="watermark", tag__creation_period="hourly", write_only="true")
    for hour in (1, 2, 3):
        write(table, watermark=START + hour * HOUR)
    assert held(table) == {}
    Path(table.paths.snapshot_path(1)).unlink()
    assert tags.run_automatic_tags(table) == ["2023-11-15 01", "2023-11-15 02"]
    assert tags.run_automatic_tags(table) == []


def test_the_tag_of_a_batch_write(tmp_path: Path) -> None:
    table = table_with(tmp_path, tag__automatic_creation="batch", sink__process_time_zone="UTC", write_only="true")
    for number in (1, 2):
        write(table)
        day = datetime.fromtimestamp(table.snapshots.get(number).time_millis / 1000, time_zone("UTC", key="x"))
        assert held(table) == {f"batch-write-{day:%Y-%m-%d}": number}


def test_batch_tags_of_a_name_and_how_many_there_are(tmp_path: Path) -> None:
    options = {"tag__num_retained_max": "2", "tag__batch__customized_name": "done"}
    table = table_with(tmp_path, tag__automatic_creation="batch", **options)
    write(table)
    write(table)
    tags.create_tag(table, "b", snapshot_id=1)
    os.utime(table.paths.tag_path("b"), (1_700_000_000, 1_700_000_000))
    tags.create_tag(table, "a", snapshot_id=1)
    write(table)
    assert held(table) == {"a": 1, "done": 3}


def test_a_replaced_batch_tag_takes_its_files_along(tmp_path: Path) -> None:
    table = table_with(tmp_path, tag__automatic_creation="batch", tag__batch__customized_name="done")
    write(table)
    old = [entry.file.file_name for entry in table.manifests.live_entries(table.snapshots.get(1))]
    rest = table.with_options({"tag.automatic-creation": "none"})
    commit(rest, [message(table, data_file(table, {2: "b"}))], overwrite=OverwriteSpec.static())
    Path(table.paths.snapshot_path(1)).unlink()
    table.snapshots.write_earliest_hint(2)
    write(table)
    assert held(table) == {"done": 3}
    left = [path.name for path in Path(table.path, "bucket-0").iterdir()]
    assert (len(left), set(left) & set(old)) == (2, set())


def test_no_second_automatic_tag_of_a_snapshot(tmp_path: Path) -> None:
    table = table_with(tmp_path, tag__automatic_creation="watermark")
    write(table, watermark=START)
    assert held(table) == {"2023-11-14": 1}
    with pytest.raises(PaimonError, match=r"Snapshot 1 is already auto-tagged with \[2023-11-14\]"):
        tags.create_tag(table, "2020-01-01 x")
    tags.create_tag(table, "x")
    assert not tags.run_automatic_tags(table)


def test_bad_options_are_refused_before_the_commit(tmp_path: Path) -> None:
    table = table_with(tmp_path, tag__automatic_creation="watermark")
    for options, text in (
        ({"tag.creation-delay": "1 d"}, "must be shorter than the period"),
        ({"tag.creation-period-duration": "0 ms"}, "at least one millisecond"),
        ({"sink.watermark-time-zone": "Nowhere/Else"}, "sink.watermark-time-zone"),
        ({"sink.process-time-zone": "+99:00"}, "sink.process-time-zone"),
    ):
        with pytest.raises(OptionError, match=text):
            write(table.with_options(options))
    assert table.snapshots.latest() is None


def test_a_tag_that_cannot_be_written_fails_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = table_with(tmp_path, tag__automatic_creation="watermark")
    Path(table.path, "tag").write_text("no directory")
    assert write(table, watermark=START) == 1
    assert "the work after snapshot 1 is not done" in caplog.text
    Path(table.path, "tag").unlink()
    write(table, watermark=START)
    assert held(table) == {"2023-11-14": 1}


@pytest.mark.parametrize(
    ("name", "daily"),
    [
        ("2024-01-31", True),
        ("2024-01-31 07", True),
        ("2024-01-31 x y", True),
        ("2024-1-31", False),
        ("2024-02-30", False),
        ("24-01-31", False),
        ("20240131", False),
        ("", False),
        (" ", False),
    ],
)
def test_which_names_are_automatic(name: str, daily: bool) -> None:
    assert (TagPeriod.of(CoreOptions({})).time(name) is not None) == daily
    hourly = TagPeriod.of(CoreOptions({"tag.creation-period": "hourly"}))
    assert (hourly.time(name) is not None) == (name == "2024-01-31 07")


def test_periods_before_1970_as_java_divides() -> None:
    period = TagPeriod.of(CoreOptions({}))
    assert period.previous(datetime(1969, 12, 31, 12)) == datetime(1969, 12, 31)
    assert period.previous(datetime(1970, 1, 1, 12)) == datetime(1969, 12, 31)
