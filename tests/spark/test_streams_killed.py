"""A query from one table into another ends between any two of its steps, and starts again: each row is there once.

Spark writes the log of offsets, plans, runs ``foreachBatch``, writes the log of commits, and tells the source so. An
error at a step leaves on disk what a kill at that moment leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from paimon_spark.spark.catalog.stream import StreamProxy
from paimon_spark.spark.jobs.stream_sink import StreamSink
from paimon_spark.spark.source.table_write import TableWrite
from paimon_spark.table.table import load_table
from tests.support.commits import make_table
from tests.support.history import rows
from tests.support.plain_source import write_plain

pytestmark = pytest.mark.spark

BATCHES, KILLED = 3, 1
"""One row each; which of them is killed, the first being 0."""
STEPS: dict[str, tuple[type, str, str]] = {
    "the log of offsets is written, the batch is not planned": (StreamProxy, "_asked_partitions", "before"),
    "the batch is planned, nothing is written": (StreamSink, "__call__", "before"),
    "files are written, they are not committed": (TableWrite, "commit", "before"),
    "the batch is committed, the log of commits is not written": (StreamSink, "__call__", "after"),
    "the log of commits is written, the source does not know": (StreamProxy, "_asked_commit", "before"),
    "the source has noted its progress": (StreamProxy, "_asked_commit", "after"),
}


class Killed(Exception):
    """The end of a query."""


def kill_once(monkeypatch: pytest.MonkeyPatch, step: str, is_due: Callable[[], bool]) -> list[str]:
    """Let the query end once at a step, as soon as it is due; return where the step is noted."""
    owner, name, when = STEPS[step]
    plain, noted = getattr(owner, name), list[str]()

    def ending(*given: Any, **named: Any) -> Any:
        due = not noted and is_due()
        if due and when == "before":
            noted.append(step)
            raise Killed(step)
        result = plain(*given, **named)
        if due:
            noted.append(step)
            raise Killed(step)
        return result

    monkeypatch.setattr(owner, name, ending)
    return noted


@pytest.mark.parametrize("step", STEPS)
def test_a_query_that_ends_at_a_step_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    make_table(source)
    for number in range(BATCHES):
        keys, values = pa.array([number], pa.int32()), pa.array([f"v{number}"])
        write_plain(str(source), pa.record_batch([keys, values], names=["k", "v"]))

    def run() -> None:
        stream = spark.readStream.format("paimon").option("scan.snapshot-id", "1").option("consumer-id", "me")
        stream = stream.option("read.stream.maxFilesPerTrigger", "1")
        writer = stream.load(str(source)).writeStream.format("paimon").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start(str(target))
        query.awaitTermination()

    noted = kill_once(monkeypatch, step, (checkpoint / "offsets" / str(KILLED)).exists)
    with pytest.raises(StreamingQueryException, match="Killed"):
        run()
    assert noted
    run()
    written = load_table(str(target))
    assert rows(written) == {number: f"v{number}" for number in range(BATCHES)}
    commits = list(map(written.snapshots.get, written.snapshots.ids()))
    assert [commit.commit_identifier for commit in commits] == list(range(BATCHES))
    assert commits[-1].total_record_count == BATCHES
    run()
    assert load_table(str(target)).snapshots.latest_id() == BATCHES
