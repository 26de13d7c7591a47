"""ALTER TABLE and COMMENT ON TABLE: schema changes, options, names, tags; partitions here and in other statements.

Of partitions are SHOW PARTITIONS, DROP PARTITION and TRUNCATE TABLE [PARTITION].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.row_level import truncate as truncate_table
from paimon_spark.spark.columns.types import to_spark_type
from paimon_spark.spark.source.source_options import refuse_system_table
from paimon_spark.spark.sql.column_defaults import stored_default
from paimon_spark.spark.sql.format_tables import refuse_location
from paimon_spark.spark.sql.table_definitions import (
    add_partitions,
    check_default_column,
    column_of,
    empty_partitions,
    missing_clauses,
    missing_partitions,
    option_key,
    refuse_added_default,
    refuse_replaced_columns,
)
from paimon_spark.spark.sql.warehouses import analysis_error
from paimon_spark.spark.statements.cursor import Cursor
from paimon_spark.spark.text.calls import run_tags
from paimon_spark.spark.text.context import Context
from paimon_spark.spark.text.definitions import rename_table
from paimon_spark.spark.text.format_tables import add_partitions_of_files, drop_partitions_of_files, truncate_files
from paimon_spark.spark.text.queries import write_options
from paimon_spark.spark.text.row_statements import empty, target
from paimon_spark.spec.data_types import ArrayType, DataField, LocalZonedTimestampType, MapType, RowType
from paimon_spark.spec.schema import is_format_table
from paimon_spark.table import schema_change as change
from paimon_spark.table.schema_evolution import alter_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable


def drop_partitions(context: Context, table: FileStoreTable, specs: Sequence[Cursor], *, tolerant: bool) -> None:
    """Delete the rows of the partitions that PARTITION clauses name, in one commit. A clause may leave out columns.

    Raises:
        AnalysisException: there is no such partition, its clause names all columns, and `tolerant` is not given.
    """
    clauses = [partition_values(context, table, spec) for spec in specs]
    if is_format_table(table.schema):
        drop_partitions_of_files(table, clauses, specs, tolerant=tolerant)
        return
    _refuse(specs, [] if tolerant else missing_partitions(table, clauses))
    empty_partitions(table, clauses)


def add_partition_clauses(
    context: Context, table: FileStoreTable, specs: Sequence[Cursor], *, tolerant: bool, located: bool
) -> None:
    """Run ADD PARTITION (see `add_partitions`).

    Raises:
        AnalysisException: a clause leaves out a column; or it names a partition that is there, and `tolerant` is not
            given.
        UnsupportedError: a clause has a LOCATION.
    """
    clauses = [partition_values(context, table, spec) for spec in specs]
    keys = table.schema.partition_keys
    partial = next((at for at, values in enumerate(clauses) if len(values) < len(keys)), None)
    if partial is not None:
        raise analysis_error(
            "PARTITIONS_NOT_FOUND",
            f"Partition spec is invalid. The spec ({specs[partial].source()}) must match the partition spec "
            f"({', '.join(keys)}) defined in the table.",
        )
    if is_format_table(table.schema):
        if located:
            raise refuse_location()
        add_partitions_of_files(table, clauses, tolerant=tolerant)
        return
    missing = missing_clauses(table, clauses)
    there = next((at for at in range(len(clauses)) if at not in missing), None)
    if there is not None and not tolerant:
        text = f"The partition PARTITION ({specs[there].source()}) already exists."
        raise analysis_error("PARTITIONS_ALREADY_EXIST", text)
    add_partitions(table, [clauses[at] for at in missing], located=located)


def _refuse(specs: Sequence[Cursor], missing: Sequence[int]) -> None:
    if missing:
        text = specs[missing[0]].source()
        raise analysis_error("PARTITIONS_NOT_FOUND", f"The partition PARTITION ({text}) cannot be found.")


def partition_values(context: Context, table: FileStoreTable, spec: Cursor) -> dict[str, Any]:
    """Return the values of a PARTITION clause in the types of the columns; Spark evaluates them.

    Raises:
        AnalysisException: the table is not partitioned by such a column.
    """
    fields = {field.name.lower(): field for field in table.schema.partition_fields}
    names, casts = [], []
    for piece in spec.split():
        name = piece.identifier()
        field = fields.get(name.lower())
        if field is None:
            raise analysis_error(
                "PARTITIONS_NOT_FOUND",
                f"{name} is no partition column; the table is partitioned by "
                f"{', '.join(table.schema.partition_keys) or 'nothing'}.",
            )
        if isinstance(field.type, LocalZonedTimestampType):
            raise UnsupportedError(f"partition column {name} is a TIMESTAMP: name the partition by PaimonTable")
        piece.expect("=")
        names.append(field.name)
        casts.append(f"CAST(({piece.rest().source()}) AS {to_spark_type(field.type).simpleString()})")
    return dict(zip(names, context.spark_sql(f"SELECT {', '.join(casts)}").collect()[0], strict=True)) if names else {}


def truncate(context: Context, table: FileStoreTable, spec: Cursor | None) -> None:
    """Delete all rows of a table, or those of the partitions that a PARTITION clause names."""
    if is_format_table(table.schema):
        wanted = None if spec is None else partition_values(context, table, spec)
        truncate_files(table, wanted, "" if spec is None else spec.source())
    elif spec is None:
        truncate_table(table)
    else:
        empty_partitions(table, [partition_values(context, table, spec)])


_Changes = list[change.SchemaChange]


def run_alter_table(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run ALTER TABLE, the cursor standing behind these words; None for a table of Spark's.

    Raises:
        SchemaChangeError: the table cannot change like that.
        UnsupportedError: a change that Paimon tables do not know.
    """
    tags = run_tags(context, cursor.again())
    if tags is not None:
        return tags
    name = target(context, cursor.name())
    if name is None:
        return None
    refuse_system_table(name.path, name.system_table, "changed")
    if cursor.take("RENAME", "TO"):
        rename_table(context, name, cursor.name())
    elif cursor.sees("DROP", "PARTITION") or cursor.sees("DROP", "IF", "EXISTS", "PARTITION"):
        cursor.take("DROP")
        tolerant = cursor.take("IF", "EXISTS")
        specs = []
        while cursor.take("PARTITION"):
            specs.append(cursor.group())
            cursor.take(",")
        cursor.take("PURGE")
        write_options(context, name)
        drop_partitions(context, name.load(), specs, tolerant=tolerant)
    elif cursor.sees("ADD", "PARTITION") or cursor.sees("ADD", "IF", "NOT", "EXISTS", "PARTITION"):
        cursor.take("ADD")
        tolerant, located = cursor.take("IF", "NOT", "EXISTS"), False
        specs = []
        while cursor.take("PARTITION"):
            specs.append(cursor.group())
            if cursor.take("LOCATION"):
                cursor.string()
                located = True
        add_partition_clauses(context, name.load(), specs, tolerant=tolerant, located=located)
    else:
        table = name.load()
        found = _changes(context, table, cursor)
        cased = str(context.settings.get("spark.sql.caseSensitive", "false")).lower() == "true"
        alter_table(table, found if cased else [_spelled(table.schema.fields, each) for each in found])
    cursor.finish()
    return empty(context)


