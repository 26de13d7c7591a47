"""`open_table`: a table without Spark, in the manners of pyiceberg and deltalake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from paimon_spark.arrow.changes import delete_where, overwrite_of, write_rows
from paimon_spark.arrow.scan import Scan
from paimon_spark.commit.row_counts import RowCounts, counting
from paimon_spark.errors import OptionError, PaimonError, SchemaError, UnsupportedError, cut_methods
from paimon_spark.metastore.opening import kind_of, root_of
from paimon_spark.options import find_option, reaching_options, unknown_option_error
from paimon_spark.options.registry import column_names, option_keys
from paimon_spark.read.row_views import NAMED_VIEWS
from paimon_spark.spec.arrow_types import from_arrow_schema, to_arrow_schema
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.foreign_folders import store_of_new_table
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.new_schema import new_table_schema
from paimon_spark.table.paths import parse_table_path
from paimon_spark.table.system.registry import system_table
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.table.table import create_table as create
from paimon_spark.table.time_travel import has_time_travel, travel

Path = str | os.PathLike[str]
Version = int | str | datetime


def open_table(
    table: Path, *, catalog: Path | None = None, version: Version | None = None, **options: Any
) -> ArrowTable:
    """Open a table by its path, or by its name in a warehouse.

    Args:
        table: the directory of the table, or of a branch, ``<table>$branch_<branch>``; with `catalog` a name:
            ``database.table``.
        catalog: the directory of the warehouse.
        version: a snapshot's id, a tag, or a time: that version is read. Such a table is not written.
        options: of the table and the store, by keyword or key: ``scan_tag_name="v1"``, ``**{"s3.endpoint": "…"}``.

    Raises:
        TableNotFoundError: there is no such table.
        OptionError: an option is unknown or has a bad value.
    """
    given = _checked(option_keys(options))
    table, catalog = _text(table), None if catalog is None else _text(catalog)
    path = table if catalog is None else _path_of_name(table, catalog, given)
    given = _in_catalog(given, catalog)
    name = parse_table_path(path)
    if name.system_table is not None:
        raise UnsupportedError(
            f"'{path}' names the system table ${name.system_table}: open the table and call "
            f"system_table('{name.system_table}')."
        )
    loaded = load_table(path, options={**given, **_of_version(version)})
    return ArrowTable(loaded, older=version is not None)


def create_table(
    table: Path,
    schema: pa.Schema,
    *,
    catalog: Path | None = None,
    primary_keys: Sequence[str] | str = (),
    partition_keys: Sequence[str] | str = (),
    primary_key: Sequence[str] | str = (),
    partition_by: Sequence[str] | str = (),
    comment: str | None = None,
    **options: Any,
) -> ArrowTable:
    """Create a table, and its database where it is given by name.

    Args:
        table: the directory, or with `catalog` a name, ``database.table``.
        schema: columns of Arrow.
        catalog: the directory of the warehouse.
        primary_keys: columns, as a list or a comma list; none makes an append table.
        partition_keys: columns, as a list or a comma list.
        primary_key: another name of ``primary_keys``.
        partition_by: another name of ``partition_keys``.
        comment: of the table.
        options: of the table and the store, by keyword or key: ``bucket=4``, ``merge_engine="partial-update"``.

    Raises:
        SchemaError: there is such a table already, the directory is something else, or columns, keys and options do
            not fit together.
        OptionError: an option has a bad value.
    """
    if not isinstance(schema, pa.Schema):
        raise SchemaError(f"schema is a pyarrow.Schema, such as pa.schema([('id', pa.int64())]), and not {schema!r}")
    table, catalog = _text(table), None if catalog is None else _text(catalog)
    given = _in_catalog(option_keys(options), catalog)
    path = table if catalog is None else _path_of_name(table, catalog, given)
    root = parse_table_path(path).root
    reaching = reaching_options(given)
    new = new_table_schema(
        from_arrow_schema(schema),
        {key: text for key, text in given.items() if key not in reaching},
        primary_keys=column_names(primary_keys, primary_key),
        partition_keys=column_names(partition_keys, partition_by),
        comment=comment,
    )
    store = {key: text for key, text in given.items() if key not in new.options}
    if catalog is None:
        return ArrowTable(create(root, new, options=store, file_io=store_of_new_table(root, store)))
    opened = open_catalog(catalog, store)
    opened.create_database(table.split(".")[0], ignore_if_exists=True)
    return ArrowTable(create(root, new, options=dict(opened.options)))


@cut_methods
class ArrowTable:
    """A table whose rows are Arrow. Each method looks at the table as it is then; a write is one commit."""

    def __init__(self, table: FileStoreTable, *, older: bool = False) -> None:
        """Wrap a loaded table; `open_table` is the way to get one."""
        self._table = table
        self._older = older

    def __repr__(self) -> str:
        return f"ArrowTable({self._table.path!r})"

    @property
    def path(self) -> str:
        """The directory of the table."""
        return self._table.path

    @property
    def schema(self) -> pa.Schema:
        """The columns, of the version that was opened."""
        table = travel(self._table)[0] if has_time_travel(self._table.options) else self._table
        return to_arrow_schema(table.schema.fields)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for an append table."""
        return tuple(self._table.schema.primary_keys)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self._table.schema.partition_keys)

    @property
    def options(self) -> Mapping[str, str]:
        """The options that the table has stored."""
        return dict(self._table.latest.options)

    def snapshots(self) -> pa.Table:
        """Return the snapshots, one row each, as ``t$snapshots``."""
        return self.system_table("snapshots")

    def tags(self) -> pa.Table:
        """Return the tags, one row each, as ``t$tags``."""
        return self.system_table("tags")

    def files(self) -> pa.Table:
        """Return the data files of the version that is read, one row each, as ``t$files``."""
        return self.system_table("files")

    def system_table(self, name: str) -> pa.Table:
        """Return a system table, such as ``schemas``, ``partitions`` or ``audit_log``.

        Raises:
            TableNotFoundError: there is no such system table.
        """
        view = NAMED_VIEWS.get(name.lower())
        if view is not None:
            return Scan(self._table, view=view).to_arrow()
        return system_table(name, of=self.path).read(self._table)

    def scan(
        self,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        *,
        version: Version | None = None,
        limit: int | None = None,
        threads: int | None = None,
        **options: Any,
    ) -> Scan:
        """Describe a read; nothing is read before rows, the schema or the splits are asked for.

        Args:
            columns: of the result, as a list or a comma list; None is all.
            where: a condition in SQL, ``"id = 7 AND dt > '2024'"``: it leaves out partitions, files and row groups.
            version: a snapshot's id, a tag, or a time.
            limit: most rows.
            threads: how many splits are read at once; as many as this process has cores when not given.
            options: of the read, by keyword or key: ``incremental_between="3,5"``.

        Raises:
            OptionError: an option is unknown, or names a second version.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise OptionError(f"limit is {limit!r}: it is a number of rows, 0 or more.")
        given = {**_checked(option_keys(options)), **_of_version(version)}
        table = self._table.with_options(given) if given else self._table
        return Scan(table, None if columns is None else column_names(columns), where, limit, threads)

    def append(self, data: Any, **options: Any) -> RowCounts:
        """Add rows in one commit; rows of a primary-key table are merged with those of equal keys by its merge engine.

        Args:
            data: a table or reader of pyarrow, a DataFrame of polars or pandas, anything with ``__arrow_c_stream__``,
                or a list of dicts. Columns are matched by name; a value that does not fit its column is an error. In
                tables with a primary key a column ``_VALUE_KIND`` (int8: 0 +I, 1 -U, 2 +U, 3 -D) gives row kinds.
            options: of the write, by keyword or key.

        Returns:
            How many rows were written, before they are merged with others, and the id of the new snapshot.

        Raises:
            SchemaMismatchError: the columns do not fit.
            DataError: a value does not fit.
            CommitError: nothing was committed, or it is not known (`CommitStateUnknownError`).
        """
        with counting() as reported:
            write_rows(self._to_write(options), data)
        return reported.counts

    def overwrite(self, data: Any, where: str | None = None, **options: Any) -> RowCounts:
        """Replace the rows of the table, or of the partitions that a condition names, in one commit.

        Args:
            data: as of `append`.
            where: a condition over partition columns.
            options: of the write, by keyword or key.

        Returns:
            As `append`. Rows that went are not counted.

        Raises:
            OptionError: the condition is not about partition columns only.
            PaimonError: as `append`.
        """
        table = self._to_write(options)
        with counting() as reported:
            write_rows(table, data, overwrite_of(table, where))
        return reported.counts

    def upsert(self, data: Any, **options: Any) -> RowCounts:
        """Insert rows, or merge them with the rows of equal keys, in one commit.

        Returns:
            As `append`; nobody looks which keys were there: `num_updated_rows` and `num_inserted_rows` are None.

        Raises:
            UnsupportedError: the table has no primary key.
            PaimonError: as `append`.
        """
        if not self._table.schema.kind.is_keyed:
            raise UnsupportedError(
                f"{self.path} has no primary key, by which rows could be distinguished: append them, or overwrite a "
                "partition with them. PaimonTable.upsert(df, on=…) compares other columns, with Spark."
            )
        return self.append(data, **options).as_upsert()

    def delete(self, where: str | None = None) -> RowCounts:
        """Delete the rows for which a condition is true, in one commit; without a condition all rows.

        Returns:
            How many rows were deleted, and the id of the new snapshot, None where no row was found. The number is None
            where whole partitions went, with a primary key or with deletion vectors: only a read could show.

        Raises:
            UnsupportedError: the table does not let single rows be deleted.
            CommitConflictError: other commits changed the same rows every time.
        """
        with counting() as reported:
            delete_where(self._to_write({}), where)
        return reported.counts

    def compact(self, *, full: bool = True, where: str | None = None) -> int | None:
        """Compact the table in this process; return the id of the new snapshot, None where nothing is to be done.

        Args:
            full: False compacts only what a writer would.
            where: a condition over partition columns.
        """
        from paimon_spark.maintain.compact.compaction import compact_with_retries
        from paimon_spark.maintain.compact.scope import scope_of

        table = self._to_write({})
        return compact_with_retries(table, scope_of(table, partitions=None, where=where), full=full)

    def tag(self, name: str, *, snapshot: int | None = None) -> None:
        """Give a snapshot a name, which keeps it from expiring.

        Args:
            name: of the tag.
            snapshot: its id; the latest when not given.

        Raises:
            PaimonError: there is such a tag already, or no such snapshot.
        """
        from paimon_spark.maintain.refs.tags import create_tag

        create_tag(self._table, name, snapshot_id=snapshot, time_retained=None)

    def _to_write(self, options: Mapping[str, Any]) -> FileStoreTable:
        if self._older:
            raise PaimonError(f"{self.path} was opened at an older version, which cannot be changed: open it without.")
        given = _checked(option_keys(options))
        latest = self._table.with_latest_schema()
        return latest.with_options({**_dynamic(self._table), **given})


def _text(path: Path) -> str:
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"open_table takes the path of a table, or its name and catalog='/warehouse', not {path!r}")
    return os.fspath(path)


def _dynamic(table: FileStoreTable) -> dict[str, str]:
    """The options that a table was opened with, besides its own."""
    own = table.latest.options
    return {key: text for key, text in table.options.to_dict().items() if own.get(key) != text}


def _checked(given: dict[str, str]) -> dict[str, str]:
    unknown = next((key for key in given if find_option(key) is None), None)
    if unknown is not None:
        raise unknown_option_error(unknown)
    return given


def _of_version(version: Version | None) -> dict[str, str]:
    if version is None:
        return {}
    if isinstance(version, datetime):
        return {"scan.timestamp-millis": str(int(version.timestamp() * 1000))}
    return {"scan.version": str(version)}


def _in_catalog(options: Mapping[str, str], catalog: str | None) -> dict[str, str]:
    """Return the options with the warehouse, where they name a metastore or a lock, which need both."""
    named = catalog is not None and ("metastore" in options or "lock.type" in options)
    if not named:
        return dict(options)
    return {**options, "warehouse": str(catalog) if kind_of(options) == "rest" else str(catalog).rstrip("/")}


def _path_of_name(name: str, warehouse: str, options: Mapping[str, str]) -> str:
    parts = name.split(".")
    if len(parts) != 2 or not all(parts):
        raise OptionError(f"'{name}' is no name of a table in a warehouse: write database.table.")
    return FilesystemCatalog(root_of(warehouse, options)).table_path(*parts)
