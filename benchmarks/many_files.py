"""Statements over a table of many partitions of one small file each, beside the official connector.

`python -m benchmarks.many_files --official JAR --python PYTHON` (`PYTHON`: of PySpark 4.1) makes the table once, gives
each peer a copy of it, takes each statement by one after the other, and prints what `RESULTS.md` shows: the first run
and the best of two more, in seconds. `--keyed`: with a primary key and a bucket in each partition.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.published import data
from benchmarks.published.page import ROOT
from benchmarks.published.peers import Peer, session

ROWS_OF_A_FILE = 50
RUNS = 3
PEERS = ("ours", "official")
_KEYED = "TBLPROPERTIES ('primary-key' = 'day, ss_item_sk', 'bucket' = '1')"
_ANSWER = "answer: "
Statement = Callable[[int, int], str]
"""A text, given the number of partitions and of the run."""


def _day(partitions: int, run: int) -> int:
    return partitions - 10 - run * 7


def _key(partitions: int, run: int, row: int) -> int:
    return _day(partitions, run) * ROWS_OF_A_FILE + row


STATEMENTS: dict[str, Statement] = {
    "SELECT of a partition": lambda n, i: f"SELECT * FROM many WHERE day = {_day(n, i)}",
    "SELECT of a row": lambda n, i: f"SELECT * FROM many WHERE day = {_day(n, i)} AND ss_item_sk = {_key(n, i, 3)}",
    "sum of 20 partitions": lambda n, i: (
        f"SELECT sum(ss_quantity) FROM many WHERE day BETWEEN {_day(n, i) - 19} AND {_day(n, i)}"
    ),
    "sum of two, by an expression": lambda n, i: f"SELECT sum(ss_quantity) FROM many WHERE day % {n // 2} = {i}",
    "LIMIT 10": lambda n, i: f"SELECT * FROM many LIMIT {10 + i}",
    "max of the partitions": lambda n, i: "SELECT max(day) FROM many",
    "DISTINCT partitions": lambda n, i: "SELECT DISTINCT day FROM many",
    "count(DISTINCT) of partitions": lambda n, i: "SELECT count(DISTINCT day) FROM many",
    "rows of each partition": lambda n, i: "SELECT day, count(*) FROM many GROUP BY day ORDER BY 2, 1 LIMIT 3",
    "sum of all": lambda n, i: "SELECT sum(ss_quantity) FROM many",
    "DESCRIBE": lambda n, i: "DESCRIBE many",
    "DESCRIBE EXTENDED": lambda n, i: "DESCRIBE EXTENDED many",
    "SHOW PARTITIONS": lambda n, i: "SHOW PARTITIONS many",
    "SHOW PARTITIONS, one": lambda n, i: f"SHOW PARTITIONS many PARTITION (day = {400 + i})",
    "INSERT of a row": lambda n, i: f"INSERT INTO many VALUES ({n * 50 + i}, 1, 2, {n + i})",
    "UPDATE of a row": lambda n, i: (
        f"UPDATE many SET ss_quantity = 9 WHERE day = {_day(n, i)} AND ss_item_sk = {_key(n, i, 3)}"
    ),
    "DELETE of a row": lambda n, i: f"DELETE FROM many WHERE day = {_day(n, i)} AND ss_item_sk = {_key(n, i, 4)}",
    "DELETE of a partition": lambda n, i: f"DELETE FROM many WHERE day = {100 + i}",
    "MERGE of a row": lambda n, i: (
        f"MERGE INTO many t USING (SELECT {_key(n, i, 5)}L k, {_day(n, i)} d) s ON t.ss_item_sk = s.k AND t.day = s.d "
        "WHEN MATCHED THEN UPDATE SET ss_quantity = 77"
    ),
    "INSERT OVERWRITE of a partition": lambda n, i: (
        f"INSERT OVERWRITE many PARTITION (day = {200 + i}) VALUES (1, 2, 3)"
    ),
    "DROP PARTITION": lambda n, i: f"ALTER TABLE many DROP PARTITION (day = {300 + i})",
}


def make(folder: Path, partitions: int, *, keyed: bool) -> None:
    """Make the table by this package."""
    peer = Peer("ours", folder, session("ours", folder))
    query = (
        "SELECT /*+ REPARTITION_BY_RANGE(8, day) */ * FROM (SELECT id ss_item_sk, CAST(id % 7 AS INT) ss_quantity, "
        f"id * 23 + 7 ss_sold_time_sk, CAST(id DIV {ROWS_OF_A_FILE} AS INT) day "
        f"FROM {data.ids(0, partitions * ROWS_OF_A_FILE)})"
    )
    peer.spark.sql(f"CREATE TABLE c.d.many PARTITIONED BY (day) {_KEYED if keyed else ''} AS {query}")
    peer.spark.stop()


def work(name: str, folder: Path, partitions: int, jars: list[str]) -> None:
    """Be one peer: a line of JSON for each statement, a line of input before the next."""
    peer = Peer(name, folder, session(name, folder, jars))
    for text in STATEMENTS.values():
        sys.stdin.readline()
        seconds = []
        try:
            for run in range(RUNS):
                start = time.perf_counter()
                peer.spark.sql(text(partitions, run)).collect()
                seconds.append(time.perf_counter() - start)
        except Exception as error:  # noqa: BLE001 - the table shows it
            print(f"{name}: {str(error)[:300]}", file=sys.stderr)
        print(_ANSWER + json.dumps(seconds), flush=True)
    peer.spark.stop()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--official", help="the official connector's jar; it is left out without this")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PySpark 4.1")
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--keyed", action="store_true")
    parser.add_argument("--worker", choices=(*PEERS, "make"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    jars = [given.official] if given.official else []
    if given.worker == "make":
        make(given.folder, given.partitions, keyed=given.keyed)
        return
    if given.worker:
        work(given.worker, given.folder, given.partitions, jars if given.worker == "official" else [])
        return
    shared = ["--partitions", str(given.partitions), *(["--official", given.official] if jars else [])]
    module = [given.python, "-m", "benchmarks.many_files", *shared, *(["--keyed"] if given.keyed else [])]
    with tempfile.TemporaryDirectory() as root, ExitStack() as started:
        folder = Path(root, "made")
        subprocess.run([*module, "--worker", "make", "--folder", str(folder)], cwd=ROOT, check=True)
        workers = {}
        for name in PEERS[: 1 + len(jars)]:
            place = Path(root, name)
            shutil.copytree(folder, place)
            command = [*module, "--worker", name, "--folder", str(place)]
            pipe = subprocess.PIPE
            workers[name] = started.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
            )
        print(f"| {given.partitions:,} partitions | first, s | official | ratio | again, s | official | ratio |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for statement in STATEMENTS:
            found = {name: _asked(process) for name, process in workers.items()}
            print(f"| {statement} |{_cells(found, lambda s: s[0])}{_cells(found, lambda s: min(s[1:]))}", flush=True)


def _asked(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    line = next((line for line in process.stdout if line.startswith(_ANSWER)), f"{_ANSWER}[]")
    seconds: list[float] = json.loads(line.removeprefix(_ANSWER))
    return seconds


def _cells(found: dict[str, list[float]], chosen: Callable[[list[float]], float]) -> str:
    seconds = [chosen(each) if len(each) == RUNS else None for each in found.values()]
    ours, official = [*seconds, None][:2]
    ratio = "-" if ours is None or not official else f"**{ours / official:.2f}**"
    shown = ("-" if each is None else f"{each:.2f}" for each in (ours, official))
    return f" {' | '.join(shown)} | {ratio} |"


if __name__ == "__main__":
    main()
