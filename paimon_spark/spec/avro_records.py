"""Records of metadata files as dicts: `fastavro` over whole blocks, with the file's schema checked and cached."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.avro_container import AvroBlocks, encode_long, read_container, write_container
from paimon_spark.spec.avro_schemas import Schema, SchemaCheck, plain_schema, schema_json

RECORDS_PER_BLOCK = 500
"""Records in one block of the files we write (Java cuts blocks at about 64 KB)."""

_BAD_RECORDS = (EOFError, LookupError, ValueError, TypeError, OverflowError, StopIteration, struct.error, MemoryError)

Record = dict[str, Any]


@functools.lru_cache(maxsize=64)
def _parsed_file_schema(text: bytes, expected_json: bytes) -> tuple[Schema, bool]:
    """Parse and check a file's schema; return it as an array of records, and whether required values may be null."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptTableError(f"The Avro schema in the file's header is no JSON: {error}.") from error
    check = SchemaCheck(None)
    check.check(schema, json.loads(expected_json))
    try:
        parsed = fastavro.parse_schema({"type": "array", "items": plain_schema(schema)})
    except (SchemaParseException, LookupError, ValueError, TypeError, AttributeError) as error:
        raise CorruptTableError(f"The Avro schema in the file's header cannot be parsed: {error}.") from error
    return parsed, check.nullable_where_required


def read_records(data: bytes, expected: Schema, *, path: str | None) -> tuple[list[Record], bool]:
    """Decode all records of a container file.

    Args:
        data: the whole file.
        expected: our schema; the file's own must fit it.
        path: the file's path, for errors.

    Returns:
        The records, and whether values that must not be null may be so in this file.

    Raises:
        CorruptTableError: the file is damaged or its schema does not fit.
    """
    content = read_container(data, path=path)
    try:
        schema, check_nulls = _parsed_file_schema(content.schema_json, schema_json(expected))
    except CorruptTableError as error:
        raise CorruptTableError(str(error), path=path) from error
    body = b"".join(encode_long(count) + block for count, block in content.blocks if count) + b"\0"
    source = BytesIO(body)
    try:
        records: list[Any] = fastavro.schemaless_reader(source, schema, None)
    except _BAD_RECORDS as error:
        raise CorruptTableError(
            f"The Avro records cannot be decoded ({error}): the file is damaged.", path=path
        ) from error
    if source.tell() != len(body):
        raise CorruptTableError("The Avro records end before their blocks do: the file is damaged.", path=path)
    if check_nulls and any(record is None for record in records):
        raise CorruptTableError("An Avro record is null: the file is damaged.", path=path)
    return records, check_nulls


@functools.lru_cache(maxsize=16)
def _parsed_own_schema(text: bytes) -> Schema:
    return fastavro.parse_schema({"type": "array", "items": plain_schema(json.loads(text))})


def write_records(records: Sequence[Record], schema: Schema, *, codec: str, level: int) -> bytes:
    """Encode records as a container file with Java's header."""
    text = schema_json(schema)
    parsed = _parsed_own_schema(text)
    blocks = []
    for start in range(0, len(records), RECORDS_PER_BLOCK):
        part = records[start : start + RECORDS_PER_BLOCK]
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, part)
        blocks.append((len(part), out.getvalue()[len(encode_long(len(part))) : -1]))
    return write_container(AvroBlocks(text, tuple(blocks)), codec=codec, level=level)
