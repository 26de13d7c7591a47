"""The plain streaming source with Spark's admission control, which PySpark has from 4.2 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from paimon_spark.read.stream_offset import StreamOffset
from paimon_spark.spark.source.stream_source import PaimonStreamReader
from paimon_spark.spark.source.worker_process import told_by_worker

_NO_LIMIT = (1 << 62) - 1


class AdmittingStreamReader(PaimonStreamReader, SupportsTriggerAvailableNow):
    """One stream. Spark knows one limit of a kind of its own; which limits count is what the options say."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit, by which Spark tells triggers that keep to the options from those that take all."""
        limits = self.stream.scan.limits
        return ReadMaxRows(limits.max_rows or _NO_LIMIT) if limits.any_given else ReadAllAvailable()

    @told_by_worker
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` where there is nothing to read yet."""
        take_all = isinstance(limit, ReadAllAvailable)
        return self.stream.scan.next_offset(StreamOffset.of_json(start), take_all=take_all).to_json()

    @told_by_worker
    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than what is there now."""
        self.stream.scan.end_at_latest()

    @told_by_worker
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the stream would stand if it had read all, for ``lastProgress``."""
        return self.stream.scan.newest().to_json()
