"""Tables of plain files in one format that a catalog knows by name: Java's ``FormatTable``.

Such a table has no snapshots: its rows are those of the files below its directory, in the layout of Hive's partitions
(``ds=2026-01-01/…``), or, with `format-table.partition-path-only-value`, of their values alone. An engine's own readers
and writers do the rest. Names that start with ``_`` or ``.`` are hidden: nothing below them is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_spark.errors import DataError, OptionError, SchemaError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.data_types import CharType, VarCharType
from paimon_spark.spec.partition_path import DEFAULT_PARTITION_NAME, escape_path_name, unescape_path_name
from paimon_spark.spec.predicate import evaluate
from paimon_spark.spec.schema import FILE_FORMAT, FORMAT_TABLE, FORMATS, TYPE, create_schema, is_format_table

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

HIVE_DEFAULT_NAME: Final = "__HIVE_DEFAULT_PARTITION__"
_VALUES_ONLY: Final = "format-table.partition-path-only-value"
_MANAGED: Final = "metastore.partitioned-table"


@dataclass(frozen=True)
class FormatPartition:
    """A directory of a partition."""

    path: str
    values: tuple[Any, ...]
    """Python values as Arrow gives them; None for the default partition."""


@dataclass(frozen=True)
class FormatTable:
    """A table of plain files. Picklable; nothing is cached."""

    path: str
    schema: TableSchema
    file_io: FileIO

    @staticmethod
    def of(table: FileStoreTable) -> FormatTable:
        """The table of plain files that was opened as a table.

        Raises:
            UnsupportedError: its format, or the way in which it keeps its partitions, is not supported.
        """
        found = FormatTable(table.path, table.schema, table.file_io)
        check_format(found.format)
        if found.partition_fields and _is_true(table.schema.options, _MANAGED):
            whose = "" if table.schemas.server else " of Hive itself, or of a Spark session on Hive,"
            raise UnsupportedError(
                f"Format table {table.path} keeps its partitions in the catalog ('{_MANAGED}' = 'true'), which is not "
                f"supported. ALTER TABLE … UNSET TBLPROPERTIES ('{_MANAGED}'){whose} lets its directories say which "
                "there are."
            )
        return found

    @property
    def format(self) -> str:
        """The format of its files, in lower case."""
        return self.schema.options.get(FILE_FORMAT, "parquet").strip().lower()

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
        """The partitions that have a directory, sorted by it.

        Raises:
            SchemaError: a directory has no value of its column's type.
        """
        found: list[tuple[str, tuple[Any, ...]]] = [(self.path, ())]
        for field in self.partition_fields:
            found = [
                (f"{path}/{name}", (*values, self._value(field, name)))
                for path, values in found
                for name in sorted(self._directories(path, field))
            ]
        return [FormatPartition(path, values) for path, values in found] if self.partition_fields else []

    def _directories(self, path: str, field: DataField) -> Iterator[str]:
        prefix = "" if self.values_only else f"{escape_path_name(field.name)}=".lower()
        for entry in self.file_io.list_names(path):
            if entry.is_dir and not self._is_hidden(entry.name) and entry.name.lower().startswith(prefix):
                yield entry.name

    def _is_hidden(self, name: str) -> bool:
        return not name or (name.startswith((".", "_")) and name not in (self.default_name, HIVE_DEFAULT_NAME))

    def _value(self, field: DataField, name: str) -> Any:
        text = unescape_path_name(name if self.values_only else name.partition("=")[2])
        if text in (self.default_name, HIVE_DEFAULT_NAME):
            return None
        try:
            return pa.array([text]).cast(to_arrow_type(field.type))[0].as_py()
        except pa.ArrowInvalid:
            raise SchemaError(
                f"Directory {name} of {self.path} has no value of column {field.name}, which is {field.type.sql()}."
            ) from None

    def matching(self, condition: Predicate) -> list[FormatPartition]:
        """The partitions for which a condition on their columns is true."""
        found = self.partitions()
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

    def truncate(self, partitions: Sequence[FormatPartition] | None = None) -> None:
        """Delete the files of the table, or of partitions; the directories stay, as in Java."""
        places = [self.path] if partitions is None else [each.path for each in partitions]
        self.file_io.delete_files([file for place in places for file in self.files(place)])

    def take_in(self, staged: str, replaced: Callable[[Sequence[str]], Sequence[str]]) -> None:
        """Move files that an engine wrote into the table, then delete those that they replace.

        Args:
            staged: a hidden directory of the table, with partitions in the layout of Hive.
            replaced: given the directories that get files, below the table, returns the files to delete.
        """
        moves = [(file, self._home(file[len(staged) + 1 :])) for file in self.files(staged)]
        homes = sorted({home.rpartition("/")[0] for _, home in moves})
        old = [file for file in replaced(homes) if not file.startswith(f"{staged}/")]
        for folder in homes:
            self.file_io.mkdirs(f"{self.path}/{folder}" if folder else self.path)
        with ThreadPoolExecutor(self.file_io.threads) as pool:
            list(pool.map(lambda move: self.file_io.rename(move[0], f"{self.path}/{move[1]}"), moves))
        if old:
            self.file_io.delete_files(old)
        self.file_io.delete_quietly(staged, recursive=True)

    def _home(self, relative: str) -> str:
        """The place of a file below the table, by its place in the layout of Hive."""
        *folders, file = relative.split("/")
        texts = [unescape_path_name(folder.partition("=")[2]) for folder in folders]
        texts = [self.default_name if text == HIVE_DEFAULT_NAME else text for text in texts]
        return "/".join([*([self.directory(texts)] if texts else []), file])


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
        OptionError: a primary key is given, which such a table cannot have.
        SchemaError: columns and partitions do not fit together, or are more than a file of text has.
        UnsupportedError: the format is not supported, or the way in which it is to keep its partitions.
    """
    check_format(format_name)
    if "primary-key" in options:
        raise OptionError("A format table has no primary key: its rows are those of its files. Leave the option out.")
    names = {field.name.lower(): field.name for field in fields}
    keys = [names.get(key.lower(), key) for key in partition_keys]
    if format_name == "text":
        _check_line(fields, keys)
    if keys and _is_true(options, _MANAGED):
        raise UnsupportedError(
            f"A format table whose partitions are kept by the catalog ('{_MANAGED}' = 'true') is not supported: leave "
            "the option out, and its directories say which partitions there are."
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
