"""A snapshot: the state of a table after one commit (docs/internals/spec/snapshot.txt, Java ``Snapshot``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json
from paimon_spark.spec.manifest import RecordedFile

CURRENT_VERSION = 3
"""The version of snapshot files we write."""

FIRST_SNAPSHOT_ID = 1
"""The id of a table's first snapshot."""

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The commit identifier of batch commits."""


class CommitKind(Enum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class Operation(Enum):
    """Which statement of an engine made the commit."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    CREATE_TABLE_AS_SELECT = "CREATE_TABLE_AS_SELECT"
    REPLACE_TABLE_AS_SELECT = "REPLACE_TABLE_AS_SELECT"
    CREATE_OR_REPLACE_TABLE_AS_SELECT = "CREATE_OR_REPLACE_TABLE_AS_SELECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot; the JSON key of a field is its name in camel case. Fields that default to None may be absent.

    Attributes:
        id: The snapshot's number, from 1; the file is ``snapshot-<id>``.
        schema_id: Schema of the table at this commit.
        base_manifest_list: Manifest list of everything before this commit.
        delta_manifest_list: Manifest list of what this commit changed.
        commit_user: Who committed.
        commit_identifier: The user's number of the commit; `BATCH_COMMIT_IDENTIFIER` for batch.
        commit_kind: What the commit did.
        time_millis: When, in milliseconds since 1970.
        total_record_count: Rows of all live data files, unmerged.
        delta_record_count: Rows added less rows deleted by this commit, unmerged.
        version: Version of the file format.
        uuid: Random identity of this attempt of a commit.
        base_manifest_list_size: Bytes of the base manifest list.
        delta_manifest_list_size: Bytes of the delta manifest list.
        changelog_manifest_list: Manifest list of the changelog files of this commit.
        changelog_manifest_list_size: Its bytes.
        index_manifest: Index manifest of all live index files.
        writer_version: Which software wrote it.
        changelog_record_count: Rows of the changelog of this commit.
        watermark: Event time watermark.
        statistics: Name of the statistics file.
        properties: Free properties of the commit.
        next_row_id: First row id not yet given (row tracking).
        operation: Which statement made the commit; a text that `Operation` does not know is kept as it is.
        unknown: Keys of the file that this version does not know, kept for rewriting.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    version: int = CURRENT_VERSION
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
    operation: Operation | str | None = None
    unknown: dict[str, Any] = field(default_factory=dict)

    @property
    def base_list(self) -> RecordedFile:
        """The base manifest list, with its recorded size."""
        return RecordedFile(self.base_manifest_list, self.base_manifest_list_size)

    @property
    def delta_list(self) -> RecordedFile:
        """The delta manifest list, with its recorded size."""
        return RecordedFile(self.delta_manifest_list, self.delta_manifest_list_size)

    @property
    def changelog_list(self) -> RecordedFile | None:
        """The manifest list of the changelog, with its recorded size; None where there is none."""
        name = self.changelog_manifest_list
        return None if name is None else RecordedFile(name, self.changelog_manifest_list_size)

    @staticmethod
    def from_json(data: bytes | str, *, path: str | None = None) -> Snapshot:
        """The snapshot in a snapshot, changelog or tag file.

        Raises:
            CorruptTableError: Not a snapshot file.
        """
        return snapshot_from_fields(JsonFields(parse_json_object(data, what="snapshot", path=path), "snapshot", path))

    def to_json(self) -> str:
        """The text of the snapshot file, byte for byte as Java writes it."""
        return pretty_json(self.to_json_object())

    def to_json_object(self) -> dict[str, Any]:
        """The keys and values of the snapshot file, in Java's order."""
        operation = self.operation.value if isinstance(self.operation, Operation) else self.operation
        known = {
            "version": self.version,
            "uuid": self.uuid,
            "id": self.id,
            "schemaId": self.schema_id,
            "baseManifestList": self.base_manifest_list,
            "baseManifestListSize": self.base_manifest_list_size,
            "deltaManifestList": self.delta_manifest_list,
            "deltaManifestListSize": self.delta_manifest_list_size,
            "changelogManifestList": self.changelog_manifest_list,
            "changelogManifestListSize": self.changelog_manifest_list_size,
            "indexManifest": self.index_manifest,
            "commitUser": self.commit_user,
            "writerVersion": self.writer_version,
            "commitIdentifier": self.commit_identifier,
            "commitKind": self.commit_kind.value,
            "timeMillis": self.time_millis,
            "totalRecordCount": self.total_record_count,
            "deltaRecordCount": self.delta_record_count,
            "changelogRecordCount": self.changelog_record_count,
            "watermark": self.watermark,
            "statistics": self.statistics,
            "properties": self.properties,
            "nextRowId": self.next_row_id,
            "operation": operation,
        }
        return {**{key: value for key, value in known.items() if value is not None}, **self.unknown}


def snapshot_from_fields(values: JsonFields) -> Snapshot:
    """The snapshot in the values of a JSON object; keys it does not know become `unknown`.

    Raises:
        CorruptTableError: A key is missing or has a value of the wrong kind.
    """
    kind_text = values.text("commitKind")
    kind = CommitKind.__members__.get(kind_text)
    if kind is None:
        values.fail(f"'commitKind' is '{kind_text[:100]}', known are {[member.value for member in CommitKind]}")
    operation_text = values.optional_text("operation")
    operation = None if operation_text is None else Operation.__members__.get(operation_text, operation_text)
    return Snapshot(
        version=values.optional_integer("version", bits=32) or 1,
        uuid=values.optional_text("uuid"),
        id=values.integer("id"),
        schema_id=values.integer("schemaId"),
        base_manifest_list=values.text("baseManifestList"),
        base_manifest_list_size=values.optional_integer("baseManifestListSize"),
        delta_manifest_list=values.text("deltaManifestList"),
        delta_manifest_list_size=values.optional_integer("deltaManifestListSize"),
        changelog_manifest_list=values.optional_text("changelogManifestList"),
        changelog_manifest_list_size=values.optional_integer("changelogManifestListSize"),
        index_manifest=values.optional_text("indexManifest"),
        commit_user=values.text("commitUser"),
        writer_version=values.optional_text("writerVersion"),
        commit_identifier=values.integer("commitIdentifier"),
        commit_kind=kind,
        time_millis=values.integer("timeMillis"),
        total_record_count=values.optional_integer("totalRecordCount") or 0,
        delta_record_count=values.optional_integer("deltaRecordCount") or 0,
        changelog_record_count=values.optional_integer("changelogRecordCount"),
        watermark=values.optional_integer("watermark"),
        statistics=values.optional_text("statistics"),
        properties=values.optional_text_map("properties"),
        next_row_id=values.optional_integer("nextRowId"),
        operation=operation,
        unknown=values.rest,
    )
