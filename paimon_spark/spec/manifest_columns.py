"""Entries of many manifests as columns, for planning: entries are built only for the files that are kept.

Runs on the driver when a read or a commit is planned, over up to some 10,000 files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.spec.manifest import FileKind, ManifestEntry
from paimon_spark.spec.manifest_records import Record, entry_from_record, stats_from_record
from paimon_spark.spec.manifest_walk import FileChange
from paimon_spark.spec.simple_stats import SimpleStats

Identity = tuple[Any, ...]
"""What tells one data file of a snapshot from another."""


def _identity(record: Record) -> Identity:
    file = record["_FILE"]
    return (
        file["_FILE_NAME"],
        record["_PARTITION"],
        record["_BUCKET"],
        file["_LEVEL"],
        tuple(file["_EXTRA_FILES"]),
        file.get("_EMBEDDED_FILE_INDEX"),
        file.get("_EXTERNAL_PATH"),
    )


class ManifestColumns(Sequence[ManifestEntry]):
    """Decoded entries, column by column and each computed when first asked for.

    It is a sequence of `ManifestEntry`; indexing builds one. Select with `take` and `filter` before building many.

    Attributes:
        records: the decoded Avro records; treat them as read-only.
    """

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    @classmethod
    def concat(cls, parts: Sequence[ManifestColumns]) -> ManifestColumns:
        """Join the entries of several manifests in their order."""
        return cls([record for part in parts for record in part.records])

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ManifestColumns(self.records[index])
        return entry_from_record(self.records[index])

    def __iter__(self) -> Iterator[ManifestEntry]:
        return map(entry_from_record, self.records)

    def take(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> ManifestColumns:
        """Select entries by position."""
        return ManifestColumns([self.records[i] for i in indices])

    def filter(self, mask: npt.NDArray[np.bool_]) -> ManifestColumns:
        """Select the entries where the mask is true (shape: one bool per entry)."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def live(self) -> ManifestColumns:
        """Return the ADD entries that no DELETE entry names, in order (Java: ``readAndMergeFileEntries``)."""
        return self.without(self.deleted()) if self.kinds.any() else self

    def deleted(self) -> set[Identity]:
        """Return what the DELETE entries name, for `without`."""
        return {_identity(self.records[i]) for i in np.flatnonzero(self.kinds)}

    def without(self, deleted: Set[Identity]) -> ManifestColumns:
        """Return the ADD entries of files that are not among the deleted ones, in order."""
        if not deleted and not self.kinds.any():
            return self
        names = {identity[0] for identity in deleted}
        return ManifestColumns(
            [
                record
                for record in self.records
                if record["_KIND"] == FileKind.ADD
                and (record["_FILE"]["_FILE_NAME"] not in names or _identity(record) not in deleted)
            ]
        )

    def changes(self) -> list[FileChange]:
        """Return of each entry only what tells which file it is about."""
        return [
            FileChange(
                record["_KIND"],
                file["_FILE_NAME"],
                record["_PARTITION"],
                record["_BUCKET"],
                file.get("_CREATION_TIME"),
                file.get("_FILE_SOURCE"),
                file["_EXTRA_FILES"],
                file.get("_EXTERNAL_PATH"),
            )
            for record in self.records
            for file in (record["_FILE"],)
        ]

    def _entry_values(self, name: str) -> list[Any]:
        return [record[name] for record in self.records]

    def file_values(self, name: str) -> list[Any]:
        """Values of one field of the data files by its Avro key; None where an old file lacks it."""
        return [record["_FILE"].get(name) for record in self.records]

    @cached_property
    def kinds(self) -> npt.NDArray[np.int8]:
        """`FileKind` of each entry."""
        return np.array(self._entry_values("_KIND"), dtype=np.int8)

    @cached_property
    def partitions(self) -> list[bytes]:
        """Partition bytes of each entry."""
        return self._entry_values("_PARTITION")

    @cached_property
    def buckets(self) -> npt.NDArray[np.int32]:
        """Bucket of each entry."""
        return np.array(self._entry_values("_BUCKET"), dtype=np.int32)

    @cached_property
    def total_buckets(self) -> npt.NDArray[np.int32]:
        """Bucket count of each entry's partition when it was written."""
        return np.array(self._entry_values("_TOTAL_BUCKETS"), dtype=np.int32)

    @cached_property
    def file_names(self) -> list[str]:
        """Name of each data file."""
        return self.file_values("_FILE_NAME")

    @cached_property
    def file_sizes(self) -> npt.NDArray[np.int64]:
        """Size of each data file in bytes."""
        return np.array(self.file_values("_FILE_SIZE"), dtype=np.int64)

    @cached_property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of each data file."""
        return np.array(self.file_values("_ROW_COUNT"), dtype=np.int64)

    @cached_property
    def levels(self) -> npt.NDArray[np.int32]:
        """Level of each data file."""
        return np.array(self.file_values("_LEVEL"), dtype=np.int32)

    @cached_property
    def schema_ids(self) -> npt.NDArray[np.int64]:
        """Schema id of each data file."""
        return np.array(self.file_values("_SCHEMA_ID"), dtype=np.int64)

    @cached_property
    def max_sequence_numbers(self) -> npt.NDArray[np.int64]:
        """Greatest sequence number of each data file."""
        return np.array(self.file_values("_MAX_SEQUENCE_NUMBER"), dtype=np.int64)

    @cached_property
    def value_stats(self) -> list[SimpleStats]:
        """Value statistics of each data file; `stats.evolve_stats` decodes them for many files at once."""
        return [stats_from_record(stats) for stats in self.file_values("_VALUE_STATS")]

    @cached_property
    def key_stats(self) -> list[SimpleStats]:
        """Key statistics of each data file."""
        return [stats_from_record(stats) for stats in self.file_values("_KEY_STATS")]
