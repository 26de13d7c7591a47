"""Every private class, field and constructor of Spark's JVM that this package uses: each is named here, once.

Private means: Spark promises nothing about it, and versions differ. Other modules ask the members below for the class,
the object or the value of a field. Which of our features need which of them is in `features`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_SQL = "org.apache.spark.sql"
_ANALYSIS = f"{_SQL}.catalyst.analysis"
_EXPRESSIONS = f"{_SQL}.catalyst.expressions"
_PLANS = f"{_SQL}.catalyst.plans.logical"
_SOURCES = f"{_SQL}.execution.datasources"
_PYTHON_SOURCES = f"{_SOURCES}.v2.python"
_CATALOG = f"{_SQL}.connector.catalog"

MISSING: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""By JVM the names of members that it lacks, where they were probed."""


@dataclass(frozen=True)
class SparkClass:
    """A class of Spark's, with what is used of it."""

    name: str
    methods: tuple[str, ...] = ()
    """Methods that are called, also those of its companion object."""
    constructors: tuple[int, ...] = ()
    """Numbers of parameters, of which one constructor must have one."""
    is_object: bool = False
    """Whether it is a Scala object without static methods."""
    older_name: str = ""
    """Its name in older versions; such a class is used in Java only."""

    def of(self, gateway: Gateway) -> Any:
        """Return the class, for its static methods; of a Scala object the object.

        Raises:
            PaimonError: the members were probed, and this Spark has no such class.
        """
        if self.name in MISSING.get(gateway.gateway, ()):
            raise PaimonError(f"this Spark version has no class {self.name}")
        return gateway.scala_object(self.name) if self.is_object else gateway.spark_class(self.name)

    def __call__(self, gateway: Gateway, *arguments: Any) -> JavaObject:
        """Make an object of the class."""
        return self.of(gateway)(*arguments)

    def probes(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the name of each member, and the probes of which one must succeed."""
        owners = [f"{name}$" if self.is_object else name for name in (self.name, self.older_name) if name]

        def each(probe: str) -> tuple[str, ...]:
            return tuple(f"{probe} {owner}" for owner in owners)

        found: list[tuple[str, tuple[str, ...]]] = [(self.name, each("class"))]
        found += [(f"{self.name}.{method}()", each(f"method {method}")) for method in self.methods]
        if self.constructors:
            counts = " or ".join(map(str, self.constructors))
            probes = tuple(probe for count in self.constructors for probe in each(f"constructor {count}"))
            found.append((f"{self.name}(of {counts} parameters)", probes))
        return found


@dataclass(frozen=True)
class SparkField:
    """A private field of one of Spark's classes."""

    owner: str
    names: tuple[str, ...]
    """Its name, which differs between versions."""
    newer_owner: str = ""
    """The class that has it in newer versions."""

    def get(self, gateway: Gateway, target: JavaObject) -> JavaObject:
        """Return the value in an object.

        Raises:
            PaimonError: this Spark has no such field.
        """
        return self._found(gateway, target).get(target)

    def set(self, gateway: Gateway, target: JavaObject, value: Any) -> None:
        """Set the value in an object.

        Raises:
            PaimonError: this Spark has no such field.
        """
        self._found(gateway, target).set(target, value)

    def _found(self, gateway: Gateway, target: JavaObject) -> JavaObject:
        for name in self.names:
            found = gateway.private_field(target, name)
            if found is not None:
                return found
        raise PaimonError(f"this Spark version has no field {self.owner}.{self.names[0]}")

    def probes(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the name of the member, and the probes of which one must succeed."""
        owners = [owner for owner in (self.owner, self.newer_owner) if owner]
        probes = tuple(f"field {name} {owner}" for owner in owners for name in self.names)
        return [(f"{self.owner}.{self.names[0]}", probes)]


Member = SparkClass | SparkField

# Of a session
SESSION_STATE = SparkClass(
    f"{_SQL}.internal.SessionState",
    methods=(
        "analyzer", "catalogManager", "conf", "dataSourceManager", "executePlan", "experimentalMethods", "sqlParser",
        "tableFunctionRegistry",
    ),
)  # fmt: skip
SQL_CONF = SparkClass(
    f"{_SQL}.internal.SQLConf",
    methods=(
        "adaptiveExecutionEnabled", "coalesceShufflePartitionsEnabled", "get", "getConfString", "numShufflePartitions",
        "readSideCharPadding", "sessionLocalTimeZone", "settings",
    ),
)  # fmt: skip
DATA_SOURCE_MANAGER = SparkClass(f"{_SOURCES}.DataSourceManager", methods=("dataSourceExists",))
CLASSIC_SESSION = SparkClass(f"{_SQL}.classic.SparkSession", methods=("active", "sessionState", "sql"))
CLASSIC_WRITER = SparkClass(
    f"{_SQL}.classic.DataFrameWriter",
    methods=("bucketColumnNames", "clusteringColumns", "partitioningColumns", "partitioningColumns_$eq", "source"),
)
ARROW_CONVERTERS = SparkClass(
    f"{_SQL}.execution.arrow.ArrowConverters",
    methods=("fromBatchWithSchemaIterator", "toBatchWithSchemaIterator"),
    is_object=True,
)
QUERY_EXECUTION = SparkClass(f"{_SQL}.execution.QueryExecution", methods=("analyzed", "optimizedPlan", "sparkSession"))
DATASET = SparkClass(f"{_SQL}.classic.Dataset", methods=("ofRows",))
SPARK_CONTEXT = SparkClass("org.apache.spark.SparkContext", methods=("defaultParallelism", "getOrCreate", "version"))
JOB_CONTEXT = SparkClass(
    SPARK_CONTEXT.name, methods=("addSparkListener", "getLocalProperties", "getLocalProperty", "removeSparkListener")
)
PLANNING_TRACKER = SparkClass(f"{_SQL}.catalyst.QueryPlanningTracker", methods=("get",))
LISTENER = SparkClass("org.apache.spark.scheduler.SparkListener", methods=("onOtherEvent",), constructors=(0,))
EXECUTION_END = SparkClass(f"{_SQL}.execution.ui.SparkListenerSQLExecutionEnd", methods=("executionId",))
SOURCE_BUILDERS = SparkField(DATA_SOURCE_MANAGER.name, ("runtimeDataSourceBuilders",))
COMMAND_EXECUTION_MODE = SparkClass(f"{_SQL}.execution.CommandExecutionMode", methods=("SKIP",))
CATALOGS = SparkField(
    f"{_CATALOG}.CatalogManager",
    ("catalogs", f"{_CATALOG.replace('.', '$')}$CatalogManager$$catalogs"),
    newer_owner=f"{_CATALOG}.DefaultCatalogManager",
)
CREATE_CLONE = SparkField(SESSION_STATE.name, ("createClone",))
SQL_PARSER = SparkField(SESSION_STATE.name, ("sqlParser",))
HINT_RULES = SparkField(f"{_ANALYSIS}.Analyzer", ("hintResolutionRules",))
RESOLUTION_RULES = SparkField(f"{_ANALYSIS}.Analyzer", ("extendedResolutionRules",))
ANALYZER = SparkClass(f"{_ANALYSIS}.Analyzer", methods=("extendedResolutionRules", "hintResolutionRules"))
EXPERIMENTAL_METHODS = SparkClass(
    f"{_SQL}.ExperimentalMethods",
    methods=("extraOptimizations", "extraOptimizations_$eq", "extraStrategies", "extraStrategies_$eq"),
)
PROXY_HANDLER = SparkClass("py4j.reflection.PythonProxyHandler", methods=("invoke",), constructors=(2,))
PROXY_ID = SparkField(PROXY_HANDLER.name, ("id",))
PROXY_GATEWAY = SparkField(PROXY_HANDLER.name, ("gateway",))

# Scala and Python values
PYTHON_UTILS = SparkClass("org.apache.spark.api.python.PythonUtils", methods=("toScalaMap", "toSeq"))
EVALUATE_PYTHON = SparkClass(f"{_SQL}.execution.python.EvaluatePython", methods=("makeFromJava",))
UNPICKLER = SparkClass("net.razorvine.pickle.Unpickler", methods=("loads",), constructors=(0,))
OBJECT_MAPPER = SparkClass(
    "com.fasterxml.jackson.databind.ObjectMapper", methods=("writeValueAsString",), constructors=(0,)
)
SOURCE_LOADER = SparkClass("org.codehaus.janino.JavaSourceClassLoader", constructors=(3,))

# Values and types
UTF8_STRING = SparkClass("org.apache.spark.unsafe.types.UTF8String", methods=("fromString",))
DECIMAL = SparkClass(f"{_SQL}.types.Decimal", methods=("apply",))
GENERIC_ROW = SparkClass(f"{_EXPRESSIONS}.GenericInternalRow", methods=("update",), constructors=(1,))
PLATFORM = SparkClass("org.apache.spark.unsafe.Platform", methods=("throwException",))

# Expressions and plans
ALIAS = SparkClass(f"{_EXPRESSIONS}.Alias", constructors=(6,))
ATTRIBUTE = SparkClass(f"{_EXPRESSIONS}.AttributeReference", constructors=(6,))
NAMED_EXPRESSION = SparkClass(f"{_EXPRESSIONS}.NamedExpression", methods=("newExprId",))
STATIC_INVOKE = SparkClass(f"{_EXPRESSIONS}.objects.StaticInvoke", constructors=(9,))
BIT_SET = SparkClass("org.apache.spark.unsafe.bitset.BitSetMethods", methods=("isSet",))
LITERAL = SparkClass(f"{_EXPRESSIONS}.Literal", methods=("TrueLiteral",))
SQL_FUNCTION = SparkClass(f"{_SQL}.catalyst.catalog.SQLFunction", constructors=(12, 13))
SQL_FUNCTION_CALL = SparkClass(f"{_ANALYSIS}.SQLFunctionExpression", constructors=(4,))
APPLIED_FUNCTION = SparkClass(f"{_EXPRESSIONS}.ApplyFunctionExpression", methods=("children", "function"))
EQUAL_NULL_SAFE = SparkClass(f"{_EXPRESSIONS}.EqualNullSafe", constructors=(2,))
IF = SparkClass(f"{_EXPRESSIONS}.If", constructors=(3,))
IN = SparkClass(f"{_EXPRESSIONS}.In", methods=("list", "value"))
IN_SET = SparkClass(f"{_EXPRESSIONS}.InSet", constructors=(2,))
EXPRESSION_INFO = SparkClass(f"{_EXPRESSIONS}.ExpressionInfo", constructors=(2,))
FILTER = SparkClass(f"{_PLANS}.Filter", constructors=(2,))
JOIN = SparkClass(f"{_PLANS}.Join", methods=("condition", "joinType", "left", "right"))
JOINED_ROW = SparkClass(f"{_EXPRESSIONS}.JoinedRow", methods=("apply",), constructors=(0,))
ONE_ROW = SparkClass(f"{_PLANS}.OneRowRelation")
PROJECT = SparkClass(f"{_PLANS}.Project", constructors=(2,))
UNION = SparkClass(f"{_PLANS}.Union", constructors=(3,))
UNION_OF_PROJECTIONS = SparkClass(
    f"{_SQL}.catalyst.optimizer.PushProjectionThroughUnion", methods=("apply",), is_object=True
)
UNION_OF_FILTERS = SparkClass(
    f"{_SQL}.catalyst.optimizer.PushPredicateThroughNonJoin", methods=("apply",), is_object=True
)
SCALAR_SUBQUERY = SparkClass(f"{_EXPRESSIONS}.ScalarSubquery", methods=("plan", "withNewPlan"))
SUBQUERY = SparkClass(f"{_PLANS}.Subquery")
SUBQUERY_EXPRESSION = SparkClass(f"{_EXPRESSIONS}.SubqueryExpression", methods=("hasSubquery", "plan", "withNewPlan"))
TREE_PATTERN = SparkClass(
    f"{_SQL}.catalyst.trees.TreePattern", methods=("PLAN_EXPRESSION", "PYTHON_UDF"), is_object=True
)
MERGED_SUBQUERIES = SparkClass(f"{_SQL}.catalyst.optimizer.MergeScalarSubqueries", methods=("apply",), is_object=True)
REWRITTEN_DISTINCTS = SparkClass(
    f"{_SQL}.catalyst.optimizer.RewriteDistinctAggregates", methods=("apply",), is_object=True
)
DYNAMIC_PRUNING = SparkClass(f"{_EXPRESSIONS}.DynamicPruning")
PRUNING_QUERY = SparkClass(f"{_EXPRESSIONS}.DynamicPruningSubquery", methods=("buildQuery", "withNewPlan"))
LOCAL_TABLE_SCAN = SparkClass(f"{_SQL}.execution.LocalTableScanExec", methods=("stringArgs",), constructors=(3, 4))
STRATEGY = SparkClass(f"{_SQL}.execution.SparkStrategy", methods=("apply",))
TREE_NODE_TAG = SparkClass(f"{_SQL}.catalyst.trees.TreeNodeTag", constructors=(1,))
LOCAL_RELATION = SparkClass(f"{_PLANS}.LocalRelation", constructors=(4,))
COMMAND = SparkClass(f"{_SQL}.execution.command.ExternalCommandExecutor", methods=("output", "run"), constructors=(3,))
EXPLAIN = SparkClass(f"{_SQL}.execution.command.ExplainCommand", methods=("logicalPlan",))
DELETE_FROM_TABLE = SparkClass(f"{_PLANS}.DeleteFromTable", methods=("condition", "table"))
UPDATE_TABLE = SparkClass(f"{_PLANS}.UpdateTable", methods=("assignments", "condition", "table"))
MERGE_INTO_TABLE = SparkClass(
    f"{_PLANS}.MergeIntoTable",
    methods=(
        "matchedActions", "mergeCondition", "notMatchedActions", "notMatchedBySourceActions", "sourceTable",
        "targetTable", "withSchemaEvolution",
    ),
)  # fmt: skip
ASSIGNMENT = SparkClass(f"{_PLANS}.Assignment", constructors=(2,))
UPDATE_ACTION = SparkClass(f"{_PLANS}.UpdateAction", constructors=(2, 3))
INSERT_ACTION = SparkClass(f"{_PLANS}.InsertAction", constructors=(2,))
MERGE_ACTION = SparkClass(f"{_PLANS}.MergeAction", methods=("condition",))
EXPRESSION_UTILS = SparkClass(f"{_SQL}.classic.ExpressionUtils", methods=("column",))
ANALYSIS_CHECKS = SparkClass(f"{_PLANS}.AnalysisHelper", methods=("allowInvokingTransformsInAnalyzer",), is_object=True)
CATALOG_TABLE = SparkClass(f"{_SQL}.catalyst.catalog.CatalogTable", methods=("productElementName",))
STORAGE_FORMAT = SparkClass(f"{_SQL}.catalyst.catalog.CatalogStorageFormat", methods=("empty",))
TABLE_TYPE = SparkClass(f"{_SQL}.catalyst.catalog.CatalogTableType", methods=("VIEW",))
TABLE_IDENTIFIER = SparkClass(f"{_SQL}.catalyst.TableIdentifier", constructors=(3,))
V1_TABLE = SparkClass(f"{_CATALOG}.V1Table", constructors=(1,))
VIEW_COLUMN = SparkClass(f"{_ANALYSIS}.GetViewColumnByNameAndOrdinal", methods=("colName",))
VIEW = SparkClass(f"{_PLANS}.View", methods=("child", "isTempView", "withNewChildren"))
SUBQUERY_ALIAS = SparkClass(f"{_PLANS}.SubqueryAlias", methods=("alias", "child"))
SUBQUERY_ALIASES = SparkClass(f"{_PLANS}.SubqueryAlias", methods=("apply",), is_object=True)
INSERT_INTO = SparkClass(
    f"{_PLANS}.InsertIntoStatement",
    methods=(
        "byName", "copy", "ifPartitionNotExists", "overwrite", "partitionSpec", "query", "table", "userSpecifiedCols",
    ),
)  # fmt: skip
V2_WRITE_COMMAND = SparkClass(
    f"{_PLANS}.V2WriteCommand", methods=("isByName", "query", "table", "withNewQuery", "withNewTable")
)
UNRESOLVED_SOURCE = SparkClass(
    f"{_PLANS}.UnresolvedDataSource", methods=("format", "isStreaming", "options", "paths", "userSpecifiedSchema")
)
REPARTITION = SparkClass(f"{_PLANS}.Repartition", constructors=(3,))
REBALANCE = SparkClass(f"{_PLANS}.RebalancePartitions", constructors=(4,))
AGGREGATE = SparkClass(f"{_PLANS}.Aggregate", methods=("groupingExpressions",))
SORT = SparkClass(f"{_PLANS}.Sort")
LIMIT = SparkClass(f"{_PLANS}.GlobalLimit")
CACHED_ROWS = SparkClass(f"{_SQL}.execution.columnar.InMemoryRelation", methods=("cacheBuilder",))
CACHE = SparkClass(f"{_SQL}.execution.CacheManager", methods=("isEmpty", "recacheByPlan", "uncacheQuery"))
CACHED_PLANS = SparkField(CACHE.name, ("cachedData",))
CACHE_BUILDER = SparkClass(f"{_SQL}.execution.columnar.CachedRDDBuilder", methods=("logicalPlan",))
REPLACE_EXPRESSIONS = SparkClass(f"{_SQL}.catalyst.optimizer.ReplaceExpressions", methods=("apply",), is_object=True)
EXTRACT_PYTHON_UDFS = SparkClass(f"{_SQL}.execution.python.ExtractPythonUDFs", methods=("apply",), is_object=True)
PARTITION_SPEC = SparkClass(f"{_SQL}.execution.datasources.PartitionSpec", constructors=(2,), methods=("emptySpec",))
PARTITION_PATH = SparkClass(f"{_SQL}.execution.datasources.PartitionPath", constructors=(2,))
PARTITION_VALUES = SparkClass(
    f"{_SQL}.execution.datasources.PartitioningUtils", methods=("castPartValueToDesiredType",)
)
PATH_NAMES = SparkClass(f"{_SQL}.catalyst.catalog.ExternalCatalogUtils", methods=("unescapePathName",))
FILE_SCANS = tuple(
    SparkClass(f"{_SQL}.execution.datasources.v2.{name.lower()}.{name}ScanBuilder", constructors=(5,))
    for name in ("CSV", "Json", "Orc", "Parquet", "Text")
)
OVERWRITE = SparkClass(
    f"{_PLANS}.OverwriteByExpression", methods=("analyzedQuery", "byPosition", "copy", "write", "writeOptions")
)
DYNAMIC_OVERWRITE = SparkClass(f"{_PLANS}.OverwritePartitionsDynamic", methods=("copy", "query", "writeOptions"))
REPLACE_AS_SELECT = SparkClass(f"{_PLANS}.ReplaceTableAsSelect", methods=("copy", "name", "query"))
OPTIMIZED_WRITES = SparkClass(f"{_PLANS}.AppendData", methods=("query", "write"))
ANALYZE_TABLE = SparkClass(f"{_PLANS}.AnalyzeTable")
ANALYZE_COLUMN = SparkClass(f"{_PLANS}.AnalyzeColumn")
DESCRIBE_COLUMN = SparkClass(f"{_PLANS}.DescribeColumn")
DROP_PARTITIONS = SparkClass(f"{_PLANS}.DropPartitions", methods=("copy", "ifExists", "parts", "purge", "table"))
LOGICAL_PLAN = SparkClass(f"{_PLANS}.LogicalPlan", methods=("resolved", "transformDownWithPruning"))
RULE = SparkClass(f"{_SQL}.catalyst.rules.Rule")
LOCAL_RELATIONS_RULE = SparkClass(
    f"{_SQL}.catalyst.optimizer.ConvertToLocalRelation", methods=("apply",), is_object=True
)
RELATION = SparkClass(
    f"{_SOURCES}.v2.DataSourceV2Relation",
    methods=("catalog", "copy", "create", "identifier", "options", "output", "table", "withMetadataColumns"),
)
SCAN_RELATION = SparkClass(f"{_SOURCES}.v2.DataSourceV2ScanRelation", methods=("output", "scan"))
TRANSFORM = SparkClass(f"{_SQL}.catalyst.expressions.TransformExpression", methods=("children", "function"))
PARTITION_KEY = SparkClass(f"{_SQL}.connector.read.HasPartitionKey", methods=("partitionKey",))
VARIANTS_OF_RELATION = SparkClass(
    f"{_SQL}.execution.datasources.VariantInRelation",
    methods=("addVariantFields", "collectRequestedFields", "mapping", "rewriteExpr", "rewriteType"),
)
VARIANT_FIELD = SparkClass(f"{_SQL}.execution.datasources.RequestedVariantField", methods=("path", "targetType"))
VARIANT_GET = SparkClass(f"{_EXPRESSIONS}.variant.VariantGet", methods=("failOnError", "path"), constructors=(5,))
INTERPRETED_PREDICATE = SparkClass(
    f"{_EXPRESSIONS}.InterpretedPredicate", methods=("eval", "initialize"), constructors=(1, 2)
)
BOUND_REFERENCE = SparkClass(f"{_EXPRESSIONS}.BoundReference", constructors=(3,))
UNEVALUABLE = SparkClass(f"{_EXPRESSIONS}.Unevaluable")
INPUT_FILE_NAME = SparkClass(f"{_EXPRESSIONS}.InputFileName")
VALUE_OF_KEY = SparkClass(f"{_EXPRESSIONS}.GetMapValue", methods=("child", "key"))
ELEMENT_AT = SparkClass(f"{_EXPRESSIONS}.ElementAt", methods=("left", "right"))
STREAMING_RELATION = SparkClass(
    f"{_SQL}.catalyst.streaming.StreamingRelationV2", methods=("withMetadataColumns",), constructors=(8, 9)
)
UNNAMED_STREAM = SparkClass(f"{_SQL}.catalyst.streaming.Unassigned", is_object=True)
STREAMING_SCAN_RELATION = SparkClass(
    f"{_SOURCES}.v2.StreamingDataSourceV2ScanRelation",
    methods=("copy", "endOffset", "output", "relation", "scan", "startOffset", "stream"),
)
FROM_ATTRIBUTES = SparkClass(f"{_SQL}.catalyst.types.DataTypeUtils", methods=("fromAttributes",))
ATTRIBUTES = SparkClass(f"{_SQL}.catalyst.types.DataTypeUtils", methods=("toAttributes",))
CHAR_TYPES = SparkClass(f"{_SQL}.catalyst.util.CharVarcharUtils", methods=("hasCharVarchar",))
PHYSICAL_OPERATION = SparkClass(f"{_SQL}.catalyst.planning.PhysicalOperation", methods=("unapply",))
TRANSLATED_FILTERS = SparkClass(f"{_SOURCES}.v2.DataSourceV2Strategy", methods=("translateFilterV2",), is_object=True)

# Analysis
TIME_TRAVEL = SparkClass(f"{_ANALYSIS}.RelationTimeTravel", methods=("relation", "timestamp", "version"))
RESOLVE_RELATIONS = SparkClass(f"{_ANALYSIS}.Analyzer", methods=("ResolveRelations",))
TIME_TRAVEL_SPEC = SparkClass(f"{_ANALYSIS}.TimeTravelSpec", methods=("create",))
UNRESOLVED_RELATION = SparkClass(
    f"{_ANALYSIS}.UnresolvedRelation", methods=("isStreaming", "multipartIdentifier", "options"), constructors=(3,)
)
UNRESOLVED_ATTRIBUTE = SparkClass(
    f"{_ANALYSIS}.UnresolvedAttribute", methods=("nameParts", "quoted"), constructors=(1,)
)
ASSIGNMENTS = SparkClass(f"{_ANALYSIS}.AssignmentUtils", methods=("alignInsertAssignments", "alignUpdateAssignments"))
CHAR_COLUMNS = SparkClass(f"{_SQL}.catalyst.util.CharVarcharUtils", methods=("addPaddingForScan", "getRawType"))
PARTITION_SPECS = SparkClass(
    f"{_ANALYSIS}.ResolvePartitionSpec",
    methods=(f"{_ANALYSIS.replace('.', '$')}$ResolvePartitionSpec$$resolvePartitionSpec",),
    is_object=True,
)
FUNCTION_IDENTIFIER = SparkClass(f"{_SQL}.catalyst.FunctionIdentifier", constructors=(1, 3))
FUNCTION_REGISTRY = SparkClass(f"{_ANALYSIS}.TableFunctionRegistry", methods=("registerFunction",))
PARSER_INTERFACE = SparkClass(f"{_SQL}.catalyst.parser.ParserInterface", methods=("parsePlan",))
PARSE_EXCEPTION = SparkClass(f"{_SQL}.catalyst.parser.ParseException")
V2_COLUMNS = SparkClass(f"{_CATALOG}.CatalogV2Util", methods=("structTypeToV2Columns", "v2ColumnsToStructType"))

# Errors
NO_SUCH_TABLE = SparkClass(f"{_ANALYSIS}.NoSuchTableException", constructors=(1,))
TABLE_EXISTS = SparkClass(f"{_ANALYSIS}.TableAlreadyExistsException", constructors=(1,))
NO_SUCH_NAMESPACE = SparkClass(f"{_ANALYSIS}.NoSuchNamespaceException", constructors=(1,))
NAMESPACE_EXISTS = SparkClass(f"{_ANALYSIS}.NamespaceAlreadyExistsException", constructors=(1,))
NAMESPACE_NOT_EMPTY = SparkClass(f"{_ANALYSIS}.NonEmptyNamespaceException", constructors=(1,))
NO_SUCH_FUNCTION = SparkClass(f"{_ANALYSIS}.NoSuchFunctionException", constructors=(1,))
NO_SUCH_PARTITIONS = SparkClass(f"{_ANALYSIS}.NoSuchPartitionsException", constructors=(3,))
NO_SUCH_PARTITION = SparkClass(f"{_ANALYSIS}.NoSuchPartitionException", constructors=(3,))
ANALYSIS_EXCEPTION = SparkClass(f"{_SQL}.AnalysisException", constructors=(2,))
ERROR_CLASSES = SparkClass("org.apache.spark.SparkThrowableHelper", methods=("isValidErrorClass",))
RUNTIME_EXCEPTION = SparkClass("org.apache.spark.SparkRuntimeException", constructors=(5,))

# Reads and writes
PYTHON_SOURCE = SparkClass(
    f"{_PYTHON_SOURCES}.PythonDataSourceV2", methods=("getTable", "setShortName", "source"), constructors=(0,)
)
PYTHON_TABLE = SparkClass(f"{_PYTHON_SOURCES}.PythonTable", methods=("columns", "name", "schema"))
PYTHON_BATCH = SparkClass(f"{_PYTHON_SOURCES}.PythonBatch", constructors=(4,))
PYTHON_READ_INFO = SparkClass(f"{_PYTHON_SOURCES}.PythonDataSourceReadInfo", constructors=(2,))
BATCH_INFO = SparkField(PYTHON_BATCH.name, ("infoInPython",))
BATCH_IS_PLANNED = SparkField(PYTHON_BATCH.name, ("bitmap$0",))
USER_SOURCE = SparkClass(
    f"{_PYTHON_SOURCES}.UserDefinedPythonDataSource", methods=("writeOutputSchema",), constructors=(1,)
)
WRITER_FACTORY = SparkClass(f"{_PYTHON_SOURCES}.PythonBatchWriterFactory", constructors=(4, 5))
WRITE_INFO = SparkClass(f"{_SQL}.connector.write.LogicalWriteInfoImpl", constructors=(5,))
FILE_PARTITION = SparkClass(f"{_SOURCES}.FilePartition", constructors=(2,))
PARTITIONED_FILE = SparkClass(f"{_SOURCES}.PartitionedFile", constructors=(8,))
SPARK_PATH = SparkClass("org.apache.spark.paths.SparkPath", methods=("fromPathString",))
FILE_INDEX = SparkClass(f"{_SOURCES}.InMemoryFileIndex", constructors=(7,), methods=("leafDirToChildrenFiles",))
NO_FILE_CACHE = SparkClass(f"{_SOURCES}.NoopCache", is_object=True)
PARQUET_SCAN_BUILDER = SparkClass(
    f"{_SOURCES}.v2.parquet.ParquetScanBuilder", methods=("build", "pushedDataFilters_$eq"), constructors=(5,)
)
HADOOP_SETTINGS = SparkClass(SESSION_STATE.name, methods=("newHadoopConf",))
READ_PARTITION_SCHEMA = SparkField(f"{_SOURCES}.v2.parquet.ParquetScan", ("readPartitionSchema",))
V1_FILTERS = SparkClass(f"{_SQL}.internal.connector.PredicateUtils", methods=("toV1",))
MEMORY_PARTITION = SparkClass(
    f"{_SQL}.execution.streaming.runtime.MemoryStreamInputPartition",
    constructors=(1,),
    older_name=f"{_SQL}.execution.streaming.MemoryStreamInputPartition",
)
MEMORY_READER = SparkClass(
    f"{_SQL}.execution.streaming.runtime.MemoryStreamReaderFactory",
    is_object=True,
    older_name=f"{_SQL}.execution.streaming.MemoryStreamReaderFactory",
)
UNSAFE_PROJECTION = SparkClass(f"{_EXPRESSIONS}.UnsafeProjection", methods=("create",))
