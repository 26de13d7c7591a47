"""Every option that is honoured is asked for by code that acts on it while small tables are written and read.

What counts is the caller: the table of options, the checks of a schema and those of a change do not act on a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CommitConflictError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.maintain.refs.fast_forward import merge_branch
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.maintain.row_level import is_partition_delete
from paimon_spark.options import OPTIONS, PATTERNS, CoreOptions, Option, find_option
from paimon_spark.spark.session.overwrite_mode import asks_for_dynamic
from paimon_spark.spark.source.source_options import read_request, write_request
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.schema_merge import MergeRules
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.store_options import fsspec_options
from paimon_spark.table.schema_change import AddColumn, SetOption, UpdateColumnNullability, UpdateColumnType
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import OverwriteMode
from tests.support.options_tried import read, write

HONOURED = [option for option in (*OPTIONS.values(), *PATTERNS) if option.honoured]
NOT_ACTING = (
    *("paimon_spark/options/", "validation.py", "table/support.py", "table/schema_change.py"),
    *("table/system/", "_collections_abc", "tests/"),
)
ELSEWHERE = {
    **dict.fromkeys(
        ("cache-enabled", "cache.expire-after-access", "cache.expire-after-write"),
        "tests/table/test_catalog_options.py",
    ),
    "lookup-compact": "tests/maintain/test_lookup.py",
    "write.compact-append-tables": "tests/maintain/test_automatic_compaction.py",
    "postpone.batch-write-fixed-bucket": "tests/write/test_postpone.py",
    "postpone.batch-write-fixed-bucket.max-parallelism": "tests/write/test_postpone.py",
    "postpone.batch-write-fixed-bucket.rescale-load-factor": "tests/write/test_postpone.py",
    "postpone.default-bucket-num": "tests/write/test_postpone.py",
    "postpone.merge-on-read": "tests/read/test_postponed_read.py",
    "postpone.target-row-num-per-bucket": "tests/write/test_postpone.py",
    "postpone.target-size-per-bucket": "tests/write/test_postpone.py",
    "clustering.incremental.optimize-write": "tests/spark/test_clustered_writes.py",
    "read.spark-parquet": "tests/test_option_effects.py",
    "scan.ignore-corrupt-files": "tests/read/test_unreadable_files.py",
    "scan.ignore-lost-files": "tests/read/test_unreadable_files.py",
    "owner": "tests/test_option_effects.py",
    "tag.automatic-completion": "tests/test_option_effects.py",
    "snapshot.clean-empty-directories": "tests/test_option_effects.py",
    "partition.sink-strategy": "tests/test_option_effects.py",
    "data-file.external-paths": "tests/maintain/test_file_location_oracle.py",
    "index-file-in-data-file-dir": "tests/maintain/test_file_location_oracle.py",
    "sequence.snapshot-ordering": "tests/read/test_snapshot_ordering.py",
    "data-file.external-paths.strategy": "tests/maintain/test_file_location_oracle.py",
    "data-file.external-paths.specific-fs": "tests/maintain/test_file_location_oracle.py",
    "data-file.external-paths.weights": "tests/maintain/test_file_location_oracle.py",
    "commit.unsafe-rename": "tests/test_option_effects.py",
    "warehouse": "tests/table/test_catalog_options.py",
    "defaultDatabase": "tests/spark/test_error_texts.py",
    "branch": "tests/test_option_effects.py",
    "fields.<field>.sequence-group": "tests/test_option_effects.py",
    "metastore": "tests/test_option_effects.py",
    "uri": "tests/metastore/test_jdbc_catalog.py",
    "catalog-key": "tests/metastore/test_jdbc_catalog.py",
    "lock.type": "tests/metastore/test_jdbc_catalog.py",
    "lock.enabled": "tests/metastore/test_jdbc_catalog.py",
    "table-default.*": "tests/spark/test_table_defaults.py",
    "lock-acquire-timeout": "tests/metastore/test_jdbc_catalog.py",
    "lock-check-max-sleep": "tests/metastore/test_jdbc_catalog.py",
    "lock-key-max-length": "tests/metastore/test_jdbc_catalog.py",
    "sync-all-properties": "tests/metastore/test_jdbc_catalog.py",
    "jdbc.*": "tests/metastore/test_jdbc_catalog.py",
    "metastore.partitioned-table": "tests/metastore/test_hive_catalog.py",
    "partition.idle-time-to-report-statistic": "tests/metastore/test_hive_catalog.py",
    "hive.*": "tests/metastore/test_hive_catalog.py",
    "security.kerberos.login.keytab": "tests/metastore/test_hive_kerberos.py",
    "security.kerberos.login.principal": "tests/metastore/test_hive_kerberos.py",
    "security.kerberos.login.use-ticket-cache": "tests/metastore/test_hive_kerberos.py",
    "hive-conf-dir": "tests/metastore/test_hive_catalog.py",
    "table.type": "tests/metastore/test_hive_catalog.py",
    "location-in-properties": "tests/metastore/test_hive_catalog.py",
    "alter-table-cascade": "tests/metastore/test_hive_catalog.py",
    "format-table.enabled": "tests/metastore/test_hive_format_tables.py",
    "metastore.client.class": "tests/metastore/test_hive_catalog.py",
    "token": "tests/metastore/test_rest_catalog.py",
    "token.*": "tests/metastore/test_rest_auth.py",
    "prefix": "tests/metastore/test_rest_catalog.py",
    "header.*": "tests/metastore/test_rest_auth.py",
    "data-token.enabled": "tests/metastore/test_rest_auth.py",
    "dlf.*": "tests/metastore/test_rest_auth.py",
    "blob-descriptor-field": "tests/write/test_blob_oracle.py",
    "blob-view-field": "tests/write/test_described_blobs.py",
    "blob-view.resolve.enabled": "tests/write/test_described_blobs.py",
    "blob.split-by-file-size": "tests/write/test_described_blobs.py",
    "blob-descriptor-paths": "tests/write/test_described_blobs.py",
    "external-paths.may-delete": "tests/maintain/test_confinement.py",
    "blob-descriptor.*": "tests/write/test_described_blobs.py",
    "blob-write-null-on-missing-file": "tests/write/test_described_blobs.py",
    "blob-write-null-on-fetch-failure": "tests/write/test_described_blobs.py",
    "vector.file.format": "tests/maintain/test_column_update.py",
    "vector.target-file-size": "tests/maintain/test_column_update.py",
    "global-index.column-update-action": "tests/maintain/test_global_indexes.py",
    "visibility-callback.enabled": "tests/maintain/test_visibility.py",
    "visibility-callback.timeout": "tests/maintain/test_visibility.py",
    "visibility-callback.check-interval": "tests/maintain/test_visibility.py",
    "blob-field": "tests/spark/test_blobs_and_vectors.py",
    "vector-field": "tests/spark/test_blobs_and_vectors.py",
    "field.<field>.vector-dim": "tests/spark/test_blobs_and_vectors.py",
    "blob.target-file-size": "tests/write/test_blob_oracle.py",
    "blob-as-descriptor": "tests/write/test_blob_oracle.py",
    "deletion-vectors.bitmap64": "tests/write/test_deletion_vectors.py",
    "deletion-vector.index-file.target-size": "tests/write/test_deletion_vectors.py",
    "file-index.<type>.columns": "tests/write/test_file_indexes.py",
    "file-index.read.enabled": "tests/read/test_pruned_by_file_indexes.py",
    "file-index.<type>.<field>.<option>": "tests/spec/test_file_index_oracle.py",
    "compaction.delete-ratio-threshold": "tests/maintain/test_compact_vectors.py",
    "deletion-vectors.merge-on-read": "tests/read/test_row_selection.py",
    "clustering.columns": "tests/maintain/test_sorted_compaction.py",
    "clustering.strategy": "tests/maintain/test_sorted_compaction.py",
    "clustering.history-partition.limit": "tests/maintain/test_sorted_compaction.py",
    "clustering.history-partition.idle-to-full-sort": "tests/maintain/test_sorted_compaction.py",
    "clustering.incremental.mode": "tests/maintain/test_sorted_compaction.py",
    "num-sorted-run.stop-trigger": "tests/maintain/test_automatic_compaction.py",
    "full-compaction.delta-commits": "tests/maintain/test_changelogs_kept.py",
    **dict.fromkeys(
        (
            *("scan.file-creation-time-millis", "scan.creation-time-millis", "streaming.read.snapshot.delay"),
            *("streaming-read-overwrite", "streaming-read-append-overwrite", "consumer-id", "consumer.ignore-progress"),
            *(f"read.stream.{name}PerTrigger" for name in ("maxFiles", "maxBytes", "maxRows", "minRows")),
            *("read.stream.maxTriggerDelayMs", "read.changelog"),
        ),
        "tests/read/test_streams.py",
    ),
    **dict.fromkeys(
        (
            "metadata.iceberg.storage-location",
            "metadata.iceberg.format-version",
            "metadata.iceberg.compaction.min.file-num",
            "metadata.iceberg.compaction.max.file-num",
            "metadata.iceberg.delete-after-commit.enabled",
            "metadata.iceberg.manifest-compression",
            "metadata.iceberg.manifest-legacy-version",
        ),
        "tests/commit/test_iceberg.py",
    ),
    "metadata.iceberg.previous-versions-max": "tests/commit/test_iceberg_faults.py",
    **dict.fromkeys(
        (
            *("metadata.iceberg.uri", "metadata.iceberg.hive-conf-dir", "metadata.iceberg.hive-client-class"),
            *("metadata.iceberg.database", "metadata.iceberg.table"),
            *("metadata.iceberg.hive-skip-update-stats", "metadata.iceberg.glue.skip-archive"),
        ),
        "tests/commit/test_iceberg_hive.py",
    ),
    **dict.fromkeys(
        ("metadata.iceberg.rest.*", "metadata.iceberg.table-properties.*"), "tests/commit/test_iceberg_rest.py"
    ),
}
"""Options whose effect another test shows, since it needs a session, Java or another store."""


def acting() -> str | None:
    """The module of the package that asks; None where it does not act on the value."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.endswith(("core_options.py", "test_honoured_options.py")) and frame.f_back:
        frame = frame.f_back
    name = frame.f_code.co_filename
    if frame.f_code.co_name in ("_check_changeable", "_text") or any(part in name for part in NOT_ACTING):
        return None
    return name.rpartition("paimon_spark/")[2]


