"""The table metadata of Iceberg, ``v<N>.metadata.json``: made of a snapshot and of the metadata before it.

Must equal Java's ``IcebergMetadata`` and ``IcebergSnapshot``. Metadata stays a JSON object, of which what is needed is
checked when it is read. Rows that readers of Iceberg would read wrongly are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.file_names import one_spelling
from paimon_spark.spec.iceberg.manifests import FIRST_PARTITION_FIELD_ID, SPEC_ID, V3
from paimon_spark.spec.iceberg.types import Json, highest_field_id, iceberg_schema
from paimon_spark.spec.json_text import parse_json_object

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot

VERSION_HINT: Final = "version-hint.text"
"""Holds the number of the latest metadata file: readers of Hadoop tables look there."""
RETIRE_PENDING: Final = "retire-pending"
"""Java writes it before a rollback: metadata of later snapshots may be left."""
MAIN: Final = "main"
COMMIT_IDENTITY: Final = "paimon-commit-identity"
"""In the summary of a snapshot: which snapshot of Paimon it is."""
"""Says in the summary of a snapshot which snapshot of Paimon it is."""
_METADATA_NAME: Final = re.compile(r"v([0-9]{1,18})\.metadata\.json")
_MANIFEST_NAME: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-m[0-9]+\.avro")
_LIST_NAME: Final = re.compile(r"snap-[0-9]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.avro")
_NO_AGE: Final = 2**63 - 1
_MOST: Final = 2**62
"""No id, time or number of rows is as large; sums of them stay below Avro's longs."""


def metadata_name(snapshot_id: int) -> str:
    """The name of the metadata of a snapshot."""
    return f"v{snapshot_id}.metadata.json"


def metadata_id(name: str) -> int | None:
    """The snapshot of a metadata file; None where the name is of another file."""
    match = _METADATA_NAME.fullmatch(name)
    return None if match is None else int(match.group(1))


def is_avro_name(name: str) -> bool:
    """Whether a file is a manifest or a manifest list, by its name."""
    return _MANIFEST_NAME.fullmatch(name) is not None or _LIST_NAME.fullmatch(name) is not None


def is_iceberg_name(name: str) -> bool:
    """Whether a file in the metadata directory is one of those that Java and this package write."""
    return metadata_id(name) is not None or is_avro_name(name) or name in (VERSION_HINT, RETIRE_PENDING)


def commit_identity(snapshot: Snapshot) -> str:
    """What tells a snapshot from another one of the same id (Java: ``IcebergCommitCallback.commitIdentity``)."""
    if snapshot.uuid is not None:
        return snapshot.uuid
    return f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"


