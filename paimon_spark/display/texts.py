"""Sizes, numbers and times as texts for people."""

from __future__ import annotations

from datetime import datetime


def bytes_text(count: int | None) -> str:
    """A size for people: ``0 B``, ``1.4 KB``, ``128 MB``; words when unknown."""
    if count is None:
        return "unknown size"
    size = float(count)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 99.5 or unit == "B" else f"{size:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def records_text(count: int, *, keyed: bool) -> str:
    """``2,000 records``; with a primary key those of the files, of which a read may merge some."""
    return counted(count, "record") + (" before merging" if keyed else "")


def time_text(millis: int) -> str:
    """A commit's time here: ``2024-05-01 10:30:00``; outside the years 1 to 9999 its milliseconds."""
    try:
        return datetime.fromtimestamp(millis / 1000).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)
