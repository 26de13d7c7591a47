"""The acceptance cases hold on Spark Connect, each from its first step to its last."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cases import FILES
from tests.acceptance.run import parse

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
PROGRAM = Path(__file__).with_name("connect_acceptance_program.py")


def steps_of(path: Path) -> int:
    """How many steps of a case count as passed where all of it holds."""
    heads = [head for head, _ in parse(path.read_text(encoding="utf-8"))]
    assert not any(head.startswith("skip ours") for head in heads)
    return sum(not head.startswith(("now ", "let ", "skip ")) for head in heads)


@pytest.fixture(scope="module")
def run(connect: str) -> Iterator[Callable[[Path], Any]]:
    """Runs a case in one client of the server; gives the number of steps that passed, and the failure."""
    command = [sys.executable, str(PROGRAM), connect]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        asked, answers = client.stdin, client.stdout

        def run_case(path: Path) -> Any:
            print(path, file=asked, flush=True)
            return json.loads(answers.readline())

        yield run_case
        asked.close()
        assert client.wait(60) == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case(run: Callable[[Path], Any], path: Path) -> None:
    assert run(path) == [steps_of(path), None]