@dataclass(frozen=True, slots=True)
class IcebergMetadata:
    """A metadata file that was read, checked."""

    json: Json

    @staticmethod
    def from_json(data: bytes, *, path: str) -> IcebergMetadata:
        """Read and check a metadata file.

        Raises:
            CorruptTableError: it is damaged.
        """
        value = parse_json_object(data, what="Iceberg metadata", path=path)

        def fail(what: str) -> CorruptTableError:
            return CorruptTableError(f"The Iceberg metadata is damaged: {what}.", path=path)

        for key in ("format-version", "last-column-id", "current-schema-id", "current-snapshot-id"):
            if not _is_integer(value.get(key)):
                raise fail(f"'{key}' is no integer")
        if not all(isinstance(value.get(key), str) for key in ("table-uuid", "location")):
            raise fail("'table-uuid' or 'location' is no text")
        schemas, snapshots = value.get("schemas"), value.get("snapshots")
        if not _objects(schemas) or not _objects(snapshots):
            raise fail("'schemas' or 'snapshots' are none")
        for schema in schemas:
            if not _is_integer(schema.get("schema-id")) or not _objects(schema.get("fields")):
                raise fail("a schema has no id or no fields")
        for snapshot in snapshots:
            known = all(_is_integer(snapshot.get(key)) for key in ("snapshot-id", "sequence-number", "timestamp-ms"))
            if not known or not isinstance(snapshot.get("manifest-list"), str):
                raise fail("a snapshot has no id, time or manifest list")
            if not isinstance(snapshot.get("summary"), dict):
                raise fail("a snapshot has no summary")
        found = IcebergMetadata(value)
        if all(each["snapshot-id"] != value["current-snapshot-id"] for each in snapshots):
            raise fail(f"snapshot {value['current-snapshot-id']} is not there")
        if value.get("next-row-id") is not None and not _is_integer(value["next-row-id"]):
            raise fail("'next-row-id' is no integer")
        try:
            json.dumps([schemas, snapshots])
        except (TypeError, RecursionError) as error:
            raise fail(f"a schema or snapshot cannot be kept ({error})") from error
        return found

    @property
    def version(self) -> int:
        """Of Iceberg's table format."""
        return int(self.json["format-version"])

    @property
    def uuid(self) -> str:
        """Of the table."""
        return str(self.json["table-uuid"])

    @property
    def location(self) -> str:
        """The table directory, as whoever wrote this spells it."""
        return str(self.json["location"])

    @property
    def last_column_id(self) -> int:
        """The highest id that any column had."""
        return int(self.json["last-column-id"])

    @property
    def next_row_id(self) -> int | None:
        """The first row id that was never given; None before version 3."""
        found = self.json.get("next-row-id")
        return None if found is None else int(found)

    @property
    def schemas(self) -> list[Json]:
        """All schemas."""
        return list(self.json["schemas"])

    @property
    def schema_id(self) -> int:
        """Id of the current schema."""
        return int(self.json["current-schema-id"])

    @property
    def snapshots(self) -> list[Json]:
        """All snapshots, the oldest first."""
        return list(self.json["snapshots"])

    @property
    def current(self) -> Json:
        """The latest snapshot."""
        latest = self.json["current-snapshot-id"]
        return next(each for each in self.snapshots if each["snapshot-id"] == latest)

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether this was made of that very snapshot, and not of one that was rolled back.

        Before Java 2.1 metadata does not say. It was made after its snapshot then.
        """
        if self.current["snapshot-id"] != snapshot.id:
            return False
        identity = self.current["summary"].get(COMMIT_IDENTITY)
        if identity is None:
            return bool(self.current["timestamp-ms"] >= snapshot.time_millis)
        return bool(identity == commit_identity(snapshot))

    def to_bytes(self) -> bytes:
        """The bytes of the metadata file."""
        return json.dumps(self.json, ensure_ascii=False, default=str).encode()

    def with_refs(self, snapshots: Sequence[Json], refs: Json, updated_millis: int) -> IcebergMetadata:
        """This metadata with other tags and fewer snapshots."""
        return IcebergMetadata(
            {**self.json, "last-updated-ms": updated_millis, "snapshots": list(snapshots), "refs": refs}
        )

    def names_identity(self) -> bool:
        """Whether this says which snapshot it was made of."""
        return COMMIT_IDENTITY in self.current["summary"]

    def total(self, key: str) -> int | None:
        """A number of the latest snapshot's summary; None where it is not there."""
        text = str(self.current["summary"].get(key, ""))
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _objects(value: object) -> TypeGuard[list[Json]]:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


@dataclass(slots=True)
class Counts:
    """What changes in a snapshot, and what is in it then."""

    added_files: int = 0
    added_rows: int = 0
    added_bytes: int = 0
    deleted_files: int = 0
    deleted_rows: int = 0
    deleted_bytes: int = 0
    partitions: int = 0
    total_files: int = 0
    total_rows: int = 0
    total_bytes: int = 0
    delete_files: int = 0
    position_deletes: int = 0

    def summary(self, operation: str, snapshot: Snapshot) -> dict[str, str]:
        """The summary of the snapshot (Java: ``IcebergCommitCallback.computeSnapshotSummary``)."""
        counts = {
            "added-data-files": self.added_files,
            "added-records": self.added_rows,
            "added-files-size": self.added_bytes,
            "deleted-data-files": self.deleted_files,
            "deleted-records": self.deleted_rows,
            "removed-files-size": self.deleted_bytes,
            "changed-partition-count": self.partitions,
            "total-records": self.total_rows,
            "total-data-files": self.total_files,
            "total-files-size": self.total_bytes,
            "total-delete-files": self.delete_files,
            "total-position-deletes": self.position_deletes,
            "total-equality-deletes": 0,
        }
        reported = {key: str(max(0, count)) for key, count in counts.items()}
        given = {key: value for key, value in (snapshot.properties or {}).items() if value is not None}
        return {"operation": operation, **reported, **given, COMMIT_IDENTITY: commit_identity(snapshot)}


