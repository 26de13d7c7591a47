"""Programs that tests run as users do. One that hangs shows where its threads stand; one that is only slow does not.

A busy machine makes a program of 12 seconds last minutes, so no time is a limit. A program hangs where its processes do
nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

_LOOK_SECONDS = 20
_LOOKS = 9
_IDLE_SECONDS = 2
"""An idle JVM needs about half a CPU second in the time of all looks."""


@dataclass(frozen=True)
class _Process:
    pid: int
    cpu_seconds: int
    command: str


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    code: int
    out: str
    err: str


def run_program(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    look_seconds: float = _LOOK_SECONDS,
    looks: int = _LOOKS,
) -> Done:
    """Run a program to its end, in a session of its own; the test fails where it hangs.

    Args:
        command: the program and its arguments; of Python with ``-X faulthandler``, which shows threads.
        folder: the working directory.
        environment: all its variables.
        look_seconds: after how many it is looked at whether it works.
        looks: how many times in a row it may be found idle.
    """
    spent: list[int] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            while True:
                try:
                    out, err = running.communicate(timeout=look_seconds)
                    return Done(running.returncode, out, err)
                except subprocess.TimeoutExpired:
                    spent.append(sum(process.cpu_seconds for process in _session(running.pid)))
                if len(spent) > looks and spent[-1] - spent[-1 - looks] <= _IDLE_SECONDS:
                    pytest.fail(f"it hangs: {' '.join(command)}\n{_threads(running)}")
        finally:
            for process in _session(running.pid):
                _send(process.pid, signal.SIGKILL)


def _session(leader: int) -> list[_Process]:
    """The processes of a session, those whose parents have ended too."""
    listed = subprocess.run(["ps", "-eo", "sess,pid,cputimes,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()[1:]]
    return [_Process(int(row[1]), int(row[2]), row[3]) for row in rows if row[0] == str(leader) and len(row) == 4]


def _threads(running: subprocess.Popen[str]) -> str:
    """The processes of a program, what it has said, and its threads: Java tells them as output, Python as errors."""
    processes = _session(running.pid)
    machines = [process for process in processes if process.command.split()[0].endswith("java")]
    for process in machines:
        _send(process.pid, signal.SIGQUIT)
    time.sleep(3 if machines else 0)
    _send(running.pid, signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(10)
    for process in processes:  # which hold its pipes, and would keep them open
        _send(process.pid, signal.SIGKILL)
    out, err = running.communicate()
    return "\n".join([*(f"{p.pid} {p.cpu_seconds} s {p.command[:200]}" for p in processes), out, err])


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
