"""What the files of a snapshot promise, checked against their rows: whoever wrote and compacted them."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.commit.conflict_detection import ConflictContext, check_conflicts
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.split import SplitFile
from paimon_spark.read.split_read import partition_scalars
from paimon_spark.table.deletion_vectors import deleted_rows, vectors_of
from paimon_spark.table.table import FileStoreTable, load_table


def tied_values(table: FileStoreTable, snapshot_id: int) -> dict[int, set[str]]:
    """The values (v) of keys (k) of which several rows of a snapshot have one sequence number.

    Writers that did not see each other's rows give the same numbers.
    """
    found: dict[tuple[int, int], list[str]] = {}
    for entry in table.manifests.live_entries(table.snapshots.get(snapshot_id)):
        split = SplitFile.of(entry.file, table.paths.data_file_path(entry.partition, entry.bucket, entry.file))
        constants = partition_scalars(table, entry.partition)
        for batch in FileRead(table, tuple(table.schema.fields), constants, key_value=True).batches(split, None):
            for row in batch.to_pylist():
                found.setdefault((row["k"], row["_SEQUENCE_NUMBER"]), []).append(row["v"])
    tied: dict[int, set[str]] = {}
    for (key, _), values in found.items():
        if len(values) > 1:
            tied.setdefault(key, set()).update(values)
    return tied


def check_files(path: str) -> None:
    """No overlap above level 0; numbers of buckets, rows, sequences and deletes as counted; vectors as counted."""
    table = load_table(path)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    entries = table.manifests.live_entries(snapshot)
    types = tuple(table.schema.field(name).type for name in table.schema.trimmed_primary_keys)
    context = ConflictContext(path, table.paths.partition_path, types, "", "")
    check_conflicts([], entries, context, overwrite=False)  # levels above 0, numbers of buckets
    vectors, fields = vectors_of(table, snapshot), tuple(table.schema.fields)
    for entry in entries:
        meta = entry.file
        location = vectors.get((entry.partition, entry.bucket, meta.file_name))
        if location is not None:
            deleted_rows(
                table.file_io, location, meta.row_count
            )  # as many as its cardinality, and none behind the rows
        if not table.schema.primary_keys:
            continue
        split = SplitFile.of(meta, table.paths.data_file_path(entry.partition, entry.bucket, meta))
        constants = partition_scalars(table, entry.partition)
        rows = pa.Table.from_batches(list(FileRead(table, fields, constants, key_value=True).batches(split, None)))
        numbers, kinds = (rows.column(name).to_pylist() for name in ("_SEQUENCE_NUMBER", "_VALUE_KIND"))
        assert (min(numbers), max(numbers)) == (meta.min_sequence_number, meta.max_sequence_number)
        assert (len(numbers), sum(kind in (1, 3) for kind in kinds)) == (meta.row_count, meta.delete_row_count)
