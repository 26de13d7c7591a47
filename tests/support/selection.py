"""Which tests a run takes, and in which order.

`lengths.csv` has the seconds of a whole run: of files that take long, and of test functions whose shortest case does.
Long files go first, so that processes that share the tests end together. `--quick` is for the loop of a person at work:
one test of each short test function that is not `thorough`, no JVM but a Spark session in each of two processes.

`python -m tests.support.selection JUNIT_XML` writes `lengths.csv` anew from the report of a whole run.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

LENGTHS = Path(__file__).with_name("lengths.csv")
NOT_QUICK = ("oracle", "connect", "rest", "hive", "peer", "slow", "thorough")
"""Fixtures and markers of tests that need more than this process and its Spark session, or much time."""
_LONG_FILE_SECONDS = 20
_LONG_TEST_SECONDS = 0.5
_LONGEST_QUICK_SECONDS = 3
"""Of a file whose tests are all long a quick run takes the shortest, if it is no longer than this."""


def lengths() -> dict[str, float]:
    """Seconds of long files and of long test functions, by the name that pytest gives them without parameters."""
    with LENGTHS.open(encoding="utf-8", newline="") as file:
        return {name: float(seconds) for name, seconds in csv.reader(file)}


def lengths_of_run(report: Path) -> dict[str, float]:
    """What `lengths` is to say after a whole run, from its report in JUnit's format."""
    files: dict[str, float] = defaultdict(float)
    functions: dict[str, float] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module, _, suite = re.fullmatch(r"([\w.]+?)(\.(Test\w+))?", case.attrib["classname"]).groups("")  # type: ignore[union-attr]
        file, seconds = f"{module.replace('.', '/')}.py", float(case.attrib["time"])
        function = "::".join(filter(None, (file, suite, case.attrib["name"].split("[")[0])))
        files[file] += seconds
        functions[function] = min(seconds, functions.get(function, seconds))
    found = {file: seconds for file, seconds in files.items() if seconds >= _LONG_FILE_SECONDS}
    return found | {name: seconds for name, seconds in functions.items() if seconds >= _LONG_TEST_SECONDS}


def by_length(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """Sort tests: the long files first, the longest of all at the head, then the others with Spark, then the rest."""

    def location(item: pytest.Item) -> tuple[float, bool]:
        file = item.nodeid.split("::")[0]
        return -seconds.get(file, 0), not file.startswith("tests/spark/")

    items.sort(key=location)


def is_quick(item: pytest.Item) -> bool:
    """Whether a test needs no JVM but the session of the fixture `spark`, and no minutes."""
    fixtures: Iterable[str] = getattr(item, "fixturenames", ())
    if any(name in fixtures or item.get_closest_marker(name) for name in NOT_QUICK):
        return False
    if "spark" in fixtures or item.get_closest_marker("catalog"):  # the fixture `warehouse` asks for the session then
        return item.nodeid.startswith("tests/spark/")
    return not item.get_closest_marker("spark")


def choose_quick(items: list[pytest.Item], seconds: Mapping[str, float]) -> list[pytest.Item]:
    """One test of each short test function, with parameters that are quick; sets `items`, gives those left out."""
    functions: dict[str, pytest.Item] = {}
    for item in filter(is_quick, items):
        functions.setdefault(item.nodeid.split("[")[0], item)
    files: dict[str, list[str]] = defaultdict(list)
    for name in functions:
        files[name.split("::")[0]].append(name)
    chosen: set[int] = set()
    for names in files.values():
        short = [name for name in names if name not in seconds]
        shortest = min(names, key=lambda name: seconds.get(name, 0))
        if not short and seconds[shortest] <= _LONGEST_QUICK_SECONDS:
            short = [shortest]
        chosen.update(id(functions[name]) for name in short)
    left_out = [item for item in items if id(item) not in chosen]
    items[:] = [item for item in items if id(item) in chosen]
    return left_out


if __name__ == "__main__":
    with LENGTHS.open("w", encoding="utf-8", newline="") as written:
        rows = sorted(lengths_of_run(Path(sys.argv[1])).items())
        csv.writer(written, lineterminator="\n").writerows((name, f"{seconds:.1f}") for name, seconds in rows)
