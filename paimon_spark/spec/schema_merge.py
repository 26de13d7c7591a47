"""Which types a column may change into, and the columns of a table merged with those of rows that are written.

Equals Java's ``DataTypeCasts``, ``CastExecutors`` and ``SchemaMergingUtils``: new columns are added, types may become
wider. Columns that say where rows lie never change their type: the bytes of keys decide about buckets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paimon_spark.errors import SchemaChangeError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.schema import FieldNumbering, TableSchema

INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
FLOATS = (t.FloatType, t.DoubleType)
NUMBERS = (*INTEGERS, *FLOATS, t.DecimalType)
TEXTS = (t.CharType, t.VarCharType)
BINARIES = (t.BinaryType, t.VarBinaryType)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
NESTED = (t.ArrayType, t.MapType, t.RowType)

# Target -> sources that lose nothing (as Java sees it), each type to itself left out.
_IMPLICIT: dict[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.VarCharType: TEXTS,
    t.VarBinaryType: BINARIES,
    t.DecimalType: NUMBERS,
    t.SmallIntType: INTEGERS[:1],
    t.IntType: INTEGERS[:2],
    t.BigIntType: INTEGERS[:3],
    t.FloatType: (*INTEGERS, t.DecimalType),
    t.DoubleType: NUMBERS,
    t.DateType: (t.TimestampType,),
    t.TimeType: (t.TimestampType,),
    t.TimestampType: TIMESTAMPS,
    t.LocalZonedTimestampType: TIMESTAMPS,
}


def same_type(left: t.DataType, right: t.DataType) -> bool:
    """Whether two types are equal but for their own nullability."""
    return left.with_nullable(True) == right.with_nullable(True)


def has_rule(source: t.DataType, target: t.DataType) -> bool:
    """Whether there is a rule for values of one type as another; nested types to nested ones are not asked here."""
    match target:
        case _ if isinstance(target, TEXTS):
            if isinstance(source, (*NUMBERS, t.BooleanType, *TEXTS, *BINARIES)):
                return True
            if isinstance(source, NESTED):
                return all(has_rule(inner, STRING) or isinstance(inner, NESTED) for inner in _inner(source))
            is_string = isinstance(target, t.VarCharType) and target.length == t.VarCharType.MAX
            return is_string and isinstance(source, (*TIMESTAMPS, t.TimeType, t.DateType))
        case t.BooleanType():
            return isinstance(source, (*INTEGERS, *TEXTS))
        case _ if isinstance(target, NUMBERS):
            if isinstance(source, TIMESTAMPS):
                return isinstance(target, t.IntType | t.BigIntType)
            return isinstance(source, (*NUMBERS, t.BooleanType, *TEXTS))
        case _ if isinstance(target, BINARIES):
            return isinstance(source, (*BINARIES, *TEXTS))
        case t.DateType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case t.TimeType():
            return isinstance(source, (*TIMESTAMPS, *TEXTS))
        case _ if isinstance(target, TIMESTAMPS):
            return isinstance(source, (*TIMESTAMPS, t.DateType, t.TimeType, t.IntType, t.BigIntType, *TEXTS))
    return False


STRING = t.VarCharType(t.VarCharType.MAX)


def _inner(source: t.DataType) -> tuple[t.DataType, ...]:
    match source:
        case t.ArrayType():
            return (source.element,)
        case t.MapType():
            return (source.key, source.value)
        case t.RowType():
            return tuple(f.type for f in source.fields)
    return ()


def can_cast(source: t.DataType, target: t.DataType, *, explicit: bool = True) -> bool:
    """Whether a column of one type may be changed into another.

    Args:
        source: The column's type.
        target: The type asked for. ROW into ROW goes by field ids, ARRAY and MAP by their elements and values.
        explicit: Allow casts that lose information too (`disable-explicit-type-casting` unset).
    """
    if not explicit and source.nullable and not target.nullable:
        return False
    if same_type(source, target):
        return True
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return can_cast(source.element, target.element, explicit=explicit)
        case t.MapType(), t.MapType():
            return same_type(source.key, target.key) and can_cast(source.value, target.value, explicit=explicit)
        case t.RowType(), t.RowType():
            old = {f.id: f.type for f in source.fields}
            return all(can_cast(old[f.id], f.type, explicit=explicit) for f in target.fields if f.id in old)
    if not has_rule(source, target):
        return False
    return explicit or type(source) is type(target) or isinstance(source, _IMPLICIT.get(type(target), ()))


_WITH_LENGTH = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)
_WITH_PRECISION = (t.TimeType, t.TimestampType, t.LocalZonedTimestampType)


@dataclass(frozen=True, slots=True)
class MergeRules:
    """What a merge may do besides adding columns and fields of ROWs."""

    widen: bool = False
    """Columns take the type of the rows where no value is lost (``write.merge-schema.type-widening``)."""
    explicit: bool = False
    """With `widen`: also where values may be lost (``write.merge-schema.explicit-cast``)."""


def merge_columns(
    schema: TableSchema,
    columns: Sequence[t.DataField],
    rules: MergeRules,
    *,
    shown_as: Callable[[t.DataType], t.DataType | None] = lambda _: None,
) -> TableSchema:
    """Return the next schema, or the same one where the columns bring nothing new.

    Args:
        schema: of the table.
        columns: of the rows; names count without case, nullability does not count.
        rules: what may change.
        shown_as: the type as which the engine shows one of the table's: a column of that type says nothing new.

    Raises:
        SchemaChangeError: a type cannot become that of the rows; names the column.
    """
    numbering = FieldNumbering(schema.highest_field_id)
    fields = _Merge(rules, numbering, shown_as).row(schema.fields, columns, ())
    if fields == tuple(schema.fields):
        return schema
    _check_positions(schema, fields)
    return replace(
        schema,
        id=schema.id + 1,
        fields=fields,
        highest_field_id=numbering.last,
        time_millis=time.time_ns() // 1_000_000,
    )


def _check_positions(schema: TableSchema, fields: Sequence[t.DataField]) -> None:
    for what, names in (
        ("primary key", schema.primary_keys),
        ("partition column", schema.partition_keys),
        ("bucket key", schema.bucket_keys),
    ):
        changed = [new.name for old, new in zip(schema.fields, fields, strict=False) if old.type != new.type]
        found = next((name for name in changed if name in names), None)
        if found is not None:
            raise SchemaChangeError(
                f"Cannot update {what}: [{found}]: its type stays {schema.field(found).type.sql()}, because its bytes "
                "decide where rows lie. Cast the column in the query."
            )


@dataclass(frozen=True, slots=True)
class _Merge:
    rules: MergeRules
    numbering: FieldNumbering
    shown_as: Callable[[t.DataType], t.DataType | None]

    def row(
        self, base: Sequence[t.DataField], update: Sequence[t.DataField], path: tuple[str, ...]
    ) -> tuple[t.DataField, ...]:
        given = {field.name.lower(): field for field in update}
        merged = [
            replace(field, type=self.type(field.type, given[field.name.lower()].type, (*path, field.name)))
            if field.name.lower() in given
            else field
            for field in base
        ]
        known = {field.name.lower() for field in base}
        new = [field for field in update if field.name.lower() not in known]
        for field in new:
            numbered = self.numbering.nested_field(field)
            merged.append(replace(numbered, type=numbered.type.with_nullable(True)))
        return tuple(merged)

    def type(self, base: t.DataType, update: t.DataType, path: tuple[str, ...]) -> t.DataType:
        if same_type(base, update):
            return base
        match base, update:
            case t.RowType(), t.RowType():
                return replace(base, fields=self.row(base.fields, update.fields, path))
            case t.MapType(), t.MapType():
                key = self.type(base.key, update.key, (*path, "key"))
                return replace(base, key=key, value=self.type(base.value, update.value, (*path, "value")))
            case t.ArrayType(), t.ArrayType():
                return replace(base, element=self.type(base.element, update.element, (*path, "element")))
            case t.MultisetType(), t.MultisetType():
                return replace(base, element=self.type(base.element, update.element, (*path, "element")))
        if not self.rules.widen:
            return base
        wider = self._wider(base, update)
        if wider is not None:
            return wider.with_nullable(base.nullable)
        shown = self.shown_as(base)
        if shown is not None and same_type(shown, update):
            return base
        raise SchemaChangeError(
            f"Failed to merge data types: column {'.'.join(path)} is {base.sql()}, and the rows have {update.sql()}, "
            "which loses values. Cast the column in the query"
            + ("." if self.rules.explicit else ", or allow it by 'write.merge-schema.explicit-cast' = 'true'.")
        )

    def _wider(self, base: t.DataType, update: t.DataType) -> t.DataType | None:
        """The type that holds both; None where there is none."""
        if isinstance(base, t.DecimalType) and isinstance(update, t.DecimalType):
            same_scale = base.scale == update.scale
            return replace(base, precision=max(base.precision, update.precision)) if same_scale else None
        if not can_cast(base.with_nullable(True), update.with_nullable(True), explicit=self.rules.explicit):
            return None
        fits = self.rules.explicit
        if isinstance(base, _WITH_LENGTH) and isinstance(update, _WITH_LENGTH):
            fits = fits or base.length <= update.length
        elif isinstance(base, _WITH_PRECISION) and isinstance(update, _WITH_PRECISION):
            fits = fits or base.precision <= update.precision
        else:
            fits = True
        return update if fits else None
