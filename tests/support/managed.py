"""Tables with primary keys and BLOB columns in managed blob files: rows in, rows out, and what lies on the disk."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, IntType, MapType, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.blob_descriptor import ManagedBlobName, decode_references
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.message import TaskMessage
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

FIELDS = [
    DataField(0, "k", IntType(nullable=False)),
    DataField(1, "v", IntType()),
    DataField(2, "pic", BlobType()),
    DataField(3, "many", ArrayType(BlobType())),
    DataField(4, "named", MapType(VarCharType(10, nullable=False), BlobType())),
]
"""Columns of `managed_table`."""


def managed_table(folder: Path, **options: str) -> FileStoreTable:
    """Make a table without rows."""
    schema = create_schema(FIELDS, ["k"], [], {"bucket": "1", "write-only": "true", **options})
    return create_table(str(folder / "t"), schema)


def written(table: FileStoreTable, rows: Sequence[tuple[Any, ...]], kinds: Sequence[int] = ()) -> TaskMessage:
    """Write rows, not committed."""
    schema = to_arrow_schema(table.schema.fields)
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    data = data.append_column("_VALUE_KIND", pa.array(kinds or (0,) * len(rows), pa.int8()))
    plan = plan_write(table, data_schema=data.schema, shuffled=True)
    return write_batches(plan, data.to_batches(), 0)


def put(path: str, rows: Sequence[tuple[Any, ...]], kinds: Sequence[int] = (), **options: str) -> None:
    """Write and commit rows."""
    table = load_table(path, options=options)
    commit(table, [written(table, rows, kinds)])


def rows_of(path: str, view: str | None = None, **options: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    loaded, found = load_table(path, options=options), find_view(view)
    assert found is not None
    plan = plan_of(loaded, found)
    return [r for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual) for r in b.to_pylist()]


def managed_blob_names(path: str | Path) -> list[str]:
    """The names of all managed blob files."""
    return sorted(file.name for file in Path(path).rglob("*.managed.blob"))


def references_of(path: str) -> dict[str, list[ManagedBlobName]]:
    """For each data file of the latest snapshot, the managed blob files that the file next to it names."""
    table = load_table(path)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    found = {}
    for entry in table.manifests.live_entries(snapshot):
        directory = table.paths.data_file_path(entry.partition, entry.bucket, entry.file).rpartition("/")[0]
        (name,) = entry.file.extra_files
        assert name == f"{entry.file.file_name}.blobref"
        found[entry.file.file_name] = decode_references(Path(directory, name).read_bytes(), name)
    return found


def location_of(descriptor: bytes) -> tuple[str, int, int]:
    """URI, offset and length of a descriptor."""
    version, magic, length = struct.unpack_from("<bqi", descriptor)
    assert (version, magic) == (2, 0x424C4F4244455343)
    return descriptor[13 : 13 + length].decode(), *struct.unpack_from("<qq", descriptor, 13 + length)
