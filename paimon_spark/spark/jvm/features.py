"""What works only where Spark has certain private members, and which of them a Spark lacks.

All members are probed in one call, once in a JVM. A session goes without a feature of which a member is missing; the
log says so once, by the name of the member.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm import compat as c
from paimon_spark.spark.jvm.java_sources import new_object

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway

_LOG = logging.getLogger(__name__)

Version = tuple[int, int]

_lock = threading.Lock()
_noted: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Feature:
    """What works only where all of its members are there."""

    name: str
    loss: str
    """What does not work without it, and what to use instead."""
    members: tuple[c.Member, ...]
    until: Version | None = None
    """The first version that needs it no more."""

    def is_for(self, version: Version) -> bool:
        """Return whether a version of Spark needs it."""
        return self.until is None or version < self.until


_RULES = (c.ANALYZER, c.RULE, c.RESOLUTION_RULES, c.SOURCE_LOADER)
_WHOLE_PLANS = (c.EXPERIMENTAL_METHODS, c.SUBQUERY, c.SUBQUERY_EXPRESSION, c.TREE_PATTERN, c.RULE, c.SOURCE_LOADER)
_WRITES_BY_NAME = (
    *_RULES, c.HINT_RULES, c.INSERT_INTO, c.V2_WRITE_COMMAND, c.RELATION, c.UNRESOLVED_RELATION,
    c.COMMAND_EXECUTION_MODE,
)  # fmt: skip

SESSION = Feature(
    "sessions", "settings of the session do not reach reads and writes",
    (
        c.SESSION_STATE, c.SQL_CONF, c.DATA_SOURCE_MANAGER, c.CLASSIC_SESSION, c.CLASSIC_WRITER, c.SPARK_CONTEXT,
        c.OBJECT_MAPPER,
        c.SOURCE_BUILDERS, c.USER_SOURCE,
    ),
)  # fmt: skip
CATALOG = Feature(
    "the catalog", "register_catalog cannot add a catalog: use format('paimon'), PaimonTable and paimon_spark.sql",
    (
        c.CATALOGS, c.PROXY_ID, c.PROXY_HANDLER, c.PROXY_GATEWAY, c.SOURCE_LOADER, c.SQL_CONF, c.OBJECT_MAPPER,
        c.V2_COLUMNS, c.GENERIC_ROW, c.UTF8_STRING, c.DECIMAL, c.UNPICKLER, c.EVALUATE_PYTHON, c.UNSAFE_PROJECTION,
        c.PYTHON_SOURCE, c.PYTHON_BATCH, c.PYTHON_READ_INFO, c.BATCH_INFO, c.BATCH_IS_PLANNED,
        c.PYTHON_UTILS, c.ERROR_CLASSES, c.RUNTIME_EXCEPTION, c.NO_SUCH_TABLE, c.TABLE_EXISTS, c.NO_SUCH_NAMESPACE,
        c.NAMESPACE_EXISTS, c.NAMESPACE_NOT_EMPTY, c.NO_SUCH_FUNCTION, c.NO_SUCH_PARTITION,
    ),
)  # fmt: skip
NATIVE_READS = Feature(
    "reads by Spark's Parquet reader", "all files are read by Paimon's reader, which is slower",
    (
        c.FILE_PARTITION, c.PARTITIONED_FILE, c.SPARK_PATH, c.FILE_INDEX, c.NO_FILE_CACHE, c.PARQUET_SCAN_BUILDER,
        c.READ_PARTITION_SCHEMA, c.V1_FILTERS, c.HADOOP_SETTINGS, c.SOURCE_LOADER,
    ),
)  # fmt: skip
DATABASES = Feature(
    "databases asked for once", "each statement asks the store for its database several times", (c.PLANNING_TRACKER,)
)
FRAMES = Feature("frames of a path", "PaimonTable.to_df reads by Paimon's reader", (c.RELATION, c.DATASET))
FORMAT_PLANS = Feature(
    "plans of format('paimon')", "loads and saves by path go through Spark's Python source, which is slower",
    (
        c.ANALYZER, c.RULE, c.RESOLUTION_RULES, c.SOURCE_LOADER, c.UNRESOLVED_SOURCE, c.UNRESOLVED_RELATION,
        c.V2_WRITE_COMMAND, c.PYTHON_TABLE, c.RELATION, c.FILTER, c.PROJECT, c.ANALYSIS_EXCEPTION, c.PYTHON_UTILS,
        c.PLATFORM, c.VIEW, c.ALIAS, c.STREAMING_RELATION, c.FROM_ATTRIBUTES, c.CHAR_TYPES,
    ),
)  # fmt: skip
STREAMS = Feature(
    "streams planned here", "streams by path go through Spark's Python source, without columns and filters pushed down",
    (*_RULES, c.STREAMING_RELATION, c.UNRESOLVED_SOURCE, c.PROXY_HANDLER, c.PROXY_GATEWAY, c.PYTHON_BATCH),
)  # fmt: skip
STREAM_COLUMNS = Feature(
    "columns and filters of streams", "streams read all columns of all files",
    (
        c.EXPERIMENTAL_METHODS, c.STREAMING_SCAN_RELATION, c.PHYSICAL_OPERATION, c.TRANSLATED_FILTERS, c.FILTER,
        c.PROJECT, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
STREAMED_TABLES = Feature(
    "streams that begin somewhere", "a stream of a catalog's table has the columns of the version where it begins",
    (c.ANALYZER, c.RULE, c.HINT_RULES, c.UNRESOLVED_RELATION, c.SOURCE_LOADER),
)  # fmt: skip
PATH_TRAVEL = Feature(
    "versions of tables named by a path", "VERSION AS OF behind paimon.`/path` needs register_catalog",
    (c.TIME_TRAVEL, c.TIME_TRAVEL_SPEC, c.RESOLVE_RELATIONS),
)  # fmt: skip
SMALL_READS = Feature(
    "rows read while planning",
    "a row by its key costs a Python worker's task",
    (c.MEMORY_PARTITION, c.MEMORY_READER),
)
WRITES = Feature(
    "writes", "the catalog cannot be written: use df.write.format('paimon')",
    (c.PYTHON_SOURCE, c.USER_SOURCE, c.WRITER_FACTORY, c.WRITE_INFO),
)  # fmt: skip
CLONES = Feature(
    "cloned sessions",
    "foreachBatch and cached frames do not know the catalog: register it in there",
    (c.CREATE_CLONE, c.PROXY_ID, c.PROXY_HANDLER),
)
TABLE_FUNCTIONS = Feature(
    "table functions", "there is no paimon_incremental_query: use the option incremental-between",
    (c.FUNCTION_REGISTRY, c.EXPRESSION_INFO, c.FUNCTION_IDENTIFIER, c.UNRESOLVED_RELATION, c.PYTHON_UTILS),
)  # fmt: skip
ROW_FUNCTIONS = Feature(
    "functions of rows", "functions of the namespace sys take constants only",
    (
        c.EXPERIMENTAL_METHODS, c.APPLIED_FUNCTION, c.REPLACE_EXPRESSIONS, c.LOCAL_RELATION, c.PROJECT, c.ALIAS,
        c.ATTRIBUTE, c.LITERAL, c.NAMED_EXPRESSION, c.DATASET, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
SQL_FUNCTIONS = Feature(
    "functions of catalogs", "functions of REST catalogs are called by paimon_spark.sql alone",
    (*_RULES, c.APPLIED_FUNCTION, c.SQL_FUNCTION, c.SQL_FUNCTION_CALL, c.FUNCTION_IDENTIFIER, c.PYTHON_UTILS),
)  # fmt: skip
LOCAL_ROWS = Feature(
    "rows without a job", "what metadata answers costs a Spark job",
    (
        c.EXPERIMENTAL_METHODS, c.LOCAL_RELATIONS_RULE, c.LOCAL_RELATION, c.SCAN_RELATION, c.PRUNING_QUERY, c.RULE,
        c.TREE_NODE_TAG, c.SOURCE_LOADER,
    ),
)  # fmt: skip
POSITION_FILTERS = Feature(
    "filters of deletion vectors", "files with deletion vectors are read by Paimon's reader, which is slower",
    (
        *_WHOLE_PLANS, c.SCAN_RELATION, c.FILTER, c.PROJECT, c.LITERAL, c.ATTRIBUTE, c.NAMED_EXPRESSION,
        c.STATIC_INVOKE, c.BIT_SET, c.PYTHON_UTILS,
    ),
)  # fmt: skip
NATIVE_PARTS = Feature(
    "reads of compacted files beside files that are merged", "scans with files to merge are read by Paimon's reader",
    (
        *_WHOLE_PLANS, c.SCAN_RELATION, c.FILTER, c.PROJECT, c.ATTRIBUTE, c.UNION, c.UNION_OF_PROJECTIONS,
        c.UNION_OF_FILTERS, c.DYNAMIC_PRUNING,
    ),
)  # fmt: skip
MERGED_SUBQUERIES = Feature(
    "subqueries that share a scan", "each scalar subquery reads its table",
    (
        c.EXPERIMENTAL_METHODS, c.SCAN_RELATION, c.FILTER, c.PROJECT, c.AGGREGATE, c.ATTRIBUTE, c.SCALAR_SUBQUERY,
        c.MERGED_SUBQUERIES, c.REWRITTEN_DISTINCTS, c.SQL_CONF, c.RULE, c.SOURCE_LOADER,
    ),
    until=(4, 2),
)  # fmt: skip
BUCKETED_SCANS = Feature(
    "joins by the bucket key", "joins and aggregates by the bucket key are shuffled",
    (
        *_WHOLE_PLANS, c.SCAN_RELATION, c.TRANSFORM, c.PARTITION_KEY, c.AGGREGATE, c.JOIN, c.PROJECT, c.ALIAS,
        c.ATTRIBUTE, c.SQL_CONF, c.PYTHON_UTILS,
    ),
)  # fmt: skip
VARIANT_PATHS = Feature(
    "reads of some paths of VARIANT columns", "VARIANT columns are read whole",
    (
        c.EXPERIMENTAL_METHODS, c.SCAN_RELATION, c.PHYSICAL_OPERATION, c.VARIANTS_OF_RELATION, c.VARIANT_FIELD,
        c.VARIANT_GET, c.AGGREGATE, c.FILTER, c.PROJECT, c.ALIAS, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
MAP_KEYS = Feature(
    "filters on keys of maps", "indexes of keys of maps leave out no files",
    (
        c.EXPERIMENTAL_METHODS, c.SCAN_RELATION, c.PHYSICAL_OPERATION, c.FILTER, c.VALUE_OF_KEY, c.ELEMENT_AT,
        c.LITERAL, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
INPUT_FILE_NAMES = Feature(
    "input_file_name()", "it is empty where Paimon's reader reads: select __paimon_file_path",
    (*_RULES, c.INPUT_FILE_NAME, c.RELATION),
)  # fmt: skip
PARTITION_FILTERS = Feature(
    "filters on expressions of partition columns", "conditions like upper(p) = 'A' read all partitions",
    (
        c.EXPERIMENTAL_METHODS, c.SCAN_RELATION, c.FILTER, c.INTERPRETED_PREDICATE, c.BOUND_REFERENCE, c.UNEVALUABLE,
        c.SUBQUERY_EXPRESSION, c.GENERIC_ROW, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
DISTRIBUTED_WRITES = Feature(
    "shuffles by bucket", "every task of a write leaves a file in every bucket",
    (
        c.EXPERIMENTAL_METHODS, c.V2_WRITE_COMMAND, c.OPTIMIZED_WRITES, c.OVERWRITE,
        c.REPLACE_EXPRESSIONS, c.LITERAL, c.EXTRACT_PYTHON_UDFS, c.PROJECT, c.ALIAS, c.RELATION,
        c.NAMED_EXPRESSION, c.LOCAL_RELATION, c.DATASET, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
LOCAL_WRITES = Feature(
    "few rows written by the driver", "a row of INSERT … VALUES costs a Python worker's task",
    (
        c.EXPERIMENTAL_METHODS, c.V2_WRITE_COMMAND, c.OPTIMIZED_WRITES, c.OVERWRITE, c.LOCAL_RELATION, c.LITERAL,
        c.RELATION, c.ARROW_CONVERTERS, c.SQL_CONF, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
LOCAL_CHANGES = Feature(
    "few rows changed by the driver", "UPDATE, DELETE and MERGE of a row cost the tasks of Python workers",
    (
        c.EXPERIMENTAL_METHODS, c.LOCAL_RELATIONS_RULE, c.LOCAL_RELATION, c.SCAN_RELATION, c.RELATION, c.PROJECT,
        c.FILTER, c.SUBQUERY_ALIAS, c.ARROW_CONVERTERS, c.UNSAFE_PROJECTION, c.QUERY_EXECUTION,
        c.JOIN, c.JOINED_ROW, c.ONE_ROW, c.GENERIC_ROW, c.BOUND_REFERENCE, c.INTERPRETED_PREDICATE, c.UNEVALUABLE,
        c.SUBQUERY_EXPRESSION, c.VIEW, c.REPARTITION, c.REBALANCE, c.SQL_CONF, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
DRIVER_READS = Feature(
    "few rows read by the driver", "LIMIT, and rows by their keys, cost a Spark job",
    (*LOCAL_ROWS.members, c.ARROW_CONVERTERS, c.UNSAFE_PROJECTION, c.STRATEGY, c.LOCAL_TABLE_SCAN),
)  # fmt: skip
REBALANCED_WRITES = Feature(
    "shuffles by partition", "every task of a write leaves a file in every partition of a table without buckets",
    (
        c.EXPERIMENTAL_METHODS, c.V2_WRITE_COMMAND, c.OPTIMIZED_WRITES, c.REBALANCE, c.CACHED_ROWS, c.CACHE_BUILDER,
        c.AGGREGATE, c.SORT, c.REPARTITION, c.LIMIT, c.PROJECT, c.ALIAS, c.LOCAL_RELATION, c.RULE, c.SOURCE_LOADER,
    ),
)  # fmt: skip
SMALL_BATCHES = Feature(
    "small batches of rows that are written", "Spark asks for the size of its batches after each row, which is slower",
    (c.EXECUTION_END, c.LISTENER, c.JOB_CONTEXT, c.TREE_PATTERN, c.CACHED_ROWS, c.CACHE_BUILDER, c.SOURCE_LOADER),
)  # fmt: skip
LEFT_OUT_COLUMNS = Feature(
    "writes that leave out columns", "INSERT must name all columns", _WRITES_BY_NAME, until=(4, 1)
)
WIDENED_WRITES = Feature("write.merge-schema in SQL", "only df.write.format('paimon') can add columns", _WRITES_BY_NAME)
SELF_OVERWRITES = Feature(
    "overwrites of a table from itself",
    "INSERT OVERWRITE of a table from itself leaves out rows that are not compacted, and what others commit meanwhile: "
    "use PaimonTable.overwrite",
    (
        *_RULES, c.V2_WRITE_COMMAND, c.OVERWRITE, c.DYNAMIC_OVERWRITE, c.REPLACE_AS_SELECT, c.RELATION,
        c.SUBQUERY_EXPRESSION, c.ANALYSIS_CHECKS,
    ),
)  # fmt: skip
WIDENED_MERGES = Feature(
    "columns that MERGE adds", "MERGE adds no columns: ALTER TABLE … ADD COLUMNS does",
    (
        *_WRITES_BY_NAME, c.MERGE_INTO_TABLE, c.MERGE_ACTION, c.SUBQUERY_ALIASES, c.ASSIGNMENT,
        c.UPDATE_ACTION, c.INSERT_ACTION, c.UNRESOLVED_ATTRIBUTE,
    ),
)  # fmt: skip
ROW_LEVEL = Feature(
    "DELETE, UPDATE and MERGE",
    "spark.sql refuses them: use PaimonTable.delete, update and merge, or paimon_spark.sql",
    (
        *_RULES, c.DELETE_FROM_TABLE, c.UPDATE_TABLE, c.MERGE_INTO_TABLE, c.MERGE_ACTION, c.SUBQUERY_ALIAS,
        c.SUBQUERY_EXPRESSION, c.EXPRESSION_UTILS, c.COMMAND, c.EXPLAIN, c.TREE_NODE_TAG,
        c.RELATION, c.ASSIGNMENTS, c.CHAR_COLUMNS, c.ALIAS, c.ATTRIBUTE, c.NAMED_EXPRESSION, c.LITERAL,
        c.EQUAL_NULL_SAFE, c.IF, c.IN, c.IN_SET, c.FILTER,
        c.PROJECT, c.LOCAL_RELATION, c.DATASET, c.PLATFORM, c.ATTRIBUTES, c.LOGICAL_PLAN, c.JOB_CONTEXT,
    ),
)  # fmt: skip
PARSER = Feature(
    "Paimon's statements", "spark.sql knows no CREATE TAG and SHOW TAGS: use CALL sys.create_tag",
    (
        c.SQL_PARSER, c.PARSER_INTERFACE, c.PARSE_EXCEPTION, c.LOGICAL_PLAN, c.DESCRIBE_COLUMN, c.ANALYZE_TABLE,
        c.ANALYZE_COLUMN, c.DROP_PARTITIONS,
        c.PARTITION_SPECS,
        c.NO_SUCH_PARTITIONS, c.SOURCE_LOADER, c.PLATFORM,
    ),
)  # fmt: skip
CACHED_RELATIONS = Feature(
    "cached rows after changes", "cached rows stay as they are after procedures and methods: use REFRESH TABLE",
    (c.CLASSIC_SESSION, c.CACHE, c.CACHED_PLANS, c.RELATION),
)  # fmt: skip
VIEWS = Feature(
    "views of catalogs", "views of JDBC, Hive and REST catalogs are read by paimon_spark.sql alone",
    (
        *_RULES, c.HINT_RULES, c.PROJECT, c.CATALOG_TABLE, c.STORAGE_FORMAT, c.TABLE_TYPE, c.TABLE_IDENTIFIER,
        c.V1_TABLE, c.VIEW_COLUMN, c.UNRESOLVED_ATTRIBUTE, c.SQL_CONF, c.PYTHON_UTILS,
    ),
)  # fmt: skip
FORMAT_TABLES = Feature(
    "tables of plain files", "format tables of REST and Hive catalogs are read and written by paimon_spark.sql alone",
    (
        *_RULES, c.HINT_RULES, c.OVERWRITE, c.DYNAMIC_OVERWRITE, c.RELATION, c.LITERAL, c.FILE_INDEX, c.NO_FILE_CACHE,
        c.PARTITION_SPEC, c.PARTITION_PATH, c.PARTITION_VALUES, c.PATH_NAMES, c.GENERIC_ROW, c.SQL_CONF,
        c.PYTHON_UTILS, *c.FILE_SCANS,
    ),
)  # fmt: skip
FEATURES = tuple(value for value in list(globals().values()) if isinstance(value, Feature))
"""All of them."""


def spark_version(gateway: Gateway) -> Version:
    """Return the version of Spark without its last part."""
    return gateway.spark_version


def missing_members(gateway: Gateway) -> frozenset[str]:
    """Return the names of the members that this Spark lacks, probed once in a JVM, in one call.

    Empty where the probe itself cannot be compiled: then what is missing shows when it is used.
    """
    with _lock:
        if gateway.gateway not in c.MISSING:
            c.MISSING[gateway.gateway] = _probed(gateway)
        return c.MISSING[gateway.gateway]


def _probed(gateway: Gateway) -> frozenset[str]:
    probes = {name: p for feature in FEATURES for member in feature.members for name, p in member.probes()}
    texts = [text for alternatives in probes.values() for text in alternatives]
    try:
        answer = str(new_object(gateway, "PaimonMembers").probe("\n".join(texts)))
    except (Py4JError, TypeError) as error:
        _LOG.warning("Spark's members cannot be probed: %s", str(error).partition("\n")[0])
        return frozenset()
    there = {text for text, mark in zip(texts, answer, strict=True) if mark == "1"}
    return frozenset(name for name, alternatives in probes.items() if there.isdisjoint(alternatives))


def missing_of(gateway: Gateway, feature: Feature) -> list[str]:
    """Return the members of a feature that this Spark lacks; empty where this version does not need the feature."""
    if not feature.is_for(spark_version(gateway)):
        return []
    lacking = missing_members(gateway)
    return [name for member in feature.members for name, _ in member.probes() if name in lacking]


def check_whole(gateway: Gateway, feature: Feature) -> None:
    """Raise an error where this Spark lacks a member of a feature.

    Raises:
        UnsupportedError: with what to use instead.
    """
    missing = missing_of(gateway, feature)
    if missing:
        raise UnsupportedError(f"On this Spark version {feature.loss} (there is no {', '.join(missing)})")


def note_loss(feature: Feature, reason: str) -> None:
    """Log, once, that sessions go without a feature."""
    if (feature.name, reason) not in _noted:
        _noted.add((feature.name, reason))
        _LOG.warning("Disabled on this Spark version: %s. Without it, %s (%s)", feature.name, feature.loss, reason)
