"""How much one micro-batch may hold (Java: ``PaimonReadLimits``; options `read.stream.*`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from paimon_spark.errors import OptionError

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.options import CoreOptions

MAX_FILES = "read.stream.maxFilesPerTrigger"
MAX_BYTES = "read.stream.maxBytesPerTrigger"
MAX_ROWS = "read.stream.maxRowsPerTrigger"
MIN_ROWS = "read.stream.minRowsPerTrigger"
MAX_DELAY = "read.stream.maxTriggerDelayMs"
LIMIT_KEYS = (MAX_FILES, MAX_BYTES, MAX_ROWS, MIN_ROWS, MAX_DELAY)


@dataclass(frozen=True)
class ReadLimits:
    """The limits of one stream; None where there is none."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    """A batch waits for so many rows,"""
    max_delay_millis: int | None = None
    """but not longer than this after the batch before."""

    @classmethod
    def of(cls, options: CoreOptions) -> ReadLimits:
        """Return the limits that options state.

        Raises:
            OptionError: a limit is not positive, or one of the two options for the fewest rows is missing.
        """
        values = [options.value(key) if key in options else None for key in LIMIT_KEYS]
        for key, value in zip(LIMIT_KEYS, values, strict=True):
            if value is not None and value <= 0:
                raise OptionError(f"Option '{key}' cannot be '{value}': it is a number above 0.")
        if (values[3] is None) != (values[4] is None):
            raise OptionError(
                f"Can't provide only one of {MIN_ROWS} and {MAX_DELAY}: the first says how many rows a batch waits "
                "for, the second how long at most."
            )
        return cls(*values)

    @property
    def any_given(self) -> bool:
        """Whether there is any limit."""
        return any(value is not None for value in (self.max_files, self.max_bytes, self.max_rows, self.min_rows))


@dataclass
class Budget:
    """What is left of the limits while one batch is put together."""

    limits: ReadLimits | None
    """None: no limit."""
    used: dict[str, int] = field(default_factory=lambda: {"files": 0, "bytes": 0, "rows": 0})
    is_full: bool = False

    def admit(self, weights: Mapping[str, npt.NDArray[np.int64]]) -> int:
        """Take the first units that fit, of an empty batch always one that weighs something; return how many.

        Args:
            weights: ``files``, ``bytes`` and ``rows`` of each unit.
        """
        count = taken = len(weights["files"])
        for name, most in self._most().items():
            sums = np.cumsum(weights[name])
            taken = min(taken, int(np.searchsorted(sums, most - self.used[name], side="right")))
        if taken < count:
            self.is_full = True
            if not self.used["files"] and not weights["files"][:taken].any():
                heavy = np.flatnonzero(weights["files"][taken:])
                taken += int(heavy[0]) + 1 if len(heavy) else 0
        for name, values in weights.items():
            self.used[name] += int(values[:taken].sum())
        return taken

    def _most(self) -> dict[str, int]:
        limits = self.limits
        if limits is None:
            return {}
        found = {"files": limits.max_files, "bytes": limits.max_bytes, "rows": limits.max_rows}
        return {name: most for name, most in found.items() if most is not None}

    def waits(self, last_batch: float) -> bool:
        """Whether the batch is too small to be read yet.

        Args:
            last_batch: when the last batch was put together, seconds of the monotonic clock; minus infinity for none.
        """
        limits = self.limits
        if limits is None or limits.min_rows is None or limits.max_delay_millis is None:
            return False
        waited = (time.monotonic() - last_batch) * 1000
        return self.used["rows"] < limits.min_rows and waited <= limits.max_delay_millis
