"""What lies next to the data files: snapshots, schemas, options, tags, branches, consumers, statistics, aggregates.

Equals Java's ``SnapshotsTable``, ``SchemasTable``, ``OptionsTable``, ``TagsTable``, ``BranchesTable``,
``ConsumersTable``, ``StatisticTable`` and ``AggregationFieldsTable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from paimon_spark.spec.json_text import JsonFields, flat_json, parse_json_object, pretty_json
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.statistics import statistics_of
from paimon_spark.table.system.definition import (
    LONG,
    STRING,
    TIME,
    Found,
    local_time,
    required,
    system_table,
)
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_BRANCH_DIRECTORY = "branch-"
_CONSUMER_FILE = "consumer-"


@system_table(
    "snapshots",
    snapshot_id=required(LONG),
    schema_id=required(LONG),
    commit_user=required(STRING),
    commit_identifier=required(LONG),
    commit_kind=required(STRING),
    commit_time=required(TIME),
    base_manifest_list=required(STRING),
    delta_manifest_list=required(STRING),
    changelog_manifest_list=STRING,
    total_record_count=LONG,
    delta_record_count=LONG,
    changelog_record_count=LONG,
    watermark=LONG,
    next_row_id=LONG,
    operation=STRING,
    writer_version=STRING,
)
def _snapshots(table: FileStoreTable) -> Found:
    """The living snapshots, oldest first."""
    found = (table.snapshots.get(snapshot_id) for snapshot_id in table.snapshots.ids())
    return [
        (
            snapshot.id,
            snapshot.schema_id,
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind.value,
            local_time(snapshot.time_millis, table.paths.snapshot_path(snapshot.id)),
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            snapshot.watermark,
            snapshot.next_row_id,
            snapshot.operation.value if isinstance(snapshot.operation, Operation) else snapshot.operation,
            snapshot.writer_version,
        )
        for snapshot in found
    ]


@system_table(
    "schemas",
    schema_id=required(LONG),
    fields=required(STRING),
    partition_keys=required(STRING),
    primary_keys=required(STRING),
    options=required(STRING),
    comment=STRING,
    update_time=required(TIME),
)
def _schemas(table: FileStoreTable) -> Found:
    """All schemas, oldest first; lists and maps as JSON without blanks."""
    return [
        (
            schema.id,
            flat_json([field.to_json() for field in schema.fields]),
            flat_json(schema.partition_keys),
            flat_json(schema.primary_keys),
            flat_json(schema.options),
            schema.comment,
            local_time(schema.time_millis, table.paths.schema_path(schema.id)),
        )
        for schema in table.schemas.all()
    ]


@system_table(
    "options",
    key=required(STRING),
    value=required(STRING),
)
def _options(table: FileStoreTable) -> Found:
    """The options of the latest schema; those of the read are not among them."""
    return list(table.with_latest_schema().schema.options.items())


@system_table(
    "tags",
    tag_name=required(STRING),
    snapshot_id=required(LONG),
    schema_id=required(LONG),
    commit_time=required(TIME),
    record_count=LONG,
    create_time=TIME,
    time_retained=STRING,
)
def _tags(table: FileStoreTable) -> Found:
    """The tags, by name."""
    return [
        (
            name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            local_time(tag.snapshot.time_millis, table.paths.tag_path(name)),
            tag.snapshot.total_record_count,
            tag.create_time,
            None if tag.time_retained is None else duration_text(tag.time_retained),
        )
        for name, tag in sorted(table.tags.list().items())
    ]


@system_table(
    "branches",
    branch_name=required(STRING),
    create_time=required(TIME),
)
def _branches(table: FileStoreTable) -> Found:
    """The branches by name; their time is that of their directory."""
    listed = table.file_io.list_names(table.paths.branch_dir)
    found = sorted(
        (name[len(_BRANCH_DIRECTORY) :], millis or 0)
        for name, _, is_dir, millis, _ in listed
        if is_dir and name.startswith(_BRANCH_DIRECTORY) and name != _BRANCH_DIRECTORY
    )
    return [(name, local_time(millis, f"{table.paths.branch_dir}/{_BRANCH_DIRECTORY}{name}")) for name, millis in found]


@system_table(
    "consumers",
    consumer_id=required(STRING),
    next_snapshot_id=required(LONG),
)
def _consumers(table: FileStoreTable) -> Found:
    """The consumers by name, with the snapshot that each reads next."""
    directory = table.paths.consumer_dir
    names = sorted(
        name
        for name, _, is_dir, _, _ in table.file_io.list_names(directory)
        if not is_dir and name.startswith(_CONSUMER_FILE) and name != _CONSUMER_FILE
    )
    rows = []
    for name in names:
        path = f"{directory}/{name}"
        value = parse_json_object(table.file_io.read_bytes(path), what="consumer", path=path)
        rows.append((name[len(_CONSUMER_FILE) :], JsonFields(value, "consumer", path).integer("nextSnapshot")))
    return rows


def duration_text(duration: timedelta) -> str:
    """Java's text of a duration: ``PT36H``, ``PT1H30M``, ``PT0.5S``."""
    micros = duration // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, micros = divmod(micros, 1_000_000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = [f"{sign}{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if seconds or micros or not parts:
        fraction = f".{micros:06d}".rstrip("0") if micros else ""
        parts.append(f"{sign}{seconds}{fraction}S")
    return "PT" + "".join(parts)


_FIELD_OPTION = "fields"


@system_table(
    "statistics",
    snapshot_id=required(LONG),
    schema_id=required(LONG),
    mergedRecordCount=LONG,
    mergedRecordSize=LONG,
    colstat=STRING,
)
def _statistics(table: FileStoreTable) -> Found:
    """The statistics that the snapshot names: one row, none without.

    Java: a file without row count or size makes it fail; here they are null.
    """
    then, snapshot = travel(table)
    found = statistics_of(then, snapshot)
    if found is None:
        return []
    counts = found.merged_record_count, found.merged_record_size
    values = pretty_json({name: column.to_json_object() for name, column in found.col_stats.items()})
    return [(found.snapshot_id, found.schema_id, *counts, values)]


@system_table(
    "aggregation_fields",
    field_name=required(STRING),
    field_type=required(STRING),
    function=STRING,
    function_options=STRING,
    comment=STRING,
)
def _aggregation_fields(table: FileStoreTable) -> Found:
    """The columns of the latest schema with the options ``fields.<column>.…`` of each: values, then keys."""
    schema = table.with_latest_schema().schema
    options = _options_of_fields(schema.options)
    return [
        (
            field.name,
            field.type.sql(),
            f"[{', '.join(value for _, value in options.get(field.name, ()))}]",
            f"[{', '.join(key for key, _ in options.get(field.name, ()))}]",
            field.description,
        )
        for field in schema.fields
    ]


def _options_of_fields(options: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for key, value in options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == _FIELD_OPTION:
            found.setdefault(parts[1], []).append((key, value))
    return found
