"""Checks a schema before it is written: columns, keys and options must fit together (Java ``SchemaValidation``).

The messages keep Java's words. What is valid here may still need a feature this package does not have: that is
`table.support`'s business.
"""

from __future__ import annotations

from paimon_spark.errors import DataError, OptionError, SchemaError
from paimon_spark.options import OPTIONS, CoreOptions, find_option
from paimon_spark.spec import data_types as t
from paimon_spark.spec.casts import cast_default
from paimon_spark.spec.file_index.writer import validate_index_settings
from paimon_spark.spec.file_names import validate_file_location
from paimon_spark.spec.option_validation import (
    validate_blobs,
    validate_formats,
    validate_merge_engine,
    validate_scan_options,
    validate_sequence_field,
)
from paimon_spark.spec.schema import TableSchema, check_field_ids
from paimon_spark.spec.special_fields import KEY_FIELD_PREFIX, SYSTEM_FIELD_NAMES

_NO_KEY_TYPES = (
    *(t.MapType, t.ArrayType, t.RowType, t.MultisetType, t.VectorType, t.VariantType, t.GeometryType, t.GeographyType),
)
_NO_BUCKET_KEY_TYPES = (t.ArrayType, t.MultisetType, t.MapType, t.RowType)
_PAIMON_07_VERSION = 1


def validate(schema: TableSchema) -> None:
    """Check everything that Java checks when a table is created or altered.

    Raises:
        SchemaError: The columns or keys are not valid.
        OptionError: An option has a wrong value, or contradicts the columns or another option.
    """
    options = schema.core_options
    _validate_option_values(options)
    _validate_columns(schema)
    _validate_keys(schema)
    _validate_bucket(schema)
    validate_scan_options(options)
    _validate_fields_options(schema)
    validate_sequence_field(schema)
    validate_merge_engine(schema)
    _validate_changelog_producer(schema)
    _validate_retention(options)
    validate_blobs(schema)
    validate_formats(schema)
    validate_file_location(options.to_dict())
    _validate_record_level_expire(schema)
    rowkind = options.rowkind_field
    if rowkind is not None and not schema.has_field(rowkind):
        raise OptionError(f"Rowkind field: '{rowkind}' can not be found in table schema.")
    _validate_deletion_vectors(options)
    _validate_snapshot_ordering(schema)
    validate_index_settings(schema.options, schema.fields)
    _validate_row_tracking(schema)
    _validate_clustering(schema)
    _validate_others(schema)


def _validate_option_values(options: CoreOptions) -> None:
    for key in options:
        option = find_option(key)
        if option is not None:
            option.parse(options[key])


def _validate_columns(schema: TableSchema) -> None:
    if not schema.fields:
        raise SchemaError("A table needs at least one column.")
    t.RowType(schema.fields)
    check_field_ids(schema.fields)
    for field in schema.fields:
        if field.name in SYSTEM_FIELD_NAMES:
            raise SchemaError(f"Field name[{field.name}] in schema cannot be exist in {sorted(SYSTEM_FIELD_NAMES)}")
        if field.name.startswith(KEY_FIELD_PREFIX):
            raise SchemaError(f"Field name[{field.name}] in schema cannot start with [{KEY_FIELD_PREFIX}]")
        if field.default_value is not None:
            try:
                cast_default(field.default_value, field.type)
            except (DataError, SchemaError) as error:
                raise SchemaError(
                    f"Unsupported default value `{field.default_value}` for type {field.type} "
                    f"of column '{field.name}': {error}"
                ) from None


def _validate_keys(schema: TableSchema) -> None:
    for names, noun in ((schema.primary_keys, "primary key"), (schema.partition_keys, "partition")):
        for name in names:
            data_type = schema.field(name).type
            if isinstance(data_type, _NO_KEY_TYPES):
                raise SchemaError(f"The type {type(data_type).__name__} in {noun} field {name} is unsupported")
    if schema.core_options.value("primary-key.nullable") and not schema.primary_keys:
        raise OptionError("Option 'primary-key.nullable' can only be enabled for a table with primary keys.")
    _ = schema.trimmed_primary_keys  # raises when nothing is left


def _validate_bucket(schema: TableSchema) -> None:
    options = schema.core_options
    bucket = options.bucket
    if bucket == -1:
        if options.get("bucket-key") is not None:
            raise OptionError(
                "Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting "
                "or specify a bucket number."
            )
        if not schema.primary_keys and options.is_set("full-compaction.delta-commits"):
            raise OptionError(
                "AppendOnlyTable of unaware or dynamic bucket does not support 'full-compaction.delta-commits'"
            )
        return
    if bucket < 1 and not (bucket == -2 and schema.primary_keys):
        raise OptionError(f"The number of buckets needs to be greater than 0. Option 'bucket' is {bucket}.")
    _validate_bucket_keys(schema)
    old_single_bucket = bucket == 1 and schema.version == _PAIMON_07_VERSION
    if not schema.bucket_keys and not old_single_bucket:
        raise OptionError("You should define a 'bucket-key' for bucketed append mode.")
    nested = [name for name in schema.bucket_keys if isinstance(schema.field(name).type, _NO_BUCKET_KEY_TYPES)]
    if nested:
        raise OptionError(f"nested type can not in bucket-key, in your table these key are {nested}")


