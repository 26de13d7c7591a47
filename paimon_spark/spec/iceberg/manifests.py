"""Manifest lists and manifests of Iceberg: records, their Avro schemas, and their bytes.

Must equal Java's ``IcebergManifestFileMeta``, ``IcebergManifestEntry`` and ``IcebergDataFileMeta`` and the names that
their Avro files have; readers of Iceberg find fields by the ids in the schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.avro_codec import RECORDS_PER_BLOCK, decode_records, encode_block
from paimon_spark.spec.avro_container import pack_block, write_packed
from paimon_spark.spec.iceberg.types import is_nan, value_bytes
from paimon_spark.spec.metadata_schemas import Schema, schema_json

FIRST_PARTITION_FIELD_ID: Final = 1000
"""Id of the first partition field; the others follow (Java: ``IcebergPartitionField.FIRST_FIELD_ID``)."""
SPEC_ID: Final = 0
"""The one partition spec: partition columns of Paimon do not change."""
V3: Final = 3


class Content(IntEnum):
    """What a manifest lists, and what a file of it holds."""

    DATA = 0
    DELETES = 1


class Status(IntEnum):
    """What became of a file in the snapshot that wrote its manifest."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class IcebergFile:
    """A data file, or the deletion vector of one."""

    path: str
    format: str
    partition: tuple[Any, ...]
    """Values as Avro holds them: see `partition_values`."""
    record_count: int
    size: int
    content: Content = Content.DATA
    null_counts: dict[int, int] | None = field(default_factory=dict)
    lower_bounds: dict[int, bytes] | None = field(default_factory=dict)
    upper_bounds: dict[int, bytes] | None = field(default_factory=dict)
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True)
class IcebergEntry:
    """A file in a manifest."""

    status: Status
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    file: IcebergFile

    @property
    def is_live(self) -> bool:
        """Whether the file is in the snapshot."""
        return self.status is not Status.DELETED


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The values of a partition column in a manifest."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class IcebergManifest:
    """A manifest, as a manifest list holds it."""

    path: str
    length: int
    content: Content
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    files: tuple[int, int, int]
    """Files by `Status`: existing, added, deleted."""
    rows: tuple[int, int, int]
    """Their rows."""
    partitions: tuple[PartitionSummary, ...]
    first_row_id: int | None = None

    @property
    def live_files(self) -> int:
        """Files that are in the snapshot."""
        return self.files[Status.EXISTING] + self.files[Status.ADDED]

    @property
    def live_rows(self) -> int:
        """Rows of those files."""
        return self.rows[Status.EXISTING] + self.rows[Status.ADDED]


# -- Avro schemas -----------------------------------------------------------------------------------------------------


def _field(field_id: int, name: str, schema: Schema) -> dict[str, Schema]:
    return {"name": name, "type": schema, "field-id": field_id}


def _nullable(field_id: int, name: str, schema: Schema) -> dict[str, Schema]:
    return {"name": name, "type": ["null", schema], "default": None, "field-id": field_id}


def _map(name: str, key_id: int, value_id: int, value: Schema) -> Schema:
    items = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field(key_id, "key", "int"), _field(value_id, "value", value)],
    }
    return {"type": "array", "items": items, "logicalType": "map"}


_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_name(name: str) -> str:
    """A column's name as Avro allows it (Iceberg: ``AvroSchemaUtil.sanitize``)."""
    if _AVRO_NAME.fullmatch(name):
        return name
    letters = [each if each == "_" or (each.isascii() and each.isalnum()) else f"_x{ord(each):X}" for each in name]
    return ("_" if name[:1].isdigit() else "") + "".join(letters)


def _partition_type(data_type: t.DataType) -> Schema:
    match data_type:
        case t.BooleanType():
            return "boolean"
        case t.TinyIntType() | t.SmallIntType() | t.IntType():
            return "int"
        case t.BigIntType():
            return "long"
        case t.FloatType():
            return "float"
        case t.DoubleType():
            return "double"
        case t.DateType():
            return {"type": "int", "logicalType": "date"}
        case t.DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        case t.TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
        case t.LocalZonedTimestampType():
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
        case t.CharType() | t.VarCharType():
            return "string"
    return "bytes"


