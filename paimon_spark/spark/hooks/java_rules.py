"""Rules of ours in the analyzer and the optimizer of a session: Java classes, which may ask Python about plans.

These ask Python nothing but what a scan or a write answers:

======================= ===============================================================================================
`install_bucketed_scans` Scans are read by bucket where rows come together by the bucket key (`catalog.scan_plan`).
`LOCAL_ROWS`            Scans of given rows (``LocalScan``: what metadata answers) become Spark's own ``LocalRelation``,
                        for which no task runs: Spark gives the columns their names in a step that runs as a job.
`MAP_KEYS`              Scans are given which values a query wants of keys of maps (`spec/predicate.py`).
`POSITION_FILTERS`      Deleted and superseded rows are left out by Spark where its Parquet reader reads
                        (`catalog.position_filter`). It, `NATIVE_PARTS` and `install_bucketed_scans` run once for a
                        statement with its subqueries (``PaimonWholePlans``), after Spark has merged these.
`NATIVE_PARTS`          Of a scan some files are left to Spark's Parquet reader, ours reads the rest
                        (`catalog.native_scan`).
`PARTITION_FILTERS`     Conditions on expressions of partition columns leave out partitions (`catalog.narrowed_scans`).
`DISTRIBUTED_WRITES`    A V2 write can ask Spark for rows that are clustered by columns, or by functions whose Java
                        class every executor has: Paimon's bucket is neither. So the rule gives a write in a plan to the
                        write itself once Spark has put the shuffle into it (``V2Writes``), and takes the one that it
                        answers: the shuffle by Paimon's bucket, or, for partitioned append tables without buckets,
                        Spark's own ``RebalancePartitions`` (`distributed_rows`). Without it rows are clustered by
                        the columns of their keys: that is right, and leaves a file of every task in every bucket.
`install_row_functions` Functions of the namespace ``sys`` become Spark's own before a query runs
                        (`catalog.sql_functions`).
`install_sql_functions` Calls of functions that a catalog keeps become Spark's own calls of functions of SQL
                        (`catalog.sql_functions`).
`STREAM_COLUMNS`        Spark pushes neither columns nor filters down into a stream. In the plan of each batch the rule
                        finds our stream below a projection and filters, asks it for one that reads less, and puts that
                        one in its place.
`install_format_        An overwrite of the written partitions of a format table becomes one by an option.
overwrites`
`install_view_columns`  Spark keeps names by which it finds the columns of a view in its query; Paimon keeps none.
`VARIANT_PATHS`         Scans are given which paths of VARIANT columns a query touches (`catalog.scan_plan`).
======================= ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from paimon_spark.read.metadata_columns import FILE_PATH
from paimon_spark.spark.catalog.loading import STREAMED
from paimon_spark.spark.catalog.view import MARK
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.java_sources import java_class, new_object, sources
from paimon_spark.spark.session.overwrite_mode import OVERWRITE_MODE


def add_rule(
    gateway: Gateway,
    state: JavaObject,
    lists: tuple[compat.SparkField, ...],
    java_class: str,
    *values: tuple[str, Any],
    first: bool = False,
) -> None:
    """Put a rule into lists of the analyzer of a session state. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        lists: fields of the analyzer.
        java_class: the rule, one of this package's Java classes.
        values: class and value of each argument of its constructor.
        first: put it before the rules that are there, else behind them.

    Raises:
        Py4JError: the class cannot be compiled.
        PaimonError: this Spark has no such list.
    """
    analyzer = state.analyzer()
    if java_class in str(lists[0].get(gateway, analyzer)):
        return
    rule = new_object(gateway, java_class, *values)
    for rules in lists:
        held = rules.get(gateway, analyzer)
        rules.set(gateway, analyzer, held.prepended(rule) if first else held.appended(rule))


def add_optimizer_rule(gateway: Gateway, state: JavaObject, java_class: str, *values: tuple[str, Any]) -> None:
    """Put a rule behind those of the optimizer of a session state. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        java_class: the rule, one of this package's Java classes.
        values: class and value of each argument of its constructor.

    Raises:
        Py4JError: this Spark lacks a class that the rule is made of.
    """
    methods = state.experimentalMethods()
    if f"{java_class}@" not in str(methods.extraOptimizations()):
        rule = new_object(gateway, java_class, *values)
        getattr(methods, "extraOptimizations_$eq")(methods.extraOptimizations().appended(rule))


def add_strategy(gateway: Gateway, state: JavaObject, java_class: str) -> None:
    """Put a strategy before those by which a session state plans. Does nothing when it is there.

    Args:
        gateway: the JVM.
        state: the ``SessionState``.
        java_class: the strategy, one of this package's Java classes.

    Raises:
        Py4JError: this Spark lacks a class that the strategy is made of.
    """
    methods = state.experimentalMethods()
    if java_class not in str(methods.extraStrategies()):
        getattr(methods, "extraStrategies_$eq")(methods.extraStrategies().appended(new_object(gateway, java_class)))


Install = Callable[[Gateway, JavaObject], None]
"""Puts something into a session state, if it is not there; errors as of `add_optimizer_rule`."""


def _optimizer_rule(java_class: str) -> Install:
    return partial(add_optimizer_rule, java_class=java_class)


_SCAN_PARAMETERS = 3
"""Of ``LocalTableScanExec`` before Spark 4.3."""

_ONE_MORE = {"more": "boolean more,", "given": ", more", "default": "false,", "plain": ", false"}
"""What stands where comments are in ``PaimonReadRows`` with one parameter more (``useSingleTask``)."""

_FUNCTION_CALLS = "PaimonFunctionCalls"

LOCAL_ROWS = _optimizer_rule("PaimonLocalRows")
MAP_KEYS = _optimizer_rule("PaimonMapKeys")
POSITION_FILTERS = _optimizer_rule("PaimonPositionFilters")
NATIVE_PARTS = _optimizer_rule("PaimonNativeParts")
PARTITION_FILTERS = _optimizer_rule("PaimonPartitionFilters")
DISTRIBUTED_WRITES = _optimizer_rule("PaimonDistributedWrites")
STREAM_COLUMNS = _optimizer_rule("PaimonStreamColumns")
VARIANT_PATHS = _optimizer_rule("PaimonVariantPaths")


def install_bucketed_scans(gateway: Gateway, state: JavaObject) -> None:
    """Let joins by the bucket key go without a shuffle, from Spark 4.3 on.

    Older Sparks put all partitions of one bucket into one task wherever a scan has them, needed or not.
    """
    if features.spark_version(gateway) >= (4, 3):
        add_optimizer_rule(gateway, state, "PaimonBucketedScans")


def install_driver_reads(gateway: Gateway, state: JavaObject) -> None:
    """Let EXPLAIN, and Spark's UI, say what the driver has read.

    The constructor of Spark's own scan of given rows has one parameter more from Spark 4.3 on.
    """
    LOCAL_ROWS(gateway, state)
    parameters = gateway.java_class(compat.LOCAL_TABLE_SCAN.name).getConstructors()[0].getParameterCount()
    text = sources()["PaimonReadRows"]
    if parameters > _SCAN_PARAMETERS:
        for place, more in _ONE_MORE.items():
            text = text.replace(f"/* {place} */", more)
    java_class(gateway, "PaimonReadRows", text)
    add_strategy(gateway, state, "PaimonReadRowsStrategy")


def install_merged_subqueries(gateway: Gateway, state: JavaObject) -> None:
    """Let scalar subqueries over one table share a scan; later versions of Spark do so themselves."""
    if features.spark_version(gateway) < (4, 2):
        merge = (compat.RULE.name, compat.MERGED_SUBQUERIES.of(gateway))
        add_optimizer_rule(gateway, state, "PaimonMergedSubqueries", merge)


def install_input_file_names(gateway: Gateway, state: JavaObject) -> None:
    """Make ``input_file_name()`` over tables without primary keys the column of the file's path."""
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), "PaimonInputFileNames", ("java.lang.String", FILE_PATH))


