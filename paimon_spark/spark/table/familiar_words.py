"""The part of a `PaimonTable` with the words that users of Delta type: thin over what the other parts do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from paimon_spark.spark.table.handle import TablePart
from paimon_spark.spark.table.upkeep import Compaction, Expiry
from paimon_spark.table.system.definition import local_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.maintain.files.orphan_files import RemovedFiles
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.snapshot import Snapshot

_DETAIL = StructType(
    [
        StructField("format", StringType(), False),
        StructField("name", StringType(), False),
        StructField("description", StringType()),
        StructField("location", StringType(), False),
        StructField("createdAt", TimestampType()),
        StructField("lastModified", TimestampType()),
        StructField("partitionColumns", ArrayType(StringType(), False), False),
        StructField("primaryKeys", ArrayType(StringType(), False), False),
        StructField("numFiles", LongType(), False),
        StructField("sizeInBytes", LongType(), False),
        StructField("numRecords", LongType(), False),
        StructField("snapshotId", LongType()),
        StructField("schemaId", LongType(), False),
        StructField("properties", MapType(StringType(), StringType(), False), False),
    ]
)


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What `vacuum` did."""

    expired_snapshots: int
    """Snapshots that went, with the files that only they needed."""
    orphan_files: RemovedFiles
    """Files that nothing named."""


class FamiliarWords(TablePart):
    """Methods under the names that other formats have for them."""

    def optimize(self, /, **arguments: Any) -> int | None:
        """Do what `compact` does, with its arguments: rewrite the files so that there are fewer of them."""
        return Compaction(self.table).compact(**arguments)

    def vacuum(self, retention_hours: float | None = None, *, dry_run: bool = False) -> Vacuumed:
        """Expire old snapshots, and delete the files that nothing names: `expire_snapshots`, `remove_orphan_files`.

        Args:
            retention_hours: snapshots older than this go, but for the latest one; as the table's options say when not
                given. Files that nothing names go if they are older, and at least a day old.
            dry_run: only report which files nothing names; no snapshot expires.
        """
        expiry = Expiry(self.table)
        before = None if retention_hours is None else datetime.now(UTC) - timedelta(hours=retention_hours)
        expired = 0
        if not dry_run:
            most: dict[str, Any] = (
                {} if before is None else {"retain_min": 1, "retain_max": 2**31 - 1, "max_deletes": 2**31 - 1}
            )
            expired = expiry.expire_snapshots(older_than=before, **most)
        day = datetime.now(UTC) - timedelta(days=1)
        orphans = expiry.remove_orphan_files(older_than=None if before is None else min(before, day), dry_run=dry_run)
        return Vacuumed(expired, orphans)

    def detail(self) -> DataFrame:
        """One row about the table: where it is, its keys, options, files, bytes and records of the latest snapshot.

        ``numRecords`` counts those of the files; with a primary key a read may merge some.
        """
        table = self.table.load()
        snapshot = table.snapshots.latest()
        live = None if snapshot is None else table.manifests.live_columns(snapshot, statistics=False)
        first = table.schemas.all()[0]
        row = (
            "paimon",
            table.path.rpartition("/")[2],
            table.schema.comment or None,
            table.path,
            _time(first.time_millis, table.paths.schema_path(first.id)),
            None if snapshot is None else _time(snapshot.time_millis, table.paths.snapshot_path(snapshot.id)),
            list(table.schema.partition_keys),
            list(table.schema.primary_keys),
            *_sizes(live, snapshot),
            None if snapshot is None else snapshot.id,
            table.schema.id,
            dict(table.schema.options),
        )
        return self.table.spark.createDataFrame([row], _DETAIL)


def _sizes(live: ManifestColumns | None, snapshot: Snapshot | None) -> tuple[int, int, int]:
    if live is None or snapshot is None:
        return 0, 0, 0
    return len(live), int(live.file_sizes.sum()), snapshot.total_record_count


def _time(millis: int | None, path: str) -> datetime | None:
    return None if local_time(millis, path) is None or millis is None else datetime.fromtimestamp(millis / 1000, UTC)
