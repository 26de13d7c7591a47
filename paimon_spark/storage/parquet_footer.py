"""Parquet footers: structs of Thrift, column types that pyarrow alone gets wrong, and the decoded sizes of columns.

Thrift's compact protocol is here as far as footers use it: structs as dicts, both ways, byte for byte. A struct is a
dict of field id -> (compact type, value); lists carry their element type. Reading checks every length against the bytes
there are, so hostile bytes raise ValueError and nothing else.

Column types are changed in a footer (Parquet's ``FileMetaData``), where pyarrow cannot write or read them as Java does.
Writing: pyarrow writes all timestamps as INT96 or none, while Java writes those of precision 7 to 9 so and the others
as annotated int64; and it names the root `schema`. Reading: pyarrow wraps INT96 values that overflow 64-bit
nanoseconds, so they are read as 12 bytes each and converted here in the package.

Decoded sizes are estimated before columns are decoded. Page sizes do not help: a value of a megabyte that every row
repeats is a dictionary of one entry and a few bytes of indices. Writers since parquet-format 2.10 record the bytes of a
column's strings in ``ColumnMetaData.size_statistics``. Where they do not, the strings are counted by their dictionary,
without making them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES

BOOLEAN_TRUE, BOOLEAN_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_INTEGERS: Final = frozenset({I16, I32, I64})
_WIDTH: Final = {BYTE: 1, DOUBLE: 8}
_MAX_DEPTH: Final = 64

Struct = dict[int, tuple[int, Any]]


class TypedList(NamedTuple):
    """A list and the compact type of its elements."""

    kind: int
    items: list[Any]


def decode(data: bytes) -> Struct:
    """The struct that the bytes begin with.

    Raises:
        ValueError: the bytes are no such struct.
    """
    return _Source(data).struct(0)


def encode(fields: Struct) -> bytes:
    """The bytes of a struct; `encode(decode(data)) == data` for what Thrift itself writes."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


def with_changed_items(data: bytes, field: int, most: int | None, change: Callable[[list[Struct]], None]) -> bytes:
    """The bytes of a struct in one of whose lists some structs are changed; all else stays as it is, not decoded.

    Args:
        data: the bytes of the struct.
        field: id of the list of structs.
        most: only the first so many structs are decoded; None for all.
        change: is given these structs and changes them, not their number.

    Raises:
        ValueError: the bytes are no such struct.
    """
    source = _Source(data)
    field_id = 0
    while True:
        byte = source.byte()
        delta, kind = byte >> 4, byte & 15
        if kind == 0:
            raise ValueError("a Thrift struct lacks a list")
        field_id = field_id + delta if delta else source.zigzag()
        if field_id == field and kind == LIST:
            break
        if kind not in (BOOLEAN_TRUE, BOOLEAN_FALSE):
            source.value(kind, 1)
    size = source.byte() >> 4
    if size == 15:
        size = source.varint()
    start = source.at
    items = [source.struct(1) for _ in range(size if most is None else min(size, most))]
    change(items)
    out = bytearray()
    for item in items:
        _put_struct(out, item)
    return data[:start] + bytes(out) + data[source.at :]


