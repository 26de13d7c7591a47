"""Avro schemas of the metadata files: exactly Java's, and the check that a file's own schema fits them.

Java: ``AvroSchemaConverter`` over the ``SCHEMA`` of ``ManifestFileMeta``, ``ManifestEntry`` and ``IndexManifestEntry``.
"""

from __future__ import annotations

import json
from typing import Any

from paimon_spark.errors import CorruptTableError

_NAMESPACE = "org.apache.paimon.avro.generated"
_MAX_DEPTH = 32

Schema = Any
"""An Avro schema as JSON: a name, a union as list, or an object."""


def _field(name: str, schema: Schema) -> dict[str, Schema]:
    return {"name": name, "type": schema}


def _nullable(name: str, schema: Schema) -> dict[str, Schema]:
    return {"name": name, "type": ["null", schema], "default": None}


def _array(items: Schema) -> dict[str, Schema]:
    return {"type": "array", "items": items}


def _record(name: str, fields: list[dict[str, Schema]]) -> dict[str, Schema]:
    return {"type": "record", "name": name, "fields": fields}


def _stats(name: str) -> dict[str, Schema]:
    return _record(
        name,
        [
            _field("_MIN_VALUES", "bytes"),
            _field("_MAX_VALUES", "bytes"),
            _nullable("_NULL_COUNTS", _array(["null", "long"])),
        ],
    )


def _file_record(fields: list[dict[str, Schema]]) -> dict[str, Schema]:
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}


