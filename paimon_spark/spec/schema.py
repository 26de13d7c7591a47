"""A table's schema: one version of fields, keys and options (docs/internals/spec/schema.txt, Java ``TableSchema``).

Which tables are of plain files: Java's ``FormatTable`` and ``TableType``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_spark.errors import CorruptTableError, SchemaError, UnsupportedError
from paimon_spark.options import CoreOptions
from paimon_spark.spec import data_types as t
from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json
from paimon_spark.spec.table_kind import BucketMode as BucketMode
from paimon_spark.spec.table_kind import TableKind, table_kind
from paimon_spark.spec.type_parser import parse_fields

CURRENT_VERSION = 3
"""The version of schema files we write (Java ``TableSchema.CURRENT_VERSION``)."""

_PAIMON_07_VERSION = 1
_PAIMON_08_VERSION = 2
_UNTRIMMED_LISTS = ("bucket-key", "partial-update.remove-record-on-sequence-group")
"""Lists of columns in which Java treats blanks as part of the names, as in sequence groups."""

TYPE: Final = "type"
FORMAT_TABLE: Final = "format-table"
FILE_FORMAT: Final = "file.format"
MANAGED_PARTITIONS: Final = "metastore.partitioned-table"
FORMATS: Final = ("csv", "json", "orc", "parquet", "text")
"""Java has `mosaic` besides, which no reader of Spark's knows."""
CSV_DELIMITERS: Final = ("csv.field-delimiter", "field-delimiter", "seq", "delimiter", "sep")
"""Names of the option of a format table that says what stands between fields: the first one that is set counts."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema. Field comments give the JSON keys where they differ.

    Attributes:
        version: Version of the file format (3; a file without has 1).
        id: The schema's number, from 0; the file is ``schema-<id>``.
        fields: The columns, in order.
        highest_field_id: Greatest field id ever given, nested ones included (``highestFieldId``).
        partition_keys: Names of the partition columns (``partitionKeys``).
        primary_keys: Names of the primary key columns (``primaryKeys``).
        options: The table's options as in the file (plus those that old versions imply).
        comment: The table's comment, or None.
        time_millis: When the schema was made (``timeMillis``).
        unknown: Keys of the file that this version does not know, kept for rewriting.
    """

    version: int
    id: int
    fields: tuple[t.DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: dict[str, str]
    comment: str | None = None
    time_millis: int = 0
    unknown: dict[str, Any] = field(default_factory=dict)
    _core_options: CoreOptions = field(init=False, repr=False, compare=False)
    _by_name: dict[str, t.DataField] = field(init=False, repr=False, compare=False)
    _kind: TableKind | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        object.__setattr__(self, "partition_keys", tuple(self.partition_keys))
        object.__setattr__(self, "primary_keys", tuple(self.primary_keys))
        object.__setattr__(self, "_core_options", CoreOptions(self.options))
        object.__setattr__(self, "_by_name", {f.name: f for f in self.fields})

    @staticmethod
    def from_json(data: bytes | str, *, path: str | None = None) -> TableSchema:
        """The schema in a schema file of any version; options that old versions imply are filled in.

        Raises:
            CorruptTableError: Not a schema file.
        """
        values = JsonFields(parse_json_object(data, what="schema", path=path), "schema", path)
        version = values.optional_integer("version", bits=32) or _PAIMON_07_VERSION
        if version > CURRENT_VERSION:
            values.fail(f"its version is {version}, but only versions up to {CURRENT_VERSION} can be read")
        schema_id = values.integer("id")
        if "fields" not in values.rest:
            values.fail("'fields' is missing")
        try:
            fields = parse_fields(values.rest.pop("fields"))
            t.RowType(fields)  # names are there and unique
            check_field_ids(fields)
        except SchemaError as error:
            raise CorruptTableError(f"Cannot read the schema file: {error}", path=path) from None
        highest_field_id = values.integer("highestFieldId", bits=32)
        partition_keys, primary_keys = values.texts("partitionKeys"), values.texts("primaryKeys")
        options = values.optional_text_map("options")
        if options is None:
            values.fail("'options' is missing")
        if version <= _PAIMON_07_VERSION:
            options.setdefault("bucket", "1")
        if version <= _PAIMON_08_VERSION:
            options.setdefault("file.format", "orc")
        names = {f.name for f in fields}
        if lost := [key for key in (*partition_keys, *primary_keys) if key not in names]:
            values.fail(f"key columns {lost} are not among the fields")
        return TableSchema(
            version=version,
            id=schema_id,
            fields=fields,
            highest_field_id=highest_field_id,
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options=options,
            comment=values.optional_text("comment"),
            time_millis=values.optional_integer("timeMillis") or 0,
            unknown=values.rest,
        )

    def to_json(self) -> str:
        """The text of the schema file, byte for byte as Java writes it."""
        value: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [f.to_json() for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": self.partition_keys,
            "primaryKeys": self.primary_keys,
            "options": self.options,
        }
        if self.comment is not None:
            value["comment"] = self.comment
        value["timeMillis"] = self.time_millis
        return pretty_json({**value, **self.unknown})

    @property
    def core_options(self) -> CoreOptions:
        """The options with typed access."""
        return self._core_options

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(f.name for f in self.fields)

    @property
    def value_fields(self) -> tuple[t.DataField, ...]:
        """Columns of a value row: all columns of the table, key and partition columns included."""
        return self.fields

    def field(self, name: str) -> t.DataField:
        """The column with this name.

        Raises:
            SchemaError: There is none; the message says which there are.
        """
        found = self._by_name.get(name)
        if found is None:
            raise SchemaError(f"Column '{name}' does not exist in the table. Its columns are {list(self.field_names)}.")
        return found

    def has_field(self, name: str) -> bool:
        """Whether there is a column with this name."""
        return name in self._by_name

    def project(self, names: Sequence[str]) -> tuple[t.DataField, ...]:
        """The columns with these names, in their order.

        Raises:
            SchemaError: One does not exist.
        """
        return tuple(self.field(name) for name in names)

    @property
    def partition_fields(self) -> tuple[t.DataField, ...]:
        """The partition columns, in partition key order."""
        return self.project(self.partition_keys)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns; empty without a primary key.

        Raises:
            SchemaError: Nothing would be left of the primary key.
        """
        trimmed = tuple(key for key in self.primary_keys if key not in self.partition_keys)
        if self.primary_keys and not trimmed:
            raise SchemaError(
                f"Primary key constraint {list(self.primary_keys)} should not be same with partition fields "
                f"{list(self.partition_keys)}, this will result in only one record in a partition"
            )
        return trimmed

    @property
    def managed_blob_fields(self) -> frozenset[str]:
        """BLOB columns of a table with primary keys whose values lie in managed blob files; rows hold descriptors."""
        if not self.primary_keys:
            return frozenset()
        blobs = {field.name for field in self.fields if t.holds_blobs(field.type)}
        return frozenset(blobs - self._core_options.inline_blob_fields)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns that decide the bucket: `bucket-key` in declared order, else the trimmed primary key."""
        return self._core_options.bucket_key or self.trimmed_primary_keys

    @property
    def cross_partition_update(self) -> bool:
        """Whether a key may move between partitions: the primary key lacks a partition column."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_mode(self) -> BucketMode:
        """How rows of the table find their bucket."""
        return self.kind.bucket_mode

    @property
    def kind(self) -> TableKind:
        """What kind of table it is, under its options as they are now."""
        if self._kind is None:
            kind = table_kind(
                is_keyed=bool(self.primary_keys),
                crosses_partitions=self.cross_partition_update,
                bucket=self._core_options.bucket,
                data_evolution=self._core_options.data_evolution_enabled,
            )
            object.__setattr__(self, "_kind", kind)
            return kind
        return self._kind

    def with_options(self, options: Mapping[str, str]) -> TableSchema:
        """The same schema with exactly these options."""
        return replace(self, options=dict(options))


def check_field_ids(fields: Sequence[t.DataField]) -> None:
    """Refuse columns in which two fields, nested ones included, have one id.

    Raises:
        SchemaError: An id is there twice.
    """
    seen: set[int] = set()
    for data_field in t.walk_fields(fields):
        if data_field.id in seen:
            raise SchemaError(f"Broken schema, field id {data_field.id} is duplicated.")
        seen.add(data_field.id)


def create_schema(
    fields: Sequence[t.DataField],
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    *,
    time_millis: int | None = None,
) -> TableSchema:
    """The first schema (id 0) of a new table.

    Field ids are given from 0 as Java's ``Schema.Builder`` does; the options `primary-key` and `partition` define the
    keys and leave the options; primary key columns become NOT NULL (or nullable, with `primary-key.nullable`).
    Whether options and columns fit together is checked by `schema_validation.validate`.

    Args:
        fields: The columns; their ids are given anew.
        primary_keys: Names of the primary key columns.
        partition_keys: Names of the partition columns.
        options: The table's options, with canonical keys.
        comment: The table's comment.
        time_millis: When it is made, the current time without.

    Raises:
        SchemaError: Columns are missing or named twice, or keys are defined twice.
    """
    kept = dict(options or {})
    partition_keys = _keys_of_option(kept, "partition", partition_keys, "partition")
    primary_keys = _keys_of_option(kept, "primary-key", primary_keys, "primary key")
    for key, text in kept.items():
        if key in _UNTRIMMED_LISTS or (key.startswith("fields.") and key.endswith(".sequence-group")):
            kept[key] = ",".join(name.strip() for name in text.split(","))
    names = [f.name for f in fields]
    _check_keys(names, partition_keys, "Partition key constraint", "partition fields")
    _check_keys(names, primary_keys, "Primary key constraint", "primary key constraint")
    if twice := t.duplicate_names(names):
        raise SchemaError(f"Table column {names} must not contain duplicate fields. Found: {twice}")
    nullable_key = bool(CoreOptions(kept).value("primary-key.nullable"))
    normal = tuple(
        replace(f, type=f.type.with_nullable(nullable_key)) if f.name in set(primary_keys) else f for f in fields
    )
    numbered, highest = assign_field_ids(normal)
    return TableSchema(
        version=CURRENT_VERSION,
        id=0,
        fields=numbered,
        highest_field_id=highest,
        partition_keys=tuple(partition_keys),
        primary_keys=tuple(primary_keys),
        options=kept,
        comment=comment,
        time_millis=time.time_ns() // 1_000_000 if time_millis is None else time_millis,
    )


def _keys_of_option(options: dict[str, str], key: str, given: Sequence[str], noun: str) -> Sequence[str]:
    text = options.pop(key, None)
    if text is None:
        return given
    if given:
        raise SchemaError(f"Cannot define {noun} on DDL and table options at the same time.")
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_keys(names: Sequence[str], keys: Sequence[str], constraint: str, noun: str) -> None:
    if twice := t.duplicate_names(keys):
        raise SchemaError(f"{constraint} {list(keys)} must not contain duplicate columns. Found: {twice}")
    if not set(keys) <= set(names):
        raise SchemaError(f"Table column {list(names)} should include all {noun} {list(keys)}")


def assign_field_ids(fields: Sequence[t.DataField], first_id: int = 0) -> tuple[tuple[t.DataField, ...], int]:
    """The fields with ids given anew, and the highest id given.

    Java: ``Schema.Builder`` numbers a column before what is inside it, but ``ReassignFieldId`` a ROW's field after it.
    """
    numbering = FieldNumbering(first_id - 1)
    return tuple(numbering.column(f) for f in fields), numbering.last


class FieldNumbering:
    """Gives ids to new fields.

    Attributes:
        last: The highest id given.
    """

    def __init__(self, last: int) -> None:
        self.last = last

    def column(self, data_field: t.DataField) -> t.DataField:
        """A column with an id, then what is inside it."""
        self.last += 1
        field_id = self.last
        return replace(data_field, id=field_id, type=self.type(data_field.type))

    def nested_field(self, data_field: t.DataField) -> t.DataField:
        """A field with an id behind those of what is inside it."""
        data_type = self.type(data_field.type)
        self.last += 1
        return replace(data_field, id=self.last, type=data_type)

    def type(self, data_type: t.DataType) -> t.DataType:
        """A type with ids for the fields of its ROWs."""
        match data_type:
            case t.ArrayType() | t.MultisetType():
                return replace(data_type, element=self.type(data_type.element))
            case t.MapType():
                key = self.type(data_type.key)
                return replace(data_type, key=key, value=self.type(data_type.value))
            case t.RowType():
                return replace(data_type, fields=tuple(self.nested_field(f) for f in data_type.fields))
        return data_type


def is_format_table(schema: TableSchema) -> bool:
    """Whether a schema is one of plain files."""
    return schema.options.get(TYPE, "").strip().lower() == FORMAT_TABLE


def keeps_partitions(schema: TableSchema) -> bool:
    """Whether a catalog is to keep the partitions of a format table."""
    return bool(schema.partition_keys) and schema.options.get(MANAGED_PARTITIONS, "").strip().lower() == "true"


def no_partition_catalog(what: str) -> UnsupportedError:
    """The error for a table whose catalog keeps no partitions of format tables."""
    return UnsupportedError(
        f"{what} asks for catalog-managed partitions with {MANAGED_PARTITIONS}=true, which is only available in a REST "
        "catalog. Without the option its directories say which partitions there are; ALTER TABLE … UNSET TBLPROPERTIES "
        f"('{MANAGED_PARTITIONS}') of Hive itself, or of a Spark session on Hive, takes it away."
    )


def external_partitions(path: str) -> UnsupportedError:
    """The error for an external table whose partitions a catalog is to keep."""
    return UnsupportedError(
        f"Catalog-managed partitions ({MANAGED_PARTITIONS}=true) are only supported for internal tables, but the "
        f"format table at {path} is external."
    )


def options_of_files(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table of plain files that are not for its files: a log may say that they are ignored."""
    own = ("csv.", "json.", "text.", "format-table.partition-path-only-value", "format-table.file.compression")
    return {key: text for key, text in options.items() if not key.startswith(own)}
