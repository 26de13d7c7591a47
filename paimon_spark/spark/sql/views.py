"""What statements about views do, and what they show, as the official connector has it.

A view's query is kept as the user wrote it. Names in it that say no catalog or database mean those that were current
when the view was made. Where these are not the view's own, they are kept among the options, by Spark's keys for them;
so are the query's own names of columns where the view gives them others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructField, StructType

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.sql.procedures.procedure import BOOLEAN, ResultColumn
from paimon_spark.spark.sql.warehouses import analysis_error, quoted, schema_not_found, table_not_found
from paimon_spark.spark.statements.catalog_statements import ViewStatement
from paimon_spark.spec.sql_text import matching, quoted_name
from paimon_spark.spec.view_records import View, ViewChange, new_view
from paimon_spark.table.catalog_views import (
    alter_view,
    check_keeps_views,
    create_view,
    drop_view,
    find_view,
    rename_view,
    replace_view,
    views_of,
)

if TYPE_CHECKING:
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog

NAMESPACE: Final = "view.catalogAndNamespace."
NAMES: Final = "view.query.out."
_OWN: Final = "view."
"""Options of a view that Spark shows nowhere."""
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_Rows = list[tuple[Any, ...]]

VIEW_COLUMNS: Mapping[str, tuple[ResultColumn, ...]] = {
    "SHOW": (
        ResultColumn("namespace", nullable=False),
        ResultColumn("viewName", nullable=False),
        ResultColumn("isTemporary", BOOLEAN, nullable=False),
    ),
    "DESCRIBE": (
        ResultColumn("col_name", nullable=False),
        ResultColumn("data_type", nullable=False),
        ResultColumn("comment"),
    ),
    "SHOW CREATE": (ResultColumn("createtab_stmt", nullable=False),),
    "PROPERTIES": (ResultColumn("key", nullable=False), ResultColumn("value", nullable=False)),
}
"""The columns of what statements show, by their action; the others show nothing."""


@dataclass(frozen=True)
class ViewContext:
    """What a statement about a view is run with."""

    catalog: FilesystemCatalog
    catalog_name: str
    database: str
    """Of the view, or that of SHOW VIEWS."""
    name: str
    current: tuple[str, str]
    """The catalog and the database that names without them mean."""
    columns_of: Callable[[str], StructType]
    """Analyses a query."""
    temporary: Callable[[str], Sequence[str]]
    """Names of the temporary views that a query reads."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The whole name."""
        return (self.catalog_name, self.database, self.name)


def run_view_statement(context: ViewContext, statement: ViewStatement) -> _Rows:
    """Run a statement; return the rows of what it shows.

    Raises:
        AnalysisException: the view, or its database, is not there, or is there already; the query fits no view.
        UnsupportedError: the catalog keeps no views.
    """
    if statement.action == "SHOW":
        return _show(context, statement.pattern)
    if statement.action == "CREATE":
        _create(context, statement)
        return []
    view = find_view(context.catalog, context.database, context.name)
    if view is None:
        if statement.action == "DROP" and statement.tolerant:
            return []
        raise _not_found(context)
    match statement.action:
        case "DESCRIBE":
            return described_view(view, context, extended=statement.extended)
        case "SHOW CREATE":
            return [(create_view_text(view, context),)]
        case "PROPERTIES":
            return _properties(view, context, statement.keys)
    _change(context, statement, view)
    return []


def _not_found(context: ViewContext) -> Exception:
    if context.catalog.table_exists(context.database, context.name):
        return analysis_error(
            "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE", f"{quoted(context.parts)} is a table, not a view."
        )
    return table_not_found(context.parts)


def _show(context: ViewContext, pattern: str | None) -> _Rows:
    if not context.catalog.database_exists(context.database):
        raise schema_not_found((context.catalog_name, context.database))
    return [(context.database, name, False) for name in matching(views_of(context.catalog, context.database), pattern)]


