"""The options of one load or save, sorted: what is ours, what goes to the table, what Spark adds itself.

Spark puts keys in lower case on their way to a Python source and checks none of them, so every key is looked up here:
one that nobody knows is an error that names the nearest known one.

Which columns a load asks for is said here too: by option `columns`, or by a schema that the user gives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from paimon_spark.errors import OptionError, SchemaMismatchError, UnsupportedError
from paimon_spark.options import Scope, canonical_options, find_option, unknown_option_error
from paimon_spark.options.core_options import AT_SNAPSHOT, OPENED_AT, READS_LEVEL_0
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.session.overwrite_mode import OVERWRITE_MODE, asks_for_dynamic
from paimon_spark.spark.session.session_options import (
    MERGE_KEYS,
    MERGE_SCHEMA,
    POINTS_OF_TIME,
    as_paimon_options,
    layered,
    merge_rules,
    options_for_path,
)
from paimon_spark.spark.session.session_settings import SETTINGS, SessionSettings, time_zone
from paimon_spark.spark.statements.cursor import split_list
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.paths import TableName, parse_table_path, refuse_home, system_table_in
from paimon_spark.table.time_travel import TIMESTAMP_MILLIS, TRAVEL_KEYS, parse_timestamp_millis

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.schema_merge import MergeRules
    from paimon_spark.table.table import FileStoreTable

COLUMNS = "columns"
FILTER = "filter"
REPLACE_WHERE = "replaceWhere"
OPERATION = "_paimon_spark_operation"
"""Which statement a write is, where it is no plain one; no option of users."""
REPORT_TO = "_paimon_spark_heard_by"
"""Who hears how many rows were written, where another thread of this process commits; no option of users."""

READ_KEYS = (COLUMNS, FILTER, SETTINGS)
WRITE_KEYS = (*MERGE_KEYS, OVERWRITE_MODE, REPLACE_WHERE, SETTINGS, OPERATION, REPORT_TO)

# What Spark itself hands over: save(path), load([...]), CREATE TABLE ... USING paimon OPTIONS (...), saveAsTable.
_SPARK_KEYS = frozenset(
    (
        "path",
        "paths",
        "provider",
        "owner",
        "location",
        "comment",
        "external",
        "is_managed_location",
        "checkpointlocation",
    )
)
_READ_PREFIXES = ("scan.", "incremental-")
_TIMESTAMP_AS_OF = "timestampasof"
_NO_SPARK_TABLE = (
    "A table of spark_catalog (CREATE TABLE … USING paimon, saveAsTable) cannot be one of Paimon's: Spark tells a "
    "Python source no LOCATION. Use register_catalog and its tables, or CREATE TEMPORARY VIEW v USING paimon OPTIONS "
    "(path '/warehouse/db.db/table')"
)
_POINTS = frozenset(key.lower() for key in (*TRAVEL_KEYS, "versionAsOf"))


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a load asks for. Plain values, picklable."""

    path: str
    name: TableName
    """What the path names."""
    columns: tuple[str, ...] | None
    """Columns as given; None means all."""
    filter: str | None
    """SQL predicate over the table's columns."""
    options: Mapping[str, str] = field(repr=False)
    """Dynamic table options, the session's among them, and those of the store, in Paimon's spelling."""
    snapshot_id: int | None = None
    """The snapshot that a statement reads of the table that it changes, with the columns that the table has now."""
    settings: SessionSettings = field(default_factory=SessionSettings, repr=False)
    """What the session has set."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a save asks for. Plain values, picklable."""

    path: str
    name: TableName
    """What the path names."""
    options: Mapping[str, str] = field(repr=False)
    """Table options (creation) or dynamic options, and those of the store, in Paimon's spelling."""
    dynamic_overwrite: bool | None
    """What `partitionOverwriteMode` or `dynamic-partition-overwrite` says; None when neither is given."""
    replace_where: str | None
    """SQL predicate that names the partition an overwrite replaces."""
    merge_schema: MergeRules | None
    """How the table's columns become those of the rows; None where they stay."""
    session_options: Mapping[str, str] = field(default_factory=dict)
    """Options that the session has set: of this write, never of a table that it creates."""
    settings: SessionSettings = field(default_factory=SessionSettings, repr=False)
    """What the session has set."""
    operation: Operation | None = None
    """The statement that the snapshot names; None for what a plain write or an overwrite says."""


