"""How fast manifests are planned: 400 manifests with 20,000 data files, decoded, merged and judged by statistics.

Run: `python benchmarks/manifest_decoding.py [manifests] [files]`. Prints seconds of one core (best of five) per step
and the memory that the decoded entries take.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_spark.spec.avro_codec import decode_manifest, decode_manifest_columns, encode_manifest
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import (
    BigIntType,
    DataField,
    DateType,
    DoubleType,
    IntType,
    TimestampType,
    VarCharType,
)
from paimon_spark.spec.manifest import DataFileMeta, FileKind, ManifestEntry, SimpleStats
from paimon_spark.spec.manifest_columns import ManifestColumns
from paimon_spark.spec.stats import evolve_stats

STRING = VarCharType(VarCharType.MAX)
TYPES = [BigIntType(), STRING, DoubleType(), DateType(), TimestampType(6), IntType(), STRING, BigIntType()]
FIELDS = [DataField(i, f"c{i}", data_type) for i, data_type in enumerate(TYPES)]


def entry(number: int) -> ManifestEntry:
    """One data file of a partitioned primary-key table with eight columns."""
    low = [number * 10, f"key {number:08d}", 0.5, 19_000, number * 10**6, number % 7, "a", None]
    high = [number * 10 + 9, f"key {number:08d}z", 99.5, 19_030, number * 10**6 + 5, number % 7 + 3, "zz", None]
    key_low, key_high = serialize_row(low[:1], TYPES[:1]), serialize_row(high[:1], TYPES[:1])
    file = DataFileMeta(
        file_name=f"data-{uuid.UUID(int=number * 7919)}-0.parquet",
        file_size=1_000_000 + number,
        row_count=10_000,
        min_key=key_low,
        max_key=key_high,
        key_stats=SimpleStats(key_low, key_high, (0,)),
        value_stats=SimpleStats(serialize_row(low, TYPES), serialize_row(high, TYPES), (0,) * 7 + (10_000,)),
        min_sequence_number=number,
        max_sequence_number=number + 9_999,
        level=number % 6,
        creation_time_millis=1_700_000_000_000,
        delete_row_count=0,
        file_source=0,
    )
    partition = serialize_row([19_000 + number % 100], [DateType()])
    return ManifestEntry(FileKind.ADD, partition, number % 16, 16, file)


def best(action: Callable[[], Any]) -> float:
    """Least processor time of five runs, in seconds."""
    times = []
    for _ in range(5):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def main(manifests: int, files: int) -> None:
    """Make the manifests and time each step."""
    entries = [entry(i) for i in range(files)]
    step = -(-files // manifests)

    def encode() -> list[bytes]:
        return [encode_manifest(entries[i : i + step]) for i in range(0, files, step)]

    data = encode()
    print(f"{len(data)} manifests, {files} files, {sum(map(len, data)) / 1e6:.1f} MB")

    def columns() -> ManifestColumns:
        return ManifestColumns.concat([decode_manifest_columns(part) for part in data])

    def statistics() -> None:
        evolve_stats(all_files.value_stats, pa.array(all_files.row_counts), FIELDS, FIELDS[:2])

    tracemalloc.start()
    all_files = columns()
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"encode                    {best(encode):.3f}")
    print(f"decode to columns         {best(columns):.3f}   ({memory / 1e6:.0f} MB)")
    print(f"decode to entries         {best(lambda: [decode_manifest(part) for part in data]):.3f}")
    print(f"live entries, buckets     {best(lambda: ManifestColumns.concat([all_files]).live().buckets):.3f}")
    print(f"statistics of two columns {best(statistics):.3f}")
    print(f"objects of all entries    {best(lambda: list(all_files)):.3f}")


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["400", "20000"][len(sys.argv) - 1 :])))
