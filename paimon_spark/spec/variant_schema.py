"""Schemas by which VARIANT columns are shredded: from the option, and as columns of a file.

Equals Java's ``PaimonShreddingUtils.variantShreddingSchema`` and ``VariantShreddingWritePlan``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from paimon_spark.errors import OptionError, SchemaError
from paimon_spark.spec import data_types as t

OPTION: Final = "variant.shreddingSchema"

VALUE, TYPED, METADATA = "value", "typed_value", "metadata"

_SCALARS: Final = (
    *(t.CharType, t.VarCharType, t.BooleanType, t.BinaryType, t.VarBinaryType, t.DecimalType, t.TinyIntType),
    *(t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DateType),
    *(t.LocalZonedTimestampType, t.TimestampType),
)


def configured_schemas(text: str) -> Mapping[str, t.DataType]:
    """The types by which columns are shredded, by their names.

    Args:
        text: value of `variant.shreddingSchema`: a ROW type as schema files have it, with a field for each column.

    Raises:
        OptionError: it is no such type, or has types that VARIANTs do not have.
    """
    try:
        kind = t.parse_type(json.loads(text))
    except (ValueError, RecursionError, SchemaError) as error:
        raise OptionError(f"{_NEEDED} It cannot be read: {error}") from None
    if not isinstance(kind, t.RowType):
        raise OptionError(f"{_NEEDED} It is {kind.sql()}.")
    for field in kind.fields:
        _check(field.type, field.name)
    return {field.name: field.type for field in kind.fields}


_NEEDED: Final = (
    f"The option '{OPTION}' must be a ROW type in JSON whose fields are VARIANT columns and the types of their values, "
    'such as {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": '
    '[{"id": 1, "name": "age", "type": "INT"}]}}]}.'
)


def _check(kind: t.DataType, path: str) -> None:
    match kind:
        case t.RowType():
            if not kind.fields:
                raise OptionError(f"{_NEEDED} The ROW at '{path}' has no fields.")
            names = [field.name for field in kind.fields]
            if len(set(names)) < len(names):
                raise OptionError(f"{_NEEDED} The ROW at '{path}' has a field twice.")
            for field in kind.fields:
                _check(field.type, f"{path}.{field.name}")
        case t.ArrayType():
            _check(kind.element, f"{path}[]")
        case t.VariantType():
            pass
        case _ if not isinstance(kind, _SCALARS):
            raise OptionError(f"{_NEEDED} '{path}' is {kind.sql()}, which values of VARIANTs cannot be.")


def shredded_type(kind: t.DataType, *, nullable: bool) -> t.RowType:
    """The columns of a file for a VARIANT whose values are expected to be of a type.

    Args:
        kind: of the values; VARIANT where nothing is known of them.
        nullable: whether the column is.
    """
    return replace(
        _group(kind, (t.DataField(0, METADATA, _BYTES.with_nullable(False)),), of_field=False), nullable=nullable
    )


_BYTES: Final = t.VarBinaryType(t.VarBinaryType.MAX)


def _group(kind: t.DataType, first: tuple[t.DataField, ...], *, of_field: bool) -> t.RowType:
    """A value, and next to it a typed one; in a field of an object both may be missing."""
    at = len(first)
    typed: t.DataType
    match kind:
        case t.VariantType() | t.BinaryType() | t.VarBinaryType() | t.TimestampType() | t.LocalZonedTimestampType():
            # Java: types bytes and timestamps as well, but its reader up to 1.4 refuses files with such columns
            return t.RowType((*first, t.DataField(at, VALUE, _BYTES.with_nullable(of_field))))
        case t.ArrayType():
            typed = replace(kind, element=_group(kind.element, (), of_field=False))
        case t.RowType():
            inner = [replace(f, type=_group(f.type, (), of_field=True).with_nullable(False)) for f in kind.fields]
            typed = replace(kind, fields=tuple(inner))
        case _:
            typed = kind
    fields = (t.DataField(at, VALUE, _BYTES), t.DataField(at + 1, TYPED, typed.with_nullable(True)))
    return t.RowType((*first, *fields))