def _validate_bucket_keys(schema: TableSchema) -> None:
    text = schema.core_options.get("bucket-key")
    keys = text.split(",") if text and text.strip() else []  # Java: blanks are part of the names
    if not set(keys) <= set(schema.field_names):
        raise OptionError(f"Field names {list(schema.field_names)} should contains all bucket keys {keys}.")
    if set(keys) & set(schema.partition_keys):
        raise OptionError(f"Bucket keys {keys} should not in partition keys {list(schema.partition_keys)}.")
    if schema.primary_keys and not set(keys) <= set(schema.primary_keys):
        raise OptionError(f"Primary keys {list(schema.primary_keys)} should contains all bucket keys {keys}.")


def _validate_fields_options(schema: TableSchema) -> None:
    """Options `fields.<column>...` must name columns. A name with dots is looked for as a whole first."""
    for key in schema.options:
        if not key.startswith("fields.") or key == "fields.default-aggregate-function":
            continue
        rest = key.removeprefix("fields.")
        if any(rest.startswith(f"{name}.") for name in schema.field_names if "." in name):
            continue
        segments = key.split(".")
        names = segments[1].split(",")
        for name in names:
            if not schema.has_field(name):
                raise OptionError(f"Field {name} can not be found in table schema. It is named by option '{key}'.")
        if len(segments) > 3 and len(names) == 1 and isinstance(schema.field(names[0]).type, t.RowType):
            raise OptionError(f"Nested-field path is not supported on ROW field '{names[0]}': {key}")


def _validate_changelog_producer(schema: TableSchema) -> None:
    options = schema.core_options
    producer = options.changelog_producer
    if not schema.primary_keys and producer != "none":
        raise OptionError("Can not set changelog-producer on table without primary keys, please define primary keys.")
    check_streamed_overwrites(options, schema)
    if options.is_set("full-compaction.delta-commits") and producer == "lookup":
        raise OptionError(
            "'full-compaction.delta-commits' is incompatible with 'changelog-producer'='lookup'. "
            "Use 'changelog-producer'='full-compaction' to get periodic full compaction with changelog generation, "
            "or remove 'full-compaction.delta-commits'."
        )
    if options.merge_engine == "first-row" and producer not in ("lookup", "none"):
        raise OptionError("Only support 'none' and 'lookup' changelog-producer on FIRST_ROW merge engine")
    if options.value("table-read.sequence-number.enabled") and not schema.primary_keys:
        raise OptionError(
            "Cannot enable 'table-read.sequence-number.enabled' for non-primary-key table. "
            "Sequence number is only available for primary key tables."
        )


def check_streamed_overwrites(options: CoreOptions, schema: TableSchema) -> None:
    """Refuse `streaming-read-overwrite` where it does not fit the table.

    Args:
        options: the table's own, or those of a stream of it.
        schema: of the table.

    Raises:
        OptionError: changes would come twice, or the table has no primary key.
    """
    overwrite = options.value("streaming-read-overwrite")
    if overwrite and options.changelog_producer in ("full-compaction", "lookup"):
        raise OptionError(
            "Cannot set streaming-read-overwrite to true when changelog producer is full-compaction or lookup "
            "because it will read duplicated changes."
        )
    if overwrite and not schema.primary_keys:
        raise OptionError(
            "Doesn't support streaming read the changes from overwrite when the primary keys are not defined. "
            "Please use streaming-read-append-overwrite to enable the streaming read overwrite commit for append table."
        )


def _validate_retention(options: CoreOptions) -> None:
    if options.value("target-file-row-num") <= 0:
        raise OptionError("target-file-row-num should be at least 1")
    snapshot_min, snapshot_max = (options.value(f"snapshot.num-retained.{end}") for end in ("min", "max"))
    changelog_min, changelog_max = (options.value(f"changelog.num-retained.{end}") for end in ("min", "max"))
    for what, low, high in (
        ("snapshot", snapshot_min, snapshot_max),
        (
            "changelog",
            snapshot_min if changelog_min is None else changelog_min,
            snapshot_max if changelog_max is None else changelog_max,
        ),
    ):
        if low <= 0:
            raise OptionError(f"{what}.num-retained.min should be at least 1")
        if low > high:
            raise OptionError(
                f"{what}.num-retained.min should not be larger than {what}.num-retained.max, but they are {low} "
                f"and {high}: give both, for the first is {OPTIONS['snapshot.num-retained.min'].default} by default"
            )


