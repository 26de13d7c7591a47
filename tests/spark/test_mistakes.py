"""Mistakes of users: each is reported in one line, by an error of ours, on classic sessions and on Spark Connect."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.mistakes import REPORTED

pytestmark = pytest.mark.spark
PROGRAM = Path(__file__).with_name("mistakes_program.py")
MOST_LINES = 25
"""Of all that Python prints on a classic session, frames of PySpark among it."""

MOST_OWN_LINES = 3
"""Of a sentence of ours in a session that never saw this package, around which Spark puts its own."""


def answers(*arguments: object) -> dict[str, dict[str, Any]]:
    """What each mistake shows."""
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


def faults(found: dict[str, dict[str, Any]], most_lines: int | None) -> list[str]:
    """What is wrong with the answers."""
    wrong = [f"{name}: not tried" for name in REPORTED if name not in found]
    for name, answer in found.items():
        kind, words = REPORTED[name]
        if answer["kind"] != kind or words not in answer["text"]:
            wrong.append(f"{name}: {answer}")
        elif answer["wrappers"]:
            wrong.append(f"{name}: notebooks show our wrappers: {answer}")
        elif answer["ours"] and answer["named"]:
            wrong.append(f"{name}: names its class, which Python shows already: {answer}")
        elif kind.endswith("Error") and (not answer["ours"] or answer["own_lines"] > 1):
            wrong.append(f"{name}: is not one line of ours: {answer}")
        elif name.endswith("_before_register") and answer["own_lines"] > MOST_OWN_LINES:
            wrong.append(f"{name}: shows frames of a worker: {answer}")
        elif answer["jvm"] and not name.endswith("_before_register"):
            wrong.append(f"{name}: shows frames of the JVM: {answer}")
        elif most_lines is not None and answer["lines"] > most_lines:
            wrong.append(f"{name}: {answer['lines']} lines")
    return wrong


def test_the_list_has_forty_mistakes() -> None:
    assert len(REPORTED) >= 40


@pytest.mark.turns("program")
@pytest.mark.thorough
def test_a_classic_session_shows_mistakes_in_one_line(tmp_path: Path) -> None:
    assert faults(answers(tmp_path), MOST_LINES) == []


@pytest.mark.turns("connect")
@pytest.mark.thorough
def test_connect_shows_mistakes_in_one_line(connect: str, tmp_path: Path) -> None:
    assert faults(answers(tmp_path, connect), None) == []
