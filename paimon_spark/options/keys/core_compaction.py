"""Options of compaction: `compaction.…`, `num-…`, `clustering.…`, `sort-compaction.…`."""

from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

_NO_CLUSTERING = "Writes do not cluster rows."
_NO_INCREMENTAL_CLUSTERING = "Writes do not cluster rows, and compactions are refused."

CORE_COMPACTION: tuple[Option, ...] = (
    Option("num-sorted-run.compaction-trigger", K.INT, 5, "Sorted runs that start a compaction.", honoured=True),
    Option(
        "num-sorted-run.stop-trigger",
        K.INT,
        None,
        "Sorted runs beyond which a write does not give up its compaction to another commit.",
        honoured=True,
    ),
    Option("num-levels", K.INT, None, "Levels of the LSM tree.", honoured=True),
    Option(
        "full-compaction.delta-commits",
        K.INT,
        None,
        "Whether batch writes end with a full compaction of what they wrote: with any number above 0.",
        honoured=True,
    ),
    Option(
        "compaction.force-rewrite-all-files",
        K.BOOL,
        False,
        "Whether a full compaction rewrites every file.",
        honoured=True,
    ),
    Option(
        "compaction.small-file-ratio",
        K.FLOAT,
        0.7,
        "Files below this share of the target size are small.",
        honoured=True,
    ),
    Option(
        "compaction.max-size-amplification-percent",
        K.INT,
        200,
        "Share of newer data that starts a full compaction.",
        honoured=True,
    ),
    Option(
        "compaction.force-up-level-0", K.BOOL, False, "Whether compaction always takes all of level 0.", honoured=True
    ),
    Option(
        "compaction.size-ratio",
        K.INT,
        1,
        "Percentage by which a sorted run may differ to be compacted along.",
        honoured=True,
    ),
    Option("compaction.offpeak.start.hour", K.INT, -1, "Hour from which on more is compacted.", honoured=True),
    Option("compaction.offpeak.end.hour", K.INT, -1, "Hour until which more is compacted.", honoured=True),
    Option("compaction.offpeak-ratio", K.INT, 0, "Size ratio in the hours when more is compacted.", honoured=True),
    Option(
        "compaction.optimization-interval",
        K.DURATION,
        None,
        "How often a full compaction keeps the read-optimized table fresh.",
        honoured=True,
    ),
    Option(
        "compaction.total-size-threshold",
        K.MEMORY,
        None,
        "Tables below this size are always compacted in full.",
        honoured=True,
    ),
    Option(
        "compaction.incremental-size-threshold",
        K.MEMORY,
        None,
        "New data of this size starts a full compaction.",
        honoured=True,
    ),
    Option("compaction.min.file-num", K.INT, 5, "Files of an append table that make a compaction.", honoured=True),
    Option(
        "compaction.file-num-limit",
        K.INT,
        100000,
        "Files looked at by one compaction of an append table.",
        honoured=True,
    ),
    Option(
        "compaction.delete-ratio-threshold",
        K.FLOAT,
        0.2,
        "Share of deleted rows that gets a file compacted.",
        honoured=True,
    ),
    Option(
        "compaction.skip-expired-partitions",
        K.BOOL,
        False,
        "Whether expired partitions are left out of compaction.",
        honoured=True,
    ),
    Option(
        "zorder.var-length-contribution", K.INT, 8, "Bytes of a text that count in z-order.", instead=_NO_CLUSTERING
    ),
    Option(
        "sort-compaction.range-strategy",
        K.ENUM,
        "SIZE",
        "Whether sort compaction splits by size or number of rows.",
        choices=("SIZE", "QUANTITY"),
        instead=_NO_CLUSTERING,
    ),
    Option(
        "sort-compaction.local-sample.magnification",
        K.INT,
        1000,
        "Size of sort compaction's sample.",
        instead=_NO_CLUSTERING,
    ),
    Option(
        "clustering.columns",
        K.STRING,
        None,
        "Columns that rows are clustered by.",
        fallback_keys=("sink.clustering.by-columns",),
        instead=_NO_CLUSTERING,
    ),
    Option(
        "clustering.strategy",
        K.STRING,
        "auto",
        "How rows are clustered: auto, order, zorder or hilbert.",
        fallback_keys=("sink.clustering.strategy",),
        instead=_NO_CLUSTERING,
    ),
    Option(
        "clustering.incremental",
        K.BOOL,
        False,
        "Whether compaction clusters step by step.",
        refusals=(
            Refusal(
                Stage.COMPACT,
                "Its files must be clustered. Compact this table with another Paimon engine, or remove the option.",
                unless=("false",),
            ),
        ),
        instead=_NO_INCREMENTAL_CLUSTERING,
    ),
    Option(
        "clustering.history-partition.limit",
        K.INT,
        5,
        "Old partitions clustered in full at once.",
        instead=_NO_CLUSTERING,
    ),
    Option(
        "clustering.history-partition.idle-to-full-sort",
        K.DURATION,
        None,
        "Idle time after which a partition is old.",
        instead=_NO_CLUSTERING,
    ),
    Option(
        "clustering.incremental.optimize-write",
        K.BOOL,
        False,
        "Whether rows are clustered before they are written.",
        instead=_NO_INCREMENTAL_CLUSTERING,
    ),
    Option(
        "clustering.incremental.mode",
        K.ENUM,
        "global-sort",
        "Whether clustering sorts over all files or within each.",
        choices=("global-sort", "local-sort"),
        instead=_NO_INCREMENTAL_CLUSTERING,
    ),
)
