"""Checks of BLOB columns when a table is created or altered (Java ``SchemaValidation``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, SchemaError
from paimon_spark.spec.data_types import BlobType, contains_type, holds_blobs

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.schema import TableSchema

_WHAT = "BLOB, ARRAY<BLOB> or MAP<X, BLOB>"


def validate_blobs(schema: TableSchema) -> None:
    """Check BLOB columns and the options about them.

    Raises:
        OptionError: an option does not fit the columns, or another option.
        SchemaError: a column cannot be BLOB.
    """
    _validate_named(schema)
    _validate_managed(schema)
    blobs = [field.name for field in schema.fields if holds_blobs(field.type)]
    if not blobs:
        return
    if not schema.primary_keys and not schema.core_options.data_evolution_enabled:
        raise OptionError(f"Data evolution config must enabled for table with {_WHAT} type column.")
    if len(blobs) == len(schema.fields):
        raise SchemaError(f"Table with {_WHAT} type column must have other normal columns.")
    if set(blobs) & set(schema.partition_keys):
        raise SchemaError(f"The {_WHAT} type column can not be part of partition keys.")


def _validate_named(schema: TableSchema) -> None:
    options = schema.core_options
    for field in schema.fields:
        if contains_type(field.type, BlobType) and not holds_blobs(field.type):
            raise SchemaError(
                f"Field '{field.name}' has unsupported nested BLOB type {field.type}. BLOB is only supported as a "
                "top-level BLOB, ARRAY<BLOB>, or MAP<X, BLOB> field."
            )
    for name in options.names("blob-field"):
        if not schema.has_field(name) or not holds_blobs(schema.field(name).type):
            raise OptionError(f"Field '{name}' in 'blob-field' must be a {_WHAT} field in table schema.")
    for key in ("blob-descriptor-field", "blob-view-field"):
        for name in options.names(key):
            if not schema.has_field(name) or not isinstance(schema.field(name).type, BlobType):
                raise OptionError(
                    f"Field '{name}' in '{key}' must be a BLOB field in table schema. ARRAY<BLOB> and MAP<X, BLOB> are "
                    "only supported by 'blob-field'."
                )
    for name in options.names("blob-view-field"):
        if name in options.names("blob-descriptor-field"):
            raise OptionError(f"Field '{name}' in 'blob-view-field' can not also be in 'blob-descriptor-field'.")


def _validate_managed(schema: TableSchema) -> None:
    """Check BLOB columns of a table with primary keys whose values lie in managed blob files."""
    managed, options = schema.managed_blob_fields, schema.core_options
    if not managed:
        return
    for names, noun in (
        (schema.primary_keys, "primary keys"),
        (schema.bucket_keys, "bucket keys"),
        (options.sequence_fields, "sequence fields"),
    ):
        taken = sorted(managed.intersection(names))
        if taken:
            raise OptionError(f"Managed BLOB fields cannot be {noun}: {taken}.")
    if options.merge_engine not in ("deduplicate", "partial-update", "first-row"):
        raise OptionError(
            "Primary-key managed BLOB tables only support the deduplicate, partial-update or first-row merge engine."
        )
    if options.changelog_producer != "none":
        raise OptionError("Primary-key managed BLOB tables only support changelog-producer 'none'.")
    if options.value("data-file.external-paths") is not None:
        raise OptionError("Primary-key managed BLOB tables do not support 'data-file.external-paths'.")
    if options.value("pk-clustering-override"):
        raise OptionError("Primary-key managed BLOB tables do not support 'pk-clustering-override'.")
    if options.merge_engine == "partial-update" and not options.ignore_delete:
        _validate_functions(schema, options)


def _validate_functions(schema: TableSchema, options: CoreOptions) -> None:
    groups = [text for key, text in schema.options.items() if key.endswith(".sequence-group")]
    protected = {name for text in groups for name in text.split(",")}
    for name in sorted(protected & schema.managed_blob_fields):
        function = options.field_option(name, "aggregate-function")
        if function is None:
            function = options.value("fields.default-aggregate-function")
        ignores = (options.field_option(name, "ignore-retract") or "false").strip().lower() == "true"
        if function not in (None, "last_value") and not ignores:
            raise OptionError(
                f"Managed BLOB field '{name}' cannot use aggregate function '{function}' because managed BLOB payloads "
                f"are not retained in retract messages. Set 'fields.{name}.ignore-retract' to true to ignore retract "
                "messages."
            )
