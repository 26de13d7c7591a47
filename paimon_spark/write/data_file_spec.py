"""How data files of a table are written at one level: columns, format, names, sizes, statistics modes.

Equals Java's ``KeyValueFileWriterFactory`` with its ``FileWriterContextFactory``, and ``StatsCollectorFactories``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_spark.options import CoreOptions
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, VectorType, holds_blobs
from paimon_spark.spec.file_locations import check_prefix
from paimon_spark.spec.file_names import FileNameSequence, data_file_extension
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import (
    KEY_FIELD_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    is_system_field,
    key_field,
)
from paimon_spark.spec.stats import SYSTEM_STATS_MODE, StatsMode
from paimon_spark.storage.blob_input import BlobInput
from paimon_spark.storage.variant_writer import Shredding
from paimon_spark.write.external_paths import ExternalPaths
from paimon_spark.write.file_indexes import NO_INDEXES, FileIndexSpec

_NONE = StatsMode.parse("none")


@dataclass(frozen=True, slots=True)
class DataFileSpec:
    """What all data files of one table and level have in common. Picklable."""

    schema_id: int
    level: int
    value_fields: tuple[DataField, ...]
    """Columns of the table: what value statistics are about."""
    key_fields: tuple[DataField, ...]
    """The trimmed primary key as ``_KEY_*`` fields: what min_key, max_key and key statistics are about; or empty."""
    physical_fields: tuple[DataField, ...]
    """Columns of the file, in order."""
    file_format: str
    compression: str
    zstd_level: int
    prefix: str
    extension: str
    target_size_bytes: int
    target_rows: int
    stats_modes: Mapping[str, StatsMode]
    """Statistics mode of each physical column, by name."""
    dense_stats: bool
    format_options: Mapping[str, str]
    write_cols: tuple[str, ...] | None = None
    """Columns of the file where they are not those of the schema."""
    step_rows: int = 1000
    """How many rows are written at least before the size of a file is looked at, as in Java."""
    companions: tuple[DataFileSpec, ...] = ()
    """How files of columns are written that have files of their own: one for each BLOB column, one for VECTORs."""
    numbered_anew: bool = False
    """Whether the sequence numbers of each file start at zero, which stands for the id of the snapshot to be."""
    indexes: FileIndexSpec = NO_INDEXES
    external: ExternalPaths | None = None
    """Where files lie that are not below the table; None where they are."""
    managed_blobs: tuple[str, ...] = ()
    """BLOB columns whose values lie in managed blob files in the same directory, which hold descriptors."""
    managed_blob_bytes: int = 0
    """Size at which managed blob files roll."""
    blob_input: BlobInput | None = None
    """What becomes of BLOB values that are descriptors; None where they are written as they are."""

    @property
    def keyed(self) -> bool:
        """Whether files hold key-value rows (primary-key tables)."""
        return bool(self.key_fields)

    @property
    def is_blob(self) -> bool:
        """Whether files hold the values of one BLOB column."""
        return self.file_format == "blob"

    @property
    def tracked(self) -> bool:
        """Whether rows bring their ids and sequence numbers (tables with row tracking)."""
        return not self.keyed and any(field.name == SEQUENCE_NUMBER.name for field in self.physical_fields)

    @property
    def thin(self) -> bool:
        """Whether files of a primary-key table leave out the ``_KEY_*`` columns."""
        return self.keyed and self.physical_fields[0].name != self.key_fields[0].name

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the physical columns."""
        return to_arrow_schema(self.physical_fields)

    def file_names(self) -> FileNameSequence:
        """Names for the files of one writer (one bucket of one task)."""
        return FileNameSequence.start(self.prefix, self.extension)

    def value_name(self, key_name: str) -> str:
        """The value column that holds the same as a ``_KEY_*`` column."""
        return key_name[len(KEY_FIELD_PREFIX) :]


def data_file_spec(
    schema: TableSchema,
    *,
    level: int = 0,
    limit_rows: bool = True,
    changelog: bool = False,
    columns: tuple[DataField, ...] | None = None,
) -> DataFileSpec:
    """Take from a table's schema and options how files of a level are written.

    Args:
        schema: the table's schema, dynamic options applied.
        level: LSM level of the files; 0 for append tables.
        limit_rows: False for compactions, which do not follow ``target-file-row-num``.
        changelog: the files are changelog files: the options ``changelog-file.*`` count, and only bytes limit a file.
        columns: of the files of a table without keys, where these are not all of the table's.

    Raises:
        OptionError: files with such names would lie elsewhere, or could not be read.
    """
    options = schema.core_options
    keys = tuple(key_field(schema.field(name)) for name in schema.trimmed_primary_keys)
    values = tuple(schema.fields) if columns is None else columns
    thin = bool(keys) and bool(options.value("data-file.thin-mode"))
    physical = values
    if keys:
        physical = (*(() if thin else keys), SEQUENCE_NUMBER, VALUE_KIND, *values)
    file_format, compression = options.file_format_at(level), options.file_compression_at(level)
    mode, prefix = options.stats_mode_at(level), "data-file.prefix"
    if changelog:
        file_format, compression, mode = options.of_changelog_files(level)
        prefix, limit_rows = "changelog-file.prefix", False
    names = [f.name for f in physical]
    spec = DataFileSpec(
        schema_id=schema.id,
        level=level,
        value_fields=values,
        key_fields=keys,
        physical_fields=physical,
        file_format=file_format,
        compression=compression,
        zstd_level=options.zstd_level,
        prefix=check_prefix(prefix, str(options.value(prefix))),
        extension=data_file_extension(
            file_format,
            options.file_compression,  # Java: not that of the level
            include_compression=bool(options.value("file.suffix.include.compression")),
        ),
        target_size_bytes=options.target_file_size_bytes(bool(keys)),
        target_rows=int(options.value("target-file-row-num")) if limit_rows else 2**63 - 1,
        stats_modes=stats_modes(options, names, mode=mode, file_format=file_format, thin_keys=_thin_keys(keys, thin)),
        dense_stats=bool(options.value("metadata.stats-dense-store")),
        format_options=options.to_dict(),
        write_cols=None if columns is None else tuple(names),
        numbered_anew=schema.kind.has_data_evolution,
        indexes=NO_INDEXES if changelog else FileIndexSpec.of(schema, [field.name for field in values]),
        external=ExternalPaths.of(schema),
    )
    if file_format.lower() == "parquet":
        Shredding.of(physical, spec.format_options)  # says what is wrong before a task does
    return spec if changelog and keys else _with_companion_files(spec, schema)


