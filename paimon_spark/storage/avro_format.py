"""Avro data files: fastavro reads a block at a time, columns are written at once by `avro_encoding`.

The container (header, blocks, codecs) is `spec.avro_container`'s; schemas are those of Java's ``AvroSchemaConverter``.
Where that pays, many blocks are walked in step (`spec/avro_walk.py`) and become columns without a Python object per
value; schemas with arrays or maps, and files of few blocks, are fastavro's (`supported`, `pays`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.avro_container import (
    MAGIC,
    SYNC_BYTES,
    encode_long,
    index_container,
    most_bytes,
    pack_block,
    read_block,
)
from paimon_spark.spec.avro_walk import FIXED_BYTES, BlockWalk, Path, Positions
from paimon_spark.spec.predicate import matching
from paimon_spark.storage import arrow_layout
from paimon_spark.storage.arrow_layout import ColumnPlan, corrupt_as
from paimon_spark.storage.avro_encoding import Decoded, FileSchema, encode_rows, file_schema
from paimon_spark.storage.data_file import (
    DataFileReader,
    FileResult,
    NewFile,
    Source,
    StoreFileWriter,
    Wanted,
)

_MAX_ROW_BYTES: Final = 200 << 20
_GROUP_BYTES: Final = 32 << 20
_BLOCK_BYTES: Final = 64_000
"""Java: ``DataFileConstants.DEFAULT_SYNC_INTERVAL``."""
_ENCODE_ROWS: Final = 1 << 16
_ENCODE_BYTES: Final = 64 << 20
_CODECS: Final[Mapping[str, str]] = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "gzip": "deflate",
    "zlib": "deflate",
    "none": "null",
    "uncompressed": "null",
    "null": "null",
}

FEWEST_LANES: Final = 16
"""Below this many records per step, fastavro is faster."""


class AvroReader(DataFileReader):
    """Reads one Avro file."""

    def __init__(self, file_io: Source, path: str, size: int | None) -> None:
        self.path = path
        with corrupt_as(path, "Avro"):
            self._data = file_io.read_bytes(path)
            self.size_bytes = len(self._data)
            self._index = index_container(self._data, path=path)
            self._file_schema = FileSchema(self._index.schema_json)
            self.schema = self._file_schema.arrow
            self.num_rows = sum(count for count, _, _ in self._index.blocks)
        self.row_group_rows = [self.num_rows] if self.num_rows else []

    def _read(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The wanted columns (see DataFileReader); the one row group is the file."""
        if wanted.row_groups is not None and not list(wanted.row_groups):
            return
        plan = ColumnPlan.of(self.schema, wanted.fields, self.path)
        if not plan.sources:
            yield from plan.rows_without_columns(self.num_rows, wanted.batch_rows)
            return
        for batch in self._decoded(plan.sources, min(_GROUP_BYTES, wanted.batch_bytes)):
            step = max(1, min(wanted.batch_rows, batch.num_rows * wanted.batch_bytes // max(1, batch.nbytes)))
            for start in range(0, batch.num_rows, step):
                with corrupt_as(self.path, "Avro"):
                    result = plan.apply(batch.slice(start, step))
                    if wanted.predicate is not None:
                        result = matching(wanted.predicate, result)
                if result.num_rows:
                    yield result

    def close(self) -> None:
        """Let the bytes go."""
        self._data = b""

    def _decoded(self, names: Sequence[str], group_bytes: int) -> Iterator[pa.RecordBatch]:
        """Batches of some of the file's columns, one for each group of blocks."""
        record = self._file_schema.record
        vectorised = supported(record.plain)
        for group in groups_of_blocks(self._blocks(), group_bytes):
            with corrupt_as(self.path, "Avro"):
                if vectorised and pays([count for count, _ in group]):
                    columns = decode_blocks(record.plain, record.storage, names, group)
                else:
                    columns = decode_by_fastavro(record, names, group)
                logical = [self._logical(name, column) for name, column in zip(names, columns, strict=True)]
            yield pa.RecordBatch.from_arrays(logical, list(names))

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        for block in self._index.blocks:
            with corrupt_as(self.path, "Avro"):
                plain = read_block(self._data, self._index.codec, block, most_bytes(self._data), path=self.path)
            yield block[0], plain

    def _logical(self, name: str, array: pa.Array) -> pa.Array:
        wanted = self.schema.field(name).type
        return array if array.type == wanted else arrow_layout.relabel(array, wanted)


def decode_by_fastavro(record: Decoded, names: Sequence[str], blocks: Sequence[tuple[int, bytes]]) -> list[pa.Array]:
    """Columns of some blocks, by way of one dict for each record.

    Raises:
        ValueError: a block holds other than its records.
    """
    import fastavro  # costs each Python worker a tenth of a second, so only those pay that need it

    reading = fastavro.parse_schema({"type": "array", "items": record.plain})
    rows: list[dict[str, Any]] = []
    for count, plain in blocks:
        if count == 0 and not plain:
            continue
        # The records of a block behind their number are an Avro array: one call instead of one for each.
        source = io.BytesIO(encode_long(count) + plain + b"\x00")
        found = fastavro.schemaless_reader(source, reading, None)
        if len(found) != count or source.read():
            raise ValueError("a block is longer than its records")
        rows += found
    return [pa.array(list(map(itemgetter(name), rows)), record.storage.field(name).type) for name in names]


class AvroWriter(StoreFileWriter):
    """Writes one Avro file."""

    def __init__(self, new: NewFile) -> None:
        super().__init__(new)
        codec = new.options.get("avro.codec", new.compression).lower()
        if codec not in _CODECS:
            raise UnsupportedError(
                f"Avro files with the compression '{codec}' cannot be written. "
                f"Set 'file.compression' to one of {', '.join(sorted(_CODECS))}."
            )
        schema_json = file_schema(new.fields).encode()
        self._fields = tuple(new.fields)
        self._codec = _CODECS[codec]
        self._level = new.zstd_level
        self._logical = to_arrow_schema(new.fields)
        self._written = [arrow_layout.seconds_as_millis(field.type) for field in self._logical]
        self._sync = os.urandom(SYNC_BYTES)
        self._target = new.file_io.open_output(new.path)
        header = MAGIC + encode_long(2)
        for text in (b"avro.schema", schema_json, b"avro.codec", self._codec.encode()):
            header += encode_long(len(text)) + text
        self._size = self._rows = 0
        self._pending: list[bytes] = []
        self._pending_rows = self._pending_bytes = 0
        self._put(header + encode_long(0) + self._sync)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; full blocks are written out."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if batch.schema.names != self._logical.names:
                raise ValueError(f"rows have the columns {batch.schema.names}, the file has {self._logical.names}")
            step = max(1, min(_ENCODE_ROWS, batch.num_rows * _ENCODE_BYTES // max(1, batch.nbytes)))
            for start in range(0, batch.num_rows, step):
                self._encode(batch.slice(start, step))

    @property
    def bytes_written(self) -> int:
        """Bytes in the file, and those of the block that is being filled."""
        return self._size + self._pending_bytes // 2

    def close(self) -> FileResult:
        """Write the last block."""
        try:
            self._flush()
            self._target.close()
        except BaseException:
            self.abort()
            raise
        return FileResult(self.path, self._size, self._rows)

    def _encode(self, batch: pa.RecordBatch) -> None:
        columns = []
        for array, logical, written in zip(batch.columns, self._logical, self._written, strict=True):
            for wanted in (logical.type, written):
                convert = arrow_layout.conversion(array.type, wanted)
                array = convert(array) if convert else array
            columns.append(array)
        encoded = encode_rows(columns, self._fields)
        offsets = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, encoded.offset * 4)
        data = memoryview(encoded.buffers()[2] or b"")
        if batch.num_rows and (largest := int(np.diff(offsets).max())) > _MAX_ROW_BYTES:
            raise DataError(
                f"A row takes {largest >> 20} MB, but rows of Avro files may take {_MAX_ROW_BYTES >> 20} MB. "
                "Set the table option 'file.format' to 'parquet'."
            )
        row = 0
        while row < batch.num_rows:
            room = _BLOCK_BYTES - self._pending_bytes
            end = min(max(int(np.searchsorted(offsets, offsets[row] + room)), row + 1), batch.num_rows)
            self._pending.append(bytes(data[offsets[row] : offsets[end]]))
            self._pending_rows += end - row
            self._pending_bytes += len(self._pending[-1])
            row = end
            if self._pending_bytes >= _BLOCK_BYTES:
                self._flush()
        self._rows += batch.num_rows

    def _flush(self) -> None:
        if self._pending_rows:
            block = pack_block(b"".join(self._pending), self._codec, self._level)
            self._put(encode_long(self._pending_rows) + encode_long(len(block)) + block + self._sync)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _put(self, data: bytes) -> None:
        self._target.write(data)
        self._size += len(data)


def supported(plain: Any) -> bool:
    """Whether a schema (as `avro_file_schema.Decoded.plain`) has only records and atoms."""
    if isinstance(plain, list):
        return all(supported(part) for part in plain)
    if isinstance(plain, dict):
        return plain["type"] == "record" and all(supported(field["type"]) for field in plain["fields"])
    return True


def pays(counts: Sequence[int]) -> bool:
    """Whether blocks with these numbers of records are many and even enough to be walked in step."""
    longest, rows = max(counts, default=0), sum(counts)
    return longest * FEWEST_LANES <= rows and longest * len(counts) <= 4 * rows


def decode_blocks(
    plain: Any, storage: pa.StructType, names: Sequence[str], blocks: Sequence[tuple[int, bytes]]
) -> list[pa.Array]:
    """Columns of all records of some blocks, in order.

    Args:
        plain: The top-level record's schema (see `supported`), or its union with null.
        storage: Its Arrow type.
        names: The wanted columns.
        blocks: Number of records and bytes of each block.

    Raises:
        ValueError: the bytes are no such records.
    """
    wanted = set(names)
    walk = BlockWalk(plain, blocks, lambda path: not path or path[0] in wanted)
    if walk.root.null_tag is not None and (walk.starts(()) < 0).any():
        raise ValueError("a record is null")
    return [_column(walk, (name,), storage.field(name).type) for name in names]


def _column(walk: BlockWalk, path: Path, storage: pa.DataType) -> pa.Array:
    starts = walk.starts(path)
    null = starts < 0
    nulls = null if null.any() else None
    if isinstance(storage, pa.StructType):
        children = [_column(walk, (*path, child.name), child.type) for child in storage]
        mask = None if nulls is None else pa.array(nulls)
        return pa.StructArray.from_arrays(children, fields=list(storage), mask=mask)
    if storage in (pa.binary(), pa.large_binary(), pa.string()):
        return _texts(starts, walk.lengths(path), nulls, walk.data, storage)
    at = starts if nulls is None else np.where(null, len(walk.data) - FIXED_BYTES["double"], starts)
    if pa.types.is_boolean(storage):
        return pa.array(walk.bytes[at] == 1, mask=nulls)
    if pa.types.is_floating(storage):
        width = storage.bit_width // 8
        raw = walk.bytes[at[:, None] + np.arange(width)]
        return pa.array(raw.view("<f4" if width == 4 else "<f8")[:, 0], mask=nulls, from_pandas=False)
    return pa.array(walk.longs_at(starts), pa.int64(), mask=nulls).cast(storage)


def _texts(
    starts: Positions, lengths: Positions, nulls: npt.NDArray[np.bool_] | None, buffer: bytes, storage: pa.DataType
) -> pa.Array:
    """Slices of a buffer as an array: values and gaps between them are one array, and every second is taken."""
    rows = len(starts)
    ends = starts + lengths
    if nulls is not None:
        ends = np.maximum.accumulate(np.where(nulls, 0, ends))
        starts = np.where(nulls, ends, starts)
    offsets = np.empty(2 * rows, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    pieces = pa.Array.from_buffers(
        pa.binary(), max(2 * rows - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    taken = pieces.take(pa.array(np.arange(0, 2 * rows, 2), mask=nulls))
    return taken if storage == pa.binary() else taken.cast(storage)


def groups_of_blocks(blocks: Iterator[tuple[int, bytes]], most_bytes: int) -> Iterator[list[tuple[int, bytes]]]:
    """Consecutive blocks together, up to some bytes (at least one block)."""
    group: list[tuple[int, bytes]] = []
    held = 0
    for block in blocks:
        if group and held + len(block[1]) > most_bytes:
            yield group
            group, held = [], 0
        group.append(block)
        held += len(block[1])
    if group:
        yield group
