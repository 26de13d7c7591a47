"""Checks of the options of a new or altered table: merge engines, scans, file formats, BLOB columns.

Java: ``SchemaValidation``, ``PartialUpdateMergeFunction``, ``FieldAggregatorFactory`` and
``FileFormat.validateDataFields``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, SchemaError
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_merge import NUMBERS

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.schema import TableSchema

_PK_ERROR = (
    "The sequence-group '{}' contains primary key field '{}', which is not allowed. "
    "Primary key columns cannot be put in sequence-group."
)
_CONFLICT = "{} and {} have conflicting behavior so should not be enabled at the same time."
_LAST_NON_NULL = "last_non_null_value"


def validate_sequence_field(schema: TableSchema) -> None:
    """Check `sequence.field`.

    Raises:
        OptionError: It does not fit the columns or the merge engine.
    """
    options = schema.core_options
    names = options.sequence_fields
    for name in names:
        if not schema.has_field(name):
            raise OptionError(f"Sequence field: '{name}' can not be found in table schema.")
        if options.field_option(name, "aggregate-function") is not None:
            raise OptionError(f"Should not define aggregation on sequence field: '{name}'.")
        if names.count(name) > 1:
            raise OptionError(f"Sequence field '{name}' is defined repeatedly.")
    if names and options.merge_engine == "first-row":
        raise OptionError("Do not support use sequence field on FIRST_ROW merge engine.")
    if names and schema.cross_partition_update:
        raise OptionError(
            "You can not use sequence.field in cross partition update case (Primary key constraint "
            f"'{list(schema.primary_keys)}' not include all partition fields '{list(schema.partition_keys)}')."
        )


def validate_merge_engine(schema: TableSchema) -> None:
    """Check sequence groups, aggregate functions and the options that contradict them.

    Raises:
        OptionError: They do not fit each other or the columns.
    """
    if not schema.kind.is_keyed:
        return
    engine = schema.core_options.merge_engine
    if engine == "partial-update":
        _validate_partial_update(schema)
    elif engine == "aggregation":
        keys = {*schema.primary_keys, *schema.core_options.sequence_fields}
        for field in schema.fields:
            if field.name not in keys:
                _validate_function(schema, field.name, _function(schema, field.name) or _LAST_NON_NULL)


def _sequence_groups(schema: TableSchema) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each sequence group's option key, ordering columns and protected columns."""
    for key, text in schema.options.items():
        if key.startswith("fields.") and key.endswith(".sequence-group"):
            ordering = key.removeprefix("fields.").removesuffix(".sequence-group").split(",")
            yield key, ordering, text.split(",")  # Java: blanks are part of the names


def _validate_partial_update(schema: TableSchema) -> None:
    protected: set[str] = set()
    sequence: set[str] = set()
    for key, ordering, members in _sequence_groups(schema):
        for name in (*ordering, *members):
            if not schema.has_field(name):
                raise OptionError(f"Field {name} can not be found in table schema. It is named by option '{key}'.")
            if name in schema.primary_keys:
                raise OptionError(_PK_ERROR.format(key, name))
        for name in ordering:
            data_type = schema.field(name).type
            if t.contains_type(data_type, t.BlobType):
                raise OptionError(
                    f"Field '{name}' with type {data_type} cannot be used as a sequence-group ordering field "
                    f"in option '{key}'."
                )
        for name in members:
            if name in protected:
                raise OptionError(f"Field {name} is defined repeatedly by multiple groups: {key}")
            protected.add(name)
        sequence.update(ordering)
    _validate_removal(schema, sequence)
    for field in schema.fields:
        if field.name in schema.primary_keys or field.name in sequence:
            continue
        function = _function(schema, field.name)
        if function is None:
            continue
        # Java: without a sequence group only the function that partial-update applies anyway is let through
        if function != _LAST_NON_NULL and field.name not in protected:
            raise OptionError(
                f"Must use sequence group for aggregation functions but not found for field {field.name}."
            )
        _validate_function(schema, field.name, function)