MANIFEST_LIST = _file_record(
    [
        _field("_VERSION", "int"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_NUM_ADDED_FILES", "long"),
        _field("_NUM_DELETED_FILES", "long"),
        _field("_PARTITION_STATS", _stats("record__PARTITION_STATS")),
        _field("_SCHEMA_ID", "long"),
        _nullable("_MIN_BUCKET", "int"),
        _nullable("_MAX_BUCKET", "int"),
        _nullable("_MIN_LEVEL", "int"),
        _nullable("_MAX_LEVEL", "int"),
        _nullable("_MIN_ROW_ID", "long"),
        _nullable("_MAX_ROW_ID", "long"),
    ]
)


def _manifest(*newer: dict[str, Schema]) -> dict[str, Schema]:
    data_file = _record(
        "record__FILE",
        [
            _field("_FILE_NAME", "string"),
            _field("_FILE_SIZE", "long"),
            _field("_ROW_COUNT", "long"),
            _field("_MIN_KEY", "bytes"),
            _field("_MAX_KEY", "bytes"),
            _field("_KEY_STATS", _stats("record__FILE__KEY_STATS")),
            _field("_VALUE_STATS", _stats("record__FILE__VALUE_STATS")),
            _field("_MIN_SEQUENCE_NUMBER", "long"),
            _field("_MAX_SEQUENCE_NUMBER", "long"),
            _field("_SCHEMA_ID", "long"),
            _field("_LEVEL", "int"),
            _field("_EXTRA_FILES", _array("string")),
            _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
            _nullable("_DELETE_ROW_COUNT", "long"),
            _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
            _nullable("_FILE_SOURCE", "int"),
            _nullable("_VALUE_STATS_COLS", _array("string")),
            _nullable("_EXTERNAL_PATH", "string"),
            _nullable("_FIRST_ROW_ID", "long"),
            _nullable("_WRITE_COLS", _array("string")),
            *newer,
        ],
    )
    return _file_record(
        [
            _field("_VERSION", "int"),
            _field("_KIND", "int"),
            _field("_PARTITION", "bytes"),
            _field("_BUCKET", "int"),
            _field("_TOTAL_BUCKETS", "int"),
            _field("_FILE", data_file),
        ]
    )


MANIFEST = _manifest()
"""Manifest as Java 1.4 writes it."""

MANIFEST_WITH_COLUMN_SEQUENCES = _manifest(_nullable("_WRITE_COLS_SEQUENCES", _array("long")))
"""Manifest as Java 2.1 writes it; used only where an entry has `write_cols_sequences`."""


def _index_manifest(*newer: dict[str, Schema]) -> dict[str, Schema]:
    vector = _record(
        "record__DELETIONS_VECTORS_RANGES",
        [_field("f0", "string"), _field("f1", "int"), _field("f2", "int"), _nullable("_CARDINALITY", "long")],
    )
    global_index = _record(
        "record__GLOBAL_INDEX",
        [
            _field("_ROW_RANGE_START", "long"),
            _field("_ROW_RANGE_END", "long"),
            _field("_INDEX_FIELD_ID", "int"),
            _nullable("_EXTRA_FIELD_IDS", _array("int")),
            _nullable("_INDEX_META", "bytes"),
            *newer,
        ],
    )
    return _file_record(
        [
            _field("_VERSION", "int"),
            _field("_KIND", "int"),
            _field("_PARTITION", "bytes"),
            _field("_BUCKET", "int"),
            _field("_INDEX_TYPE", "string"),
            _field("_FILE_NAME", "string"),
            _field("_FILE_SIZE", "long"),
            _field("_ROW_COUNT", "long"),
            _nullable("_DELETIONS_VECTORS_RANGES", _array(["null", vector])),
            _nullable("_EXTERNAL_PATH", "string"),
            _nullable("_GLOBAL_INDEX", global_index),
        ]
    )


INDEX_MANIFEST = _index_manifest()
"""Index manifest as Java 1.4 writes it."""

INDEX_MANIFEST_WITH_SOURCE_META = _index_manifest(_nullable("_SOURCE_META", "bytes"))
"""Index manifest as Java 2.1 writes it; used only where an entry has a `source_meta`."""


def schema_json(schema: Schema) -> bytes:
    """Return the schema as Java writes it into a file's header: no spaces, keys in the order of the specification."""
    return json.dumps(schema, separators=(",", ":")).encode()


def plain_schema(schema: Schema) -> Schema:
    """Return the schema without logical types and defaults, so that times stay integers."""
    if isinstance(schema, list):
        return [plain_schema(branch) for branch in schema]
    if isinstance(schema, dict):
        drop = ("logicalType", "default")
        return {
            key: plain_schema(value) if key != "name" else value for key, value in schema.items() if key not in drop
        }
    return schema


class SchemaCheck:
    """Checks one file's schema: what we need is there in a form we can read, and nothing in it can run away.

    Field names decide, as in Java; unknown fields are allowed; so is a nullable record or value where Java now has a
    plain one (manifests of 0.7 and 0.8), which sets `nullable_where_required`.
    """

    def __init__(self) -> None:
        self._names: dict[str, Schema] = {}
        self._least: dict[str, int] = {}
        self.nullable_where_required = False

    def _fail(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"The Avro schema in the file's header does not fit: {what}.")

    def check(self, schema: Schema, expected: Schema) -> None:
        """Check the file's schema against ours.

        Raises:
            CorruptTableError: a required field is missing, a field has another type, or the schema itself is damaged.
        """
        if self._least_bytes(schema, 0) == 0:
            raise self._fail("its records take no bytes")
        self._compare(schema, expected, "the record")

    def _least_bytes(self, schema: Schema, depth: int) -> int:
        """Fewest bytes of a value; walks the whole schema, refuses recursion and arrays of nothing."""
        if depth > _MAX_DEPTH:
            raise self._fail("it is nested too deeply")
        if isinstance(schema, list):
            if not schema:
                raise self._fail("a union has no branches")
            return 1 + min(self._least_bytes(branch, depth + 1) for branch in schema)
        if isinstance(schema, str):
            return self._least_bytes_of_name(schema)
        if not isinstance(schema, dict):
            raise self._fail(f"{schema!r} is no type")
        kind = schema.get("type")
        if kind == "record":
            fields = schema.get("fields")
            if not isinstance(fields, list) or not all(isinstance(f, dict) and "type" in f for f in fields):
                raise self._fail("a record has no fields")
            least = sum(self._least_bytes(f["type"], depth + 1) for f in fields)
            name = self._full_name(schema)
            self._names[name] = schema
            self._least[name] = least
            return least
        if kind in ("array", "map"):
            items = schema.get("items" if kind == "array" else "values")
            if kind == "array" and self._least_bytes(items, depth + 1) == 0:
                raise self._fail("an array has elements that take no bytes")
            self._least_bytes(items, depth + 1)
            return 1
        if kind in ("enum", "fixed"):
            raise self._fail(f"type {kind} is not used in metadata files")
        return self._least_bytes(kind, depth + 1)

    def _full_name(self, schema: dict[str, Schema]) -> str:
        name = schema.get("name")
        if not isinstance(name, str):
            raise self._fail("a record has no name")
        return name.rsplit(".", 1)[-1]

    def _least_bytes_of_name(self, name: str) -> int:
        least = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}.get(
            name
        )
        if least is not None:
            return least
        known = self._least.get(name.rsplit(".", 1)[-1])
        if known is None:
            raise self._fail(f"type {name!r} is not known")
        return known

    def _resolve(self, schema: Schema) -> tuple[Schema, bool]:
        """Return what the schema is besides null, and whether it may be null."""
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            if len(branches) != 1:
                raise self._fail("a union has more than one branch besides null")
            return self._resolve(branches[0])[0], len(branches) < len(schema)
        if isinstance(schema, str) and schema.rsplit(".", 1)[-1] in self._names:
            return self._names[schema.rsplit(".", 1)[-1]], False
        if isinstance(schema, dict) and schema.get("type") not in ("record", "array", "map"):
            return self._resolve(schema["type"])[0], False
        return schema, False

    def _compare(self, schema: Schema, expected: Schema, where: str) -> None:
        theirs, nullable = self._resolve(schema)
        ours, may_be_null = (expected[1], True) if isinstance(expected, list) else (expected, False)
        if nullable and not may_be_null:
            self.nullable_where_required = True
        kind = theirs if isinstance(theirs, str) else theirs.get("type")
        if isinstance(ours, dict) and ours["type"] not in ("record", "array"):
            ours = ours["type"]
        wanted = ours if isinstance(ours, str) else ours["type"]
        if kind != wanted and {kind, wanted} != {"int", "long"}:
            raise self._fail(f"{where} is {kind}, not {wanted}")
        if kind == "array":
            self._compare(theirs["items"], ours["items"], where)
        elif kind == "record":
            fields = {f.get("name"): f["type"] for f in theirs["fields"]}
            for field in ours["fields"]:
                name = field["name"]
                if name in fields:
                    self._compare(fields[name], field["type"], name)
                elif not isinstance(field["type"], list):
                    raise self._fail(f"field {name} is missing")
