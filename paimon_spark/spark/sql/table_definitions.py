"""What CREATE, ALTER, RENAME and DROP of tables, databases and partitions mean, for both fronts.

A front reads the statement (Spark's objects, or tokens); what is refused, and what is made, is decided here.

REPLACE TABLE: a table loses its rows and gets another schema; its snapshots stay readable.

DROP PARTITION and TRUNCATE TABLE … PARTITION: a clause names values of some partition columns. A partition is there
when the table's own branch has files of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.types import DataType, StructField, StructType

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import OptionError, SchemaChangeError, UnsupportedError
from paimon_spark.metastore.opening import metastore_of
from paimon_spark.options import canonical_options, refuse_without_server
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spec.java_text import epoch_millis
from paimon_spark.spec.schema import FILE_FORMAT, FORMAT_TABLE, FORMATS, TYPE
from paimon_spark.spec.snapshot import Operation
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.metastore_catalog import MetastoreCatalog
from paimon_spark.table.new_schema import names_of
from paimon_spark.table.paths import is_path_name, plain_path
from paimon_spark.table.system.groups import partition_sums
from paimon_spark.table.table import create_table
from paimon_spark.table.two_branches import matching_partitions, own_partitions

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.schema_change import Path
    from paimon_spark.table.table import FileStoreTable

PRIMARY_KEY = "primary-key"
_NOT_COPIED = ("location", "path", "owner", "is_managed_location", "external", "table_type")


def format_of_provider(provider: str | None, options: Mapping[str, str], *, keeps_files: bool) -> str | None:
    """Return the format of the format table that a statement defines; None for a table of Paimon's.

    Args:
        provider: what it says behind USING.
        options: of the table: `type` = `format-table` says so too.
        keeps_files: whether the catalog keeps format tables (`keeps_format_tables`).

    Raises:
        UnsupportedError: the statement says USING something else, or the catalog keeps no such tables.
    """
    given = None if provider is None or provider.lower() == "paimon" else provider.lower()
    if given is None and options.get(TYPE, "").strip().lower() != FORMAT_TABLE:
        return None
    if not keeps_files and given is None:
        raise UnsupportedError(
            "This catalog currently does not support format tables ('type' = 'format-table'): use a catalog with "
            "'metastore' = 'rest' or 'hive' in which 'format-table.enabled' is not 'false', or a table of Spark's own, "
            "spark_catalog.<database>.<table>."
        )
    supported = ["paimon", *(FORMATS if keeps_files else ())]
    if given is not None and given not in supported:
        more = (
            ""
            if keeps_files
            else (
                " Catalogs with 'metastore' = 'rest' or 'hive' keep tables of plain files, too, the latter unless "
                "'format-table.enabled' = 'false'."
            )
        )
        raise UnsupportedError(
            f"Provider '{provider}' is not supported by a Paimon catalog. Supported providers: "
            f"[{', '.join(supported)}]. For a table of Spark's own name it whole: "
            f"spark_catalog.<database>.<table>{'.' if more else ''}{more}"
        )
    return given or options.get(FILE_FORMAT, "parquet").strip().lower()


def keeps_format_tables(catalog: FilesystemCatalog | None) -> bool:
    """Whether a catalog keeps tables of plain files: its metastore says so."""
    return isinstance(catalog, MetastoreCatalog) and catalog.metastore.keeps_format_tables


def location_option(catalog: str, options: Mapping[str, str], own: str, given: str | None) -> dict[str, str]:
    """Return the option that a LOCATION is: of a table elsewhere, in a catalog that takes one.

    Args:
        catalog: its name.
        options: of it.
        own: the directory that the table has without one.
        given: what the statement says; None for nothing.

    Raises:
        UnsupportedError: it is another directory, and the catalog has a place for each table.
    """
    if given is not None and plain_path(given) != plain_path(own):
        metastore = metastore_of(options)
        if metastore is not None and metastore.takes_locations:
            return {"path": given}
        raise UnsupportedError(
            f"The current catalog {catalog} does not support specifying the table path when creating a table: a table "
            f"of a warehouse has its own directory, here {own}. For a table elsewhere leave LOCATION out and name it "
            f"by its path: CREATE TABLE {catalog}.`{plain_path(given)}` …"
        )
    return {}


def keeps_locations(options: Mapping[str, str]) -> bool:
    """Whether the metastore of a catalog says where databases and tables lie, so that a statement may."""
    metastore = metastore_of(options)
    return metastore is not None and metastore.keeps_locations


def copied_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that CREATE TABLE LIKE copies."""
    return {key: value for key, value in options.items() if key not in _NOT_COPIED}