def manifest_schema(partition: Sequence[t.DataField], *, version: int) -> Schema:
    """The Avro schema of manifests."""
    columns = [
        _field(FIRST_PARTITION_FIELD_ID + at, avro_name(each.name), _partition_type(each.type))
        if not each.type.nullable
        else _nullable(FIRST_PARTITION_FIELD_ID + at, avro_name(each.name), _partition_type(each.type))
        for at, each in enumerate(partition)
    ]
    files = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": columns}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _nullable(110, "null_value_counts", _map("null_value_counts", 121, 122, "long")),
        _nullable(125, "lower_bounds", _map("lower_bounds", 126, 127, "bytes")),
        _nullable(128, "upper_bounds", _map("upper_bounds", 129, 130, "bytes")),
        _nullable(143, "referenced_data_file", "string"),
        _nullable(144, "content_offset", "long"),
        _nullable(145, "content_size_in_bytes", "long"),
        *([_nullable(142, "first_row_id", "long")] if version >= V3 else []),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field(0, "status", "int"),
            _nullable(1, "snapshot_id", "long"),
            _nullable(3, "sequence_number", "long"),
            _nullable(4, "file_sequence_number", "long"),
            _field(2, "data_file", {"type": "record", "name": "r2", "fields": files}),
        ],
    }


def manifest_list_schema(*, version: int, legacy: bool) -> Schema:
    """The Avro schema of manifest lists.

    Args:
        version: of Iceberg's table format.
        legacy: whether the counts have the names of Iceberg 1.4, which some readers still ask for.
    """
    files = "data_files_count" if legacy else "files_count"
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _nullable(518, "contains_nan", "boolean"),
            _nullable(510, "lower_bound", "bytes"),
            _nullable(511, "upper_bound", "bytes"),
        ],
    }
    return {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            _field(500, "manifest_path", "string"),
            _field(501, "manifest_length", "long"),
            _field(502, "partition_spec_id", "int"),
            _field(517, "content", "int"),
            _field(515, "sequence_number", "long"),
            _field(516, "min_sequence_number", "long"),
            _nullable(503, "added_snapshot_id", "long"),
            _field(504, f"added_{files}", "int"),
            _field(505, f"existing_{files}", "int"),
            _field(506, f"deleted_{files}", "int"),
            _field(512, "added_rows_count", "long"),
            _field(513, "existing_rows_count", "long"),
            _field(514, "deleted_rows_count", "long"),
            _nullable(507, "partitions", {"type": "array", "items": summary, "element-id": 508}),
            *([_nullable(520, "first_row_id", "long")] if version >= V3 else []),
        ],
    }


# -- records ----------------------------------------------------------------------------------------------------------


def _pairs(values: dict[int, Any] | None) -> list[dict[str, Any]] | None:
    return None if values is None else [{"key": key, "value": value} for key, value in values.items()]


def _mapping(pairs: list[dict[str, Any]] | None) -> dict[int, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _entry_record(entry: IcebergEntry, names: Sequence[str]) -> dict[str, Any]:
    file = entry.file
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": {
            "content": int(file.content),
            "file_path": file.path,
            "file_format": file.format,
            "partition": dict(zip(names, file.partition, strict=True)),
            "record_count": file.record_count,
            "file_size_in_bytes": file.size,
            "null_value_counts": _pairs(file.null_counts),
            "lower_bounds": _pairs(file.lower_bounds),
            "upper_bounds": _pairs(file.upper_bounds),
            "referenced_data_file": file.referenced_data_file,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size,
            "first_row_id": file.first_row_id,
        },
    }


def _entry_of(record: dict[str, Any], names: Sequence[str]) -> IcebergEntry:
    file = record["data_file"]
    return IcebergEntry(
        Status(record["status"]),
        record["snapshot_id"],
        record["sequence_number"],
        record["file_sequence_number"],
        IcebergFile(
            path=file["file_path"],
            format=file["file_format"],
            partition=tuple(file["partition"].get(name) for name in names),
            record_count=file["record_count"],
            size=file["file_size_in_bytes"],
            content=Content(file["content"]),
            null_counts=_mapping(file.get("null_value_counts")),
            lower_bounds=_mapping(file.get("lower_bounds")),
            upper_bounds=_mapping(file.get("upper_bounds")),
            referenced_data_file=file.get("referenced_data_file"),
            content_offset=file.get("content_offset"),
            content_size=file.get("content_size_in_bytes"),
            first_row_id=file.get("first_row_id"),
        ),
    )


