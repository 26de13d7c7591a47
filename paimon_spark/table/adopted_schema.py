"""An external table that is made where a table lies: its definition must not contradict the schema that is there.

Java: ``SchemaManager.checkSchemaForExternalTable``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaError
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.paths import TablePaths
from paimon_spark.table.schema_store import SchemaStore

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_OF_THE_NAME = ("owner", "path", "external", "EXTERNAL")
"""Options that belong to a name of the table, and may differ."""


def columns_or_there(
    columns: Sequence[DataField], options: Mapping[str, str], store: Mapping[str, str]
) -> Sequence[DataField]:
    """The columns of a definition; of one without columns those of the table that lies at its option ``path``."""
    path = options.get("path", "").strip().rstrip("/")
    if columns or not path:
        return columns
    there = SchemaStore(confined(FileIO.for_path(path, dict(store)), path), TablePaths(path)).latest()
    return () if there is None else there.fields


def check_adopted(there: TableSchema, given: TableSchema) -> None:
    """Check that what a statement says of a table is what the table has.

    Raises:
        SchemaError: it says something else.
    """
    columns = [(field.name, field.type.sql()) for field in given.fields]  # whatever the ids of nested fields are
    if columns and columns != [(field.name, field.type.sql()) for field in there.fields]:
        raise SchemaError("New schema is not equal to exists schema: the table that lies there has other columns.")
    for key, ours, theirs in (
        ("partition", given.partition_keys, there.partition_keys),
        ("primary-key", given.primary_keys, there.primary_keys),
    ):
        if ours and ours != theirs:
            raise SchemaError(
                f"New schema is not equal to exists schema: '{key}' is {','.join(ours)}, and "
                f"{','.join(theirs) or 'empty'} of the table that lies there."
            )
    for key, value in given.options.items():
        if key not in _OF_THE_NAME and there.options.get(key) != value:
            raise SchemaError(
                f"New schema's options are not equal to the exists schema's: '{key}' = '{value}', and "
                f"{there.options.get(key, 'not set')} of the table that lies there."
            )
