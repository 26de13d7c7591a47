"""Tables of plain files in one format that a catalog knows by name: Java's ``FormatTable``.

Such a table has no snapshots: its rows are those of the files below its directory, in the layout of Hive's partitions
(``ds=2026-01-01/…``), or, with `format-table.partition-path-only-value`, of their values alone. An engine's own readers
and writers do the rest. Names that start with ``_`` or ``.`` are hidden: nothing below them is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import orc, parquet

from paimon_spark.errors import CorruptTableError, DataError, OptionError, PaimonError, SchemaError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import CharType, DateType, TimestampType, VarCharType
from paimon_spark.spec.java_text import (
    DEFAULT_PARTITION_NAME,
    escape_path_name,
    partition_value_text,
    unescape_path_name,
)
from paimon_spark.spec.predicate import evaluate
from paimon_spark.spec.schema import (
    FILE_FORMAT,
    FORMAT_TABLE,
    FORMATS,
    MANAGED_PARTITIONS,
    TYPE,
    create_schema,
    external_partitions,
    is_format_table,
    keeps_partitions,
    no_partition_catalog,
)

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.storage.publisher import TableServer
    from paimon_spark.table.table import FileStoreTable

HIVE_DEFAULT_NAME: Final = "__HIVE_DEFAULT_PARTITION__"
_VALUES_ONLY: Final = "format-table.partition-path-only-value"
_IMPLEMENTATION: Final = "format-table.implementation"
_EPOCH: Final = date(1970, 1, 1)
_UNKNOWN: Final = -1
"""Of Java's ``PartitionStatistics``: it leaves what the catalog has."""


class _Sums(NamedTuple):
    """What a write put into a partition."""

    rows: int
    size: int
    files: int


@dataclass(frozen=True)
class FormatPartition:
    """A partition: one that has a directory, or that the catalog knows."""

    path: str
    values: tuple[Any, ...]
    """Python values as Arrow gives them; None for the default partition."""
    texts: tuple[str, ...]
    """The values as its directory has them, not escaped."""


