"""Changelogs of random changes, and what Java and we must write alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.plans import plan_of
from tests.support.twins import file_rows, in_order

FORMATS = ("parquet", "orc", "avro")


def shape(snapshot: Any) -> tuple[Any, ...]:
    return (
        (snapshot.id, snapshot.commit_kind, snapshot.total_record_count, snapshot.delta_record_count),
        (snapshot.changelog_record_count, snapshot.changelog_manifest_list is None, snapshot.watermark),
    )


def changelog_entries(table: FileStoreTable, number: int) -> list[ManifestEntry]:
    manifests = table.manifests
    metas = manifests.changelog_manifests(table.snapshots.get(number))
    return [entry for meta in metas for entry in manifests.read_manifest(meta)]


def changelog_facts(table: FileStoreTable, number: int) -> list[tuple[Any, ...]]:
    """What the metadata says of a snapshot's changelog files, and their rows in order with numbers and kinds."""
    found = []
    for entry in changelog_entries(table, number):
        file = entry.file
        name = file.file_name
        found.append(
            (
                (
                    entry.kind,
                    entry.partition,
                    entry.bucket,
                    entry.total_buckets,
                    file.level,
                    file.min_key,
                    file.max_key,
                ),
                (file.min_sequence_number, file.max_sequence_number, file.row_count, file.delete_row_count),
                (file.schema_id, file.file_source, file.key_stats, file.value_stats, file.value_stats_cols),
                (name.partition("-")[0], name.partition(".")[2], file.extra_files, file.embedded_file_index),
                in_order(file_rows(table, entry)),
            )
        )
    return sorted(found, key=lambda fact: repr(fact[:-1]))


def changes(table: FileStoreTable, view: str, **options: str) -> pa.Table:
    loaded = load_table(table.path, options={key.replace("_", "-"): value for key, value in options.items()})
    found = find_view(view)
    assert found is not None
    plan = plan_of(loaded, found)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))
