"""Options of indexes: `file-index.…`, `global-index.…`, `pk-….…`, `…-index.search-mode`."""

from paimon_spark.options.advice import USE_ANOTHER_ENGINE, WRITE_WITH_ANOTHER_ENGINE
from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

_NO_INDEX_IS_READ = "Scans read the data files and no index: the rows are the same."

CORE_INDEX: tuple[Option, ...] = (
    Option(
        "file-index.in-manifest-threshold",
        K.MEMORY,
        500,
        "File indexes up to this size are kept in the manifest.",
        honoured=True,
    ),
    Option(
        "file-index.read.enabled",
        K.BOOL,
        True,
        "Whether file indexes are used to skip files and rows.",
        honoured=True,
    ),
    Option("global-index.external-path", K.STRING, None, "Directory of global indexes.", instead=_NO_INDEX_IS_READ),
    Option(
        "global-index.column-update-action",
        K.ENUM,
        "THROW_ERROR",
        "What an update of an indexed column does.",
        choices=("THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"),
        honoured=True,
    ),
    Option(
        "global-index.row-count-per-shard",
        K.LONG,
        100000,
        "Rows of a shard of a global index.",
        instead=_NO_INDEX_IS_READ,
    ),
    Option("global-index.build.max-shard", K.INT, 32, "Shards of a global index at most.", instead=_NO_INDEX_IS_READ),
    Option(
        "global-index.build.max-parallelism",
        K.INT,
        4096,
        "Parallelism of building a global index.",
        instead=_NO_INDEX_IS_READ,
    ),
    Option(
        "global-index.enabled", K.BOOL, True, "Whether global indexes are used by scans.", instead=_NO_INDEX_IS_READ
    ),
    Option(
        "global-index.search-mode",
        K.ENUM,
        None,
        "Where a search looks besides the index.",
        choices=("fast", "full", "detail"),
        instead=_NO_INDEX_IS_READ,
    ),
    Option(
        "scalar-index.search-mode",
        K.ENUM,
        "fast",
        "Where a search of scalar indexes looks besides.",
        choices=("fast", "full", "detail"),
        instead=_NO_INDEX_IS_READ,
    ),
    Option(
        "full-text-index.search-mode",
        K.ENUM,
        "fast",
        "Where a search of full-text indexes looks besides.",
        choices=("fast", "full", "detail"),
        instead=_NO_INDEX_IS_READ,
    ),
    Option(
        "global-index.thread-num", K.INT, 32, "Threads of global index input and output.", instead=_NO_INDEX_IS_READ
    ),
    Option(
        "pk-vector.index.columns",
        K.STRING,
        None,
        "Columns with a primary-key vector index.",
        refusals=(Refusal(Stage.WRITE, f"Its index would miss the rows written here. {WRITE_WITH_ANOTHER_ENGINE}"),),
    ),
    Option(
        "pk-btree.index.columns",
        K.STRING,
        None,
        "Columns with a primary-key btree index.",
        refusals=(Refusal(Stage.WRITE, f"Its index would miss the rows written here. {WRITE_WITH_ANOTHER_ENGINE}"),),
    ),
    Option(
        "pk-bitmap.index.columns",
        K.STRING,
        None,
        "Columns with a primary-key bitmap index.",
        refusals=(Refusal(Stage.WRITE, f"Its index would miss the rows written here. {WRITE_WITH_ANOTHER_ENGINE}"),),
    ),
    Option(
        "pk-multivalue.index.columns",
        K.STRING,
        None,
        "Columns with a primary-key multivalue index.",
        refusals=(Refusal(Stage.WRITE, f"Its index would miss the rows written here. {WRITE_WITH_ANOTHER_ENGINE}"),),
    ),
    Option(
        "pk-full-text.index.columns",
        K.STRING,
        None,
        "Columns with a primary-key full-text index.",
        refusals=(Refusal(Stage.WRITE, f"Its index would miss the rows written here. {WRITE_WITH_ANOTHER_ENGINE}"),),
    ),
    Option(
        "pk-clustering-override",
        K.BOOL,
        False,
        "Whether files are sorted by clustering.columns and not by key.",
        immutable=True,
        refusals=(Refusal(Stage.TABLE, USE_ANOTHER_ENGINE, unless=("false",)),),
    ),
    Option(
        "file-index.<type>.columns",
        K.STRING,
        None,
        "Columns that get a file index of this type.",
        honoured=True,
    ),
    Option(
        "file-index.<type>.<field>.<option>",
        K.STRING,
        None,
        "Setting of one column's file index.",
        honoured=True,
    ),
)