def _create(context: ViewContext, statement: ViewStatement) -> None:
    catalog, database, name = context.catalog, context.database, context.name
    check_keeps_views(catalog, context.catalog_name)
    if not catalog.database_exists(database):
        raise schema_not_found((context.catalog_name, database))
    if statement.replaces and statement.tolerant:
        raise analysis_error(
            "INVALID_SQL_SYNTAX.CREATE_VIEW_WITH_IF_NOT_EXISTS_AND_REPLACE",
            "CREATE VIEW with both IF NOT EXISTS and REPLACE is not allowed.",
        )
    there = find_view(catalog, database, name) is not None
    if there and statement.tolerant:
        return
    if (there and not statement.replaces) or (not there and catalog.table_exists(database, name)):
        raise analysis_error(
            "TABLE_OR_VIEW_ALREADY_EXISTS",
            f"Cannot create table or view {quoted(context.parts)} because it already exists. Choose a different name, "
            "drop or replace the existing object, or add the IF NOT EXISTS clause to tolerate pre-existing objects.",
        )
    view = _defined(context, statement.query, statement.columns)
    made = replace(view, comment=statement.comment, options={**view.options, **statement.options})
    create_view(catalog, database, name, made, replaces=there)


def _defined(context: ViewContext, query: str, columns: Sequence[tuple[str, str | None]]) -> View:
    """The view that a query and a list of columns make."""
    temporary = context.temporary(query)
    if temporary:
        raise analysis_error(
            "INVALID_TEMP_OBJ_REFERENCE",
            f"Cannot create the persistent object {quoted(context.parts)} of the type VIEW because it references to "
            f"the temporary object {quoted((temporary[0],))} of the type VIEW. Please make the temporary object "
            f"{quoted((temporary[0],))} persistent, or make the persistent object {quoted(context.parts)} temporary.",
        )
    own = context.columns_of(query)
    if columns and len(columns) != len(own.fields):
        raise analysis_error(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH",
            f"Cannot create view {quoted(context.parts)}: it has {len(columns)} columns, and its query {own.names}.",
        )
    names = [name for name, _ in columns] or own.names
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    if twice:
        raise analysis_error("COLUMN_ALREADY_EXISTS", f"The column {quoted(twice[:1])} already exists: name it by AS.")
    renamed = [
        StructField(name, each.dataType, each.nullable, each.metadata) for name, each in zip(names, own, strict=True)
    ]
    fields = list(from_spark_struct(StructType(renamed)))
    options: dict[str, str] = {}
    if columns:
        fields = [
            field if comment is None else replace(field, description=comment)
            for field, (_, comment) in zip(fields, columns, strict=True)
        ]
    if names != own.names:
        options |= _numbered(NAMES, "numCols", "col", own.names)
    if context.current != (context.catalog_name, context.database):
        options |= _numbered(NAMESPACE, "numParts", "part", context.current)
    return new_view(fields, query, options=options)


def _numbered(prefix: str, count: str, each: str, values: Sequence[str]) -> dict[str, str]:
    numbered = {f"{prefix}{each}.{at}": value for at, value in enumerate(values)}
    return {f"{prefix}{count}": str(len(values)), **numbered}


def _texts(view: View, prefix: str, count: str, each: str) -> tuple[str, ...]:
    number = view.options.get(f"{prefix}{count}", "")
    found = [view.options.get(f"{prefix}{each}.{at}") for at in range(int(number) if number.isdigit() else 0)]
    return tuple(text for text in found if text is not None)


def namespace_of(view: View, own: tuple[str, str]) -> tuple[str, str]:
    """The catalog and the database that names in a view's query mean."""
    found = _texts(view, NAMESPACE, "numParts", "part")
    return (found[0], found[1]) if len(found) == 2 else own


def query_names(view: View) -> tuple[str, ...]:
    """Names of the query's columns where the view has others; empty where it is not known whether it has."""
    return _texts(view, NAMES, "numCols", "col")


def wanted_names(view: View) -> tuple[str, ...]:
    """Names by which the columns of a view are found in its query."""
    return query_names(view) or tuple(field.name for field in view.fields)


def way_of_finding(view: View) -> str:
    """How the columns of a view are found in its query.

    ``placed``: by their positions, for the query lists them. ``named``: by the names that are kept. ``starred``: by
    their own names, for a ``*`` in the query may have got or lost columns; by their positions where no name is
    there, which is so where another engine gave the view names of its own.
    """
    if "*" not in view.spark_query.replace("(*)", ""):
        return "placed"
    return "named" if query_names(view) else "starred"


def query_columns(view: View, names: Sequence[str], shown: str) -> list[int]:
    """Which column of its query each column of a view is, where the query gives these names now.

    Raises:
        SchemaError: the query lacks columns.
    """
    wanted, way = wanted_names(view), way_of_finding(view)
    positions = {name.lower(): at for at, name in reversed(list(enumerate(names)))}
    there = [name.lower() in positions for name in wanted]
    if way != "placed" and all(there):
        return [positions[name.lower()] for name in wanted]
    if len(names) != len(wanted) or way == "named" or (way == "starred" and any(there)):
        raise changed_query(shown, wanted, names)
    return list(range(len(wanted)))