def _with_companion_files(spec: DataFileSpec, schema: TableSchema) -> DataFileSpec:
    """Put BLOB and VECTOR columns into files of their own (Java: ``DedicatedFormatRollingFileWriter``)."""
    target = schema.core_options.value("blob.target-file-size")
    if spec.keyed:
        return _with_managed_blobs(spec, schema, target)
    vectors = _vector_files(spec, schema)
    blobs = tuple(
        replace(
            spec,
            value_fields=(field,),
            physical_fields=(field,),
            file_format="blob",
            extension=".blob",
            target_size_bytes=spec.target_size_bytes if target is None else int(target),
            target_rows=2**63 - 1,
            stats_modes={field.name: _NONE},
            write_cols=(field.name,),
            step_rows=1,
        )
        for field in spec.physical_fields
        if holds_blobs(field.type) and field.name not in schema.core_options.inline_blob_fields
    )
    companions = (*blobs, *vectors)
    if not companions:
        return spec
    taken = {field.name for other in companions for field in other.physical_fields}
    plain = tuple(field for field in spec.physical_fields if field.name not in taken)
    names = tuple(field.name for field in plain)
    return replace(spec, value_fields=plain, physical_fields=plain, write_cols=names, companions=companions)


def _with_managed_blobs(spec: DataFileSpec, schema: TableSchema, target: int | None) -> DataFileSpec:
    managed = tuple(field.name for field in schema.fields if field.name in schema.managed_blob_fields)
    size = schema.core_options.target_file_size_bytes(False) if target is None else int(target)
    return replace(spec, managed_blobs=managed, managed_blob_bytes=max(1, size))


def _vector_files(spec: DataFileSpec, schema: TableSchema) -> tuple[DataFileSpec, ...]:
    """How the files of VECTOR columns alone are written (``vector.file.format``); none without them."""
    options = schema.core_options
    file_format = options.value("vector.file.format")
    fields = tuple(field for field in spec.physical_fields if isinstance(field.type, VectorType))
    if file_format is None or not fields:
        return ()
    file_format, target = str(file_format).lower(), options.value("vector.target-file-size")
    extension = data_file_extension(
        file_format,
        options.file_compression,
        include_compression=bool(options.value("file.suffix.include.compression")),
    )
    names = tuple(field.name for field in fields)
    return (
        replace(
            spec,
            value_fields=fields,
            physical_fields=fields,
            file_format=file_format,
            extension=f".vector{extension}",
            target_size_bytes=spec.target_size_bytes if target is None else int(target),
            target_rows=2**63 - 1,
            stats_modes={name: spec.stats_modes[name] for name in names},
            write_cols=names,
            indexes=NO_INDEXES,
        ),
    )


def stats_modes(
    options: CoreOptions, names: Sequence[str], *, mode: str, file_format: str, thin_keys: frozenset[str]
) -> dict[str, StatsMode]:
    """The statistics mode of each physical column (Java: ``StatsCollectorFactories``).

    Args:
        options: of the table.
        names: physical columns, in order.
        mode: text of the mode of columns that have none of their own.
        file_format: avro files have no statistics of their own: Java gives system columns no special mode there.
        thin_keys: key columns (``_KEY_*``) that the file leaves out.
    """
    common = StatsMode.parse(mode)
    first_columns = int(options.value("metadata.stats-keep-first-n-columns"))
    avro = file_format == "avro"
    modes: dict[str, StatsMode] = {}
    counted = 0
    for name in names:
        own = options.field_option(name, "stats-mode")
        if own is not None:
            modes[name] = StatsMode.parse(own)
        elif not avro and (is_system_field(name) or KEY_FIELD_PREFIX + name in thin_keys):
            modes[name] = SYSTEM_STATS_MODE
            continue
        else:
            modes[name] = _NONE if 0 <= first_columns <= counted else common
        counted += 1
    return modes


def _thin_keys(keys: tuple[DataField, ...], thin: bool) -> frozenset[str]:
    return frozenset(f.name for f in keys) if thin else frozenset()
