"""The commands that look at a table: `info`, at a glance, and `read` and `explain`, rows read in this process.

The planner is that of every other entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.cli.output import TABLE, Output, field_names
from paimon_spark.display.overview import Overview, buckets_of, kind_of, overview
from paimon_spark.display.texts import bytes_text, counted, time_text
from paimon_spark.errors import OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.read.change_range import ChangeRange, ChangeSource
from paimon_spark.read.row_views import ROWS, find_view
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import evaluate
from paimon_spark.spec.snapshot import Operation, Snapshot
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.spec.sql_text import filter_text
from paimon_spark.table.system.registry import system_table

if TYPE_CHECKING:
    from paimon_spark.read.table_scan import ReadPlan, RowView
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

_SIGN = "change"


def named_rows(
    table: FileStoreTable, system: str | None, *, columns: str | None, where: str | None, limit: int | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns and the rows of a table or of one of its system tables.

    Args:
        table: with its scan options.
        system: the name behind the ``$``; None of the table itself.
        columns: names between commas; None is all.
        where: a condition in SQL.
        limit: most rows; None is all.

    Raises:
        OptionError: a column does not exist, or the condition is none.
        TableNotFoundError: there is no such system table.
    """
    view = find_view(system)
    if view is not None:
        plan = _scan(table, view, columns, where, limit).plan()
        return to_arrow_schema(plan.fields), _first(_rows(plan), limit)
    of_metadata = system_table(system or "", of=table.path)
    rows = of_metadata.read(table)
    if where is not None:
        rows = rows.filter(evaluate(parse_filter(where, of_metadata.fields), rows))
    if columns is not None:
        unknown = next((name for name in _names(columns) if name not in rows.schema.names), None)
        if unknown is not None:
            raise OptionError(f"${system} has no column '{unknown}'; its columns are {', '.join(rows.schema.names)}.")
        rows = rows.select(_names(columns))
    return rows.schema, iter(rows.slice(0, limit).to_batches())


def rows_that_differ(
    table: FileStoreTable, versions: tuple[str, str], *, columns: str | None, where: str | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the rows that only one of two versions has: ``-`` of the first, ``+`` of the second, in the first column.

    Files that both versions have are not read. In a table without primary key a row that a compaction has put into
    another file is in both.

    Raises:
        SnapshotNotFoundError: there is no such version.
    """
    first, second = (_snapshot_at(table, version) for version in versions)
    plans = []
    for sign, before, after in (("-", second, first), ("+", first, second)):
        source = ChangeRange(ChangeSource.DIFF, before=before, after=after)
        scan = replace(TableScan.of(table, ROWS), source=source)
        predicate = None if where is None else parse_filter(where, scan.columns)
        scan = scan.select(columns=None if columns is None else _names(columns), predicate=predicate)
        plans.append((sign, scan.plan()))
    schema = to_arrow_schema(plans[0][1].fields).insert(0, pa.field(_SIGN, pa.string()))

    def batches() -> Iterator[pa.RecordBatch]:
        for sign, plan in plans:
            for batch in _rows(plan):
                signs = pa.array([sign] * batch.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([signs, *batch.columns], schema=schema)

    return schema, batches()


def _snapshot_at(table: FileStoreTable, version: str) -> Snapshot:
    scan = TableScan.of(table.with_options({"scan.version": version}), ROWS)
    assert not isinstance(scan.source, ChangeRange)
    if scan.source is None:
        raise SnapshotNotFoundError(f"{table.path} has no snapshot yet.")
    return scan.source


def show_plan(table: FileStoreTable, output: Output, *, columns: str | None, where: str | None) -> None:
    """Print what a read of the table opens."""
    scan = _scan(table, ROWS, columns, where, None)
    plan = scan.plan()
    every = replace(scan, predicate=None).plan() if scan.predicate is not None else plan
    read, there = _files(plan), _files(every)
    merged = sum(not getattr(split, "raw_convertible", False) for split in plan.splits)
    facts = {
        "changes" if isinstance(scan.source, ChangeRange) else "snapshot_id": (
            scan.source.describe() if isinstance(scan.source, ChangeRange) else scan.source and scan.source.id
        ),
        "columns": field_names(plan.fields),
        "filter": None if scan.predicate is None else filter_text(scan.predicate),
        "residual_filter": None if plan.residual is None else filter_text(plan.residual),
        "files": len(read),
        "files_without_filter": len(there),
        "bytes": sum(read.values()),
        "splits": len(plan.splits),
        "merged_splits": merged,
        "rows_before_merging": sum(split.row_count for split in plan.splits),
    }
    if output.form != TABLE:
        output.object(facts)
        return
    texts = {
        **facts,
        "columns": ", ".join(field_names(plan.fields)),
        "files": f"{len(read):,} of {len(there):,}",
        "bytes": bytes_text(sum(read.values())),
    }
    del texts["files_without_filter"]
    shown = [(name.replace("_", " "), "none" if text is None else str(text)) for name, text in texts.items()]
    output.facts(shown, f"Read of {table.path}")


def _scan(table: FileStoreTable, view: RowView, columns: str | None, where: str | None, limit: int | None) -> TableScan:
    scan = TableScan.of(table, view)
    predicate = None if where is None else parse_filter(where, scan.columns)
    return scan.select(columns=None if columns is None else _names(columns), predicate=predicate, limit=limit)


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",")]


def _rows(plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    for split in plan.splits:
        yield from plan.read(plan.table, split, plan.fields, plan.residual)


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if left == 0:
            return


def _files(plan: ReadPlan) -> dict[str, int]:
    return {file.name: file.size for split in plan.splits for file in split.files}


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
