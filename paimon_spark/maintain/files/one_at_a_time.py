"""Work on a table's snapshots, tags and branches: one process at a time.

A rollback, an expiry, a tag or a branch that is made, renamed or deleted: each decides by what the others change, and
some delete files for good. So they exclude each other, by a lease next to the snapshots (`storage.lease`). Commits and
readers do not wait. Java has no such lease: its maintenance of the same table is best run at another time.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from paimon_spark.errors import StorageError, TableBusyError
from paimon_spark.storage.lease import PREFIX, LeaseHeldError, lease
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_Function = TypeVar("_Function", bound=Callable[..., Any])
_WAIT_SECONDS = ContextVar("_WAIT_SECONDS", default=600.0)


class _Held(threading.local):
    """The tables whose lease this thread holds, by their stores and paths."""

    def __init__(self) -> None:
        self.places: set[tuple[str, str]] = set()


_HELD = _Held()


def one_at_a_time(work: str) -> Callable[[_Function], _Function]:
    """Let a function that changes the snapshots, tags or branches of a table wait for others that do so.

    Functions of one thread may call each other.

    Args:
        work: what the function does, for the messages of those who wait.

    Returns:
        A decorator of functions whose first argument is the table. They raise `TableBusyError` if another process does
        not end in time; nothing has been done then.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def alone(table: FileStoreTable, *args: Any, **kwargs: Any) -> Any:
            with _alone(table, work):
                return function(table, *args, **kwargs)

        return cast("_Function", alone)

    return decorate


def others_at_work(table: FileStoreTable, listed: Iterable[str]) -> bool:
    """Return whether another process, or thread, is at work now.

    Args:
        table: the branch.
        listed: the names in its directory of snapshots, just listed.
    """
    if _place(table) in _HELD.places:
        return False
    if table.branch != MAIN_BRANCH:
        listed = [entry.name for entry in table.file_io.list_names(_directory(table))]
    return any(name.startswith(PREFIX) for name in listed)


@contextlib.contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Wait only so long for others, in the work that is done inside; 600 seconds otherwise."""
    before = _WAIT_SECONDS.set(seconds)
    try:
        yield
    finally:
        _WAIT_SECONDS.reset(before)


@contextlib.contextmanager
def _alone(table: FileStoreTable, work: str) -> Iterator[None]:
    if _place(table) in _HELD.places:
        yield
        return
    directory, wait_seconds = _directory(table), _WAIT_SECONDS.get()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lease(table.file_io, directory, work, wait_seconds=wait_seconds))
        except LeaseHeldError as error:
            raise TableBusyError(
                f"Nothing was done ({work} of {table.path}): {error} is at work on the snapshots, tags or branches of "
                f"the table, and did not end within {wait_seconds:.0f} seconds. Try again when it has ended."
            ) from error
        except OSError as error:
            raise StorageError(
                f"Nothing was done ({work} of {table.path}): {directory} could not be written ({error}). See that its "
                "files can be made and deleted."
            ) from error
        _HELD.places.add(_place(table))
        held.callback(_HELD.places.discard, _place(table))
        yield


def _place(table: FileStoreTable) -> tuple[str, str]:
    """The store and the path: all branches have one lease, and two stores may have one path."""
    return table.file_io.address, table.path


def _directory(table: FileStoreTable) -> str:
    """Where the lease of all branches stands."""
    return table.paths.for_branch(MAIN_BRANCH).snapshot_dir
