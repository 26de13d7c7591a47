"""Options of Java's lookups: `lookup…`."""

from datetime import timedelta

from paimon_spark.options.option import Option
from paimon_spark.options.option import OptionKind as K

KB = 1 << 10
MB = 1 << 20
_JAVA_LOOKUPS = "It is for files in which Java and Flink look up key by key; rows are joined in sorted runs here."

CORE_LOOKUP: tuple[Option, ...] = (
    Option("lookup.hash-load-factor", K.FLOAT, 0.75, "Load factor of Java's lookup files.", instead=_JAVA_LOOKUPS),
    Option("lookup.cache-rows", K.LONG, 10000, "Rows in the lookup cache.", instead=_JAVA_LOOKUPS),
    Option(
        "lookup.continuous.discovery-interval",
        K.DURATION,
        None,
        "Interval at which a lookup join looks for new snapshots.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.cache-file-retention",
        K.DURATION,
        timedelta(hours=1),
        "How long lookup files stay on disk.",
        instead=_JAVA_LOOKUPS,
    ),
    Option("lookup.cache-max-disk-size", K.MEMORY, 2**63 - 1, "Disk for lookup files.", instead=_JAVA_LOOKUPS),
    Option("lookup.cache-spill-compression", K.STRING, "zstd", "Compression of lookup files.", instead=_JAVA_LOOKUPS),
    Option("lookup.cache-max-memory-size", K.MEMORY, 256 * MB, "Memory for lookup files.", instead=_JAVA_LOOKUPS),
    Option(
        "lookup.blob-as-descriptor",
        K.BOOL,
        False,
        "Whether lookup files keep only descriptors of blobs.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.cache.high-priority-pool-ratio",
        K.FLOAT,
        0.25,
        "Share of the lookup cache for indexes and filters.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.cache.bloom.filter.enabled",
        K.BOOL,
        True,
        "Whether lookup files have a bloom filter.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.cache.bloom.filter.fpp",
        K.FLOAT,
        0.05,
        "False positives of the lookup files' bloom filter.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.remote-file.enabled",
        K.BOOL,
        False,
        "Whether lookup files are stored with the table.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "lookup.remote-file.level-threshold",
        K.INT,
        -(2**31),
        "Lowest level whose lookup files are stored with the table.",
        instead=_JAVA_LOOKUPS,
    ),
    Option("lookup.merge-buffer-size", K.MEMORY, 8 * MB, "Memory to merge one key in a lookup.", instead=_JAVA_LOOKUPS),
    Option(
        "lookup.merge-records-threshold",
        K.INT,
        1024,
        "Rows of one key after which a lookup merges in binary form.",
        instead=_JAVA_LOOKUPS,
    ),
    Option(
        "force-lookup",
        K.BOOL,
        False,
        "Whether compactions look up older rows, and each write is compacted.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "lookup-wait",
        K.BOOL,
        True,
        "Whether a commit waits for lookup compaction.",
        fallback_keys=("changelog-producer.lookup-wait",),
        instead="A batch write waits, as Java's does.",
    ),
    Option(
        "lookup-compact",
        K.ENUM,
        "RADICAL",
        "Whether each write is compacted where rows are looked up, or every few.",
        choices=("RADICAL", "GENTLE"),
        honoured=True,
    ),
    Option(
        "lookup-compact.max-interval",
        K.INT,
        None,
        "Commits of one writer between two gentle lookup compactions.",
        instead="A batch write is one commit: with GENTLE 'num-sorted-run.compaction-trigger' decides, as for Java's.",
    ),
    Option("local-kv-db.block-size", K.MEMORY, 4 * KB, "Block of Java's local key-value store.", instead=_JAVA_LOOKUPS),
)
