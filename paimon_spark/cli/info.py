"""The command `info`: a table at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.cli.output import TABLE, Output
from paimon_spark.display.overview import Overview, buckets_of, kind_of, overview
from paimon_spark.display.texts import counted, time_text
from paimon_spark.errors import PaimonError
from paimon_spark.spec.snapshot import Operation, Snapshot

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

_MOST_TAGS = 20
_TEXTS = ("database", "table", "kind", "primary_keys", "partition_keys", "path")
_WAREHOUSE = pa.schema(
    [*((name, pa.string()) for name in _TEXTS), ("snapshot_id", pa.int64()), ("records", pa.int64())]
)
_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "type")),
        ("nullable", pa.bool_()),
        *((name, pa.string()) for name in ("key", "default", "comment")),
    ]
)


def show_info(table: FileStoreTable, output: Output) -> None:
    """Print what a table is and holds."""
    seen = overview(table)
    if output.form != TABLE:
        output.object(_facts(seen))
        return
    output.facts(_texts(seen), seen.path)
    for title, rows in (
        ("Columns", [(field.name, f"{field.type.sql()}  {field.description or ''}") for field in seen.schema.fields]),
        ("Options", list(seen.options)),
        ("Newest snapshots", [(str(snapshot.id), _line(snapshot)) for snapshot in seen.newest]),
    ):
        if rows:
            output.console.print()
            output.facts(rows, title)


def show_warehouse(catalog: FilesystemCatalog, output: Output, database: str | None = None) -> None:
    """Print the databases of a warehouse with their tables, or the tables of one database."""
    rows = [
        _line_of_table(catalog, name, table)
        for name in (catalog.databases() if database is None else [database])
        for table in (catalog.tables(name) or [""])
    ]
    columns = ("database", "table", "kind", "primary_keys", "partition_keys", "snapshot_id", "records", "path")
    shown = {name: name.replace("_", " ") for name in columns[:-1]} | {"records": "records before merging"}
    title = f"{counted(len({row['database'] for row in rows}), 'database')} of {catalog.warehouse}"
    output.rows(pa.Table.from_pylist(rows, schema=_WAREHOUSE), shown=shown, title=title)


def _line_of_table(catalog: FilesystemCatalog, database: str, table: str) -> dict[str, Any]:
    line: dict[str, Any] = {"database": database, "table": table or None}
    if not table:
        return line
    line["path"] = catalog.table_path(database, table)
    try:
        loaded = catalog.load_table(database, table)
        snapshot = loaded.snapshots.latest()
    except PaimonError as error:  # the other tables are to be seen
        return line | {"kind": f"{type(error).__name__}"}
    schema = loaded.schema
    return line | {
        "kind": kind_of(schema),
        "primary_keys": ", ".join(schema.primary_keys),
        "partition_keys": ", ".join(schema.partition_keys),
        "snapshot_id": None if snapshot is None else snapshot.id,
        "records": 0 if snapshot is None else snapshot.total_record_count or 0,
    }


def columns_of(schema: TableSchema) -> pa.Table:
    """Return the columns of a table, one row each."""
    rows = [
        {
            "name": field.name,
            "type": field.type.sql().removesuffix(" NOT NULL"),
            "nullable": field.type.nullable,
            "key": _key_of(schema, field.name),
            "default": field.default_value,
            "comment": field.description,
        }
        for field in schema.fields
    ]
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def _key_of(schema: TableSchema, name: str) -> str | None:
    kinds = (("primary", schema.primary_keys), ("partition", schema.partition_keys))
    return ", ".join(kind for kind, names in kinds if name in names) or None


def _facts(seen: Overview) -> dict[str, Any]:
    schema = seen.schema
    return {
        "path": seen.path,
        "branch": seen.branch,
        "kind": kind_of(schema),
        "schema_id": schema.id,
        "columns": [{"name": field.name, "type": field.type.sql()} for field in schema.fields],
        "primary_keys": list(schema.primary_keys),
        "partition_keys": list(schema.partition_keys),
        "buckets": buckets_of(schema),
        "comment": schema.comment,
        "options": dict(seen.options),
        "snapshot_id": seen.newest[0].id if seen.newest else None,
        "snapshot_count": seen.snapshot_count,
        "tags": list(seen.tags),
        "branches": list(seen.branches),
        "file_count": seen.files,
        "size_in_bytes": seen.bytes,
        "record_count": seen.records,
    }


def _texts(seen: Overview) -> list[tuple[str, str]]:
    schema = seen.schema
    hidden = len(seen.tags) - _MOST_TAGS
    tags = ", ".join(seen.tags[:_MOST_TAGS]) + (f" and {hidden} more" if hidden > 0 else "")
    facts = [
        ("Kind", kind_of(schema)),
        ("Branch", "" if seen.branch == "main" else seen.branch),
        ("Comment", schema.comment or ""),
        ("Primary key", ", ".join(schema.primary_keys)),
        ("Partitioned by", ", ".join(schema.partition_keys)),
        ("Buckets", buckets_of(schema)),
        ("Size", seen.size_text),
        ("Snapshots", f"{seen.snapshot_count:,}"),
        ("Tags", tags),
        ("Branches", ", ".join(seen.branches)),
    ]
    return [(name, text) for name, text in facts if text]


def _line(snapshot: Snapshot) -> str:
    operation = snapshot.operation
    kind = operation.value if isinstance(operation, Operation) else operation or snapshot.commit_kind.value
    records = snapshot.delta_record_count
    return f"{time_text(snapshot.time_millis)}  {kind}  {'' if records is None else f'{records:+,} records'}"
