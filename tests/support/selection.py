"""Which tests a run takes, and in which order.

`lengths.csv` has the seconds of a whole run: of files that take long, of test functions whose shortest case does, and
(as `name[]`) of all cases of a function that has several. Long files go first, so that processes that share the tests
end together.

`--quick` is for the loop of a person at work: one test of each short test function that is not `thorough`, no JVM but a
Spark session in each of two processes. `--part` is a run of all tests in less time: of a function whose cases together
take long it takes a third, and each case on every third day; so does `seeds.part_of` with the steps of a long test.

`python -m tests.support.selection JUNIT_XML` writes `lengths.csv` anew from the report of a whole run.
"""

from __future__ import annotations

import csv
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.seeds import PARTS

LENGTHS = Path(__file__).with_name("lengths.csv")
NOT_QUICK = ("oracle", "connect", "rest", "hive", "peer", "slow", "thorough")
"""Fixtures and markers of tests that need more than this process and its Spark session, or much time."""
_LONG_FILE_SECONDS = 20
_LONG_TEST_SECONDS = 0.5
_LONGEST_QUICK_SECONDS = 3
"""Of a file whose tests are all long a quick run takes the shortest, if it is no longer than this."""
_LONG_CASES_SECONDS = 8
"""Of a function whose cases together take longer a run in part takes some of them."""


def lengths() -> dict[str, float]:
    """Seconds of long files and test functions, by pytest's names without parameters; of all cases with `[]`."""
    with LENGTHS.open(encoding="utf-8", newline="") as file:
        return {name: float(seconds) for name, seconds in csv.reader(file)}


def lengths_of_run(report: Path) -> dict[str, float]:
    """What `lengths` is to say after a whole run, from its report in JUnit's format."""
    files: dict[str, float] = defaultdict(float)
    functions: dict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module, _, suite = re.fullmatch(r"([\w.]+?)(\.(Test\w+))?", case.attrib["classname"]).groups("")  # type: ignore[union-attr]
        file, seconds = f"{module.replace('.', '/')}.py", float(case.attrib["time"])
        function = "::".join(filter(None, (file, suite, case.attrib["name"].split("[")[0])))
        files[file] += seconds
        functions[function].append(seconds)
    found = {file: seconds for file, seconds in files.items() if seconds >= _LONG_FILE_SECONDS}
    found |= {name: min(cases) for name, cases in functions.items() if min(cases) >= _LONG_TEST_SECONDS}
    several = {f"{name}[]": sum(cases) for name, cases in functions.items() if len(cases) > 1}
    return found | {name: seconds for name, seconds in several.items() if seconds >= _LONG_CASES_SECONDS}


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


def choose_part(items: list[pytest.Item], seconds: Mapping[str, float], day: int) -> list[pytest.Item]:
    """A third of the cases of each function whose cases take long; sets `items`, gives those left out.

    Cases are taken in an order that does not follow their parameters, so that each part has some of every kind.
    """
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        function = item.nodeid.split("[")[0]
        if seconds.get(f"{function}[]", 0) >= _LONG_CASES_SECONDS:
            functions[function].append(item)
    left_out: set[int] = set()
    for function, cases in functions.items():
        cases.sort(key=lambda item: (zlib.crc32(item.nodeid.encode()), item.nodeid))
        first = (day + zlib.crc32(function.encode())) % min(PARTS, len(cases))
        taken = {id(item) for item in cases[first::PARTS]}
        left_out.update(id(item) for item in cases if id(item) not in taken)
    gone = [item for item in items if id(item) in left_out]
    items[:] = [item for item in items if id(item) not in left_out]
    return gone


if __name__ == "__main__":
    with LENGTHS.open("w", encoding="utf-8", newline="") as written:
        rows = sorted(lengths_of_run(Path(sys.argv[1])).items())
        csv.writer(written, lineterminator="\n").writerows((name, f"{seconds:.1f}") for name, seconds in rows)
