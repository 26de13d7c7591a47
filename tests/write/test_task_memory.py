"""A process that serves task after task grows by little more than twice the budget, whatever it freed a moment ago."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.task_memory import BUDGET

_FIXED = 40 << 20
"""Stacks of threads, tables of codecs, numpy."""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's peak is read from /proc")
def test_steps_of_ten_times_the_budget(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.task_memory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown = {name: int(size) for name, size in (line.split(": ") for line in done.stdout.splitlines())}
    assert len(grown) == 5
    assert {name: size >> 20 for name, size in grown.items() if size > 2 * BUDGET + _FIXED} == {}