def run_comment(context: Context, cursor: Cursor) -> DataFrame | None:
    """Run COMMENT ON TABLE, the cursor standing behind these words; None for a table of Spark's."""
    name = target(context, cursor.name())
    if name is None:
        return None
    cursor.expect("IS")
    comment = None if cursor.take("NULL") else cursor.string()
    cursor.finish()
    alter_table(name.load(), [change.UpdateComment(comment)])
    return empty(context)


def _changes(context: Context, table: FileStoreTable, cursor: Cursor) -> _Changes:
    forms: list[tuple[tuple[str, ...], Callable[[], _Changes]]] = [
        (("ADD", "COLUMNS"), lambda: _add(cursor)),
        (("ADD", "COLUMN"), lambda: _add(cursor)),
        (("DROP", "COLUMNS"), lambda: _drop(table, cursor)),
        (("DROP", "COLUMN"), lambda: _drop(table, cursor)),
        (("RENAME", "COLUMN"), lambda: _rename(cursor)),
        (("ALTER", "COLUMN"), lambda: _alter(context, table, cursor)),
        (("CHANGE", "COLUMN"), lambda: _alter(context, table, cursor)),
        (("ALTER",), lambda: _alter(context, table, cursor)),
        (("SET", "TBLPROPERTIES"), lambda: _set(table, cursor)),
        (("UNSET", "TBLPROPERTIES"), lambda: _unset(table, cursor)),
        (("REPLACE", "COLUMNS"), refuse_replaced_columns),
    ]
    for words, changes in forms:
        if cursor.take(*words):
            return changes()
    raise UnsupportedError(
        f"ALTER TABLE … {cursor.rest().source()} is not supported for a Paimon table. It knows RENAME TO, ADD, DROP, "
        "RENAME and ALTER COLUMN, SET and UNSET TBLPROPERTIES, ADD and DROP PARTITION, and CREATE, REPLACE, RENAME, "
        "DELETE TAG"
    )


