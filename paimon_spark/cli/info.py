"""The command `info`: a table at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.cli.output import Output
from paimon_spark.display.overview import Overview, buckets_of, kind_of, overview
from paimon_spark.display.texts import bytes_text, counted, time_text
from paimon_spark.spec.snapshot import Operation, Snapshot

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_MOST_TAGS = 20


def show_info(table: FileStoreTable, output: Output) -> None:
    """Print what a table is and holds."""
    seen = overview(table)
    if output.as_json:
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
        ("Size", f"{bytes_text(seen.bytes)}, {counted(seen.files, 'file')}, {counted(seen.records, 'record')}"),
        ("Snapshots", f"{seen.snapshot_count:,}"),
        ("Tags", tags),
    ]
    return [(name, text) for name, text in facts if text]


def _line(snapshot: Snapshot) -> str:
    operation = snapshot.operation
    kind = operation.value if isinstance(operation, Operation) else operation or snapshot.commit_kind.value
    records = snapshot.delta_record_count
    return f"{time_text(snapshot.time_millis)}  {kind}  {'' if records is None else f'{records:+,} records'}"
