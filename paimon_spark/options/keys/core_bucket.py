"""Options of buckets: `bucket…`, `dynamic-bucket.…`, `postpone.…`, `cross-partition-upsert.…`."""

from paimon_spark.options.option import Option
from paimon_spark.options.option import OptionKind as K

GB = 1 << 30
_ALL_KEYS = "Each write finds all keys of the table, so a key never has two rows."
_KEYS_BY_JOB = "A Spark job reads the keys, in as many tasks as their files need."

CORE_BUCKET: tuple[Option, ...] = (
    Option(
        "bucket",
        K.INT,
        -1,
        "Number of buckets; -1 dynamic (primary key) or none (append), -2 postponed.",
        honoured=True,
    ),
    Option(
        "bucket-key",
        K.STRING,
        None,
        "Columns whose hash gives the bucket, as a comma list; the primary key without.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "bucket-append-ordered",
        K.BOOL,
        True,
        "Whether an append table's bucket is read in the order it was written.",
        instead="Files of a bucket are read in the order they were written.",
    ),
    Option(
        "bucket-function.type",
        K.ENUM,
        "default",
        "How the bucket is computed from the bucket key.",
        immutable=True,
        choices=("default", "mod", "hive"),
        honoured=True,
    ),
    Option("dynamic-bucket.target-row-num", K.LONG, 2000000, "Rows that a dynamic bucket takes.", honoured=True),
    Option(
        "dynamic-bucket.initial-buckets", K.INT, None, "Buckets a partition starts with.", immutable=True, honoured=True
    ),
    Option("dynamic-bucket.max-buckets", K.INT, -1, "Buckets of a partition at most, -1 without limit.", honoured=True),
    Option(
        "dynamic-bucket.assigner-parallelism",
        K.INT,
        None,
        "Parallelism of Java's bucket assigner.",
        instead="Spark's tasks are the assigners.",
    ),
    Option(
        "cross-partition-upsert.index-ttl",
        K.DURATION,
        None,
        "How long the index of a cross-partition table is kept.",
        instead=_ALL_KEYS,
    ),
    Option(
        "cross-partition-upsert.bootstrap-parallelism",
        K.INT,
        10,
        "Threads that build the index of a cross-partition table.",
        instead=_KEYS_BY_JOB,
    ),
    Option(
        "postpone.batch-write-fixed-bucket",
        K.BOOL,
        True,
        "Whether batch writes of a postpone table go to real buckets; else rows wait for a compaction.",
        honoured=True,
    ),
    Option(
        "postpone.merge-on-read",
        K.BOOL,
        False,
        "Whether postponed rows are merged when read.",
        honoured=True,
    ),
    Option(
        "postpone.batch-write-fixed-bucket.max-parallelism",
        K.INT,
        2048,
        "Buckets inferred for a postpone table at most.",
        honoured=True,
    ),
    Option(
        "postpone.batch-write-fixed-bucket.rescale-load-factor",
        K.INT,
        32,
        "How many times as many buckets as it has a partition must need for a batch before it is rescaled.",
        honoured=True,
    ),
    Option(
        "postpone.default-bucket-num",
        K.INT,
        None,
        "Buckets of a postpone table's new partition.",
        honoured=True,
    ),
    Option(
        "postpone.target-row-num-per-bucket",
        K.LONG,
        None,
        "Rows that a postpone table's bucket should have.",
        honoured=True,
    ),
    Option(
        "postpone.target-size-per-bucket",
        K.MEMORY,
        GB,
        "Size that a postpone table's bucket should have.",
        honoured=True,
    ),
)
