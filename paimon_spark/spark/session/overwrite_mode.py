"""Whether an overwrite replaces the table or only the partitions that appear in the data: decided here for every door.

The nearest wins, as for Spark's own files: an option of the write, then the session, then the table. An option is
Spark's `partitionOverwriteMode` or Paimon's `dynamic-partition-overwrite`; the session has
``spark.sql.sources.partitionOverwriteMode`` and ``spark.paimon.dynamic-partition-overwrite``, of which one that says
"dynamic" is enough; of the table only what it was given counts, not Paimon's default. Where nobody says anything, the
table is replaced. Java: the connector reads neither option where a table is written by its path; this is safer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paimon_spark.errors import OptionError
from paimon_spark.spark.session.session_options import SESSION_PREFIX
from paimon_spark.spark.session.session_settings import PARTITION_OVERWRITE_MODE

OVERWRITE_MODE = "partitionOverwriteMode"
DYNAMIC_OVERWRITE = "dynamic-partition-overwrite"
SESSION_KEYS = (PARTITION_OVERWRITE_MODE, f"{SESSION_PREFIX}{DYNAMIC_OVERWRITE}")
"""The settings of a session that say how an overwrite of any table goes."""


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


def session_asks_for_dynamic(settings: Mapping[str, str], of_table: Mapping[str, str] | None = None) -> bool | None:
    """Return what a session's settings say; None where they say nothing.

    Args:
        settings: what was set, without defaults.
        of_table: options that the session has for the table by its name.

    Raises:
        OptionError: a value is none.
    """
    own = {key.rpartition(".")[2]: settings[key] for key in SESSION_KEYS if key in settings}
    modes = [*_modes(own), *_modes(of_table or {})]
    return any(modes) if modes else None


def is_dynamic(*nearest_first: bool | None) -> bool:
    """Return the first decision that is not None; without any, the table is replaced."""
    return next((mode for mode in nearest_first if mode is not None), False)


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
