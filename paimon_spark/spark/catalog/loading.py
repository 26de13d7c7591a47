"""Loads the table that a name or a path in a statement means, at its version and with its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import TableNotFoundError, UnsupportedError
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.session.session_options import table_of
from paimon_spark.spark.sql.read_version import (
    POINTS_OF_TIME,
    at_version,
    layered,
    on_branch_of_read,
    options_for_table,
    refuse_branch_of_session,
    refuse_second_version,
)
from paimon_spark.spec.schema import is_format_table
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.paths import is_path_name
from paimon_spark.table.table import FileStoreTable, load_table

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway
    from paimon_spark.spec.schema_merge import MergeRules


BRANCH: Final = "branch"
STREAMED: Final = "paimon_spark.streamed"
"""The option by which a rule marks the relation of a stream: a catalog does not learn what a table is loaded for."""

CHANGED: Final = "paimon_spark.changed"
"""The option by which a statement marks the relation of the table whose rows it changes: few rows are read at once."""


@dataclass(frozen=True)
class TableVersion:
    """VERSION AS OF (text) or TIMESTAMP AS OF (microseconds since the epoch)."""

    version: str | None = None
    timestamp_micros: int | None = None

    def options(self) -> dict[str, str]:
        """The read options that mean the same."""
        if self.version is not None:
            return {"scan.version": self.version}
        assert self.timestamp_micros is not None
        return {"scan.timestamp-millis": str(self.timestamp_micros // 1000)}


@dataclass(frozen=True)
class LoadRequest:
    """What the overloads of ``loadTable`` are given beyond the identifier."""

    version: TableVersion | None = None
    write: bool = False
    """Whether it is for a write, which takes the latest snapshot whatever the session says."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of a read; from Spark 4.3 on, the keys of ``tableStateOptionKeys``."""
    streams: bool = False
    """Whether it is for a stream, whose rows have the latest columns wherever it begins."""

    @staticmethod
    def of(arguments: Sequence[Any]) -> LoadRequest:
        """By the arguments as `answer_proxy` brings them.

        4.0 to 4.2 pass a version, microseconds or the names of write privileges; 4.3 a ``TableContext`` and options.
        """
        match arguments:
            case [str(text), *_]:
                return LoadRequest(TableVersion(version=text))
            case [int(micros), *_]:
                return LoadRequest(TableVersion(timestamp_micros=micros))
            case [dict(context), *more]:
                travels = "version" in context or "micros" in context
                version = TableVersion(context.get("version"), context.get("micros")) if travels else None
                options = dict(more[0]) if more else {}
                streams = options.pop(STREAMED, None) is not None
                return LoadRequest(version, bool(context["writes"]), options, streams)
            case [list(privileges)]:
                return LoadRequest(write=bool(privileges))
        return LoadRequest()


def all_settings(gateway: Gateway) -> dict[str, str]:
    """The settings of the session of the running statement."""
    return gateway.string_dict(compat.SQL_CONF.of(gateway).get().settings())


def session_options(
    settings: Mapping[str, str], catalog: str, database: str, table: str, *, write: bool = False
) -> dict[str, str]:
    """The table options that the session of the running statement has set for a table (see `options_for_table`).

    Args:
        settings: of the session.
        catalog: the catalog's name.
        database: the database's.
        table: the table's.
        write: leave out the options that name a point of time, which writes have no use for.

    Raises:
        OptionError: a setting is no option of Paimon's; the message names the nearest.
        UnsupportedError: a write where the session has set a branch that the name does not say.
    """
    options = options_for_table(settings, (catalog, database, table_of(table)))
    if write:
        refuse_branch_of_session(options, table)
    return {key: value for key, value in options.items() if not (write and key in POINTS_OF_TIME)}


@dataclass(frozen=True)
class LoadedTable:
    """A table as a statement sees it."""

    table: FileStoreTable
    name: str
    """For messages and plans: ``db.t``, or the path."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Dynamic options: of the session, and those that came with the name (time travel)."""
    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the store (``s3.*``, ``fs.*``), which the data source must be given as well; they hold credentials."""
    pinned: bool = False
    """Whether VERSION AS OF or TIMESTAMP AS OF said which version this is."""
    widened: MergeRules | None = None
    """How the write changes the columns of the table, which it has here already; None where it does not."""
    evolves_schema: bool = False
    """Whether STRUCTs that a MERGE assigns may lack fields: it follows `write.merge-schema`, or evolves the schema."""
    own_options: Mapping[str, str] = field(default_factory=dict)
    """The options of the table as it was defined, without those of the session and of the read."""
    operation: Operation | None = None
    """The statement that a snapshot of its writes names; None for plain writes and overwrites."""

    @property
    def source_options(self) -> dict[str, str]:
        """The options by which the data source opens the same table and branch."""
        return {**self.store, "path": self.table.address, **self.table.branch_option}


def loaded_for_read(loaded: LoadedTable, options: Mapping[str, str]) -> LoadedTable:
    """The table, or the branch of it that the options of one read name.

    Raises:
        UnsupportedError: the branch has other columns.
        OptionError: there is no such branch.
    """
    table = on_branch_of_read(loaded.table, options, loaded.options)
    return loaded if table is loaded.table else replace(loaded, table=table)


def load_catalog_table(
    catalog: FilesystemCatalog,
    namespace: Sequence[str],
    name: str,
    version: TableVersion | None,
    *,
    session: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
    streams: bool = False,
) -> LoadedTable:
    """Open the table of a name; a name with a slash and without (or with the default) namespace is a path.

    Args:
        catalog: where names are looked up.
        namespace: the database.
        name: of the table, or its path.
        version: what VERSION AS OF or TIMESTAMP AS OF says.
        session: table options that the session has set for this table.
        given: options that came with the name (``WITH (...)``, ``spark.read.option``), as far as Spark passes them.
        streams: whether the options say where a stream begins, not which columns there are.

    Raises:
        TableNotFoundError: there is no such table.
        SnapshotNotFoundError: there is no such version.
        SchemaError: the name has a slash and is no whole path.
        OptionError: both `version` and `given` say what of the table's history is read.
    """
    if version is not None:
        refuse_second_version(given or {})
    if is_path_name(name):
        table, shown = load_table(name, options=catalog.options), name
    elif len(namespace) != 1:
        raise TableNotFoundError(f"Table {'.'.join([*namespace, name])} does not exist.")
    else:
        table, shown = catalog.load_table(namespace[0], name), f"{namespace[0]}.{name}"
    if is_format_table(table.schema):
        if version is not None or "$" in name:
            raise UnsupportedError(
                f"{shown} is a format table: it has files, but no snapshots, versions, branches and system tables."
            )
        return LoadedTable(table, shown)
    layers = (session or {}, given or {}, {} if version is None else version.options())
    options, pinned = layered(*layers), version is not None
    own = table.schema.options
    table = at_version(table, *layers, columns_too=not streams)
    return LoadedTable(table, shown, options, catalog.options, pinned, own_options=own)
