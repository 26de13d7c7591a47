"""What `--quick` leaves out, that long files go first, and how many processes share the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.run import processes
from tests.support import seeds
from tests.support.selection import by_length, choose_part, choose_quick, lengths, lengths_of_run

TESTS = Path(__file__).resolve().parent


class Item:
    """As much of a test as the selection looks at."""

    def __init__(self, nodeid: str, *needs: str) -> None:
        self.nodeid, self.needs = nodeid, needs
        self.path = Path(nodeid.split("::")[0])
        self.fixturenames = [name.removeprefix("fixture ") for name in needs if name.startswith("fixture ")]

    def get_closest_marker(self, name: str) -> Any:
        return pytest.mark.turns("kind").mark if name in self.needs else None


@pytest.mark.parametrize(
    ("needs", "quick"),
    [
        ((), True),
        (("spark", "fixture spark"), True),
        (("spark", "catalog", "fixture warehouse"), True),
        (("spark",), False),  # it starts a session of its own
        (("fixture oracle",), False),
        (("fixture rest",), False),
        (("fixture hive",), False),
        (("spark", "fixture spark", "fixture connect"), False),
        (("spark", "fixture spark", "peer"), False),
        (("thorough",), False),
    ],
)
def test_a_quick_run_starts_no_jvm_but_one(needs: tuple[str, ...], quick: bool) -> None:
    items: list[Any] = [Item("tests/spark/test_a.py::test", *needs)]
    left_out = choose_quick(items, {})
    assert (len(items), len(left_out)) == (quick, not quick)


def test_a_quick_run_has_sessions_in_one_folder() -> None:
    items: list[Any] = [
        Item("tests/spark/test_a.py::test", "fixture spark"),
        Item("tests/spark/test_b.py::test", "fixture spark"),
        Item("tests/read/test_c.py::test", "fixture spark"),
    ]
    choose_quick(items, {})
    assert [item.nodeid for item in items] == ["tests/spark/test_a.py::test", "tests/spark/test_b.py::test"]


def test_a_quick_run_takes_one_of_each_function() -> None:
    items: list[Any] = [
        Item("tests/test_a.py::test_x[1]", "fixture oracle"),
        Item("tests/test_a.py::test_x[2]"),
        Item("tests/test_a.py::test_x[3]"),
        Item("tests/test_a.py::test_y"),
    ]
    left_out = choose_quick(items, {})
    assert [item.nodeid for item in items] == ["tests/test_a.py::test_x[2]", "tests/test_a.py::test_y"]
    assert len(left_out) == 2


def test_a_quick_run_has_no_long_function_but_the_shortest_of_its_file() -> None:
    names = ["a.py::long", "a.py::short", "b.py::longer", "b.py::long", "c.py::too_long"]
    items: list[Any] = [Item(name) for name in names]
    seconds = {"a.py::long": 1.0, "b.py::longer": 2.0, "b.py::long": 1.0, "c.py::too_long": 9.0}
    left_out = choose_quick(items, seconds)
    assert [item.nodeid for item in items] == ["a.py::short", "b.py::long"]
    assert [item.nodeid for item in left_out] == ["a.py::long", "b.py::longer", "c.py::too_long"]


@pytest.mark.parametrize("count", [5, 6, 13])
def test_five_days_in_part_run_each_case_once(count: int) -> None:
    names = [f"a.py::long[{number}]" for number in range(count)]
    seconds = {"a.py::long[]": 60.0, "a.py::short[]": 1.0}
    ran: list[str] = []
    for day in range(20261128, 20261133):
        items: list[Any] = [*map(Item, names), Item("a.py::short[1]"), Item("a.py::other")]
        left_out = choose_part(items, seconds, day)
        assert len(items) + len(left_out) == count + 2
        assert [item.nodeid for item in items[-2:]] == ["a.py::short[1]", "a.py::other"]
        assert len(items) - 2 in (count // 5, count // 5 + 1)
        ran += [item.nodeid for item in items[:-2]]
    assert sorted(ran) == sorted(names)


def test_a_run_in_part_takes_a_case_of_each_function() -> None:
    items: list[Any] = [Item("a.py::long[1]"), Item("a.py::long[2]")]
    choose_part(items, {"a.py::long[]": 60.0}, 0)
    assert len(items) == 1


def test_tests_that_take_turns_are_shared_out_by_their_length() -> None:
    named = {"a.py::x": 60.0, "a.py::y": 40.0, "a.py::s": 38.0, "b.py::z": 30.0, "b.py::u": 20.0, "b.py::v": 15.0}
    ran: list[list[str]] = []
    for day in range(5):
        items: list[Any] = [Item(name, "turns") for name in named] + [Item("b.py::daily")]
        choose_part(items, named, day)
        assert items.pop().nodeid == "b.py::daily"
        ran.append(sorted(item.nodeid for item in items))
    assert sorted(ran) == [["a.py::s"], ["a.py::x"], ["a.py::y"], ["b.py::u", "b.py::v"], ["b.py::z"]]


def test_the_longest_files_go_first_then_those_with_spark() -> None:
    ordered = ["tests/a/test_longest.py::t", "tests/spark/test_long.py::t", "tests/spark/test_c.py::t", "tests/b.py::t"]
    items: list[Any] = [Item(nodeid) for nodeid in reversed(ordered)]
    by_length(items, {"tests/a/test_longest.py": 90.0, "tests/spark/test_long.py": 40.0})
    assert [item.nodeid for item in items] == ordered


def test_files_whose_lengths_are_known_exist() -> None:
    files = {name.split("::")[0] for name in lengths()}
    assert len(files) > 40
    assert not [name for name in files if not (TESTS.parent / name).exists()]


def test_lengths_are_those_of_the_shortest_case_and_of_the_whole_file(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    cases = [("tests.a.test_x", "test_y[1]", 30), ("tests.a.test_x", "test_y[2]", 2), ("tests.b.TestZ", "test_z", 1.5)]
    cases += [("tests.d", f"test_w[{number}]", 4) for number in range(3)]
    rows = "".join(f'<testcase classname="{suite}" name="{name}" time="{time}"/>' for suite, name, time in cases)
    report.write_text(
        f'<testsuites><testsuite>{rows}<testcase classname="tests.c" name="t" time="0.1"/></testsuite></testsuites>'
    )
    assert lengths_of_run(report) == {
        "tests/a/test_x.py": 32,
        "tests/a/test_x.py::test_y": 2,
        "tests/a/test_x.py::test_y[]": 32,
        "tests/b.py::TestZ::test_z": 1.5,
        "tests/d.py::test_w": 4,
        "tests/d.py::test_w[]": 12,
    }


def test_a_run_in_part_keeps_the_lengths_of_what_it_leaves_out(tmp_path: Path) -> None:
    report, here = tmp_path / "junit.xml", "tests.test_selection"
    cases = [("test_cut[1]", 9), ("test_one", 3), ("test_new[1]", 6), ("test_new[2]", 1)]
    rows = "".join(f'<testcase classname="{here}" name="{name}" time="{time}"/>' for name, time in cases)
    report.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    this = "tests/test_selection.py"
    known = {this: 500, f"{this}::test_cut": 8, f"{this}::test_cut[]": 40, f"{this}::test_left_out": 70}
    assert lengths_of_run(report, {**known, f"{this}::test_one": 5, "tests/gone.py::test": 50}) == {
        this: 120,
        f"{this}::test_cut": 8,
        f"{this}::test_cut[]": 40,
        f"{this}::test_left_out": 70,
        f"{this}::test_one": 3,
        f"{this}::test_new": 1,
        f"{this}::test_new[]": 7,
    }


@pytest.mark.parametrize(
    ("cores", "gigabytes", "quick", "count"),
    [
        (1, 16, False, 1),
        (2, 23.4, False, 2),
        (4, 15.6, False, 3),
        (16, 64, False, 4),
        (2, 8, False, 2),
        (4, 1, False, 2),
        (1, 16, True, 1),
        (8, 64, True, 2),
    ],
)
def test_processes_are_as_many_as_cores_and_memory_serve(cores: int, gigabytes: float, quick: bool, count: int) -> None:
    assert processes(cores, int(gigabytes * (1 << 30)), quick=quick) == count


@pytest.mark.parametrize("count", [1, 2, 7])
def test_five_days_in_part_run_each_step(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.delenv(seeds.IN_PART, raising=False)
    assert seeds.part_of(range(count)) == list(range(count))
    monkeypatch.setenv(seeds.IN_PART, "true")
    ran: list[list[int]] = []
    for day in range(20261128, 20261133):
        monkeypatch.setattr(seeds, "DAY", day)
        ran.append(seeds.part_of(range(count)))
    assert {step for steps in ran for step in steps} == set(range(count))
    assert all(1 <= len(steps) <= -(-count // 5) for steps in ran)


def test_days_go_on_where_a_month_ends() -> None:
    assert [seeds.day_of(run) - seeds.day_of(20261130) for run in (20261201, 20261202, 20270101)] == [1, 2, 32]
    assert seeds.day_of(7) == 7  # a seed that somebody chose


def test_a_seed_gives_the_same_choices_for_the_same_name() -> None:
    assert [seeds.chance("a", 1).random(), seeds.chance("a", 1).random()] == [seeds.chance("a", 1).random()] * 2
    assert seeds.chance("a", 1).random() != seeds.chance("a", 2).random()
