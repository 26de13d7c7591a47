"""What this version does not support: refused by name before the first byte is read or written.

Which options are refused says the table of options; here are the columns and the kinds of tables besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.options import Stage, refuse
from paimon_spark.options.advice import USE_ANOTHER_ENGINE
from paimon_spark.spec.data_types import BlobType, contains_type

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


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
    """
    refuse(schema.options, Stage.WRITE, Stage.TABLE, Stage.COMMIT)
    _check_types(schema)


def _check_types(schema: TableSchema) -> None:
    for field in schema.fields:
        root = field.type.sql().split("(")[0].split(" ")[0]
        nested_blob = not isinstance(field.type, BlobType) and contains_type(field.type, BlobType)
        if root in ("GEOMETRY", "GEOGRAPHY") or nested_blob or (root == "BLOB" and schema.primary_keys):
            raise UnsupportedError(
                f"Column '{field.name}' has the type {root}, which is not supported yet. {USE_ANOTHER_ENGINE}"
            )
