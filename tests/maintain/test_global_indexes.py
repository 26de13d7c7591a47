"""Indexes of a whole table, which other engines build, stay as they are: what would spoil them is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.column_update import commit_columns, plan_column_update, update_columns
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.row_level import check_row_delete, check_update
from paimon_spark.spec.avro_codec import encode_index_manifest
from paimon_spark.spec.manifest import FileKind, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.routing import NO_PARTITION
from paimon_spark.write.task_write import write_batches
from tests.support.commits import make_table

SCHEMA = pa.schema([("k", pa.int32())])


def append(table: FileStoreTable, *keys: int) -> None:
    plan = plan_write(table, data_schema=SCHEMA)
    commit(table, [write_batches(plan, [pa.RecordBatch.from_pylist([{"k": key} for key in keys], SCHEMA)], 0)])


def with_index(table: FileStoreTable) -> IndexManifestEntry:
    """Give the latest snapshot an index of its rows."""
    meta = GlobalIndexMeta(0, 2, 0, (), b"m", None)
    entry = IndexManifestEntry(FileKind.ADD, NO_PARTITION, 0, "btree", "index-1", 5, 3, None, None, meta)
    Path(table.paths.manifest_path("index-manifest-x-0")).write_bytes(encode_index_manifest([entry]))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    path = Path(table.paths.snapshot_path(snapshot.id))
    path.write_text(json.dumps({**json.loads(path.read_text()), "indexManifest": "index-manifest-x-0"}))
    return entry


@pytest.mark.parametrize("evolves", [False, True])
def test_what_moves_rows_is_refused(tmp_path: Path, evolves: bool) -> None:
    options = {"row_tracking__enabled": "true", "data_evolution__enabled": str(evolves).lower()}
    table = make_table(tmp_path / "t", bucket="-1", **options)
    for keys in ((1, 2), (3,), (4,), (5,), (6,)):
        append(table, *keys)
    entry = with_index(table)
    append(load_table(table.path), 7)
    table = load_table(table.path)
    latest = table.snapshots.latest()
    assert latest is not None
    assert table.manifests.index_entries(latest) == [entry]
    if evolves:  # rows keep their ids, and the index with them
        compact(table)
        latest = table.snapshots.latest()
        assert latest is not None
        assert table.manifests.index_entries(latest) == [entry]
        return
    for deed in (lambda: compact(table), lambda: check_update(table, ["k"]), lambda: check_row_delete(table)):
        with pytest.raises(UnsupportedError, match="global index of type btree"):
            deed()


@pytest.mark.parametrize("action", ["THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"])
def test_an_update_of_an_indexed_column_does_what_the_option_says(tmp_path: Path, action: str) -> None:
    options = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
    table = make_table(tmp_path / "t", bucket="-1", global_index__column_update_action=action, **options)
    append(table, 1, 2, 3)
    entry = with_index(table)
    table = load_table(table.path)
    latest = table.snapshots.latest()
    assert latest is not None
    update = plan_column_update(table, ["k"], SCHEMA, latest.id)
    rows = pa.RecordBatch.from_arrays([pa.array([9], pa.int32()), pa.array([1], pa.int64())], names=["k", "_ROW_ID"])
    message = update_columns(update, [rows])
    assert message is not None
    if action == "THROW_ERROR":
        with pytest.raises(UnsupportedError, match="globally indexed columns is not supported: k"):
            commit_columns(table, [message], latest, Operation.UPDATE)
        return
    commit_columns(table, [message], latest, Operation.UPDATE)
    latest = table.snapshots.latest()
    assert latest is not None
    assert table.manifests.index_entries(latest) == ([entry] if action == "IGNORE" else [])