def _validate_removal(schema: TableSchema, sequence: set[str]) -> None:
    options = schema.core_options
    on_delete, on_group = "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"
    removes, group_text = bool(options.value(on_delete)), options.value(on_group)
    if removes and options.ignore_delete:
        raise OptionError(_CONFLICT.format("ignore-delete", on_delete))
    if group_text is not None and options.ignore_delete:
        raise OptionError(_CONFLICT.format("ignore-delete", on_group))
    if removes and sequence:
        raise OptionError(_CONFLICT.format("sequence-group", on_delete))
    if group_text is not None and not set(group_text.split(",")) <= sequence:
        raise OptionError(f"field '{group_text}' defined in '{on_group}' option must be part of sequence groups")


def _function(schema: TableSchema, name: str) -> str | None:
    options = schema.core_options
    function = options.field_option(name, "aggregate-function")
    return function if function is not None else options.value("fields.default-aggregate-function")


def _is_rows(data_type: t.DataType) -> bool:
    return isinstance(data_type, t.ArrayType) and isinstance(data_type.element, t.RowType)


def _is_keyed_rows(data_type: t.DataType) -> bool:
    value = data_type.value if isinstance(data_type, t.MapType) else None
    return isinstance(value, t.RowType) and len(value.fields) >= 2


def _is_comparable(data_type: t.DataType) -> bool:
    return not isinstance(
        data_type, t.ArrayType | t.MapType | t.MultisetType | t.RowType | t.VariantType | t.VectorType | t.BlobType
    )


def _is_string(data_type: t.DataType) -> bool:
    return isinstance(data_type, t.VarCharType) and data_type.length == t.VarCharType.MAX


def _is_binary(data_type: t.DataType) -> bool:
    return isinstance(data_type, t.VarBinaryType)


def _any(data_type: t.DataType) -> bool:
    return True


_FUNCTIONS: dict[str, tuple[Callable[[t.DataType], bool], str]] = {
    **dict.fromkeys(("sum", "product"), (lambda kind: isinstance(kind, NUMBERS), "a numeric type")),
    **dict.fromkeys(("max", "min"), (_is_comparable, "a comparable type")),
    **dict.fromkeys(("bool_and", "bool_or"), (lambda kind: isinstance(kind, t.BooleanType), "BOOLEAN")),
    **dict.fromkeys(("rbm32", "rbm64", "hll_sketch", "theta_sketch"), (_is_binary, "VARBINARY")),
    **dict.fromkeys(("nested_update", "nested_partial_update"), (_is_rows, "ARRAY<ROW>")),
    **dict.fromkeys(
        (
            *("last_value", "last_non_null_value", "first_value", "first_non_null_value"),
            *("first_not_null_value", "primary-key"),
        ),
        (_any, "any type"),
    ),
    "listagg": (_is_string, "STRING (unbounded VARCHAR)"),
    "collect": (lambda kind: isinstance(kind, t.ArrayType), "ARRAY"),
    "merge_map": (lambda kind: isinstance(kind, t.MapType), "MAP"),
    "merge_map_with_keytime": (_is_keyed_rows, "MAP<K, ROW> with at least 2 fields in the ROW"),
}


def _validate_function(schema: TableSchema, name: str, function: str) -> None:
    options = schema.core_options
    if function not in _FUNCTIONS:
        raise OptionError(
            f"Use unsupported aggregation: {function} or spell aggregate function incorrectly! "
            f"(column '{name}'; known are {', '.join(sorted(_FUNCTIONS))})"
        )
    ignores = (options.field_option(name, "ignore-retract") or "false").strip().lower() == "true"
    if ignores and options.value("aggregation.remove-record-on-delete"):
        raise OptionError(_CONFLICT.format("aggregation.remove-record-on-delete", f"fields.{name}.ignore-retract"))
    accepts, expected = _FUNCTIONS[function]
    data_type = schema.field(name).type
    if not accepts(data_type):
        raise OptionError(
            f"Data type for {function} column must be {expected} but was '{data_type}' (column '{name}')."
        )
    has_key = bool((options.field_option(name, "nested-key") or "").strip())
    if function == "nested_partial_update" and not has_key:
        raise OptionError(f"Aggregate function {function} needs 'fields.{name}.nested-key' to be configured.")
    for dependent in ("nested-key-null-strategy", "nested-sequence-field"):
        if function == "nested_update" and options.field_option(name, dependent) is not None and not has_key:
            raise OptionError(
                f"Option 'fields.{name}.{dependent}' requires 'fields.{name}.nested-key' to be configured."
            )


