"""The site of docs/ builds in strict mode, holds what the pages promise, and loads nothing from another host."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import paimon_spark

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # the theme's notice of its own end of life, not of our pages
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    return folder


class Links(HTMLParser):
    """The addresses that a page loads (`loaded`) or leads to (`targets`), and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.add(values.get("href", ""))
        if tag in ("script", "img") and "src" in values:
            self.loaded.add(values["src"])
        if tag == "a" and "href" in values:
            self.targets.add(values["href"])


def links_of(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def test_internal_links_and_anchors_exist(site: Path) -> None:
    pages = {page: links_of(page) for page in site.rglob("*.html") if page.name != "404.html"}
    wrong = []
    for page, links in pages.items():
        for target in links.targets | links.loaded:
            path, _, anchor = target.partition("#")
            if ":" in path:
                continue
            file = (page.parent / path.partition("?")[0]).resolve() if path else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].anchors):
                wrong.append(f"{page.name}: {target}")
    assert len(pages) > 25
    assert not wrong


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {address for page in site.rglob("*.html") for address in links_of(page).loaded}
    assert not {address for address in loaded if "//" in address}


def test_the_api_page_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    assert not [name for name in paimon_spark.__all__ if f'.{name}"' not in page]


@cache
def messages() -> str:
    """The texts of the code, one a line, with `…` in place of values."""
    texts = []
    for path in (ROOT / "paimon_spark").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_messages_of_the_troubleshooting_page_are_in_the_code() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    assert len(listed) > 20
    assert not [message for message in listed if message not in messages()]


def test_prose_has_no_long_lines() -> None:
    """Rows of tables and headings of API pages cannot be broken in Markdown; everything else can."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    wrong = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_LINE and not line.lstrip().startswith("|")
    ]
    assert not wrong
