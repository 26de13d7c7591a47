"""What an overwrite replaces where a condition over partition columns names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.errors import OptionError
from paimon_spark.spec.predicate import Leaf, Predicate, fields, split_and

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def overwrite_where(condition: Predicate, table: FileStoreTable, what: str) -> OverwriteSpec:
    """The overwrite of the partitions for which a condition is true.

    Args:
        condition: over partition columns.
        table: whose partitions.
        what: what gave the condition, for the message.

    Raises:
        OptionError: the condition is about other columns.
    """
    check_partition_condition(condition, table, what)
    spec = _partition_of(condition)
    return OverwriteSpec.matching(condition) if spec is None else OverwriteSpec.static(spec)


def check_partition_condition(condition: Predicate, table: FileStoreTable, what: str) -> None:
    """Refuse a condition about columns that are no partition columns.

    Raises:
        OptionError: it is about other columns, which the message names after `what`.
    """
    keys = table.schema.partition_keys
    others = sorted(fields(condition) - set(keys))
    if others or not keys:
        raise OptionError(
            f"{what} replaces whole partitions, so it is about partition columns only, as \"dt = '2024-01-31'\" is; "
            f"{', '.join(others) or 'there'} is none ({table.path} is partitioned by: {', '.join(keys) or 'nothing'})"
        )


def _partition_of(condition: Predicate) -> dict[str, Any] | None:
    """The values of one partition (or of all with these values), when the condition says no more than that."""
    values: dict[str, Any] = {}
    for part in split_and(condition):
        if not isinstance(part, Leaf) or part.op not in ("eq", "eq_null_safe", "is_null") or part.field in values:
            return None
        values[part.field] = part.literals[0] if part.literals else None
        if part.op == "eq" and values[part.field] is None:
            return None  # = NULL is never true
    return values or None