_MILLIS, _TEXT = "scan.timestamp-millis", "scan.timestamp"
_SNAPSHOT, _TAG, _WATERMARK, _VERSION = "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"
_FILE_TIME, _CREATION = "scan.file-creation-time-millis", "scan.creation-time-millis"
_BETWEEN, _BETWEEN_TIME = "incremental-between", "incremental-between-timestamp"
_TO_TAG = "incremental-to-auto-tag"
_INCREMENTAL = (_BETWEEN_TIME, _BETWEEN, _TO_TAG)

# mode -> (exactly one of these, none of these, which the message calls set)
_RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "from-timestamp": ((_MILLIS, _TEXT), (_SNAPSHOT, _FILE_TIME, _TAG, *_INCREMENTAL), (_MILLIS, _TEXT)),
    "from-snapshot": (
        (_SNAPSHOT, _TAG, _WATERMARK, _VERSION),
        (_MILLIS, _TEXT, _FILE_TIME, *_INCREMENTAL),
        (_SNAPSHOT, _TAG),
    ),
    "incremental": (
        (_BETWEEN, _BETWEEN_TIME, _TO_TAG),
        (_SNAPSHOT, _MILLIS, _FILE_TIME, _TEXT, _TAG),
        (_BETWEEN, _BETWEEN_TIME, _TO_TAG),
    ),
    "from-snapshot-full": ((_SNAPSHOT,), (_MILLIS, _TEXT, _FILE_TIME, _TAG, *_INCREMENTAL), (_SNAPSHOT,)),
    "from-file-creation-time": ((_FILE_TIME,), (_SNAPSHOT, _MILLIS, _TAG, *_INCREMENTAL), (_FILE_TIME,)),
}
_NOT_OTHERWISE = (_MILLIS, _FILE_TIME, _TEXT, _SNAPSHOT, _TAG, *_INCREMENTAL)
_NOT_LATEST_DELTA = (
    *_NOT_OTHERWISE,
    *(_CREATION, _WATERMARK, _VERSION, "incremental-between-scan-mode", "incremental-between-tag-to-snapshot"),
)


def startup_mode(options: CoreOptions) -> str:
    """The scan mode that the options ask for: `scan.mode`, or what the other options imply where that is `default`."""
    mode = str(options.value("scan.mode"))
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    implied: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("from-timestamp", (_MILLIS, _TEXT)),
        ("from-snapshot", (_SNAPSHOT, _TAG, _WATERMARK, _VERSION)),
        ("from-file-creation-time", (_FILE_TIME,)),
        ("from-creation-timestamp", (_CREATION,)),
        ("incremental", (_BETWEEN, _BETWEEN_TIME, _TO_TAG)),
    )
    for name, keys in implied:
        if _given(options, keys):
            return name
    return "latest-full"


def validate_scan_options(options: CoreOptions) -> None:
    """Check that the options name one point in time at most, and one that goes with `scan.mode`.

    Raises:
        OptionError: They contradict each other.
    """
    mode = startup_mode(options)
    rule = _RULES.get(mode)
    if rule is None:
        banned = _NOT_LATEST_DELTA if mode == "latest-delta" else _NOT_OTHERWISE
        for key in _given(options, banned):
            raise OptionError(f"{key} must be null when you use {mode} for scan.mode")
        return
    one_of, none_of, legal = rule
    given = _given(options, one_of)
    if len(one_of) == 1 and not given:
        raise OptionError(f"{one_of[0]} can not be null when you use {mode} for scan.mode")
    if len(given) != 1:
        raise OptionError(
            f"must set only one key in [{','.join(one_of)}] when you use {mode} for scan.mode, but {given} are set"
        )
    for key in _given(options, none_of):
        raise OptionError(f"[{key}] must be null when you set [{','.join(legal)}]")