def changed_query(shown: str, wanted: Sequence[str], names: Sequence[str]) -> SchemaError:
    """The error for a query that does not have the columns of its view any more."""
    return SchemaError(
        f"View {shown} has the columns {', '.join(wanted)}, but its query has {', '.join(names)} now: a table of it "
        "has changed. Make the view anew by CREATE OR REPLACE VIEW."
    )


def _change(context: ViewContext, statement: ViewStatement, view: View) -> None:
    catalog, database, name = context.catalog, context.database, context.name
    match statement.action:
        case "DROP":
            drop_view(catalog, database, name)
        case "AS":
            made = _defined(context, statement.query, ())
            kept = {key: text for key, text in view.options.items() if not key.startswith((NAMESPACE, NAMES))}
            made = replace(made, comment=view.comment, options={**kept, **made.options})
            replace_view(catalog, database, name, made)
        case "RENAME":
            _rename(context, statement.new_name)
        case "SET":
            changes = [
                ViewChange("setOption", key, text) for key, text in statement.options.items() if key != "comment"
            ]
            if "comment" in statement.options:
                changes.append(ViewChange("updateComment", None, statement.options["comment"]))
            alter_view(catalog, database, name, changes)
        case "UNSET":
            missing = [key for key in statement.keys if key not in view.options]
            if missing and not statement.tolerant:
                raise analysis_error(
                    "UNSET_NONEXISTENT_PROPERTIES",
                    f"Attempted to unset non-existent properties [{', '.join(missing)}] of {quoted(context.parts)}.",
                )
            alter_view(catalog, database, name, [ViewChange("removeOption", key) for key in statement.keys])


def _rename(context: ViewContext, new_name: Sequence[str]) -> None:
    parts = list(new_name)
    if len(parts) == 3 and parts[0] != context.catalog_name:
        raise UnsupportedError(f"A view cannot be renamed into another catalog: {quoted(parts)}.")
    database = parts[-2] if len(parts) > 1 else context.database
    if not context.catalog.database_exists(database):
        raise schema_not_found((context.catalog_name, database))
    rename_view(context.catalog, context.database, context.name, database, parts[-1])


def _shown_options(view: View) -> dict[str, str]:
    return {key: text for key, text in sorted(view.options.items()) if not key.startswith(_OWN)}


def described_view(view: View, context: ViewContext, *, extended: bool) -> _Rows:
    """What DESCRIBE shows."""
    rows: _Rows = [(field.name, str(field.type), field.description) for field in view.fields]
    if not extended:
        return rows
    options = ", ".join(f"{key}={text}" for key, text in _shown_options(view).items())
    return [
        *rows,
        ("", "", ""),
        ("# Detailed View Information", "", ""),
        ("Name", f"{context.database}.{context.name}", ""),
        ("Comment", view.comment or "", ""),
        ("View Text", view.spark_query, ""),
        ("View Query Output Columns", f"[{', '.join(field.name for field in view.fields)}]", ""),
        ("View Properties", f"[{options}]", ""),
    ]


def create_view_text(view: View, context: ViewContext) -> str:
    """What SHOW CREATE TABLE shows."""
    columns = [
        (field.name if _PLAIN.fullmatch(field.name) else quoted_name(field.name))
        + ("" if field.description is None else f" COMMENT {_literal(field.description)}")
        for field in view.fields
    ]
    options = [f"{_literal(key)} = {_literal(text)}" for key, text in _shown_options(view).items()]
    pieces = [f"CREATE VIEW {context.database}.{context.name} ", _lines(columns)]
    pieces += [] if view.comment is None else [f"COMMENT {_literal(view.comment)}\n"]
    pieces += [f"TBLPROPERTIES {_lines(options)}"] if options else []
    return "".join([*pieces, f"AS\n{view.spark_query}\n"])


def _lines(texts: Sequence[str]) -> str:
    return "(\n  " + ",\n  ".join(texts) + ")\n"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _properties(view: View, context: ViewContext, keys: Sequence[str]) -> _Rows:
    found = _shown_options(view)
    if not keys:
        return list(found.items())
    missing = f"View {'.'.join(context.parts)} does not have property: {keys[0]}"
    return [(keys[0], found.get(keys[0], missing))]
