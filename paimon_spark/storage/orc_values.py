"""What Java does to values on their way out of ORC files, beyond their types.

CHAR(n): ORC pads it with blanks, and readers take trailing blanks off. TIMESTAMP WITH LOCAL TIME ZONE: Java by default
(`orc.timestamp-ltz.legacy.type`) stores the UTC wall clock as if it were one of the writing JVM's time zone; the zone
stands in the stripe's footer, so the original instant can be restored in any time zone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec import data_types as t
from paimon_spark.storage import arrow_layout

UTC_NAMES = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "UCT"})
_BEFORE_1900 = -2_208_988_800
_WINTER_AND_SUMMER = (2_114_380_800, 2_130_105_600)
"""2037-01-01 and 2037-07-02."""


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
        case t.ArrayType():
            return _with_children(array, restored(array.values, kind.element, zone))
        case t.MapType():
            return _with_entries(array, restored(array.keys, kind.key, zone), restored(array.items, kind.value, zone))
        case t.MultisetType():
            return _with_entries(array, restored(array.keys, kind.element, zone), array.items)
        case t.RowType():
            children = [restored(array.field(at), field.type, zone) for at, field in enumerate(kind.fields)]
            fields = [pa.field(child.name, child.type) for child in array.type]
            mask = array.is_null() if array.null_count else None
            return arrow_layout.relabel(pa.StructArray.from_arrays(children, fields=fields, mask=mask), array.type)
    return array


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


def _with_entries(array: pa.MapArray, keys: pa.Array, items: pa.Array) -> pa.Array:
    fields = [array.type.key_field, array.type.item_field]
    return _with_children(array, pa.StructArray.from_arrays([keys, items], fields=fields))


def _with_children(array: pa.Array, children: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(
        array.type, len(array), array.buffers()[:2], array.null_count, array.offset, [children]
    )
