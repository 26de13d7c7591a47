"""Values of ORC files that pyarrow does not give as Java does: timestamps far from 1970, CHAR, local time zones.

Timestamps such as 9999-12-31 do not fit into 64-bit nanoseconds. pyarrow gives ORC's timestamps in nanoseconds only. An
ORC file stores seconds and nanoseconds apart ("Timestamp Columns" of the specification), so the library reads each
alone from the same bytes under another footer: the seconds as the numbers of a LONG column, the nanoseconds alongside
seconds that are all 0. Nothing is decoded here but footers.

CHAR(n): ORC pads it with blanks, and readers take trailing blanks off. TIMESTAMP WITH LOCAL TIME ZONE: Java by default
(`orc.timestamp-ltz.legacy.type`) stores the UTC wall clock as if it were one of the writing JVM's time zone; the zone
stands in the stripe's footer, so the original instant can be restored in any time zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from paimon_spark.errors import DataError
from paimon_spark.spec import data_types as t
from paimon_spark.storage import arrow_layout
from paimon_spark.storage.data_file import SplicedFile
from paimon_spark.storage.orc_footer import (
    Message,
    OrcTail,
    decode,
    encode,
    number,
    packed,
    read_stripe_footer,
    signed,
)
from paimon_spark.storage.store_options import redact

_LONG, _TIMESTAMP, _TIMESTAMP_INSTANT = 4, 9, 18
"""Kinds of types."""
_DATA: Final = 1
"""Kind of the stream that holds a timestamp's seconds."""
_EPOCH: Final = 1_420_070_400
"""Seconds of 2015-01-01, from where the seconds in files count."""
_PER_SECOND: Final[Mapping[str, int]] = {"us": 10**6, "ns": 10**9}
_LEAST: Final = -2_208_988_800_000 + 86_400_000
"""Milliseconds of 1900-01-02: before, Java and ORC's own library take other offsets for a time zone."""
_GREATEST: Final = (2**63 - 1) // 10**6 - 1

UTC_NAMES = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "UCT"})
_BEFORE_1900 = -2_208_988_800
_WINTER_AND_SUMMER = (2_114_380_800, 2_130_105_600)
"""2037-01-01 and 2037-07-02."""


def is_far(tail: OrcTail, stripe: int, name: str) -> bool:
    """Whether a column of a stripe may hold a timestamp, at any depth, that the library does not read as Java does.

    Raises:
        ValueError: the tail is damaged.
    """
    for column in _timestamps_below(tail, tail.columns.get(name, 0)):
        if stripe >= len(tail.stripe_statistics) or column >= len(tail.stripe_statistics[stripe]):
            return True
        message = decode(tail.stripe_statistics[stripe][column])
        bounds = _bounds_millis(message)
        if number(message, 1) and any(value is None or not _LEAST <= value <= _GREATEST for value in bounds):
            return True
    return False


