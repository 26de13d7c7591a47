"""docs/statements.md shows what running its statements gives; acceptance cases hold on older Sparks, on Connect too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.cases import FILES, NOT_YET
from tests.matrix.make_matrix import NEWEST, PAGE, read_results, run, with_table
from tests.matrix.run_here import outcomes
from tests.matrix.statements import STATEMENTS, short_statements
from tests.peers.make_environments import sparks_to_try
from tests.support.seeds import part_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN = "run: python tests/matrix/make_matrix.py"
OLDER = part_of([(version, front) for front in ("classic", "connect") for version in sparks_to_try()], 4)
"""Versions and kinds of sessions: all, or in a run in part one of them, which has its turn every fourth day."""
SHORT_CASES = ("agp_metadata", "pu_seed_groups", "se_evolution", "tg_tags", "tt_version", "wr_columns", "wr_save")
"""The acceptance cases that CI runs on 4.1; on 4.3, and on 4.0 in three turns, it runs all."""


def cases_on(version: str, front: str) -> list[Path]:
    """The acceptance cases that an older Spark runs.

    On Connect all, in a run in part a fifth of them; on a classic session all on 4.0, the oldest, in a run in part a
    third.
    """
    if front == "connect":
        return part_of(FILES, 5)
    return part_of(FILES, 3) if version == "4.0" else [path for path in FILES if path.stem in SHORT_CASES]


def test_the_page_shows_the_result() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, read_results()) == page, "run: python tests/matrix/make_matrix.py --table"


def test_every_version_has_every_statement_once() -> None:
    shown = [statement.shown for statement in STATEMENTS]
    assert len(set(shown)) == len(shown)
    for version, found in read_results().items():
        assert list(found) == shown, f"{AGAIN} {version}"


Runs = dict[tuple[str, str], Future[dict[str, Any]]]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """The short matrix and acceptance cases on older Sparks, whose processes run alongside each other."""
    with ThreadPoolExecutor(len(sparks_to_try())) as threads:
        found = {}
        for version, front in OLDER:
            kind = "--connect" if front == "connect" else "--short"
            found[version, front] = threads.submit(run, version, kind, "--cases", *map(str, cases_on(version, front)))
        yield found


@pytest.mark.peer
@pytest.mark.spark
def test_every_statement_on_the_newest_spark(spark: SparkSession, tmp_path: Path, runs: Runs) -> None:
    assert runs, "they go on meanwhile"
    known, tried = read_results()[NEWEST], part_of(STATEMENTS)
    expected = {statement.shown: known[statement.shown] for statement in tried}
    assert outcomes(spark, str(tmp_path), tried) == expected, f"{AGAIN} {NEWEST}"


@pytest.mark.peer
@pytest.mark.spark
@pytest.mark.parametrize(("version", "front"), OLDER)
def test_statements_and_acceptance_cases_on_an_older_spark(runs: Runs, version: str, front: str) -> None:
    result = runs[version, front].result()
    assert set(result["cases"]) == {path.stem for path in cases_on(version, front)}
    assert wrong_of(result["cases"]) == {}
    if front == "classic":
        known = read_results()[version]
        expected = {statement.shown: known[statement.shown] for statement in short_statements()}
        assert result["statements"] == expected, f"{AGAIN} {version}"


def wrong_of(cases: dict[str, str | None]) -> dict[str, str]:
    """The cases that failed, or hold though they should not; by their names what is wrong."""
    wrong = {}
    for case, failure in cases.items():
        reason, text = NOT_YET.get(case, ("", None))
        if text is None and failure is not None:
            wrong[case] = failure
        elif text is not None and (failure is None or not re.search(text, failure, re.I | re.S)):
            wrong[case] = f"should fail, because {reason}, but: {failure}"
    return wrong
