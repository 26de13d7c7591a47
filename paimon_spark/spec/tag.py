"""A tag: a snapshot under a name, perhaps with a time to live (docs/internals/spec/tags-proposal.txt, Java ``Tag``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from paimon_spark.spec.json_text import JsonFields, parse_json_object, pretty_json
from paimon_spark.spec.snapshot import Snapshot, snapshot_from_fields

_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"


@dataclass(frozen=True, slots=True)
class Tag:
    """What a tag file holds.

    Attributes:
        snapshot: The snapshot that the tag keeps.
        create_time: When the tag was made, a local wall clock time; written only together with `time_retained`.
        time_retained: How long the tag lives; None forever.
        create_time_nanos: Nanoseconds of `create_time` below its microsecond, 0 to 999.
    """

    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained: timedelta | None = None
    create_time_nanos: int = 0

    @staticmethod
    def from_json(data: bytes | str, *, path: str | None = None) -> Tag:
        """The tag in a tag file.

        Raises:
            CorruptTableError: Not a tag file.
        """
        values = JsonFields(parse_json_object(data, what="tag", path=path), "tag", path)
        create_time, time_retained = values.rest.pop(_CREATE_TIME, None), values.rest.pop(_TIME_RETAINED, None)
        created, nanos = (None, 0) if create_time is None else _local_date_time(create_time, values)
        return Tag(
            snapshot=snapshot_from_fields(values),
            create_time=created,
            time_retained=None if time_retained is None else _duration(time_retained, values),
            create_time_nanos=nanos,
        )

    def to_json(self) -> str:
        """The text of the tag file, byte for byte as Java writes it: the plain snapshot when nothing is retained."""
        value = replace(self.snapshot, unknown={}).to_json_object()
        if self.create_time is not None and self.time_retained is not None:
            value[_CREATE_TIME] = _date_time_array(self.create_time, self.create_time_nanos)
        if self.time_retained is not None:
            seconds, micros = divmod(self.time_retained // timedelta(microseconds=1), 1_000_000)
            # Java: a Duration is written as seconds with nine digits; a whole zero comes out as 0.0
            value[_TIME_RETAINED] = Decimal(f"{seconds}.{micros * 1000:09d}") if seconds or micros else Decimal("0.0")
        return pretty_json({**value, **self.snapshot.unknown})


def _date_time_array(time: datetime, nanos_below: int) -> list[int]:
    """Jackson's array of a LocalDateTime: seconds and nanoseconds are left out when they are zero."""
    parts = [time.year, time.month, time.day, time.hour, time.minute]
    nanos = time.microsecond * 1000 + nanos_below
    if time.second or nanos:
        parts.append(time.second)
    if nanos:
        parts.append(nanos)
    return parts


def _local_date_time(value: Any, values: JsonFields) -> tuple[datetime, int]:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=None), 0
        if isinstance(value, list) and all(isinstance(part, int) for part in value) and 5 <= len(value) <= 7:
            year, month, day, hour, minute, second, nanos = (*value, 0, 0)[:7]
            return datetime(year, month, day, hour, minute, second, nanos // 1000), nanos % 1000
    except (ValueError, OverflowError):
        pass
    values.fail(f"'{_CREATE_TIME}' is no local time: {str(value)[:100]}")


def _duration(value: Any, values: JsonFields) -> timedelta:
    try:
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return timedelta(microseconds=int(value * 1_000_000))
    except (OverflowError, ArithmeticError):
        pass
    values.fail(f"'{_TIME_RETAINED}' is no number of seconds: {str(value)[:100]}")