def create_named_table(
    catalog: FilesystemCatalog | None, database: str, name: str, schema: TableSchema, options: Mapping[str, str]
) -> None:
    """Make a table by its path, or by its name in a database.

    Args:
        catalog: None where the table is named by its path.
        database: ignored for a path.
        name: of the table, or its path.
        schema: its first schema.
        options: of the store.

    Raises:
        SchemaError: there is such a table.
    """
    if catalog is None or is_path_name(name):
        create_table(name, schema, options=options)
    else:
        catalog.create_table(database, name, schema)


def check_drop(name: str, shown: str) -> None:
    """Refuse to drop a branch, a system table, or a table that is named by its path.

    Raises:
        UnsupportedError: it is a branch, a system table, or named by its path.
    """
    if is_path_name(name):
        raise UnsupportedError(f"{shown} cannot be dropped: it is named by its path")
    if "$" in name:
        raise UnsupportedError(f"{shown} cannot be dropped: it is a branch or a system table of a table")


def check_rename(old: str, new: str, *, shown: tuple[str, str], same_catalog: bool) -> None:
    """Refuse a new name that a table of a warehouse cannot have, or a table that has no such name.

    Raises:
        UnsupportedError: one of them is a path, a branch or a system table, or they are of two catalogs.
    """
    if any(is_path_name(name) or "$" in name for name in (old, new)):
        raise UnsupportedError(f"{shown[0]} cannot be renamed to {shown[1]}")
    if not same_catalog:
        raise UnsupportedError(
            f"{shown[0]} cannot be renamed to {shown[1]}: Only supports operations within the same catalog, for a "
            "table cannot be renamed into another one"
        )