class Recorded(dict[str, str]):
    """The options of a schema, which note who asks for which."""

    seen: dict[str, set[str]]

    def _note(self, key: str) -> None:
        module = acting()
        if module is not None:
            self.seen.setdefault(key, set()).add(module)

    def __getitem__(self, key: str) -> str:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._note(str(key))
        return super().__contains__(key)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """For each key that was asked for the modules that asked."""
    seen: dict[str, set[str]] = {}
    Recorded.seen = seen

    def noting(plain: Callable[..., Any], key_of: Callable[[Any], str]) -> Callable[..., Any]:
        def wrapped(self: CoreOptions, key: Any, *more: Any) -> Any:
            module = acting()
            if module is not None:
                seen.setdefault(key_of(key), set()).add(module)
            return plain(self, key, *more)

        return wrapped

    def recorded(plain: Callable[..., None]) -> Callable[..., None]:
        def init(self: TableSchema, *args: Any, **named: Any) -> None:
            plain(self, *args, **named)
            object.__setattr__(self, "options", Recorded(self.options))

        return init

    def of_field(self: CoreOptions, field: str, suffix: str) -> str | None:
        seen.setdefault(f"fields.{field}.{suffix}", set()).add(acting() or "")
        return self.to_dict().get(f"fields.{field}.{suffix}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreOptions, "text", noting(CoreOptions.text, lambda option: option.key))
        patch.setattr(CoreOptions, "get", noting(CoreOptions.get, lambda key: getattr(key, "key", key)))
        patch.setattr(CoreOptions, "__getitem__", noting(CoreOptions.__getitem__, str))
        patch.setattr(CoreOptions, "field_option", of_field)
        patch.setattr(TableSchema, "__init__", recorded(TableSchema.__init__))
        for number, scenario in enumerate(SCENARIOS):
            scenario(tmp_path_factory.mktemp(f"t{number}"))
    return {key: {module for module in modules if module} for key, modules in seen.items()}


def make(
    path: Path, columns: Mapping[str, str], options: Mapping[str, str], *, key: str = "", parts: str = ""
) -> FileStoreTable:
    fields = [DataField(number, name, parse_type(kind)) for number, (name, kind) in enumerate(columns.items())]
    keys = {"primary-key": key, "partition": parts}
    named = {**options, **{name: value for name, value in keys.items() if value}}
    return create_table(str(path / "t"), create_schema(fields, (), (), named, None))


KPV = {"k": "INT NOT NULL", "dt": "STRING NOT NULL", "v": "BIGINT"}
DAYS = ("2024-05-01", "2024-05-02")


def days(start: int, rows: int = 20) -> list[dict[str, Any]]:
    return [{"k": k, "dt": DAYS[k % 2], "v": k} for k in range(start, start + rows)]


def keyed_table(path: Path) -> None:
    """Levels, expiry and tags of a table with a key and partitions."""
    hour = datetime.now().hour
    table = make(
        path,
        KPV,
        {
            "bucket": "2",
            "sequence.field": "v",
            "compaction.optimization-interval": "1 h",
            "compaction.offpeak.start.hour": str(hour),
            "compaction.offpeak.end.hour": str((hour + 2) % 24),
            "compaction.offpeak-ratio": "10",
            "compaction.total-size-threshold": "1 b",
            "compaction.incremental-size-threshold": "1 gb",
            "compaction.skip-expired-partitions": "true",
            "num-sorted-run.compaction-trigger": "2",
            "partition.expiration-time": "90000 d",
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyy-MM-dd",
            "partition.timestamp-format.strict": "true",
            "changelog.num-retained.max": "100",
            "snapshot.num-retained.max": "2",
            "snapshot.num-retained.min": "1",
            "consumer.expiration-time": "1 h",
            "tag.automatic-creation": "process-time",
            "tag.create-success-file": "true",
            "tag.num-retained-max": "3",
        },
        key="k,dt",
        parts="dt",
    )
    (path / "t" / "consumer").mkdir()
    (path / "t" / "consumer" / "consumer-a").write_text('{"nextSnapshot": 1}')
    for start in (0, 10, 5):
        write(table, days(start))
    compact(table, full=False)
    write(table, days(0), overwrite=OverwriteMode.DYNAMIC)
    compact(table, full=True)
    create_tag(table, "one")
    expire_partitions(table.with_options({"partition.expiration-strategy": "update-time"}))
    is_partition_delete(table)
    remove_orphan_files(table)
    write(table.with_options({"tag.automatic-creation": "batch"}), days(50))
    write(table.with_options({"tag.automatic-creation": "watermark"}), days(60), watermark=10**12)
    read(table.with_options({"scan.bucket": "0"}))
    read(table.with_options({"table-read.sequence-number.enabled": "true"}), "audit_log")
    create_branch(table, "b", tag="one")
    assert load_table(table.path, options={"branch": "b"}).branch == "b"
    read(table.with_options({"scan.fallback-branch": "b"}))
    read(table.with_options({"scan.primary-branch": "b"}))


def history(path: Path) -> None:
    """Reads of older states and of changes, by every option that names them."""
    table = make(path, KPV, {"bucket": "1"}, key="k", parts="")
    for start in (0, 10):
        write(table, days(start))
    create_tag(table, "2024-05-01")
    create_tag(table, "one", snapshot_id=1)
    time = str(table.snapshots.get(1).time_millis)
    for options in (
        {"scan.mode": "latest"},
        {"scan.snapshot-id": "1"},
        {"scan.tag-name": "one"},
        {"scan.version": "1"},
        {"scan.timestamp-millis": time},
        {"scan.timestamp": "2999-01-01 00:00:00"},
        {"incremental-between": "1,2", "incremental-between-scan-mode": "delta"},
        {"incremental-between": "one,2024-05-01", "incremental-between-tag-to-snapshot": "true"},
        {"incremental-between-timestamp": f"{time},{int(time) + 10**9}"},
    ):
        read(table.with_options(options))
    read(table.with_options({"incremental-to-auto-tag": "2024-05-01"}))
    with pytest.raises(PaimonError, match="watermark"):
        read(table.with_options({"scan.watermark": "1"}))


def append_table(path: Path) -> None:
    """Small files of an append table, written in each format, with the settings of each."""
    table = make(path, KPV, {"bucket": "-1", "compaction.min.file-num": "2"}, parts="dt")
    for file_format in ("parquet", "orc", "avro", "parquet"):
        write(table.with_options({"file.format": file_format, "parquet.enable.dictionary": "true"}), days(0))
    read(table)
    create_tag(table, "one", snapshot_id=1)
    create_branch(table, "b", tag="one")
    merge_branch(table, "b")
    compact(table)


def variants(path: Path) -> None:
    """VARIANTs shredded by a schema of the options, and by one that is inferred."""
    table = make(path, {"k": "INT", "v": "VARIANT"}, {"bucket": "-1"})
    schema = '{"type": "ROW", "fields": [{"id": 0, "name": "v", "type": "INT"}]}'
    for options in ({"variant.shreddingSchema": schema}, {"variant.inferShreddingSchema": "true"}):
        write(table.with_options(options), [{"k": 1, "v": {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}}])
    assert len(read(table)) == 2


def dynamic_buckets(path: Path) -> None:
    """Keys that are assigned as they come."""
    given = {"dynamic-bucket.initial-buckets": "2", "dynamic-bucket.assigner-parallelism": "3"}
    table = make(path, KPV, given, key="k,dt", parts="dt")
    write(table, days(0))
    write(table, days(10))
    read(table)


def row_kinds(path: Path) -> None:
    """Rows that say themselves what they are."""
    columns = {"k": "INT NOT NULL", "kind": "STRING"}
    table = make(path, columns, {"bucket": "1", "rowkind.field": "kind", "ignore-delete": "true"}, key="k")
    write(table, [{"k": 1, "kind": "+I"}, {"k": 1, "kind": "-D"}])
    assert len(read(table)) == 1


def merged_columns(path: Path) -> None:
    """Partial updates whose columns are aggregated, each by functions that take the options of columns."""
    nested = "ARRAY<ROW<a INT, s INT>>"
    columns = {
        "k": "INT NOT NULL",
        "s": "INT",
        "v": "STRING",
        "n": nested,
        "d": "INT",
        "m": "MAP<INT, ROW<a INT, t STRING>>",
    }
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v,n,m,d",
        "fields.default-aggregate-function": "sum",
        "fields.v.aggregate-function": "listagg",
        "fields.v.list-agg-delimiter": ";",
        "fields.v.distinct": "true",
        "fields.v.ignore-retract": "true",
        "fields.v.stats-mode": "none",
        "fields.n.aggregate-function": "nested_update",
        "fields.n.nested-key": "a",
        "fields.n.nested-key-null-strategy": "ignore",
        "fields.n.nested-sequence-field": "s",
        "fields.n.count-limit": "2",
        "fields.m.aggregate-function": "merge_map_with_keytime",
        "fields.m.ts-field": "t",
        "partial-update.remove-record-on-sequence-group": "s",
    }
    table = make(path, columns, options, key="k")
    for v in ("a", "b"):
        write(table, [{"k": 1, "s": 1, "v": v, "d": 2, "n": [{"a": 1, "s": 1}], "m": [(1, {"a": 1, "t": "1"})]}])
    assert [(row["v"], row["d"]) for row in read(table)] == [("a;b", 4)]


