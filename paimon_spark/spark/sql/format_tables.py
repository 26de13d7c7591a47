"""Tables of plain files, which Spark's own sources read and write: with which options, and how a write replaces files.

The options of Spark's sources are those of the table, with Paimon's names for them translated as the official connector
does (``FormatTableCatalog``). A write goes to a hidden directory first. When all its files are there they are moved to
their places, and then the files that they replace are deleted: a query that fails changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spec.java_text import escape_path_name, partition_value_text
from paimon_spark.spec.schema import CSV_DELIMITERS, is_format_table
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.storage.file_io import FsspecFileIO
from paimon_spark.storage.hadoop_options import FILE_SYSTEM_JARS, hadoop_options
from paimon_spark.storage.store_options import FSSPEC_SCHEME, scheme_of
from paimon_spark.table.format_table import FormatTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.format_table import FormatPartition
    from paimon_spark.table.table import FileStoreTable

_CSV: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "sep": (CSV_DELIMITERS, ","),
    "lineSep": (("csv.line-delimiter", "lineSep"), "\n"),
    "quote": (("csv.quote-character", "quote"), '"'),
    "escape": (("csv.escape-character", "escape"), "\\"),
    "header": (("csv.include-header", "header"), "false"),
    "nullValue": (("csv.null-literal", "nullValue"), ""),
    "mode": (("csv.mode", "mode"), "PERMISSIVE"),
}
_TEXT: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {"lineSep": (("text.line-delimiter", "lineSep"), "\n")}
_COMPRESSION: Final = ("file.compression", "format-table.file.compression", "compression")
_NO_FILE_SYSTEM: Final = ("ClassNotFoundException", "No FileSystem for scheme")
_DEFAULT_COMPRESSION: Final = {"parquet": "snappy", "orc": "zstd"}


def source_options(table: FormatTable) -> dict[str, str]:
    """The options with which Spark's source of the format reads the files."""
    own = {key.lower(): text for key, text in table.schema.options.items()}
    found = {key: text for key, text in table.schema.options.items() if key != "path"}
    named = {"csv": _CSV, "text": _TEXT}.get(table.format, {})
    for key, (names, default) in named.items():
        given = next((own[name.lower()] for name in names if name.lower() in own), default)
        found = {name: text for name, text in found.items() if name.lower() != key.lower()}
        found[key] = given
    return {**found, **_store_options(table)}


def write_options(table: FormatTable) -> dict[str, str]:
    """The options with which Spark's source of the format writes files."""
    own = table.schema.options
    default = _DEFAULT_COMPRESSION.get(table.format, "none")
    compression = next((own[key] for key in _COMPRESSION if own.get(key)), default)
    return {**source_options(table), "compression": compression}


def _store_options(table: FormatTable) -> dict[str, str]:
    """Settings of Hadoop for the store of the table; none where the session's own count."""
    inner = table.file_io.now
    if not isinstance(inner, FsspecFileIO):
        return {}
    given = inner.storage_options if inner.session is None else inner.session.given
    bucket = table.path.partition("://")[2].partition("/")[0]
    found = hadoop_options(inner.scheme, given, {bucket})
    if found is None:
        raise UnsupportedError(
            f"Spark's own sources read and write format table {table.path}, and cannot be given the options of its "
            "store: set them in the session (spark.hadoop.fs.…) instead."
        )
    uncached = f"fs.{scheme_of(spark_path(table.path))}.impl.disable.cache"  # a kept one has the session's settings
    return {**found, uncached: "true"} if found else {}


def spark_path(path: str) -> str:
    """A path as Hadoop knows it."""
    scheme = scheme_of(path)
    return f"s3a{path[len(scheme) :]}" if scheme in ("s3", "s3n") else path


def store_missing(table: FormatTable) -> UnsupportedError:
    """The error of a session whose Hadoop has no file system of a table's store."""
    scheme = scheme_of(table.path)
    jars = FILE_SYSTEM_JARS.get(FSSPEC_SCHEME.get(scheme, scheme), f"Hadoop's file system of {scheme}://")
    return UnsupportedError(
        f"Spark's own sources read and write format table {table.path}, and Hadoop in Spark's JVM has no file system "
        f"of {scheme}://: add {jars} to the session (spark.jars.packages), with Connect to its server."
    )


@contextmanager
def _of_store(table: FormatTable) -> Iterator[None]:
    """Say what to add where Spark finds no file system of the table's store."""
    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in _NO_FILE_SYSTEM):
            raise store_missing(table) from error
        raise


def _loaded(reader: DataFrameReader, table: FormatTable, path: str) -> DataFrame:
    with _of_store(table):
        found = reader.load(spark_path(path))
        if is_on_store(table):
            _ = found.schema  # Connect looks for the files no earlier
    return found


def is_on_store(table: FormatTable) -> bool:
    """Whether a table is not on a disk, so that Hadoop needs a file system for it."""
    return scheme_of(table.path) not in ("", "file")


def plain_struct(table: FormatTable) -> StructType:
    """The columns as Spark's sources take them: text without a length."""
    return to_spark_struct(table.schema.fields)


