"""REPLACE TABLE: a table loses its rows and gets another schema; its snapshots stay readable."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.snapshot import Operation

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable


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
        return
    if table.snapshots.latest_id() is not None:
        commit(table, [], overwrite=OverwriteSpec.truncate(), operation=Operation.TRUNCATE)
    table.schemas.commit_next(lambda latest: replace(schema, id=latest.id + 1))
