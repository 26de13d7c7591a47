"""What becomes of a key that comes with another partition, by merge engine.

Java: ``ExistingProcessor.create``.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


class KeyRule(Enum):
    """What is done with a new row whose key is in another partition."""

    DELETE_OLD = "the old row is deleted in its partition"
    USE_OLD = "the new row goes to the old partition"
    SKIP_NEW = "the new row is left out"


def key_rule(schema: TableSchema) -> KeyRule:
    """The rule of the table's merge engine."""
    engine = schema.core_options.merge_engine
    if engine == "deduplicate":
        return KeyRule.DELETE_OLD
    return KeyRule.SKIP_NEW if engine == "first-row" else KeyRule.USE_OLD


def needs_shuffle(schema: TableSchema) -> UnsupportedError:
    """The error of a write that cannot bring the rows of a key together."""
    return UnsupportedError(
        f"The primary key {', '.join(schema.primary_keys)} lacks partition columns "
        f"({', '.join(schema.partition_keys)}), so rows of one key must come together before they are written, which "
        f"a save by format('paimon') cannot ask this session for. Write with PaimonTable.for_path(spark, path).append("
        f"df) or .overwrite(df), or with INSERT INTO by paimon_spark.sql; in a stream, do so in foreachBatch."
    )
