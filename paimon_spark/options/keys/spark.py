"""Options of Spark's connectors (Java `SparkConnectorOptions`), and those that only this one has."""

from paimon_spark.options.option import Option, Refusal, Scope, Stage
from paimon_spark.options.option import OptionKind as K

MB = 1 << 20
_COMMIT_RETRIES = "A statement that met a conflict is run again as the options `commit.*` say."
_NO_FORMAT_TABLES = "Format tables are refused."

SPARK: tuple[Option, ...] = (
    Option("columns", K.STRING, None, "Columns to read, as a comma list.", scope=Scope.READ, honoured=True),
    Option("filter", K.STRING, None, "SQL predicate over the table's columns.", scope=Scope.READ, honoured=True),
    Option(
        "read.spark-parquet",
        K.BOOL,
        True,
        "Whether the SQL catalog and `to_df` leave Parquet files to Spark's own reader, where it can.",
        scope=Scope.READ,
        honoured=True,
    ),
    Option(
        "read.merge.memory-budget",
        K.MEMORY,
        256 * MB,
        "Memory that merging the sorted runs of one split may take; merging keys of all splits in the driver, too.",
        scope=Scope.READ,
        honoured=True,
    ),
    Option(
        "partitionOverwriteMode",
        K.ENUM,
        "static",
        "Whether `overwrite` replaces the table or only the partitions that appear in the data.",
        scope=Scope.WRITE,
        choices=("static", "dynamic"),
        honoured=True,
    ),
    Option(
        "replaceWhere",
        K.STRING,
        None,
        "The one partition that `overwrite` replaces, such as `dt = '2024-01-31'`.",
        scope=Scope.WRITE,
        honoured=True,
    ),
    Option("owner", K.STRING, None, "Owner of the table, as a catalog noted it.", honoured=True),
    Option("write.merge-schema", K.BOOL, False, "Add columns of the written data that the table lacks.", honoured=True),
    Option(
        "write.merge-schema.type-widening",
        K.BOOL,
        False,
        "With merge-schema: widen a column to the data's type.",
        honoured=True,
    ),
    Option(
        "write.merge-schema.explicit-cast",
        K.BOOL,
        False,
        "With type-widening: allow lossy type changes too.",
        honoured=True,
    ),
    Option(
        "write.compact-append-tables",
        K.BOOL,
        True,
        "Whether writes into tables without a primary key end with the compaction that they make due.",
        honoured=True,
    ),
    Option(
        "write.use-v2-write",
        K.BOOL,
        False,
        "Which write path of the Java connector is used.",
        instead="There is one way to write.",
    ),
    Option(
        "write.hive-style-dynamic-partition.enabled",
        K.BOOL,
        False,
        "Hive's column order in positional inserts.",
        refusals=(
            Refusal(
                Stage.WRITE,
                "Unset it and name the columns: INSERT INTO t (a, b) SELECT …, or INSERT … BY NAME.",
                unless=("false",),
            ),
        ),
    ),
    Option(
        "write.data-evolution.update-conflict-retry.max-attempts",
        K.INT,
        20,
        "Attempts of a column update.",
        instead=_COMMIT_RETRIES,
    ),
    Option(
        "write.data-evolution.update-conflict-retry.wait-ms",
        K.LONG,
        10,
        "Wait between attempts of a column update.",
        instead=_COMMIT_RETRIES,
    ),
    Option(
        "read.changelog",
        K.BOOL,
        False,
        "Read rows with their row kind as a first column.",
        refusals=(
            Refusal(Stage.GIVEN, "It belongs to readStream: a batch reads <table>$audit_log.", unless=("false",)),
        ),
        honoured=True,
    ),
    Option(
        "read.allow.fullScan",
        K.BOOL,
        True,
        "Whether a batch may read all files of a partitioned table; else one that leaves out none is refused.",
        honoured=True,
    ),
    Option("read.stream.maxFilesPerTrigger", K.INT, None, "Files of one micro-batch at most.", honoured=True),
    Option("read.stream.maxBytesPerTrigger", K.LONG, None, "Bytes of one micro-batch at most.", honoured=True),
    Option("read.stream.maxRowsPerTrigger", K.LONG, None, "Rows of one micro-batch at most.", honoured=True),
    Option("read.stream.minRowsPerTrigger", K.LONG, None, "Rows of one micro-batch at least.", honoured=True),
    Option("read.stream.maxTriggerDelayMs", K.LONG, None, "Longest wait for the rows of a micro-batch.", honoured=True),
    Option(
        "source.split.target-size-with-column-pruning",
        K.BOOL,
        False,
        "Size splits by the projected columns only.",
        instead="Splits are sized by whole files.",
    ),
    Option(
        "legacy-timestamp-mapping.enabled",
        K.BOOL,
        False,
        "Map TIMESTAMP to Spark's TIMESTAMP, not TIMESTAMP_NTZ.",
        refusals=(Refusal(Stage.GIVEN, "TIMESTAMP is Spark's TIMESTAMP_NTZ: cast the column.", unless=("false",)),),
        instead="TIMESTAMP is Spark's TIMESTAMP_NTZ.",
    ),
    Option(
        "requiredSparkConfsCheck.enabled",
        K.BOOL,
        True,
        "Check of the Java connector's session settings.",
        instead="No settings of the session are required.",
    ),
    Option(
        "format-table.repair.collect-statistics",
        K.BOOL,
        False,
        "Measure partitions in MSCK REPAIR TABLE.",
        instead=_NO_FORMAT_TABLES,
    ),
    Option(
        "format-table.statistics.parallelism",
        K.INT,
        8,
        "Requests at once when format tables are measured.",
        instead=_NO_FORMAT_TABLES,
    ),
    Option(
        "vector-search.lateral-join.parallelism",
        K.INT,
        16,
        "Parallelism of lateral vector search.",
        instead="Vector search is refused.",
    ),
)