@dataclass(frozen=True)
class FormatTable:
    """A table of plain files. Picklable; nothing is cached."""

    path: str
    schema: TableSchema
    file_io: FileIO
    server: TableServer | None = None
    """Who keeps the partitions; None where the directories say which there are."""

    @staticmethod
    def of(table: FileStoreTable) -> FormatTable:
        """The table of plain files that was opened as a table.

        Raises:
            UnsupportedError: its format, or the way in which it keeps its partitions, is not supported.
        """
        check_format(_format_of(table.schema))
        server = table.schemas.server if keeps_partitions(table.schema) else None
        if server is None and keeps_partitions(table.schema):
            raise no_partition_catalog(f"Format table {table.path}")
        if server is not None and not server.keeps_snapshots:
            raise external_partitions(table.path)
        return FormatTable(table.path, table.schema, table.file_io, server)

    @property
    def format(self) -> str:
        """The format of its files, in lower case."""
        return _format_of(self.schema)

    @property
    def partition_fields(self) -> Sequence[DataField]:
        """The columns that directories have, in the order of the directories."""
        return self.schema.partition_fields

    @property
    def values_only(self) -> bool:
        """Whether directories have the values of partitions without the names of their columns."""
        return _is_true(self.schema.options, _VALUES_ONLY)

    @property
    def default_name(self) -> str:
        """The name of a partition whose value is null."""
        return self.schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)

    def directory(self, texts: Sequence[str]) -> str:
        """The directory of a partition below the table, by the texts of its values.

        Raises:
            DataError: a value alone would be the name of a hidden directory, or of none.
        """
        names = [escape_path_name(text) for text in texts]
        if self.values_only:
            hidden = next((name for name in names if self._is_hidden(name)), None)
            if hidden is not None:
                raise DataError(
                    f"'{hidden}' cannot be a partition of {self.path}: with '{_VALUES_ONLY}' its directory would be "
                    "hidden from every reader. Nothing is written."
                )
        else:
            keys = [escape_path_name(field.name) for field in self.partition_fields]
            names = [f"{key}={name}" for key, name in zip(keys, names, strict=False)]
        return "/".join(names)

    def partitions(self) -> list[FormatPartition]:
        """The partitions, sorted by their directories: those that the catalog knows, or that have a directory.

        Raises:
            SchemaError: a directory has no value of its column's type.
            CorruptTableError: the catalog has a partition of other columns.
        """
        return self.directories() if self.server is None else self._registered(self.server)

    def directories(self) -> list[FormatPartition]:
        """The partitions that have a directory, sorted by it; raises as `partitions`."""
        found: list[tuple[str, tuple[str, ...]]] = [(self.path, ())]
        for field in self.partition_fields:
            found = [
                (f"{path}/{name}", (*texts, unescape_path_name(name if self.values_only else name.partition("=")[2])))
                for path, texts in found
                for name in sorted(self._directories(path, field))
            ]
        return [FormatPartition(path, self._values(texts), texts) for path, texts in found if texts]

    def _registered(self, server: TableServer) -> list[FormatPartition]:
        names = [field.name for field in self.partition_fields]
        found = set()
        for spec in server.registered_partitions():
            if spec.keys() != set(names):
                raise CorruptTableError(
                    f"The catalog has a partition {spec} of format table {self.path}, whose partition columns are "
                    f"{', '.join(names)}."
                )
            found.add(tuple(spec[name] for name in names))
        paths = sorted((f"{self.path}/{self.directory(texts)}", texts) for texts in found)
        return [FormatPartition(path, self._values(texts), texts) for path, texts in paths]

    def _directories(self, path: str, field: DataField) -> Iterator[str]:
        prefix = "" if self.values_only else f"{escape_path_name(field.name)}=".lower()
        for entry in self.file_io.list_names(path):
            if entry.is_dir and not self._is_hidden(entry.name) and entry.name.lower().startswith(prefix):
                yield entry.name

    def _is_hidden(self, name: str) -> bool:
        if name in ("", ".", ".."):
            return True
        return name.startswith((".", "_")) and name not in (self.default_name, HIVE_DEFAULT_NAME)

    def _values(self, texts: Sequence[str]) -> tuple[Any, ...]:
        return tuple(self._value(field, text) for field, text in zip(self.partition_fields, texts, strict=True))

    def _value(self, field: DataField, text: str) -> Any:
        if text in (self.default_name, HIVE_DEFAULT_NAME):
            return None
        try:
            if isinstance(field.type, DateType) and text.isdecimal():  # as Java's own writer names them
                return _EPOCH + timedelta(days=int(text))
            return pa.array([text]).cast(to_arrow_type(field.type))[0].as_py()
        except (pa.ArrowInvalid, OverflowError):
            raise SchemaError(
                f"The partition {text} of {self.path} has no value of column {field.name}, which is {field.type.sql()}."
            ) from None

    def matching(self, condition: Predicate) -> list[FormatPartition]:
        """The partitions that have a directory, for which a condition on their columns is true."""
        found = self.directories()
        columns = {
            field.name: pa.array([each.values[at] for each in found], to_arrow_type(field.type))
            for at, field in enumerate(self.partition_fields)
        }
        if not found:
            return []
        chosen = evaluate(condition, pa.table(columns))
        return [each for each, is_chosen in zip(found, chosen.to_pylist(), strict=True) if is_chosen]

    def files(self, path: str | None = None) -> list[str]:
        """The files below a directory of the table, hidden ones left out."""
        found, folders = list[str](), [self.path if path is None else path]
        while folders:
            folder = folders.pop()
            for entry in self.file_io.list_names(folder):
                if not self._is_hidden(entry.name):
                    (folders if entry.is_dir else found).append(f"{folder}/{entry.name}")
        return sorted(found)

    def same_partitions(self, homes: Sequence[str]) -> list[str]:
        """Directories of the partitions with the values of some directories, and these; all are below the table."""
        if not self._has_several_names:
            return [f"{self.path}/{home}" for home in homes]
        known = self.directories()
        values = {each.values for each in known if each.path[len(self.path) + 1 :] in homes}
        return sorted({*(f"{self.path}/{home}" for home in homes), *(e.path for e in known if e.values in values)})

    @property
    def _has_several_names(self) -> bool:
        """Whether directories of different names may have the same values."""
        return any(isinstance(field.type, DateType | TimestampType) for field in self.partition_fields)

    def truncate(self, partitions: Sequence[FormatPartition] | None = None) -> None:
        """Delete the files of the table, or of partitions; directories and what the catalog knows stay, as in Java."""
        if self.server is not None and partitions is None:
            partitions = self.partitions()
        places = [self.path] if partitions is None else [each.path for each in partitions]
        self.file_io.delete_files([file for place in places for file in self.files(place)])
        if partitions is not None:
            self._register([each.texts for each in partitions], {}, replaces=True)

    def add_partitions(self, wanted: Sequence[Mapping[str, Any]], *, tolerant: bool) -> None:
        """Let the catalog know partitions, and make their directories.

        Args:
            wanted: the values of each.
            tolerant: leave those alone that it knows; else it refuses all.

        Raises:
            SchemaError: it knows one of them, and ``tolerant`` is not given.
        """
        assert self.server is not None
        names = [field.name for field in self.partition_fields]
        known = {each.values for each in self.partitions()} if self._has_several_names else set()
        chosen = [tuple(values[name] for name in names) for values in wanted]
        taken = next((values for values in chosen if values in known), None)
        if taken is not None and not tolerant:
            raise SchemaError(f"Partition {self.directory(self._new_texts(taken))} of {self.path} exists already.")
        texts = [self._new_texts(values) for values in dict.fromkeys(chosen) if values not in known]
        folders = [f"{self.path}/{self.directory(each)}" for each in texts]  # names that cannot be are refused first
        self.server.register_partitions([self._spec(each) for each in texts], (), only_new=not tolerant)
        for folder in folders:
            self.file_io.mkdirs(folder)

    def drop_partitions(self, partitions: Sequence[FormatPartition]) -> None:
        """Let the catalog forget partitions, then delete their directories.

        Raises:
            PaimonError: files of one could not be deleted; no reader sees them any more.
        """
        assert self.server is not None
        self.server.unregister_partitions([self._spec(each.texts) for each in partitions])
        for each in partitions:
            self.file_io.delete_quietly(each.path, recursive=True)
            if self.file_io.exists(each.path):
                raise PaimonError(
                    f"The partition at {each.path} is dropped, but its files could not all be deleted: delete the "
                    "directory before MSCK REPAIR TABLE or a write brings them back."
                )

    def repair(self, *, adds: bool, drops: bool) -> None:
        """Let the catalog know the partitions that have a directory, and forget those that have none."""
        assert self.server is not None
        there = {each.texts for each in self.directories()}
        known = {each.texts for each in self.partitions()}
        if adds and there - known:
            self.server.register_partitions([self._spec(texts) for texts in sorted(there - known)], ())
        if drops and known - there:
            self.server.unregister_partitions([self._spec(texts) for texts in sorted(known - there)])

    def _spec(self, texts: Sequence[str]) -> dict[str, str]:
        return {field.name: text for field, text in zip(self.partition_fields, texts, strict=True)}

    def _new_texts(self, values: Sequence[Any]) -> tuple[str, ...]:
        """The texts of a partition as Java's writer has them."""
        legacy = self.schema.options.get("partition.legacy-name", "true").strip().lower() == "true"
        return tuple(
            partition_value_text(value, field.type, legacy=legacy, default_name=self.default_name)
            for field, value in zip(self.partition_fields, values, strict=True)
        )

    def take_in(self, staged: str, replaced: Callable[[Sequence[str]], Sequence[str]] | None) -> None:
        """Move files that an engine wrote into the table, then delete those that they replace.

        A catalog that keeps the partitions learns of them before: if it refuses, nothing has changed.

        Args:
            staged: a hidden directory of the table, with partitions in the layout of Hive.
            replaced: given the directories that get files, below the table, returns the files to delete; None for an
                append.
        """
        homes = self._homes(self.files(staged), staged)
        folders = sorted({folder for folder, _ in homes.values()})
        old = [] if replaced is None else [file for file in replaced(folders) if not file.startswith(f"{staged}/")]
        if self.server is not None:
            self._register_written(homes, old, replaces=replaced is not None)
        for folder in folders:
            self.file_io.mkdirs(f"{self.path}/{folder}" if folder else self.path)

        def move(file: str) -> None:
            folder, name = homes[file][0], file.rpartition("/")[2]
            self.file_io.rename(file, f"{self.path}/{folder}/{name}" if folder else f"{self.path}/{name}")

        with ThreadPoolExecutor(self.file_io.threads) as pool:
            list(pool.map(move, homes))
        if old:
            self.file_io.delete_files(old)
        self.file_io.delete_quietly(staged, recursive=True)

    def _homes(self, files: Sequence[str], staged: str) -> dict[str, tuple[str, tuple[str, ...]]]:
        """For each file its directory below the table, and the texts of its partition, by its place in Hive's layout.

        A partition that is there keeps its directory. The names of new ones are Hive's; where a catalog keeps the
        partitions, Java's, for it looks for them by these.
        """
        at = {file: file[len(staged) + 1 :].split("/")[:-1] for file in files}
        texts = {
            file: tuple(unescape_path_name(folder.partition("=")[2]) for folder in folders)
            for file, folders in at.items()
        }
        known = {each.values: each.texts for each in self.partitions()} if self._has_several_names and files else {}
        names = {each: self._kept_texts(each, known) for each in {*texts.values()}}
        return {file: (self.directory(names[each]) if each else "", names[each]) for file, each in texts.items()}

    def _kept_texts(self, texts: tuple[str, ...], known: Mapping[tuple[Any, ...], tuple[str, ...]]) -> tuple[str, ...]:
        texts = tuple(self.default_name if text == HIVE_DEFAULT_NAME else text for text in texts)
        if not texts or not self._has_several_names:
            return texts
        values = self._values(texts)
        return known.get(values) or (texts if self.server is None else self._new_texts(values))

    def _register_written(
        self, homes: Mapping[str, tuple[str, tuple[str, ...]]], old: Sequence[str], *, replaces: bool
    ) -> None:
        """Let the catalog know the partitions that get files, and those that an overwrite empties."""
        sizes = self._sizes(homes)
        with ThreadPoolExecutor(self.file_io.threads) as pool:
            rows = dict(zip(homes, pool.map(self._row_count, homes), strict=True))
        written: dict[tuple[str, ...], _Sums] = {}
        for file, (_, texts) in homes.items():
            before = written.get(texts, _Sums(0, 0, 0))
            count = _UNKNOWN if _UNKNOWN in (before.rows, rows[file]) else before.rows + rows[file]
            written[texts] = _Sums(count, before.size + sizes[file], before.files + 1)
        places = {file.rpartition("/")[0] for file in old}
        emptied = [each.texts for each in self.directories() if each.path in places] if places else []
        self._register([*written, *(texts for texts in emptied if texts not in written)], written, replaces=replaces)

    def _sizes(self, files: Iterable[str]) -> dict[str, int]:
        folders = {file.rpartition("/")[0] for file in files}
        return {f"{at}/{entry.name}": entry.size for at in folders for entry in self.file_io.list_names(at)}

    def _row_count(self, file: str) -> int:
        """The rows of a file, where its footer says it."""
        if self.format not in ("parquet", "orc"):
            return _UNKNOWN
        with self.file_io.open_input(file) as source:
            if self.format == "orc":
                return int(orc.ORCFile(source).nrows)
            return int(parquet.read_metadata(source).num_rows)

    def _register(
        self, partitions: Sequence[tuple[str, ...]], written: Mapping[tuple[str, ...], _Sums], *, replaces: bool
    ) -> None:
        """Report partitions with what was written into them."""
        if self.server is None or not partitions:
            return
        now = time.time_ns() // 1_000_000
        sums = [written.get(texts, _Sums(0, 0, 0)) for texts in partitions]
        statistics = [
            {
                "spec": self._spec(texts),
                "recordCount": each.rows,
                "fileSizeInBytes": each.size,
                "fileCount": each.files,
                "lastFileCreationTime": now,
                "totalBuckets": _UNKNOWN,
            }
            for texts, each in zip(partitions, sums, strict=True)
        ]
        self.server.register_partitions([self._spec(texts) for texts in partitions], statistics, replaces=replaces)


