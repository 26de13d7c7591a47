"""Records of a Hive metastore for tables of plain files, as Java's ``HiveCatalog`` makes and reads them.

A record alone says what such a table is: no schema file lies in its directory. Tables that Hive or Spark made can be
read as format tables, too, where their SerDe is one of a format that Paimon knows (Java:
``HiveTableUtils.tryToFormatSchema``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.metastore import hive_table as record
from paimon_spark.metastore.hive_client import records
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import (
    CSV_DELIMITERS,
    FILE_FORMAT,
    FORMAT_TABLE,
    TYPE,
    TableSchema,
    create_schema,
    is_format_table,
)

_KIND: Final = "table_type"
_FIELD_DELIMITER: Final = "field.delim"
"""Parameter of the SerDe."""
_HIVE_DELIMITER: Final = "\u0001"
"""What stands between fields where a SerDe says nothing."""
_NO_OPTIONS: Final = frozenset(
    {
        *(_KIND, "EXTERNAL", *record.TRANSLATED, "comment", "COLUMN_STATS_ACCURATE"),
        *("transient_lastDdlTime", "last_modified_time", "last_modified_by"),
        *("numFiles", "numRows", "numPartitions", "totalSize", "rawDataSize", "bucketing_version"),
    }
)
"""Parameters that the metastore keeps for itself. Java: shows them as options."""


@dataclass(frozen=True)
class _Classes:
    """The classes by which Hive reads and writes the files of a format."""

    serde: str
    input_format: str
    output_format: str


_OF_HIVE: Final = "org.apache.hadoop.hive.ql.io"
_ORC: Final = f"{_OF_HIVE}.orc"
_TEXT: Final = _Classes(
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    "org.apache.hadoop.mapred.TextInputFormat",
    f"{_OF_HIVE}.HiveIgnoreKeyTextOutputFormat",
)
_CLASSES: Final[Mapping[str, _Classes]] = MappingProxyType(
    {
        "csv": _TEXT,
        "text": _TEXT,
        "json": _Classes("org.apache.hive.hcatalog.data.JsonSerDe", _TEXT.input_format, _TEXT.output_format),
        "parquet": _Classes(
            f"{_OF_HIVE}.parquet.serde.ParquetHiveSerDe",
            f"{_OF_HIVE}.parquet.MapredParquetInputFormat",
            f"{_OF_HIVE}.parquet.MapredParquetOutputFormat",
        ),
        "orc": _Classes(f"{_ORC}.OrcSerde", f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat"),
    }
)


def new_table(
    database: str,
    table: str,
    schema: TableSchema,
    location: str,
    *,
    owner: str,
    is_external: bool,
    in_parameters: bool,
) -> Any:
    """The record of a new table. Java: ``HiveCatalog.createHiveFormatTable``."""
    name = schema.options[FILE_FORMAT]
    classes = _CLASSES[name]
    kept = {**schema.options, _KIND: name.upper(), FILE_FORMAT: name, TYPE: FORMAT_TABLE}
    found = record.bare_table(database, table, kept, owner=owner, is_external=is_external)
    own = {key.lower(): text for key, text in schema.options.items()}
    delimiter = next((own[key] for key in CSV_DELIMITERS if key in own), ",")  # Java: the first of the names alone
    serde = {_FIELD_DELIMITER: delimiter} if name == "csv" else {}
    found.sd.inputFormat, found.sd.outputFormat = classes.input_format, classes.output_format
    found.sd.serdeInfo = records().SerDeInfo(parameters=serde, serializationLib=classes.serde)
    record.set_columns(found, schema, schema.partition_keys)
    record.set_location(found, location, in_parameters=in_parameters)
    return found


def is_made_here(found: Any) -> bool:
    """Whether a record was made for a format table by Paimon, and not for a table of Hive's or Spark's own."""
    return str((found.parameters or {}).get(TYPE, "")).strip().lower() == FORMAT_TABLE


def schema_of(found: Any) -> TableSchema | None:
    """The schema of a table of plain files; None for any other record. Java: ``HiveTableUtils.tryToFormatSchema``."""
    name = None if record.is_paimon(found) or record.is_view(found) else _format_of(found)
    if name is None:
        return None
    parameters = found.parameters or {}
    options = {key: text for key, text in parameters.items() if key not in _NO_OPTIONS}
    if name == "csv":
        options[CSV_DELIMITERS[0]] = (found.sd.serdeInfo.parameters or {}).get(_FIELD_DELIMITER, _HIVE_DELIMITER)
    options |= {TYPE: FORMAT_TABLE, FILE_FORMAT: name}
    keys = [each.name for each in found.partitionKeys or ()]
    try:
        fields = [
            DataField(at, each.name, record.paimon_type(each.type), each.comment)
            for at, each in enumerate([*(found.sd.cols or ()), *(found.partitionKeys or ())])
        ]
        schema = create_schema(
            fields, [], keys, options, parameters.get("comment"), time_millis=found.createTime * 1000
        )
    except PaimonError:  # a type of Hive's that Paimon has none for
        return None
    return schema if is_format_table(schema) else None


def _format_of(found: Any) -> str | None:
    sd = found.sd
    if sd is None or sd.serdeInfo is None:
        return None
    if str((found.parameters or {}).get("transactional", "")).strip().lower() == "true":
        return None  # Java: shows it, and reads deleted rows, for its files are not all there is
    serde, inputs = (sd.serdeInfo.serializationLib or "").lower(), sd.inputFormat or ""
    if "parquet" in serde:
        return "parquet"
    if "orc" in serde:
        return "orc"
    if "Text" not in inputs:
        return None
    if "json" in serde:
        return "json"
    return "text" if (found.parameters or {}).get(_KIND) == "TEXT" else "csv"