class _Source:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("a Thrift value is longer than its file")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        try:
            value = self.data[self.at]
        except IndexError:
            raise ValueError("a Thrift value is longer than its file") from None
        self.at += 1
        return value

    def varint(self) -> int:
        value = self.byte()
        if value < 128:
            return value
        value &= 127
        shift = 7
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a Thrift number does not end")

    def zigzag(self) -> int:
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)

    def struct(self, depth: int) -> Struct:
        fields: Struct = {}
        field_id = 0
        while True:
            byte = self.byte()
            delta, kind = byte >> 4, byte & 15
            if kind == 0:
                return fields
            field_id = field_id + delta if delta else self.zigzag()
            value = kind == BOOLEAN_TRUE if kind in (BOOLEAN_TRUE, BOOLEAN_FALSE) else self.value(kind, depth + 1)
            fields[field_id] = (kind, value)

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("Thrift structs are nested too deeply")
        if kind in _INTEGERS:
            return self.zigzag()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth)
        if kind == LIST:
            byte = self.byte()
            size, element = byte >> 4, byte & 15
            if size == 15:
                size = self.varint()
            if size > len(self.data) - self.at:
                raise ValueError("a Thrift list is longer than its file")
            return TypedList(element, [self.value(element, depth + 1) for _ in range(size)])
        if kind in (BOOLEAN_TRUE, BOOLEAN_FALSE):  # in lists
            return self.take(1)
        if kind in _WIDTH:
            return self.take(_WIDTH[kind])
        raise ValueError(f"unexpected Thrift type {kind}")


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field_id in sorted(fields):
        kind, value = fields[field_id]
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _put_zigzag(out, field_id)
        last = field_id
        if kind not in (BOOLEAN_TRUE, BOOLEAN_FALSE):
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _put_zigzag(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind == LIST:
        size = len(value.items)
        out.append(min(size, 15) << 4 | value.kind)
        if size >= 15:
            _put_varint(out, size)
        for item in value.items:
            _put_value(out, value.kind, item)
    else:
        out += value


def _put_zigzag(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


_MAGIC: Final = b"PAR1"
_SCHEMA, _ROW_GROUPS = 2, 4
"""Fields of FileMetaData."""
_TYPE, _TYPE_LENGTH, _NAME, _NUM_CHILDREN, _CONVERTED_TYPE, _LOGICAL_TYPE = 1, 2, 4, 5, 6, 10
"""Fields of SchemaElement."""
_COLUMNS, _META_DATA, _COLUMN_TYPE, _STATISTICS = 1, 3, 1, 12
"""Fields of RowGroup, ColumnChunk and ColumnMetaData."""
_INT96, _FIXED_LEN_BYTE_ARRAY = 3, 7
_TIMESTAMP: Final = 8
_CONVERTED: Final[Mapping[str, int]] = {"ms": 9, "us": 10}
_UNIT: Final[Mapping[str, int]] = {"ms": 1, "us": 2}

Timestamps = Mapping[tuple[str, ...], tuple[str, bool]]
"""Paths of int64 columns that are timestamps -> (unit `ms` or `us`, adjusted to UTC)."""


class FooterSink(io.RawIOBase):
    """Passes what pyarrow writes on to a file; the tail written after `hold()` is kept until its footer is changed."""

    def __init__(self, target: pa.NativeFile) -> None:
        super().__init__()
        self._target = target
        self._tail: bytearray | None = None
        self._dropped = False
        self.position = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self.position

    def write(self, data: Any) -> int:
        """Write or hold back."""
        if self._dropped:
            return len(data)
        if self._tail is None:
            self._target.write(data)
        else:
            self._tail += data
        self.position += len(data)
        return len(data)

    def hold(self) -> None:
        """Keep all that comes from now on (page indexes and the footer)."""
        self._tail = bytearray()

    def drop(self) -> None:
        """Write nothing more and close the file."""
        self._dropped = True
        self._target.close()

    def release(self, root_name: str, timestamps: Timestamps) -> None:
        """Write the tail with its changed footer and close the file."""
        tail = bytes(self._tail or b"")
        length = struct.unpack("<i", tail[-8:-4])[0]
        footer = with_schema(tail[-8 - length : -8], root_name, timestamps)
        self._target.write(tail[: -8 - length] + footer + struct.pack("<i", len(footer)) + _MAGIC)
        self.position += len(footer) - length
        self._target.close()


def with_schema(footer: bytes, root_name: str, timestamps: Timestamps) -> bytes:
    """The footer with its root renamed and int64 columns annotated as timestamps."""

    def change(elements: list[Struct]) -> None:
        elements[0][_NAME] = (BINARY, root_name.encode())
        if timestamps:
            _annotate(elements, timestamps)

    return with_changed_items(footer, _SCHEMA, None if timestamps else 1, change)


def metadata_with_int96_as_bytes(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of an open file whose INT96 columns are said to be 12 bytes each, which they are in all encodings.

    Raises:
        ValueError: the footer cannot be understood.
    """
    size = source.size()
    source.seek(size - 8)
    length = struct.unpack("<i", source.read(4))[0]
    if not 0 < length <= size - 12:
        raise ValueError("the Parquet footer is longer than the file")
    source.seek(size - 8 - length)
    metadata = decode(source.read(length))
    for element in metadata[_SCHEMA][1].items:
        if element.get(_TYPE) == (I32, _INT96):
            element[_TYPE] = (I32, _FIXED_LEN_BYTE_ARRAY)
            element[_TYPE_LENGTH] = (I32, 12)
    for group in metadata[_ROW_GROUPS][1].items:
        for chunk in group[_COLUMNS][1].items:
            column = chunk[_META_DATA][1]
            if column[_COLUMN_TYPE] == (I32, _INT96):
                column[_COLUMN_TYPE] = (I32, _FIXED_LEN_BYTE_ARRAY)
                column.pop(_STATISTICS, None)
    footer = encode(metadata)
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + struct.pack("<i", len(footer)) + _MAGIC))


def _annotate(elements: list[Struct], timestamps: Timestamps) -> None:
    """Walk the schema, which lists a tree depth first, and annotate the leaves that are timestamps."""
    open_groups: list[list[Any]] = []
    for element in elements[1:]:
        name = element[_NAME][1].decode("utf-8", "replace")
        path = (*(group[0] for group in open_groups), name)
        if path in timestamps:
            unit, adjusted = timestamps[path]
            flag = BOOLEAN_TRUE if adjusted else BOOLEAN_FALSE
            inner: Struct = {1: (flag, adjusted), 2: (STRUCT, {_UNIT[unit]: (STRUCT, {})})}
            if adjusted:
                element[_CONVERTED_TYPE] = (I32, _CONVERTED[unit])
            element[_LOGICAL_TYPE] = (STRUCT, {_TIMESTAMP: (STRUCT, inner)})
        if element.get(_NUM_CHILDREN, (0, 0))[1]:
            open_groups.append([name, element[_NUM_CHILDREN][1]])
            continue
        while open_groups:
            open_groups[-1][1] -= 1
            if open_groups[-1][1]:
                break
            open_groups.pop()


_SIZE_STATISTICS, _UNENCODED_BYTES = 16, 1
"""Fields of ColumnMetaData and SizeStatistics."""
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "INT96": 12}
_DELTAS: Final = frozenset({"DELTA_BYTE_ARRAY"})
"""Encodings that hold less than the bytes of the strings."""
_OFFSET_BYTES: Final = 4
_DECIMAL_BYTES: Final = 16
_COUNT_ROWS: Final = 8_192
_LEAST_BUFFER, _LEAST_REMOTE_BUFFER, _MOST_BUFFER = 16 << 10, 256 << 10, 1 << 20
"""Bytes of a column chunk that are read at a time."""

DictionaryFile = Callable[[list[str]], pq.ParquetFile]
"""Opens the file again so that some leaf columns come as dictionaries."""


def decoded_bytes(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], enough: int, reopened: DictionaryFile
) -> list[int]:
    """Bytes of some columns of row groups as Arrow arrays.

    Args:
        file: the open file.
        groups: row groups.
        columns: wanted columns, or paths of leaves.
        enough: a row group that is surely smaller is not examined further.
        reopened: see `DictionaryFile`.

    Returns:
        For each group its bytes, or a bound of at most `enough`.

    Raises:
        ValueError: the footer cannot be understood.
    """
    metadata, wanted = file.metadata, frozenset(columns)
    leaves = [at for at in range(metadata.num_columns) if _wanted(metadata.schema.column(at).path, wanted)]
    found: list[int] = []
    footer: Struct | None = None
    for group in groups:
        chunks = [metadata.row_group(group).column(at) for at in leaves]
        known = sum(_fixed_bytes(c, metadata.schema.column(at)) for c, at in zip(chunks, leaves, strict=True))
        texts = [(at, c) for at, c in zip(leaves, chunks, strict=True) if c.physical_type == "BYTE_ARRAY"]
        bound = known + sum(c.num_values * c.total_uncompressed_size for _, c in texts)
        if not texts or bound <= enough:
            found.append(bound)
            continue
        footer = footer or decoded_footer(metadata)
        sizes = {at: _unencoded_bytes(footer, group, at, c) for at, c in texts}
        unknown = [metadata.schema.column(at).path for at, size in sizes.items() if size is None]
        known += sum(size or 0 for size in sizes.values())
        found.append(known + (_counted(reopened(unknown), group, unknown) if unknown else 0))
    return found


def stream_buffer(
    metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str], batch_bytes: int, *, remote: bool
) -> int:
    """How many bytes of each column chunk are read at a time; 0: all, where that takes less than a batch may.

    pyarrow otherwise keeps the stored bytes of a whole row group, and those of all row groups of a remote file.

    Args:
        metadata: the footer.
        groups: row groups that are read.
        columns: wanted columns, or paths of leaves.
        batch_bytes: the most that a batch may take in memory.
        remote: whether each read is a request to a store: then only reads within a budget do without read-ahead.
    """
    wanted = frozenset(columns)
    leaves = [at for at in range(metadata.num_columns) if _wanted(metadata.schema.column(at).path, wanted)]
    stored = [
        sum(metadata.row_group(group).column(at).total_compressed_size for at in leaves)
        if len(leaves) < metadata.num_columns
        else metadata.row_group(group).total_byte_size
        for group in groups
    ]
    held = sum(stored) if remote else max(stored, default=0)
    if held <= batch_bytes or (remote and batch_bytes >= DEFAULT_BATCH_BYTES):
        return 0
    least = _LEAST_REMOTE_BUFFER if remote else _LEAST_BUFFER
    return min(max(least, batch_bytes // (2 * len(leaves))), _MOST_BUFFER)


def chunks_in_order(
    metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str], *, side_by_side: bool
) -> list[list[tuple[int, int]]]:
    """Where the column chunks of row groups begin and end, in the order in which pyarrow reads them.

    Args:
        metadata: the footer.
        groups: row groups that are read.
        columns: wanted columns, or paths of leaves.
        side_by_side: columns are read piece by piece: then each has a list of its own.
    """
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    leaves = [at for column in columns for at, path in enumerate(paths) if _wanted(path, frozenset([column]))]
    by_leaf = [[_position(metadata.row_group(group).column(at)) for group in groups] for at in leaves]
    return by_leaf if side_by_side else [[position for group in zip(*by_leaf, strict=True) for position in group]]


def _position(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    dictionary = chunk.dictionary_page_offset
    start = chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset)
    return start, start + chunk.total_compressed_size


def _wanted(path: str, columns: Set[str]) -> bool:
    """Whether a leaf is one of the columns, or below one."""
    return path in columns or any(path[:at] in columns for at, sign in enumerate(path) if sign == ".")


def _fixed_bytes(chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema) -> int:
    """Bytes of a column without those of its strings."""
    if chunk.physical_type == "BYTE_ARRAY":
        width = _OFFSET_BYTES
    elif chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = max(int(column.length), _DECIMAL_BYTES)
    else:
        width = _DECIMAL_BYTES if column.logical_type.type == "DECIMAL" else _WIDTHS.get(chunk.physical_type, 16)
    return int(chunk.num_values) * width


def decoded_footer(metadata: pq.FileMetaData) -> Struct:
    """The footer as a Thrift struct; the file is not asked."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    return decode(data[-8 - length : -8])


def _unencoded_bytes(footer: Struct, group: int, leaf: int, column: pq.ColumnChunkMetaData) -> int | None:
    chunk = footer[_ROW_GROUPS][1].items[group][_COLUMNS][1].items[leaf][_META_DATA][1]
    if not column.has_dictionary_page and not _DELTAS.intersection(column.encodings):
        return int(column.total_uncompressed_size)
    if _SIZE_STATISTICS not in chunk:
        return None
    value = chunk[_SIZE_STATISTICS][1].get(_UNENCODED_BYTES)
    return None if value is None else max(0, int(value[1]))


def _counted(file: pq.ParquetFile, group: int, leaves: list[str]) -> int:
    """Count the bytes of strings that are read as dictionaries."""
    batches = file.iter_batches(_COUNT_ROWS, [group], leaves, use_threads=False)
    return sum(_string_bytes(column) for batch in batches for column in batch.columns)


def _string_bytes(array: pa.Array) -> int:
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_string_bytes, array.flatten()))
    if pa.types.is_map(kind):
        return _string_bytes(array.keys) + _string_bytes(array.items)
    if pa.types.is_list(kind):
        return _string_bytes(array.flatten())
    return int(array.nbytes)


def group_batches(
    file: pq.ParquetFile, group: int, columns: list[str], rows: int, most_bytes: int, *, use_threads: bool
) -> Iterator[pa.RecordBatch]:
    """The batches of one row group, with fewer rows once they are larger than estimated.

    Args:
        file: the open file.
        group: the row group.
        columns: columns, or paths of leaves.
        rows: rows of a batch at first.
        most_bytes: a batch of twice this size is followed by smaller ones.
        use_threads: decode columns in parallel.
    """
    done, total = 0, file.metadata.row_group(group).num_rows
    while done < total:
        before = 0
        for batch in file.iter_batches(rows, [group], columns, use_threads=use_threads):
            start, before = before, before + batch.num_rows
            if before <= done:
                continue
            size, count = batch.nbytes, batch.num_rows
            yield batch.slice(done - start) if start < done else batch
            done = before
            del batch
            if size > 2 * most_bytes and count > 1 and done < total:
                rows = max(1, min(rows - 1, count * most_bytes // size))
                break
        else:
            return
