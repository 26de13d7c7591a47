"""The part of a `PaimonTable` about what the table is, columns, options, comment; and how it shows itself.

Its rows at a glance, a line in a terminal, a short page in a notebook, its LSM trees as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StructType

from paimon_spark.display.overview import LsmPicture, Overview, buckets_of, html_table, kind_of, lsm_shape, overview
from paimon_spark.display.texts import counted, time_text
from paimon_spark.errors import OptionError, PaimonError, SchemaChangeError, UnsupportedError
from paimon_spark.options.registry import column_names
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.table_definitions import check_default_column, column_of, option_key
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.table.handle import TablePart, option_keys
from paimon_spark.spec.snapshot import Operation, Snapshot
from paimon_spark.table import schema_change as change
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.paths import MAIN_BRANCH, parse_table_path
from paimon_spark.table.schema_evolution import alter_table

if TYPE_CHECKING:
    from typing import Unpack

    from paimon_spark.options.keyword_types import KeywordOptions, OptionValue
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.table import FileStoreTable

_NOT_GIVEN = "\0"
_DATABASE = ".db"


class Definition(TablePart):
    """Methods that look at the columns and options of a table, and change them. They run on the driver."""

    @property
    def schema(self) -> StructType:
        """The columns as Spark has them, as `schema` of a DataFrame of the table."""
        return to_spark_struct(self.table.load().schema.fields)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.load().schema.field_names)

    def count(self, **options: Unpack[KeywordOptions]) -> int:
        """The number of rows, merged and without deleted ones.

        Args:
            options: as for `to_df`, such as ``filter="dt = '2024-01-31'"`` or ``scan_tag_name="t"``.
        """
        return int(self.table.to_df(**options).count())

    def show(
        self, n: int = 20, truncate: bool | int = True, vertical: bool = False, **options: Unpack[KeywordOptions]
    ) -> None:
        """Print some rows, as `show` of a DataFrame.

        Args:
            n: most rows.
            truncate: whether long values are cut, or to how many characters.
            vertical: a line for each value.
            options: as for `to_df`.
        """
        self.table.to_df(**options).show(n, truncate, vertical)

    def add_column(
        self,
        name: str,
        type: str | DataType,  # noqa: A002 - the word of SQL
        *,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> None:
        """Add a column, which is null in the rows that are there. SQL: ``ALTER TABLE t ADD COLUMN``.

        Args:
            name: of the column; ``"s.y"`` is the field y of the struct s.
            type: of Spark, or its text, such as ``"decimal(10, 2)"``.
            comment: of the column.
            first: it becomes the first column.
            after: it stands behind this column; else behind all.

        Raises:
            SchemaChangeError: the table cannot change like that.
        """
        path = self._path(name)
        column = column_of(path[-1], type)
        reported = comment if comment is not None else column.description
        self._alter(change.AddColumn(path, column.type, reported, _position(first, after)))

    def rename_column(self, name: str, new_name: str) -> None:
        """Give a column another name; its rows, keys and options follow. SQL: ``ALTER TABLE t RENAME COLUMN``.

        Args:
            name: of the column; ``"s.y"`` is the field y of the struct s.
            new_name: of the column, or of the field.

        Raises:
            SchemaChangeError: there is no such column, there is one of the new name, or it is a partition column.
        """
        self._alter(change.RenameColumn(self._path(name), new_name))

    def drop_column(self, names: str | Sequence[str], *, ignore_if_missing: bool = False) -> None:
        """Remove columns. SQL: ``ALTER TABLE t DROP COLUMN``.

        Args:
            names: of columns, in a list or between commas; ``"s.y"`` is the field y of the struct s.
            ignore_if_missing: pass over columns that are not there.

        Raises:
            SchemaChangeError: there is no such column, or it is in a key.
        """
        schema = self.table.load().schema
        paths = [_path_in(schema, name) for name in column_names(names)]
        known = {name.lower() for name in schema.field_names}
        kept = [path for path in paths if not ignore_if_missing or path[0].lower() in known]
        if kept:
            self._alter(*(change.DropColumn(path) for path in kept))

    def alter_column(
        self,
        name: str,
        type: str | DataType | None = None,  # noqa: A002 - the word of SQL
        *,
        nullable: bool | None = None,
        comment: str | None = _NOT_GIVEN,
        default: str | None = _NOT_GIVEN,
        first: bool = False,
        after: str | None = None,
    ) -> None:
        """Change a column, in one new schema; what is not given stays. SQL: ``ALTER TABLE t ALTER COLUMN``.

        Args:
            name: of the column; ``"s.y"`` is the field y of the struct s.
            type: into which its values can be cast.
            nullable: whether it may be null.
            comment: of the column; None takes it away.
            default: as SQL, such as ``"'none'"`` or ``"0"``; None takes it away.
            first: it becomes the first column.
            after: it moves behind this column.

        Raises:
            SchemaChangeError: the table cannot change like that.
        """
        table = self.table.load()
        path = _path_in(table.schema, name)
        position = _position(first, after)
        changes: list[change.SchemaChange] = []
        if type is not None:
            changes.append(change.UpdateColumnType(path, column_of(path[-1], type).type))
        if nullable is not None:
            changes.append(change.UpdateColumnNullability(path, nullable))
        if comment != _NOT_GIVEN:
            changes.append(change.UpdateColumnComment(path, comment or None))
        if default != _NOT_GIVEN:
            changes.append(change.UpdateColumnDefault(path, self._default(table, path, default)))
        if position is not None:
            changes.append(change.UpdateColumnPosition(path, position))
        if not changes:
            raise OptionError("alter_column needs one of type, nullable, comment, default, first and after")
        alter_table(table, changes)

    def set_options(self, /, **options: OptionValue) -> None:
        """Store options in the table, as ``bucket=8`` or ``**{"fields.v.aggregate-function": "sum"}``.

        SQL: ``ALTER TABLE t SET TBLPROPERTIES``.

        Raises:
            SchemaChangeError: an option of the table cannot be changed.
            OptionError: a value cannot be used.
        """
        names = self.table.load().schema.field_names
        self._alter(*(change.SetOption(option_key(names, key), text) for key, text in option_keys(options).items()))

    def unset_options(self, keys: str | Sequence[str]) -> None:
        """Take options back to their defaults. SQL: ``ALTER TABLE t UNSET TBLPROPERTIES``.

        Args:
            keys: in a list or between commas, such as ``"snapshot.num-retained.max"``.

        Raises:
            SchemaChangeError: an option of the table cannot be changed.
        """
        names = self.table.load().schema.field_names
        known = option_keys(dict.fromkeys(column_names(keys), ""))
        self._alter(*(change.RemoveOption(option_key(names, key)) for key in known))

    def set_comment(self, comment: str | None) -> None:
        """Give the table a comment, or take it away. SQL: ``COMMENT ON TABLE t IS``."""
        self._alter(change.UpdateComment(comment))

    def drop(self) -> None:
        """Remove the table with all its files. SQL: ``DROP TABLE``.

        Raises:
            UnsupportedError: it is a branch, or in no database of a warehouse.
        """
        name = parse_table_path(self.table.path)
        database, _, shown = name.root.rstrip("/").rpartition("/")
        if name.branch not in (None, MAIN_BRANCH):
            raise UnsupportedError(f"{self.table.path} cannot be dropped: it is a branch. delete_branch removes it")
        if not database.endswith(_DATABASE):
            raise UnsupportedError(
                f"{self.table.path} cannot be dropped: it is in no database of a warehouse. Remove its directory"
            )
        warehouse, _, own = database.rpartition("/")
        open_catalog(warehouse, self.table.options).drop_table(own.removesuffix(_DATABASE), shown)

    def _alter(self, *changes: change.SchemaChange) -> None:
        alter_table(self.table.load(), changes)

    def _path(self, name: str) -> change.Path:
        return _path_in(self.table.load().schema, name)

    def _default(self, table: FileStoreTable, path: change.Path, sql: str | None) -> str | None:
        own = next((field for field in table.schema.fields if field.name.lower() == path[0].lower()), None)
        check_default_column(path, [] if own is None else [path[0]])
        if sql is None or own is None:
            return None
        return stored_default(self.table.spark, sql, own)


def _path_in(schema: TableSchema, name: str) -> change.Path:
    return (name,) if schema.has_field(name) else tuple(split_name(name))


def _position(first: bool, after: str | None) -> change.Position | None:
    if first and after is not None:
        raise SchemaChangeError("A column is first or after another one: give one of the two.")
    return change.Position(after) if first or after is not None else None


_MOST_SHOWN = 40
"""Options, columns and tags that are shown; the others are counted."""


class Display(TablePart):
    """Methods by which a table shows itself. They run on the driver, without a Spark job or a JVM."""

    def __repr__(self) -> str:
        """What the table is: kind, keys, path, newest snapshot."""
        try:
            return f"PaimonTable({self.table.path!r}: {', '.join(_facts(self.table.with_options({})))})"
        except (PaimonError, OSError) as error:
            return f"PaimonTable({self.table.path!r}: {type(error).__name__})"

    def _repr_html_(self) -> str:
        try:
            return _page(overview(self.table.with_options({})))
        except (PaimonError, OSError) as error:
            return f"<div><strong>{escape(self.table.path)}</strong><p>{escape(str(error))}</p></div>"

    def lsm(self, /, **options: Any) -> LsmPicture:
        """A picture of the LSM trees: files and bytes of every level of every bucket.

        Of a table with many buckets a column is a partition, or several neighbours.

        Args:
            options: which snapshot, such as ``scan_tag_name="t"``; the latest one when not given.

        Raises:
            SnapshotNotFoundError: there is no such snapshot or tag.
        """
        return LsmPicture(lsm_shape(self.table.with_options(options)))


def _facts(table: FileStoreTable) -> list[str]:
    schema = table.schema
    latest = table.snapshots.latest()
    branch = "" if table.branch == MAIN_BRANCH else f"branch {table.branch}"
    keys = f"primary key {', '.join(schema.primary_keys)}" if schema.primary_keys else ""
    partitions = f"partitioned by {', '.join(schema.partition_keys)}" if schema.partition_keys else ""
    state = "no snapshot yet" if latest is None else f"snapshot {latest.id} of {time_text(latest.time_millis)}"
    columns = counted(len(schema.fields), "column")
    return [fact for fact in (kind_of(schema), branch, columns, keys, partitions, state) if fact]


def _page(seen: Overview) -> str:
    schema = seen.schema
    facts = [
        ("Primary key", ", ".join(schema.primary_keys)),
        ("Partitioned by", ", ".join(schema.partition_keys)),
        ("Buckets", buckets_of(schema)),
        ("Branch", "" if seen.branch == MAIN_BRANCH else seen.branch),
        ("Comment", schema.comment or ""),
        ("Size", seen.size_text),
        ("Tags", _some(seen.tags)),
        ("Branches", _some(seen.branches)),
    ]
    parts = [
        f"<strong>{escape(seen.path)}</strong><br/>{escape(kind_of(schema).capitalize())}, "
        f"{counted(len(schema.fields), 'column')}",
        html_table([(name, [text]) for name, text in facts if text]),
        _folded(
            "Columns",
            [(field.name, [field.type.sql(), field.description or ""]) for field in schema.fields],
        ),
        _folded("Options", [(key, [value]) for key, value in seen.options]),
        _snapshots(seen),
    ]
    return f'<div class="paimon-table" style="line-height:1.35">{"".join(parts)}</div>'


def _folded(title: str, rows: list[tuple[str, list[str]]]) -> str:
    if not rows:
        return ""
    more = f"<div>… {len(rows) - _MOST_SHOWN:,} more</div>" if len(rows) > _MOST_SHOWN else ""
    is_open = ' open="open"' if title == "Options" else ""
    return (
        f"<details{is_open}><summary>{title} ({len(rows):,})</summary>{html_table(rows[:_MOST_SHOWN])}{more}</details>"
    )


def _snapshots(seen: Overview) -> str:
    if not seen.newest:
        return "<div>No snapshot yet</div>"
    rows = [
        (
            str(snapshot.id),
            [
                time_text(snapshot.time_millis),
                _operation(snapshot),
                f"{snapshot.delta_record_count or 0:+,}",
                f"{snapshot.total_record_count or 0:,}",
            ],
        )
        for snapshot in seen.newest
    ]
    title = f"<div>Newest of {counted(seen.snapshot_count, 'snapshot')}</div>"
    total = "total before merging" if seen.schema.kind.is_keyed else "total"
    return title + html_table(rows, ("snapshot", "time", "kind", "records", total))


def _operation(snapshot: Snapshot) -> str:
    """The statement that made a snapshot, as far as it says so, else the kind of its commit."""
    operation = snapshot.operation.value if isinstance(snapshot.operation, Operation) else snapshot.operation
    return snapshot.commit_kind.value if operation in (None, Operation.WRITE.value) else str(operation)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN])
    return shown if len(names) <= _MOST_SHOWN else f"{shown}, … {len(names) - _MOST_SHOWN:,} more"
