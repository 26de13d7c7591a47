"""Options whose key has a free part: one per column, per index, or passed on to a file format or a storage."""

from paimon_spark.options.option import Option, Scope
from paimon_spark.options.option import OptionKind as K

AGGREGATE_FUNCTION = "aggregate-function"

PATTERNS: tuple[Option, ...] = (
    Option(
        "fields.<field>.aggregate-function",
        K.STRING,
        None,
        "Aggregate function of a column, for the aggregation merge engine and for partial-update sequence groups.",
        supported=True,
    ),
    Option(
        "fields.<field>.ignore-retract",
        K.BOOL,
        False,
        "Whether the column's aggregate ignores retractions (-U and -D rows).",
        supported=True,
    ),
    Option(
        "fields.<field>.sequence-group",
        K.STRING,
        None,
        "Columns that are ordered by this column (or comma list of columns) in partial-update tables.",
        supported=True,
    ),
    Option("fields.<field>.list-agg-delimiter", K.STRING, ",", "Text between the parts of a listagg.", supported=True),
    Option(
        "fields.<field>.distinct",
        K.BOOL,
        False,
        "Whether collect and listagg keep each element only once.",
        supported=True,
    ),
    Option(
        "fields.<field>.nested-key",
        K.STRING,
        None,
        "Key columns of the rows that nested_update and nested_partial_update merge.",
        supported=True,
    ),
    Option(
        "fields.<field>.nested-key-null-strategy",
        K.ENUM,
        "merge",
        "What nested_update does with rows whose nested key holds a null.",
        choices=("merge", "ignore", "error"),
        supported=True,
    ),
    Option(
        "fields.<field>.nested-sequence-field",
        K.STRING,
        None,
        "Column of the nested rows that says which of two rows with one nested key is newer.",
        supported=True,
    ),
    Option(
        "fields.<field>.count-limit",
        K.INT,
        2**31 - 1,
        "Number of rows that nested_update keeps at most.",
        supported=True,
    ),
    Option(
        "fields.<field>.ts-field",
        K.STRING,
        None,
        "Column of the map's values that merge_map_with_keytime compares; the last one without it.",
        supported=True,
    ),
    Option(
        "fields.<field>.stats-mode",
        K.STRING,
        None,
        "Statistics kept for the column: none, counts, truncate(n) or full.",
        supported=True,
    ),
    Option(
        "fields.<field>.map.storage-layout",
        K.ENUM,
        "default",
        "How a MAP column is laid out in its files.",
        choices=("default", "shared-shredding"),
    ),
    Option("fields.<field>.map.<option>", K.STRING, None, "Settings of the shared-shredding layout of a MAP column."),
    Option(
        "fields.<field>.pk-vector.<option>", K.STRING, None, "Settings of the primary-key vector index of a column."
    ),
    Option(
        "fields.<field>.pk-full-text.<option>",
        K.STRING,
        None,
        "Settings of the primary-key full-text index of a column.",
    ),
    Option("file-index.<type>.columns", K.STRING, None, "Columns that get a file index of this type."),
    Option("file-index.<type>.<field>.<option>", K.STRING, None, "Setting of one column's file index."),
    Option("parquet.*", K.STRING, None, "Passed on to the Parquet writer.", supported=True),
    Option("orc.*", K.STRING, None, "Passed on to the ORC writer.", supported=True),
    Option("avro.*", K.STRING, None, "Passed on to the Avro writer, such as `avro.codec`.", supported=True),
    Option("csv.*", K.STRING, None, "Settings of format tables in CSV."),
    Option("json.*", K.STRING, None, "Settings of format tables in JSON."),
    Option("metadata.iceberg.*", K.STRING, None, "Iceberg metadata written beside Paimon's."),
    Option("blob-descriptor.*", K.STRING, None, "Access to the storage that blob descriptors point to."),
    Option("ivf-pq.*", K.STRING, None, "Settings of vector indexes."),
    Option("dlf.*", K.STRING, None, "Settings of the DLF catalog.", scope=Scope.CATALOG),
    Option("token.*", K.STRING, None, "Authentication at a REST catalog.", scope=Scope.CATALOG),
    Option("jdbc.*", K.STRING, None, "Settings of the JDBC catalog.", scope=Scope.CATALOG),
    Option("hive.*", K.STRING, None, "Settings of the Hive catalog.", scope=Scope.CATALOG),
    Option("hadoop.*", K.STRING, None, "Hadoop configuration.", scope=Scope.STORE, supported=True),
    Option(
        "table-default.*",
        K.STRING,
        None,
        "Default of a table option for tables created in the catalog.",
        scope=Scope.CATALOG,
    ),
    Option("s3.*", K.STRING, None, "Access to S3, such as `s3.endpoint`.", scope=Scope.STORE, supported=True),
    Option("s3a.*", K.STRING, None, "Access to S3, under Hadoop's scheme.", scope=Scope.STORE, supported=True),
    Option("fs.*", K.STRING, None, "Hadoop's `fs.s3a.*`, or an fsspec option.", scope=Scope.STORE, supported=True),
    Option("gs.*", K.STRING, None, "Access to Google Cloud Storage.", scope=Scope.STORE, supported=True),
    Option("azure.*", K.STRING, None, "Access to Azure storage.", scope=Scope.STORE, supported=True),
    Option("oss.*", K.STRING, None, "Access to OSS.", scope=Scope.STORE, supported=True),
    Option("cosn.*", K.STRING, None, "Access to COS.", scope=Scope.STORE),
    Option("obs.*", K.STRING, None, "Access to OBS.", scope=Scope.STORE),
)
"""More special patterns come before more general ones."""


def match_pattern(pattern: str, key: str) -> tuple[str, ...] | None:
    """What the free parts of a pattern stand for in a key (fixed parts compared without case); None when it differs.

    The first free part takes as much as the rest allows, since column names may hold dots.
    """
    lowered = key.lower()
    if pattern.endswith("*"):
        fixed = pattern[:-1]
        return (key[len(fixed) :],) if lowered.startswith(fixed) and len(key) > len(fixed) else None
    fixed_parts, parts = _split(pattern)
    if not lowered.startswith(fixed_parts[0]):
        return None
    rest = key[len(fixed_parts[0]) :]
    values: list[str] = []
    for after in fixed_parts[1:-1]:
        at = rest.lower().rfind(after) if parts[len(values)] == "field" else rest.lower().find(after)
        if at <= 0:
            return None
        values.append(rest[:at])
        rest = rest[at + len(after) :]
    last = fixed_parts[-1]
    if last and not rest.lower().endswith(last):
        return None
    values.append(rest[: len(rest) - len(last)])
    return tuple(values) if all(values) else None


def fill_pattern(pattern: str, values: tuple[str, ...]) -> str:
    """The key that a pattern gives with its free parts filled in."""
    if pattern.endswith("*"):
        return pattern[:-1] + values[0]
    fixed_parts, _ = _split(pattern)
    result = fixed_parts[0]
    for value, after in zip(values, fixed_parts[1:], strict=True):
        result += value + after
    return result


def free_parts(pattern: str) -> tuple[str, ...]:
    """What the free parts of a pattern are: `field`, `type`, `option`, `class`; a trailing `*` counts as `option`."""
    return ("option",) if pattern.endswith("*") else tuple(_split(pattern)[1])


def _split(pattern: str) -> tuple[list[str], list[str]]:
    fixed, names = [], []
    rest = pattern
    while "<" in rest:
        before, _, rest = rest.partition("<")
        name, _, rest = rest.partition(">")
        fixed.append(before)
        names.append(name)
    return [*fixed, rest], names
