"""The table of docs/storage.md says of each store what a test shows there, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STORES = ("s3", "gcs", "azure", "hdfs", "oss")
OF_FILES = {"s3": "s3", "native_stores": "s3", "catalogs_on_s3": "s3", "hdfs": "hdfs"}
"""Parts of names of files whose tests run on one store."""
_TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


def table() -> list[tuple[str, list[str], list[str]]]:
    """What is said of each feature: its name, a word for each store, the tests."""
    text = (ROOT / "docs/storage.md").read_text(encoding="utf-8")
    part = text.partition("### What is proven on which store")[2].partition("\n#")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "]
    assert cells[0][1:-1] == ["S3", "GCS", "Azure", "HDFS", "OSS"]
    return [(row[0], row[1:-1], _TEST.findall(row[-1])) for row in cells[1:]]


def stores_of(test: str, collected: list[str]) -> set[str]:
    """The stores on which a test runs, by its parameters or else by its file."""
    items = [item for item in collected if item == test or item.startswith(f"{test}[")]
    assert items, f"no such test: {test}"
    found = {store for item in items for store in re.split(r"[\W_]", item.partition("[")[2]) if store in STORES}
    file = Path(test.partition("::")[0]).stem.removeprefix("test_")
    return found or {store for part, store in OF_FILES.items() if file == part or file.startswith(f"{part}_")}


@pytest.mark.thorough
def test_each_word_is_that_of_the_tests() -> None:
    rows = table()
    assert len(rows) > 15
    files = sorted({test.partition("::")[0] for _, _, tests in rows for test in tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    collected = done.stdout.splitlines()
    for what, words, tests in rows:
        shown = set().union(*(stores_of(test, collected) for test in tests))
        said = {store for store, word in zip(STORES, words, strict=True) if word == "yes"}
        if "test_a_directory_that_spark_reads_is_migrated" in str(tests):
            refused = {"azure", "oss"}  # there that test shows a refusal, and another one a migration
            assert refused <= set().union(*(stores_of(test, collected) for test in tests[:-1])), what
        assert said == shown, what
