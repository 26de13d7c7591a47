"""Ends an operation at every call of the store in turn: by an error, or by the end of its process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from paimon_spark.errors import PaimonError
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.faults import IMPATIENT, FaultyFileIO, Result

Operation = Callable[[FileStoreTable], object]
KILLED = 9


READS = frozenset({"read_bytes", "open_input", "exists", "size", "list_names"})


class ExitingFileIO(FaultyFileIO):
    """Ends the process after the deed of the call number ``fail_at``.

    A read behind another read does not count: the process would leave what it left after the first.
    """

    __slots__ = ("_has_read",)

    def _call(self, name: str, deed: Callable[[], Result]) -> Result:
        if not self.calls:
            self._has_read = False
        has_read, self._has_read = self._has_read, name in READS
        if has_read and self._has_read:
            return deed()
        number, self.calls = self.calls, self.calls + 1
        result = deed()
        if number == self.fail_at:
            os._exit(KILLED)
        return result


def faulty_table(path: str, store: FaultyFileIO) -> FileStoreTable:
    """Open a table on a faulty store, whose faults begin only now."""
    fail_at, store.fail_at = store.fail_at, None
    table = load_table(path, file_io=store).with_options({**IMPATIENT, "file-operation.thread-num": "1"})
    store.fail_at, store.calls = fail_at, 0
    return table


def link_copy(path: str | Path, target: Path) -> Path:
    """Copy a table quickly: no file of a table is ever changed in place."""
    shutil.copytree(path, target, copy_function=os.link)
    return target


def ended_by_error(path: str, operation: Operation, scratch: Path) -> Iterator[FileStoreTable]:
    """Yield copies of a table after an operation was ended at its first call of the store, its second, and so on.

    That call and all that follow raise instead of doing anything.
    """
    number, done = 0, False
    while not done:
        copy = link_copy(path, scratch / f"error-{number}")
        store = FaultyFileIO(LocalFileIO(), number, forever=True)
        with contextlib.suppress(OSError, PaimonError):
            operation(faulty_table(str(copy), store))
        done = store.calls <= number
        yield load_table(str(copy))
        shutil.rmtree(copy)
        number += 1
    assert number > 3, "the operation did not come far"


def ended_by_exit(path: str, operation: Operation, scratch: Path) -> Iterator[FileStoreTable]:
    """Yield copies of a table after the process of an operation ended right after its first call, its second, ...

    Args:
        path: the table, which stays as it is.
        operation: a function at the top of a module.
        scratch: for the copies.
    """
    process = multiprocessing.get_context("spawn").Process(target=_exit_everywhere, args=(path, operation, scratch))
    process.start()
    process.join()
    assert process.exitcode == 0
    copies = sorted(scratch.glob("exit-*"), key=lambda copy: int(copy.name.removeprefix("exit-")))
    assert len(copies) > 3, "the operation did not come far"
    for copy in copies:
        yield load_table(str(copy))
        shutil.rmtree(copy)


def _exit_everywhere(path: str, operation: Operation, scratch: Path) -> None:
    """In a process of its own, without threads: fork for each call."""
    number, code = 0, KILLED
    while code == KILLED:
        copy = link_copy(path, scratch / f"exit-{number}")
        child = os.fork()
        if child == 0:
            operation(faulty_table(str(copy), ExitingFileIO(LocalFileIO(), number)))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        number += 1
    assert code == 0
