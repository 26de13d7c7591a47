"""The published benchmarks: the page is made of the figures, and all peers' merges end in the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.published import page
from benchmarks.published.peers import Peer
from benchmarks.published.suites import SUITES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.catalog("c", database="d", current=True)

RUN = ("insert only, 100% new", "delete only, 5% matched", "upsert, 5% of files, 10% matched, 10.0% new")
SCALE = 0.01


def test_the_page_shows_the_figures() -> None:
    figures = page.kept()
    assert figures
    assert page.PAGE.read_text(encoding="utf-8") == page.page(figures), "run: python -m benchmarks.published.page"
    for name, text in page.pictures(figures).items():
        assert (page.PICTURES / name).read_text(encoding="utf-8") == text


def test_a_step_in_which_another_is_first_is_named() -> None:
    found = {
        "won": {"ours": 1.0, "ours, keyed": 3.0, "official": 2.0},
        "lost": {"ours": 3.0, "ours, keyed": 3.0, "official": 2.0},
    }
    said = page.ratios(found)
    assert "First in 1 of 2 steps, not in: lost." in said
    assert "`ours` takes 1.00 of `official`" in said
    assert "| lost | 3.00 | 3.00 | **2.00** |" in page.table(found)


def merged(peer: Peer) -> dict[str, str]:
    """The answers of some merges."""
    steps = SUITES["merges"][0](peer, SCALE)
    answers = {}
    for step in steps:
        if step.name in RUN:
            copy = step.prepare()
            answers[step.name] = step.answer(step.run(copy))
            step.finish(copy)
    return answers


@pytest.mark.turns("program")
def test_merges_of_a_table_with_keys_and_of_parquet_find_the_same(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    try:
        ours = merged(Peer("ours, keyed", warehouse, spark))
        parquet = merged(Peer("Parquet", tmp_path, spark))
    finally:
        spark.sql("DROP TABLE IF EXISTS spark_catalog.default.web_returns")
        spark.catalog.dropTempView("source")
        spark.sql("USE c.d")
    assert ours == parquet
    assert len(set(ours.values())) == len(RUN)
    assert not list(warehouse.glob("d.db/copy*"))