def _given(options: CoreOptions, keys: Sequence[str]) -> list[str]:
    return [key for key in keys if options.is_set(key)]


def validate_formats(schema: TableSchema) -> None:
    """Check every column against `file.format` and `file.format.per.level`.

    Raises:
        SchemaError: A format cannot hold a column's type.
        OptionError: A per-level entry is wrong.
    """
    options = schema.core_options
    for field in schema.fields:
        for data_type in _all_types(field.type):
            problem = _problem(options.file_format, data_type)
            if problem is not None:
                raise SchemaError(f"{problem} Column '{field.name}' needs another 'file.format' or another type.")
    for level, name in options.value("file.format.per.level").items():
        if not level.isdigit():
            raise OptionError(f"'file.format.per.level' has '{level}', which is not a level.")
        for field in schema.fields:
            precision = _timestamp_precision(field.type)
            if name.lower() == "avro" and precision > 6:
                raise OptionError(
                    f"'file.format.per.level' entry '{level}:avro' is incompatible with column '{field.name}' of type "
                    f"{field.type}: Avro supports timestamp precision up to 6, got {precision}. Either lower the "
                    f"column precision, drop the per-level mapping for level {level}, or use a different format "
                    "(parquet or orc) for that level."
                )


def _all_types(data_type: t.DataType) -> Iterator[t.DataType]:
    yield data_type
    for inner in t.nested_types(data_type):
        yield from _all_types(inner)


def _timestamp_precision(data_type: t.DataType) -> int:
    return data_type.precision if isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType) else -1


def _problem(file_format: str, data_type: t.DataType) -> str | None:
    if isinstance(data_type, t.GeometryType | t.GeographyType) and file_format != "parquet":
        return f"Geometry and geography columns require 'file.format'='parquet', but was '{file_format}'."
    if file_format == "avro":
        if _timestamp_precision(data_type) > 6:
            return (
                f"Avro does not support TIMESTAMP type with precision: {_timestamp_precision(data_type)}, "
                "it only supports precision less than 6."
            )
        if isinstance(data_type, t.TimeType) and data_type.precision > 3:
            return (
                f"Avro does not support TIME type with precision: {data_type.precision}, "
                "it only supports precision less than 3."
            )
    # ORC: BINARY(n) and VARBINARY(n) are written as BYTES, MULTISET as MAP
    if file_format == "orc" and isinstance(data_type, t.VariantType | t.VectorType):
        return f"Unsupported type: {data_type}."
    return None


_WHAT = "BLOB, ARRAY<BLOB> or MAP<X, BLOB>"


def validate_blobs(schema: TableSchema) -> None:
    """Check BLOB columns and the options about them.

    Raises:
        OptionError: an option does not fit the columns, or another option.
        SchemaError: a column cannot be BLOB.
    """
    _validate_named(schema)
    _validate_managed(schema)
    blobs = [field.name for field in schema.fields if t.holds_blobs(field.type)]
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
        if t.contains_type(field.type, t.BlobType) and not t.holds_blobs(field.type):
            raise SchemaError(
                f"Field '{field.name}' has unsupported nested BLOB type {field.type}. BLOB is only supported as a "
                "top-level BLOB, ARRAY<BLOB>, or MAP<X, BLOB> field."
            )
    for name in options.names("blob-field"):
        if not schema.has_field(name) or not t.holds_blobs(schema.field(name).type):
            raise OptionError(f"Field '{name}' in 'blob-field' must be a {_WHAT} field in table schema.")
    for key in ("blob-descriptor-field", "blob-view-field"):
        for name in options.names(key):
            if not schema.has_field(name) or not isinstance(schema.field(name).type, t.BlobType):
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
