"""Temporary views of Connect sessions read the newest rows of the tables that they name, as on classic sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.turns("connect")
def test_views_follow_their_tables(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "tests/spark/connect_views_program.py", connect, str(tmp_path / "wh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "done\n", done.stdout + done.stderr
