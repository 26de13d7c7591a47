"""Names of automatic tags as times (Java ``TagPeriodHandler.tagToTime``)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions

_HOURS = {
    "with_dashes": r"(\d{4})-(\d\d)-(\d\d) (\d\d)",
    "without_dashes": r"(\d{4})(\d\d)(\d\d) (\d\d)",
    "without_dashes_and_spaces": r"(\d{4})(\d\d)(\d\d)(\d\d)",
}
_DASHED_DAY = r"(\d{4})-(\d\d)-(\d\d)"
_PLAIN_DAY = r"(\d{4})(\d\d)(\d\d)"
_MINUTE = r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"


def auto_tag_time(options: CoreOptions, name: str) -> datetime | None:
    """Return the time that an automatic tag stands for; None of a name that no automatic tag has.

    Args:
        options: of the table: `tag.creation-period`, `tag.creation-period-duration`, `tag.period-formatter`.
        name: of any tag.
    """
    formatter = options.value("tag.period-formatter")
    period = options.value("tag.creation-period")
    if options.is_set("tag.creation-period-duration"):
        pattern = _MINUTE
    elif period == "daily":
        name = name.split(" ")[0]
        pattern = _DASHED_DAY if formatter == "with_dashes" else _PLAIN_DAY
    else:
        pattern = _HOURS["with_dashes" if period == "two-hours" else formatter]
    found = re.fullmatch(pattern, name, re.ASCII)
    if found is None:
        return None
    year, month, day, hour, minute = (int(part) for part in (*found.groups(), "0", "0")[:5])
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None
