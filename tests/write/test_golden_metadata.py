"""The metadata of every level-0 file in the golden tables: writing the same rows again must give what Java recorded."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.errors import DataError
from paimon_spark.spec.binary_row import decode_row
from paimon_spark.spec.data_types import DoubleType, FloatType
from paimon_spark.spec.file_names import data_file_format
from paimon_spark.spec.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry
from paimon_spark.spec.schema import TableSchema
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.storage.formats import open_data_file
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.data_file_spec import DataFileSpec, data_file_spec
from paimon_spark.write.rolling import RollingFiles
from tests.support.golden import GOLDEN

NAMES = sorted(p.parent.name for p in GOLDEN.glob("*/table"))
LEFT_OUT = {
    "file_name",
    "file_size",
    "creation_time_millis",
    "extra_files",  # file indexes, compared by their bytes
    "first_row_id",  # row tracking
}
OUT_OF_SCOPE = ("old_", "row_tracking", "data_evolution", "pk_postpone")
"""Versions without file source or dense statistics; tables that this version does not write."""


def added_files(table: FileStoreTable) -> list[ManifestEntry]:
    """Level-0 files that a write (not a compaction) brought."""
    found: dict[str, ManifestEntry] = {}
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        for manifest in table.manifests.delta_manifests(snapshot):
            for entry in table.manifests.read_manifest(manifest):
                if entry.kind == FileKind.ADD and entry.file.file_source == FileSource.APPEND and entry.file.level == 0:
                    found[entry.file.file_name] = entry
    return [e for e in found.values() if Path(table.paths.data_file_path(e.partition, e.bucket, e.file)).exists()]


def written_with(table: FileStoreTable, entry: ManifestEntry) -> tuple[TableSchema, DataFileSpec]:
    schema = table.schemas.get(entry.file.schema_id)
    # the format may have been a dynamic option of one write
    file_format = data_file_format(entry.file.file_name)
    schema = schema.with_options({**schema.options, "file.format": file_format, "file.format.per.level": ""})
    return schema, data_file_spec(schema)


OLD_FRACTIONS = ("pk_aggregation_scalar_compacted",)
"""Tables whose ORC files hold fractions of seconds before 1970, which ours cannot."""


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith(OUT_OF_SCOPE)])
def test_same_metadata_as_java(name: str, tmp_path: Path) -> None:
    table = load_table(str(GOLDEN / name / "table"))
    added = added_files(table)
    assert added
    for entry in added[:8]:
        schema, spec = written_with(table, entry)
        path = table.paths.data_file_path(entry.partition, entry.bucket, entry.file)
        with open_data_file(table.file_io, path, spec.file_format) as reader:
            rows = pa.Table.from_batches(reader.read_batches(spec.physical_fields), schema=spec.arrow_schema)
        first = entry.file.min_sequence_number
        files = RollingFiles(LocalFileIO(), spec, str(tmp_path), spec.file_names(), next_sequence=first)
        if spec.file_format == "orc" and name in OLD_FRACTIONS:
            with pytest.raises(DataError, match="before 1970 with a fraction of a second"):
                files.write(rows)
            continue
        files.write(rows)
        (ours,) = files.close()
        known = differing_columns(rows, spec)
        assert shown(ours, schema, known) == shown(entry.file, schema, known), entry.file.file_name
        assert index_bytes(ours, tmp_path) == index_bytes(entry.file, Path(path).parent), entry.file.file_name


def index_bytes(meta: DataFileMeta, folder: Path) -> list[bytes]:
    """The file index next to a data file."""
    assert all(name == f"{meta.file_name}.index" for name in meta.extra_files)
    return [(folder / name).read_bytes() for name in meta.extra_files]


def differing_columns(rows: pa.Table, spec: DataFileSpec) -> set[str]:
    """Columns whose minima and maxima Java has otherwise than by its own order."""
    if spec.file_format == "orc":  # Java's ORC keeps a NaN as minimum and maximum if it comes first, else drops it
        floating = [f.name for f in spec.value_fields if isinstance(f.type, FloatType | DoubleType)]
        return {name for name in floating if pc.any(pc.is_nan(rows.column(name))).as_py()}
    return set()


def shown(meta: DataFileMeta, schema: TableSchema, known: set[str]) -> dict[str, object]:
    """Fields to compare; value statistics decoded too, so that a difference can be read."""
    result: dict[str, object] = {f.name: getattr(meta, f.name) for f in fields(meta) if f.name not in LEFT_OUT}
    names = meta.value_stats_cols if meta.value_stats_cols is not None else [f.name for f in schema.fields]
    types = [schema.field(n).type.with_nullable(True) for n in names]
    for end in ("min_values", "max_values"):
        values = decode_row(getattr(meta.value_stats, end)[4:], types) if types else []
        result[end] = {n: repr(v) for n, v in zip(names, values, strict=True) if n not in known}
    if known & set(names):
        result["value_stats"] = meta.value_stats.null_counts
    return result
