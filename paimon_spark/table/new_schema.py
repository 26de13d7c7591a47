"""The first schema of a table, made of columns, keys and options, and checked before anything is written.

Columns whose type an option says, since SQL has no word for it: BLOB and VECTOR (Java: ``SparkCatalog``). Or their
comments say of what kind they are, in CREATE TABLE and in ADD COLUMN: ``__BLOB_FIELD; product image``. The column gets
its type, the option that names such columns names it too, and what follows the semicolon is its comment (Java:
``ColumnDirectiveUtils``).

A table that a statement made and could not fill is taken away again (`undo_create`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError
from paimon_spark.options import Scope, canonical_options, check_new_options, reaching_options, with_scope
from paimon_spark.spec import data_types as t
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, MapType, VarBinaryType, VectorType, holds_blobs
from paimon_spark.spec.file_names import BUCKET_PREFIX, OWN_DIRECTORIES
from paimon_spark.spec.java_text import escape_path_name
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.support import check_new, check_stored_branch
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

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
        kind, key = _vector_type(field, mark, semicolon, dimension.strip()), "vector-field"
    elif text.startswith("__BLOB"):
        if mark not in _BLOBS:
            raise SchemaError(
                f"Unsupported BLOB directive in column comment: '{text}'. Supported directives are '__BLOB_FIELD', "
                "'__BLOB_DESCRIPTOR_FIELD' and '__BLOB_VIEW_FIELD'."
            )
        key, comment = _BLOBS[mark], rest
        kind = _blob_type(field, key)
    else:
        return field
    named = options.get(key) or options.pop(_OLD_KEYS.get(key, key), None) or ""
    options[key] = ",".join(dict.fromkeys((*_listed(named), field.name)))
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
        left = [name for name in _listed(options.get(key, "")) if name != field.name]
        options.pop(key, None)
        if left:
            options[key] = ",".join(left)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _vector_type(field: t.DataField, mark: str, semicolon: str, dimension: str) -> t.DataType:
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


def _blob_type(field: t.DataField, key: str) -> t.DataType:
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


_LOG = logging.getLogger(__name__)
KEY_OPTIONS = {"primary-key": "primary key", "partition": "partition columns"}
"""Options that name the keys of a new table."""
_LIST = re.compile(r"""\s*\[\s*(['"]).*\1\s*\]\s*""", re.DOTALL)

_INLINE = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def new_table_schema(
    fields: Sequence[DataField],
    options: Mapping[str, str],
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    comment: str | None = None,
) -> TableSchema:
    """The first schema of a table, checked before anything is written.

    Args:
        fields: the columns.
        options: all options given; those that belong to one read, one write or the store are left out of the schema.
        primary_keys: names of the key columns; or option `primary-key`.
        partition_keys: names of the partition columns; or option `partition`.
        comment: the table's comment.

    Raises:
        SchemaError: keys, columns and options do not fit together.
        OptionError: a key is near one of Paimon's; other unknown keys are kept as they are.
        UnsupportedError: such a table cannot be written yet.
    """
    columns = [field.name for field in fields]
    given = canonical_options(options, columns)
    passing = with_scope(given, Scope.READ, Scope.WRITE) | reaching_options(given)
    kept = {key: value for key, value in given.items() if key not in passing}
    for key in passing:
        _LOG.warning("Option '%s' is one of a read, a write or the store: the table does not keep it.", key)
    check_new_options(kept, columns)
    check_stored_branch(kept)
    for key in KEY_OPTIONS.keys() & kept.keys():
        kept[key] = ",".join(_column_case(name, columns) for name in names_of(kept[key]))
    keys = [_column_case(name, columns) for name in primary_keys]
    partitions = [_column_case(name, columns) for name in partition_keys]
    declared, kept = with_directives(fields, kept)
    schema = create_schema(with_option_types(declared, kept), keys, partitions, kept, comment)
    if not fields:
        check_new(schema)  # Java's object tables have no columns: they are refused by their name
    validate(schema)
    check_new(schema)
    return schema


def names_of(text: str) -> tuple[str, ...]:
    """The names of a comma list.

    Raises:
        OptionError: it is a list of Python's or of JSON as text.
    """
    if _LIST.fullmatch(text):
        names = ",".join(part.strip(" '\"") for part in text.strip()[1:-1].split(","))
        raise OptionError(f"{text} is a list as text, but names stand between commas: write '{names}'")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _column_case(name: str, columns: Sequence[str]) -> str:
    """Return the table's spelling of a column name, if exactly one column differs by case only."""
    found = [column for column in columns if column.lower() == name.lower()]
    return found[0] if len(found) == 1 and name not in columns else name


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
    return frozenset(_listed(text))


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


def undo_create(path: str, options: Mapping[str, str]) -> None:
    """Delete the files of a new table, unless it has a snapshot; other files in its directory stay.

    Args:
        path: the table directory; for a table named by its path it may hold other files.
        options: of the store.
    """
    forget(path)
    try:
        table = load_table(path, options=options)
    except TableNotFoundError:
        return
    if table.snapshots.latest_id() is not None:
        return
    publisher = table.file_io.publisher
    if publisher is not None:
        publisher.forget()
        if publisher.adopts(table.schema):
            return  # the files may have been there before, and are taken in again
    io, root, keys = table.file_io, table.path, table.schema.partition_keys
    first = f"{escape_path_name(keys[0])}=" if keys else BUCKET_PREFIX
    inside = table.paths.layout.data_directory if table.paths.layout else None
    data = f"{root}/{inside}" if inside else root
    for entry in io.list_names(data):
        if entry.is_dir and entry.name.startswith(first):
            io.delete_quietly(f"{data}/{entry.name}", recursive=True)
    while data != root:
        io.delete_empty_directory(data)
        data = data.rpartition("/")[0]
    for name in OWN_DIRECTORIES:
        io.delete_quietly(f"{root}/{name}", recursive=True)
    io.delete_empty_directory(root)
