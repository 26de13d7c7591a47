"""Which tests a run takes, and in which order.

Long files go first, so that processes that share the tests end together. `--quick` is for the loop of a person at work:
one test of each behaviour (the first parameters of each test function that is not `thorough`), no JVM but a Spark
session in each of two processes.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

LONGEST = (
    "matrix/test_matrix.py",
    "spark/test_acceptance.py",
    "readme/test_readme.py",
    "spark/test_sessions.py",
    "packaging/test_wheel.py",
    "write/test_java_reads_ours.py",
    "spark/test_connect_sql.py",
    "spark/test_writes.py",
    "spark/test_row_level.py",
    "spark/test_golden.py",
    "spark/test_error_texts.py",
    "spark/test_row_rewrites.py",
    "spark/test_catalog_compact.py",
)
"""Files of half a minute and more, the longest first."""

NOT_QUICK = ("oracle", "connect", "peer", "slow", "thorough")
"""Fixtures and markers of tests that need more than this process and its Spark session, or much time."""


def by_length(items: list[pytest.Item]) -> None:
    """Sort tests: the files of `LONGEST` first, then the others with Spark, then the rest as they were."""
    locations = {name: location for location, name in enumerate(LONGEST)}

    def location(item: pytest.Item) -> int:
        folder, file = item.path.parts[-2:]
        return locations.get(f"{folder}/{file}", len(locations) + (folder != "spark"))

    items.sort(key=location)


def is_quick(item: pytest.Item) -> bool:
    """Whether a test needs no JVM but the session of the fixture `spark`, and no minutes."""
    fixtures: Iterable[str] = getattr(item, "fixturenames", ())
    if any(name in fixtures or item.get_closest_marker(name) for name in NOT_QUICK):
        return False
    if "spark" in fixtures or item.get_closest_marker("catalog"):  # the fixture `warehouse` asks for the session then
        return item.nodeid.startswith("tests/spark/")
    return not item.get_closest_marker("spark")


def choose_quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """One test of each test function, with parameters that are quick; sets `items`, gives those left out."""
    seen: set[str] = set()
    left_out = []
    chosen = []
    for item in items:
        function = item.nodeid.split("[")[0]
        if function in seen or not is_quick(item):
            left_out.append(item)
        else:
            seen.add(function)
            chosen.append(item)
    items[:] = chosen
    return left_out
