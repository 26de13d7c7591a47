"""The typed view of the options of one table or one request (Java ``CoreOptions``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from paimon_spark.options.option import Option, OptionKind, parse_memory_size
from paimon_spark.options.registry import OPTIONS, find_option

READS_LEVEL_0 = "_reads-level-0"
"""A job of ours sets it where rows that batch reads leave out must not be lost; it is no option that users know."""
OPENED_AT = "_opened-at-schema"
"""The id of the schema by which a statement that replaces a table's schema reads its old rows; as above."""
AT_SNAPSHOT = "_at-snapshot"
"""The id of the snapshot that a Connect client has chosen for a load which names no version; as above."""
IGNORES_LOST_FILES = "scan.ignore-lost-files"
IGNORES_CORRUPT_FILES = "scan.ignore-corrupt-files"

_SECRET_WORDS = ("secret", "password", "token", "access-key", "access.key", "accesskey", "credential", "sas", "auth")


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_T = TypeVar("_T")


class _Value(Generic[_T]):
    """An attribute that is the value of an option."""

    def __init__(self, key: str, convert: Callable[[Any], _T]) -> None:
        self._key = key
        self._convert = convert

    def __get__(self, options: CoreOptions, owner: type) -> _T:
        return self._convert(options.value(self._key))


def _as_it_is(value: Any) -> Any:
    return value


