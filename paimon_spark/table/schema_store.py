"""The schema files of one branch: `schema-<id>`, never changed once written.

Equals Java's ``SchemaManager`` (docs/internals/format.md §1).

Changes of a schema that a catalog's server makes, as requests have them (Java ``SchemaChange``).

The definition of an external table that is made where a table lies must not contradict the schema that is there (Java:
``SchemaManager.checkSchemaForExternalTable``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import CorruptTableError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spec.data_types import DataField, DataType, RowType
from paimon_spark.spec.file_names import SCHEMA_PREFIX, numbered_name_id
from paimon_spark.spec.json_text import json_bytes
from paimon_spark.spec.kept_values import DecodedOnce
from paimon_spark.spec.schema import TableSchema
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.catalog_cache import forget
from paimon_spark.table.paths import TablePaths
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    Path,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from paimon_spark.table.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileStatus
    from paimon_spark.storage.publisher import TableServer

_MAX_ATTEMPTS = 50
_SCHEMAS = DecodedOnce[TableSchema]()
FRESH_SECONDS = 1.0
"""So long a schema that was read is taken for that of the table without another look."""


class SchemaStore:
    """Looks up, creates and evolves the schemas of one branch. Schemas that were read are kept."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = self.file_io = file_io
        self._paths = paths
        self.server = None if file_io.publisher is None else file_io.publisher.server
        """Who has the latest schema in place of the files; None where they have."""
        self._known: dict[int, TableSchema] = {}
        self._digests: dict[int, bytes] = {}
        """Digest of the bytes of each schema that was read; tables differ, at least by the time in them."""
        self._read_at: dict[int, float] = {}
        """When each schema was read or written, or found unchanged, by the clock of this process."""

    def ids(self) -> list[int]:
        """Return the ids of all schemas, ascending; empty when there is no table."""
        return sorted(self._entries())

    def _entries(self) -> dict[int, FileStatus]:
        listed = self._file_io.list_names(self._paths.schema_dir)
        found = ((numbered_name_id(entry.name, SCHEMA_PREFIX), entry) for entry in listed if not entry.is_dir)
        return {schema_id: entry for schema_id, entry in found if schema_id is not None}

    def latest(self) -> TableSchema | None:
        """Return the schema with the highest id, None when there is no table."""
        if self.server is not None:
            try:
                return self.learn(self.server.schema(self._paths.branch))
            except TableNotFoundError:
                return None
        entries = self._entries()
        return self._get(max(entries), entries[max(entries)]) if entries else None

    def latest_and_given(self, schema_id: int) -> tuple[TableSchema | None, bool]:
        """Return the schema with the highest id, and whether ``schema_id`` is still what was read: `is_still`."""
        self.get(schema_id)
        entries = self._entries()
        if not entries:
            return None, False
        if self.server is not None:  # it checks the identity of the table when it publishes
            return self._get(max(entries), entries[max(entries)]), True
        is_still = schema_id in entries and self._is_still(schema_id, entries[schema_id])
        return self._get(max(entries), entries[max(entries)]), is_still

    def get(self, schema_id: int) -> TableSchema:
        """Return the schema ``schema_id``.

        Raises:
            CorruptTableError: the schema file is missing or cannot be read as a schema.
        """
        return self._get(schema_id)

    def _get(self, schema_id: int, entry: FileStatus | None = None) -> TableSchema:
        known = self._known.get(schema_id)
        if known is None:
            path = self._paths.schema_path(schema_id)
            try:
                data = self._read(path, entry)
            except FileNotFoundError as error:
                raise CorruptTableError(f"Schema file {path} is missing.", path=path) from error
            known = _SCHEMAS.find(data) or _SCHEMAS.keep(data, TableSchema.from_json(data, path=path))
            if known.id != schema_id:
                raise CorruptTableError(f"Schema file {path} holds the schema id {known.id}.", path=path)
            self._keep(known, data)
        return known

    def learn(self, schema: TableSchema) -> TableSchema:
        """Keep the latest schema, which a server has reported."""
        self._keep(schema, _encoded(schema))
        return schema

    def is_fresh(self, schema_id: int) -> bool:
        """Return whether a schema was read a moment ago, so that `is_still` is not worth a request to the store."""
        self.get(schema_id)
        return time.monotonic() - self._read_at[schema_id] < FRESH_SECONDS

    def is_still(self, schema_id: int) -> bool:
        """Return whether a schema file still holds the bytes that were read; otherwise this is another table."""
        self.get(schema_id)
        if self.server is not None:
            return self.latest() is not None
        return self._is_still(schema_id)

    def _is_still(self, schema_id: int, entry: FileStatus | None = None) -> bool:
        try:
            data = self._read(self._paths.schema_path(schema_id), entry)
        except FileNotFoundError:
            return False
        found = _digest(data) == self._digests[schema_id]
        if found:
            self._read_at[schema_id] = time.monotonic()
        return found

    def _keep(self, schema: TableSchema, data: bytes) -> None:
        self._known[schema.id], self._digests[schema.id] = schema, _digest(data)
        self._read_at[schema.id] = time.monotonic()

    def _read(self, path: str, entry: FileStatus | None) -> bytes:
        return self._file_io.read_bytes(path) if entry is None else self._file_io.read_listed(path, entry)

    def all(self) -> list[TableSchema]:
        """Return every schema, by ascending id."""
        return [self.get(schema_id) for schema_id in self.ids()]

    def create(self, schema: TableSchema) -> TableSchema:
        """Write ``schema`` as the first one of the table.

        Raises:
            SchemaError: there is a table already, or snapshots of one.
        """
        data = _encoded(schema)
        with ThreadPoolExecutor(self._file_io.threads) as pool:
            asked = pool.submit(SnapshotStore(self._file_io, self._paths).ids), pool.submit(self.ids)
            left, there = (each.result() for each in asked)
        if left and not there:
            raise SchemaError(
                f"{self._paths.branch_root} has snapshots ({self._paths.snapshot_path(left[-1])}) but no schema: it is "
                "what a damaged table left, one that was written while it was dropped, or a rename that was stopped. A "
                "new table there would show their rows. Run the same rename again, delete the directory, or restore "
                "its schema files."
            )
        if there or not self._file_io.create_exclusive(self._paths.schema_path(schema.id), data):
            raise SchemaError(
                f"Schema in filesystem exists, creation is not allowed: {self._paths.branch_root} is a table already."
            )
        self._keep(schema, data)
        forget(self._paths.root)
        return schema

    def commit_next(
        self, change: Callable[[TableSchema], TableSchema], changes: Sequence[SchemaChange] | None = None
    ) -> TableSchema:
        """Write ``change(latest)`` as the next schema; retried on top of the winner's when another writer is faster.

        Args:
            change: given the latest schema, returns the new one. Its id must be that of the latest plus 1; when the
                same schema comes back (equal id), nothing is written.
            changes: the same as records, which a server is sent; found from the schemas when not given.

        Raises:
            TableNotFoundError: there is no table.
            SchemaError: other writers were faster every time.
        """
        if self.server is not None:
            return self._commit_served(self.server, change, changes)
        for _ in range(_MAX_ATTEMPTS):
            latest = self.latest()
            if latest is None:
                raise TableNotFoundError(f"There is no Paimon table at {self._paths.branch_root}: no schema file.")
            changed = change(latest)
            if changed.id == latest.id:
                return latest
            if changed.id != latest.id + 1:
                raise SchemaError(
                    f"The schema after schema {latest.id} must have id {latest.id + 1}, not {changed.id}."
                )
            data = _encoded(changed)
            publisher = self._file_io.publisher
            if publisher is not None and self._paths.branch_root == self._paths.root:
                publisher.schema_changed(changed, latest)  # first, for it may refuse; Java deletes the schema then
            if self._file_io.create_exclusive(self._paths.schema_path(changed.id), data):
                self._keep(changed, data)
                forget(self._paths.root)
                return changed
        raise SchemaError(
            f"Gave up changing the schema of {self._paths.branch_root}: {_MAX_ATTEMPTS} times others were faster."
        )

    def _commit_served(
        self,
        server: TableServer,
        change: Callable[[TableSchema], TableSchema],
        changes: Sequence[SchemaChange] | None,
    ) -> TableSchema:
        """Let the server make the next schema, once it is known to be a good one."""
        latest = self.latest()
        if latest is None:
            raise TableNotFoundError(f"There is no Paimon table at {server.address}: it was dropped.")
        changed = change(latest)
        if changed.id == latest.id:
            return latest
        sent = changes_between(latest, changed) if changes is None else changes
        server.alter(self._paths.branch, [change_json(each) for each in sent])
        forget(self._paths.root)
        return self.latest() or changed


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _encoded(schema: TableSchema) -> bytes:
    return json_bytes(schema.to_json(), "The schema (a column, comment or option)")