def rows_of(spark: SparkSession, table: FormatTable) -> DataFrame:
    """The rows of a table, by Spark's own source, on any session."""
    struct, keys = plain_struct(table), [field.name for field in table.partition_fields]
    data = StructType([field for field in struct.fields if field.name not in keys])
    reader = spark.read.format(table.format).options(**source_options(table)).schema(data)
    if not keys:
        return _loaded(reader, table, table.path) if table.files() else spark.createDataFrame([], struct)
    found: DataFrame | None = None
    for partition in table.partitions():
        if not table.files(partition.path):
            continue
        values = [
            sf.lit(value).cast(struct[key].dataType).alias(key)
            for key, value in zip(keys, partition.values, strict=True)
        ]
        read = _loaded(reader, table, partition.path).select("*", *values)
        rows = read.select(*(quoted_name(name) for name in struct.names))
        found = rows if found is None else found.unionAll(rows)
    return spark.createDataFrame([], struct) if found is None else found


Replaced = Callable[[Sequence[str]], Sequence[str]]
"""Given the directories that get files, says which files go. An append has none."""


def everything(table: FormatTable) -> Replaced:
    """An overwrite of the whole table; where a catalog keeps the partitions, of those that it knows."""
    if table.server is None:
        return lambda _: table.files()
    return lambda homes: _files_in(table, [*(each.path for each in table.partitions()), *table.same_partitions(homes)])


def _files_in(table: FormatTable, folders: Sequence[str]) -> list[str]:
    return [file for folder in dict.fromkeys(folders) for file in table.files(folder)]


def written_partitions(table: FormatTable) -> Replaced:
    """An overwrite of the partitions that appear in the rows."""
    if not table.partition_fields:
        return everything(table)
    return lambda homes: _files_in(table, table.same_partitions(homes))


def where(table: FormatTable, condition: Predicate) -> Replaced:
    """An overwrite of the partitions for which a condition is true, whether or not a catalog knows them."""
    return lambda _: _files_in(table, [each.path for each in table.matching(condition)])


def write_rows(table: FormatTable, rows: DataFrame, replaced: Replaced | None = None) -> None:
    """Write rows, whose columns are those of the table in its order; without ``replaced`` they are added."""
    staged = f"{table.path}/.staging-{uuid.uuid4()}"
    keys = [field.name for field in table.partition_fields]
    writer = rows.toDF(*table.schema.field_names).write.format(table.format).options(**write_options(table))
    done = False
    try:
        with _of_store(table):
            (writer.partitionBy(*keys) if keys else writer).mode("append").save(spark_path(staged))
        table.take_in(staged, replaced)
        done = True
    finally:
        if not done:
            table.file_io.delete_quietly(staged, recursive=True)


def shown_partitions(table: FormatTable, partitions: Sequence[FormatPartition]) -> list[str]:
    """What SHOW PARTITIONS shows of partitions, sorted."""
    fields = table.partition_fields
    return sorted(
        {
            "/".join(
                f"{escape_path_name(field.name)}="
                + escape_path_name(partition_value_text(value, field.type, legacy=False, default_name="null"))
                for field, value in zip(fields, partition.values, strict=True)
            )
            for partition in partitions
        }
    )


def file_counts(table: FormatTable, values: Mapping[str, Any]) -> dict[str, int] | None:
    """How many files and bytes a partition has; None where there is no such partition."""
    names = [field.name for field in table.partition_fields]
    found = [each.path for each in table.partitions() if dict(zip(names, each.values, strict=True)) == values]
    files = [file for path in found for file in table.files(path)]
    return {"fileCount": len(files), "fileSizeInBytes": sum(map(table.file_io.size, files))} if found else None


def of_catalog(table: FormatTable, statement: str) -> FormatTable:
    """Return a table whose partitions a catalog keeps.

    Raises:
        UnsupportedError: directories say which there are.
    """
    if table.server is None:
        raise UnsupportedError(
            f"{statement} is not supported for format table {table.path}: its directories say which partitions there "
            "are. INSERT makes them; TRUNCATE TABLE … PARTITION empties them. A REST catalog keeps partitions with "
            "'metastore.partitioned-table' = 'true'."
        )
    return table


def refuse_location() -> UnsupportedError:
    """The error of ADD PARTITION … LOCATION."""
    return UnsupportedError("ADD PARTITION … LOCATION is not supported for a format table: its partitions lie in it.")


def repair_partitions(table: FileStoreTable, *, adds: bool, drops: bool) -> None:
    """MSCK REPAIR TABLE: let the catalog know which partitions have directories.

    Raises:
        UnsupportedError: it keeps none of the table.
    """
    if not is_format_table(table.schema):
        raise UnsupportedError(
            f"MSCK REPAIR TABLE is not supported for the Paimon table at {table.path}: its snapshots say which "
            "partitions there are. CALL sys.repair tells a metastore of a table."
        )
    of_catalog(FormatTable.of(table), "MSCK REPAIR TABLE").repair(adds=adds, drops=drops)