def refuse_format_table(table: FileStoreTable, what: str) -> FileStoreTable:
    """Return a table of Paimon's.

    Raises:
        UnsupportedError: it is a format table.
    """
    if is_format_table(table.schema):
        raise UnsupportedError(
            f"The table at {table.path} is a format table, of plain files without snapshots: {what} has no use for it. "
            "SQL of its catalog reads and writes it: SELECT, INSERT, TRUNCATE."
        )
    return table


def check_format(name: str) -> None:
    """Refuse a format that no reader of Spark's knows.

    Raises:
        UnsupportedError: it is none of `FORMATS`.
    """
    if name not in FORMATS:
        raise UnsupportedError(
            f"Format table unsupported file format: {name}. Supported formats: [{', '.join(FORMATS)}]"
        )


def format_schema(
    fields: Sequence[DataField],
    options: Mapping[str, str],
    *,
    format_name: str,
    partition_keys: Sequence[str] = (),
    comment: str | None = None,
) -> TableSchema:
    """The schema of a new table of plain files.

    Raises:
        OptionError: a primary key is given, which such a table cannot have; or options contradict each other.
        SchemaError: columns and partitions do not fit together, or are more than a file of text has.
        UnsupportedError: the format is not supported.
    """
    check_format(format_name)
    if "primary-key" in options:
        raise OptionError("A format table has no primary key: its rows are those of its files. Leave the option out.")
    names = {field.name.lower(): field.name for field in fields}
    keys = [names.get(key.lower(), key) for key in partition_keys]
    if format_name == "text":
        _check_line(fields, keys)
    if keys and _is_true(options, MANAGED_PARTITIONS) and options.get(_IMPLEMENTATION, "").strip().lower() == "engine":
        raise OptionError(
            f"Cannot combine catalog-managed partitions ({MANAGED_PARTITIONS}=true) with {_IMPLEMENTATION}=engine: the "
            "engine implementation reads the table directory itself."
        )
    own = {**options, TYPE: FORMAT_TABLE, FILE_FORMAT: format_name}
    return create_schema(fields, [], keys, own, comment)


def _check_line(fields: Sequence[DataField], keys: Sequence[str]) -> None:
    lines = [field.type for field in fields if field.name not in keys]
    if len(lines) != 1 or not isinstance(lines[0], CharType | VarCharType):
        raise SchemaError(
            "A format table of text has one column of STRING, the line, and columns of partitions: give it that, or "
            "another format."
        )


def _is_true(options: Mapping[str, str], key: str) -> bool:
    return options.get(key, "").strip().lower() == "true"


def _format_of(schema: TableSchema) -> str:
    """The format of the files of a table of plain files, in lower case."""
    return schema.options.get(FILE_FORMAT, "parquet").strip().lower()
