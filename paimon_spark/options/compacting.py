"""Options of compaction."""

from paimon_spark.options.option import Option
from paimon_spark.options.option import OptionKind as K

COMPACTING: tuple[Option, ...] = (
    Option(
        "compaction.force-rewrite-all-files",
        K.BOOL,
        False,
        "Whether a full compaction rewrites every file.",
        supported=True,
    ),
    Option(
        "compaction.small-file-ratio",
        K.FLOAT,
        0.7,
        "Files below this share of the target size are small.",
        supported=True,
    ),
    Option(
        "compaction.max-size-amplification-percent",
        K.INT,
        200,
        "Share of newer data that starts a full compaction.",
        supported=True,
    ),
    Option(
        "compaction.force-up-level-0", K.BOOL, False, "Whether compaction always takes all of level 0.", supported=True
    ),
    Option(
        "compaction.size-ratio",
        K.INT,
        1,
        "Percentage by which a sorted run may differ to be compacted along.",
        supported=True,
    ),
    Option("compaction.offpeak.start.hour", K.INT, -1, "Hour from which on more is compacted.", supported=True),
    Option("compaction.offpeak.end.hour", K.INT, -1, "Hour until which more is compacted.", supported=True),
    Option("compaction.offpeak-ratio", K.INT, 0, "Size ratio in the hours when more is compacted.", supported=True),
    Option(
        "compaction.optimization-interval",
        K.DURATION,
        None,
        "How often a full compaction keeps the read-optimized table fresh.",
        supported=True,
    ),
    Option(
        "compaction.total-size-threshold",
        K.MEMORY,
        None,
        "Tables below this size are always compacted in full.",
        supported=True,
    ),
    Option(
        "compaction.incremental-size-threshold",
        K.MEMORY,
        None,
        "New data of this size starts a full compaction.",
        supported=True,
    ),
    Option("compaction.min.file-num", K.INT, 5, "Files of an append table that make a compaction.", supported=True),
    Option(
        "compaction.file-num-limit",
        K.INT,
        100000,
        "Files looked at by one compaction of an append table.",
        supported=True,
    ),
    Option("compaction.delete-ratio-threshold", K.FLOAT, 0.2, "Share of deleted rows that gets a file compacted."),
    Option(
        "compaction.skip-expired-partitions",
        K.BOOL,
        False,
        "Whether expired partitions are left out of compaction.",
        supported=True,
    ),
)
