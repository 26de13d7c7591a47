"""Small append tables with deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.row_views import find_view
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.manifest import IndexManifestEntry
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.deletion_vectors import DeletedRows, changed_vectors
from paimon_spark.write.message import CommitMessage
from tests.support.commits import NO_PARTITION, data_file, make_table, message
from tests.support.plans import plan_of


def table_of(path: Path, files: int = 3, rows: int = 100, **options: str) -> tuple[FileStoreTable, list[str]]:
    """A table with deletion vectors, and the names of its files, each with the rows 0, 1, 2, …"""
    bucketed = {"bucket": "2", "bucket_key": "k"} if options.pop("bucketed", None) else {"bucket": "-1"}
    table = make_table(path / "t", **bucketed, deletion_vectors__enabled="true", **options)
    made = [data_file(table, dict.fromkeys(range(rows), f"{number}")) for number in range(files)]
    commit(table, [message(table, file) for file in made])
    return table, [file.file_name for file in made]


def change(
    table: FileStoreTable, deleted: Mapping[str, Sequence[int]], dropped: Sequence[str] = (), rows: int = 100
) -> tuple[IndexManifestEntry, ...]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return changed_vectors(
        table,
        table.manifests.index_entries(snapshot),
        [DeletedRows(NO_PARTITION, 0, name, rows, np.array(at, np.int64)) for name, at in deleted.items()],
        [(NO_PARTITION, 0, name) for name in dropped],
    )


def put(table: FileStoreTable, changes: tuple[IndexManifestEntry, ...], **more: object) -> None:
    commit(table, [CommitMessage(NO_PARTITION, 0, table.options.bucket, (), index_changes=changes, **more)])


def rows_of(table: FileStoreTable) -> dict[str, list[int]]:
    plan = plan_of(table, find_view(None))
    found: dict[str, list[int]] = {}
    for split in plan.splits:
        for batch in read_split(plan.table, split, plan.fields):
            for row in batch.to_pylist():
                found.setdefault(row["v"], []).append(row["k"])
    return found


def without(*gone: int, rows: int = 100) -> list[int]:
    return [k for k in range(rows) if k not in gone]
