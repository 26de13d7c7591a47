"""Scans that read less: of some partitions, of rows that a join found, of some paths of VARIANT columns.

Spark pushes conditions like ``upper(p) = 'A'`` down to no source. ``PaimonPartitionFilters`` evaluates those that are
over partition columns only for the values of each partition, by Spark's own functions, and tells the scan the positions
of the partitions that are left. Runs on the driver.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paimon_spark.read.plain_files import PARTITION_TYPES
from paimon_spark.read.variant_paths import touched_paths
from paimon_spark.spark.catalog.file_partitions import partition_rows
from paimon_spark.spark.catalog.pushed_expressions import pushed_down

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spark.catalog.pushed_expressions import Tree
    from paimon_spark.spark.catalog.scan_plan import ScanPlan


def known_partitions(plan: ScanPlan) -> dict[str, Any]:
    """The partitions that a scan reads: names and kinds of columns that come out, and their values in each."""
    keys = plan.table.schema.partition_keys
    wanted = [name for name in plan.filterable if name in keys]
    columns = [f for f in plan.table.schema.fields if f.name in wanted and isinstance(f.type, PARTITION_TYPES)]
    kinds, rows = partition_rows(plan.table, columns, plan.partitions)
    return {"names": [column.name for column in columns], "kinds": kinds, "rows": rows}


def scan_of_less(plan: ScanPlan, told: str) -> ScanPlan | None:
    """The scan of some partitions, or of some paths of VARIANT columns; None where the whole values count.

    Args:
        plan: of the scan that is asked.
        told: JSON: ``{"partitions": positions}`` of `known_partitions`, or what `touched_paths` reads.
    """
    given = json.loads(told)
    if not isinstance(given, dict):
        return plan.of_paths(touched_paths(told))
    known = plan.partitions
    return plan.of_partitions(frozenset(known[position] for position in given["partitions"]))


def scan_of_rows(plan: ScanPlan, predicates: Sequence[Tree]) -> ScanPlan:
    """The scan of rows for which predicates of Spark's are true, as far as they are ours; else the same one."""
    found = [pushed_down(plan.view, plan.table, predicate) for predicate in predicates]
    ours = tuple(predicate for predicate, _ in found if predicate is not None)
    of_files = tuple(metadata for _, metadata in found if metadata is not None)
    return plan.narrowed(ours, of_files) if ours or of_files else plan
