"""The periods of automatic tags, and the names of these tags (Java ``TagPeriodHandler``, ``TagTimeExtractor``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from paimon_spark.errors import OptionError
from paimon_spark.options import CoreOptions

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