def iceberg_snapshot(
    snapshot: Snapshot, summary: Mapping[str, str], manifest_list: str, row_ids: tuple[int, int] | None
) -> Json:
    """A snapshot as metadata holds it.

    Args:
        snapshot: of Paimon; it has the same id and time.
        summary: what it did.
        manifest_list: path of its manifest list.
        row_ids: first row id and number of ids given; None before version 3.
    """
    found: Json = {"sequence-number": snapshot.id, "snapshot-id": snapshot.id}
    if snapshot.id > 1:
        found["parent-snapshot-id"] = snapshot.id - 1
    found |= {
        "timestamp-ms": snapshot.time_millis,
        "summary": dict(summary),
        "manifest-list": manifest_list,
        "schema-id": snapshot.schema_id,
    }
    return found if row_ids is None else {**found, "first-row-id": row_ids[0], "added-rows": row_ids[1]}


@dataclass(frozen=True, slots=True)
class Inherited:
    """What metadata that takes the place of other metadata has of it, so that its readers know the table again."""

    uuid: str | None = None
    last_column_id: int = 0
    next_row_id: int = 0

    def with_that_of(self, other: IcebergMetadata, *, keep_uuid: bool = True) -> Inherited:
        """Return this with the uuid and the highest ids of other metadata."""
        return Inherited(
            self.uuid or (other.uuid if keep_uuid else None),
            max(self.last_column_id, other.last_column_id),
            max(self.next_row_id, other.next_row_id or 0),
        )


@dataclass(frozen=True, slots=True)
class TableState:
    """What metadata says of a table besides its snapshots."""

    version: int
    uuid: str
    location: str
    schemas: Sequence[Json]
    schema_id: int
    partition_keys: Sequence[str]
    last_column_id: int
    next_row_id: int | None
    refs: Mapping[str, int]
    """Tags and the ids of their snapshots."""
    updated_millis: int

    def metadata(self, snapshots: Sequence[Json]) -> IcebergMetadata:
        """The metadata; the last snapshot is the current one."""
        current = next(schema for schema in self.schemas if schema["schema-id"] == self.schema_id)
        ids = {field["name"]: field["id"] for field in current["fields"]}
        fields = [
            {"name": name, "transform": "identity", "source-id": ids[name], "field-id": FIRST_PARTITION_FIELD_ID + at}
            for at, name in enumerate(self.partition_keys)
        ]
        latest = snapshots[-1]["snapshot-id"]
        value: Json = {
            "format-version": self.version,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-sequence-number": latest,
            "last-updated-ms": self.updated_millis,
            "last-column-id": max(self.last_column_id, *map(highest_field_id, self.schemas)),
            "schemas": list(self.schemas),
            "current-schema-id": self.schema_id,
            "partition-specs": [{"spec-id": SPEC_ID, "fields": fields}],
            "default-spec-id": SPEC_ID,
            "last-partition-id": FIRST_PARTITION_FIELD_ID + len(fields) - 1,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": list(snapshots),
            "current-snapshot-id": latest,
            "properties": {},
            "refs": refs_of(self.refs, snapshots),
        }
        if self.version >= V3:
            value["next-row-id"] = self.next_row_id
        return IcebergMetadata(value)


def refs_of(tags: Mapping[str, int], snapshots: Iterable[Json]) -> Json:
    """The tags of snapshots that are there; a tag cannot have the name of Iceberg's main branch."""
    there = {each["snapshot-id"] for each in snapshots}
    return {
        name: {"snapshot-id": snapshot_id, "type": "tag", "max-ref-age-ms": _NO_AGE}
        for name, snapshot_id in tags.items()
        if snapshot_id in there and name != MAIN
    }


def expired_count(snapshots: Sequence[Json], latest: int, retained: tuple[int, int, int]) -> int:
    """How many of the first snapshots expire (Java: ``IcebergCommitCallback.shouldExpire``); the last one stays.

    Args:
        snapshots: the oldest first.
        latest: id of the latest one.
        retained: at least so many and at most so many stay, and those of this time or later.
    """
    least, most, oldest_millis = retained
    for at, each in enumerate(snapshots[:-1]):
        snapshot_id = each["snapshot-id"]
        kept = snapshot_id > latest - least
        if kept or (snapshot_id > latest - most and each["timestamp-ms"] >= oldest_millis):
            return at
    return max(len(snapshots) - 1, 0)


