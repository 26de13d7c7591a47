"""Checks the options of merge engines at creation (Java ``PartialUpdateMergeFunction``, ``FieldAggregatorFactory``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paimon_spark.errors import OptionError
from paimon_spark.spec.cast_rules import NUMBERS
from paimon_spark.spec.data_types import (
    ArrayType,
    BlobType,
    BooleanType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VarBinaryType,
    VarCharType,
    VariantType,
    VectorType,
    contains_type,
)
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
            if contains_type(data_type, BlobType):
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


def _is_rows(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType) and isinstance(data_type.element, RowType)


def _is_keyed_rows(data_type: DataType) -> bool:
    value = data_type.value if isinstance(data_type, MapType) else None
    return isinstance(value, RowType) and len(value.fields) >= 2


def _is_comparable(data_type: DataType) -> bool:
    return not isinstance(data_type, ArrayType | MapType | MultisetType | RowType | VariantType | VectorType | BlobType)


def _is_string(data_type: DataType) -> bool:
    return isinstance(data_type, VarCharType) and data_type.length == VarCharType.MAX


def _is_binary(data_type: DataType) -> bool:
    return isinstance(data_type, VarBinaryType)


def _any(data_type: DataType) -> bool:
    return True


_FUNCTIONS: dict[str, tuple[Callable[[DataType], bool], str]] = {
    **dict.fromkeys(("sum", "product"), (lambda t: isinstance(t, NUMBERS), "a numeric type")),
    **dict.fromkeys(("max", "min"), (_is_comparable, "a comparable type")),
    **dict.fromkeys(("bool_and", "bool_or"), (lambda t: isinstance(t, BooleanType), "BOOLEAN")),
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
    "collect": (lambda t: isinstance(t, ArrayType), "ARRAY"),
    "merge_map": (lambda t: isinstance(t, MapType), "MAP"),
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
