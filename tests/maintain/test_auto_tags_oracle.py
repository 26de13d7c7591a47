"""The same writes by Java and by us make the same automatic tags, also where both write one table."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, message

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING")]
HOUR = 3_600_000
SUCCESS = {"tag.create-success-file": "true"}
START = 1_700_006_400_000
HOURS = [0.2, 1.5, 1.9, 3.1, 3.2, 7, 7.1, 7.2, 30, 31, 31.5, 55]


def tags_of(path: str) -> dict[str, tuple[int, Any]]:
    return {name: (tag.snapshot.id, tag.time_retained) for name, tag in load_table(path).tags.list().items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag.creation-period": "hourly", "tag.creation-delay": "10 min"},
        {"tag.creation-period": "two-hours", "tag.num-retained-max": "2", "tag.default-time-retained": "2 d"} | SUCCESS,
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes", "tag.automatic-completion": "true"},
        {"tag.creation-period-duration": "20 min", "sink.watermark-time-zone": "Asia/Kolkata"},
    ],
    ids=["daily", "hourly-delay", "two-hours-kept", "completed", "duration"],
)
def test_watermarks_make_the_tags_that_java_makes(oracle: Any, tmp_path: Path, options: dict[str, str]) -> None:
    name = f"auto.{tmp_path.name}"
    oracle.create(name, COLUMNS, options={"bucket": "-1", "tag.automatic-creation": "watermark", **options})
    path, ours = oracle.location(name).removeprefix("file:"), str(tmp_path / "ours")
    shutil.copytree(path, ours)
    both = str(tmp_path / "both")
    shutil.copytree(path, both)
    for number, hour in enumerate(HOURS):
        watermark = START + int(hour * HOUR)
        oracle.write(name, [{"k": number, "v": "x"}], watermark=watermark)
        for directory in (ours, both) if number % 2 else (ours,):
            table = load_table(directory)
            commit(
                table,
                [message(table, data_file(table, {number: "x"}))],
                watermark=watermark,
                after_commit=maintenance(table),
            )
        if not number % 2:
            oracle.write(both, [{"k": number, "v": "x"}], watermark=watermark)
    assert tags_of(ours) == tags_of(path)
    assert tags_of(both) == tags_of(path)
    assert len(tags_of(path)) >= 2
    named = sorted(f"{tag}_SUCCESS" for tag in tags_of(path)) if SUCCESS.items() <= options.items() else []
    for directory in (path, ours, both):
        assert sorted(file.name for file in Path(directory).rglob("*_SUCCESS")) == named
    for tag in tags_of(ours):
        assert oracle.rows(ours, options={"scan.tag-name": tag}) == oracle.rows(name, options={"scan.tag-name": tag})


@pytest.mark.parametrize("period", ["daily", "hourly"])
def test_the_clock_makes_the_tag_that_java_makes(oracle: Any, tmp_path: Path, period: str) -> None:
    name = f"clock.{tmp_path.name}"
    zone = {"sink.process-time-zone": "America/Los_Angeles", "tag.creation-period": period}
    oracle.create(name, COLUMNS, options={"bucket": "-1", "tag.automatic-creation": "process-time", **zone})
    path, ours = oracle.location(name).removeprefix("file:"), str(tmp_path / "ours")
    shutil.copytree(path, ours)
    for number in (1, 2):
        oracle.write(name, [{"k": number, "v": "x"}])
        table = load_table(ours)
        commit(table, [message(table, data_file(table, {number: "x"}))], after_commit=maintenance(table))
    assert tags_of(ours) == tags_of(path)
    assert len(tags_of(ours)) == 1
