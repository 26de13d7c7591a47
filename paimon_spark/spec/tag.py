"""A tag: a snapshot under a name, perhaps with a time to live; and the periods and names of automatic tags.

Source: docs/internals/spec/tags-proposal.txt, Java ``Tag``, ``TagPeriodHandler``, ``TagTimeExtractor``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_spark.errors import OptionError
from paimon_spark.options import CoreOptions
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


_NO_WATERMARK = -(2**63)
_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)
_DAYS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTES = "%Y%m%d%H%M"
_PERIODS = {"daily": _DAY, "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """How time is cut into periods, and what their tags are called. Times are local ones, without a zone."""

    length: timedelta
    pattern: str
    """Of names, as `strftime` has it."""

    @classmethod
    def of(cls, options: CoreOptions) -> TagPeriod:
        """The periods that a table's options ask for.

        Raises:
            OptionError: a period is empty, or the delay is not shorter than a period.
        """
        chosen, style = str(options.value("tag.creation-period")), str(options.value("tag.period-formatter"))
        length = options.value("tag.creation-period-duration")
        if length is not None:
            period = cls(length, _MINUTES)
        elif chosen == "daily":
            period = cls(_DAY, _DAYS[style])
        else:
            period = cls(_PERIODS[chosen], _HOURS["with_dashes" if chosen == "two-hours" else style])
        if period.length < timedelta(milliseconds=1):
            raise OptionError("Option 'tag.creation-period-duration' must be at least one millisecond.")
        delay = options.value("tag.creation-delay")
        if delay >= period.length:
            raise OptionError(
                f"Option 'tag.creation-delay' ({delay}) must be shorter than the period of the tags ({period.length})."
            )
        return period

    def name(self, time: datetime) -> str:
        """The name of the tag of the period that begins at a time."""
        return time.strftime(self.pattern.replace("%Y", f"{time.year:04d}"))

    def time(self, name: str) -> datetime | None:
        """The beginning of the period that a tag is named after; None where it is not the name of an automatic tag."""
        text = name.split(" ")[0] if self.length == _DAY and "%H" not in self.pattern else name
        try:
            found = datetime.strptime(text, self.pattern)
        except ValueError:
            return None
        return found if self.name(found) == text else None  # each part has all its digits

    def previous(self, time: datetime) -> datetime:
        """The beginning of the last period that is complete at a time."""
        millis, length = (time - _EPOCH) // timedelta(milliseconds=1), self.length // timedelta(milliseconds=1)
        whole = abs(millis) // length * length
        return _EPOCH + timedelta(milliseconds=whole if millis >= 0 else -whole) - self.length

    def next(self, time: datetime) -> datetime:
        """The beginning of the period after one."""
        return time + self.length


def time_zone(text: str, *, key: str) -> tzinfo:
    """The zone of a name such as ``Europe/Berlin`` or an offset such as ``GMT-08:00``.

    Raises:
        OptionError: it is neither; the message names the option ``key``.
    """
    given = text.strip()
    offset = _OFFSET.fullmatch(given)
    if offset is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if ahead <= timedelta(hours=18):
            return timezone(ahead if offset[1] == "+" else -ahead)
    if given in ("Z", "UTC", "GMT", "UT"):
        return UTC
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(
            f"Option '{key}' cannot be '{text}': it is a zone like 'America/Los_Angeles' or 'GMT-08:00'."
        ) from None


def process_time(options: CoreOptions, time_millis: int) -> datetime:
    """The local time of a commit in the zone of `sink.process-time-zone`, by default this process's.

    Raises:
        OptionError: there is no such zone.
    """
    zone = options.value("sink.process-time-zone")
    return _local(time_millis, None if zone is None else time_zone(zone, key="sink.process-time-zone"))


def tag_time(options: CoreOptions, time_millis: int, watermark: int | None) -> datetime | None:
    """The local time by which a snapshot's automatic tag is chosen; None without a watermark, if that is asked for.

    Args:
        options: `tag.automatic-creation` is process-time or watermark.
        time_millis: when the snapshot was committed, epoch milliseconds.
        watermark: of the snapshot, epoch milliseconds.

    Raises:
        OptionError: there is no such zone.
    """
    if options.value("tag.automatic-creation") != "watermark":
        return process_time(options, time_millis)
    if watermark is None or watermark == _NO_WATERMARK:
        return None
    return _local(watermark, time_zone(options.value("sink.watermark-time-zone"), key="sink.watermark-time-zone"))


def _local(millis: int, zone: tzinfo | None) -> datetime:
    seconds, rest = divmod(millis, 1000)
    return datetime.fromtimestamp(seconds, zone).replace(tzinfo=None) + timedelta(milliseconds=rest)