def key_option(columns: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """Return PRIMARY KEY (…) of a CREATE TABLE as the option of the table's key.

    Raises:
        OptionError: the options name another key.
    """
    given = next((value for name, value in options.items() if name.lower() == PRIMARY_KEY), None)
    if given is not None and list(names_of(given)) != list(columns):
        raise OptionError(
            f"PRIMARY KEY ({', '.join(columns)}) and the option '{PRIMARY_KEY}' = '{given}' name two keys: give one"
        )
    odd = next((name for name in columns if "," in name), None)
    if odd is not None:
        raise UnsupportedError(f"PRIMARY KEY cannot name the column '{odd}': there is a comma in it")
    return {PRIMARY_KEY: ",".join(columns)}


def unsupported_constraint(text: str) -> UnsupportedError:
    """The error of a constraint other than PRIMARY KEY."""
    return UnsupportedError(
        f"'{text}' is not supported: a Paimon table has a PRIMARY KEY, or TBLPROPERTIES ('primary-key' = …), and "
        "columns that are NOT NULL, and no other constraints"
    )


def option_key(columns: Sequence[str], key: str) -> str:
    """Return an option that ALTER TABLE sets or unsets in Paimon's spelling.

    Raises:
        SchemaChangeError: it is the primary key.
    """
    if key.lower() == PRIMARY_KEY:
        raise SchemaChangeError("Alter primary key is not supported")
    return next(iter(canonical_options({key: ""}, columns)))


def refuse_replaced_columns() -> NoReturn:
    """Refuse ALTER TABLE … REPLACE COLUMNS.

    Raises:
        SchemaChangeError: always.
    """
    raise SchemaChangeError(
        "ALTER TABLE REPLACE COLUMNS is not supported: columns with the old names would lose their values. "
        "Use ADD, DROP, RENAME and ALTER COLUMN"
    )


def refuse_added_default(path: Path) -> NoReturn:
    """Refuse ADD COLUMN … DEFAULT.

    Raises:
        SchemaChangeError: always.
    """
    raise SchemaChangeError(
        f"Cannot add column {'.'.join(path)} with default value: add it, then ALTER COLUMN … SET DEFAULT"
    )


def check_default_column(path: Path, columns: Sequence[str]) -> None:
    """Refuse a default of a field of a struct, or of a missing column.

    Raises:
        SchemaChangeError: it is a field of a struct, or there is no such column.
    """
    if len(path) > 1 or path[0] not in columns:
        raise SchemaChangeError(f"Only columns of the table can have a default, not {'.'.join(path)}")


def check_database_location(options: Mapping[str, str], path: str) -> None:
    """Refuse CREATE DATABASE … LOCATION, unless the catalog's metastore says where databases lie.

    Args:
        options: of the catalog.
        path: the directory that the database has without one.

    Raises:
        UnsupportedError: it does not.
    """
    if not keeps_locations(options):
        raise UnsupportedError(
            f"Cannot specify location for a database when using fileSystem catalog. Its directory is {path}"
        )


def column_of(name: str, data_type: str | DataType) -> DataField:
    """Return a column of a type of Spark, or of its text as in a definition: ``int NOT NULL COMMENT 'x'``."""
    if isinstance(data_type, DataType):
        return from_spark_struct(StructType([StructField(name, data_type)]))[0]
    struct = DataType.fromDDL(f"{quoted_name(name)} {data_type}")
    assert isinstance(struct, StructType)
    return from_spark_struct(struct)[0]


def replace_table(table: FileStoreTable, schema: TableSchema) -> None:
    """Empty a table and give it another schema; its snapshots stay readable. Runs on the driver.

    Raises:
        UnsupportedError: the partition columns would change.
    """
    old, new = list(table.schema.partition_keys), list(schema.partition_keys)
    if old != new:
        raise UnsupportedError(
            f"Cannot replace table {table.path}: replaceTable does not support changing partition keys (old={old}, "
            f"new={new}). Drop and re-create the table instead."
        )
    server = table.schemas.server
    if server is not None:
        server.replace(schema)
        forget(table.path)
        return
    refuse_without_server(schema.options)
    if table.snapshots.latest_id() is not None:
        commit(table, [], overwrite=OverwriteSpec.truncate(), operation=Operation.TRUNCATE)
    table.schemas.commit_next(lambda latest: replace(schema, id=latest.id + 1))


_LOG = logging.getLogger(__name__)
Values = Mapping[str, Any]
"""Values by partition column; columns that are left out have any value."""


def missing_clauses(table: FileStoreTable, clauses: Sequence[Values]) -> list[int]:
    """Return the positions of the clauses that name no partition with rows."""
    there = own_partitions(table)
    return [at for at, wanted in enumerate(clauses) if not matching_partitions(table, wanted, there)]


def missing_partitions(table: FileStoreTable, clauses: Sequence[Values]) -> list[int]:
    """Return the positions of the clauses that name a whole partition which has no rows: DROP PARTITION refuses them.

    Java: a clause that leaves out columns may match nothing.
    """
    keys = table.schema.partition_keys
    return [at for at in missing_clauses(table, clauses) if len(clauses[at]) == len(keys)]


def partition_counts(table: FileStoreTable, values: Values) -> dict[str, int] | None:
    """Return what is known of a whole partition by the names of Java's ``PartitionStatistics``; None without files."""
    for live, sums in partition_sums(table):
        directories = [live.partitions[number] for number in sums["partition"].to_pylist()]
        found = live.table.manifests.partition_batch(directories).to_pylist()
        for row, there in zip(sums.to_pylist(), found, strict=True):
            if there == values:
                return {
                    "fileCount": row["file_count"],
                    "fileSizeInBytes": row["file_size_in_bytes"],
                    "lastFileCreationTime": 0
                    if row["last_update_time"] is None
                    else epoch_millis(row["last_update_time"]),
                    "recordCount": row["record_count"],
                }
    return None


def add_partitions(table: FileStoreTable, clauses: Sequence[Values], *, located: bool) -> None:
    """Run ADD PARTITION, which adds nothing and logs a line: scripts written for Hive go on (Java does the same).

    Raises:
        UnsupportedError: it has.
    """
    if located:
        raise UnsupportedError(
            "ADD PARTITION … LOCATION is not supported for a Paimon table: its partitions have their directories in "
            "that of the table. INSERT the rows that lie elsewhere"
        )
    for values in clauses:
        named = ", ".join(f"{name}={value}" for name, value in values.items())
        _LOG.warning("%s: ADD PARTITION (%s) adds nothing: a partition is there once it has rows.", table.path, named)


def empty_partitions(table: FileStoreTable, clauses: Sequence[Values]) -> None:
    """Delete the rows of all partitions that clauses name, in one commit."""
    there = own_partitions(table)
    found: list[dict[str, Any]] = []
    for wanted in clauses:
        found += [values for values in matching_partitions(table, wanted, there) if values not in found]
    if found:
        from paimon_spark.maintain.row_level import truncate  # most statements do without it

        truncate(table, *found)