def aggregated(path: Path) -> None:
    """Sums that a delete begins anew; rows that leave by age when they are compacted."""
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        "fields.v.aggregate-function": "sum",
        "record-level.expire-time": "1 d",
        "record-level.time-field": "t",
    }
    table = make(path, {"k": "INT NOT NULL", "v": "INT", "t": "INT"}, options, key="k")
    for rows in ([(1, 1, None), (2, 1, 5)], [(1, 2, None)]):
        write(table, [{"k": k, "v": v, "t": t} for k, v, t in rows])
    assert [(row["k"], row["v"]) for row in read(table)] == [(1, 3), (2, 1)]
    compact(table)
    assert [(row["k"], row["v"]) for row in read(table)] == [(1, 3)]


def changelogs(path: Path) -> None:
    """Rows that are kept as they came, and what a full compaction reports them."""
    table = make(path, KPV, {"bucket": "1", "changelog-producer": "input", "changelog-file.prefix": "c-"}, key="k")
    write(table, days(0))
    assert len(read(table.with_options({"incremental-between": "0,1"}))) == len(days(0))
    options = {
        "bucket": "1",
        "changelog-producer": "full-compaction",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "v",
    }
    table = make(path / "full", KPV, options, key="k")
    for _ in range(2):
        write(table, days(0))
        compact(table)
    assert [table.snapshots.get(number).changelog_record_count for number in (1, 2, 3, 4)] == [None, 20, None, None]


