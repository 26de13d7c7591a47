"""Streams without Spark: each batch by a scan of its own, as after a restart, with offsets as checkpoints keep them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_spark.read.audit_log import AUDIT_LOG
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.stream_offset import ReadLimits, StreamOffset
from paimon_spark.read.stream_scan import StreamScan
from paimon_spark.spark.source.source_options import ReadRequest
from paimon_spark.spark.source.stream_source import StreamSource
from paimon_spark.spec.predicate import Predicate
from paimon_spark.table.paths import parse_table_path

Row = dict[str, Any]


@dataclass
class Batch:
    """One micro-batch."""

    start: StreamOffset
    end: StreamOffset
    rows: list[Row]
    """With their snapshot as ``_snapshot``."""
    files: int


def source_of(path: object, options: Mapping[str, str]) -> StreamSource:
    """The stream that a load with these options reads."""
    return StreamSource.of(ReadRequest(str(path), parse_table_path(str(path)), None, None, dict(options)))


def scan_of(
    path: object,
    options: Mapping[str, str] | None = None,
    *,
    kinds: bool = False,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> StreamScan:
    """A scan for a load with these options."""
    table = source_of(path, options or {}).table
    view = AUDIT_LOG if kinds else ROWS
    fields = view.fields(table)
    wanted = None if columns is None else [field for name in columns for field in fields if field.name == name]
    return StreamScan(table, view=view, columns=wanted, predicate=predicate)


def through_json(offset: StreamOffset) -> StreamOffset:
    """The offset as a checkpoint gives it back."""
    return StreamOffset.of_json(json.loads(json.dumps(offset.to_json())))


def rows_of_batch(scan: StreamScan, start: StreamOffset, end: StreamOffset, parallelism: int = 1) -> list[Row]:
    """The rows between two offsets, read as tasks read them."""
    read, found = pickle.loads(pickle.dumps(scan.plan.read)), []
    for split in pickle.loads(pickle.dumps(scan.batch(start, end, parallelism).splits)):
        for batch in read(scan.plan.table, split, scan.plan.fields, scan.plan.residual):
            assert batch.schema.names == [field.name for field in scan.plan.fields]
            found += [{"_snapshot": split.snapshot_id, **row} for row in batch.to_pylist()]
    return found


def batches_of(
    path: object,
    options: Mapping[str, str] | None = None,
    *,
    start: StreamOffset | None = None,
    limits: ReadLimits | None = None,
    restarts: bool = True,
    **how: Any,
) -> Iterator[Batch]:
    """Yield the batches of a stream until it has caught up."""
    scan = scan_of(path, options, **how)
    at = scan.initial() if start is None else start
    while True:
        if restarts:
            scan = scan_of(path, options, **how)
        end = scan.latest(through_json(at), limits)
        if end == at:
            return
        assert end > at
        if restarts:
            scan = scan_of(path, options, **how)
        files = sum(len(split.files) for split in scan.batch(at, end).splits)
        yield Batch(at, end, rows_of_batch(scan, through_json(at), through_json(end)), files)
        at = end


def as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of some columns."""
    return pa.Table.from_pylist(list(rows), schema=schema)
