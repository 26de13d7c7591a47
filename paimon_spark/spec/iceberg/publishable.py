"""Whether the rows of a table can be shown to readers of Iceberg; what they would read wrongly is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.iceberg.manifests import V3
from paimon_spark.spec.iceberg.types import iceberg_schema

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.schema import TableSchema

STORAGE: Final = "metadata.iceberg.storage"
LOCATION: Final = "metadata.iceberg.storage-location"
VERSION: Final = "metadata.iceberg.format-version"
COMPRESSION: Final = "metadata.iceberg.manifest-compression"
CODECS: Final = {
    **{"snappy": "snappy", "zstd": "zstandard", "zstandard": "zstandard", "gzip": "deflate", "deflate": "deflate"},
    **{"none": "null", "null": "null", "uncompressed": "null"},
}
"""Avro's names of the values of that option."""
_VERSIONS: Final = (2, V3)
_FINEST_MILLIS: Final = 3


def is_shared(options: CoreOptions) -> bool:
    """Whether Iceberg metadata is written alongside Paimon's."""
    return bool(options.value(STORAGE) != "disabled")


def publishes_vectors(options: CoreOptions) -> bool:
    """Whether readers of Iceberg see deletion vectors (Java: ``IcebergCommitCallback.needAddDvToIceberg``)."""
    wide = options.deletion_vectors_enabled and bool(options.value("deletion-vectors.bitmap64"))
    return wide and bool(options.value(VERSION) == V3)


def check_publishable(schema: TableSchema) -> None:
    """Refuse a table, with its dynamic options, whose rows readers of Iceberg would read wrongly.

    Raises:
        UnsupportedError: names the option or the column, and what to do.
        OptionError: there is no such version of Iceberg's format.
    """
    options = schema.core_options
    if not is_shared(options):
        return
    version = options.value(VERSION)
    if version not in _VERSIONS:
        raise OptionError(f"Unsupported iceberg format version! Option '{VERSION}' = '{version}' must be 2 or 3.")
    codec = str(options.value(COMPRESSION)).lower()
    if codec not in CODECS:
        raise OptionError(f"Option '{COMPRESSION}' = '{codec}' must be one of: {', '.join(CODECS)}.")
    off = f"Set '{STORAGE}' to 'disabled'"
    if schema.kind.has_data_evolution:
        raise UnsupportedError(
            f"Option '{STORAGE}' is not supported with 'data-evolution.enabled': one file does not hold all columns of "
            f"its rows, which readers of Iceberg cannot know. {off}."
        )
    # Java: publishes such files without their vectors, so that readers see rows that were deleted
    if options.deletion_vectors_enabled and not schema.kind.is_keyed and not publishes_vectors(options):
        raise UnsupportedError(
            f"Readers of Iceberg would see deleted rows of a table with 'deletion-vectors.enabled'. Set '{VERSION}' to "
            f"'3' and 'deletion-vectors.bitmap64' to 'true'; or {off.lower()}."
        )
    iceberg_schema(schema.id, schema.fields)
    for field in schema.partition_fields:
        coarse = isinstance(field.type, t.TimestampType | t.LocalZonedTimestampType) and (
            field.type.precision <= _FINEST_MILLIS
        )
        if coarse or isinstance(field.type, t.TimeType):
            raise UnsupportedError(
                f"Partition column '{field.name}' of type {field.type.sql()} is not supported with '{STORAGE}': Java "
                f"writes its values as milliseconds, which readers of Iceberg take for microseconds. {off}."
            )
