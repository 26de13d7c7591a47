"""The clone stands alone: what code and documents cite is in the repository, and nothing needs what lies next to it."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from tests.support.golden_archives import ARCHIVES, golden_folder, packed

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("paimon_spark", "pyspark_paimon", "tests", "benchmarks", "examples", "docs", ".ci")
OUTSIDE = ("../" + "shared", "PAIMON_SPARK_" + "SHARED")

DOCUMENT = re.compile(
    r"(?<![\w/.:$}-])(?:[\w-]+/)*[\w-]+\.md\b|(?<![\w/])docs/internals/spec/[\w./-]*\w|(?<![\w./])spec/[\w-]+\.txt"
)
SECTIONS = re.compile(r"(docs/[\w/]+\.md)`?\s+((?:§[\d.]*\d\w?(?:, | and )?)+)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def texts(*suffixes: str) -> list[Path]:
    """The repository's files of these kinds."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    found += [path for path in ROOT.iterdir() if path.suffix in suffixes]
    return sorted(path for path in found if path.is_file())


def cited_documents(text: str) -> set[str]:
    return set(DOCUMENT.findall(text))


def missing_sections(text: str) -> list[str]:
    """Sections that a text cites of documents which lack them."""
    missing = []
    for document, numbers in SECTIONS.findall(" ".join(text.split())):
        headings = (ROOT / document).read_text(encoding="utf-8") if (ROOT / document).exists() else ""
        for number in re.findall(r"[\d.]*\d\w?", numbers):
            if not re.search(rf"^##+ {re.escape(number)}\.?\s", headings, re.M):
                missing.append(f"{document} §{number}")
    return missing


def test_code_cites_documents_that_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts(".py", ".java")
        for name in cited_documents(path.read_text(encoding="utf-8"))
        if path != Path(__file__) and not (ROOT / name).exists() and not (path.parent / name).exists()
    ]
    assert not wrong


def test_code_cites_sections_that_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {section}"
        for path in texts(".py", ".java")
        if path != Path(__file__)
        for section in missing_sections(path.read_text(encoding="utf-8"))
    ]
    assert not wrong


def test_links_of_documents_lead_somewhere() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in texts(".md")
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert not wrong


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_tests_that_documents_name_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {file}::{name}"
        for path in texts(".md")
        for file, name in NAMED_TEST.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert not wrong


def test_each_guarantee_names_its_tests() -> None:
    rows = [
        line for line in (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"
    ]
    promises = [row for row in rows if not row.startswith("|---") and "::" not in row]
    said = (
        "shown by |",
        "no test of this repository",
        "all tests named here",
        "| store | when",
        "| object stores",
        "| local and",
    )
    assert not [row for row in promises if not any(word in row for word in said)]


def named_paths(text: str) -> set[str]:
    """Files and folders that a document names in back quotes."""
    return set(re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?|[\w-]+\.py)`", text))


def named_functions(text: str) -> set[str]:
    """Functions that a document names in back quotes, as `name()`, and methods as `Class.name`."""
    return set(re.findall(r"`(?:\w+\.)?(\w+)\(\)`", text)) | set(re.findall(r"`[A-Z]\w+\.(\w+)`", text))


def test_the_architecture_names_what_exists() -> None:
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    paths, functions = named_paths(text), named_functions(text)
    assert len(paths) > 50
    assert len(functions) > 10
    homes = (ROOT, ROOT / "paimon_spark")
    assert not [path for path in paths if not any((home / path).exists() for home in homes)]
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "paimon_spark").rglob("*.py"))
    assert not [name for name in functions if not re.search(rf"^ *def {name}\(", code, re.M)]


def test_nothing_outside_the_clone_is_needed() -> None:
    files = [*texts(".py", ".ipynb", ".md", ".toml", ".java", ".slt", ".txt", ".yml", ""), ROOT / "pyproject.toml"]
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in files
        for word in OUTSIDE
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert not wrong


def test_the_checks_of_citations_find_what_is_wrong() -> None:
    format_page, spark_page = "docs/internals/format.md", "docs/internals/spark.md"
    text = f"Equals it ({format_page} §9 and §99, `{spark_page}`\n§2b, spec/tags-proposal.txt, docs/nope.md)"
    assert cited_documents(text) == {format_page, spark_page, "spec/tags-proposal.txt", "docs/nope.md"}
    assert missing_sections(text) == [f"{format_page} §99"]
    text = "Read by `plan_it()` in `read/plan.py`, `read/` and `errors.py`, then `Scan.select`, not `a/<b>.py` or `x`"
    assert named_paths(text) == {"read/plan.py", "read/", "errors.py"}
    assert named_functions(text) == {"plan_it", "select"}


@pytest.mark.parametrize("name", ["hashing", "branches"])
def test_archives_of_golden_tables_depend_on_their_contents_only(name: str) -> None:
    archive = (ARCHIVES / f"{name}.tar.xz").read_bytes()
    assert lzma.decompress(packed(golden_folder() / name)) == lzma.decompress(archive)


def test_every_golden_table_is_described() -> None:
    described = {path.stem for path in ARCHIVES.glob("*.json")} | {"hashing"}
    assert described == {path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz")}
    index = (ARCHIVES / "README.md").read_text(encoding="utf-8")
    assert not [name for name in described if f"| {name} |" not in index and name != "hashing"]