@dataclass(frozen=True, slots=True)
class ManifestFormat:
    """How the Avro files of one table are written."""

    partition: tuple[t.DataField, ...]
    """The partition columns."""
    version: int
    """Of Iceberg's table format: 2 or 3."""
    codec: str
    """Avro's name of it."""
    legacy: bool
    """Whether manifest lists have the field names of Iceberg 1.4."""
    target_bytes: int
    """Manifests roll at this size."""

    @property
    def _names(self) -> list[str]:
        return [avro_name(each.name) for each in self.partition]

    def encode_manifests(self, entries: Sequence[IcebergEntry]) -> Iterator[tuple[bytes, Sequence[IcebergEntry]]]:
        """Yield the bytes of manifests, each with the entries that it has."""
        schema = manifest_schema(self.partition, version=self.version)
        header = schema_json(schema)
        start, size, blocks = 0, 0, list[tuple[int, bytes]]()
        for at in range(0, len(entries), RECORDS_PER_BLOCK):
            part = entries[at : at + RECORDS_PER_BLOCK]
            plain = encode_block([_entry_record(entry, self._names) for entry in part], header)
            blocks.append((len(part), pack_block(plain, self.codec, 1)))
            size += len(blocks[-1][1])
            if size >= self.target_bytes or at + len(part) == len(entries):
                yield write_packed(header, blocks, self.codec), entries[start : at + len(part)]
                start, size, blocks = at + len(part), 0, []

    def decode_manifest(self, data: bytes, *, path: str) -> list[IcebergEntry]:
        """The entries of a manifest.

        Raises:
            CorruptTableError: the file is damaged, or has other partition columns.
        """
        try:
            # a file of version 2 lacks what 3 adds, which may be absent
            records = decode_records(data, schema_json(manifest_schema(self.partition, version=2)), path=path)
            return [_entry_of(record, self._names) for record in records]
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptTableError(f"The Iceberg manifest does not have what it must have: {error}.", path=path) from (
                error
            )

    def encode_list(self, manifests: Sequence[IcebergManifest]) -> bytes:
        """The bytes of a manifest list."""
        files = "data_files_count" if self.legacy else "files_count"
        schema = schema_json(manifest_list_schema(version=self.version, legacy=self.legacy))
        records = [
            {
                "manifest_path": each.path,
                "manifest_length": each.length,
                "partition_spec_id": SPEC_ID,
                "content": int(each.content),
                "sequence_number": each.sequence_number,
                "min_sequence_number": each.min_sequence_number,
                "added_snapshot_id": each.added_snapshot_id,
                f"added_{files}": each.files[Status.ADDED],
                f"existing_{files}": each.files[Status.EXISTING],
                f"deleted_{files}": each.files[Status.DELETED],
                "added_rows_count": each.rows[Status.ADDED],
                "existing_rows_count": each.rows[Status.EXISTING],
                "deleted_rows_count": each.rows[Status.DELETED],
                "partitions": [
                    {
                        "contains_null": summary.contains_null,
                        "contains_nan": summary.contains_nan,
                        "lower_bound": summary.lower_bound,
                        "upper_bound": summary.upper_bound,
                    }
                    for summary in each.partitions
                ],
                "first_row_id": each.first_row_id,
            }
            for each in manifests
        ]
        blocks = [(len(records), pack_block(encode_block(records, schema), self.codec, 1))] if records else []
        return write_packed(schema, blocks, self.codec)

    def decode_list(self, data: bytes, *, path: str) -> list[IcebergManifest]:
        """The manifests of a manifest list, whichever names its counts have.

        Raises:
            CorruptTableError: the file is damaged.
        """
        legacy = b'"added_data_files_count"' in data[: data.find(b"avro.codec") + 1 or len(data)]
        files = "data_files_count" if legacy else "files_count"
        try:
            expected = schema_json(manifest_list_schema(version=2, legacy=legacy))
            return [_manifest_of(record, files) for record in decode_records(data, expected, path=path)]
        except (LookupError, TypeError, ValueError) as error:
            raise CorruptTableError(
                f"The Iceberg manifest list does not have what it must have: {error}.", path=path
            ) from error

    def summaries(self, entries: Sequence[IcebergEntry]) -> tuple[PartitionSummary, ...]:
        """The partition summaries of a manifest with these entries."""
        found = []
        for at, each in enumerate(self.partition):
            values = [entry.file.partition[at] for entry in entries]
            known = [value for value in values if value is not None and not is_nan(value)]
            ordered = [order_of(value, each.type) for value in known]
            bounds: list[bytes | None] = [None, None]
            if known:
                positions = (ordered.index(min(ordered)), ordered.index(max(ordered)))
                bounds = [_bound(known[position], each.type) for position in positions]
            found.append(PartitionSummary(None in values, any(map(is_nan, values)), bounds[0], bounds[1]))
        return tuple(found)

    def described(
        self, path: str, data: bytes, entries: Sequence[IcebergEntry], sequence_number: int, content: Content
    ) -> IcebergManifest:
        """A manifest as a manifest list holds it.

        Args:
            path: of the file.
            data: its bytes.
            entries: which it has.
            sequence_number: of the snapshot that writes it.
            content: what it lists.
        """
        files, rows = [0, 0, 0], [0, 0, 0]
        for entry in entries:
            files[entry.status] += 1
            rows[entry.status] += entry.file.record_count
        return IcebergManifest(
            path=path,
            length=len(data),
            content=content,
            sequence_number=sequence_number,
            min_sequence_number=min(entry.sequence_number for entry in entries),
            added_snapshot_id=sequence_number,
            files=(files[0], files[1], files[2]),
            rows=(rows[0], rows[1], rows[2]),
            partitions=self.summaries(entries),
        )


