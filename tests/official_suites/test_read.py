"""What is cut out of a suite that does not compile as a whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.official_suites.read import FOLDERS, take, without

SUITE = """import a.b.{One, Two}
class SomeTest extends Base {
  test("first") {
    sql("SELECT '}'")
  }
  private def helper(x: Int): Int = {
    foreign(x)
  }
  Seq(1).foreach { i =>
    test(s"second $i") { // }
      foreign(i)
    }
  }
}
"""


def test_the_case_with_an_error_is_cut_out_and_lines_keep_their_numbers() -> None:
    removed, kept = without(SUITE, {11: "not found: value foreign"})
    assert kept is not None
    assert removed == ['s"second $i" (not found: value foreign)']
    assert "second" not in kept
    assert "first" in kept
    assert kept.count("\n") == SUITE.count("\n")
    assert kept.split("\n")[12] == "  }"


def test_a_member_and_a_name_of_an_import_are_cut_out() -> None:
    removed, kept = without(SUITE, {7: "not found", 1: "object Two is not a member of package a.b"})
    assert removed == ["member private def helper(x: Int): Int = { (not found)"]
    assert kept is not None
    assert kept.startswith("import a.b.{One}\n")
    assert "helper" not in kept


def test_a_base_class_that_is_not_there_takes_the_file() -> None:
    _removed, kept = without(SUITE, {2: "not found: type Base"})
    assert kept is None


def test_a_case_may_wait_for_its_own_threads_until_the_runner_stops_it(tmp_path: Path) -> None:
    source = tmp_path / "git" / FOLDERS[0] / "SomeTest.scala"
    source.parent.mkdir(parents=True)
    source.write_text("Await.result(merge, 60.seconds)\nAwait.result(_, 120.seconds)\nval minTime = 2.seconds\n")
    (tmp_path / "git" / FOLDERS[1]).mkdir(parents=True)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path / "git"), *command], check=True)
    into = tmp_path / "sources"
    into.mkdir()
    (taken,) = take(str(tmp_path / "git" / ".git"), into, "")
    assert (
        taken.read_text() == "Await.result(merge, 600.seconds)\nAwait.result(_, 600.seconds)\nval minTime = 2.seconds\n"
    )
