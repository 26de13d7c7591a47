"""Records of a Hive metastore for Paimon tables, as Java's ``HiveCatalog`` makes and reads them."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_spark.errors import UnsupportedError
from paimon_spark.metastore.hive_client import records
from paimon_spark.spec import data_types as types
from paimon_spark.spec.java_text import escape_path_name
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.type_parser import parse_type_sql

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
