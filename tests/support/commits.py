"""Small real tables for commit tests: data files that Java reads too, their messages, and what lives in a table."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.spec.avro_codec import encode_manifest, encode_manifest_list
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileSource, ManifestEntry
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.message import CommitMessage, NewHashes

STRING = VarCharType(length=VarCharType.MAX)
NO_PARTITION = bytes(12)


def make_table(
    path: Path | str,
    *,
    primary_key: Sequence[str] = (),
    partition: Sequence[str] = (),
    file_io: FileIO | None = None,
    **options: str,
) -> FileStoreTable:
    """Create a table (k INT, v STRING[, dt STRING]); in option names ``_`` stands for ``-`` and ``__`` for ``.``."""
    fields = [DataField(0, "k", IntType(nullable=False)), DataField(1, "v", STRING)]
    fields += [DataField(2, name, STRING) for name in partition]
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = create_schema(fields, tuple(primary_key), tuple(partition), named, None)
    return create_table(str(path), schema, file_io=file_io)


def partition_bytes(value: str | None) -> bytes:
    return serialize_row([value], [STRING])


def data_file(
    table: FileStoreTable,
    rows: Mapping[int, str],
    *,
    partition: str | None = None,
    bucket: int = 0,
    level: int = 0,
    sequence: int = 0,
    source: FileSource = FileSource.APPEND,
) -> DataFileMeta:
    """Write ``rows`` (k to v, keys ascending) as one Parquet file of ``table``'s layout."""
    keys = sorted(rows)
    columns: dict[str, pa.Array] = {
        "k": pa.array(keys, pa.int32()),
        "v": pa.array([rows[key] for key in keys], pa.string()),
    }
    location = NO_PARTITION
    if table.schema.partition_keys:
        columns["dt"] = pa.array([partition] * len(keys), pa.string())
        location = partition_bytes(partition)
    min_key = max_key = NO_PARTITION
    if table.schema.primary_keys:
        columns = {
            "_KEY_k": columns["k"],
            "_SEQUENCE_NUMBER": pa.array(range(sequence, sequence + len(keys)), pa.int64()),
            "_VALUE_KIND": pa.array([0] * len(keys), pa.int8()),
            **columns,
        }
        min_key, max_key = (serialize_row([key], [IntType(nullable=False)]) for key in (keys[0], keys[-1]))
    name = f"data-{uuid.uuid4()}-0.parquet"
    directory = Path(table.paths.bucket_dir(table.paths.partition_path(location), bucket))
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), directory / name, compression="zstd")
    return DataFileMeta(
        file_name=name,
        file_size=(directory / name).stat().st_size,
        row_count=len(keys),
        min_key=min_key,
        max_key=max_key,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        value_stats_cols=(),
        min_sequence_number=sequence,
        max_sequence_number=sequence + len(keys) - 1,
        schema_id=table.schema.id,
        level=level,
        creation_time_millis=time.time_ns() // 1_000_000,
        delete_row_count=0,
        file_source=source,
    )


def message(
    table: FileStoreTable,
    *files: DataFileMeta,
    partition: str | None = None,
    bucket: int = 0,
    hashes: Sequence[int] = (),
    buckets: int | None = None,
    **more: Any,
) -> CommitMessage:
    """Return the message of one bucket."""
    buckets = table.options.bucket if buckets is None else buckets
    index = NewHashes.inline(np.unique(np.array(hashes, dtype=np.int32))) if hashes else None
    location = partition_bytes(partition) if table.schema.partition_keys else NO_PARTITION
    return CommitMessage(location, bucket, buckets if buckets > 0 else -1, files, new_index=index, **more)


def fake_file(name: str, rows: int = 1, **more: Any) -> DataFileMeta:
    """Return metadata of a file that does not exist, for tests that read no rows."""
    key = serialize_row([0], [IntType(nullable=False)])
    usual = {"value_stats_cols": (), "delete_row_count": 0, "file_source": FileSource.APPEND}
    more = {**usual, "min_key": key, "max_key": key, **more}
    return DataFileMeta(file_name=name, file_size=100, row_count=rows, **more)


def live_names(table: FileStoreTable) -> list[str]:
    """Return the names of the files in the latest snapshot."""
    return [entry.file.file_name for entry in table.manifests.live_entries(table.snapshots.latest())]


def snapshot_json(table: FileStoreTable, snapshot_id: int) -> dict[str, Any]:
    """Return the snapshot file as plain JSON."""
    return dict(json.loads(Path(table.paths.snapshot_path(snapshot_id)).read_text()))


def all_files(table: FileStoreTable, *folders: str) -> set[str]:
    """Return the names of all files in the table's folders (manifest, snapshot, index)."""
    root = Path(table.path)
    return {path.name for folder in folders for path in root.glob(f"{folder}/*") if path.is_file()}


def referenced_files(table: FileStoreTable) -> set[str]:
    """Return the names of every manifest, list and index file that any snapshot refers to."""
    names: set[str] = set()
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        names.update(name for name in (*lists, snapshot.index_manifest) if name)
        for name in lists:
            if name:
                names.update(meta.file_name for meta in table.manifests.manifest_list(name))
        names.update(entry.file_name for entry in table.manifests.index_entries(snapshot))
    return names


def rewrite_entries(table: FileStoreTable, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    """Change every manifest entry of the latest snapshot; sizes in its lists and in the snapshot follow."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    sizes = {}
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        metas = []
        for meta in table.manifests.manifest_list(name):
            data = encode_manifest([change(entry) for entry in table.manifests.read_manifest(meta)])
            Path(table.paths.manifest_path(meta.file_name)).write_bytes(data)
            metas.append(replace(meta, file_size=len(data)))
        data = encode_manifest_list(metas)
        Path(table.paths.manifest_path(name)).write_bytes(data)
        sizes[name] = len(data)
    changed = replace(
        snapshot,
        base_manifest_list_size=sizes[snapshot.base_manifest_list],
        delta_manifest_list_size=sizes[snapshot.delta_manifest_list],
    )
    Path(table.paths.snapshot_path(snapshot.id)).write_text(changed.to_json())


def files_below(path: Path | str) -> set[str]:
    """All files of a directory and those below it, relative to it."""
    return {file.relative_to(path).as_posix() for file in Path(path).rglob("*") if file.is_file()}
