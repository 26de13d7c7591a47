"""Partitions as texts by column, as directories and metastores have them. Java: ``InternalRowPartitionComputer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spec.partition_path import partition_value_text
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def partition_spec(table: FileStoreTable, partition: bytes) -> dict[str, str]:
    """The values of a partition by column, before they are escaped."""
    layout = DataLayout.of(table.schema)
    values = zip(layout.partition_keys, layout.partition_values(partition), layout.partition_types, strict=True)
    return {
        key: partition_value_text(
            value, data_type, legacy=layout.legacy_partition_name, default_name=layout.default_partition_name
        )
        for key, value, data_type in values
    }


def live_partition_specs(table: FileStoreTable) -> list[dict[str, str]]:
    """The partitions that have files in the latest snapshot."""
    latest = table.snapshots.latest_to_follow()
    found = () if latest is None else table.manifests.live_columns(latest, statistics=False).partitions
    return [partition_spec(table, each) for each in dict.fromkeys(found)]


def data_root(table: FileStoreTable) -> str:
    """The directory in which those of the partitions are."""
    inside = DataLayout.of(table.schema).data_directory
    return f"{table.path}/{inside}" if inside else table.path
