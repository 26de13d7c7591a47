"""Writers of ours and of Java's commit to one table of a catalog that both share."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from paimon_spark.errors import CommitConflictError
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.support.store_tables import insert, rows_of

OURS, JAVAS = (1, 2, 3, 4), (5, 6)
"""The writers."""


@dataclass(frozen=True)
class Race:
    """What became of the commits. Each was reported to have succeeded."""

    asked: int
    lost_of_ours: int
    lost_of_java: int
    doubled: int
    seconds: float


def race_with_java(java: Any, ours: FilesystemCatalog, database: str, table: str, turns: int) -> Race:
    """Let four writers of ours and two of Java's commit so many times each, and count; both sides see the same rows."""
    failures: list[BaseException] = []
    name = f"{database}.{table}"

    def ours_writes(number: int) -> None:
        try:
            for turn in range(turns):
                while True:
                    try:
                        insert(ours.load_table(database, table), {1000 * number + turn: turn})
                    except CommitConflictError:
                        continue
                    break
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            failures.append(error)

    def java_writes(number: int) -> None:
        try:
            for turn in range(turns):
                java.write(name, [(1000 * number + turn, turn)], options={"write-only": "true"})
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            failures.append(error)

    writers = [(ours_writes, number) for number in OURS] + [(java_writes, number) for number in JAVAS]
    threads = [threading.Thread(target=write, args=(number,)) for write, number in writers]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    assert not failures
    found = rows_of(ours.load_table(database, table))
    assert dict(java.rows(name)) == found
    ids = java.snapshots(name)
    assert ids == list(range(1, len(ids) + 1))
    lost = [1000 * number + turn not in found for number in (*OURS, *JAVAS) for turn in range(turns)]
    of_ours, of_java = sum(lost[: len(OURS) * turns]), sum(lost[len(OURS) * turns :])
    raced = Race(len(lost), of_ours, of_java, len(ids) - len(found), seconds)
    print(f"race with Java: {raced}")
    return raced


def check_race(java: Any, ours: FilesystemCatalog, database: str, table: str, turns: int) -> None:
    """The same in a catalog whose lock or server decides: each commit is there once."""
    found = race_with_java(java, ours, database, table, turns)
    assert (found.lost_of_ours, found.lost_of_java, found.doubled) == (0, 0, 0), found
