"""A Paimon table as a value: its path, schema and options, and the stores that look up the rest.

Equals Java's ``FileStoreTable`` and ``AbstractFileStoreTable.copy`` (dynamic options, time travel of the schema).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from paimon_spark.errors import OptionError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.metastore import Found, TableHome
from paimon_spark.metastore.opening import home_of
from paimon_spark.options import (
    OPTIONS,
    CoreOptions,
    Option,
    accept_given,
    canonical_options,
    log_ignored,
    reaching_options,
    refuse_without_server,
    unknown_option_error,
)
from paimon_spark.options.core_options import IGNORES_CORRUPT_FILES, IGNORES_LOST_FILES, OPENED_AT, READS_LEVEL_0
from paimon_spark.spec.file_names import external_roots
from paimon_spark.spec.schema import TableSchema, is_format_table, options_of_files
from paimon_spark.storage.blob_descriptor import OPTION as DESCRIPTOR_PATHS
from paimon_spark.storage.confinement import ALLOWED as MAY_DELETE
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.store_options import without_secrets
from paimon_spark.table.catalog_cache import CatalogCache, kept
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.foreign_folders import foreign_content
from paimon_spark.table.manifest_store import ManifestStore
from paimon_spark.table.paths import (
    DATABASE_SUFFIX,
    MAIN_BRANCH,
    TableName,
    TablePaths,
    check_new_table_name,
    parse_table_path,
    refuse_system_database,
)
from paimon_spark.table.ref_store import BranchStore, TagStore
from paimon_spark.table.schema_change import options_at
from paimon_spark.table.schema_store import SchemaStore, check_adopted
from paimon_spark.table.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.publisher import TableServer


_OF_QUERIES = (IGNORES_LOST_FILES, IGNORES_CORRUPT_FILES)


@dataclass(frozen=True)
class FileStoreTable:
    """One branch of one table with the schema and the options under which it is read or written. Picklable.

    What is given a table takes it so: with the options of the statement, or of the call, already on top.
    """

    path: str
    """The table directory, without a trailing slash."""
    branch: str
    file_io: FileIO
    """The store, in which only what lies below the table can be written and deleted (`confinement`)."""
    schema: TableSchema
    """Fields of the latest schema, or of the snapshot that was travelled to; its options are `options`."""
    options: CoreOptions
    """Options of the latest schema with the dynamic ones on top."""
    schemas: SchemaStore = field(repr=False, compare=False)
    """The schema files of the branch; the schemas it has read travel with the table."""
    latest: TableSchema = field(repr=False, compare=False)
    """The latest schema as it was when the table was opened, without dynamic options."""

    @cached_property
    def paths(self) -> TablePaths:
        """Paths of this table and branch."""
        return TablePaths(self.path, self.branch, DataLayout.of(self.schema))

    @cached_property
    def snapshots(self) -> SnapshotStore:
        """The snapshot files of the branch."""
        return SnapshotStore(self.file_io, self.paths)

    @cached_property
    def tags(self) -> TagStore:
        """The tags of the branch."""
        return TagStore(self.file_io, self.paths)

    @property
    def address(self) -> str:
        """The path by which the same table is opened again: that of its catalog, where a server has one of its own."""
        publisher = self.file_io.publisher
        own = None if publisher is None else publisher.address
        return self.path if own is None else own

    @property
    def server(self) -> TableServer | None:
        """Who keeps the snapshots and branches in place of the files; None where the files do."""
        server = self.schemas.server
        return server if server is not None and server.keeps_snapshots else None

    @property
    def is_governed(self) -> bool:
        """Whether the server of its catalog may hide rows and values of it (`query-auth.enabled`)."""
        server = self.schemas.server
        return server is not None and server.is_governed

    @property
    def branch_option(self) -> dict[str, str]:
        """The option by which the same branch is opened again, where the path alone does not lead there."""
        is_plain = self.branch == MAIN_BRANCH and not stored_branch_of(self.schema)
        return {} if is_plain else {"branch": self.branch}

    @property
    def place(self) -> tuple[str, str, str]:
        """The store, the path and the branch: two stores may have one path."""
        return (self.file_io.address, self.path, self.branch)

    def on_branch(self, name: str) -> FileStoreTable:
        """Return another branch of the table with its latest schema; options given dynamically are dropped."""
        return load_table(self.path, branch=name, file_io=self.file_io)

    @cached_property
    def branches(self) -> BranchStore:
        """The branches of the table."""
        return BranchStore(self.file_io, self.paths)

    @cached_property
    def manifests(self) -> ManifestStore:
        """Manifest lists, manifests and index manifests."""
        return ManifestStore(self.file_io, self.paths, self.schema)

    def with_options(self, dynamic: Mapping[str, str], *, given: bool = True) -> FileStoreTable:
        """Return the table with ``dynamic`` options on top of its own.

        Args:
            dynamic: options.
            given: whether a user gives them with a read or a write; False where they come from another table or branch.

        Raises:
            OptionError: an immutable option would change ("Cannot change bucket-key from a to b."), or a value is bad.
            UnsupportedError: an option asks for what is not supported.
        """
        if not dynamic:
            return self
        changes = canonical_options(dict(dynamic))
        if given:
            accept_given(self.path, changes)
        for key, value in changes.items():
            _check_changeable(self.schema, key, value)
        changed = self._with_schema(self.schema.with_options(self.options.merged(changes).to_dict()))
        if given and MAY_DELETE in changes:
            allowed = tuple(filter(None, (part.strip() for part in changes[MAY_DELETE].split(","))))
            changed = replace(
                changed, file_io=confined(self.file_io, self.path, external_roots(self.schema.options), allowed)
            )
        return changed

    def without_options(self, keys: Iterable[str]) -> FileStoreTable:
        """Return the table without these options, also those of its schema."""
        left = {key: value for key, value in self.options.to_dict().items() if key not in frozenset(keys)}
        return self._with_schema(self.schema.with_options(left))

    def as_if(self, options: Mapping[str, str]) -> FileStoreTable:
        """Return the table as if it had ``options``, for a job of ours: also options that users cannot change."""
        return self._with_schema(self.schema.with_options({**self.options.to_dict(), **options}))

    def reading_level_0(self) -> FileStoreTable:
        """Return the table as statements that change rows and rewrites read it: every row that was committed.

        Batch reads of tables with deletion vectors and of first-row tables leave out level 0, whose rows become visible
        with the next compaction. New rows made of such a read would undo commits that are not compacted yet. Nor are
        files passed over that cannot be read.
        """
        complete = self.without_options(_OF_QUERIES) if any(key in self.options for key in _OF_QUERIES) else self
        return complete.as_if({READS_LEVEL_0: "true"}) if self.options.batch_scan_skips_level_0 else complete

    def at_snapshot(self, snapshot: Snapshot) -> FileStoreTable:
        """Return the table with the fields that ``snapshot`` was written with and its own, latest options.

        Columns that the options name have the names that they had then (`options_at`).
        """
        if snapshot.schema_id == self.schema.id:
            return self
        then = self.schemas.get(snapshot.schema_id)
        return self._with_schema(then.with_options(options_at(self.latest, self._latest_options(), then)))

    def rewriting(self, snapshot: Snapshot) -> FileStoreTable:
        """Return the table as jobs that write its files anew read ``snapshot``: with the columns that it has by now.

        Another process may have added columns, and written values of them, since the table was opened.
        """
        return self.at_snapshot(snapshot) if snapshot.schema_id > self.schema.id else self

    def as_opened(self) -> FileStoreTable:
        """Return the table with the latest schema of when it was opened, without dynamic options."""
        schema = self.latest
        table = FileStoreTable(self.path, self.branch, self.file_io, schema, schema.core_options, self.schemas, schema)
        stored = [key for key in (DESCRIPTOR_PATHS, MAY_DELETE, *_OF_QUERIES) if key in table.options]
        return table.without_options(stored) if stored else table  # the caller's word alone counts

    def with_latest_schema(self) -> FileStoreTable:
        """Return the table with the latest schema and its options as they are now, dynamic options dropped."""
        latest = _latest_schema(self.schemas, self.path, self.branch)
        return FileStoreTable(self.path, self.branch, self.file_io, latest, latest.core_options, self.schemas, latest)

    def _latest_options(self) -> dict[str, str]:
        """The options of the latest schema with the dynamic ones of this table, which may have travelled in time."""
        if self.schema.id == self.latest.id:
            return self.options.to_dict()
        own = options_at(self.latest, self.latest.options, self.schemas.get(self.schema.id))
        now = self.options.to_dict()
        kept = {key: value for key, value in self.latest.options.items() if key not in own or key in now}
        return {**kept, **{key: value for key, value in now.items() if own.get(key) != value}}

    def _with_schema(self, schema: TableSchema) -> FileStoreTable:
        return replace(self, schema=schema, options=schema.core_options)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the stores, which are made again where they are used."""
        fields = self.__dataclass_fields__
        return {name: value for name, value in self.__dict__.items() if name in fields}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def load_table(
    path: str | TableName,
    *,
    options: Mapping[str, str] | None = None,
    branch: str | None = None,
    file_io: FileIO | None = None,
    cache: CatalogCache | None = None,
) -> FileStoreTable:
    """Open the table at ``path`` with its latest schema.

    Where nothing names a branch, the option ``branch`` that the table has stored does, as in Java.

    Args:
        path: the table directory, or ``<table>$branch_<branch>``; or what such a path names.
        options: dynamic options, and those of the store (``s3.*``, ``fs.*``).
        branch: overrides the branch named in the path; so does the option ``branch``.
        file_io: the store; made from path and options when not given.
        cache: of the catalog, which may have found the table before.

    Raises:
        TableNotFoundError: there is no schema file there.
        OptionError: an immutable option would change.
    """
    with without_secrets(options or {}):
        return _load(path, options or {}, branch, file_io, cache)


