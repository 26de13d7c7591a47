"""Which tests a run takes, and in which order.

`lengths.csv` has the seconds of a whole run: of files that take long, of test functions whose shortest case does, and
(as `name[]`) of all cases of a function that has several. Long files go first, so that processes that share the tests
end together.

`--quick` is for the loop of a person at work: one test of each short test function that is not `thorough`, no JVM but a
Spark session in each of two processes. `--part` is a run of all tests in less time: of a function whose cases together
take long it takes a fifth, and each case on every fifth day. Tests that are marked to take `turns` are to it like the
cases of one function: long programs, of which there are several of a kind. `seeds.part_of` does so with the steps of a
long test.

`python -m tests.support.selection JUNIT_XML` writes `lengths.csv` anew from the report of a whole run; with `--part`,
from that of a run in part: what such a run takes some cases of, or leaves out, keeps its seconds.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.seeds import PARTS

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = Path(__file__).with_name("lengths.csv")
NOT_QUICK = ("oracle", "connect", "rest", "hive", "peer", "slow", "thorough")
"""Fixtures and markers of tests that need more than this process and its Spark session, or much time."""
_LONG_FILE_SECONDS = 20
_LONG_TEST_SECONDS = 0.5
_LONGEST_QUICK_SECONDS = 3
"""Of a file whose tests are all long a quick run takes the shortest, if it is no longer than this."""
_LONG_CASES_SECONDS = 1
"""Of a function whose cases together take longer a run in part takes some of them."""


def lengths() -> dict[str, float]:
    """Seconds of long files and test functions, by pytest's names without parameters; of all cases with `[]`."""
    with LENGTHS.open(encoding="utf-8", newline="") as file:
        return {name: float(seconds) for name, seconds in csv.reader(file)}


def lengths_of_run(report: Path, known: Mapping[str, float] | None = None) -> dict[str, float]:
    """What `lengths` is to say after a run, from its report in JUnit's format.

    Args:
        report: of a whole run, or of one in part.
        known: of a run in part, what `lengths` said: of functions whose cases it chose from, and of those that it left
            out, that stays.
    """
    functions: dict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module, _, suite = re.fullmatch(r"([\w.]+?)(\.(Test\w+))?", case.attrib["classname"]).groups("")  # type: ignore[union-attr]
        file, name = f"{module.replace('.', '/')}.py", case.attrib["name"].split("[")[0]
        functions["::".join(filter(None, (file, suite, name)))].append(float(case.attrib["time"]))
    old = {name: seconds for name, seconds in (known or {}).items() if "::" in name and (ROOT / _file(name)).exists()}
    kept = {name: seconds for name, seconds in old.items() if name.endswith("[]") or f"{name}[]" in old}
    kept |= {name: seconds for name, seconds in old.items() if name not in functions and name not in kept}
    for name, cases in functions.items():
        if f"{name}[]" not in kept:
            kept[name] = min(cases)
            kept |= {f"{name}[]": sum(cases)} if len(cases) > 1 else {}
    files: dict[str, float] = defaultdict(float)
    for name, seconds in kept.items():
        files[_file(name)] += 0 if f"{name}[]" in kept else seconds
    found = {file: seconds for file, seconds in files.items() if seconds >= _LONG_FILE_SECONDS}
    for name, seconds in kept.items():
        if seconds >= (_LONG_CASES_SECONDS if name.endswith("[]") else _LONG_TEST_SECONDS):
            found[name] = seconds
    return found


def _file(name: str) -> str:
    return name.split("::")[0]


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
    """A fifth of the cases of each function whose cases take long, and of tests that take turns.

    Sets `items`, gives those left out. Cases are dealt in an order that does not follow their parameters, so that each
    part has some of every kind; of tests that take turns the longest are dealt first, so that each day has its share.
    """
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        function, turns = item.nodeid.split("[")[0], item.get_closest_marker("turns")
        if turns is not None:
            groups[f"turns {turns.args[0]}"].append(item)
        elif seconds.get(f"{function}[]", 0) >= _LONG_CASES_SECONDS:
            groups[function].append(item)
    left_out: set[int] = set()
    for name, group in groups.items():
        parts = _dealt(group, seconds)
        taken = (day + zlib.crc32(name.encode())) % len(parts)
        left_out.update(id(item) for number, part in enumerate(parts) for item in part if number != taken)
    gone = [item for item in items if id(item) in left_out]
    items[:] = [item for item in items if id(item) not in left_out]
    return gone


def _dealt(group: Sequence[pytest.Item], seconds: Mapping[str, float]) -> list[list[pytest.Item]]:
    """Tests in as many parts as there are days, which take about as long as each other; none is empty."""

    def length(item: pytest.Item) -> float:
        return seconds.get(item.nodeid.split("[")[0], 0)

    parts: list[list[pytest.Item]] = [[] for _ in range(min(PARTS, len(group)))]
    for item in sorted(group, key=lambda item: (-length(item), zlib.crc32(item.nodeid.encode()), item.nodeid)):
        min(parts, key=lambda part: (sum(map(length, part)), len(part))).append(item)
    return parts


def _main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Write lengths.csv anew from a report in JUnit's format.")
    parser.add_argument("--part", action="store_true", help="the report is of a run in part")
    parser.add_argument("report", type=Path)
    given = parser.parse_args(arguments)
    found = lengths_of_run(given.report, lengths() if given.part else {})
    with LENGTHS.open("w", encoding="utf-8", newline="") as written:
        rows = sorted(found.items())
        csv.writer(written, lineterminator="\n").writerows((name, f"{seconds:.1f}") for name, seconds in rows)


if __name__ == "__main__":
    _main(sys.argv[1:])
