"""What INSERT OVERWRITE, REPLACE WHERE and ``writeTo().overwrite(condition)`` replace, as options of our source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.commit.overwrite_condition import check_partition_condition
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.catalog.pushed_expressions import to_predicate, tree_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.session.overwrite_mode import overwrite_option
from paimon_spark.spark.source.source_options import REPLACE_WHERE
from paimon_spark.spec.filter_text import filter_text
from paimon_spark.spec.predicate import Predicate, all_of

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


def overwrite_options(gateway: Gateway, table: FileStoreTable, predicates: Sequence[JavaObject]) -> dict[str, str]:
    """The options of a write that replaces the partitions for which all of Spark's predicates are true.

    Raises:
        OptionError: a predicate is about columns that are no partition columns.
        UnsupportedError: a predicate cannot be evaluated for partitions.
    """
    condition = partition_condition(gateway, table, predicates, "An overwrite")
    return {**overwrite_option(dynamic=False), REPLACE_WHERE: filter_text(condition)}


def partition_condition(
    gateway: Gateway, table: FileStoreTable, predicates: Sequence[JavaObject], what: str
) -> Predicate:
    """Return Spark's predicates as one Paimon predicate; it must be about partition columns only.

    Args:
        gateway: the JVM.
        table: whose partitions.
        predicates: V2 predicates, all of which must be true.
        what: does the replacing, for messages.

    Raises:
        OptionError: a predicate is about columns that are no partition columns.
        UnsupportedError: a predicate cannot be evaluated for partitions.
    """
    parts = []
    for predicate in predicates:
        part = to_predicate(tree_of(gateway, predicate), table.schema.fields)
        if part is None:
            raise UnsupportedError(
                f"{what} where {predicate.toString()} is not supported: compare partition columns with literals "
                f"(=, <>, <, <=, >, >=, IN, IS NULL, LIKE 'a%', AND, OR, NOT)"
            )
        check_partition_condition(part, table, f"{what} where {filter_text(part)}")
        parts.append(part)
    return all_of(parts)
