"""Options of merge engines: `merge-engine`, `sequence.…`, `fields.…`, `changelog-producer…`, `deletion-vector…`."""

from paimon_spark.options.advice import USE_ANOTHER_ENGINE, WRITE_WITH_ANOTHER_ENGINE
from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

MB = 1 << 20
_NO_CHANGELOGS = "No changelog files are written here."
_NO_DELETION_VECTORS = "Tables with deletion vectors are refused."
_NO_KEY_INDEXES = "Writes to tables with primary-key indexes are refused."

CORE_MERGE: tuple[Option, ...] = (
    Option(
        "merge-engine",
        K.ENUM,
        "deduplicate",
        "How rows with one primary key become one.",
        immutable=True,
        choices=("deduplicate", "partial-update", "aggregation", "first-row"),
        honoured=True,
        refusals=(Refusal(Stage.TABLE, USE_ANOTHER_ENGINE, unless=("deduplicate", "partial-update")),),
    ),
    Option(
        "ignore-delete",
        K.BOOL,
        False,
        "Whether -D and -U rows are dropped.",
        fallback_keys=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
        honoured=True,
    ),
    Option("ignore-update-before", K.BOOL, False, "Whether -U rows are dropped.", honoured=True),
    Option(
        "changelog-producer",
        K.ENUM,
        "none",
        "Where changelog files come from.",
        choices=("none", "input", "full-compaction", "lookup"),
        honoured=True,
        refusals=(Refusal(Stage.WRITE, WRITE_WITH_ANOTHER_ENGINE, unless=("none", "input")),),
    ),
    Option(
        "changelog-producer.row-deduplicate",
        K.BOOL,
        False,
        "Whether unchanged rows make no changelog.",
        instead=_NO_CHANGELOGS,
    ),
    Option(
        "changelog-producer.row-deduplicate-ignore-fields",
        K.STRING,
        None,
        "Columns that do not count as a change.",
        instead=_NO_CHANGELOGS,
    ),
    Option(
        "sequence.field", K.STRING, None, "Columns that say which of two rows with one key is newer.", honoured=True
    ),
    Option(
        "sequence.field.sort-order",
        K.ENUM,
        "ascending",
        "Whether the greater or the smaller sequence is newer.",
        choices=("ascending", "descending"),
        honoured=True,
    ),
    Option(
        "sequence.snapshot-ordering",
        K.BOOL,
        False,
        "Whether the later snapshot wins, whatever the sequence numbers.",
        immutable=True,
        refusals=(Refusal(Stage.TABLE, USE_ANOTHER_ENGINE, unless=("false",)),),
    ),
    Option(
        "aggregation.remove-record-on-delete",
        K.BOOL,
        False,
        "Whether a -D row removes the row of an aggregation table.",
        immutable=True,
        instead="Tables with 'merge-engine' = 'aggregation' are refused.",
    ),
    Option(
        "partial-update.remove-record-on-delete",
        K.BOOL,
        False,
        "Whether a -D row removes the row of a partial-update table.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "partial-update.remove-record-on-sequence-group",
        K.STRING,
        None,
        "Sequence columns whose -D row removes the row.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "rowkind.field",
        K.STRING,
        None,
        "Column that holds each written row's kind: +I, -U, +U or -D.",
        immutable=True,
        honoured=True,
    ),
    Option(
        "deletion-vectors.enabled",
        K.BOOL,
        False,
        "Whether deleted rows are marked in deletion vectors.",
        refusals=(Refusal(Stage.TABLE, USE_ANOTHER_ENGINE, unless=("false",)),),
    ),
    Option(
        "deletion-vectors.modifiable", K.BOOL, False, "Whether deletion-vectors.enabled may be changed.", honoured=True
    ),
    Option(
        "deletion-vector.index-file.target-size",
        K.MEMORY,
        2 * MB,
        "Size of a deletion vector file.",
        instead=_NO_DELETION_VECTORS,
    ),
    Option(
        "deletion-vectors.merge-on-read",
        K.BOOL,
        False,
        "Whether rows not yet compacted are merged when read.",
        instead=_NO_DELETION_VECTORS,
    ),
    Option(
        "deletion-vectors.bitmap64",
        K.BOOL,
        False,
        "Whether deletion vectors have 64 bit positions.",
        instead=_NO_DELETION_VECTORS,
    ),
    Option(
        "delete.force-produce-changelog", K.BOOL, False, "Whether deletes by statement make a changelog.", honoured=True
    ),
    Option(
        "fields.default-aggregate-function",
        K.STRING,
        None,
        "Aggregate function of columns that name none.",
        honoured=True,
    ),
    Option(
        "record-level.expire-time",
        K.DURATION,
        None,
        "Age at which single rows expire in compactions.",
        refusals=(
            Refusal(Stage.WRITE, "Its compactions drop rows by age: write this table with another Paimon engine."),
        ),
    ),
    Option(
        "record-level.time-field",
        K.STRING,
        None,
        "Column that holds a row's age.",
        instead="Writes with 'record-level.expire-time' are refused.",
    ),
    Option(
        "fields.<field>.aggregate-function",
        K.STRING,
        None,
        "Aggregate function of a column, for the aggregation merge engine and for partial-update sequence groups.",
        honoured=True,
    ),
    Option(
        "fields.<field>.ignore-retract",
        K.BOOL,
        False,
        "Whether the column's aggregate ignores retractions (-U and -D rows).",
        honoured=True,
    ),
    Option(
        "fields.<field>.sequence-group",
        K.STRING,
        None,
        "Columns that are ordered by this column (or comma list of columns) in partial-update tables.",
        honoured=True,
    ),
    Option("fields.<field>.list-agg-delimiter", K.STRING, ",", "Text between the parts of a listagg.", honoured=True),
    Option(
        "fields.<field>.distinct",
        K.BOOL,
        False,
        "Whether collect and listagg keep each element only once.",
        honoured=True,
    ),
    Option(
        "fields.<field>.nested-key",
        K.STRING,
        None,
        "Key columns of the rows that nested_update and nested_partial_update merge.",
        honoured=True,
    ),
    Option(
        "fields.<field>.nested-key-null-strategy",
        K.ENUM,
        "merge",
        "What nested_update does with rows whose nested key holds a null.",
        choices=("merge", "ignore", "error"),
        honoured=True,
    ),
    Option(
        "fields.<field>.nested-sequence-field",
        K.STRING,
        None,
        "Column of the nested rows that says which of two rows with one nested key is newer.",
        honoured=True,
    ),
    Option(
        "fields.<field>.count-limit",
        K.INT,
        2**31 - 1,
        "Number of rows that nested_update keeps at most.",
        honoured=True,
    ),
    Option(
        "fields.<field>.ts-field",
        K.STRING,
        None,
        "Column of the map's values that merge_map_with_keytime compares; the last one without it.",
        honoured=True,
    ),
    Option(
        "fields.<field>.stats-mode",
        K.STRING,
        None,
        "Statistics kept for the column: none, counts, truncate(n) or full.",
        honoured=True,
    ),
    Option(
        "fields.<field>.map.storage-layout",
        K.ENUM,
        "default",
        "How a MAP column is laid out in its files.",
        choices=("default", "shared-shredding"),
        refusals=(Refusal(Stage.TABLE, USE_ANOTHER_ENGINE, unless=("default",)),),
    ),
    Option(
        "fields.<field>.map.<option>",
        K.STRING,
        None,
        "Settings of the shared-shredding layout of a MAP column.",
        instead="Tables with the layout 'shared-shredding' are refused.",
    ),
    Option(
        "fields.<field>.pk-vector.<option>",
        K.STRING,
        None,
        "Settings of the primary-key vector index of a column.",
        instead=_NO_KEY_INDEXES,
    ),
    Option(
        "fields.<field>.pk-full-text.<option>",
        K.STRING,
        None,
        "Settings of the primary-key full-text index of a column.",
        instead=_NO_KEY_INDEXES,
    ),
)
