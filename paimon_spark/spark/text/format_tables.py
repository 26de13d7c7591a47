"""Statements of this engine about tables of plain files, which Spark's own sources read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.session.overwrite_mode import Named, asks_for_dynamic, is_dynamic_overwrite
from paimon_spark.spark.sql import format_tables as files
from paimon_spark.spark.sql.inserted_rows import Insert, InsertTarget, inserted_rows, literals_of, static_values
from paimon_spark.spark.sql.warehouses import analysis_error
from paimon_spark.spec.predicate import Leaf, Predicate, all_of
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.format_table import FormatTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.spark.sql.warehouses import TableName
    from paimon_spark.spark.statements.cursor import Cursor
    from paimon_spark.spark.text.context import Context
    from paimon_spark.table.format_table import FormatPartition
    from paimon_spark.table.table import FileStoreTable


def rows_of_files(
    spark: SparkSession, name: TableName, table: FileStoreTable, options: Mapping[str, str]
) -> DataFrame | None:
    """The rows of a format table; None for a table of Paimon's.

    Raises:
        UnsupportedError: options ask for a version, or for a branch.
    """
    if not is_format_table(table.schema):
        return None
    if "$" in name.table or options:
        raise UnsupportedError(
            f"{'.'.join(name.parts)} is a format table: it has files, but no snapshots, versions, branches, system "
            "tables and options of a read."
        )
    return files.rows_of(spark, FormatTable.of(table))


def insert_into_files(
    context: Context, name: TableName, table: FileStoreTable, insert: Insert, rows: DataFrame
) -> None:
    """Write the rows of a query into a format table as an INSERT says."""
    into = InsertTarget(name.parts, table.schema, context.settings, {})
    ansi = str(context.spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    ready = inserted_rows(into, insert, rows, ansi=ansi)
    found = FormatTable.of(table)
    replaced: files.Replaced | None = None
    if insert.replace_where is not None:
        raise UnsupportedError("INSERT … REPLACE is not supported for a format table: name the PARTITION.")
    if insert.overwrite:
        static = static_values(into, insert)
        named = Named.PARTITION if static else Named.NOTHING
        if is_dynamic_overwrite(asks_for_dynamic(insert.options), context.settings, named=named):
            replaced = files.written_partitions(found)
        elif static:
            replaced = files.where(found, _condition(literals_of(static, ready)))
        else:
            replaced = files.everything(found)
    names = table.schema.field_names
    files.write_rows(found, ready.select(*(ready[quoted_name(column)] for column in names)), replaced)


def _condition(values: Mapping[str, Any]) -> Predicate:
    return all_of(
        Leaf("is_null", column) if value is None else Leaf("eq", column, (value,)) for column, value in values.items()
    )


def shown_partitions(table: FileStoreTable, wanted: Mapping[str, Any]) -> list[str]:
    """What SHOW PARTITIONS shows of a format table."""
    found = FormatTable.of(table)
    return files.shown_partitions(found, chosen(found, wanted))


def chosen(table: FormatTable, wanted: Mapping[str, Any]) -> list[FormatPartition]:
    """The partitions whose columns have some values."""
    return _chosen(table, table.partitions(), wanted)


def _chosen(table: FormatTable, there: Sequence[FormatPartition], wanted: Mapping[str, Any]) -> list[FormatPartition]:
    names = [field.name for field in table.partition_fields]
    return [each for each in there if wanted.items() <= dict(zip(names, each.values, strict=True)).items()]


def truncate_files(table: FileStoreTable, wanted: Mapping[str, Any] | None, clause: str) -> None:
    """TRUNCATE TABLE of a format table: the files go, the directories stay.

    Raises:
        AnalysisException: a clause that names all columns names no partition.
    """
    found = FormatTable.of(table)
    partitions = None if wanted is None else chosen(found, wanted)
    if wanted is not None and not partitions and len(wanted) == len(found.partition_fields):
        raise analysis_error("PARTITIONS_NOT_FOUND", f"The partition PARTITION ({clause}) cannot be found.")
    found.truncate(partitions)


def add_partitions_of_files(table: FileStoreTable, wanted: Sequence[Mapping[str, Any]], *, tolerant: bool) -> None:
    """ADD PARTITION of a format table.

    Raises:
        UnsupportedError: no catalog keeps its partitions.
        SchemaError: the catalog knows one of them, and `tolerant` is not given.
    """
    files.of_catalog(FormatTable.of(table), "ADD PARTITION").add_partitions(wanted, tolerant=tolerant)


def drop_partitions_of_files(
    table: FileStoreTable, wanted: Sequence[Mapping[str, Any]], specs: Sequence[Cursor], *, tolerant: bool
) -> None:
    """DROP PARTITION of a format table, with the files.

    Raises:
        UnsupportedError: no catalog keeps its partitions.
        AnalysisException: a clause that names all columns names no partition, and `tolerant` is not given.
    """
    found = files.of_catalog(FormatTable.of(table), "DROP PARTITION")
    keys, there = found.schema.partition_keys, found.partitions()
    parts = [_chosen(found, there, values) for values in wanted]
    for values, spec, some in zip(wanted, specs, parts, strict=True):
        if not some and not tolerant and len(values) == len(keys):
            raise analysis_error("PARTITIONS_NOT_FOUND", f"The partition PARTITION ({spec.source()}) cannot be found.")
    found.drop_partitions(list({each.path: each for some in parts for each in some}.values()))
