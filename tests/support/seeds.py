"""The seed of a run: random tests see other cases each day, and a failure can be repeated.

The head of pytest's output names it; `PAIMON_SPARK_TESTS_SEED=20260801 python -m pytest …` repeats the run of that day.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import combinations, product
from typing import Any, TypeVar

VARIABLE = "PAIMON_SPARK_TESTS_SEED"

RUN = int(os.environ.setdefault(VARIABLE, f"{datetime.now(UTC):%Y%m%d}"))
"""Of this run; processes that it starts take it over."""

IN_PART = "PAIMON_SPARK_TESTS_IN_PART"
"""Variable that `--part` sets."""
PARTS = 5
"""In so many days runs in part run each case, and each step of `part_of`, once."""


def day_of(run: int) -> int:
    """Days in their order, also where a month ends; a seed that is no date is the number of a day."""
    try:
        return datetime.strptime(f"{run:08}", "%Y%m%d").toordinal()
    except ValueError:
        return run


DAY = day_of(RUN)
"""Which part a run in part takes."""

Step = TypeVar("Step")


def chance(*names: object) -> random.Random:
    """Random choices of this run for the test (or part of one) that `names` distinguishes."""
    return random.Random(" ".join(map(str, (RUN, *names))))


def part_of(steps: Sequence[Step], parts: int = PARTS) -> list[Step]:
    """Independent steps of a long test: all, or in a run in part (`--part`) one of so many, other ones each day.

    A test that itself has its turn every few days takes all its steps, or parts whose number has no factor in common
    with the days: else it would take the same ones each time.
    """
    if IN_PART not in os.environ:
        return list(steps)
    return list(steps[DAY % min(parts, len(steps)) :: parts])


def pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Cases in which every two values of different axes meet: what all combinations prove of two, in fewer tests."""
    cases = list(product(*axes))
    met = [{(a, b, case[a], case[b]) for a, b in combinations(range(len(case)), 2)} for case in cases]
    left: set[tuple[Any, ...]] = set().union(*met)
    picked = []
    while left:
        best = max(range(len(cases)), key=lambda number: len(met[number] & left))
        picked.append(cases[best])
        left -= met[best]
    return picked