class CoreOptions(Mapping[str, str]):
    """Options of a table as given, with typed access. Immutable and picklable; keys are found without regard to case.

    As a mapping it holds texts under the keys as given; `get` with an `Option` gives the parsed value or its default.
    """

    __slots__ = ("_by_lower", "_options", "_values")

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options: dict[str, str] = dict(options or {})
        self._by_lower: dict[str, str] = {key.lower(): key for key in self._options}
        self._values: dict[str, tuple[Option, Any]] = {}
        """Parsed values by key, of those that nobody can change."""

    def __getitem__(self, key: str) -> str:
        if key in self._options:
            return self._options[key]
        return self._options[self._by_lower[key.lower()]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._by_lower

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoreOptions) and self._options == other._options

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __reduce__(self) -> tuple[type[CoreOptions], tuple[dict[str, str]]]:
        """Pickle by the plain options."""
        return CoreOptions, (self._options,)

    def __repr__(self) -> str:
        shown = {k: "***" if is_secret(k) else v for k, v in self._options.items()}
        return f"CoreOptions({shown!r})"

    @overload
    def get(self, key: Option, /) -> Any: ...
    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get(self, key: str, default: Any, /) -> Any: ...
    def get(self, key: Option | str, default: Any = None, /) -> Any:
        """The parsed value of an `Option` (or its default); for a text key, the text as given (or `default`).

        Raises:
            OptionError: The option's text is not one of its values.
        """
        if isinstance(key, Option):
            known = self._values.get(key.key)
            if known is not None and known[0] is key:
                return known[1]
            text = self.text(key)
            value = key.default if text is None else key.parse(text)
            if key.type is not OptionKind.MAP:
                self._values[key.key] = key, value
            return value
        found = self._by_lower.get(key.lower())
        return default if found is None else self[key]

    def text(self, option: Option) -> str | None:
        """The text of an option as given, under its key or a fallback key; None when it is not given."""
        for key in (option.key, *option.fallback_keys):
            if key in self:
                return self[key]
        return None

    def value(self, key: str) -> Any:
        """The parsed value (or default) of the known option with this key.

        Raises:
            KeyError: No such option is known.
            OptionError: The option's text is not one of its values.
        """
        return self.get(OPTIONS[key])

    def is_set(self, key: str) -> bool:
        """Whether the known option with this key, or one of its fallback keys, is given."""
        return self.text(OPTIONS[key]) is not None

    def to_dict(self) -> dict[str, str]:
        """A copy of the options as given."""
        return dict(self._options)

    def merged(self, options: Mapping[str, str]) -> CoreOptions:
        """These options with others put over them; a key that differs only by case is replaced."""
        result = dict(self._options)
        for key, text in options.items():
            option = find_option(key)
            same = {key.lower()} if option is None or "<" in option.key else {option.key.lower(), key.lower()}
            for known in [k for k in result if k.lower() in same]:
                del result[known]
            result[key] = text
        return CoreOptions(result)

    def field_option(self, field: str, suffix: str) -> str | None:
        """The text of `fields.<field>.<suffix>`, None when it is not given."""
        return self._options.get(f"fields.{field}.{suffix}")

    bucket = _Value("bucket", int)
    """Number of buckets; -1 dynamic or unaware, -2 postpone."""
    bucket_key = _Value("bucket-key", _names)
    """Columns of `bucket-key` in declared order; empty when not given."""
    primary_key = _Value("primary-key", _names)
    """Columns of the option `primary-key` (normally moved into the schema at creation)."""
    partition = _Value("partition", _names)
    """Columns of the option `partition` (normally moved into the schema at creation)."""
    merge_engine = _Value("merge-engine", str)
    """One of deduplicate, partial-update, aggregation, first-row."""

    @property
    def one_row_wins(self) -> bool:
        """Whether a row of the table is one row of its key, as it was written."""
        return self.merge_engine in ("deduplicate", "first-row")

    @property
    def num_levels(self) -> int:
        """Levels of an LSM tree: `num-levels`, else one more than `num-sorted-run.compaction-trigger`."""
        return int(self.value("num-levels") or self.value("num-sorted-run.compaction-trigger") + 1)

    changelog_producer = _Value("changelog-producer", str)
    """One of none, input, full-compaction, lookup."""

    @property
    def needs_lookup(self) -> bool:
        """Whether compactions of level 0 look up older rows of its keys in higher levels (Java: ``LookupStrategy``)."""
        return (
            self.changelog_producer == "lookup"
            or self.deletion_vectors_enabled
            or self.merge_engine == "first-row"
            or bool(self.value("force-lookup"))
        )

    @property
    def compacts_writes(self) -> bool:
        """Whether a write into a table with primary key ends with a compaction that looks up its keys."""
        return self.needs_lookup and not self.write_only

    sequence_fields = _Value("sequence.field", _names)
    """Columns of `sequence.field`; empty when not given."""

    @property
    def sequence_descending(self) -> bool:
        """Whether the smaller user sequence is the newer row."""
        return bool(self.value("sequence.field.sort-order") == "descending")

    @property
    def rowkind_field(self) -> str | None:
        """The column that holds the row kind of written rows."""
        text = self.value("rowkind.field")
        return None if text is None else str(text)

    ignore_delete = _Value("ignore-delete", bool)
    """Whether -D and -U rows are dropped."""
    ignore_update_before = _Value("ignore-update-before", bool)
    """Whether -U rows are dropped."""
    deletion_vectors_enabled = _Value("deletion-vectors.enabled", bool)
    """Whether rows are deleted by deletion vectors."""

    @property
    def batch_scan_skips_level_0(self) -> bool:
        """Whether batch reads of tables with keys leave out level 0, so that each key has one row (Java's name)."""
        if READS_LEVEL_0 in self:
            return False
        if self.deletion_vectors_enabled:
            return not self.value("deletion-vectors.merge-on-read")
        return self.merge_engine == "first-row"

    @property
    def one_row_per_key_above_level_0(self) -> bool:
        """Whether the files of a bucket above level 0 hold each key once (deletion vectors, first-row)."""
        return self.deletion_vectors_enabled or self.merge_engine == "first-row"

    write_only = _Value("write-only", bool)
    """Whether writes neither compact nor expire."""

    @property
    def compacts_appends(self) -> bool:
        """Whether writes into tables without a primary key are compacted."""
        return bool(self.value("write.compact-append-tables")) and not self.write_only

    @property
    def file_format(self) -> str:
        """Format of data files, lower case: parquet, orc, avro, ..."""
        return str(self.value("file.format")).lower()

    def file_format_at(self, level: int) -> str:
        """Format of data files at an LSM level (`file.format.per.level`), lower case."""
        return str(self.value("file.format.per.level").get(str(level), self.file_format)).lower()

    file_compression = _Value("file.compression", str)
    """Compression of data files, such as zstd."""

    def file_compression_at(self, level: int) -> str:
        """Compression of data files at an LSM level (`file.compression.per.level`)."""
        return str(self.value("file.compression.per.level").get(str(level), self.file_compression))

    zstd_level = _Value("file.compression.zstd-level", int)

    def stats_mode_at(self, level: int) -> str:
        """Text of the statistics mode at an LSM level, such as truncate(16)."""
        mode = self.value("metadata.stats-mode.per.level").get(str(level))
        return str(mode if mode is not None else self.value("metadata.stats-mode"))

    def of_changelog_files(self, level: int) -> tuple[str, str, str]:
        """Format (lower case), compression and statistics mode of changelog files; without options those of the level.

        Java: ``FileWriterContextFactory``.
        """
        file_format, compression, mode = (
            self.value(f"changelog-file.{what}") for what in ("format", "compression", "stats-mode")
        )
        return (
            self.file_format_at(level) if file_format is None else str(file_format).lower(),
            self.file_compression_at(level) if compression is None else str(compression),
            self.stats_mode_at(level) if mode is None else str(mode),
        )

    def target_file_size_bytes(self, has_primary_key: bool) -> int:  # the contract's signature
        """Size at which data files roll: 128 MB with a primary key, else 256 MB, unless `target-file-size` is given."""
        size = self.value("target-file-size")
        if size is not None:
            return int(size)
        return parse_memory_size("128 mb" if has_primary_key else "256 mb")

    partition_legacy_name = _Value("partition.legacy-name", bool)
    """Whether partition directories are named by Java's toString of the internal value."""
    split_target_size_bytes = _Value("source.split.target-size", int)
    split_open_file_cost_bytes = _Value("source.split.open-file-cost", int)
    commit_max_retries = _Value("commit.max-retries", int)
    commit_min_retry_wait = _Value[timedelta]("commit.min-retry-wait", _as_it_is)
    commit_max_retry_wait = _Value[timedelta]("commit.max-retry-wait", _as_it_is)
    commit_timeout = _Value[timedelta | None]("commit.timeout", _as_it_is)
    """`commit.timeout`; None means no limit."""
    row_tracking_enabled = _Value("row-tracking.enabled", bool)
    """Whether rows have ids."""

    @property
    def inline_blob_fields(self) -> frozenset[str]:
        """The BLOB columns that lie in data files: as descriptors of values elsewhere, or as references."""
        return frozenset((*self.names("blob-descriptor-field"), *self.names("blob-view-field")))

    def names(self, key: str) -> tuple[str, ...]:
        """The columns that an option names, separated by commas."""
        return _names(self.value(key))

    data_evolution_enabled = _Value("data-evolution.enabled", bool)
    """Whether files may hold some of the columns only."""


def is_secret(key: str) -> bool:
    """Return whether an option's value may be a credential, which is never shown."""
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)
