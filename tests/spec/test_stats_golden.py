"""Statistics computed from the rows of golden data files equal those in Java's manifests, byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.avro_codec import decode_manifest
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.manifest import DataFileMeta, SimpleStats
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, key_field
from paimon_spark.spec.stats import SimpleColStats, StatsCollector, decode_stats, dense, simple_stats
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import open_data_file
from paimon_spark.write.data_file_spec import stats_modes

WITHOUT_STATS = {"pk_postpone"}  # Java's postpone writer collects none


def data_files(table: Path) -> Iterator[tuple[DataFileMeta, TableSchema, Path]]:
    """Every data file that still exists, with its schema."""
    schemas = {int(f.name.split("-")[1]): TableSchema.from_json(f.read_text()) for f in table.glob("schema/schema-*")}
    paths = {f.name: f for f in table.glob("**/bucket-*/*")}
    seen = set()
    for manifest in sorted(table.glob("manifest/manifest-*")):
        if manifest.name.startswith("manifest-list-"):
            continue
        for entry in decode_manifest(manifest.read_bytes()):
            name = entry.file.file_name
            if name in paths and name not in seen and entry.file.schema_id in schemas:
                seen.add(name)
                yield entry.file, schemas[entry.file.schema_id], paths[name]


class StatsOfFile:
    """The statistics of one data file, from its rows."""

    def __init__(self, file: DataFileMeta, schema: TableSchema, path: Path, *, may_be_dense: bool = True) -> None:
        options = schema.core_options
        self.fields: list[DataField] = list(schema.fields)
        if file.write_cols is not None:
            known = {f.name: f for f in (*schema.fields, ROW_ID, SEQUENCE_NUMBER)}
            self.fields = [known[name] for name in file.write_cols]
        self.keys = (
            [key_field(schema.field(name)) for name in schema.trimmed_primary_keys] if schema.primary_keys else []
        )
        self.thin = options.get("data-file.thin-mode") == "true"
        self.dense = may_be_dense and options.get("metadata.stats-dense-store", "true") != "false"
        physical = self.fields
        if self.keys:
            physical = [*([] if self.thin else self.keys), SEQUENCE_NUMBER, VALUE_KIND, *self.fields]
        file_format = file.file_name.rsplit(".", 1)[1]
        modes = stats_modes(
            options,
            [f.name for f in physical],
            mode=options.stats_mode_at(file.level),
            file_format=file_format if self.keys else "",
            thin_keys=frozenset(k.name for k in self.keys) if self.thin else frozenset(),
        )
        with open_data_file(FileIO.for_path(str(path), {}), str(path), file_format, file.file_size) as reader:
            self.rows = pa.Table.from_batches(reader.read_batches(physical))
        assert self.rows.num_rows == file.row_count
        collector = StatsCollector(physical, [modes[f.name] for f in physical], file_format=file_format)
        collector.add(self.rows)
        collected = collector.result()
        self.columns: dict[str, SimpleColStats] = dict(zip((f.name for f in physical), collected, strict=True))

    def value_stats(self) -> tuple[SimpleStats, tuple[str, ...] | None]:
        columns = [self.columns[f.name] for f in self.fields]
        return (
            dense(self.fields, columns) if self.dense else (simple_stats([f.type for f in self.fields], columns), None)
        )

    def key_stats(self) -> SimpleStats:
        names = [key.name.removeprefix("_KEY_") if self.thin else key.name for key in self.keys]
        return simple_stats([key.type for key in self.keys], [self.columns[name] for name in names])

    def has_nan(self) -> bool:
        floats = [c for c in self.rows.columns if pa.types.is_floating(c.type)]
        return any(pc.any(pc.is_nan(column)).as_py() for column in floats)


def test_statistics_equal_java(golden: Path) -> None:
    """All formats, modes, levels, dense or not, thin or not; only for ORC with NaN we leave Java's way."""
    equal: Counter[str] = Counter()
    tables: set[str] = set()
    for table in sorted(golden.glob("*/table")):
        name = table.parent.name
        if name in WITHOUT_STATS:
            continue
        for file, schema, path in data_files(table):
            ours = StatsOfFile(file, schema, path, may_be_dense=not name.startswith("old_"))
            if path.suffix == ".orc" and ours.has_nan():
                continue
            where = f"{name} {file.file_name}"
            stats, names = ours.value_stats()
            assert names == file.value_stats_cols, where
            if stats != file.value_stats:  # before 1.0 a null TIMESTAMP(6) reserved no bytes: the same values, though
                assert name.startswith("old_"), where
                covered = [f.type for f in ours.fields]
                assert decode_stats([stats], covered) == decode_stats([file.value_stats], covered), where
                continue
            assert ours.key_stats() == file.key_stats, where
            equal[path.suffix] += 1
            tables.add(name)
    assert equal[".parquet"] > 600
    assert equal[".avro"] > 300
    assert equal[".orc"] > 100
    assert {t.parent.name for t in golden.glob("stats_*/table")} <= tables


def test_orc_with_nan_keeps_nan_as_maximum(golden: Path) -> None:
    """Java's ORC overlooks NaN, so that `d > 100` loses rows in Java; our maximum is NaN, as in Parquet and Avro."""
    checked = 0
    for file, schema, path in data_files(golden / "pk_aggregation_scalar_compacted" / "table"):
        ours = StatsOfFile(file, schema, path)
        if not ours.has_nan():
            continue
        for field in ours.fields:
            column = ours.rows.column(field.name)
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                maximum = ours.columns[field.name].max
                assert maximum is not None
                assert pc.is_nan(maximum).as_py()
                checked += 1
    assert checked > 0
