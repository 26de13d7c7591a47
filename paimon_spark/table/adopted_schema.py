"""An external table that is made where a table lies: its definition must not contradict the schema that is there.

Java: ``SchemaManager.checkSchemaForExternalTable``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import SchemaError

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_OF_THE_NAME = ("owner", "path", "external", "EXTERNAL")
"""Options that belong to a name of the table, and may differ."""


def check_adopted(there: TableSchema, given: TableSchema) -> None:
    """Check that what a statement says of a table is what the table has.

    Raises:
        SchemaError: it says something else.
    """
    columns = [(field.name, field.type) for field in given.fields]
    if columns and columns != [(field.name, field.type) for field in there.fields]:
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
