"""ORC files put together from parts, so that timestamps before 1970 are written as Java writes them.

pyarrow cuts seconds towards 1970 and then writes negative nanoseconds, which no reader understands. Rows with such
timestamps are written as a separate file in memory: each timestamp column holds the nanoseconds with seconds that are
all 0, and a LONG column behind the others holds its seconds. The streams of the seconds then replace the zeros, and the
stripe goes into the real file. Only footers and indexes are decoded ("Stripes", "File Tail" of the ORC specification).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from paimon_spark.errors import DataError
from paimon_spark.storage import arrow_layout
from paimon_spark.storage.orc_chunks import packed, to_varint, unpacked
from paimon_spark.storage.orc_footer import (
    Message,
    OrcTail,
    decode,
    encode,
    number,
    numbers,
    read_stripe_footer,
    read_tail,
)
from paimon_spark.storage.orc_timestamps import EPOCH, nested_parts, with_parts

_DATA, _ROW_INDEX = 1, 6
"""Kinds of streams."""
_MAGIC: Final = b"ORC"
_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Bounds = dict[int, tuple[int, int] | None]
"""Column number of a timestamp -> least and greatest value in milliseconds; None where all are null."""


def has_fractions_before_1970(array: pa.Array) -> bool:
    """Whether a column holds a timestamp, at any depth, that pyarrow does not write rightly."""
    if pa.types.is_nested(array.type):
        return any(map(has_fractions_before_1970, nested_parts(array)))
    if not pa.types.is_timestamp(array.type) or array.type.unit == "s":
        return False
    values = array.view(pa.int64())
    before = np.asarray(values.filter(pc.less(values, 0)))
    return bool((before % _PER_SECOND[array.type.unit]).any())


class OrcAssembly:
    """One ORC file made of the stripes of several writers, which have the same schema and settings."""

    def __init__(self, target: pa.NativeFile, open_writer: Callable[[Any], orc.ORCWriter]) -> None:
        self._target = target
        self._open_writer = open_writer
        self._sink: _Sink | None = None
        self._writer: orc.ORCWriter | None = None
        self._stripes: list[Message] = []
        self._statistics: list[list[bytes]] = []
        self._tail: OrcTail | None = None
        self._types: list[bytes] = []
        self.position = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows as pyarrow writes them."""
        if self._writer is None:
            self._sink = _Sink(self._target, skip=len(_MAGIC) if self.position else 0)
            self._writer = self._open_writer(pa.PythonFile(self._sink, mode="w"))
        self._writer.write(rows)

    @property
    def bytes_written(self) -> int:
        """Bytes in the file."""
        return self.position + (0 if self._sink is None else self._sink.passed)

    def write_apart(self, rows: pa.Table) -> None:
        """Write rows with fractions of seconds before 1970 as stripes of their own.

        Raises:
            DataError: a timestamp lies in the last second before 1970, which ORC cannot express.
        """
        self._end_part(last=False)
        splitting = _Splitting.of(rows)
        part = pa.BufferOutputStream()
        with self._open_writer(part) as writer:
            writer.write(splitting.rows)
        data = part.getvalue()
        source = pa.BufferReader(data)
        tail = read_tail(source)
        if not self.position:
            self._put(_MAGIC)
        for stripe in range(len(tail.stripes)):
            splice = _Splice(data, source, tail, stripe, splitting)
            self._stripes.append({**splice.info, 1: [self.position]})
            self._statistics.append(splice.statistics)
            self._put(splice.content)
        self._tail = self._tail or tail
        self._types = self._types or _own_types(tail, rows.num_columns, splitting.own_columns)

    def close(self) -> None:
        """Write the footer."""
        if not self._stripes:
            self._end_part(last=True)
            return
        self._end_part(last=False)
        tail = self._tail
        assert tail is not None
        content = self.position
        statistics = [encode({1: of_stripe}) for of_stripe in self._statistics]
        metadata = packed(encode({1: statistics}), tail.codec, tail.block_bytes)
        rows = sum(number(stripe, 5) for stripe in self._stripes)
        whole = [_counts(column) for column in zip(*self._statistics, strict=True)]
        changed: Message = {2: [content], 3: list(map(encode, self._stripes)), 4: self._types, 6: [rows], 7: whole}
        footer = packed(encode({**tail.footer, **changed}), tail.codec, tail.block_bytes)
        postscript = encode({**tail.postscript, 1: [len(footer)], 5: [len(metadata)]})
        self._put(metadata + footer + postscript + bytes([len(postscript)]))

    def _end_part(self, *, last: bool) -> None:
        """Close the open writer; unless the file is its alone, keep what its tail says and write only its stripes."""
        if self._writer is None and not last:
            return
        if self._writer is None:
            raise ValueError("an ORC file without a part")
        sink = self._sink
        assert sink is not None
        sink.hold()
        self._writer.close()
        held = sink.held
        if last:
            self._target.write(held)
            self.position = sink.passed + len(held)
        else:
            tail = read_tail(pa.BufferReader(held))
            ends = [sum(number(stripe, at) for at in (1, 2, 3, 4)) for stripe in tail.stripes]
            shift = self.position - sink.skipped
            own = max(ends, default=sink.skipped + sink.passed) - sink.skipped - sink.passed
            self._target.write(held[:own])
            self.position += sink.passed + own
            self._stripes += [{**stripe, 1: [number(stripe, 1) + shift]} for stripe in tail.stripes]
            self._statistics += [list(of_stripe) for of_stripe in tail.stripe_statistics]
            self._tail, self._types = tail, list(tail.footer[4])
        self._writer = self._sink = None

    def _put(self, data: bytes) -> None:
        self._target.write(data)
        self.position += len(data)


