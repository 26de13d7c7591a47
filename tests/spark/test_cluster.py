"""Statements on a standalone cluster of two workers: tasks fail, executors are killed, slow tasks run twice.

`python -m tests.support.cluster_storm FOLDER --seed N` runs all kinds of tables, and more statements of each.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.seeds import RUN

pytestmark = [pytest.mark.oracle, pytest.mark.thorough]


@pytest.mark.turns("storm")
@pytest.mark.parametrize(("front", "kind", "steps"), [("classic", "groups", 8), ("connect", "append", 5)])
def test_a_storm(tmp_path: Path, oracle: Any, front: str, kind: str, steps: int) -> None:
    folder = tmp_path / "storm"
    command = [sys.executable, "-m", "tests.support.cluster_storm", str(folder), "--seed", str(RUN), "--front", front]
    command += ["--kinds", kind, "--steps", str(steps)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    reported = f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == 0, reported
    faults = re.search(r"faults (\{.*\})", done.stdout)
    assert faults is not None, reported
    assert {"error", "kill", "slow"} <= set(json.loads(faults[1].replace("'", '"'))), reported
    wanted = {row[0]: tuple(row[1:]) for row in json.loads((folder / f"rows-{kind}.json").read_text())}
    found = oracle.rows(str(folder / "wh" / "d.db" / kind))
    assert {row[0]: tuple(row[1:]) for row in found} == wanted