class FarTimestamps:
    """Reads the columns of one open ORC file whose timestamps may be far from 1970."""

    def __init__(self, source: pa.NativeFile, tail: OrcTail, path: str) -> None:
        self._source, self._tail, self._path = source, tail, path
        types = [{**kind, 1: [_LONG]} if _is_timestamp(kind) else kind for kind in tail.types]
        changed = {**tail.footer, 4: [encode(kind) for kind in types]}
        self._seconds = orc.ORCFile(_with_footer(source, tail, tail.content_end, b"", changed))

    def read_stripe(self, stripe: int, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        """Columns of a stripe.

        Args:
            stripe: Number of the stripe.
            names: Top-level columns.
            schema: The wanted columns. Nanoseconds are given where it has nanoseconds, else microseconds.

        Returns:
            The file's columns and types but for the units; no time zone is restored (see `restored`).

        Raises:
            DataError: a timestamp does not fit the wanted unit.
            ValueError: the file is damaged.
        """
        seconds = self._seconds.read_stripe(stripe, columns=names)
        columns = [self._tail.columns[name] for name in names]
        slots: dict[int, int] = {}
        for column, array in zip(columns, seconds.columns, strict=True):
            self._count(column, array, slots)
        footer = read_stripe_footer(self._source, self._tail, stripe)
        nanos = self._nanos_file(stripe, footer, slots).read_stripe(0, columns=names)
        zones = footer.get(3, [b""])
        zone = bytes(zones[-1]).decode("utf-8", "replace")
        arrays = []
        for column, name, one, other in zip(columns, names, seconds.columns, nanos.columns, strict=True):
            try:
                arrays.append(self._joined(column, one, other, schema.field(name).type, zone))
            except DataError as error:
                raise DataError(f"Column '{name}': {error} (file: {redact(self._path)})") from error
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _count(self, column: int, array: pa.Array, slots: dict[int, int]) -> None:
        """Count the values of each timestamp column, nulls included."""
        if _is_timestamp(self._tail.types[column]):
            slots[column] = len(array)
        for child, part in zip(self._tail.children(column), nested_parts(array), strict=True):
            self._count(child, part, slots)

    def _nanos_file(self, stripe: int, footer: Message, slots: Mapping[int, int]) -> orc.ORCFile:
        """The stripe as a file of its own in which the seconds of all timestamps are 0.

        The streams that hold the seconds are given to the root, which reads none, and others are put at the end.
        """
        tail, info = self._tail, self._tail.stripes[stripe]
        encodings = [number(decode(message), 1) for message in footer.get(2, [])]
        streams, added = [], b""
        for message in map(decode, footer.get(1, [])):
            if number(message, 1) == _DATA and number(message, 2) in slots:
                message = {**message, 2: [0]}
            streams.append(encode(message))
        for column, count in slots.items():
            zeros = packed(_zeros(count, version=encodings[column]), tail.codec, tail.block_bytes)
            streams.append(encode({1: [_DATA], 2: [column], 3: [len(zeros)]}))
            added += zeros
        start, index, data = (number(info, field) for field in (1, 2, 3))
        stripe_footer = packed(encode({**footer, 1: streams}), tail.codec, tail.block_bytes)
        alone = {**info, 3: [data + len(added)], 4: [len(stripe_footer)]}
        changed = {**tail.footer, 3: [encode(alone)], 6: [tail.stripe_rows[stripe]]}
        cut = start + index + data
        return orc.ORCFile(_with_footer(self._source, tail, cut, added + stripe_footer, changed))

    def _joined(self, column: int, seconds: pa.Array, nanos: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
        """Seconds and nanoseconds of one column, which have the same shape, as its values."""
        kind = self._tail.types[column]
        if _is_timestamp(kind):
            instant = number(kind, 1) == _TIMESTAMP_INSTANT
            unit = wanted.unit if pa.types.is_timestamp(wanted) and wanted.unit == "ns" else "us"
            target = pa.timestamp(unit, nanos.type.tz)
            return _timestamps(seconds, nanos, target, "" if instant or zone in UTC_NAMES else zone)
        children = self._tail.children(column)
        if not children:
            return seconds
        parts = [
            self._joined(child, one, other, inner, zone)
            for child, one, other, inner in zip(
                children, nested_parts(seconds), nested_parts(nanos), _inner(wanted, seconds.type), strict=True
            )
        ]
        return _with_parts(seconds, parts)


def _timestamps_below(tail: OrcTail, column: int) -> Iterator[int]:
    if _is_timestamp(tail.types[column]):
        yield column
    for child in tail.children(column):
        yield from _timestamps_below(tail, child)


def _is_timestamp(kind: Message) -> bool:
    return number(kind, 1) in (_TIMESTAMP, _TIMESTAMP_INSTANT)


def _bounds_millis(message: Message) -> list[int | None]:
    """Least and greatest timestamp of a column, UTC ones where the writer gave them."""
    inner = decode(message.get(9, [b""])[-1])
    found = [(inner.get(utc) or inner.get(local) or [None])[-1] for local, utc in ((1, 3), (2, 4))]
    return [None if value is None else signed(value) for value in found]


def _zeros(count: int, *, version: int) -> bytes:
    """A stream of at least `count` zeros: DELTA runs of 512 (version 2), or runs of 130."""
    if version in (2, 3):  # DIRECT_V2, DICTIONARY_V2
        return b"\xc1\xff\x00\x00" * (count // 512 + 1)
    return b"\x7f\x00\x00" * (count // 130 + 1)


def _with_footer(source: pa.NativeFile, tail: OrcTail, cut: int, added: bytes, footer: Message) -> pa.PythonFile:
    """The file's first bytes, then others, then a footer without statistics."""
    packed_footer = packed(encode({**footer, 7: []}), tail.codec, tail.block_bytes)
    postscript = encode({**tail.postscript, 1: [len(packed_footer)], 5: [0]})
    end = added + packed_footer + postscript + bytes([len(postscript)])
    return pa.PythonFile(SplicedFile(source, 0, cut, end), mode="r")


def _timestamps(seconds: pa.Array, nanos: pa.Array, target: pa.TimestampType, zone: str) -> pa.Array:
    """Java's ``TimestampTreeReader``: whole seconds, rounded towards 1970, and the fraction."""
    whole = np.asarray(seconds.fill_null(0)) + _EPOCH
    if zone:
        whole = whole - zone_offset(np.array([_EPOCH]), zone)[0]
    fraction = np.asarray(nanos.fill_null(0).view(pa.int64())) % 10**9
    whole = whole - ((whole < 0) & (fraction > 999_999))
    if zone:
        whole = whole + zone_offset(whole, zone)
    per_second = _PER_SECOND[target.unit]
    most = (2**63 - 1) // per_second - 1
    if len(whole) and (whole.min() < -most or whole.max() > most):
        raise DataError(
            "a timestamp is before 1677-09-22 or after 2262-04-10, which does not fit into 64-bit nanoseconds; "
            "read without this column, or declare it TIMESTAMP(6)"
            if target.unit == "ns"
            else "a timestamp is more than 292,000 years from 1970; read without this column"
        )
    values = pa.array(whole * per_second + fraction // (10**9 // per_second), pa.int64())
    if seconds.null_count:
        values = pc.if_else(seconds.is_valid(), values, pa.scalar(None, pa.int64()))
    return values.view(target)


def _inner(wanted: pa.DataType, found: pa.DataType) -> list[pa.DataType]:
    """The wanted types of a nested type's children, in the file's order; null where a child is not wanted."""
    if pa.types.is_struct(found):
        names = [field.name for field in found]
        kinds = {field.name: field.type for field in wanted} if pa.types.is_struct(wanted) else {}
        return [kinds.get(name, pa.null()) for name in names]
    if pa.types.is_map(found):
        return [wanted.key_type, wanted.item_type] if pa.types.is_map(wanted) else [pa.null()] * 2
    return [wanted.value_type if pa.types.is_list(wanted) else pa.null()]


def nested_parts(array: pa.Array) -> list[pa.Array]:
    """Children of a nested array that begins at offset 0, in ORC's order; none of another."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(at) for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if pa.types.is_list(kind) else []


def _with_parts(array: pa.Array, parts: Sequence[pa.Array]) -> pa.Array:
    """The same nested array with other children."""
    kind, fields = array.type, [pa.field(f"{at}", part.type) for at, part in enumerate(parts)]
    if pa.types.is_struct(kind):
        fields = [old.with_type(new.type) for old, new in zip(kind, fields, strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(list(parts), fields=fields, mask=mask)
    if pa.types.is_map(kind):
        target: pa.DataType = pa.map_(parts[0].type, parts[1].type)
        entries = pa.StructArray.from_arrays(list(parts), fields=[target.key_field, target.item_field])
        items = entries
    else:
        target, items = pa.list_(kind.value_field.with_type(parts[0].type)), parts[0]
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [items])


def needs_restoring(kind: t.DataType, zone: str) -> bool:
    """Whether values of this type have to go through `restored`."""
    match kind:
        case t.CharType():
            return True
        case t.LocalZonedTimestampType():
            return zone not in UTC_NAMES
        case t.ArrayType() | t.MultisetType():
            return needs_restoring(kind.element, zone)
        case t.MapType():
            return needs_restoring(kind.key, zone) or needs_restoring(kind.value, zone)
        case t.RowType():
            return any(needs_restoring(field.type, zone) for field in kind.fields)
    return False


def restored(array: pa.Array, kind: t.DataType, zone: str) -> pa.Array:
    """The values as Java's reader gives them.

    Args:
        array: Values in the Arrow type of their Paimon type.
        kind: The Paimon type.
        zone: Time zone of the JVM that wrote legacy local-zoned timestamps; a name of UTC where they are instants.
    """
    if not needs_restoring(kind, zone):
        return array
    match kind:
        case t.CharType():
            return pc.utf8_rtrim(array, characters=" ")
        case t.LocalZonedTimestampType():
            return _as_local(array, zone)
    kinds = (kind.element, t.IntType()) if isinstance(kind, t.MultisetType) else t.nested_types(kind)
    parts = [restored(part, inner, zone) for part, inner in zip(nested_parts(array), kinds, strict=True)]
    return arrow_layout.relabel(_with_parts(array, parts), array.type)


def zone_offset(instants: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Seconds by which a zone's clocks are ahead of UTC at instants in seconds, as ``java.util.TimeZone`` knows them.

    Java: it knows nothing of the time before 1900, and takes today's standard time for it.
    """
    known = np.maximum(instants, _BEFORE_1900)
    offsets = _offsets(known, zone)
    standard = _offsets(np.array(_WINTER_AND_SUMMER), zone).min()
    return np.where(instants < _BEFORE_1900, standard, offsets)


def _offsets(instants: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    local = pc.local_timestamp(pa.array(instants, pa.int64()).cast(pa.timestamp("s", zone)))
    return np.asarray(local.cast(pa.int64())) - instants


def _as_local(array: pa.TimestampArray, zone: str) -> pa.Array:
    """Instants as what a zone's clocks showed, as if that were UTC."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    values = array.view(pa.int64())
    known = np.asarray(values.fill_null(0))
    shifts = pa.array(zone_offset(known // per_second, zone) * per_second, pa.int64())
    return pc.add(values, shifts).view(array.type)
