"""The statistics that a snapshot names (Java: ``StatsFileHandler``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spec.statistics_file import Statistics

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


def statistics_of(table: FileStoreTable, snapshot: Snapshot | None) -> Statistics | None:
    """Return what ANALYZE found; None where the snapshot names nothing.

    Raises:
        FileNotFoundError: the file is missing.
        CorruptTableError: it is not a statistics file.
    """
    if snapshot is None or snapshot.statistics is None:
        return None
    path = table.paths.statistics_path(snapshot.statistics)
    return Statistics.from_json(table.file_io.read_bytes(path), path=path)