def name_of(location: str, directory: str) -> str | None:
    """The name of a manifest or manifest list that metadata names; None where it is none in the directory.

    Args:
        location: a path, as whoever wrote the metadata spells it.
        directory: the metadata directory, in `one_spelling`.
    """
    parent, _, name = location.rpartition("/")
    return name if is_avro_name(name) and one_spelling(parent) == directory else None


def compare_schemas(known: Iterable[Json], ours: Mapping[int, Json]) -> bool:
    """Whether metadata has the schemas that the table has: a rollback may have given an id to another one."""
    shared = ((each, ours[each["schema-id"]]) for each in known if each["schema-id"] in ours)
    return all(plain_schema(theirs) == plain_schema(own) for theirs, own in shared)


def plain_schema(schema: Any) -> Any:
    """A schema, or a part of it, without what it says of nothing."""
    if isinstance(schema, dict):
        return {key: plain_schema(value) for key, value in schema.items() if value is not None}
    return [plain_schema(each) for each in schema] if isinstance(schema, list) else schema


STORAGE: Final = "metadata.iceberg.storage"
LOCATION: Final = "metadata.iceberg.storage-location"
VERSION: Final = "metadata.iceberg.format-version"
COMPRESSION: Final = "metadata.iceberg.manifest-compression"
DELETES: Final = "metadata.iceberg.delete-after-commit.enabled"
VERSIONS_KEPT: Final = "metadata.iceberg.previous-versions-max"
CODECS: Final = {
    **{"snappy": "snappy", "zstd": "zstandard", "zstandard": "zstandard", "gzip": "deflate", "deflate": "deflate"},
    **{"none": "null", "null": "null", "uncompressed": "null"},
}
"""Avro's names of the values of that option."""
_VERSIONS: Final = (2, V3)
_FINEST_MILLIS: Final = 3


def is_shared(options: CoreOptions) -> bool:
    """Whether Iceberg metadata is written alongside Paimon's."""
    return bool(options.value(STORAGE) != "disabled")


def publishes_vectors(options: CoreOptions) -> bool:
    """Whether readers of Iceberg see deletion vectors (Java: ``IcebergCommitCallback.needAddDvToIceberg``)."""
    wide = options.deletion_vectors_enabled and bool(options.value("deletion-vectors.bitmap64"))
    return wide and bool(options.value(VERSION) == V3)


def check_publishable(schema: TableSchema) -> None:
    """Refuse a table, with its dynamic options, whose rows readers of Iceberg would read wrongly.

    Raises:
        UnsupportedError: names the option or the column, and what to do.
        OptionError: there is no such version of Iceberg's format.
    """
    options = schema.core_options
    if not is_shared(options):
        return
    version = options.value(VERSION)
    if version not in _VERSIONS:
        raise OptionError(f"Unsupported iceberg format version! Option '{VERSION}' = '{version}' must be 2 or 3.")
    codec = str(options.value(COMPRESSION)).lower()
    if codec not in CODECS:
        raise OptionError(f"Option '{COMPRESSION}' = '{codec}' must be one of: {', '.join(CODECS)}.")
    off = f"Set '{STORAGE}' to 'disabled'"
    if schema.kind.has_data_evolution:
        raise UnsupportedError(
            f"Option '{STORAGE}' is not supported with 'data-evolution.enabled': one file does not hold all columns of "
            f"its rows, which readers of Iceberg cannot know. {off}."
        )
    # Java: publishes such files without their vectors, so that readers see rows that were deleted
    if options.deletion_vectors_enabled and not schema.kind.is_keyed and not publishes_vectors(options):
        raise UnsupportedError(
            f"Readers of Iceberg would see deleted rows of a table with 'deletion-vectors.enabled'. Set '{VERSION}' to "
            f"'3' and 'deletion-vectors.bitmap64' to 'true'; or {off.lower()}."
        )
    iceberg_schema(schema.id, schema.fields)
    for field in schema.partition_fields:
        coarse = isinstance(field.type, t.TimestampType | t.LocalZonedTimestampType) and (
            field.type.precision <= _FINEST_MILLIS
        )
        if coarse or isinstance(field.type, t.TimeType):
            raise UnsupportedError(
                f"Partition column '{field.name}' of type {field.type.sql()} is not supported with '{STORAGE}': Java "
                f"writes its values as milliseconds, which readers of Iceberg take for microseconds. {off}."
            )
