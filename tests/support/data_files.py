"""Data files of golden tables with the fields they were written with, and rows in comparable form."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import create_data_file, open_data_file

LOCAL = FileIO.for_path("/")
EPOCH = datetime.datetime(1970, 1, 1)


def schema_fields(table: Path, schema_id: int = 0) -> list[DataField]:
    """The columns of one schema of a table."""
    schema = json.loads((table / "schema" / f"schema-{schema_id}").read_text())
    return [DataField(f["id"], f["name"], parse_type(f["type"])) for f in schema["fields"]]


def data_files(table: Path) -> Iterator[Path]:
    """All data files of a table."""
    yield from sorted(p for p in table.glob("**/bucket-*/*") if p.suffix in (".parquet", ".orc", ".avro"))


def read_file(path: Path | str, fields: list[DataField], **arguments: Any) -> pa.Table:
    """All rows of a data file."""
    with open_data_file(LOCAL, str(path), str(path).rpartition(".")[2]) as reader:
        batches = list(reader.read_batches(fields, **arguments))
    from paimon_spark.spec.arrow_types import to_arrow_schema

    return pa.Table.from_batches(batches, to_arrow_schema(fields))


def write_file(path: Path | str, fields: list[DataField], *parts: pa.Table, **arguments: Any) -> Any:
    """A data file of some tables; gives the writer's result."""
    writer = create_data_file(LOCAL, str(path), str(path).rpartition(".")[2], fields, **arguments)
    for part in parts:
        writer.write(part)
    return writer.close()


def comparable(value: Any) -> Any:
    """A value with the entries of its maps in a fixed order, floats by their bits."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(((comparable(k), comparable(v)) for k, v in value), key=repr)
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    return repr(value)


def multiset(table: pa.Table) -> list[str]:
    """The rows, sorted; equal lists are equal multisets."""
    return sorted(repr([comparable(value) for value in row.values()]) for row in table.to_pylist())


def whole_seconds_before_1970(value: Any) -> Any:
    """What ORC files of ours can hold."""
    if isinstance(value, datetime.datetime) and value.year < 1970:
        return value.replace(microsecond=0, **({"nanosecond": 0} if hasattr(value, "nanosecond") else {}))
    if isinstance(value, (list, tuple)):
        return type(value)(whole_seconds_before_1970(item) for item in value)
    if isinstance(value, dict):
        return {key: whole_seconds_before_1970(item) for key, item in value.items()}
    return value
