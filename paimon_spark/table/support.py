"""What this version does not support: refused by name before the first byte is read or written.

Which options are refused says the table of options; here are the columns and the kinds of tables besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import Stage, refuse, without_governing
from paimon_spark.spec.data_types import BinaryType, BlobType, VarBinaryType, contains_type, holds_blobs
from paimon_spark.spec.iceberg.metadata import check_publishable
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable


def check_readable(schema: TableSchema) -> None:
    """Refuse a table (with its dynamic options) whose rows would be read wrongly.

    Raises:
        UnsupportedError: names the option and what to do.
    """
    refuse(schema.options, Stage.READ, Stage.TABLE)
    _check_types(schema)


def check_writable(schema: TableSchema) -> None:
    """Refuse a table that a write would damage or fill with other rows than asked for.

    Raises:
        UnsupportedError: names the option and what to do.
        OptionError: rows expire, but no column holds their time.
    """
    refuse(schema.options, Stage.WRITE, Stage.TABLE, Stage.COMMIT)
    _check_types(schema)
    check_publishable(schema)
    _check_partition_names(schema)
    _check_record_expiry(schema)


def check_new(schema: TableSchema) -> None:
    """Refuse a new table that could not be written and read, in whatever catalog it is made.

    Raises:
        UnsupportedError: names the option and what to do.
        OptionError: rows expire, but no column holds their time.
    """
    schema = schema.with_options(without_governing(schema.options))
    check_writable(schema)
    check_readable(schema)


def check_stored_branch(options: Mapping[str, str], branch: str = MAIN_BRANCH) -> None:
    """Refuse to keep the option `branch` in a table: Java would then read and write that branch by the table's name.

    Raises:
        UnsupportedError: the option names another branch.
    """
    named = options.get("branch", "").strip() or branch
    if named != branch:
        raise UnsupportedError(
            f"Option 'branch' = '{named}' is not kept in a table. Name the branch where it is read or written: "
            f"`t$branch_{named}` in SQL, or the option 'branch' of a load or save by path."
        )


def _check_record_expiry(schema: TableSchema) -> None:
    """Java: ``RecordLevelExpire.create``, when a writer is made."""
    options = schema.core_options
    expires = schema.kind.is_keyed and options.value("record-level.expire-time") is not None
    if expires and options.value("record-level.time-field") is None:
        raise OptionError(
            "You should set time field for record-level expire: set option 'record-level.time-field' to a column of "
            "type INT (seconds), BIGINT (seconds or milliseconds) or TIMESTAMP."
        )


def _check_partition_names(schema: TableSchema) -> None:
    """Java names such a directory by the address of an array, and never finds it again."""
    if not schema.core_options.partition_legacy_name:
        return
    for field in schema.partition_fields:
        if isinstance(field.type, BinaryType | VarBinaryType):
            raise UnsupportedError(
                f"Partition column '{field.name}' of type {field.type.sql()} has no stable directory names with "
                "'partition.legacy-name' = 'true'. Create the table with 'partition.legacy-name' = 'false', or "
                "partition by a text."
            )


def check_no_global_index(table: FileStoreTable, statement: str) -> None:
    """Refuse what gives rows another place where an index of the whole table names rows by their ids.

    With data evolution rows keep the ids of their files; then only the values of indexed columns matter.

    Raises:
        UnsupportedError: names the index.
    """
    if not table.options.row_tracking_enabled or table.schema.kind.has_data_evolution:
        return
    snapshot = table.snapshots.latest_to_follow()
    entries = () if snapshot is None else table.manifests.index_entries(snapshot)
    index = next((entry for entry in entries if entry.global_index is not None), None)
    if index is not None:
        raise UnsupportedError(
            f"{statement} is not supported for table {table.path}, which has a global index of type "
            f"{index.index_type}: the index would name other rows. Drop the index with another Paimon engine first."
        )


def _check_types(schema: TableSchema) -> None:
    for field in schema.fields:
        root = field.type.sql().split("(")[0].split(" ")[0]
        nested_blob = contains_type(field.type, BlobType) and not holds_blobs(field.type)
        if root in ("GEOMETRY", "GEOGRAPHY") or nested_blob:
            raise UnsupportedError(
                f"Column '{field.name}' has the type {root}, which is not supported yet. "
                "Read and write this table with another Paimon engine."
            )
