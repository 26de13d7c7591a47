"""The `SimpleStats` record of manifests (Java: ``SimpleStats``); `stats` is the module to import it from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum, maximum and null count per column, as manifests hold them.

    Attributes:
        min_values: serialized BinaryRow of the minima (4-byte arity in front).
        max_values: serialized BinaryRow of the maxima.
        null_counts: null count per column; None where it is unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_SERIALIZED_ROW = bytes(12)
"""The row without fields as manifests hold it: arity 0, then its 8 zero bytes."""

EMPTY_STATS = SimpleStats(EMPTY_SERIALIZED_ROW, EMPTY_SERIALIZED_ROW, ())
"""Statistics over no columns (Java: ``SimpleStats.EMPTY_STATS``)."""
