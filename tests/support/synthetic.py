"""Tables that exist only as metadata: many manifests over data files that nobody opens."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from paimon_spark.spec import avro_codec
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import BigIntType, DataField, DataType, DateType, DoubleType, IntType, VarCharType
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileKind, ManifestEntry, ManifestFileMeta, SimpleStats
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import CommitKind, Snapshot
from paimon_spark.table.table import FileStoreTable, create_table

FIRST_DAY = date(2024, 1, 1)


def metadata_table(
    root: Path, *, manifests: int, files: int, primary_key: bool = False, manifests_per_day: int = 1
) -> FileStoreTable:
    """A table partitioned by day: ``files`` files in each of ``manifests`` manifests, ids rising from file to file."""
    text = VarCharType(VarCharType.MAX)
    columns: list[tuple[str, DataType]] = [("id", BigIntType()), ("name", text), ("n", IntType()), ("x", DoubleType())]
    columns += [(f"s{i}", text) for i in range(6)] + [("dt", DateType())]
    fields = [DataField(i, name, data_type) for i, (name, data_type) in enumerate(columns)]
    keys = ("id", "dt") if primary_key else ()
    table = create_table(str(root), create_schema(fields, keys, ("dt",), {"bucket": "10"} if primary_key else {}))
    types = [field.type.with_nullable(True) for field in table.schema.fields]
    (root / "manifest").mkdir()
    (root / "snapshot").mkdir()
    metas = []
    for m in range(manifests):
        day = FIRST_DAY + timedelta(days=m // manifests_per_day)
        partition = serialize_row([day], [DateType()])
        entries = [_entry(m * files + i, i, day, partition, types, primary_key) for i in range(files)]
        data = avro_codec.encode_manifest(entries)
        name = f"manifest-{m:08}-0000-0000-0000-000000000000-0"
        (root / "manifest" / name).write_bytes(data)
        days = SimpleStats(partition, partition, (0,))
        metas.append(ManifestFileMeta(name, len(data), files, 0, days, 0, 0, 9, 0, 0))
    (root / "manifest" / "base").write_bytes(avro_codec.encode_manifest_list(metas))
    (root / "manifest" / "delta").write_bytes(avro_codec.encode_manifest_list([]))
    snapshot = Snapshot(
        id=1, schema_id=0, base_manifest_list="base", delta_manifest_list="delta", commit_user="u",
        commit_identifier=1, commit_kind=CommitKind.APPEND, time_millis=1, total_record_count=0, delta_record_count=0,
    )  # fmt: skip
    (root / "snapshot" / "snapshot-1").write_text(snapshot.to_json())
    return table


def _entry(number: int, i: int, day: date, partition: bytes, types: list[DataType], primary_key: bool) -> ManifestEntry:
    first, last = number * 100, number * 100 + 99
    low = [first, f"name{first:09}", first, float(first), *(f"s{first}" for _ in range(6)), day]
    high = [last, f"name{last:09}", last, float(last), *(f"s{last}" for _ in range(6)), day]
    stats = SimpleStats(serialize_row(low, types), serialize_row(high, types), (0,) * len(types))
    keys = [serialize_row([key], [BigIntType()]) for key in (first, last)]
    file = DataFileMeta(
        f"data-{number:08}-0000-0000-0000-000000000000-{i}.parquet",
        30_000_000,
        100,
        **({"min_key": keys[0], "max_key": keys[1]} if primary_key else {}),
        key_stats=SimpleStats(keys[0], keys[1], (0,)) if primary_key else EMPTY_STATS,
        value_stats=stats,
        min_sequence_number=first,
        max_sequence_number=last,
        creation_time_millis=0,
        delete_row_count=0,
        file_source=0,
    )
    return ManifestEntry(FileKind.ADD, partition, i % 10 if primary_key else 0, 10 if primary_key else -1, file)
