"""What `--quick` leaves out, and that long files go first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import seeds
from tests.support.selection import LONGEST, by_length, choose_quick

TESTS = Path(__file__).resolve().parent


class Item:
    """As much of a test as the selection looks at."""

    def __init__(self, nodeid: str, *needs: str) -> None:
        self.nodeid, self.needs = nodeid, needs
        self.path = Path(nodeid.split("::")[0])
        self.fixturenames = [name.removeprefix("fixture ") for name in needs if name.startswith("fixture ")]

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.needs else None


@pytest.mark.parametrize(
    ("needs", "quick"),
    [
        ((), True),
        (("spark", "fixture spark"), True),
        (("spark", "catalog", "fixture warehouse"), True),
        (("spark",), False),  # it starts a session of its own
        (("fixture oracle",), False),
        (("spark", "fixture spark", "fixture connect"), False),
        (("spark", "fixture spark", "peer"), False),
        (("thorough",), False),
    ],
)
def test_a_quick_run_starts_no_jvm_but_one(needs: tuple[str, ...], quick: bool) -> None:
    items: list[Any] = [Item("tests/spark/test_a.py::test", *needs)]
    left_out = choose_quick(items)
    assert (len(items), len(left_out)) == (quick, not quick)


def test_a_quick_run_has_sessions_in_one_folder() -> None:
    items: list[Any] = [
        Item("tests/spark/test_a.py::test", "fixture spark"),
        Item("tests/spark/test_b.py::test", "fixture spark"),
        Item("tests/read/test_c.py::test", "fixture spark"),
    ]
    choose_quick(items)
    assert [item.nodeid for item in items] == ["tests/spark/test_a.py::test", "tests/spark/test_b.py::test"]


def test_a_quick_run_takes_one_of_each_function() -> None:
    items: list[Any] = [
        Item("tests/test_a.py::test_x[1]", "fixture oracle"),
        Item("tests/test_a.py::test_x[2]"),
        Item("tests/test_a.py::test_x[3]"),
        Item("tests/test_a.py::test_y"),
    ]
    left_out = choose_quick(items)
    assert [item.nodeid for item in items] == ["tests/test_a.py::test_x[2]", "tests/test_a.py::test_y"]
    assert len(left_out) == 2


def test_the_longest_files_go_first_and_exist() -> None:
    ordered = [f"tests/{LONGEST[0]}::t", f"tests/{LONGEST[1]}::t", "tests/spark/test_c.py::t", "tests/b/test_b.py::t"]
    items: list[Any] = [Item(nodeid) for nodeid in reversed(ordered)]
    by_length(items)
    assert [item.nodeid for item in items] == ordered
    assert not [name for name in LONGEST if not (TESTS / name).exists()]


def test_a_seed_gives_the_same_choices_for_the_same_name() -> None:
    assert [seeds.chance("a", 1).random(), seeds.chance("a", 1).random()] == [seeds.chance("a", 1).random()] * 2
    assert seeds.chance("a", 1).random() != seeds.chance("a", 2).random()
