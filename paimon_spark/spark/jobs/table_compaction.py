"""Compaction of a table, or of all tables of databases, as Spark jobs; postponed rows are taken in first."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.scope import CompactScope
from paimon_spark.maintain.compact.sorted_plan import clusters_by_steps
from paimon_spark.spark.jobs.compact_job import compactable, executor_of
from paimon_spark.spark.jobs.postponed import take_in_postponed
from paimon_spark.spark.jobs.sorted_compaction import cluster_table, sort_table
from paimon_spark.spec.name_pattern import NamePatterns
from paimon_spark.spec.schema import BucketMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.maintain.compact.row_order import AskedOrder
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)


def compact_table(
    spark: SparkSession,
    table: FileStoreTable,
    scope: CompactScope | None = None,
    *,
    full: bool = True,
    order: AskedOrder | None = None,
) -> int | None:
    """Compact a table in tasks, or on the driver where there is little to do; see `maintain.compact`.

    Args:
        spark: a classic or a Connect session.
        table: with dynamic options.
        scope: which part of it; all when not given.
        full: every bucket becomes one sorted run; otherwise what a writer would compact by itself.
        order: the rows of each partition are put in this order.
    """
    if order is not None:
        return sort_table(spark, table, scope or CompactScope(), order)
    if clusters_by_steps(table):
        return cluster_table(spark, table, scope or CompactScope(), full=full)
    taken = None
    if table.schema.bucket_mode is BucketMode.POSTPONE_MODE:
        taken = take_in_postponed(spark, table)
    return compact(table, scope, full=full, execute=executor_of(spark)) or taken


@dataclass(frozen=True, slots=True)
class TablesCompacted:
    """What became of the tables that were to be compacted."""

    done: tuple[str, ...]
    """Their names, with the database; also of those where nothing was to do."""
    failed: Mapping[str, Exception]
    """What was raised, by name."""

    @property
    def summary(self) -> str:
        """What Java's procedure answers."""
        return f"Compact database finished. Success: {len(self.done)}, Failed: {len(self.failed)}"


def compact_databases(
    spark: SparkSession,
    catalog: FilesystemCatalog,
    databases: NamePatterns,
    tables: NamePatterns,
    options: Mapping[str, str],
) -> TablesCompacted:
    """Compact the tables of a catalog, one after the other; one that fails does not hold up the others.

    Args:
        spark: a classic or a Connect session.
        catalog: where the tables are.
        databases: names of databases.
        tables: names of tables with their databases (``db.t``).
        options: dynamic options of each compaction.
    """
    done: list[str] = []
    failed: dict[str, Exception] = {}
    for database in filter(databases.match, catalog.databases()):
        for name in catalog.tables(database):
            full = f"{database}.{name}"
            if not tables.match(full):
                continue
            try:
                compact_table(spark, compactable(catalog.load_table(database, name), options))
            except (PaimonError, OSError) as error:
                _LOG.warning("Table %s was not compacted: %s", full, error)
                failed[full] = error
            else:
                done.append(full)
    return TablesCompacted(tuple(done), failed)
