"""The plain streaming source with Spark's admission control, which PySpark has from 4.2 on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from paimon_spark.read.stream_offset import StreamOffset
from paimon_spark.spark.source.stream_reader import PaimonStreamReader

_NO_LIMIT = (1 << 62) - 1


class AdmittingStreamReader(PaimonStreamReader, SupportsTriggerAvailableNow):
    """One stream. Spark knows one limit of a kind of its own; which limits count is what the options say."""

    _until: int | None = None
    """The last snapshot that is read; None without end."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit, by which Spark tells triggers that keep to the options from those that take all."""
        limits = self.stream.scan.limits
        return ReadMaxRows(limits.max_rows or _NO_LIMIT) if limits.any_given else ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; `start` where there is nothing to read yet."""
        scan = self.stream.scan
        limits = None if isinstance(limit, ReadAllAvailable) else scan.limits
        if limits is not None and self._until is not None:
            limits = replace(limits, min_rows=None, max_delay_millis=None)  # the query ends: it waits for no more rows
        return scan.latest(StreamOffset.of_json(start), limits, until=self._until).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than what is there now."""
        self._until = self.stream.scan.newest_id() or 0

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the stream would stand if it had read all, for ``lastProgress``."""
        newest = self.stream.scan.newest_id()
        return None if newest is None else StreamOffset(newest + 1).to_json()
