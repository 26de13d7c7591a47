"""What brings a table of an Iceberg REST catalog to the state of Iceberg metadata: objects of the catalog's protocol.

Equals Java's ``IcebergRestMetadataCommitter``, but for what is marked ``# Java:``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_spark.spec.file_names import one_spelling
from paimon_spark.spec.iceberg.manifests import V3
from paimon_spark.spec.iceberg.metadata import COMMIT_IDENTITY, MAIN, IcebergMetadata, name_of, plain_schema
from paimon_spark.spec.iceberg.types import Json

_OLDEST_MILLIS: Final = 59_000
"""Catalogs refuse a snapshot that is a minute older than the last change of the table."""
_PLACEHOLDER: Final = "f"
RESERVED_PROPERTIES: Final = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Properties that catalogs do not take (Iceberg: ``TableProperties.RESERVED_PROPERTIES``)."""


def adjusted(metadata: IcebergMetadata, now_millis: int) -> Json:
    """The metadata as a catalog can have it: schemas numbered from 1, each once.

    Schema 0 is the one that the table is created with. Schemas that differ in nothing but their number come of changes
    of options; a catalog keeps the first of them.
    """
    numbers, schemas = dict[int, int](), list[Json]()
    for schema in metadata.schemas:
        fields = plain_schema(schema["fields"])
        same = next((each for each in schemas if plain_schema(each["fields"]) == fields), None)
        if same is None:
            same = {**schema, "schema-id": len(schemas) + 1}
            schemas.append(same)
        numbers[schema["schema-id"]] = same["schema-id"]
    snapshots = list[Json]()
    for each in metadata.snapshots:
        snapshot = dict(each)
        number = numbers.get(snapshot.pop("schema-id", -1))
        if number is not None:
            snapshot["schema-id"] = number
        snapshots.append(snapshot)
    current = _current({**metadata.json, "snapshots": snapshots})
    current["timestamp-ms"] = max(current["timestamp-ms"], now_millis - _OLDEST_MILLIS)
    main = {"snapshot-id": current["snapshot-id"], "type": "branch"}
    return {
        **metadata.json,
        "schemas": schemas,
        "current-schema-id": numbers[metadata.schema_id],
        "snapshots": snapshots,
        "refs": {**(metadata.json.get("refs") or {}), MAIN: main},
    }


def needs_registration(metadata: Json) -> bool:
    """Whether a new table has to be registered: updates would let the catalog give row ids once more."""
    return metadata["format-version"] >= V3 and bool(_current(metadata).get("first-row-id"))


def new_table(metadata: Json, name: str) -> Json:
    """The request that creates a table, empty and with placeholders as columns.

    Catalogs number the columns of a new table from 1, Paimon from 0. Columns by which the table is partitioned get
    their own number that way, and the table its partition spec; not so where one of them has the number 0.
    """
    schema: Json = {"type": "struct", "schema-id": 0, "fields": []}
    version = str(metadata["format-version"])
    request: Json = {"name": name, "schema": schema, "properties": {"format-version": version}, "stage-create": False}
    partition = _partition_fields(metadata)
    sources = [field["source-id"] for field in partition]
    if not sources or min(sources) <= 0:
        return request
    known = {field["id"]: field for field in _current_schema(metadata)["fields"]}
    taken = {known[source]["name"] for source in sources}
    for number in range(1, max(sources) + 1):
        label = f"{_PLACEHOLDER}{number}"
        while label in taken:
            label = f"_{label}"
        placeholder = {"id": number, "name": label, "required": False, "type": "boolean"}
        schema["fields"].append(known[number] if number in sources else placeholder)
    request["partition-spec"] = {"spec-id": 0, "fields": partition}
    return request


def is_ours(table: Json, metadata: Json) -> bool:
    """Whether a table of the catalog is one that Paimon made."""
    snapshots = table.get("snapshots") or []
    if snapshots:
        directory = one_spelling(_current(metadata)["manifest-list"].rpartition("/")[0])
        return any(
            COMMIT_IDENTITY in (each.get("summary") or {})
            or name_of(str(each.get("manifest-list")), directory) is not None
            for each in snapshots
        )
    made = new_table(metadata, "")["schema"]["fields"]
    there = _schema(table, table["current-schema-id"])["fields"]
    return table["current-schema-id"] == 0 and [each["name"] for each in there] == [each["name"] for each in made]


