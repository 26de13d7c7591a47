"""The next schema of a table, made of changes to its columns, comment and options; or why there is none.

Equals Java's ``SchemaManager.generateTableSchema``; the refusals keep Java's words.

Which options of a table may change once it has data.

Equals Java's ``SchemaManager.checkAlterTableOption`` and ``checkResetTableOption``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError, SchemaChangeError, UnsupportedError
from paimon_spark.options import accept_stored, check_new_options, find_option, without_governing
from paimon_spark.spec.casts import can_cast, cast_default
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, DataType, MapType, RowType
from paimon_spark.spec.schema import TableSchema, assign_field_ids, is_format_table
from paimon_spark.spec.schema_validation import validate
from paimon_spark.table.new_schema import forget_options, is_directive, with_directive
from paimon_spark.table.paths import MAIN_BRANCH
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    Path,
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
    renamed_options,
)
from paimon_spark.table.schema_store import SchemaStore
from paimon_spark.table.support import check_stored_branch

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_KEYS = {"primary-key": "primary_keys", "partition": "partition_keys"}
_ONE_WAY = ("ignore-delete", "ignore-update-before")
_DELETION_VECTORS = "deletion-vectors.enabled"


def alter_table(table: FileStoreTable, changes: Sequence[SchemaChange]) -> FileStoreTable:
    """Change the schema of a table, on top of changes that other sessions make at the same time.

    Returns:
        The table with its new schema.

    Raises:
        SchemaChangeError: a change is refused; then none is made.
        SchemaError: columns, keys and options would not fit together.
        TableNotFoundError: the table is gone.
        UnsupportedError: the table could not be read or written with an option.
    """
    if is_format_table(table.schema) and table.schemas.server is None:
        raise UnsupportedError(
            f"Only data table support alter table: {_table_name(table)} is a format table, which the Hive metastore "
            "describes. Drop it and make it anew."
        )
    options = {change.key: change.value for change in changes if isinstance(change, SetOption)}
    schemas, branch = _schemas_to_change(table, changes)
    # All changes of one ALTER make one new schema.
    has_snapshots = not is_format_table(table.schema) and table.snapshots.latest_id() is not None

    def next_schema(latest: TableSchema) -> TableSchema:
        changed = changed_schema(latest, changes, has_snapshots=has_snapshots, table_name=_table_name(table))
        _check_branches(table, changed)
        check_stored_branch(options, branch)
        accept_stored(table.path, without_governing(options) if schemas.server else options)
        return changed

    schemas.commit_next(next_schema, changes)
    return table.with_latest_schema()


def _schemas_to_change(table: FileStoreTable, changes: Sequence[SchemaChange]) -> tuple[SchemaStore, str]:
    """Return the schemas that changes are for, and their branch.

    The option `branch` that a table has stored leads to another branch: changes of this option are for the table.
    """
    of_branch = [isinstance(change, SetOption | RemoveOption) and change.key == "branch" for change in changes]
    if table.branch != MAIN_BRANCH and any(of_branch):
        main = SchemaStore(table.file_io, table.paths.for_branch(MAIN_BRANCH))
        latest = main.latest()
        if latest is not None and latest.options.get("branch", "").strip() == table.branch:
            if not all(of_branch):
                raise SchemaChangeError(
                    "Change the option 'branch' by a statement of its own: it is of another branch."
                )
            return main, MAIN_BRANCH
    return table.schemas, table.branch


def _check_branches(table: FileStoreTable, schema: TableSchema) -> None:
    """Check that the branches which the options read do exist (Java: ``SchemaValidation.validateFallbackBranch``)."""
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        name = schema.options.get(key, "").strip()
        if name and not table.branches.exists(name):
            raise SchemaChangeError(f"Cannot set '{key}' = '{name}' because the branch '{name}' does not exist.")


def _table_name(table: FileStoreTable) -> str:
    database, _, name = table.path.rpartition("/")
    return f"{database.rpartition('/')[2].removesuffix('.db')}.{name}"


def changed_schema(
    schema: TableSchema, changes: Sequence[SchemaChange], *, has_snapshots: bool, table_name: str
) -> TableSchema:
    """The next schema of a table (id + 1), checked.

    Args:
        schema: the latest one.
        changes: made one after the other.
        has_snapshots: whether there may be data; options that its layout depends on are then fixed.
        table_name: for messages.

    Raises:
        SchemaChangeError: a change is refused.
        SchemaError: columns, keys and options would not fit together.
    """
    draft = _Draft(schema, table_name, has_snapshots=has_snapshots)
    for change in changes:
        draft.apply(change)
    result = replace(
        schema,
        id=schema.id + 1,
        fields=tuple(draft.fields),
        highest_field_id=draft.highest_field_id,
        primary_keys=draft.primary_keys,
        options=draft.options,
        comment=draft.comment,
        time_millis=time.time_ns() // 1_000_000,
    )
    validate(result)
    return result


class _Draft:
    """A draft of the next schema."""

    def __init__(self, schema: TableSchema, table_name: str, *, has_snapshots: bool) -> None:
        self.schema = schema
        self.table_name = table_name
        self.has_snapshots = has_snapshots
        self.fields: list[DataField] = list(schema.fields)
        self.primary_keys = schema.primary_keys
        self.options = dict(schema.options)
        self.comment = schema.comment
        self.highest_field_id = schema.highest_field_id

    def apply(self, change: SchemaChange) -> None:
        match change:
            case SetOption("comment", value):
                self.comment = value
            case RemoveOption("comment"):
                self.comment = None
            case UpdateComment(comment):
                self.comment = comment
            case SetOption():
                if change.key not in self.options:
                    check_new_options([change.key], [field.name for field in self.fields])
                if check_option_change(self.schema, change.key, change.value, has_snapshots=self.has_snapshots):
                    self.options[change.key] = change.value
            case RemoveOption():
                check_option_removal(self.schema, change.key, has_snapshots=self.has_snapshots)
                self.options.pop(change.key, None)
            case AddColumn():
                self._add(change)
            case RenameColumn():
                self._rename(change)
            case DropColumn():
                self._drop(change)
            case UpdateColumnPosition():
                self._rows(change.path, lambda fields, name: _moved(self, fields, name, change))
            case _:
                self._update(change)

    def _add(self, change: AddColumn) -> None:
        if not change.type.nullable:
            raise SchemaChangeError(
                f"Column {_dotted(change.path)} cannot specify NOT NULL in the {self.table_name} table: "
                "the rows that are there have no value for it. Add it nullable."
            )
        new = DataField(-1, change.path[-1], change.type, description=change.comment)
        declared = with_directive(new, self.options)
        if declared is not new and len(change.path) > 1:
            raise SchemaChangeError(f"Comment directive cannot be used on a nested column {_dotted(change.path)}.")
        new = declared
        (field,), self.highest_field_id = assign_field_ids([new], self.highest_field_id + 1)

        def add(fields: list[DataField], name: str) -> list[DataField]:
            self._refuse_existing(fields, name, change.path)
            index = len(fields)
            if change.position is not None:
                index = 0 if change.position.after is None else 1 + self._index(fields, change.position.after, ())
            elif len(change.path) == 1 and self.schema.core_options.value("add-column-before-partition"):
                keys = [i for i, f in enumerate(fields) if f.name in self.schema.partition_keys]
                index = min(keys, default=index)
            return [*fields[:index], field, *fields[index:]]

        self._rows(change.path, add)

    def _rename(self, change: RenameColumn) -> None:
        top = len(change.path) == 1
        if top and change.path[0] in self.schema.partition_keys:
            raise SchemaChangeError(f"Cannot rename partition column: [{change.path[0]}]")

        def rename(fields: list[DataField], name: str) -> list[DataField]:
            index = self._index(fields, name, change.path)
            self._refuse_existing(fields, change.new_name, (*change.path[:-1], change.new_name))
            if top and isinstance(fields[index].type, BlobType):
                raise SchemaChangeError(f"Cannot rename BLOB column: [{name}]")
            return _with(fields, index, replace(fields[index], name=change.new_name))

        self._rows(change.path, rename)
        if top:
            old, new = change.path[0], change.new_name
            self.primary_keys = tuple(new if key == old else key for key in self.primary_keys)
            others = {field.name: field.name for field in self.fields if field.name != new}
            self.options = renamed_options(self.options, {**others, old: new})

    def _drop(self, change: DropColumn) -> None:
        if len(change.path) == 1 and change.path[0] in (*self.schema.partition_keys, *self.primary_keys):
            raise SchemaChangeError(f"Cannot drop partition key or primary key: [{change.path[0]}]")

        def drop(fields: list[DataField], name: str) -> list[DataField]:
            index = self._index(fields, name, change.path)
            if len(fields) == 1:
                raise SchemaChangeError("Cannot drop all fields in table")
            if len(change.path) == 1:
                forget_options(fields[index], self.options)
            return fields[:index] + fields[index + 1 :]

        self._rows(change.path, drop)

    def _update(self, change: Any) -> None:
        self._check_keys(change)
        if isinstance(change, UpdateColumnComment) and is_directive(change.comment):
            raise SchemaChangeError(
                f"Should not alter existing field's type through column directives: {change.comment}"
            )
        old_to_new: dict[type, Callable[[DataField], DataField]] = {
            UpdateColumnType: lambda field: self._retyped(field, change),
            UpdateColumnNullability: lambda field: self._nullable(field, change),
            UpdateColumnComment: lambda field: replace(field, description=change.comment),
            UpdateColumnDefault: lambda field: _with_default(field, change.default_value),
        }
        update = old_to_new[type(change)]

        def in_row(fields: list[DataField], name: str) -> list[DataField]:
            index = self._index(fields, name, change.path)
            return _with(fields, index, update(fields[index]))

        on_content = isinstance(change, UpdateColumnType | UpdateColumnNullability)
        self._rows(change.path, in_row, (lambda inner: update(DataField(-1, "", inner)).type) if on_content else None)

    def _check_keys(self, change: Any) -> None:
        if len(change.path) > 1:
            return
        name = change.path[0]
        if isinstance(change, UpdateColumnType):
            if name in self.schema.partition_keys:
                raise SchemaChangeError(f"Cannot update partition column: [{name}]")
            if name in self.primary_keys:
                raise SchemaChangeError(f"Cannot update primary key: [{name}]")
        if isinstance(change, UpdateColumnNullability) and change.nullable and name in self.primary_keys:
            raise SchemaChangeError(f"Cannot change nullability of primary key: [{name}]")

    def _retyped(self, field: DataField, change: UpdateColumnType) -> DataField:
        if isinstance(field.type, BlobType) or isinstance(change.type, BlobType):
            raise SchemaChangeError(
                f"Cannot change column type involving BLOB: [{field.name}] {field.type.sql()} -> {change.type.sql()}"
            )
        target = change.type.with_nullable(field.type.nullable)
        explicit = not self.schema.core_options.value("disable-explicit-type-casting")
        if not can_cast(field.type, target, explicit=explicit):
            raise SchemaChangeError(
                f"Column type {_dotted(change.path)}[{field.type.sql()}] cannot be converted to {target.sql()} "
                "without losing information."
            )
        return _with_default(replace(field, type=target), field.default_value)

    def _nullable(self, field: DataField, change: UpdateColumnNullability) -> DataField:
        disabled = self.schema.core_options.value("alter-column-null-to-not-null.disabled")
        if disabled and field.type.nullable and not change.nullable:
            raise SchemaChangeError(
                f"Cannot update column type from nullable to non nullable for {_dotted(change.path)}. You can set "
                "table configuration option 'alter-column-null-to-not-null.disabled' = 'false' to allow converting "
                "null columns to not null"
            )
        return replace(field, type=field.type.with_nullable(change.nullable))

    def _rows(
        self,
        path: Path,
        in_row: Callable[[list[DataField], str], list[DataField]],
        on_content: Callable[[DataType], DataType] | None = None,
    ) -> None:
        """Change the row that holds the last name of a path, or (`on_content`) what an array or map holds."""

        def row(fields: list[DataField], depth: int) -> list[DataField]:
            if depth == len(path) - 1:
                return in_row(fields, path[depth])
            index = self._index(fields, path[depth], path[: depth + 1])
            return _with(fields, index, replace(fields[index], type=inside(fields[index].type, depth + 1)))

        def inside(data_type: DataType, depth: int) -> DataType:
            if isinstance(data_type, RowType):
                return replace(data_type, fields=tuple(row(list(data_type.fields), depth)))
            if isinstance(data_type, ArrayType) and path[depth] == "element":
                return replace(data_type, element=content(data_type.element, depth))
            if isinstance(data_type, MapType) and path[depth] == "value":
                return replace(data_type, value=content(data_type.value, depth))
            raise self._missing(path[: depth + 1])

        def content(data_type: DataType, depth: int) -> DataType:
            if depth < len(path) - 1:
                return inside(data_type, depth + 1)
            if on_content is None:
                raise SchemaChangeError(f"{_dotted(path)} is what {_dotted(path[:-1])} holds, not a column of a row.")
            return on_content(data_type)

        self.fields = row(self.fields, 0)

    def _index(self, fields: list[DataField], name: str, path: Path) -> int:
        for index, field in enumerate(fields):
            if field.name == name:
                return index
        raise self._missing(path or (name,))

    def _missing(self, path: Path) -> SchemaChangeError:
        return SchemaChangeError(f"Column {_dotted(path)} does not exist in the {self.table_name} table.")

    def _refuse_existing(self, fields: list[DataField], name: str, path: Path) -> None:
        if any(field.name == name for field in fields):
            raise SchemaChangeError(f"Column {_dotted(path)} already exists in the {self.table_name} table.")


def _moved(draft: _Draft, fields: list[DataField], name: str, change: UpdateColumnPosition) -> list[DataField]:
    # Java: moves only columns of the table; here also fields of a ROW.
    index = draft._index(fields, name, change.path)
    field, others = fields[index], fields[:index] + fields[index + 1 :]
    if change.position.after == name or (change.position.after is None and index == 0):
        raise SchemaChangeError(f"Cannot move itself for column {name}")
    target = 0 if change.position.after is None else 1 + draft._index(others, change.position.after, ())
    return [*others[:target], field, *others[target:]]


def _with_default(field: DataField, default_value: str | None) -> DataField:
    if default_value is not None:
        try:
            cast_default(default_value, field.type)
        except PaimonError as error:
            raise SchemaChangeError(
                f"Unsupported default value `{default_value}` for type {field.type.sql()} of column '{field.name}': "
                f"{error}"
            ) from None
    return replace(field, default_value=default_value)


def _with(fields: list[DataField], index: int, field: DataField) -> list[DataField]:
    return [*fields[:index], field, *fields[index + 1 :]]


def _dotted(path: Path) -> str:
    return ".".join(path)


def check_option_change(schema: TableSchema, key: str, value: str, *, has_snapshots: bool) -> bool:
    """Whether setting an option changes anything.

    Raises:
        SchemaChangeError: the option cannot change, or not in this way.
    """
    options = schema.options
    if key in _KEYS:
        now = getattr(schema, _KEYS[key])
        if tuple(name.strip() for name in value.split(",") if name.strip()) == now:
            return False
        raise SchemaChangeError(f"Change '{key}' is not supported yet: the table has {key} {','.join(now) or 'none'}.")
    if key in ("path", "location"):
        raise SchemaChangeError(
            "Change path is not supported yet. ALTER TABLE ... SET LOCATION is not supported for Paimon tables."
        )
    if options.get(key) == value:
        return False
    if key == "type" and value.lower() != options.get(key, "table").lower():
        raise SchemaChangeError("Change 'type' is not supported yet.")
    if has_snapshots:
        _check_with_data(schema, key, value)
    return True


def check_option_removal(schema: TableSchema, key: str, *, has_snapshots: bool) -> None:
    """Check that an option may go back to its default; as in Java, whether the table has set it or not.

    Raises:
        SchemaChangeError: it may not.
    """
    if key == "type" or key in _KEYS:
        raise SchemaChangeError(f"Change '{key}' is not supported yet.")
    if not has_snapshots:
        return
    option = find_option(key)
    if option is not None and option.immutable:
        raise SchemaChangeError(f"Change '{key}' is not supported yet.")
    if key == "bucket":
        raise SchemaChangeError("Cannot reset bucket.")
    if key == _DELETION_VECTORS:
        _check_with_data(schema, key, "false")


def _check_with_data(schema: TableSchema, key: str, value: str) -> None:
    option = find_option(key)
    if option is None:
        return
    if option.immutable:
        raise SchemaChangeError(f"Change '{key}' is not supported yet: the files of the table depend on it.")
    before, after = schema.core_options.get(option), option.parse(value)
    if key == "bucket" and before != after:
        if before == -1:
            raise SchemaChangeError("Cannot change bucket when it is -1.")
        if after == -1:
            raise SchemaChangeError("Cannot change bucket to -1.")
    if key == _DELETION_VECTORS and before != after and not schema.core_options.value("deletion-vectors.modifiable"):
        raise SchemaChangeError(
            f"Cannot change deletion vectors mode from {str(before).lower()} to {str(after).lower()}. If modifying "
            "table deletion-vectors mode without full-compaction, this may result in data duplication. If you are "
            "confident, you can set table option 'deletion-vectors.modifiable' = 'true' to allow deletion vectors "
            "modification."
        )
    if key in _ONE_WAY and before and not after:
        raise SchemaChangeError(f"Cannot change {key} from true to false.")
    if key == "clustering.columns" and "pk-clustering-override" in schema.options:
        raise SchemaChangeError(f"Cannot change {key} when pk-clustering-override enabled.")
