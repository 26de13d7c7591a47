"""The EXCLUSIVE lock of a table in a Hive metastore. Java: ``HiveCatalogLock``."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.metastore.catalog_locks import LockOptions
from paimon_spark.metastore.hive_client import HiveClient, HiveNoAnswerError, HiveRefusalError, records, user

_LOG = logging.getLogger(__name__)
_FIRST_SLEEP_SECONDS: Final = 0.05
HEARTBEAT_SECONDS: Final = 60.0
"""How often a lock that is held is kept alive: servers free it after `hive.txn.timeout`, which is 5 minutes."""


@contextlib.contextmanager
def held(client: HiveClient, options: LockOptions, database: str, name: str, beat_seconds: float) -> Iterator[None]:
    """Hold the lock of a table, or of its branch ``t$branch_b``, and keep it alive.

    Raises:
        TableBusyError: others held it for too long.
        PaimonError: the metastore cannot be reached, or takes no locks.
    """
    number = _acquired(client, options, database, name)
    ended = threading.Event()
    beats = threading.Thread(target=_keep_alive, args=(client, number, ended, beat_seconds), daemon=True)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        _release(client, number, f"{database}.{name}")


def _acquired(client: HiveClient, options: LockOptions, database: str, name: str) -> int:
    """Take the lock; return its number."""
    hive, begun = records(), time.monotonic()
    number, state = _asked(client, database, name)
    sleep, is_ours = _FIRST_SLEEP_SECONDS, False
    try:
        while state == hive.LockState.WAITING and time.monotonic() - begun < options.longest_wait.total_seconds():
            sleep = min(2 * sleep, options.longest_sleep.total_seconds())
            time.sleep(sleep)
            state = client.call("check_lock", hive.CheckLockRequest(lockid=number)).state
        is_ours = state == hive.LockState.ACQUIRED
    finally:
        if not is_ours:
            _release(client, number, f"{database}.{name}")
    if is_ours:
        return number
    if state == hive.LockState.WAITING:
        raise options.busy(f"{database}.{name}")
    raise PaimonError(
        f"The lock {database}.{name} of the Hive metastore was taken from us while we waited for it (state {state}). "
        "Nothing was done; run it again."
    )


def _asked(client: HiveClient, database: str, name: str) -> tuple[int, Any]:
    """Ask for the lock; return its number and state. After a lost answer it is looked up whether it was given."""
    hive, ours = records(), f"paimon-spark {uuid.uuid4()}"
    part = hive.LockComponent(type=hive.LockType.EXCLUSIVE, level=hive.LockLevel.TABLE, dbname=database, tablename=name)
    request = hive.LockRequest(component=[part], user=user(), hostname=socket.gethostname(), agentInfo=ours)
    try:
        answer = client.call("lock", request, once=True)
    except HiveNoAnswerError:
        known = client.call("show_locks", hive.ShowLocksRequest(dbname=database, tablename=name)).locks or ()
        found = next((each for each in known if each.agentInfo == ours), None)
        answer = client.call("lock", request) if found is None else found
    return answer.lockid, answer.state


def _keep_alive(client: HiveClient, number: int, ended: threading.Event, beat_seconds: float) -> None:
    hive = records()
    while not ended.wait(beat_seconds):
        try:
            client.call("heartbeat", hive.HeartbeatRequest(lockid=number))
        except PaimonError as error:
            if not ended.is_set():
                _LOG.warning("The lock %s of the Hive metastore was not kept alive: %s", number, error)


def _release(client: HiveClient, number: int, lock: str) -> None:
    try:
        client.call("unlock", records().UnlockRequest(lockid=number), done_by=("NoSuchLockException",))
    except PaimonError as error:
        gone = isinstance(error, HiveRefusalError) and error.kind == "NoSuchLockException"
        reason = "it had timed out before" if gone else str(error)
        _LOG.warning("The lock %s of the Hive metastore was not released: %s", lock, reason)