def updates_of(
    table: Json, metadata: Json, before: IcebergMetadata | None, properties: Mapping[str, str]
) -> list[Json] | None:
    """What is to be changed in a table of the catalog; None where it has another history, and is made anew.

    Args:
        table: its metadata in the catalog.
        metadata: `adjusted`.
        before: the metadata that was gone on with; None where it was made of all files anew.
        properties: that the table is to have.
    """
    if table["format-version"] > metadata["format-version"]:
        return None
    there, latest = _snapshot(table.get("snapshots") or (), table.get("current-snapshot-id")), _current(metadata)
    if there is None:
        if needs_registration(metadata):
            return None
        missing = metadata["snapshots"]  # Java: the current one alone
    else:
        missing = [each for each in metadata["snapshots"] if each["snapshot-id"] > there["snapshot-id"]]
        own = [*metadata["snapshots"], *(before.snapshots if before is not None else ())]
        lists = {each["snapshot-id"]: each["manifest-list"] for each in reversed(own)}
        # Java: compares identities, and makes the table anew when more than one snapshot is missing
        same = one_spelling(str(lists.get(there["snapshot-id"]))) == one_spelling(there["manifest-list"])
        if not same or len(missing) != latest["snapshot-id"] - there["snapshot-id"] or not _takes(table, missing):
            return None
    updates = _shape(table, metadata)
    updates += [{"action": "add-snapshot", "snapshot": each} for each in missing]
    if missing:
        updates.append(_ref(MAIN, metadata["refs"][MAIN]))
    updates += _tags(table, metadata, before)
    kept = {each["snapshot-id"] for each in metadata["snapshots"]}
    gone = [each["snapshot-id"] for each in table.get("snapshots") or () if each["snapshot-id"] not in kept]
    updates += [{"action": "remove-snapshots", "snapshot-ids": [each]} for each in gone]  # one each: older servers
    if any((table.get("properties") or {}).get(key) != value for key, value in properties.items()):
        updates.append({"action": "set-properties", "updates": dict(properties)})
    return updates


def requirements_of(table: Json) -> list[Json]:
    """What is to hold still when the updates arrive."""
    main = (table.get("refs") or {}).get(MAIN)  # one that Java registered has none
    return [
        {"type": "assert-table-uuid", "uuid": table["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": None if main is None else main["snapshot-id"]},
    ]


def _takes(table: Json, missing: Sequence[Json]) -> bool:
    """Whether the catalog takes snapshots, and has no later numbers than theirs."""
    if not missing:
        return True
    behind = table.get("last-sequence-number", 0) < missing[0]["sequence-number"]
    return bool(behind and (table.get("next-row-id") or 0) <= missing[0].get("first-row-id", 2**63))


def _shape(table: Json, metadata: Json) -> list[Json]:
    """Updates of the version, the schemas and the partition spec."""
    updates = list[Json]()
    if metadata["format-version"] > table["format-version"]:
        updates.append({"action": "upgrade-format-version", "format-version": metadata["format-version"]})
    known = {each["schema-id"] for each in table["schemas"]}
    added = [each for each in metadata["schemas"] if each["schema-id"] not in known]
    updates += [{"action": "add-schema", "schema": each} for each in added]
    current = metadata["current-schema-id"]
    if current != table["current-schema-id"]:
        last = bool(added) and added[-1]["schema-id"] == current
        updates.append({"action": "set-current-schema", "schema-id": -1 if last else current})
    fields = _partition_fields(metadata)
    if not any(plain_schema(each["fields"]) == plain_schema(fields) for each in table["partition-specs"]):
        # it stays unused as with Java: files name spec 0, which is that of the placeholders
        number = 1 + max(each["spec-id"] for each in table["partition-specs"])
        updates.append({"action": "add-spec", "spec": {"spec-id": number, "fields": fields}})
    return updates


def _tags(table: Json, metadata: Json, before: IcebergMetadata | None) -> list[Json]:
    """Updates of the tags.

    # Java: shows no tags in the catalog
    """
    there, wanted = table.get("refs") or {}, metadata.get("refs") or {}
    earlier = {} if before is None else before.json.get("refs") or {}
    gone = [name for name in earlier if name not in wanted and name in there and name != MAIN]
    updates: list[Json] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in gone]
    for name, tag in wanted.items():
        known = there.get(name) or {}
        if name != MAIN and (known.get("snapshot-id"), known.get("type")) != (tag["snapshot-id"], tag["type"]):
            updates.append(_ref(name, tag))
    return updates


def _ref(name: str, ref: Json) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, **ref}


def _partition_fields(metadata: Json) -> list[Json]:
    number = metadata["default-spec-id"]
    return list(next(each["fields"] for each in metadata["partition-specs"] if each["spec-id"] == number))


def _current_schema(metadata: Json) -> Json:
    return _schema(metadata, metadata["current-schema-id"])


def _schema(metadata: Json, number: int) -> Json:
    return next(each for each in metadata["schemas"] if each["schema-id"] == number)


def _current(metadata: Json) -> Json:
    return next(each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"])


def _snapshot(snapshots: Sequence[Json], number: int | None) -> Json | None:
    return next((each for each in snapshots if each["snapshot-id"] == number), None)
