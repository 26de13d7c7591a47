"""Every `scan.*` option that names a snapshot, and the errors of those that contradict each other."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest

from paimon_spark.errors import OptionError, SnapshotNotFoundError
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.table.time_travel import (
    CREATED_AFTER,
    check_scan_options,
    has_time_travel,
    parse_timestamp_millis,
    resolve_snapshot,
    time_text,
    travel,
)
from tests.support.golden import GOLDEN

TIMES = {1: 1795220658611, 2: 1795220658644, 3: 1795220658676, 5: 1795220658744, 6: 1795220658779}


@pytest.fixture
def table() -> FileStoreTable:
    """Snapshots 5 to 8 live; tags first (1), renamed tag (2), third (3), 2024-01-02 and 7 (5)."""
    return load_table(str(GOLDEN / "tags_and_expired_append" / "table"))


def resolved(table: FileStoreTable, **options: str) -> int | None:
    snapshot = resolve_snapshot(table, {f"scan.{key.replace('_', '-')}": value for key, value in options.items()})
    return None if snapshot is None else snapshot.id


@pytest.mark.parametrize(
    ("options", "snapshot_id"),
    [
        ({}, 8),
        ({"mode": "latest-full"}, 8),
        ({"mode": "latest"}, 8),
        ({"mode": "full"}, 8),
        ({"mode": "compacted-full"}, 8),
        ({"snapshot_id": "6"}, 6),
        ({"snapshot_id": "6", "mode": "from-snapshot"}, 6),
        ({"snapshot_id": "6", "mode": "from-snapshot-full"}, 6),
        ({"tag_name": "first"}, 1),
        ({"tag_name": "first", "mode": "from-snapshot"}, 1),
        ({"version": "third"}, 3),
        ({"version": "7"}, 5),  # the tag named 7, not the snapshot
        ({"version": "8"}, 8),
        ({"version": "watermark-5500"}, 7),
        ({"watermark": "5500"}, 7),
        ({"watermark": "0"}, 5),
        ({"timestamp_millis": str(TIMES[6])}, 6),
        ({"timestamp_millis": str(TIMES[6] + 1)}, 6),
        ({"timestamp_millis": str(TIMES[6] - 1)}, 5),
        ({"timestamp_millis": "9999999999999"}, 8),
        ({"timestamp_millis": str(TIMES[5] - 1)}, 3),  # older than every snapshot: the closest older tag
        ({"timestamp_millis": str(TIMES[3])}, 3),
        ({"timestamp_millis": str(TIMES[3] - 1)}, 2),
        ({"timestamp_millis": str(TIMES[1]), "mode": "from-timestamp"}, 1),
    ],
)
def test_the_options_name_a_snapshot(table: FileStoreTable, options: dict[str, str], snapshot_id: int) -> None:
    assert resolved(table, **options) == snapshot_id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshot_id": "1"}, r"snapshotId 1 is out of available snapshotId range \[5, 8\]"),
        ({"snapshot_id": "9"}, r"\[5, 8\]"),
        ({"tag_name": "nope"}, "Tag 'nope' doesn't exist. The tags are: 2024-01-02, 7, first, renamed tag, third"),
        ({"version": "nope"}, "Tag 'nope' doesn't exist"),
        ({"version": "9"}, r"\[5, 8\]"),
        ({"watermark": "99999"}, r"later than or equal to watermark\[99999\]: the latest watermark is \[7000\]"),
        (
            {"timestamp_millis": "1000"},
            re.escape(f"timestamp [{time_text(1000)}], the earliest snapshot's timestamp is [{time_text(TIMES[5])}]"),
        ),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(
    table: FileStoreTable, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SnapshotNotFoundError, match=message):
        resolved(table, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshot_id": "1", "tag_name": "a"}, "Only one of the following parameters may be set.*scan.tag-name"),
        ({"version": "1", "timestamp": "2024-01-01"}, "Only one of"),
        ({"watermark": "1", "timestamp_millis": "1"}, "Only one of"),
        ({"mode": "from-snapshot"}, "must set only one key in"),
        ({"mode": "from-timestamp", "snapshot_id": "1"}, "must set only one key in"),
        ({"mode": "from-snapshot-full", "tag_name": "x"}, "must set only one key in"),
        ({"mode": "latest-full", "snapshot_id": "1"}, "scan.snapshot-id must be null when you use latest-full"),
        ({"mode": "compacted-full", "timestamp": "2024-01-01"}, "must be null"),
        ({"mode": "sideways"}, "cannot be 'sideways': it is one of default"),
        ({"snapshot_id": "six"}, "Option 'scan.snapshot-id' cannot be 'six'"),
        ({"timestamp": "yesterday"}, "Option 'scan.timestamp' cannot be 'yesterday'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    table: FileStoreTable, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        resolved(table, **options)


def test_changes_are_no_point_of_time() -> None:
    for options in ({"scan.mode": "latest-delta"}, {"scan.mode": "incremental"}, {"incremental-between": "1,2"}):
        with pytest.raises(OptionError, match="reads changes"):
            check_scan_options(options)


@pytest.mark.parametrize("mode", ["from-file-creation-time", "from-creation-timestamp"])
def test_modes_of_creation_times_need_a_time(mode: str) -> None:
    with pytest.raises(OptionError, match=f"must set only one key in .* when you use {mode}"):
        check_scan_options({"scan.mode": mode})
    with pytest.raises(OptionError, match="Only one of the following parameters may be set"):
        check_scan_options({"scan.mode": mode, CREATED_AFTER[mode]: "1", "scan.tag-name": "first"})


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01 00:00:00.123", 123),
        ("1969-12-31 23:59:59.999", -1),
        ("1970-01-01 01:00:00+01:00", 0),
        ("2024-02-29 12:00:00.001", 1709208000001),
    ],
)
def test_a_timestamp_is_a_time_of_its_zone(text: str, millis: int) -> None:
    assert parse_timestamp_millis(text, zone=UTC) == millis
    if "+" not in text:
        assert parse_timestamp_millis(text, zone=timezone(timedelta(hours=2))) == millis - 7_200_000


def test_a_table_without_snapshots_reads_as_empty(tmp_path: Path, table: FileStoreTable) -> None:
    shutil.copytree(Path(table.path) / "schema", tmp_path / "t" / "schema")
    empty = load_table(str(tmp_path / "t"))
    assert resolved(empty) is None
    with pytest.raises(SnapshotNotFoundError, match=r"earliest snapshot's timestamp is \[null\]"):
        resolved(empty, timestamp_millis="5")
    with pytest.raises(SnapshotNotFoundError, match="no snapshot has a watermark"):
        resolved(empty, watermark="5")


def test_gaps_and_missing_watermarks_do_not_hide_snapshots(tmp_path: Path, table: FileStoreTable) -> None:
    shutil.copytree(table.path, tmp_path / "t")
    for snapshot_id, watermark in ((5, None), (6, -(2**63))):
        path = tmp_path / "t" / "snapshot" / f"snapshot-{snapshot_id}"
        value = json.loads(path.read_text())
        value.pop("watermark")
        path.write_text(json.dumps(value if watermark is None else {**value, "watermark": watermark}))
    copy = load_table(str(tmp_path / "t"))
    assert resolved(copy, watermark="0") == 7
    (tmp_path / "t" / "snapshot" / "snapshot-6").unlink()
    assert resolved(copy, timestamp_millis=str(TIMES[6])) == 5


def test_the_fields_are_those_of_the_time_and_the_options_the_latest() -> None:
    path = str(GOLDEN / "schema_evolution_append_parquet" / "table")
    latest = load_table(path)
    then, snapshot = travel(latest.with_options({"scan.snapshot-id": "1"}))
    assert snapshot is not None
    assert then.schema.id == snapshot.schema_id == 0
    assert then.schema.fields == latest.schemas.get(0).fields != latest.schema.fields
    assert dict(then.schema.options) == {**latest.schema.options, "scan.snapshot-id": "1"}
    now, _ = travel(latest)
    assert now.schema.fields == latest.schema.fields
    assert has_time_travel(then.options)
    assert not has_time_travel(now.options)


def test_a_table_travels_to_tasks(table: FileStoreTable) -> None:
    copy = pickle.loads(pickle.dumps(table.with_options({"scan.snapshot-id": "6"})))
    assert copy.schema == table.schema.with_options({**table.schema.options, "scan.snapshot-id": "6"})
    assert resolve_snapshot(copy) == table.snapshots.get(6)
    assert len(pickle.dumps(table)) < 4000


def test_a_time_in_the_future_reads_the_newest_snapshot_and_says_so(
    table: FileStoreTable, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolved(table, timestamp_millis=str(TIMES[5])) == 5
    assert not [record for record in caplog.records if "in the future" in record.message]
    assert resolved(table, timestamp="2999-01-01 00:00:00") == 8
    [said] = [record.message for record in caplog.records if "in the future" in record.message]
    assert "2999-01-01" in said
    assert "its newest snapshot, 8, is read" in said
    assert "Name a snapshot or a tag" in said