def altered(path: Path) -> None:
    """Changes of a schema that options allow or forbid."""
    table = make(path, KPV, {"bucket": "-1"}, parts="dt")
    bigger, needed = UpdateColumnType(("v",), IntType()), UpdateColumnNullability(("v",), False)
    for change in (AddColumn(("n",), IntType()), bigger, needed):
        try:
            alter_table(table, [change])
        except PaimonError:
            continue
    modes = make(path / "dv", {"k": "INT NOT NULL"}, {"bucket": "1"}, key="k")
    write(modes, [{"k": 1}])
    with pytest.raises(PaimonError, match="Cannot change deletion vectors mode"):
        alter_table(modes, [SetOption("deletion-vectors.enabled", "true")])


SCENARIOS = (
    keyed_table,
    history,
    append_table,
    variants,
    dynamic_buckets,
    row_kinds,
    merged_columns,
    aggregated,
    changelogs,
    altered,
)


def key_in(option: Option, asked: Mapping[str, set[str]]) -> list[str]:
    """The keys of the option that were asked for by code that acts on them."""
    return [key for key, modules in asked.items() if modules and find_option(key) is option]


@pytest.mark.parametrize("option", [pytest.param(option, id=option.key) for option in HONOURED])
def test_what_is_honoured_is_asked_for_by_what_acts_on_it(option: Option, asked: dict[str, set[str]]) -> None:
    if option.key in ELSEWHERE:
        shown = (Path(__file__).parents[1] / ELSEWHERE[option.key]).read_text(encoding="utf-8")
        key = option.key.rpartition(">.")[2].removesuffix("*")
        assert key in shown or key.replace(".", "__").replace("-", "_") in shown
    elif option.key in EFFECTS:
        EFFECTS[option.key]()
    else:
        assert key_in(option, asked), option.key


