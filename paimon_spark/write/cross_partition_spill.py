"""Rows of cross-partition updates, and known keys, on their way to be joined: in memory, or in files where too many.

Runs in tasks. Memory is bounded by ``write-buffer-size``; what does not fit goes to files by the hash of the key, which
are read one after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.spec.hashing import key_hashes
from paimon_spark.spec.schema import TableSchema
from paimon_spark.write.routing import positions_of, split_rows, whole

OLD_BUCKET = "_PAIMON_BUCKET"
"""The bucket in which a known key is: the column that rows do not have."""

_PARTS = 64


def hashes_of_keys(rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int32]:
    """The hash of the primary key of each row, shape (rows,)."""
    fields = [schema.field(name) for name in schema.primary_keys]
    return np.ascontiguousarray(key_hashes([whole(rows, f.name) for f in fields], [f.type for f in fields]))


class CrossPartitionSpill:
    """Rows and known keys of one task: in memory, or in files by the hash of the key where they are too many."""

    def __init__(self, schema: TableSchema, budget: int) -> None:
        """Hold nothing yet.

        Args:
            schema: of the table.
            budget: bytes that are held in memory.
        """
        self._schema = schema
        self._budget = budget
        self._held: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._bytes = 0
        self._files: dict[tuple[int, int], tuple[IO[bytes], pa.RecordBatchStreamWriter]] = {}

    def __enter__(self) -> CrossPartitionSpill:
        return self

    def __exit__(self, *_error: object) -> None:
        for file, _ in self._files.values():
            file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, or known keys."""
        self._held[OLD_BUCKET in batch.schema.names].append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._budget:
            self._write()

    def _write(self) -> None:
        for kind, held in enumerate(self._held):
            if not held:
                continue
            rows = pa.Table.from_batches(held)
            held.clear()
            parts = (hashes_of_keys(rows, self._schema).view(np.uint32) >> 16) % _PARTS
            positions = positions_of(parts.astype(np.int64), _PARTS)
            filled = [part for part, chosen in enumerate(positions) if len(chosen)]
            for part, chosen in zip(filled, split_rows(rows, [positions[p] for p in filled]), strict=True):
                if (part, kind) not in self._files:
                    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
                    self._files[part, kind] = file, pa.ipc.new_stream(file, rows.schema)
                self._files[part, kind][1].write_table(chosen)
        self._bytes = 0

    def rows_in_memory(self) -> pa.Table | None:
        """The rows that were added, where all of them are held; None otherwise, and where there are none."""
        return None if self._files else self._table(0)

    def parts(self) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
        """Rows and known keys of the same keys; None where there are none."""
        if not self._files:
            yield self._table(0), self._table(1)
            return
        self._write()
        for _, writer in self._files.values():
            writer.close()
        for part in range(_PARTS):
            yield self._read(part, 0), self._read(part, 1)

    def _table(self, kind: int) -> pa.Table | None:
        return pa.Table.from_batches(self._held[kind]) if self._held[kind] else None

    def _read(self, part: int, kind: int) -> pa.Table | None:
        if (part, kind) not in self._files:
            return None
        file = self._files[part, kind][0]
        file.seek(0)
        return pa.ipc.open_stream(file).read_all()
