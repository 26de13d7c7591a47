"""Writers of ours and of Java's commit to one table of a catalog that both share."""

from __future__ import annotations

import threading
from typing import Any

from paimon_spark.errors import CommitConflictError
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from tests.support.store_tables import insert, rows_of


def race_with_java(java: Any, ours: FilesystemCatalog, database: str, table: str, turns: int) -> None:
    """Let two writers of each commit so many times, and find every commit once."""
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

    writers = [(ours_writes, 1), (ours_writes, 2), (java_writes, 3), (java_writes, 4)]
    threads = [threading.Thread(target=write, args=(number,)) for write, number in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = {1000 * number + turn: turn for number in range(1, 5) for turn in range(turns)}
    assert rows_of(ours.load_table(database, table)) == expected
    assert dict(java.rows(name)) == expected
    assert java.snapshots(name) == list(range(1, 4 * turns + 1))