def change_json(change: SchemaChange) -> dict[str, Any]:
    """A change as Java writes it."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case RemoveOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case AddColumn(path, data_type, comment, position):
            move = None if position is None else _move(path[-1], position)
            named = _named(path)
            return {"action": "addColumn", **named, "dataType": _type(data_type), "comment": comment, "move": move}
        case RenameColumn(path, name):
            return {"action": "renameColumn", **_named(path), "newName": name}
        case DropColumn(path):
            return {"action": "dropColumn", **_named(path)}
        case UpdateColumnType(path, data_type):
            kept = {"newDataType": _type(data_type), "keepNullability": True}
            return {"action": "updateColumnType", **_named(path), **kept}
        case UpdateColumnNullability(path, nullable):
            return {"action": "updateColumnNullability", **_named(path), "newNullability": nullable}
        case UpdateColumnComment(path, comment):
            return {"action": "updateColumnComment", **_named(path), "newComment": comment}
        case UpdateColumnPosition(path, position):
            return {"action": "updateColumnPosition", "move": _move(path[-1], position)}
        case UpdateColumnDefault(path, value):
            return {"action": "updateColumnDefaultValue", **_named(path), "newDefaultValue": value}


def _named(path: Path) -> dict[str, Any]:
    return {"fieldNames": list(path)}


def _type(data_type: DataType) -> Any:
    return DataField(0, "f", data_type).to_json()["type"]


def _move(name: str, position: Position) -> dict[str, Any]:
    kind = "FIRST" if position.after is None else "AFTER"
    return {"fieldName": name, "referenceFieldName": position.after, "type": kind}


def changes_between(old: TableSchema, new: TableSchema) -> list[SchemaChange]:
    """The changes that make one schema of another.

    Raises:
        UnsupportedError: no changes do: keys differ, or the order of columns.
    """
    found = [*_column_changes((), old.fields, new.fields), *_option_changes(old.options, new.options)]
    if old.comment != new.comment:
        found.append(UpdateComment(new.comment))
    if (old.primary_keys, old.partition_keys) != (new.primary_keys, new.partition_keys):
        raise UnsupportedError("The keys of a table in a REST catalog cannot be changed.")
    return found


def _option_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[SchemaChange]:
    yield from (SetOption(key, value) for key, value in new.items() if old.get(key) != value)
    yield from (RemoveOption(key) for key in old if key not in new)


def _column_changes(above: Path, old: Sequence[DataField], new: Sequence[DataField]) -> Iterator[SchemaChange]:
    before, after = {each.id: each for each in old}, {each.id for each in new}
    yield from (DropColumn((*above, each.name)) for each in old if each.id not in after)
    last: str | None = None
    for column in new:
        known, path = before.get(column.id), (*above, column.name)
        if known is None:
            yield AddColumn(path, column.type, column.description, None if last is None else Position(last))
        else:
            if known.name != column.name:
                yield RenameColumn((*above, known.name), column.name)
            yield from _changes_of_column(path, known, column)
        last = column.name
    kept = [each.id for each in old if each.id in after]
    if kept != [each.id for each in new if each.id in before]:
        raise UnsupportedError("The order of columns is changed by ALTER TABLE in a REST catalog.")


def _changes_of_column(path: Path, old: DataField, new: DataField) -> Iterator[SchemaChange]:
    if isinstance(old.type, RowType) and isinstance(new.type, RowType):
        yield from _column_changes(path, old.type.fields, new.type.fields)
    elif old.type.with_nullable(True) != new.type.with_nullable(True):
        yield UpdateColumnType(path, new.type)
    if old.type.nullable != new.type.nullable:
        yield UpdateColumnNullability(path, new.type.nullable)
    if old.description != new.description:
        yield UpdateColumnComment(path, new.description)
    if old.default_value != new.default_value:
        yield UpdateColumnDefault(path, new.default_value)


_OF_THE_NAME = ("owner", "path", "external", "EXTERNAL")
"""Options that belong to a name of the table, and may differ."""


def columns_or_there(
    columns: Sequence[DataField], options: Mapping[str, str], store: Mapping[str, str]
) -> Sequence[DataField]:
    """The columns of a definition; of one without columns those of the table that lies at its option ``path``."""
    path = options.get("path", "").strip().rstrip("/")
    if columns or not path:
        return columns
    there = SchemaStore(confined(FileIO.for_path(path, dict(store)), path), TablePaths(path)).latest()
    return () if there is None else there.fields


def check_adopted(there: TableSchema, given: TableSchema) -> None:
    """Check that what a statement says of a table is what the table has.

    Raises:
        SchemaError: it says something else.
    """
    columns = [(field.name, field.type.sql()) for field in given.fields]  # whatever the ids of nested fields are
    if columns and columns != [(field.name, field.type.sql()) for field in there.fields]:
        raise SchemaError("New schema is not equal to exists schema: the table that lies there has other columns.")
    for key, ours, theirs in (
        ("partition", given.partition_keys, there.partition_keys),
        ("primary-key", given.primary_keys, there.primary_keys),
    ):
        if ours and ours != theirs:
            raise SchemaError(
                f"New schema is not equal to exists schema: '{key}' is {','.join(ours)}, and "
                f"{','.join(theirs) or 'empty'} of the table that lies there."
            )
    for key, value in given.options.items():
        if key not in _OF_THE_NAME and there.options.get(key) != value:
            raise SchemaError(
                f"New schema's options are not equal to the exists schema's: '{key}' = '{value}', and "
                f"{there.options.get(key, 'not set')} of the table that lies there."
            )
