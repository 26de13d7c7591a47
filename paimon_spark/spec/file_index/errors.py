"""What the readers of indexes raise; who knows the file turns it into a `CorruptTableError` that names it."""

from __future__ import annotations


class IndexDamageError(Exception):
    """The bytes are no such index; the message is the second half of a sentence."""