def _spelled(fields: Sequence[DataField], given: change.SchemaChange) -> change.SchemaChange:
    """A change whose columns are spelled as the table has them, which they may differ from by case: as Spark's are."""
    path = getattr(given, "path", None)
    if path is None:
        return given
    own = _own_path(fields, path)
    more: dict[str, Any] = {"path": own}
    siblings = _below(fields, own[:-1])
    position = getattr(given, "position", None)
    if position is not None and position.after is not None:
        more["position"] = replace(position, after=_own_name(siblings, position.after))
    if isinstance(given, change.RenameColumn):
        others = [field for field in siblings if field.name != own[-1]]
        more["new_name"] = _own_name(others, given.new_name)
    found: change.SchemaChange = replace(cast("Any", given), **more)
    return found


def _own_path(fields: Sequence[DataField], path: Sequence[str]) -> tuple[str, ...]:
    own: tuple[str, ...] = ()
    for name in path:
        own = (*own, _own_name(_below(fields, own), name))
    return own


def _own_name(fields: Sequence[DataField], name: str) -> str:
    """The one of the fields that a name means; the name itself where there is none, or more than one."""
    names = [field.name for field in fields]
    found = [each for each in names if each.lower() == name.lower()]
    return name if name in names or len(found) != 1 else found[0]


def _below(fields: Sequence[DataField], path: Sequence[str]) -> Sequence[DataField]:
    """The fields of a column, or of what it holds (``element``, ``key``, ``value``); none of one that has none."""
    for name in path:
        found = next((field.type for field in fields if field.name == name), None)
        match found:
            case RowType():
                fields = found.fields
            case ArrayType():
                fields = (DataField(0, "element", found.element),)
            case MapType():
                fields = (DataField(0, "key", found.key), DataField(0, "value", found.value))
            case _:
                return ()
    return fields


def _pieces(cursor: Cursor) -> list[Cursor]:
    return cursor.group().split() if cursor.sees("(") else cursor.rest().split()


def _add(cursor: Cursor) -> _Changes:
    changes: _Changes = []
    for piece in _pieces(cursor):
        path = piece.name()
        definition = piece.until("FIRST", "AFTER", "DEFAULT")
        if piece.sees("DEFAULT"):
            refuse_added_default(path)
        position = _position(piece)
        piece.finish()
        column = column_of(path[-1], definition.source())
        changes.append(change.AddColumn(path, column.type, column.description, position))
    return changes


def _position(cursor: Cursor) -> change.Position | None:
    if cursor.take("FIRST"):
        return change.Position()
    return change.Position(cursor.identifier()) if cursor.take("AFTER") else None


def _drop(table: FileStoreTable, cursor: Cursor) -> _Changes:
    tolerant = cursor.take("IF", "EXISTS")
    paths = [piece.name() for piece in _pieces(cursor)]
    known = {name.lower() for name in table.schema.field_names}
    return [change.DropColumn(path) for path in paths if not tolerant or path[0].lower() in known]


def _rename(cursor: Cursor) -> _Changes:
    path = cursor.name()
    cursor.expect("TO")
    return [change.RenameColumn(path, cursor.identifier())]


def _alter(context: Context, table: FileStoreTable, cursor: Cursor) -> _Changes:
    path = cursor.name()
    if cursor.take("TYPE"):
        return [change.UpdateColumnType(path, column_of(path[-1], cursor.rest().source()).type)]
    if cursor.take("COMMENT"):
        return [change.UpdateColumnComment(path, cursor.string() or None)]
    if cursor.take("SET", "NOT", "NULL") or cursor.take("DROP", "NOT", "NULL"):
        dropped = cursor.tokens[cursor.at - 3].is_word("DROP")
        return [change.UpdateColumnNullability(path, dropped)]
    if cursor.take("DROP", "DEFAULT"):
        return [change.UpdateColumnDefault(path, None)]
    if cursor.take("SET", "DEFAULT"):
        own = [field for field in table.schema.fields if field.name.lower() == path[0].lower()]
        check_default_column(path, [path[0]] if own else [])
        return [change.UpdateColumnDefault(path, stored_default(context.spark, cursor.rest().source(), own[0]))]
    position = _position(cursor)
    if position is None:
        cursor.fail("TYPE, COMMENT, FIRST, AFTER, SET or DROP is expected")
    return [change.UpdateColumnPosition(path, position)]


def _set(table: FileStoreTable, cursor: Cursor) -> _Changes:
    return [
        change.SetOption(option_key(table.schema.field_names, key), value) for key, value in cursor.properties().items()
    ]


def _unset(table: FileStoreTable, cursor: Cursor) -> _Changes:
    cursor.take("IF", "EXISTS")
    keys = [
        piece.string() if piece.text[piece.tokens[0].start] in "'\"" else ".".join(piece.name())
        for piece in _pieces(cursor)
    ]
    return [change.RemoveOption(option_key(table.schema.field_names, key)) for key in keys]
