"""Files of postponed rows (``bucket`` = -2): which there are, and their rows as they came.

Java: ``PostponeUtils.groupPostponeFiles``. Rows of one writer are read in their order. Java gives different writers
none, so that an older INSERT may win over a newer one: here the writer that began first comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.read.file_read import FileRead
from paimon_spark.read.split import SplitFile
from paimon_spark.read.split_read import partition_scalars
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.file_names import POSTPONE_BUCKET
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.special_fields import VALUE_KIND
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class PostponedFiles:
    """The postponed files of one writer in one partition, in the order in which they were written."""

    partition: bytes
    files: tuple[SplitFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


def postponed_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Those of postponed rows."""
    return [entry for entry in entries if entry.bucket == POSTPONE_BUCKET]


def by_writer(table: FileStoreTable, files: Iterable[tuple[bytes, str, DataFileMeta]]) -> list[PostponedFiles]:
    """Put files of one writer together; the writer that began first comes first.

    Args:
        table: whose they are.
        files: partition, the writer's prefix and the file, in the order of the manifests.
    """
    found: dict[tuple[bytes, str], list[DataFileMeta]] = {}
    for partition, writer, file in sorted(files, key=lambda given: given[2].creation_time_millis or 0):
        found.setdefault((partition, writer), []).append(file)
    result = []
    for (partition, _), ordered in found.items():
        paths = (table.paths.data_file_path(partition, POSTPONE_BUCKET, file) for file in ordered)
        result.append(
            PostponedFiles(partition, tuple(SplitFile.of(f, path) for f, path in zip(ordered, paths, strict=True)))
        )
    return result


def postponed_schema(table: FileStoreTable) -> pa.Schema:
    """The columns of postponed rows: those of the table, and the row kind."""
    return to_arrow_schema([*table.schema.fields, VALUE_KIND])


def read_postponed_rows(
    table: FileStoreTable, groups: Sequence[PostponedFiles], batch_bytes: int = DEFAULT_BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of writers, one after the other, as `postponed_schema` says. Runs in tasks.

    Args:
        table: whose rows they are.
        groups: the files.
        batch_bytes: most bytes of a batch.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    schema = postponed_schema(table)
    for group in groups:
        constants = partition_scalars(table, group.partition)
        reader = FileRead(table, tuple(table.schema.fields), constants, key_value=True, batch_bytes=batch_bytes)
        for batch in reader.run(group.files, None):
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
