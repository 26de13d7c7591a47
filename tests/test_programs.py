"""Programs that tests run: what they say, and what is shown of those that hang."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import Done, run_program

IDLE = """
import subprocess, sys, threading
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("begun", flush=True)
threading.Event().wait()
"""


def test_one_that_hangs_shows_its_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", IDLE]
    with pytest.raises(pytest.fail.Exception, match=r"(?s)time\.sleep\(600\).*begun.*threading\.py.*in wait"):
        run_program(command, tmp_path, os.environ, look_seconds=2, looks=3)


def test_one_that_ends_shows_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
    assert run_program(command, tmp_path, os.environ) == Done(3, "out\n", "err\n")
