"""A point filter over 1,000 files with a bloom filter each: files opened and CPU seconds, with and without the indexes.

One process without a session; then what a write of the same rows costs with each type of index, against none.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read import file_read
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches

FILES, ROWS_A_FILE = 1_000, 1_000
KEY = 12_345
BLOOM = {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": str(ROWS_A_FILE)}
WRITES = {
    "no index": {},
    "bloom-filter": {"file-index.bloom-filter.columns": "v"},
    "bitmap of 1,000 values": {"file-index.bitmap.columns": "few"},
    "bitmap of 1 M values": {"file-index.bitmap.columns": "v"},
    "bsi": {"file-index.bsi.columns": "k"},
    "range-bitmap": {"file-index.range-bitmap.columns": "k"},
}


def rows() -> pa.Table:
    """A million keys in no order, each once."""
    keys = np.random.default_rng(7).permutation(FILES * ROWS_A_FILE)
    names = pa.array([f"user-{key:08d}" for key in keys.tolist()])
    return pa.table({"k": pa.array(keys), "v": names, "few": pa.array(keys % 1000)})


def make(path: Path, options: dict[str, str]) -> FileStoreTable:
    columns = {"k": "BIGINT", "v": "STRING", "few": "BIGINT"}
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]
    return create_table(str(path), create_schema(fields, (), (), {"bucket": "-1", **options}, None))


def write(table: FileStoreTable, data: pa.Table) -> float:
    start = time.process_time()
    plan = plan_write(table, data_schema=data.schema)
    commit(table, [write_batches(plan, data.to_batches(), 0)])
    return time.process_time() - start


def point(table: FileStoreTable) -> tuple[int, float]:
    """Read one key; return the data files that were opened, and CPU seconds."""
    opened: list[str] = []
    plain = file_read.open_data_file
    file_read.open_data_file = lambda io, path, *a, **n: (opened.append(path), plain(io, path, *a, **n))[1]
    start = time.process_time()
    plan = TableScan.of(table, ROWS).select(predicate=Leaf("eq", "v", (f"user-{KEY:08d}",))).plan()
    found = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    seconds = time.process_time() - start
    file_read.open_data_file = plain
    assert [value for batch in found for value in batch.column("k").to_pylist()] == [KEY]
    return len(opened), seconds


def main() -> None:
    data = rows()
    with tempfile.TemporaryDirectory() as folder:
        for name, threshold in (("next to the files", "0 b"), ("in the manifests", "1 mb")):
            options = {**BLOOM, "target-file-row-num": str(ROWS_A_FILE), "file-index.in-manifest-threshold": threshold}
            table = make(Path(folder, name), options)
            write(table, data)
            for read in ("true", "false"):
                files, seconds = point(load_table(table.path).with_options({"file-index.read.enabled": read}))
                print(f"{FILES} files, indexes {name}, read {read}: {files} files opened, {seconds:.3f} s CPU")
        for name, options in WRITES.items():
            seconds = min(write(make(Path(folder, f"{name} {turn}"), options), data) for turn in range(3))
            print(f"write of 1 M rows, {name}: {seconds:.2f} s CPU")


if __name__ == "__main__":
    main()
