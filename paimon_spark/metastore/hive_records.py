"""Records of a Hive metastore, as Java's ``HiveCatalog`` makes and reads them: of tables, views, tables of plain files.

A table of plain files is what its record alone says: no schema file lies in its directory. Tables that Hive or Spark
made can be read as format tables, too, where their SerDe is one of a format that Paimon knows (Java:
``HiveTableUtils.tryToFormatSchema``).
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.metastore.hive_client import records
from paimon_spark.spec import data_types as types
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.java_text import escape_path_name
from paimon_spark.spec.schema import (
    CSV_DELIMITERS,
    FILE_FORMAT,
    FORMAT_TABLE,
    TYPE,
    TableSchema,
    assign_field_ids,
    create_schema,
    is_format_table,
)
from paimon_spark.spec.type_parser import parse_type_sql
from paimon_spark.spec.view_records import View

_INPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE: Final = "org.apache.paimon.hive.PaimonSerDe"
_STORAGE_HANDLER: Final = "org.apache.paimon.hive.PaimonStorageHandler"
_LOCATION: Final = "paimon_location"
"""Parameter that has the location where the catalog's option ``location-in-properties`` is set."""
_MIRRORED: Final = ("partition.expiration-time", "data-file.path-directory")
"""Options that are mirrored also where ``sync-all-properties`` is off."""
_TAGS: Final = "metastore.tag-to-partition"
_COMMENT: Final = "comment"
_EXTERNAL: Final = "EXTERNAL"
TRANSLATED: Final = ("TRANSLATED_TO_EXTERNAL", "external.table.purge")
"""What Hive 4 gives the record of a managed table that is not transactional. Java: does not run on Hive 4."""
_LONGEST_COMMENT: Final = 255
_CUT: Final = "..."
_MAX_INT: Final = 2**31 - 1
_LONGEST_CHAR: Final = 255
_LONGEST_VARCHAR: Final = 65535
_PLAIN: Final = {
    types.BooleanType: "boolean",
    types.TinyIntType: "tinyint",
    types.SmallIntType: "smallint",
    types.IntType: "int",
    types.BigIntType: "bigint",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.BinaryType: "binary",
    types.VarBinaryType: "binary",
    types.BlobType: "binary",
    types.DateType: "date",
    types.TimeType: "string",
    types.TimestampType: "timestamp",
    types.LocalZonedTimestampType: "timestamp",  # as Java on Hive 2, which Spark's official connector has
    types.VariantType: "struct<value:binary,metadata:binary>",
}
_WORDS: Final = {
    "timestamp": "TIMESTAMP(6)",
    "timestamp with local time zone": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "string": "STRING",
    "binary": "BYTES",
}
_NESTED: Final = re.compile(r"\s*(array|map|struct)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)


def hive_type(data_type: types.DataType) -> str:
    """The name that Hive has for a type. Java: ``HiveTypeUtils.toTypeInfo``.

    Raises:
        UnsupportedError: it has none.
    """
    plain = _PLAIN.get(type(data_type))
    if plain is not None:
        return plain
    match data_type:
        case types.DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case types.CharType(length=length):
            return f"char({length})" if length <= _LONGEST_CHAR else "string"
        case types.VarCharType(length=length):
            return f"varchar({length})" if length <= _LONGEST_VARCHAR else "string"
        case types.ArrayType(element=element) | types.VectorType(element=element):
            return f"array<{hive_type(element)}>"
        case types.MultisetType(element=element):
            return f"map<{hive_type(element)},int>"
        case types.MapType(key=key, value=value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case types.RowType(fields=fields):
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"
    raise UnsupportedError(f"A Hive metastore has no type for {data_type}: keep such a table in another catalog.")


def paimon_type(text: str) -> types.DataType:
    """The type that a name of Hive's means. Java: ``HiveTypeUtils.toPaimonType``.

    Raises:
        UnsupportedError: it is none.
    """
    nested = _NESTED.fullmatch(text)
    if nested is None:
        name = " ".join(text.lower().split())
        if name.startswith("uniontype"):
            raise UnsupportedError(f"There is no type for Hive's {text}.")
        return parse_type_sql(_WORDS.get(name, name))
    kind, inside = nested.group(1).lower(), _pieces(nested.group(2))
    if kind == "array":
        return types.ArrayType(paimon_type(inside[0]))
    if kind == "map":
        return types.MapType(paimon_type(inside[0]), paimon_type(inside[1]))
    fields = [piece.partition(":") for piece in inside]
    return types.RowType(
        tuple(types.DataField(at, name.strip(), paimon_type(of)) for at, (name, _, of) in enumerate(fields))
    )


def _pieces(text: str) -> list[str]:
    """The parts between the commas that are in no brackets."""
    found, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            found.append(text[begin:at])
            begin = at + 1
    return [*found, text[begin:]]


def new_table(
    database: str,
    table: str,
    schema: TableSchema,
    location: str,
    *,
    owner: str,
    is_external: bool,
    mirrors_all: bool,
    in_parameters: bool,
) -> Any:
    """The record of a new table. Java: ``HiveCatalog.createHiveTable``."""
    kept = _mirrored(schema, mirrors_all=mirrors_all)
    if not mirrors_all:
        kept |= {key: schema.options[key] for key in _MIRRORED if key in schema.options}
    kept |= {"table_type": "PAIMON", "storage_handler": _STORAGE_HANDLER}
    found = bare_table(database, table, kept, owner=owner, is_external=is_external)
    fill(found, schema, location, in_parameters=in_parameters)
    return found


def bare_table(database: str, table: str, parameters: Mapping[str, str], *, owner: str, is_external: bool) -> Any:
    """The record of a new table without columns and formats. Java: ``HiveCatalog.newHmsTable``."""
    hive, now = records(), int(time.time())
    return hive.Table(
        tableName=table,
        dbName=database,
        owner=owner,
        createTime=now,
        lastAccessTime=now,
        retention=_MAX_INT,
        partitionKeys=[],
        parameters={**parameters, **({_EXTERNAL: "TRUE"} if is_external else {})},
        tableType="EXTERNAL_TABLE" if is_external else "MANAGED_TABLE",
        sd=hive.StorageDescriptor(compressed=False, numBuckets=0, storedAsSubDirectories=False),
    )


def new_partition(table: Any, texts: Mapping[str, str], directory: str, *, in_parameters: bool) -> Any:
    """The record of a new partition. Java: ``HiveCatalog.createPartitionsUtil``."""
    now = int(time.time())
    made = records().Partition(
        values=list(texts.values()),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=now,
        lastAccessTime=now,
        sd=copy.deepcopy(table.sd),
        parameters={},
    )
    parts = [f"{escape_path_name(key)}={escape_path_name(value)}" for key, value in texts.items()]
    set_location(made, "/".join([directory, *parts]), in_parameters=in_parameters)
    return made


def measure(partition: Any, statistics: Mapping[str, Any]) -> None:
    """Write the sums of a partition into its parameters. Java: ``HiveCatalog.alterPartitions``."""
    seconds = statistics["lastFileCreationTime"] // 1000
    partition.lastAccessTime = seconds
    partition.parameters |= {
        "numFiles": str(statistics["fileCount"]),
        "totalSize": str(statistics["fileSizeInBytes"]),
        "numRows": str(statistics["recordCount"]),
        "lastUpdateTime": str(seconds),
        "totalBuckets": str(statistics["totalBuckets"]),
        "transient_lastDdlTime": str(seconds),
    }


def alter(found: Any, schema: TableSchema, before: TableSchema, *, mirrors_all: bool, in_parameters: bool) -> None:
    """Change the record of a table to its new schema. Java: ``HiveCatalog.alterTableToHms``."""
    location = location_of(found, in_parameters=in_parameters)
    found.parameters.update(_mirrored(schema, mirrors_all=mirrors_all))
    for key in before.options.keys() - schema.options.keys():
        found.parameters.pop(key, None)
    fill(found, schema, location, in_parameters=in_parameters)


def fill(found: Any, schema: TableSchema, location: str, *, in_parameters: bool) -> None:
    """Write columns, formats, comment and location. Java: ``HiveCatalog.updateHmsTable``."""
    hive, sd = records(), found.sd
    sd.inputFormat, sd.outputFormat = _INPUT_FORMAT, _OUTPUT_FORMAT
    sd.serdeInfo = sd.serdeInfo or hive.SerDeInfo()
    sd.serdeInfo.parameters, sd.serdeInfo.serializationLib = {}, _SERDE
    keys = schema.partition_keys if knows_partitions(schema) else ()
    set_columns(found, schema, keys)
    if not keys and schema.options.get(_TAGS):
        found.partitionKeys = [hive.FieldSchema(schema.options[_TAGS], "string", None)]
    set_location(found, location, in_parameters=in_parameters)


def set_columns(found: Any, schema: TableSchema, keys: Sequence[str]) -> None:
    """Write columns, those of partitions apart, and comment."""
    if keys:
        found.partitionKeys = [
            records().FieldSchema(name, hive_type(schema.field(name).type), schema.field(name).description)
            for name in keys
        ]
    found.sd.cols = [column_record(field) for field in schema.fields if field.name not in keys]
    if schema.comment is not None:
        found.parameters[_COMMENT] = schema.comment


def column_record(field: types.DataField) -> Any:
    """The record of a column that is not one of partitions."""
    return records().FieldSchema(field.name, hive_type(field.type), _short(field.description))


def set_location(found: Any, location: str, *, in_parameters: bool) -> None:
    """Write where a table lies. Java: ``LocationHelper``."""
    if in_parameters:
        found.parameters[_LOCATION] = location
    else:
        found.sd.location = location


def location_of(found: Any, *, in_parameters: bool) -> str:
    """Where a table lies, as the metastore has it."""
    own = found.parameters.get(_LOCATION) if in_parameters else None
    return str(own or found.sd.location)


def place_database(found: Any, location: str, *, in_parameters: bool) -> None:
    """Write where a database lies."""
    if in_parameters:
        found.parameters[_LOCATION], found.locationUri = location, None
    else:
        found.locationUri = location


def location_of_database(found: Any, *, in_parameters: bool) -> str | None:
    """Where a database lies."""
    own = (found.parameters or {}).get(_LOCATION) if in_parameters else None
    where = own or found.locationUri
    return None if where is None else str(where)


def path_of(location: str) -> str:
    """The path of a location: Hadoop writes files of the machine as ``file:/…``."""
    if location.startswith("file:"):
        return f"/{location.removeprefix('file:').lstrip('/')}".rstrip("/") or "/"
    return location.rstrip("/")


def is_paimon(found: Any) -> bool:
    """Whether a record is that of a Paimon table. Java: ``HiveCatalog.isPaimonTable``."""
    sd = found.sd
    return sd is not None and (sd.inputFormat, sd.outputFormat) == (_INPUT_FORMAT, _OUTPUT_FORMAT)


def is_external(found: Any) -> bool:
    """Whether the files outlive the table: not where Hive 4 made a managed table an external one by itself."""
    parameters = found.parameters or {}
    is_translated = all(parameters.get(key, "").upper() == "TRUE" for key in TRANSLATED)
    return bool(found.tableType == "EXTERNAL_TABLE") and not is_translated


def is_view(found: Any) -> bool:
    """Whether a record is that of a view."""
    return bool(found.tableType == "VIRTUAL_VIEW")


def asks_for_external(options: Mapping[str, str], table_type: str) -> bool:
    """Whether a new table is an external one. Java: ``HiveCatalog.usingExternalTable``."""
    if "path" in options or table_type == "external":
        return True
    return options.get("external", options.get(_EXTERNAL, "")).strip().lower() == "true"


def knows_partitions(schema: TableSchema) -> bool:
    """Whether the metastore knows the partitions of a table."""
    option = schema.options.get("metastore.partitioned-table", "").strip().lower()
    return bool(schema.partition_keys) and option == "true"


def _mirrored(schema: TableSchema, *, mirrors_all: bool) -> dict[str, str]:
    if not mirrors_all:
        return {key: value for key, value in schema.options.items() if key.startswith("hive.")}
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys, "bucket-key": schema.bucket_keys}
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}


