"""Columns whose type an option says, since SQL has no word for it: BLOB and VECTOR (Java: ``SparkCatalog``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_spark.errors import OptionError, SchemaError
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, MapType, VarBinaryType, VectorType, holds_blobs

_INLINE = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def with_option_types(fields: Sequence[DataField], options: Mapping[str, str]) -> tuple[DataField, ...]:
    """Return the columns of a new table with the types that its options give them.

    Args:
        fields: as SQL or a DataFrame gives them.
        options: ``blob-field`` names BINARY columns that are BLOB, also in arrays and maps; ``blob-descriptor-field``
            and ``blob-view-field`` such columns themselves; ``vector-field`` ARRAY columns that are VECTOR, of the
            length ``field.<name>.vector-dim``.

    Raises:
        SchemaError: such a column has another type.
        OptionError: the length of a VECTOR is missing or no number.
    """
    blobs, vectors = (_names(options.get(key, "")) for key in ("blob-field", "vector-field"))
    inline = frozenset[str]().union(*(_names(options.get(key, "")) for key in _INLINE))
    return tuple(
        _blob(field, alone=field.name in inline)
        if field.name in blobs | inline
        else _vector(field, options)
        if field.name in vectors
        else field
        for field in fields
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _blob(field: DataField, *, alone: bool) -> DataField:
    kind = field.type
    if alone and isinstance(kind, ArrayType | MapType):
        what = "ARRAY<BLOB>" if isinstance(kind, ArrayType) else "MAP<X, BLOB>"
        raise SchemaError(f"Column '{field.name}': {what} is only supported by 'blob-field'.")
    if holds_blobs(kind):
        return field
    if isinstance(kind, ArrayType) and isinstance(kind.element, VarBinaryType):
        return replace(field, type=replace(kind, element=BlobType(nullable=kind.element.nullable)))
    if isinstance(kind, MapType) and isinstance(kind.value, VarBinaryType):
        return replace(field, type=replace(kind, value=BlobType(nullable=kind.value.nullable)))
    if not isinstance(kind, VarBinaryType):
        raise SchemaError(f"The type of blob field '{field.name}' must be binary, but is {kind.sql()}.")
    return replace(field, type=BlobType(nullable=kind.nullable))


def _vector(field: DataField, options: Mapping[str, str]) -> DataField:
    if isinstance(field.type, VectorType):
        return field
    if not isinstance(field.type, ArrayType):
        raise SchemaError(f"The type of vector field '{field.name}' must be array, but is {field.type.sql().lower()}.")
    key = f"field.{field.name}.vector-dim"
    given = options.get(key)
    if given is None:
        raise OptionError(f"When setting 'vector-field', you must also set '{key}'.")
    if not given.strip().isdigit() or int(given) < 1:
        shown = f": {given}" if given.strip() else " empty value"
        raise OptionError(f"Expected an integer for '{key}', but got{shown}.")
    return replace(field, type=VectorType(field.type.element, int(given), nullable=field.type.nullable))
