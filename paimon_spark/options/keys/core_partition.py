"""Options of partitions: `partition…`, `end-input.…`."""

from datetime import timedelta

from paimon_spark.options.option import Option
from paimon_spark.options.option import OptionKind as K

_NO_MARKS = "Writes mark no partition done: CALL sys.mark_partition_done does, by a success file."

CORE_PARTITION: tuple[Option, ...] = (
    Option(
        "partition",
        K.STRING,
        None,
        "Partition columns, given when the table is created.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "partition.default-name",
        K.STRING,
        "__DEFAULT_PARTITION__",
        "Directory name of a null or blank partition value.",
        honoured=True,
    ),
    Option(
        "partition.legacy-name",
        K.BOOL,
        True,
        "Whether partition directories are named by Java's toString of the value.",
        honoured=True,
    ),
    Option(
        "partition.expiration-strategy",
        K.STRING,
        "values-time",
        "Whether partitions expire by their value or their last change.",
        honoured=True,
    ),
    Option("partition.expiration-time", K.DURATION, None, "Age at which partitions expire.", honoured=True),
    Option(
        "partition.expiration-check-interval",
        K.DURATION,
        timedelta(hours=1),
        "How often partitions are checked for expiry.",
        honoured=True,
    ),
    Option("partition.expiration-max-num", K.INT, 100, "Partitions expired at once at most.", honoured=True),
    Option("partition.expiration-batch-size", K.INT, None, "Partitions expired in one commit.", honoured=True),
    Option("partition.timestamp-formatter", K.STRING, None, "Format of the time in partition values.", honoured=True),
    Option(
        "partition.timestamp-pattern",
        K.STRING,
        None,
        "How partition values make a time, such as $dt $hh.",
        honoured=True,
    ),
    Option(
        "partition.timestamp-format.strict",
        K.BOOL,
        False,
        "Whether a partition is not written whose values are no time by partition.timestamp-pattern or -formatter.",
        honoured=True,
    ),
    Option(
        "partition.end-input-to-done",
        K.BOOL,
        False,
        "Whether the end of input marks partitions done.",
        instead=_NO_MARKS,
    ),
    Option(
        "end-input.check-partition-expire",
        K.BOOL,
        False,
        "Whether the end of input checks partitions for expiry.",
        honoured=True,
    ),
    Option(
        "partition.mark-done-action", K.STRING, "success-file", "What marking a partition done does.", instead=_NO_MARKS
    ),
    Option(
        "partition.mark-done-action.custom.class",
        K.STRING,
        None,
        "Java class that marks partitions done.",
        instead=_NO_MARKS,
    ),
    Option(
        "partition.mark-done-action.http.url", K.STRING, None, "Address told of a done partition.", instead=_NO_MARKS
    ),
    Option("partition.mark-done-action.http.params", K.STRING, None, "What that address is told.", instead=_NO_MARKS),
    Option(
        "partition.sink-strategy",
        K.ENUM,
        "NONE",
        "How rows of partitioned append tables come to tasks: as they are (NONE), or by partition, for fewer files. "
        "Not set: by partition on classic sessions, unless a query sorts, limits or distributes its rows.",
        choices=("NONE", "HASH", "PARTITION_DYNAMIC"),
        honoured=True,
    ),
    Option(
        "partition.idle-time-to-report-statistic",
        K.DURATION,
        timedelta(milliseconds=0),
        "Idle time after which a partition's statistics are reported.",
        instead="A catalog here is a directory, without a metastore.",
    ),
)
