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
OLDER = tuple(part_of(sparks_to_try()))
SHORT_CASES = ("agp_metadata", "pu_seed_groups", "se_evolution", "tg_tags", "tt_version", "wr_columns", "wr_save")
"""The acceptance cases that CI runs on 4.1; on 4.3, and on 4.0 in six days, it runs all."""


def cases_on(version: str) -> list[Path]:
    """The acceptance cases that an older Spark runs: all on 4.0, the oldest; in a run in part a third of them."""
    return part_of(FILES, 3) if version == "4.0" else [path for path in FILES if path.stem in SHORT_CASES]


def test_the_page_shows_the_result() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, read_results()) == page, "run: python tests/matrix/make_matrix.py --table"


def test_every_version_has_every_statement_once() -> None:
    shown = [statement.shown for statement in STATEMENTS]
    assert len(set(shown)) == len(shown)
    for version, found in read_results().items():
        assert list(found) == shown, f"{AGAIN} {version}"


def cases_on_connect() -> list[Path]:
    """Those that run on Spark Connect of an older Spark: all, or in a run in part a fifth of them."""
    return part_of(FILES, 5)


Runs = dict[str, Future[dict[str, Any]]]


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    """What waits for the processes of older Sparks, which run alongside each other."""
    with ThreadPoolExecutor(len(OLDER)) as found:
        yield found


@pytest.fixture(scope="module")
def runs(threads: ThreadPoolExecutor) -> Runs:
    """The short matrix and acceptance cases on each older Spark."""
    found = {}
    for version in OLDER:
        found[version] = threads.submit(run, version, "--short", "--cases", *map(str, cases_on(version)))
    return found


@pytest.fixture(scope="module")
def connected(threads: ThreadPoolExecutor, runs: Runs) -> Runs:
    """Acceptance cases on Spark Connect of each older Spark, behind the others."""
    assert runs
    cases = [str(path) for path in cases_on_connect()]
    return {version: threads.submit(run, version, "--connect", "--cases", *cases) for version in OLDER}


@pytest.mark.peer
@pytest.mark.spark
def test_every_statement_on_the_newest_spark(spark: SparkSession, tmp_path: Path, connected: object) -> None:
    assert connected, "they go on meanwhile"
    known, tried = read_results()[NEWEST], part_of(STATEMENTS)
    expected = {statement.shown: known[statement.shown] for statement in tried}
    assert outcomes(spark, str(tmp_path), tried) == expected, f"{AGAIN} {NEWEST}"


@pytest.fixture(scope="module", params=OLDER)
def older(request: pytest.FixtureRequest, runs: Runs) -> tuple[str, dict[str, Any]]:
    """An older Spark, and what came of its run."""
    version = str(request.param)
    return version, runs[version].result()


@pytest.mark.peer
@pytest.mark.spark
def test_the_short_matrix_on_older_sparks(older: tuple[str, dict[str, Any]]) -> None:
    version, result = older
    known = read_results()[version]
    expected = {statement.shown: known[statement.shown] for statement in short_statements()}
    assert result["statements"] == expected, f"{AGAIN} {version}"


@pytest.mark.peer
@pytest.mark.spark
def test_the_acceptance_cases_on_older_sparks(older: tuple[str, dict[str, Any]]) -> None:
    version, result = older
    assert set(result["cases"]) == {path.stem for path in cases_on(version)}
    assert wrong_of(result["cases"]) == {}


@pytest.mark.peer
@pytest.mark.spark
@pytest.mark.parametrize("version", OLDER)
def test_the_acceptance_cases_on_connect_of_older_sparks(connected: Runs, version: str) -> None:
    cases = connected[version].result()["cases"]
    assert set(cases) == {path.stem for path in cases_on_connect()}
    assert wrong_of(cases) == {}


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
