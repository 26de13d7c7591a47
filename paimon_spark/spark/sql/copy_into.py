"""COPY INTO a table, and COPY INTO a location: what the statements do, for every front.

Files are read and written by Spark's own sources. A table remembers which files it has loaded, below its directory in
``copy-into/history``, as Java does (``CopyLoadHistoryManager``).
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from paimon_spark.errors import OptionError, PaimonError, SchemaError
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.sql.column_defaults import default_sql
from paimon_spark.spark.sql.procedures.procedure import INT, LONG, ResultColumn
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.store_options import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from paimon_spark.spark.statements.table_statements import CopyFormat, CopyIntoLocation, CopyIntoTable
    from paimon_spark.table.table import FileStoreTable

LOADED = (
    ResultColumn("file_name", nullable=False),
    ResultColumn("status", nullable=False),
    ResultColumn("rows_loaded", LONG, nullable=False),
    ResultColumn("rows_parsed", LONG, nullable=False),
    ResultColumn("errors_seen", LONG, nullable=False),
    ResultColumn("first_error"),
)
"""Columns of COPY INTO a table: a row for each file."""
WRITTEN = (
    ResultColumn("output_path"),
    ResultColumn("file_count", INT),
    ResultColumn("rows_written", LONG),
)
"""Columns of COPY INTO a location: one row."""
_LOG = logging.getLogger(__name__)
_IMPORT: Final[Mapping[str, Mapping[str, str]]] = {
    "CSV": {
        "FIELD_DELIMITER": "sep", "QUOTE": "quote", "ESCAPE": "escape", "COMPRESSION": "compression",
        "SKIP_HEADER": "header", "NULL_IF": "", "EMPTY_FIELD_AS_NULL": "",
    },
    "JSON": {"MULTI_LINE": "multiLine", "COMPRESSION": "compression", "NULL_IF": "", "EMPTY_FIELD_AS_NULL": ""},
    "PARQUET": {"COMPRESSION": "compression"},
}  # fmt: skip
_EXPORT: Final[Mapping[str, Mapping[str, str]]] = {
    "CSV": {
        "FIELD_DELIMITER": "sep", "HEADER": "header", "QUOTE": "quote", "ESCAPE": "escape",
        "COMPRESSION": "compression",
    },
    "JSON": {"COMPRESSION": "compression", "DATE_FORMAT": "dateFormat", "TIMESTAMP_FORMAT": "timestampFormat"},
    "PARQUET": {"COMPRESSION": "compression"},
}  # fmt: skip
_FILE, _CORRUPT, _CAST = "__paimon_spark_file", "__paimon_spark_corrupt", "__paimon_spark_cast_"
_HISTORY: Final = "copy-into/history"
Result = tuple[str, str, int, int, int, str | None]
"""File, status, rows loaded, rows parsed, errors seen, the first error."""


def _spark_options(given_format: CopyFormat, *, writes: bool) -> dict[str, str]:
    """The options of Spark's source.

    Raises:
        OptionError: the format or an option is not supported.
    """
    if given_format.type not in _IMPORT:
        raise OptionError(f"Unsupported file format type: {given_format.type}. Supported types: CSV, JSON, PARQUET")
    known, what = (_EXPORT, "export") if writes else (_IMPORT, "import")
    given = [*given_format.options, *(["NULL_IF"] if given_format.null_if else [])]
    unknown = [key for key in given if key not in known[given_format.type]]
    if unknown:
        raise OptionError(f"Unsupported FILE_FORMAT options for {what}: {', '.join(unknown)}")
    skip = given_format.options.get("SKIP_HEADER", "0")
    if skip not in ("0", "1"):
        raise OptionError(f"SKIP_HEADER supports only 0 or 1, got: {skip}")
    names = known[given_format.type]
    found = {names[key]: text for key, text in given_format.options.items() if names[key]}
    if "SKIP_HEADER" in given_format.options:
        found["header"] = "true" if skip == "1" else "false"
    return found


@dataclass(frozen=True)
class _Source:
    name: str
    path: str
    size: int
    modified_millis: int

    @property
    def uri(self) -> str:
        """As Hadoop writes it, which is what Java keeps."""
        return self.path if scheme_of(self.path) else f"file:{self.path}"


def copy_into_location(rows: DataFrame, statement: CopyIntoLocation) -> list[tuple[Any, ...]]:
    """Write rows as files; return the row that the statement shows: location, files, rows.

    Raises:
        OptionError: the format or an option is not supported.
        AnalysisException: something is there, and `overwrite` is not given.
    """
    location, kind = statement.location, statement.file_format.type.lower()
    options, written = _spark_options(statement.file_format, writes=True), Observation()
    mode = "overwrite" if statement.overwrite else "error"
    counted = rows.observe(written, sf.count(sf.lit(1)).alias("rows"))
    counted.write.format(kind).options(**options).mode(mode).save(location)
    store = FileIO.for_path(location, {})
    files = [entry for entry in store.list_names(location.rstrip("/")) if entry.name.startswith("part-")]
    return [(location, len(files), int(written.get["rows"]))]


def copy_into_table(
    spark: SparkSession,
    table: FileStoreTable,
    statement: CopyIntoTable,
    append: Callable[[DataFrame], object],
) -> list[Result]:
    """Load files into a table in one commit; return a row for each file.

    Raises:
        OptionError: the format or an option is not supported.
        SchemaError: the list of columns does not fit the table.
        PaimonError: a row cannot be read, and ON_ERROR is ABORT_STATEMENT; nothing is loaded.
    """
    options = _spark_options(statement.file_format, writes=False)
    targets = _targets(table, statement.columns)
    found = _files(table, statement)
    done = [] if statement.force else [each for each in found if _is_loaded(table, each)]
    wanted = [each for each in found if each not in done]
    results: list[Result] = []
    if wanted:
        frame = _checked(spark, table, statement.file_format, targets, [each.path for each in wanted], options).cache()
        try:
            results = _load(table, statement, frame, wanted, append)
        finally:
            frame.unpersist()
        loaded = {name: rows for name, status, rows, *_ in results if status in ("LOADED", "PARTIALLY_LOADED")}
        for each in wanted:
            if each.name in loaded:
                _remember(table, each, table.snapshots.latest_id(), loaded[each.name])
    return [*results, *((each.name, "SKIPPED", 0, 0, 0, None) for each in done)]


def _targets(table: FileStoreTable, columns: Sequence[str] | None) -> list[str]:
    names = {name.lower(): name for name in table.schema.field_names}
    if columns is None:
        return list(names.values())
    lower = [column.lower() for column in columns]
    twice = next((column for column in columns if lower.count(column.lower()) > 1), None)
    if twice is not None:
        raise SchemaError(f"Duplicate columns in column list: {twice}")
    unknown = next((column for column in columns if column.lower() not in names), None)
    if unknown is not None:
        raise SchemaError(
            f"Column '{unknown}' does not exist in target table. Available columns: {', '.join(names.values())}"
        )
    for each in table.schema.fields:
        if each.name.lower() not in lower and not each.type.nullable and each.default_value is None:
            raise SchemaError(f"Non-nullable column '{each.name}' is not in the column list and has no default value")
    return [names[column] for column in lower]


def _files(table: FileStoreTable, statement: CopyIntoTable) -> list[_Source]:
    location = statement.source.rstrip("/")
    store = FileIO.for_path(location, {})
    if not store.exists(location):
        raise PaimonError(f"COPY INTO cannot load files from {location}: there is no such directory.")
    pattern = None if statement.pattern is None else re.compile(statement.pattern)
    found = [
        _Source(entry.name, f"{location}/{entry.name}", entry.size, entry.mtime_millis)
        for entry in store.list_names(location)
        if not entry.is_dir and not entry.name.startswith((".", "_"))
    ]
    return sorted((each for each in found if pattern is None or pattern.search(each.name)), key=lambda each: each.name)


def _checked(
    spark: SparkSession,
    table: FileStoreTable,
    file_format: CopyFormat,
    targets: Sequence[str],
    paths: Sequence[str],
    options: Mapping[str, str],
) -> DataFrame:
    """The rows of files in the types of the table, with the file, and whether the row could be parsed and cast."""
    kind, struct = file_format.type.lower(), to_spark_struct(table.schema.fields)
    reader = spark.read.format(kind).options(**options)
    if kind == "parquet":
        read = reader.load(list(paths)).select("*", sf.col("_metadata.file_name").alias(_FILE))
        own = {name.lower(): sf.col(quoted_name(name)) for name in read.columns}
        corrupt: Column = sf.lit(False)
    else:
        names = [f"_c{at}" for at in range(len(targets))] if kind == "csv" else list(targets)
        text = [StructField(name, StringType()) for name in (*names, _CORRUPT)]
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
        read = reader.schema(StructType(text)).load(list(paths)).select("*", sf.col("_metadata.file_name").alias(_FILE))
        own = {
            target.lower(): _with_nulls(sf.col(quoted_name(name)), file_format)
            for target, name in zip(targets, names, strict=True)
        }
        corrupt = sf.col(_CORRUPT).isNotNull()
    values, casts = [], []
    for each, column in zip(table.schema.fields, struct.fields, strict=True):
        default = default_sql(each)
        given = own.get(column.name.lower())
        if column.name not in targets:
            given = sf.lit(None) if default is None else sf.expr(default)
        elif given is not None:
            casts.append(sf.when(given.isNotNull() & given.try_cast(column.dataType).isNull(), column.name))
        value = sf.lit(None) if given is None else given
        values.append(value.try_cast(column.dataType).alias(column.name))
    failed = sf.coalesce(*casts) if casts else sf.lit(None).cast("string")
    return read.select(*values, sf.col(_FILE), corrupt.alias(_CORRUPT), failed.alias(_CAST))


def _with_nulls(column: Column, file_format: CopyFormat) -> Column:
    if file_format.null_if:
        column = sf.when(~column.isin(*file_format.null_if), column)
    if file_format.options.get("EMPTY_FIELD_AS_NULL", "").upper() == "TRUE":
        column = sf.when(column != "", column)
    return column


def _load(
    table: FileStoreTable,
    statement: CopyIntoTable,
    frame: DataFrame,
    wanted: Sequence[_Source],
    append: Callable[[DataFrame], object],
) -> list[Result]:
    is_bad = sf.col(_CORRUPT) | sf.col(_CAST).isNotNull()
    counted = frame.groupBy(_FILE).agg(
        sf.count("*"), sf.count_if(is_bad), sf.count_if(sf.col(_CORRUPT)), sf.first(_CAST, ignorenulls=True)
    )
    counts = {name: (int(rows), int(bad), int(torn), cast) for name, rows, bad, torn, cast in counted.collect()}
    errors = {name: _error(torn, cast) for name, (_, bad, torn, cast) in counts.items() if bad}
    if errors and statement.on_error == "ABORT_STATEMENT":
        name, error = sorted(errors.items())[0]
        raise PaimonError(f"COPY INTO is aborted and nothing is loaded: file {name}: {error}")
    good = frame.where(~is_bad)
    whole = statement.on_error == "SKIP_FILE"
    if errors and whole:
        good = good.where(~sf.col(_FILE).isin(*errors))
    append(good.select(*(quoted_name(name) for name in table.schema.field_names)))
    results: list[Result] = []
    for each in wanted:
        rows, bad, _, _ = counts.get(each.name, (0, 0, 0, None))
        loaded = 0 if bad and whole else rows - bad
        status = "LOADED" if not bad else "LOAD_FAILED" if not loaded else "PARTIALLY_LOADED"
        results.append((each.name, status, loaded, rows, bad, errors.get(each.name)))
    return results


def _error(torn: int, cast: str | None) -> str:
    if torn:
        return "Malformed record: a row has other columns than the table, or is broken."
    return f"Cast failure in column '{cast}'. Source data contains values that cannot be converted to the target type."


def _prefix(each: _Source) -> str:
    return f"load-{hashlib.sha256(each.uri.encode()).hexdigest()[:16]}-"


def _is_loaded(table: FileStoreTable, each: _Source) -> bool:
    folder = f"{table.path}/{_HISTORY}"
    for entry in table.file_io.list_names(folder):
        if not entry.name.startswith(_prefix(each)):
            continue
        try:
            record = json.loads(table.file_io.read_bytes(f"{folder}/{entry.name}"))
            if (int(record["fileSize"]), int(record["lastModified"])) == (each.size, each.modified_millis):
                return True
        except (ValueError, KeyError, TypeError):
            _LOG.warning("The load history %s/%s cannot be read: its file counts as not loaded.", folder, entry.name)
    return False


def _remember(table: FileStoreTable, each: _Source, snapshot_id: int | None, rows: int) -> None:
    now = int(time.time() * 1000)
    record = {
        "filePath": each.uri,
        "fileSize": each.size,
        "lastModified": each.modified_millis,
        "loadedAt": now,
        "snapshotId": snapshot_id or 0,
        "rowsLoaded": rows,
    }
    path = f"{table.path}/{_HISTORY}/{_prefix(each)}{now}"
    table.file_io.write_bytes(path, json.dumps(record).encode(), overwrite=True)
