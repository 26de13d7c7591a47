"""How data files of a table are written at one level: columns, format, names, sizes, statistics modes.

Equals Java's ``KeyValueFileWriterFactory`` with its ``FileWriterContextFactory``, and ``StatsCollectorFactories``.

It says, too, where new data files go that do not lie below their table (option ``data-file.external-paths``).

Equals Java's ``ExternalPathProvider`` and ``AbstractFileStore.createExternalPaths``: the directories below an external
path are those below the table. No file is opened.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import CoreOptions
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, VectorType, holds_blobs
from paimon_spark.spec.file_names import (
    EXTERNAL,
    FileNameSequence,
    check_prefix,
    data_directory,
    data_file_extension,
    external_roots,
    is_root,
    plain_path,
    scheme_of_root,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.special_fields import (
    KEY_FIELD_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    is_system_field,
    key_field,
)
from paimon_spark.spec.stats import SYSTEM_STATS_MODE, StatsMode
from paimon_spark.storage.blob_descriptor import BlobInput, DescribedFiles
from paimon_spark.storage.store_options import redact
from paimon_spark.storage.variant_writer import Shredding
from paimon_spark.table.data_layout import store_of
from paimon_spark.table.file_indexes import NO_INDEXES, FileIndexSpec

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_STRATEGY: Final = "data-file.external-paths.strategy"
_SPECIFIC: Final = "data-file.external-paths.specific-fs"
_WEIGHTS: Final = "data-file.external-paths.weights"
_ENTROPY: Final = "entropy-inject"
_WEIGHTED: Final = "weight-robin"
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """The external paths of a table, and how a file finds its own. Picklable."""

    roots: tuple[str, ...]
    strategy: str
    weights: tuple[int, ...]
    """Of each root, for the strategy `weight-robin`; empty without."""
    depth: int
    """How many directories there are between a table and its files."""

    @classmethod
    def of(cls, schema: TableSchema) -> ExternalPaths | None:
        """Read the options of a table; None where its files lie below it.

        Raises:
            OptionError: an option is missing or wrong.
        """
        options = schema.core_options
        strategy = str(options.value(_STRATEGY)).lower()
        roots = external_roots(schema.options)
        if not roots or strategy == "none":
            return None
        for root in roots:
            if scheme_of_root(root) is None:
                raise OptionError(
                    f"Option '{EXTERNAL}' names {root}: scheme should not be null. Write file:/directory."
                )
            if is_root(root):
                raise OptionError(f"Option '{EXTERNAL}' names {root}, which is a whole bucket: name a directory in it.")
        weights = _weights(options.value(_WEIGHTS), len(roots)) if strategy == _WEIGHTED and len(roots) > 1 else ()
        if strategy == "specific-fs":
            wanted = options.value(_SPECIFIC)
            if wanted is None:
                raise OptionError(f"Option '{_STRATEGY}' = 'specific-fs' needs '{_SPECIFIC}', the scheme of a path.")
            roots = tuple(root for root in roots if scheme_of_root(root) == str(wanted).lower())
            if not roots:
                raise OptionError(f"External paths should not be empty: none in '{EXTERNAL}' has the scheme {wanted}.")
        inside = data_directory(schema.options)
        depth = len(schema.partition_keys) + 1 + (len(inside.split("/")) if inside else 0)
        return cls(tuple(map(_as_java_writes, roots)), strategy, weights, depth)

    def check_store(self, path: str) -> None:
        """Refuse paths in another store than the table's.

        Raises:
            UnsupportedError: names the external path.
        """
        other = next((root for root in self.roots if store_of(root) != store_of(path)), None)
        if other is not None:
            raise UnsupportedError(
                f"Option '{EXTERNAL}' names {redact(other)}, which is in another store than the table {redact(path)}: "
                "that is not supported. Write this table with another Paimon engine."
            )

    def directories(self, bucket_directory: str) -> ExternalDirectories:
        """Return the directories of the files of one writer.

        Raises:
            UnsupportedError: as of `check_store`.
        """
        self.check_store(bucket_directory)
        return ExternalDirectories(self, "/".join(bucket_directory.rsplit("/", self.depth)[1:]))


class ExternalDirectories:
    """Gives each new file of one writer a directory."""

    def __init__(self, locations: ExternalPaths, relative: str) -> None:
        self._locations = locations
        self._relative = relative
        entropy = locations.strategy == _ENTROPY
        self._turns = _turns(len(locations.roots), 0 if entropy else random.randrange(len(locations.roots)))

    def of(self, name: str) -> str:
        """Return the directory of a new file."""
        locations = self._locations
        if locations.weights:
            ends = list(accumulate(locations.weights))
            root = locations.roots[bisect_right(ends, random.random() * ends[-1])]
        else:
            root = locations.roots[next(self._turns)]
        parts = (root, self._relative, *(entropy_directories(name) if locations.strategy == _ENTROPY else ()))
        return "/".join(parts)


def _turns(count: int, start: int) -> Iterator[int]:
    while True:
        start = (start + 1) % count
        yield start


def _weights(text: object, count: int) -> tuple[int, ...]:
    """The weights; empty without the option, as Java takes the paths by turns then."""
    if text is None:
        return ()
    try:
        weights = tuple(int(part) for part in str(text).split(","))
    except ValueError:
        raise OptionError(f"Option '{_WEIGHTS}' = {text!r} is no list of whole numbers.") from None
    if len(weights) != count or min(weights) <= 0:
        raise OptionError(
            f"The number of external paths and weights should be the same, and each weight above 0: '{_WEIGHTS}' has "
            f"{text!r} for {count} paths."
        )
    return weights


def _as_java_writes(root: str) -> str:
    """A local path as ``file:/a``, however many slashes the option has."""
    return f"file:{plain_path(root)}" if root.startswith("file:") else root


def entropy_directories(name: str) -> tuple[str, ...]:
    """Directories by the hash of a file's name (Java: ``EntropyInjectExternalPathProvider``)."""
    bits = f"{_murmur3(name.encode()) | 1 << 31:032b}"[-20:]
    return bits[:4], bits[4:8], bits[8:12], bits[12:]


def _murmur3(data: bytes) -> int:
    """MurmurHash3 of 32 bits with seed 0."""
    value = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = ((value ^ value >> shift) * factor) & _MASK
    return value ^ value >> 16


def _mixed(word: int) -> int:
    return (_rotated((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK


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


def with_input(spec: DataFileSpec, table: FileStoreTable) -> DataFileSpec:
    """How files of rows are written that a user gives, whose BLOB values may be descriptors."""
    if not spec.managed_blobs and not any(part.is_blob for part in spec.companions):
        return spec
    options = table.options
    blob_files = bool(spec.managed_blobs)  # Java: there, what is missing is never written as null
    given = BlobInput(
        DescribedFiles.of(table.paths.root, table.file_io, options),
        bool(options.value("blob-write-null-on-missing-file")) and not blob_files,
        bool(options.value("blob-write-null-on-fetch-failure")) and not blob_files,
    )
    companions = tuple(replace(part, blob_input=given) if part.is_blob else part for part in spec.companions)
    return replace(spec, companions=companions, blob_input=given)
