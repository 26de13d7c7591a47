"""What an overwrite replaces: one word of the plan of a write, of its commit and of every entry point."""

from __future__ import annotations

from enum import StrEnum


class OverwriteMode(StrEnum):
    """What an overwrite replaces."""

    STATIC = "static"
    """The whole table, or the partitions that match a spec."""
    DYNAMIC = "dynamic"
    """The partitions that new files are in; without new files nothing. Without partitions: the whole table."""
    TRUNCATE = "truncate"
    """Like static, and there are no new files."""
