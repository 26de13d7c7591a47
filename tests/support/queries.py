"""Streaming queries that collect what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame


class Query:
    """A query that reads all there is, each time it runs."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint, self.batches = checkpoint, 0
        self.progress: list[dict[str, Any]] = []

    def run(self, stream: DataFrame, mode: str = "append") -> list[tuple[Any, ...]]:
        """The rows of one more run, sorted."""
        found: list[tuple[Any, ...]] = []

        def take(batch: DataFrame, _number: int) -> None:
            found.extend(map(tuple, batch.collect()))

        writer = stream.writeStream.foreachBatch(take).outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        self.progress = [json.loads(progress.json) for progress in query.recentProgress]
        self.batches = sum(progress["numInputRows"] > 0 for progress in self.progress)
        return sorted(found)
