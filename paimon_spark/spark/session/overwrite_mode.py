"""Whether an overwrite replaces the table or only the partitions of the data: decided here for every entry point.

The nearest wins, as for Spark's own files: an option of the write, then the session, then the table. An option is
Spark's `partitionOverwriteMode` or Paimon's `dynamic-partition-overwrite`; the session has
``spark.sql.sources.partitionOverwriteMode`` and ``spark.paimon.dynamic-partition-overwrite``, of which one that says
"dynamic" is enough; of the table only what it was given counts, not Paimon's default. Where nobody says anything, the
table is replaced. Java: the connector reads neither option where a table is written by its path; this is safer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from paimon_spark.errors import OptionError
from paimon_spark.spark.session.session_options import SESSION_PREFIX
from paimon_spark.spark.session.session_settings import PARTITION_OVERWRITE_MODE

OVERWRITE_MODE = "partitionOverwriteMode"
DYNAMIC_OVERWRITE = "dynamic-partition-overwrite"
_SESSION_KEYS = (PARTITION_OVERWRITE_MODE, f"{SESSION_PREFIX}{DYNAMIC_OVERWRITE}")


def asks_for_dynamic(options: Mapping[str, str]) -> bool | None:
    """Return what the options of one write say; None where they say nothing.

    Raises:
        OptionError: a value is none, or two options contradict each other.
    """
    modes = list(_modes(options))
    if len(set(modes)) > 1:
        raise OptionError(
            f"options '{OVERWRITE_MODE}' and '{DYNAMIC_OVERWRITE}' contradict each other: give one of them"
        )
    return modes[0] if modes else None


class Named(Enum):
    """What a statement itself says of the rows that it replaces."""

    NOTHING = "nothing"
    """``INSERT OVERWRITE t``, ``mode("overwrite")``."""
    PARTITION = "partition"
    """``INSERT OVERWRITE t PARTITION (dt = 'x')``: only Spark's own setting makes it dynamic."""
    CONDITION = "condition"
    """``writeTo(t).overwrite(condition)``: only an option of the write makes it dynamic."""


def is_dynamic_overwrite(
    option: bool | None,
    settings: Mapping[str, str],
    of_session: Mapping[str, str] | None = None,
    of_table: Mapping[str, str] | None = None,
    *,
    named: Named = Named.NOTHING,
) -> bool:
    """Return whether an overwrite replaces the partitions that appear in the rows, by the nearest that says so.

    Args:
        option: what options of the write say (`asks_for_dynamic`).
        settings: what the session has set, without defaults.
        of_session: options that the session has for the table by its name.
        of_table: options that the table was given.
        named: what the statement says.

    Raises:
        OptionError: a value is none.
    """
    if option is not None or named is Named.CONDITION:
        return bool(option)
    if named is Named.PARTITION:
        own = {key: value for key, value in settings.items() if key == PARTITION_OVERWRITE_MODE}
        return bool(_session_asks(own, {}))
    session = _session_asks(settings, of_session or {})
    return bool(asks_for_dynamic(of_table or {}) if session is None else session)


def overwrite_option(*, dynamic: bool) -> dict[str, str]:
    """Return the option of a write that says which of the two it is."""
    return {OVERWRITE_MODE: "dynamic" if dynamic else "static"}


def _session_asks(settings: Mapping[str, str], of_table: Mapping[str, str]) -> bool | None:
    own = {key.rpartition(".")[2]: settings[key] for key in _SESSION_KEYS if key in settings}
    modes = [*_modes(own), *_modes(of_table)]
    return any(modes) if modes else None


def without_modes(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that say how an overwrite goes."""
    return {key: value for key, value in options.items() if key.lower() not in _WORDS}


def _modes(options: Mapping[str, str]) -> Iterable[bool]:
    for key, value in options.items():
        words = _WORDS.get(key.lower())
        if words is None:
            continue
        text = value.strip().lower()
        if text not in words:
            raise OptionError(f"option '{_NAMES[key.lower()]}' is {words[0]} or {words[1]}, not '{value}'")
        yield text == words[1]


_WORDS = {OVERWRITE_MODE.lower(): ("static", "dynamic"), DYNAMIC_OVERWRITE: ("false", "true")}
_NAMES = {key.lower(): key for key in (OVERWRITE_MODE, DYNAMIC_OVERWRITE)}
