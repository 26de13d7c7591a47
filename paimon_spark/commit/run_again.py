"""After a failed commit: a statement is run again from a fresh read, or files that no snapshot can have are deleted.

A statement that makes new rows of old ones is run again when another commit was faster.

Runs on the driver. Bounded by the options ``commit.max-retries``, ``commit.min-retry-wait``, ``commit.max-retry-wait``
and ``commit.timeout``, counted for the statement as a whole.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from paimon_spark.commit.conflict_detection import FINAL
from paimon_spark.commit.settings import CommitSettings
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    CommittedError,
    PaimonError,
    SnapshotNotFoundError,
)
from paimon_spark.table.snapshot_identity import SnapshotIdentity

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable

_Result = TypeVar("_Result")
_CONFLICT = re.compile(rf"\b{CommitConflictError.__name__}: (.*)")
_TURNS: WeakValueDictionary[tuple[str, str, str], threading.Lock] = WeakValueDictionary()
_TURNS_LOCK = threading.Lock()


def run_again(table: FileStoreTable, attempt: Callable[[Snapshot | None], _Result]) -> _Result:
    """Call ``attempt`` until no other commit comes between its read and its commit; return what it returns.

    The first attempt runs alongside all others; those that lost run one at a time in each process, so that they do not
    beat each other over and over.

    Args:
        table: whose rows change.
        attempt: reads the snapshot it is given (None: there is none yet), writes and commits; nothing of it is left
            when it raises a conflict.

    Raises:
        CommitConflictError: other commits were faster every time; the message names what the last one changed.
    """
    retries = CommitSettings.of(table.options).retries()
    while True:
        latest: Snapshot | None = None
        try:
            with _turn(table) if retries.count else contextlib.nullcontext():
                latest = table.snapshots.latest_to_follow()
                return attempt(latest)
        except Exception as error:
            reason = _conflict(error) or _expired(table, latest, error)
            if reason is None:
                raise
            if retries.exhausted:
                raise CommitConflictError(
                    f"The statement was run {retries.count + 1} times in {retries.elapsed_millis} millis, and each "
                    f"time another commit changed the rows that it had read. Nothing of it is in table {table.path}: "
                    f"run it again, with fewer jobs at once or with a larger option 'commit.max-retries'. The last "
                    f"conflict: {reason}"
                ) from error
        retries.wait()


def _conflict(error: Exception) -> str | None:
    """Return what another commit changed, if that is why a statement failed and a fresh read would mend it, else None.

    Spark passes on only the text of an error that a Python data source raises.
    """
    text = str(error)
    if any(words in text for words in FINAL):
        return None
    if isinstance(error, CommitError):
        return text if isinstance(error, CommitConflictError) else None
    found = _CONFLICT.search(text)
    return None if found is None else found[1]


def _expired(table: FileStoreTable, snapshot: Snapshot | None, error: Exception) -> str | None:
    """Return what to say if a statement failed because the snapshot that it read has expired, else None."""
    if SnapshotNotFoundError.__name__ not in f"{type(error).__name__} {error}" or snapshot is None:
        return None
    try:
        SnapshotIdentity.of(snapshot).find(table.snapshots)
    except SnapshotNotFoundError as gone:
        return str(gone)
    return None


@contextlib.contextmanager
def _turn(table: FileStoreTable) -> Iterator[None]:
    with _TURNS_LOCK:
        lock = _TURNS.setdefault(table.place, threading.Lock())
    with lock:
        yield


_LOG = logging.getLogger(__name__)


@contextmanager
def undone_where_void(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was prepared where the commit inside published nothing, for certain.

    That is where it raises an error of this package that says so. An interrupt (Ctrl-C) or an error of another kind may
    come when the snapshot is there already. Then the files stay; those that no snapshot has are orphans.
    """
    try:
        yield
    except (CommitStateUnknownError, CommittedError):
        raise
    except PaimonError:
        try:
            undo()
        except Exception as failed:  # noqa: BLE001 - what is left are orphans; the first error says what went wrong
            _LOG.warning("What a void commit has left could not be deleted: %s", failed)
        raise