def test_strict_mode_counts_for_writes(tmp_path: Path) -> None:
    table = make(tmp_path, KPV, {"bucket": "1", "write-only": "true"}, key="k")
    write(table, days(0))
    write(table, days(5))
    compact(table)
    with pytest.raises(CommitConflictError, match="has found a COMPACT snapshot"):
        write(table.with_options({"commit.strict-mode.last-safe-snapshot": "1"}), days(3))
    write(table.with_options({"commit.strict-mode.last-safe-snapshot": "3"}), days(3))
    assert table.snapshots.latest_id() == 4


def _request(**options: str) -> Any:
    return read_request({"path": "/wh/t", **options})


def _saved(**options: str) -> Any:
    return write_request({"path": "/wh/t", **options}, overwrite=True)


def _merging(*more: str) -> Any:
    return _saved(
        **{"write.merge-schema": "true", **{f"write.merge-schema.{key}": "true" for key in more}}
    ).merge_schema


def _check(found: object, expected: object) -> None:
    assert found == expected


def _of_option(key: str) -> TableSchema:
    fields = [DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "v", parse_type("INT"))]
    return create_schema(fields, (), (), {key: "k", "bucket": "1"}, None)


def _s3(key: str) -> Callable[[], None]:
    return lambda: _check(fsspec_options("s3", "s3://b/t", {key: "http://host"})["endpoint_url"], "http://host")


