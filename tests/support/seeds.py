"""The seed of a run: random tests see other cases each day, and a failure can be repeated.

The head of pytest's output names it; `PAIMON_SPARK_TESTS_SEED=20260801 python -m pytest …` repeats the run of that day.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

VARIABLE = "PAIMON_SPARK_TESTS_SEED"

RUN = int(os.environ.setdefault(VARIABLE, f"{datetime.now(UTC):%Y%m%d}"))
"""Of this run; processes that it starts take it over."""


def chance(*names: object) -> random.Random:
    """Random choices of this run for the test (or part of one) that `names` distinguishes."""
    return random.Random(" ".join(map(str, (RUN, *names))))