def install_streamed_tables(gateway: Gateway, state: JavaObject) -> None:
    """Mark the streams of tables of a catalog by an option of ours, from Spark 4.3 on.

    There a catalog is given the options that say which version of a table is meant, and answers with the columns of
    that version. A stream has the latest columns wherever it begins, but a catalog does not learn what a table is for.
    """
    if features.spark_version(gateway) >= (4, 3):
        catalogs = ("org.apache.spark.sql.connector.catalog.CatalogManager", state.catalogManager())
        mark = ("java.lang.String", STREAMED)
        add_rule(gateway, state, (compat.HINT_RULES,), "PaimonStreamedTables", catalogs, mark)


def install_format_overwrites(gateway: Gateway, state: JavaObject) -> None:
    """Let overwrites of the written partitions of format tables be V1 writes."""
    lists, mode = (compat.HINT_RULES, compat.RESOLUTION_RULES), ("java.lang.String", OVERWRITE_MODE)
    add_rule(gateway, state, lists, "PaimonFileOverwrites", mode)


def install_row_functions(gateway: Gateway, state: JavaObject) -> None:
    """Let functions of the namespace ``sys`` be called."""
    add_optimizer_rule(gateway, state, _FUNCTION_CALLS, ("java.lang.Boolean", False))


def install_sql_functions(gateway: Gateway, state: JavaObject) -> None:
    """Let functions of SQL that a catalog keeps be called."""
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), _FUNCTION_CALLS, ("java.lang.Boolean", True))


def install_view_columns(gateway: Gateway, state: JavaObject) -> None:
    """Let the columns of views of catalogs be found in their queries."""
    lists = (compat.HINT_RULES, compat.RESOLUTION_RULES)
    add_rule(gateway, state, lists, "PaimonViewColumns", ("java.lang.String", MARK))