EFFECTS: dict[str, Callable[[], None]] = {
    "columns": lambda: _check(_request(columns="a, b").columns, ("a", "b")),
    "filter": lambda: _check(_request(filter="a = 1").filter, "a = 1"),
    "replaceWhere": lambda: _check(_saved(replaceWhere="a = 1").replace_where, "a = 1"),
    "partitionOverwriteMode": lambda: _check(_saved(partitionOverwriteMode="dynamic").dynamic_overwrite, True),
    "dynamic-partition-overwrite": lambda: _check(asks_for_dynamic({"dynamic-partition-overwrite": "true"}), True),
    "write.merge-schema": lambda: _check(_merging(), MergeRules()),
    "write.merge-schema.type-widening": lambda: _check(_merging("type-widening"), MergeRules(widen=True)),
    "write.merge-schema.explicit-cast": lambda: _check(
        _merging("type-widening", "explicit-cast"), MergeRules(widen=True, explicit=True)
    ),
    "primary-key": lambda: _check(_of_option("primary-key").primary_keys, ("k",)),
    "partition": lambda: _check(_of_option("partition").partition_keys, ("k",)),
    "azure.*": lambda: _check(fsspec_options("abfs", "abfs://c@a.b/t", {"azure.account.key": "p"})["account_key"], "p"),
    "path": lambda: _check(_request().path, "/wh/t"),
    "s3.*": _s3("s3.endpoint"),
    "s3a.*": _s3("s3a.endpoint"),
    "fs.*": _s3("fs.s3a.endpoint"),
    "hadoop.*": lambda: _check(
        fsspec_options("hdfs", "hdfs://n/t", {"hadoop.dfs.nameservices": "n"})["config"], {"dfs.nameservices": "n"}
    ),
    "gs.*": lambda: _check(fsspec_options("gs", "gs://b/t", {"gs.project.id": "p"})["project"], "p"),
    "oss.*": lambda: _check(fsspec_options("oss", "oss://b/t", {"oss.endpoint": "e"})["endpoint"], "e"),
}
"""Options that are read where no table is."""
