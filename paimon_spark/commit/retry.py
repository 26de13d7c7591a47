"""How long and how often a commit is tried again: the options ``commit.*retry*`` and ``commit.timeout``.

Equals Java's ``RetryWaiter`` and the loop of ``FileStoreCommitImpl.tryCommit`` (docs/format.md §8).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

_JITTER = 0.2
"""Largest part of a wait that is added to it at random, so that rivals do not meet again."""


@dataclass(slots=True)
class Retries:
    """The attempts of one snapshot: counts them, waits between them, and knows when to stop."""

    max_retries: int
    min_wait_millis: int
    max_wait_millis: int
    timeout_millis: int | None
    """None is without end."""
    count: int = 0
    """Retries so far."""
    _started: float = field(default_factory=time.monotonic)

    @property
    def elapsed_millis(self) -> int:
        """Milliseconds since the first attempt began."""
        return int((time.monotonic() - self._started) * 1000)

    @property
    def exhausted(self) -> bool:
        """Whether no further attempt is allowed."""
        late = self.timeout_millis is not None and self.elapsed_millis > self.timeout_millis
        return late or self.count >= self.max_retries

    def wait(self) -> None:
        """Wait before the next attempt: twice as long as before, at most `max_wait_millis`, plus up to a fifth."""
        millis = min(self.min_wait_millis * 2 ** min(self.count, 40), self.max_wait_millis)
        self.count += 1
        time.sleep(millis * (1 + random.uniform(0, _JITTER)) / 1000)