def _manifest_of(record: dict[str, Any], files: str) -> IcebergManifest:
    counts = ("existing", "added", "deleted")
    by_file = [record[f"{name}_{files}"] for name in counts]
    by_row = [record[f"{name}_rows_count"] for name in counts]
    return IcebergManifest(
        path=record["manifest_path"],
        length=record["manifest_length"],
        content=Content(record["content"]),
        sequence_number=record["sequence_number"],
        min_sequence_number=record["min_sequence_number"],
        added_snapshot_id=record["added_snapshot_id"] or 0,
        files=(by_file[0], by_file[1], by_file[2]),
        rows=(by_row[0], by_row[1], by_row[2]),
        partitions=tuple(PartitionSummary(**_known(each)) for each in record.get("partitions") or ()),
        first_row_id=record.get("first_row_id"),
    )


def _known(summary: dict[str, Any]) -> dict[str, Any]:
    names = ("contains_null", "contains_nan", "lower_bound", "upper_bound")
    return {name: summary.get(name) for name in names}


def _bound(value: Any, data_type: t.DataType) -> bytes:
    return bytes(value) if isinstance(data_type, t.DecimalType) else value_bytes(value, data_type)


def order_of(value: Any, data_type: t.DataType) -> Any:
    """What to compare two partition values by: texts by their UTF-8 bytes, decimals by their unscaled number."""
    if isinstance(data_type, t.DecimalType):
        return int.from_bytes(value, "big", signed=True)
    return value.encode() if isinstance(value, str) else value


def with_row_ids(manifests: Sequence[IcebergManifest], first: int) -> tuple[list[IcebergManifest], int]:
    """Give first row ids to data manifests that have none (Iceberg v3, "First Row ID Assignment").

    Args:
        manifests: of a snapshot.
        first: the first id that was never given.

    Returns:
        The manifests, and how many ids were given.
    """
    found, next_id = list[IcebergManifest](), first
    for each in manifests:
        if each.content is Content.DATA and each.first_row_id is None:
            each = replace(each, first_row_id=next_id)
            next_id += each.live_rows
        found.append(each)
    return found, next_id - first


def with_own_row_ids(manifest: IcebergManifest, entries: Sequence[IcebergEntry]) -> list[IcebergEntry]:
    """Give entries that move to another manifest the row ids that they have by this one."""
    if manifest.content is not Content.DATA or manifest.first_row_id is None:
        return list(entries)
    found, next_id = list[IcebergEntry](), manifest.first_row_id
    for entry in entries:
        if entry.is_live and entry.file.first_row_id is None:
            entry = replace(entry, file=replace(entry.file, first_row_id=next_id))
            next_id += entry.file.record_count
        found.append(entry)
    return found