def _load(
    path: str | TableName,
    options: Mapping[str, str],
    branch: str | None,
    file_io: FileIO | None,
    cache: CatalogCache | None,
) -> FileStoreTable:
    dynamic = canonical_options(dict(options))
    name = path if isinstance(path, TableName) else parse_table_path(path)
    chosen = branch or dynamic.get("branch") or name.branch
    by_name = not (branch or "branch" in dynamic or name.names_branch)

    look = partial(_look, dynamic, name.root, chosen, by_name, file_io)
    opened = look() if cache is None else kept(cache, name.root, (chosen, by_name), look, _Opened.places)
    root, chosen, io, schemas, schema = opened.root, opened.branch, opened.file_io, opened.schemas, opened.schema
    if OPENED_AT in dynamic:
        if not dynamic[OPENED_AT].isdecimal():
            raise unknown_option_error(OPENED_AT, ())
        schema = schemas.get(int(dynamic[OPENED_AT]))
    io = confined(io, root, external_roots(schema.options))
    table = FileStoreTable(root, chosen, io, schema, schema.core_options, schemas, schema).as_opened()
    log_ignored(root, options_of_files(schema.options) if is_format_table(schema) else schema.options, logging.INFO)
    of_store = reaching_options(dynamic)
    accept_given(root, of_store)
    elsewhere = {"branch", OPENED_AT, *of_store}
    return table.with_options({key: value for key, value in dynamic.items() if key not in elsewhere})