def parse_columns(text: str) -> tuple[str, ...]:
    """The names in ``a, b, `odd,name` ``.

    Raises:
        OptionError: there is no name, an empty one, or one twice.
    """
    names = split_list(text)
    if names is None:
        raise OptionError(f"option 'columns' is a list of column names such as 'a, b'; it is '{text}'")
    if len(set(names)) != len(names):
        raise OptionError(f"option 'columns' names each column once, such as 'a, b'; it is '{text}'")
    return names


def refused_spark_table() -> UnsupportedError:
    """What to raise where a table of Spark's own catalog is to be made."""
    return UnsupportedError(_NO_SPARK_TABLE)


def table_path(options: Mapping[str, str]) -> str:
    """The one path of a load or save; a relative one counts from the driver's working directory.

    Raises:
        OptionError: there is no path, or there are several.
    """
    path = (options.get("path") or options.get("location") or "").strip()
    if options.get("paths"):
        raise OptionError(f"format('paimon') reads one table at a time, but load() got {options['paths']}")
    if not path:
        raise OptionError(
            "format('paimon') needs the path of a table directory: .load('/warehouse/db.db/table') to read, "
            f".save('/warehouse/db.db/table') to write. {_NO_SPARK_TABLE}"
        )
    refuse_home(path)
    return path if ":" in path.split("/", 1)[0] else os.path.abspath(path)


