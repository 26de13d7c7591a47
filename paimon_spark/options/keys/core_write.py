"""Options of writers: `write…`, `sort-…`, `spill-…`, `local-…`."""

from paimon_spark.options.advice import WRITE_WITH_ANOTHER_ENGINE
from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

KB = 1 << 10
MB = 1 << 20
_JAVA_WRITERS = "Memory and files of Java's writers are meant; 'write-buffer-size' bounds a write here."

CORE_WRITE: tuple[Option, ...] = (
    Option(
        "sort-engine",
        K.ENUM,
        "loser-tree",
        "How Java merges sorted runs.",
        choices=("min-heap", "loser-tree"),
        instead=_JAVA_WRITERS,
    ),
    Option(
        "sort-spill-threshold", K.INT, None, "Sorted runs merged at once before Java spills.", instead=_JAVA_WRITERS
    ),
    Option("sort-spill-buffer-size", K.MEMORY, 64 * MB, "Memory of a spilling sort.", instead=_JAVA_WRITERS),
    Option("spill-compression", K.STRING, "zstd", "Compression of spilled rows.", instead=_JAVA_WRITERS),
    Option("spill-compression.zstd-level", K.INT, 1, "Level of zstd for spilled rows.", instead=_JAVA_WRITERS),
    Option(
        "write-only",
        K.BOOL,
        False,
        "Whether writes leave compaction and expiry to others.",
        fallback_keys=("write.compaction-skip",),
        honoured=True,
    ),
    Option(
        "write-buffer-size",
        K.MEMORY,
        256 * MB,
        "Rows gathered in memory before a sorted file is written.",
        honoured=True,
    ),
    Option(
        "write-buffer-spill.max-disk-size",
        K.MEMORY,
        2**63 - 1,
        "Disk that a spilled write buffer may take.",
        instead=_JAVA_WRITERS,
    ),
    Option(
        "write-buffer-spillable", K.BOOL, True, "Whether the write buffer may spill to disk.", instead=_JAVA_WRITERS
    ),
    Option("write-buffer-for-append", K.BOOL, False, "Whether append writers buffer rows.", instead=_JAVA_WRITERS),
    Option(
        "write-max-writers-to-spill", K.INT, 10, "Writers from which on append rows are spilled.", instead=_JAVA_WRITERS
    ),
    Option(
        "local-sort.max-num-file-handles",
        K.INT,
        128,
        "Files merged at once by an external sort.",
        instead=_JAVA_WRITERS,
    ),
    Option("page-size", K.MEMORY, 64 * KB, "Memory page of Java's sort.", instead=_JAVA_WRITERS),
    Option("cache-page-size", K.MEMORY, 64 * KB, "Memory page of Java's caches.", instead=_JAVA_WRITERS),
    Option(
        "write.sequence-number-init-mode",
        K.ENUM,
        "scan",
        "Where a writer finds the next sequence number.",
        choices=("scan", "snapshot"),
        refusals=(Refusal(Stage.WRITE, WRITE_WITH_ANOTHER_ENGINE, unless=("scan",)),),
    ),
    Option(
        "dynamic-partition-overwrite",
        K.BOOL,
        False,
        "Whether `overwrite` replaces only the partitions that appear in the data, where neither the write nor "
        "the session says so. Java: true.",
        honoured=True,
    ),
    Option(
        "write.batch-size",
        K.INT,
        1024,
        "Rows in a batch of Java's writers.",
        fallback_keys=("orc.write.batch-size",),
        instead=_JAVA_WRITERS,
    ),
    Option("write.batch-memory", K.MEMORY, 128 * MB, "Memory of a batch of Java's writers.", instead=_JAVA_WRITERS),
    Option(
        "local-merge-buffer-size",
        K.MEMORY,
        None,
        "Buffer that merges rows before they are shuffled.",
        instead=_JAVA_WRITERS,
    ),
    Option("async-file-write", K.BOOL, True, "Whether Java writes files in the background.", instead=_JAVA_WRITERS),
    Option(
        "overwrite-upgrade",
        K.BOOL,
        True,
        "Whether an overwrite puts its files on the top level where it can.",
        honoured=True,
    ),
)