class _Opened(NamedTuple):
    """A table and branch that was found, with its latest schema."""

    root: str
    branch: str
    file_io: FileIO
    schemas: SchemaStore
    schema: TableSchema

    def places(self) -> tuple[str, ...]:
        """Where its files are; an empty text for one of which the server is asked each time what it hides."""
        server = self.schemas.server
        return ("" if server is not None and server.is_governed else self.root,)


def _look(options: Mapping[str, str], root: str, branch: str, by_name: bool, file_io: FileIO | None) -> _Opened:
    """Look for a table; with ``by_name`` the branch that it has stored counts."""
    found = _found(options, root, branch)
    root = root if found is None else found.path
    io = _file_io(found, root, options, file_io)
    schemas = SchemaStore(io, TablePaths(root, branch))
    served = None if found is None else found.schema
    schema = _latest_schema(schemas, root, branch) if served is None else schemas.learn(served)
    stored_branch = stored_branch_of(schema) if by_name else ""
    if stored_branch not in ("", branch):
        branch, schemas = stored_branch, SchemaStore(io, TablePaths(root, stored_branch))
        schema = _schema_of_stored_branch(schemas, root, branch)
    return _Opened(root, branch, io, schemas, schema)


def reopened(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """Return a table that a statement has opened as `load_table` would with these options, without another look at it.

    Args:
        table: of the same path and store.
        options: dynamic options, and those of the store; another `branch` is loaded.
    """
    dynamic = canonical_options(dict(options))
    if dynamic.get("branch", table.branch) != table.branch:
        return load_table(TableName(table.path), options=options)
    elsewhere = {"branch", *reaching_options(dynamic)}
    return table.as_opened().with_options({key: value for key, value in dynamic.items() if key not in elsewhere})


def _found(options: Mapping[str, str], root: str, branch: str) -> Found | None:
    """What the metastore has of a table; None where the directory is in no such warehouse."""
    home = home_of(options, root)
    found = None if home is None else home.find(root, branch)
    if home is not None and found is None:
        where = root if branch == MAIN_BRANCH else f"branch '{branch}' of {root}"
        raise TableNotFoundError(f"There is no Paimon table at {where}: the catalog's metastore does not have it.")
    return found


def _file_io(found: Found | None, root: str, options: Mapping[str, str], given: FileIO | None) -> FileIO:
    """The store of a table, confined to it."""
    if found is None:
        return confined(given or FileIO.for_path(root, options), root)
    store = given or found.file_io or FileIO.for_path(root, {**options, **found.options})
    return confined(store, root, publisher=found.home)


def create_table(
    path: str, schema: TableSchema, *, options: Mapping[str, str] | None = None, file_io: FileIO | None = None
) -> FileStoreTable:
    """Create a table with ``schema`` at ``path``; nothing but its first schema file is written.

    Args:
        path: the table directory.
        schema: its first schema.
        options: of the store, and of the catalog whose metastore gets the table's name.
        file_io: the store; made from path and options when not given.

    Raises:
        SchemaError: there is a table already, or the last part of the path cannot be a table's name.
        UnsupportedError: the path is in the database `sys` of a warehouse, where only system tables are; or an option
            needs the server of a catalog, and there is none.
        PaimonError: the metastore of the catalog cannot be reached.
    """
    name = parse_table_path(path)
    refuse_system_database(name.root)
    check_new_table_name(name.root.rpartition("/")[2])
    given = options or {}
    home = home_of(given, name.root)
    if home is not None and home.metastore.keeps_tables:
        _create_served(home, name.root, schema, given)
        return load_table(name.root, options=reaching_options(given))
    refuse_without_server(schema.options)
    root = name.root if home is None else home.new_path(name.root, schema)
    if is_format_table(schema):
        return _create_of_files(home, name.root, schema, root, given)
    store = file_io if root == name.root else None
    io = confined(store or FileIO.for_path(root, dict(given)), root)
    if home is None:
        SchemaStore(io, TablePaths(root)).create(schema)
    else:
        _create_named(home, io, TablePaths(root), schema)
    log_ignored(root, schema.options, logging.WARNING)
    return load_table(root, file_io=confined(io, root, publisher=home))


def _create_served(home: TableHome, address: str, schema: TableSchema, options: Mapping[str, str]) -> None:
    """Let a server make a table; of an external one (option ``path``) the files are here, as far as they are missing.

    What lies there may have its schema: then that stays the table's (Java: ``inferSchemaIfExternalPaimonTable``).
    """
    place = schema.options.get("path", "").strip().rstrip("/")
    if not place:
        if not home.add(schema, address):
            raise home.taken()
        return
    if is_format_table(schema):
        home.metastore.check_schema(schema)
        FileIO.for_path(place, dict(options)).mkdirs(place)
        if not home.add(schema, address):
            raise home.taken()
        return
    paths = TablePaths(place)
    io = confined(FileIO.for_path(place, dict(options)), place)
    schemas = SchemaStore(io, paths)
    there = schemas.latest()
    own = {key: text for key, text in schema.options.items() if key in ("owner", "path")}
    if there is None:
        schemas.create(schema.with_options({key: text for key, text in schema.options.items() if key != "path"}))
    else:
        check_adopted(there, schema)
    added = False
    try:
        added = home.add(schema if there is None else there.with_options({**there.options, **own}), address)
    finally:
        if not added and there is None:
            _delete_schema(io, paths, schema.id)
    if not added:
        raise home.taken()


def _create_of_files(
    home: TableHome | None, address: str, schema: TableSchema, root: str, options: Mapping[str, str]
) -> FileStoreTable:
    """Put a table of plain files into a metastore that keeps such ones: no schema file lies in its directory."""
    if home is None or not home.metastore.keeps_format_tables:
        raise UnsupportedError(
            f"The catalog of {address} currently does not support format tables ('type' = 'format-table'): use one "
            "with 'metastore' = 'rest' or 'hive'."
        )
    home.check_new(schema)
    if not home.add(schema, root):
        raise home.taken()
    return load_table(address, options=reaching_options(options))


def _delete_schema(io: FileIO, paths: TablePaths, schema_id: int) -> None:
    """Delete the one schema of a table that was not made after all."""
    io.delete_quietly(paths.schema_path(schema_id))
    io.delete_empty_directory(paths.schema_dir)
    io.delete_empty_directory(paths.root)


def _create_named(home: TableHome, io: FileIO, paths: TablePaths, schema: TableSchema) -> None:
    """Write the first schema and put the table's name into the metastore, or neither, while its lock is held.

    An external table may have its schema: then that stays the table's.
    """
    with home.locked(""):
        home.check_new(schema)
        schemas = SchemaStore(io, paths)
        there = schemas.latest() if home.adopts(schema) else None
        if there is None:
            schemas.create(schema)
        else:
            check_adopted(there, schema)
        added = False
        try:
            added = home.add(there or schema, paths.root)
        finally:
            if not added and there is None:
                _delete_schema(io, paths, schema.id)
        if not added:
            raise home.taken()


def table_exists(path: str | TableName, *, options: Mapping[str, str] | None = None) -> bool:
    """Return whether there is a table (a schema file) at ``path``."""
    name = path if isinstance(path, TableName) else parse_table_path(path)
    home = home_of(options or {}, name.root)
    found = None if home is None else home.find(name.root, name.branch)
    if home is not None and (found is None or found.schema is not None):
        return found is not None
    root = name.root if found is None else found.path
    return bool(SchemaStore(FileIO.for_path(root, dict(options or {})), TablePaths(root, name.branch)).ids())


def stored_branch_of(schema: TableSchema) -> str:
    """The branch that the option ``branch`` of a schema names; empty without the option."""
    return schema.options.get("branch", "").strip()


def _schema_of_stored_branch(schemas: SchemaStore, root: str, branch: str) -> TableSchema:
    schema = schemas.latest()
    if schema is None:
        raise SchemaError(
            f"The table at {root} has stored the option 'branch' = '{branch}', and there is no such branch. Unset the "
            f"option 'branch' of `{root.rpartition('/')[2]}$branch_{MAIN_BRANCH}`, or create the branch there."
        )
    return schema


def _latest_schema(schemas: SchemaStore, root: str, branch: str) -> TableSchema:
    schema = schemas.latest()
    if schema is None:
        where = root if branch == MAIN_BRANCH else f"branch '{branch}' of {root}"
        by_path = branch == MAIN_BRANCH and not root.rpartition("/")[0].endswith(DATABASE_SUFFIX)
        foreign = foreign_content(schemas.file_io, root) if by_path else None  # a look that names need not pay for
        reason = "it has no schema file" if foreign is None else f"it is {foreign}"
        if by_path and "." in root.rpartition("/")[2]:
            reason += ". A name needs its catalog: open_table(name, catalog=…), PaimonTable.for_name, -w in a terminal"
        raise TableNotFoundError(f"There is no Paimon table at {where}: {reason}.")
    return schema


def _check_changeable(schema: TableSchema, key: str, value: str) -> None:
    """Refuse what Java's ``SchemaManager.checkAlterTableOption`` refuses of a dynamic option."""
    options = schema.core_options
    option = OPTIONS.get(key)
    if option is None:
        return
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys}.get(key)
    if keys is not None and key not in options:
        before, after = ",".join(keys), ",".join(name.strip() for name in value.split(","))
    else:
        given = options.text(option)
        before, after = _text(option, given), _text(option, value)
    if before == after:
        return
    one_way = key in _ONE_WAY and before == "true"
    if option.immutable or key in _FIXED or one_way:
        raise OptionError(f"Cannot change {key} from {before or 'its default'} to {value}.{_ADVICE.get(key, '')}")


_ONE_WAY = ("ignore-delete", "ignore-update-before")
_FIXED = ("bucket", "deletion-vectors.enabled")
_ADVICE = {"bucket": " Rescaling the buckets of a table is a rewrite of it, not an option of a read or write."}


def _text(option: Option, given: str | None) -> str:
    """Return a value in one spelling, so that a repeated or a default value is no change."""
    value = option.default if given is None else option.parse(given)
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