def _sorted_options(
    options: Mapping[str, str], settings: SessionSettings, own: Iterable[str], action: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into (ours by their proper name, all others in Paimon's spelling); unknown ones raise."""
    options = _with_timestamp(options, settings)
    names = {key.lower(): key for key in (*READ_KEYS, *WRITE_KEYS)}
    mine = {key.lower() for key in own}
    ours: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in as_paimon_options(options).items():
        lowered = key.lower()
        if lowered in mine:
            ours[names[lowered]] = value
        elif lowered in names:
            raise OptionError(f"option '{names[lowered]}' has no meaning for {action}")
        elif lowered in _SPARK_KEYS or lowered.startswith("option."):
            continue
        elif find_option(key) is None and key not in (AT_SNAPSHOT, OPENED_AT, READS_LEVEL_0):  # which jobs of ours give
            raise unknown_option_error(key, (*own,))
        else:
            others[key] = value
    return ours, canonical_options(others)


def _with_timestamp(options: Mapping[str, str], settings: SessionSettings) -> Mapping[str, str]:
    """Return the options with Spark's `timestampAsOf`, in the session's time zone, as `scan.timestamp-millis`."""
    key = next((key for key in options if key.lower() == _TIMESTAMP_AS_OF), None)
    if key is None:
        return options
    millis = parse_timestamp_millis(options[key], zone=time_zone(settings), key=key)
    others = {name: value for name, value in options.items() if name != key}
    same = next((name for name in others if name.lower() in _POINTS), None)
    if same is not None:
        raise OptionError(f"options '{key}' and '{same}' both say which version is read: leave one of them out")
    return {**others, TIMESTAMP_MILLIS: str(millis)}


def read_request(options: Mapping[str, str], *, snapshot_id: int | None = None) -> ReadRequest:
    """Understand the options of a load. Runs on the driver, once per load and once per plan.

    Args:
        options: of the load, the path among them.
        snapshot_id: read this snapshot, whatever the session has set.

    Raises:
        OptionError: no path, an unknown option, or one that only writes know.
    """
    path = table_path(options)
    settings = SessionSettings.of_options(options)
    ours, others = _sorted_options(options, settings, READ_KEYS, "a read")
    columns = parse_columns(ours[COLUMNS]) if COLUMNS in ours else None
    session = {
        key: value
        for key, value in options_for_path(settings, path).items()
        if not _is_for_writes(key) and not (snapshot_id is not None and key in POINTS_OF_TIME)
    }
    options = layered(session, others)
    return ReadRequest(path, parse_table_path(path), columns, ours.get(FILTER), options, snapshot_id, settings)


def write_request(options: Mapping[str, str], *, overwrite: bool, opened: FileStoreTable | None = None) -> WriteRequest:
    """Understand the options of a save. Runs on the driver, once per job.

    Args:
        options: of the save, the path among them.
        overwrite: whether something is replaced.
        opened: the table, if the statement has opened it already.

    Raises:
        OptionError: no path, an unknown option, one that only reads know, or contradicting ones.
    """
    path = table_path(options)
    settings = SessionSettings.of_options(options)
    ours, others = _sorted_options(options, settings, WRITE_KEYS, "a write")
    for key in others:
        if _is_for_reads(key):
            raise OptionError(f"option '{key}' has no meaning for a write")
    dynamic = asks_for_dynamic({**others, **ours})
    where = ours.get(REPLACE_WHERE)
    if where is not None and not overwrite:
        raise OptionError(f"option '{REPLACE_WHERE}' needs mode('overwrite'): it names the partition to be replaced")
    if where is not None and dynamic:
        raise OptionError(
            f"option '{REPLACE_WHERE}' and a dynamic overwrite of partitions contradict each other: give one of them"
        )
    session = options_for_path(settings, path)
    named = parse_table_path(path) if opened is None else TableName(opened.path, opened.branch, system_table_in(path))
    operation = Operation(ours[OPERATION]) if OPERATION in ours else None
    merges = merge_rules(session, ours)
    return WriteRequest(path, named, others, dynamic, where, merges, known_to_writes(session), settings, operation)


def known_to_writes(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a session's options that mean something for a write; one for reads must not hinder it."""
    return {
        key: value
        for key, value in options.items()
        if not _is_for_reads(key) and not key.startswith(MERGE_SCHEMA) and (find_option(key) is not None)
    }


def _is_for_writes(key: str) -> bool:
    option = find_option(key)
    return key in (COLUMNS, FILTER) or (option is not None and option.scope is Scope.WRITE)


def _is_for_reads(key: str) -> bool:
    option = find_option(key)
    return key.startswith(_READ_PREFIXES) or (option is not None and option.scope is Scope.READ)


def refuse_system_table(path: str, system_table: str | None, action: str) -> None:
    """Refuse the system table that a path names, with what to do.

    Raises:
        UnsupportedError: the path names a system table.
    """
    if system_table is not None:
        raise UnsupportedError(f"system tables (${system_table} in '{path}') cannot be {action}: they are for reading")


def row_condition(text: str, columns: TableSchema | Sequence[DataField], settings: Mapping[str, str]) -> Predicate:
    """The predicate that the text of option `filter` or `replaceWhere` states; errors as of `parse_filter`.

    Args:
        text: an SQL condition.
        columns: of the table.
        settings: of the session: times in the text that name no zone are times of its zone.
    """
    # the SQL parser takes as long to import as all the rest, and each Python worker pays for it: most have no condition
    from paimon_spark.spec.sql_filter import parse_filter

    return parse_filter(text, columns, time_zone=time_zone(settings))


def find_field(fields: Sequence[DataField], name: str) -> DataField:
    """Return the field of a name; case is ignored unless two names differ by case only.

    Raises:
        SchemaMismatchError: there is none, or several that differ by case only.
    """
    found = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    if len(found) > 1:
        raise SchemaMismatchError(f"column {name} could be each of {', '.join(field.name for field in found)}")
    if not found:
        raise SchemaMismatchError(
            f"there is no column {name} in the table; its columns are {', '.join(field.name for field in fields)}"
        )
    return found[0]


def read_columns(fields: Sequence[DataField], columns: Sequence[str] | None) -> list[DataField]:
    """The fields to read, in the order asked for; all without `columns`."""
    return list(fields) if columns is None else [find_field(fields, name) for name in columns]


def match_columns(fields: Sequence[DataField], schema: spark.StructType) -> list[str]:
    """Names of the table's columns that the columns of a Spark schema mean, in its order.

    Raises:
        SchemaMismatchError: a column is not in the table, or has another type there.
    """
    names = []
    for wanted in schema.fields:
        field = find_field(fields, wanted.name)
        shown = to_spark_type(field.type)
        if shown.simpleString() != wanted.dataType.simpleString():
            raise SchemaMismatchError(
                f"column {field.name} is of type {field.type.sql()}, which Spark shows as {shown.simpleString()}; "
                f"the schema given asks for {wanted.dataType.simpleString()}. Load it as it is and cast it afterwards"
            )
        names.append(field.name)
    return names
