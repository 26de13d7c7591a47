"""Checks that options of scans do not contradict each other (Java ``SchemaValidation.validateStartupMode``)."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.errors import OptionError
from paimon_spark.options import CoreOptions

_MILLIS, _TEXT = "scan.timestamp-millis", "scan.timestamp"
_SNAPSHOT, _TAG, _WATERMARK, _VERSION = "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"
_FILE_TIME, _CREATION = "scan.file-creation-time-millis", "scan.creation-time-millis"
_BETWEEN, _BETWEEN_TIME = "incremental-between", "incremental-between-timestamp"
_TO_TAG = "incremental-to-auto-tag"
_INCREMENTAL = (_BETWEEN_TIME, _BETWEEN, _TO_TAG)

# mode -> (exactly one of these, none of these, which the message calls set)
_RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "from-timestamp": ((_MILLIS, _TEXT), (_SNAPSHOT, _FILE_TIME, _TAG, *_INCREMENTAL), (_MILLIS, _TEXT)),
    "from-snapshot": (
        (_SNAPSHOT, _TAG, _WATERMARK, _VERSION),
        (_MILLIS, _TEXT, _FILE_TIME, *_INCREMENTAL),
        (_SNAPSHOT, _TAG),
    ),
    "incremental": (
        (_BETWEEN, _BETWEEN_TIME, _TO_TAG),
        (_SNAPSHOT, _MILLIS, _FILE_TIME, _TEXT, _TAG),
        (_BETWEEN, _BETWEEN_TIME, _TO_TAG),
    ),
    "from-snapshot-full": ((_SNAPSHOT,), (_MILLIS, _TEXT, _FILE_TIME, _TAG, *_INCREMENTAL), (_SNAPSHOT,)),
    "from-file-creation-time": ((_FILE_TIME,), (_SNAPSHOT, _MILLIS, _TAG, *_INCREMENTAL), (_FILE_TIME,)),
}
_NOT_OTHERWISE = (_MILLIS, _FILE_TIME, _TEXT, _SNAPSHOT, _TAG, *_INCREMENTAL)
_NOT_LATEST_DELTA = (
    *_NOT_OTHERWISE,
    *(_CREATION, _WATERMARK, _VERSION, "incremental-between-scan-mode", "incremental-between-tag-to-snapshot"),
)


def startup_mode(options: CoreOptions) -> str:
    """The scan mode that the options ask for: `scan.mode`, or what the other options imply where that is `default`."""
    mode = str(options.value("scan.mode"))
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    implied: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("from-timestamp", (_MILLIS, _TEXT)),
        ("from-snapshot", (_SNAPSHOT, _TAG, _WATERMARK, _VERSION)),
        ("from-file-creation-time", (_FILE_TIME,)),
        ("from-creation-timestamp", (_CREATION,)),
        ("incremental", (_BETWEEN, _BETWEEN_TIME, _TO_TAG)),
    )
    for name, keys in implied:
        if _given(options, keys):
            return name
    return "latest-full"


def validate_scan_options(options: CoreOptions) -> None:
    """Check that the options name one point in time at most, and one that goes with `scan.mode`.

    Raises:
        OptionError: They contradict each other.
    """
    mode = startup_mode(options)
    rule = _RULES.get(mode)
    if rule is None:
        banned = _NOT_LATEST_DELTA if mode == "latest-delta" else _NOT_OTHERWISE
        for key in _given(options, banned):
            raise OptionError(f"{key} must be null when you use {mode} for scan.mode")
        return
    one_of, none_of, legal = rule
    given = _given(options, one_of)
    if len(one_of) == 1 and not given:
        raise OptionError(f"{one_of[0]} can not be null when you use {mode} for scan.mode")
    if len(given) != 1:
        raise OptionError(
            f"must set only one key in [{','.join(one_of)}] when you use {mode} for scan.mode, but {given} are set"
        )
    for key in _given(options, none_of):
        raise OptionError(f"[{key}] must be null when you set [{','.join(legal)}]")


def _given(options: CoreOptions, keys: Sequence[str]) -> list[str]:
    return [key for key in keys if options.is_set(key)]
