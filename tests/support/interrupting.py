"""Ends an operation, or lets a rival act, at every call of the local store in turn, whatever tables it opens itself.

`killing` puts a faulty store under one table. Operations that make tables and open others (copies, migrations) are
watched here instead, at the calls of `LocalFileIO` of the whole process.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paimon_spark.errors import PaimonError
from paimon_spark.storage.file_io import LocalFileIO
from tests.support.killing import KILLED, READS, link_copy
from tests.support.seeds import chance

Operation = Callable[[Path], object]
"""Works in a directory that holds tables."""
CALLS = (*sorted(READS), "open_output", "write_bytes", "create_exclusive", "mkdirs", "rename", "delete_quietly")
CALLS += ("delete_files", "delete_empty_directory", "delete_empty_tree")


@contextlib.contextmanager
def watched(before: Callable[[str], None], after: Callable[[str], None]) -> Iterator[None]:
    """Tell of every call of a local store in this process, by its name; not of calls that such a call makes."""
    plain = {name: getattr(LocalFileIO, name) for name in CALLS}
    inside = []

    def watch(name: str) -> Callable[..., Any]:
        @functools.wraps(plain[name])
        def call(*given: Any, **named: Any) -> Any:
            if inside:
                return plain[name](*given, **named)
            inside.append(name)
            try:
                before(name)
                result = plain[name](*given, **named)
                after(name)
            finally:
                inside.pop()
            return result

        return call

    try:
        for name in CALLS:
            setattr(LocalFileIO, name, watch(name))
        yield
    finally:
        for name, function in plain.items():
            setattr(LocalFileIO, name, function)


def killed_at_every_call(origin: Path, operation: Operation, scratch: Path) -> Iterator[Path]:
    """Yield copies of a directory after the process of an operation ended right after its first call, its second, ...

    A read behind another read does not count: the process would leave what it left after the first.

    Args:
        origin: the directory, which stays as it is.
        operation: a function at the top of a module, or a `partial` of one.
        scratch: for the copies.
    """
    process = multiprocessing.get_context("spawn").Process(target=_exit_everywhere, args=(origin, operation, scratch))
    process.start()
    process.join()
    assert process.exitcode == 0
    copies = sorted(scratch.glob("exit-*"), key=lambda copy: int(copy.name.removeprefix("exit-")))
    assert len(copies) > 3, "the operation did not come far"
    for copy in copies:
        yield copy
        shutil.rmtree(copy)


def _exit_everywhere(origin: Path, operation: Operation, scratch: Path) -> None:
    number, code = 0, KILLED
    while code == KILLED:
        copy = link_copy(origin, scratch / f"exit-{number}")
        child = os.fork()
        if child == 0:
            with watched(lambda name: None, _Exit(number)):
                operation(copy)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        number += 1
    assert code == 0, f"the operation failed: {code}"


class _Exit:
    def __init__(self, number: int) -> None:
        self.left = number
        self.has_read = False

    def __call__(self, name: str) -> None:
        skipped, self.has_read = self.has_read and name in READS, name in READS
        if skipped:
            return
        if not self.left:
            os._exit(KILLED)
        self.left -= 1


def with_a_rival(
    origin: Path, operation: Operation, rival: Operation, scratch: Path
) -> Iterator[tuple[Path, Exception | None]]:
    """Yield copies of a directory after a rival acted before the operation's first call, its second, ...

    Yields:
        The copy and the error that the operation raised.
    """
    number, acted = 0, True
    while acted:
        copy = link_copy(origin, scratch / f"rival-{number}")
        at = _Rival(number, functools.partial(rival, copy))
        error: Exception | None = None
        try:
            with watched(at, lambda name: None):
                operation(copy)
        except (PaimonError, OSError) as raised:
            error = raised
        acted = at.left < 0
        if acted:
            yield copy, error
        shutil.rmtree(copy)
        number += 1
    assert number > 3, "the operation did not come far"


class _Rival:
    """Acts before one call; the calls that it makes itself are not seen, being inside of that call."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.act = act

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == -1:
            self.act()


def killed_at_random(operation: Operation, directory: Path, turns: int = 3) -> Iterator[Callable[[], None]]:
    """Let a process do an operation again and again until SIGKILL ends it at a random moment, some times over.

    Yields:
        While the process works, for each turn: a function that waits a little.
    """
    random, spawn = (
        chance("killed at random", getattr(operation, "__name__", operation)),
        multiprocessing.get_context("spawn"),
    )
    for _ in range(turns):
        started = spawn.Event()
        process = spawn.Process(target=_for_ever, args=(operation, directory, started), daemon=True)
        process.start()
        assert started.wait(120), "the operation did not end"
        yield lambda: time.sleep(random.uniform(0, 0.05))
        time.sleep(random.uniform(0, 0.1))
        assert process.is_alive(), "the operation failed"
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL


def _for_ever(operation: Operation, directory: Path, started: Any) -> None:
    while True:
        with contextlib.suppress(PaimonError):
            operation(directory)
        started.set()