class _Sink(io.RawIOBase):
    """Passes bytes on to a file, without the first few; from `hold` on they are kept."""

    def __init__(self, target: pa.NativeFile, skip: int) -> None:
        super().__init__()
        self._target, self.skipped = target, skip
        self._at = 0
        self._holding = False
        self.held = b""

    @property
    def passed(self) -> int:
        return max(0, self._at - len(self.held) - self.skipped)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        some = bytes(data)
        wanted = some[max(0, self.skipped - self._at) :]
        self._at += len(some)
        if self._holding:
            self.held += wanted
        else:
            self._target.write(wanted)
        return len(some)

    def hold(self) -> None:
        self._holding = True


@dataclass
class _Splitting:
    """Rows whose timestamps are split: columns with nanoseconds, behind them columns with seconds.

    Attributes:
        rows: The columns, then those of seconds.
        own_columns: How many column numbers the columns take, the root's included.
        seconds_of: Column number of each timestamp -> that of its seconds.
        bounds: Of each timestamp.
    """

    rows: pa.Table
    own_columns: int
    seconds_of: dict[int, int] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)

    @staticmethod
    def of(rows: pa.Table) -> _Splitting:
        own = 1 + sum(map(_width, rows.schema.types))
        split = _Splitting(rows, own)
        at, seconds_at = 1, own
        columns, fields, seconds_arrays = [], [], []
        for kind, column in zip(rows.schema, rows.columns, strict=True):
            width = _width(kind.type)
            if _has_timestamps(kind.type):
                array, seconds = split._split(_in_one_piece(column), at, seconds_at, kind.name)
                seconds_arrays.append(arrow_layout.with_nulls_pushed_down(seconds))
                seconds_at += width
                kind = kind.with_type(_with_metadata(array.type, kind.type))
                column = arrow_layout.relabel(array, kind.type)
            fields.append(kind)
            columns.append(column)
            at += width
        names = [f"seconds {n}" for n in range(len(seconds_arrays))]
        extra = [pa.field(name, array.type) for name, array in zip(names, seconds_arrays, strict=True)]
        schema = pa.schema([*fields, *extra])
        split.rows = pa.Table.from_arrays([*columns, *seconds_arrays], schema=schema)
        return split

    def _split(self, array: pa.Array, at: int, seconds_at: int, name: str) -> tuple[pa.Array, pa.Array]:
        """The nanoseconds and the seconds of a column."""
        kind = array.type
        if pa.types.is_timestamp(kind):
            self.seconds_of[at] = seconds_at
            return self._split_timestamps(array, at, name)
        parts = nested_parts(array)
        if not parts:
            return array, pa.array(np.zeros(len(array), bool))
        ones, twos = [], []
        here, there = at + 1, seconds_at + 1
        for part in parts:
            one, two = self._split(part, here, there, name)
            ones.append(one)
            twos.append(two)
            here, there = here + _width(part.type), there + _width(part.type)
        return with_parts(array, ones), with_parts(array, twos)

    def _split_timestamps(self, array: pa.Array, at: int, name: str) -> tuple[pa.Array, pa.Array]:
        per_second = _PER_SECOND[array.type.unit]
        values = np.asarray(array.view(pa.int64()).fill_null(0))
        seconds = values // per_second
        nanos = (values - seconds * per_second) * (10**9 // per_second)
        late = nanos > 999_999
        if (late & (seconds == -1)).any():
            raise DataError(
                f"Column '{name}' holds a timestamp in the last second before 1970 (from 1969-12-31 23:59:59.001 UTC), "
                "which cannot be written to ORC files: every reader would take it for a second later. "
                "Set the table option 'file.format' to 'parquet'."
            )
        stored = seconds + ((seconds < 0) & late) - EPOCH
        known = values[np.asarray(array.is_valid())]
        self.bounds[at] = None
        if len(known):
            low, high = (int(value) * 1000 for value in (known.min(), known.max()))
            self.bounds[at] = low // per_second, -(-high // per_second)
        mask = np.asarray(array.is_null())
        fraction = pa.array(nanos, pa.int64(), mask=mask).view(pa.timestamp("ns", array.type.tz))
        return fraction, pa.array(stored, pa.int64(), mask=mask)


class _Splice:
    """One stripe of split rows with the seconds put where they belong."""

    def __init__(self, data: pa.Buffer, source: Any, tail: OrcTail, stripe: int, splitting: _Splitting) -> None:
        self._tail, self._splitting = tail, splitting
        info = tail.stripes[stripe]
        footer = read_stripe_footer(source, tail, stripe)
        at = number(info, 1)
        streams: dict[tuple[int, int], bytes] = {}
        for message in map(decode, footer.get(1, [])):
            length = number(message, 3)
            streams[number(message, 1), number(message, 2)] = data[at : at + length].to_pybytes()
            at += length
        kept = {key: content for key, content in streams.items() if key[1] < splitting.own_columns}
        for column, seconds in splitting.seconds_of.items():
            if (_DATA, column) in kept:
                kept[_DATA, column] = streams.get((_DATA, seconds), b"")
            if (_ROW_INDEX, column) in kept:
                kept[_ROW_INDEX, column] = self._index(column, kept[_ROW_INDEX, column], streams[_ROW_INDEX, seconds])
        listed = [encode({1: [kind], 2: [column], 3: [len(some)]}) for (kind, column), some in kept.items()]
        encodings = footer.get(2, [])[: splitting.own_columns]
        end = packed(encode({**footer, 1: listed, 2: encodings}), tail.codec, tail.block_bytes)
        index = sum(len(some) for (kind, _), some in kept.items() if kind == _ROW_INDEX)
        total = sum(map(len, kept.values()))
        self.content = b"".join(kept.values()) + end
        self.info = {**info, 2: [index], 3: [total - index], 4: [len(end)]}
        self.statistics = [
            self._bounded(column, message) if column in splitting.seconds_of else message
            for column, message in enumerate(tail.stripe_statistics[stripe][: splitting.own_columns])
        ]

    def _index(self, column: int, own: bytes, seconds: bytes) -> bytes:
        """A row index whose positions lead to the seconds, then to the nanoseconds."""
        tail = self._tail
        entries = []
        for one, two in zip(self._entries(own), self._entries(seconds), strict=True):
            first = list(numbers(two.get(1, [])))
            positions = first + list(numbers(one.get(1, [])))[len(first) :]
            statistics = [self._bounded(column, message) for message in one.get(2, [])]
            entries.append(encode({1: [b"".join(map(to_varint, positions))], 2: statistics}))
        return packed(encode({1: entries}), tail.codec, tail.block_bytes)

    def _entries(self, index: bytes) -> Iterator[Message]:
        tail = self._tail
        return map(decode, decode(unpacked(index, tail.codec, tail.block_bytes)).get(1, []))

    def _bounded(self, column: int, message: bytes) -> bytes:
        """Statistics of a timestamp with the bounds of all the rows that were split."""
        statistics = decode(message)
        bounds = self._splitting.bounds[column]
        statistics.pop(9, None)
        if bounds is not None and number(statistics, 1):
            low, high = ((value << 1) ^ (value >> 63) for value in bounds)
            statistics[9] = [encode({3: [low], 4: [high]})]
        return encode(statistics)


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column without slices at any depth; pyarrow does not concatenate all slices of nested arrays."""
    chunks = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in column.chunks]
    return pa.concat_arrays(chunks)


def _own_types(tail: OrcTail, columns: int, width: int) -> list[bytes]:
    """The Type messages without the columns of seconds."""
    root = tail.types[0]
    children = b"".join(map(to_varint, list(tail.children(0))[:columns]))
    return [encode({**root, 2: [children], 3: root.get(3, [])[:columns]}), *tail.footer[4][1:width]]


def _counts(statistics: Sequence[bytes]) -> bytes:
    """Statistics of a whole file: how many values there are, and whether there are nulls."""
    messages = list(map(decode, statistics))
    return encode({1: [sum(number(m, 1) for m in messages)], 10: [int(any(number(m, 10) for m in messages))]})


def _width(kind: pa.DataType) -> int:
    """How many column numbers a type takes."""
    if pa.types.is_map(kind):
        return 1 + _width(kind.key_type) + _width(kind.item_type)
    if pa.types.is_list(kind):
        return 1 + _width(kind.value_type)
    if pa.types.is_struct(kind):
        return 1 + sum(_width(child.type) for child in kind)
    return 1


def _has_timestamps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_timestamps(kind.key_type) or _has_timestamps(kind.item_type)
    if pa.types.is_list(kind):
        return _has_timestamps(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_timestamps(child.type) for child in kind)
    return bool(pa.types.is_timestamp(kind))


def _with_metadata(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A type with the names and metadata of another of the same shape."""
    if pa.types.is_struct(wanted):
        pairs = zip(found, wanted, strict=True)
        return pa.struct([two.with_type(_with_metadata(one.type, two.type)) for one, two in pairs])
    if pa.types.is_map(wanted):
        key, item = wanted.key_field, wanted.item_field
        return pa.map_(
            key.with_type(_with_metadata(found.key_type, key.type)),
            item.with_type(_with_metadata(found.item_type, item.type)),
        )
    if pa.types.is_list(wanted):
        inner = wanted.value_field
        return pa.list_(inner.with_type(_with_metadata(found.value_type, inner.type)))
    return found
