"""What is cut out of a suite that does not compile as a whole."""

from __future__ import annotations

from tests.official_suites.read import without

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
