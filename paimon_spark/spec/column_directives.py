"""Comments of new columns that say of what kind they are: ``__BLOB_FIELD; product image``.

Equals Java's ``ColumnDirectiveUtils``, for CREATE TABLE and ADD COLUMN: the column gets its type, the option that names
such columns names it too, and what follows the semicolon is its comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_spark.errors import SchemaError
from paimon_spark.spec import data_types as t

_BLOBS = {
    "__BLOB_VIEW_FIELD": "blob-view-field",
    "__BLOB_DESCRIPTOR_FIELD": "blob-descriptor-field",
    "__BLOB_FIELD": "blob-field",
}
_VECTOR = "__VECTOR_FIELD"
_OLD_KEYS = {"blob-descriptor-field": "blob.stored-descriptor-fields"}
_BYTES = (t.BinaryType, t.VarBinaryType, t.BlobType)


def with_directives(
    fields: Sequence[t.DataField], options: dict[str, str]
) -> tuple[tuple[t.DataField, ...], dict[str, str]]:
    """Return the columns and options of a new table, with what comments say.

    Raises:
        SchemaError: a comment begins as a directive and is none, or the column has a type that does not fit.
    """
    changed = dict(options)
    return tuple(with_directive(field, changed) for field in fields), changed


def with_directive(field: t.DataField, options: dict[str, str]) -> t.DataField:
    """Return a new column as its comment says; options are changed.

    Raises:
        SchemaError: as of `with_directives`.
    """
    text = (field.description or "").strip()
    mark, semicolon, rest = text.partition(";")
    if text.startswith("__VECTOR"):
        dimension, _, comment = rest.partition(";")
        kind, key = _vector(field, mark, semicolon, dimension.strip()), "vector-field"
    elif text.startswith("__BLOB"):
        if mark not in _BLOBS:
            raise SchemaError(
                f"Unsupported BLOB directive in column comment: '{text}'. Supported directives are '__BLOB_FIELD', "
                "'__BLOB_DESCRIPTOR_FIELD' and '__BLOB_VIEW_FIELD'."
            )
        key, comment = _BLOBS[mark], rest
        kind = _blob(field, key)
    else:
        return field
    named = options.get(key) or options.pop(_OLD_KEYS.get(key, key), None) or ""
    options[key] = ",".join(dict.fromkeys((*_names(named), field.name)))
    return replace(field, type=kind, description=comment.strip() or None)


def is_directive(comment: str | None) -> bool:
    """Whether a comment says of what kind a column is, or tries to."""
    return (comment or "").strip().startswith(("__BLOB", "__VECTOR"))


def forget_options(field: t.DataField, options: dict[str, str]) -> None:
    """Take a dropped BLOB or VECTOR column out of the options that name such columns."""
    keys: tuple[str, ...] = ()
    if t.holds_blobs(field.type):
        keys = (*_BLOBS.values(), *_OLD_KEYS.values())
    elif isinstance(field.type, t.VectorType):
        keys = ("vector-field",)
        options.pop(f"field.{field.name}.vector-dim", None)
    for key in keys:
        left = [name for name in _names(options.get(key, "")) if name != field.name]
        options.pop(key, None)
        if left:
            options[key] = ",".join(left)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _vector(field: t.DataField, mark: str, semicolon: str, dimension: str) -> t.DataType:
    if mark != _VECTOR:
        raise SchemaError(
            f"Unsupported VECTOR directive in column comment: '{field.description}'. Supported directive is "
            f"'{_VECTOR}'."
        )
    if not semicolon:
        raise SchemaError(
            f"VECTOR directive '{mark}' requires a dimension, e.g. '{_VECTOR};128' or '{_VECTOR};128; my comment'."
        )
    if not dimension.isdigit() or int(dimension) < 1:
        raise SchemaError(f"Expected an integer dimension after '{_VECTOR};', but got: '{dimension}'.")
    if not isinstance(field.type, t.ArrayType):
        raise SchemaError(
            f"Column {field.name} declared with a VECTOR directive must be of ARRAY type, but was {field.type.sql()}."
        )
    return t.VectorType(field.type.element, int(dimension), nullable=field.type.nullable)


def _blob(field: t.DataField, key: str) -> t.DataType:
    kind = field.type
    if isinstance(kind, t.ArrayType | t.MapType) and key != "blob-field":
        what = "ARRAY<BLOB>" if isinstance(kind, t.ArrayType) else "MAP<X, BLOB>"
        raise SchemaError(
            f"Column {field.name} declared with '{key}' must be of BYTES, BINARY or BLOB type, but was {kind.sql()}. "
            f"{what} is only supported by 'blob-field'."
        )
    if isinstance(kind, t.ArrayType) and isinstance(kind.element, _BYTES):
        return replace(kind, element=t.BlobType(nullable=kind.element.nullable))
    if isinstance(kind, t.MapType) and isinstance(kind.value, _BYTES):
        return replace(kind, value=t.BlobType(nullable=kind.value.nullable))
    if not isinstance(kind, _BYTES):
        raise SchemaError(
            f"Column {field.name} declared with a BLOB directive must be of BYTES, BINARY, BLOB, ARRAY<BYTES>, "
            "ARRAY<BINARY> or ARRAY<BLOB> type, or a supported MAP<X, BYTES/BINARY/BLOB> type, but was "
            f"{kind.sql()}."
        )
    return t.BlobType(nullable=kind.nullable)
