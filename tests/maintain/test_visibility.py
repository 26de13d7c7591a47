"""Option `visibility-callback.enabled`: a write waits for the compaction that makes its rows visible."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitError
from paimon_spark.maintain import after_commit
from paimon_spark.maintain.after_commit import wait_until_visible
from paimon_spark.write.message import TaskMessage
from tests.support.commits import fake_file, make_table, message

WAITS = {"visibility_callback__enabled": "true", "visibility_callback__timeout": "0 s"}


def written(path: Path, *, bucket: int = 0, **options: str) -> tuple[list[TaskMessage], int | None]:
    table = make_table(path, primary_key=["k"], write_only="true", bucket="1" if bucket == 0 else "-2", **options)
    messages = [TaskMessage((message(table, fake_file("data-a.parquet"), bucket=bucket, buckets=1),), 1)]
    made = commit(table, messages)
    wait_until_visible(table, messages, made)
    return messages, made


@pytest.mark.parametrize("bucket", [0, -2])
def test_rows_that_stay_invisible_are_an_error_that_shows_where_they_are(tmp_path: Path, bucket: int) -> None:
    with pytest.raises(CommitError, match=r"Snapshot 1 of .* holds the rows.*1 of its files.*sys\.compact"):
        written(tmp_path / "t", bucket=bucket, deletion_vectors__enabled="true", **WAITS)


def test_only_what_is_asked_and_invisible_is_waited_for(tmp_path: Path) -> None:
    written(tmp_path / "plain", **WAITS)
    written(tmp_path / "off", deletion_vectors__enabled="true")


def test_it_returns_when_another_writer_has_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(
        tmp_path / "t",
        primary_key=["k"],
        write_only="true",
        bucket="1",
        deletion_vectors__enabled="true",
        visibility_callback__enabled="true",
        visibility_callback__check_interval="7 s",
    )
    first = fake_file("data-a.parquet")
    messages = [TaskMessage((message(table, first),), 1)]
    made = commit(table, messages)
    slept: list[float] = []

    def compact_meanwhile(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:  # another write changes nothing
            commit(table, [TaskMessage((message(table, fake_file("data-b.parquet")),), 1)])
        else:
            done = message(table, compact_before=(first,), compact_after=(fake_file("data-c.parquet", level=5),))
            commit(table, [TaskMessage((done,), 0)])

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=compact_meanwhile)  # other threads sleep too
    monkeypatch.setattr(after_commit, "time", clock)
    wait_until_visible(table, messages, made)
    assert slept == [7.0, 7.0]
