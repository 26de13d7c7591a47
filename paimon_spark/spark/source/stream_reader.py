"""The plain streaming source: PySpark's ``DataSourceStreamReader`` over `StreamScan`.

Spark keeps one Python process per query that answers for it. From PySpark 4.2 on Spark says where a batch starts and
how much it may hold; before, the source has to know itself where it stands, from what it answered last or from the
offset that Spark shows it after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from paimon_spark.errors import PaimonError
from paimon_spark.read.stream_offset import StreamOffset
from paimon_spark.spark.session.cut_frames import told_by_worker
from paimon_spark.spark.source.reader import PaimonPartition, task_slots

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.spark.source.stream_source import PlannedStream


class PaimonStreamReader(DataSourceStreamReader):
    """One stream. Made in the process that answers for the query, and once more to be pickled to its tasks."""

    def __init__(self, stream: PlannedStream) -> None:
        self._stream: PlannedStream | None = stream
        self._reader = stream.reader

    @property
    def stream(self) -> PlannedStream:
        """The stream, on the driver."""
        assert self._stream is not None, "tasks have no stream"
        return self._stream

    @told_by_worker
    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self.stream.scan.initial().to_json()

    @told_by_worker
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""
        batch = self.stream.scan.batch(StreamOffset.of_json(start), StreamOffset.of_json(end), task_slots())
        return [PaimonPartition(splits) for splits in self.stream.tasks(batch)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._reader.read(partition)

    @told_by_worker
    def commit(self, end: Mapping[str, Any]) -> None:
        """Note what is done for good."""
        self.stream.scan.commit(StreamOffset.of_json(end))

    def __getstate__(self) -> dict[str, object]:
        """Pickle without the stream, which tasks have no use for."""
        return {**self.__dict__, "_stream": None}


class SelfPacedStreamReader(PaimonStreamReader):
    """For PySpark 4.0 and 4.1, which say a source neither the start of a batch nor the trigger.

    A new query asks for the latest offset before all else. One of ``availableNow`` ends there, so it is all that there
    is; later batches keep to the limits, and so does a restarted query, which is shown where it stands.
    """

    _at: StreamOffset | None = None

    @told_by_worker
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next batch, from where the last one ended."""
        self._at = self._newest() if self._at is None else self.stream.scan.next_offset(self._at)
        return self._at.to_json()

    def _newest(self) -> StreamOffset:
        """The offset behind the latest snapshot, or where the options begin if that is later."""
        scan = self.stream.scan
        with suppress(PaimonError):  # a restarted query needs nothing of what its options name
            return max(scan.newest(), scan.initial())
        return scan.newest()

    @told_by_worker
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch. After a restart Spark asks first for an empty one, where it stands."""
        if self._at is None:
            self._at = StreamOffset.of_json(end)
        return super().partitions(start, end)