def _short(comment: str | None) -> str | None:
    """A column's comment as the metastore can keep it. Java: ``HiveTableUtils.normalizeColumnComment``."""
    if comment is None:
        return None
    text = comment.replace("\n", " ").replace("\r", " ")
    return text if len(text) <= _LONGEST_COMMENT else f"{text[: _LONGEST_COMMENT - len(_CUT)]}{_CUT}"


_KEYS_OF_HIVE: Final = ("transient_lastDdlTime", "last_modified_time", "last_modified_by")
"""Parameters that the metastore writes itself."""


def new_view(database: str, name: str, view: View, owner: str) -> Any:
    """The record of a new view. Java: ``HiveCatalog.createView``."""
    hive, now = records(), int(time.time())
    made = hive.Table(
        tableName=name,
        dbName=database,
        owner=owner,
        createTime=now,
        lastAccessTime=0,
        retention=0,
        partitionKeys=[],
        parameters={},
        tableType="VIRTUAL_VIEW",
        sd=hive.StorageDescriptor(
            compressed=False,
            numBuckets=-1,
            storedAsSubDirectories=False,
            serdeInfo=hive.SerDeInfo(parameters={"serialization.format": "1"}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )
    fill_view(made, view)
    return made


def fill_view(found: Any, view: View) -> None:
    """Write query, columns, options and comment."""
    kept = {key: text for key, text in (found.parameters or {}).items() if key in _KEYS_OF_HIVE}
    found.parameters = {**kept, **view.options, **({} if view.comment is None else {_COMMENT: view.comment})}
    found.viewOriginalText = found.viewExpandedText = view.spark_query
    found.sd.cols = [column_record(field) for field in view.fields]


def view_of(found: Any) -> View:
    """Read the record of a view. Java: ``HiveCatalog.getView``."""
    options = {key: text for key, text in (found.parameters or {}).items() if key not in _KEYS_OF_HIVE}
    comment = options.pop(_COMMENT, None)
    fields = [types.DataField(0, each.name, paimon_type(each.type), each.comment) for each in found.sd.cols or ()]
    return View(assign_field_ids(fields)[0], found.viewExpandedText or "", {}, comment, options)


_KIND: Final = "table_type"
_FIELD_DELIMITER: Final = "field.delim"
"""Parameter of the SerDe."""
_HIVE_DELIMITER: Final = "\u0001"
"""What stands between fields where a SerDe says nothing."""
_NO_OPTIONS: Final = frozenset(
    {
        *(_KIND, "EXTERNAL", *TRANSLATED, "comment", "COLUMN_STATS_ACCURATE"),
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


_HIVE_CLASSES: Final = "org.apache.hadoop.hive.ql.io"
_ORC: Final = f"{_HIVE_CLASSES}.orc"
_TEXT: Final = _Classes(
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    "org.apache.hadoop.mapred.TextInputFormat",
    f"{_HIVE_CLASSES}.HiveIgnoreKeyTextOutputFormat",
)
_CLASSES: Final[Mapping[str, _Classes]] = MappingProxyType(
    {
        "csv": _TEXT,
        "text": _TEXT,
        "json": _Classes("org.apache.hive.hcatalog.data.JsonSerDe", _TEXT.input_format, _TEXT.output_format),
        "parquet": _Classes(
            f"{_HIVE_CLASSES}.parquet.serde.ParquetHiveSerDe",
            f"{_HIVE_CLASSES}.parquet.MapredParquetInputFormat",
            f"{_HIVE_CLASSES}.parquet.MapredParquetOutputFormat",
        ),
        "orc": _Classes(f"{_ORC}.OrcSerde", f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat"),
    }
)


def new_format_table(
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
    found = bare_table(database, table, kept, owner=owner, is_external=is_external)
    own = {key.lower(): text for key, text in schema.options.items()}
    delimiter = next((own[key] for key in CSV_DELIMITERS if key in own), ",")  # Java: the first of the names alone
    serde = {_FIELD_DELIMITER: delimiter} if name == "csv" else {}
    found.sd.inputFormat, found.sd.outputFormat = classes.input_format, classes.output_format
    found.sd.serdeInfo = records().SerDeInfo(parameters=serde, serializationLib=classes.serde)
    set_columns(found, schema, schema.partition_keys)
    set_location(found, location, in_parameters=in_parameters)
    return found


def is_made_here(found: Any) -> bool:
    """Whether a record was made for a format table by Paimon, and not for a table of Hive's or Spark's own."""
    return str((found.parameters or {}).get(TYPE, "")).strip().lower() == FORMAT_TABLE


def format_schema_of(found: Any) -> TableSchema | None:
    """The schema of a table of plain files; None for any other record. Java: ``HiveTableUtils.tryToFormatSchema``."""
    name = None if is_paimon(found) or is_view(found) else _format_of(found)
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
            DataField(at, each.name, paimon_type(each.type), each.comment)
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