def _validate_record_level_expire(schema: TableSchema) -> None:
    name = schema.core_options.value("record-level.time-field")
    if name is None:
        return
    if not schema.has_field(name):
        raise OptionError(f"Can not find time field {name} for record level expire.")
    data_type = schema.field(name).type
    if not isinstance(data_type, t.IntType | t.BigIntType | t.TimestampType | t.LocalZonedTimestampType):
        raise OptionError(
            "The record level time field type should be one of INT, BIGINT, or TIMESTAMP, "
            f"but field type is {data_type}."
        )


def _validate_deletion_vectors(options: CoreOptions) -> None:
    if not options.deletion_vectors_enabled:
        return
    if options.changelog_producer not in ("none", "input", "lookup"):
        raise OptionError("Deletion vectors mode is only supported for NONE/INPUT/LOOKUP changelog producer now.")
    if options.merge_engine == "first-row" and not options.value("pk-clustering-override"):
        raise OptionError(
            "First row merge engine does not need deletion vectors because there is no deletion of old data "
            "in this merge engine."
        )


def _validate_snapshot_ordering(schema: TableSchema) -> None:
    options, key = schema.core_options, "sequence.snapshot-ordering"
    if not options.value(key):
        return
    if not schema.primary_keys:
        raise OptionError(
            f"{key} = true requires a primary-key table; append-only tables cannot use "
            "snapshot-based sequence ordering."
        )
    if options.sequence_fields:
        raise OptionError(
            f"{key} = true is mutually exclusive with sequence.field; the snapshot id is the sole tiebreaker."
        )
    if not options.write_only:
        raise OptionError(
            f"{key} = true requires write-only = true. Snapshot ordering relies on snapshot id to determine record "
            "order, but inline compaction happens before snapshot creation. Use dedicated compaction job instead."
        )


def _validate_row_tracking(schema: TableSchema) -> None:
    options = schema.core_options
    if options.row_tracking_enabled:
        if schema.primary_keys:
            raise OptionError("Cannot define primary-key for row tracking table.")
        if options.bucket != -1:
            raise OptionError("Cannot define bucket for row tracking table, it only support bucket = -1")
    if options.data_evolution_enabled:
        if not options.row_tracking_enabled:
            raise OptionError("Data evolution config must enabled with row-tracking.enabled")
        if options.value("clustering.incremental"):
            raise OptionError("Data evolution config must disabled with clustering.incremental")
    _validate_vector_files(schema)


def _validate_vector_files(schema: TableSchema) -> None:
    options = schema.core_options
    if options.value("vector.file.format") is None:
        return
    vectors = [field.name for field in schema.fields if isinstance(field.type, t.VectorType)]
    if len(vectors) == len(schema.fields):
        raise SchemaError("Table with VECTOR type column must have other normal columns.")
    if set(vectors) & set(schema.partition_keys):
        raise SchemaError("The vector-store columns can not be part of partition keys.")
    if not options.data_evolution_enabled:
        raise OptionError("Data evolution config must enabled for table with vector-store file format.")


def _validate_clustering(schema: TableSchema) -> None:
    options = schema.core_options
    if not options.value("clustering.incremental"):
        return
    if schema.primary_keys:
        raise OptionError("Cannot define primary-key for incremental clustering table.")
    if options.bucket != -1:
        if options.value("bucket-append-ordered"):
            raise OptionError("bucket-append-ordered must be false for incremental clustering table.")
        if options.deletion_vectors_enabled:
            raise OptionError("Cannot enable deletion-vectors for incremental clustering table which bucket is not -1.")


def _validate_others(schema: TableSchema) -> None:
    options = schema.core_options
    for name in options.names("vector-field"):
        if not schema.has_field(name):
            raise OptionError("Some of the columns specified as vector-field are unknown.")
        if not isinstance(schema.field(name).type, t.VectorType):
            raise OptionError(
                f"Field name[{name}] is configured as vector-field so the type must be vector, "
                f"but it is {schema.field(name).type}"
            )
    if options.value("manifest-sort.enabled"):
        if not schema.partition_keys and not options.data_evolution_enabled:
            raise OptionError("Cannot enable 'manifest-sort.enabled' for non-partition table.")
        by = options.value("manifest-sort.partition-field")
        if by and by not in schema.partition_keys:
            raise OptionError(
                f"'manifest-sort.partition-field' = '{by}' is not a partition field. "
                f"Available partition fields: {list(schema.partition_keys)}."
            )
    if options.is_set("scan.fallback-branch") and options.is_set("scan.primary-branch"):
        raise OptionError("Cannot set both 'scan.fallback-branch' and 'scan.primary-branch' at the same time.")
