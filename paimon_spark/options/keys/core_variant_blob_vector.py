"""Options of VARIANT, BLOB and VECTOR columns."""

from paimon_spark.options.advice import WRITE_WITH_ANOTHER_ENGINE
from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

KB = 1 << 10
_EACH_FILE = "Each file infers its schema from its own first rows."
_DESCRIBED = "The files that descriptors and references name are not read."
_OWN_VALUES = "Values are written as they are given."
_NO_VECTOR_SEARCH = "Vector search is refused."

CORE_VARIANT_BLOB_VECTOR: tuple[Option, ...] = (
    Option(
        "variant.shreddingSchema",
        K.STRING,
        None,
        "Schema by which VARIANT columns are shredded.",
        fallback_keys=("parquet.variant.shreddingSchema",),
        honoured=True,
    ),
    Option(
        "variant.inferShreddingSchema",
        K.BOOL,
        False,
        "Whether the shredding schema is inferred from the rows.",
        honoured=True,
    ),
    Option(
        "variant.shredding.inferenceMode",
        K.ENUM,
        "per-file",
        "Whether each file infers its shredding schema anew.",
        choices=("per-file", "adaptive"),
        instead=_EACH_FILE,
    ),
    Option(
        "variant.shredding.maxSchemaWidth",
        K.INT,
        300,
        "Fields of an inferred shredding schema at most.",
        honoured=True,
    ),
    Option(
        "variant.shredding.maxSchemaDepth",
        K.INT,
        50,
        "Depth of an inferred shredding schema at most.",
        honoured=True,
    ),
    Option(
        "variant.shredding.minFieldCardinalityRatio",
        K.FLOAT,
        0.1,
        "Share of rows that must have a field for it to be shredded.",
        honoured=True,
    ),
    Option(
        "variant.shredding.maxInferBufferRow",
        K.INT,
        4096,
        "Rows looked at to infer a shredding schema.",
        honoured=True,
    ),
    Option(
        "variant.shredding.adaptive.maxInferBufferRow",
        K.INT,
        256,
        "Rows looked at after the first file in adaptive mode.",
        instead=_EACH_FILE,
    ),
    Option(
        "variant.shredding.adaptive.retentionRatio",
        K.FLOAT,
        0.05,
        "Share of rows that keeps a field shredded in adaptive mode.",
        instead=_EACH_FILE,
    ),
    Option("blob.target-file-size", K.MEMORY, None, "Size at which blob files roll.", honoured=True),
    Option(
        "blob.split-by-file-size",
        K.BOOL,
        None,
        "Whether blob files count for the size of splits.",
        instead="Blob files are not counted.",
    ),
    Option("blob.copy-buffer-size", K.MEMORY, 4 * KB, "Buffer for copying blobs.", instead=_OWN_VALUES),
    Option(
        "blob-field",
        K.STRING,
        None,
        "BYTES columns stored as BLOB.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "blob-descriptor-field",
        K.STRING,
        None,
        "BLOB columns stored as descriptors.",
        fallback_keys=("blob.stored-descriptor-fields",),
        immutable=True,
        honoured=True,
    ),
    Option(
        "blob-view-field",
        K.STRING,
        None,
        "BLOB columns that refer to other tables.",
        immutable=True,
        honoured=True,
        refusals=(Refusal(Stage.WRITE, WRITE_WITH_ANOTHER_ENGINE),),
    ),
    Option(
        "blob-as-descriptor",
        K.BOOL,
        False,
        "Whether BLOB columns are read and written as descriptors.",
        honoured=True,
        refusals=(
            Refusal(Stage.WRITE, "Give the values themselves: a descriptor may name any file.", unless=("false",)),
        ),
    ),
    Option(
        "blob-descriptor.source-table",
        K.STRING,
        None,
        "Table through which blob descriptors are read.",
        instead=_DESCRIBED,
    ),
    Option(
        "vector.file.format",
        K.STRING,
        None,
        "Format of files that hold VECTOR columns alone.",
        honoured=True,
        refusals=(Refusal(Stage.WRITE, "Data files can be parquet, orc or avro.", unless=("parquet", "orc", "avro")),),
    ),
    Option(
        "vector-field",
        K.STRING,
        None,
        "ARRAY columns stored as VECTOR.",
        honoured=True,
    ),
    Option(
        "field.<field>.vector-dim",
        K.INT,
        None,
        "Length of a column of `vector-field`.",
        honoured=True,
    ),
    Option("vector.target-file-size", K.MEMORY, None, "Size at which vector files roll.", honoured=True),
    Option("blob-view.resolve.enabled", K.BOOL, True, "Whether such references are resolved when read.", honoured=True),
    Option(
        "vector-index.search-mode",
        K.ENUM,
        "fast",
        "Where a search of vector indexes looks besides.",
        choices=("fast", "full", "detail"),
        instead=_NO_VECTOR_SEARCH,
    ),
    Option(
        "vector-search.distribute.enabled",
        K.BOOL,
        False,
        "Whether vector search runs distributed.",
        instead=_NO_VECTOR_SEARCH,
    ),
    Option(
        "vector-search.lateral-join.batch-size",
        K.INT,
        256,
        "Vectors searched at once in a lateral join.",
        instead=_NO_VECTOR_SEARCH,
    ),
    Option(
        "blob-compaction.enabled",
        K.BOOL,
        False,
        "Whether compaction takes blob files too.",
        instead="Such compactions are refused.",
    ),
    Option(
        "blob-write-null-on-missing-file",
        K.BOOL,
        False,
        "Whether a missing blob is written as null.",
        instead=_OWN_VALUES,
    ),
    Option(
        "blob-write-null-on-fetch-failure",
        K.BOOL,
        False,
        "Whether a blob that cannot be fetched is written as null.",
        instead=_OWN_VALUES,
    ),
    Option(
        "blob-descriptor.*", K.STRING, None, "Access to the storage that blob descriptors point to.", instead=_DESCRIBED
    ),
    Option("ivf-pq.*", K.STRING, None, "Settings of vector indexes.", instead=_NO_VECTOR_SEARCH),
)
