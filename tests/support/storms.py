"""Workers of the storm tests: each process commits, rolls back, tags, branches, expires or makes the table anew.

`PAIMON_SPARK_TESTS_STORM_SECONDS=300 python -m pytest -s tests/commit/test_storms.py` lets each storm last that long,
and prints what succeeded in it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from paimon_spark.arrow.changes import delete_where, write_rows
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CommitStateUnknownError, CorruptTableError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.rollback import rollback_to_as_latest
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows
from tests.support.racing import PATIENT, Deed
from tests.support.seeds import chance

SECONDS = float(os.environ.get("PAIMON_SPARK_TESTS_STORM_SECONDS", "0"))
_MOST_TURNS = 1_000_000
_SHARED_KEYS = 8
_OLD_MILLIS = 120_000
"""What no snapshot names and no process has touched for so long is nobody's: a deed takes seconds."""
_USES_THE_WRITER = {"deletion-vectors.enabled", "data-evolution.enabled"}
"""Options of append tables whose files the real writer makes; those of the others are plainer, and so more."""
DEEDS = (
    "commit",
    "commit",
    "commit",
    "compact",
    "delete",
    "rollback",
    "as latest",
    "tag",
    "delete tag",
    "rename",
    "branch",
    "expire",
    "orphans",
)


def turns(number: int, steps: int) -> Iterator[int]:
    """Number the steps of one process, so that no other has these numbers: as many as asked, or for `SECONDS`."""
    end = time.monotonic() + SECONDS
    turn = 0
    while turn < steps or time.monotonic() < end:
        yield number * _MOST_TURNS + turn
        turn += 1


def told(name: str, deeds: Sequence[Deed]) -> set[str]:
    """Print how often each kind of deed succeeded, and return the kinds."""
    counts = Counter(deed.kind for deed in deeds)
    print(f"{name}: {len(deeds)} deeds succeeded: {dict(counts.most_common())}", flush=True)
    return set(counts)


def storm(path: str, number: int, steps: int) -> list[Deed]:
    """Do things at random alongside other processes; what loses against them is refused, and nothing else happens."""
    random = chance("storm", path.rpartition("/")[2], number)
    done = []
    for turn in turns(number, steps):
        table = load_table(path, options=PATIENT)
        deed = random.choice(DEEDS)
        try:
            _do(table, deed, random, turn)
        except (CorruptTableError, CommitStateUnknownError):
            raise
        except PaimonError:  # it lost, and says so
            continue
        done.append(Deed(0, deed, {}))
    return done


def write(table: FileStoreTable, given: Mapping[int, str]) -> None:
    """Commit rows with the real writer."""
    keys, values = pa.array(list(given), pa.int32()), pa.array(list(given.values()))
    batch = pa.RecordBatch.from_arrays([keys, values], names=["k", "v"])
    if table.schema.kind.postpones_buckets:  # they go to buckets of the partition's size
        write_rows(table, pa.table(batch))
        return
    plan = plan_write(table, data_schema=batch.schema)
    commit(table, [write_batches(plan, [batch], 0)], planned_on=plan.snapshot)


def _do(table: FileStoreTable, deed: str, random: random.Random, key: int) -> None:
    ids = table.snapshots.ids() or [1]
    some, name = random.choice(ids[-4:]), f"n{random.randrange(4)}"
    match deed:
        case "commit" if table.schema.primary_keys or _USES_THE_WRITER & table.options.keys():
            shared = random.sample(range(_SHARED_KEYS), 3) if table.schema.primary_keys else []
            write(table, dict.fromkeys((*shared, _SHARED_KEYS + key), f"by {key}"))
        case "commit":
            commit(table, [message(table, data_file(table, {key: "x"}))])
        case "compact":
            compact(table, full=random.random() < 0.5 or not table.schema.primary_keys)
        case "delete":
            delete_where(table, f"k = {random.choice(sorted(rows(table))[1:] or [0])}")  # the first row stays
        case "rollback":
            rollback.rollback_to_snapshot(table, some)
        case "as latest":
            rollback_to_as_latest(table, snapshot_id=some)
        case "tag":
            tags.create_tag(table, name, snapshot_id=some)
        case "delete tag":
            tags.delete_tag(table, name)
        case "rename":
            tags.rename_tag(table, name, f"m{random.randrange(4)}")
        case "branch":
            branches.create_branch(table, f"b{key}", tag=name)
            if random.random() < 0.3:
                fast_forward(table, f"b{key}")
        case "expire":
            expire_snapshots(table, Retention.of_snapshots(table.options).with_arguments(retain_max=5, retain_min=5))
        case "orphans":
            remove_files_before(table, time.time_ns() // 1_000_000 - _OLD_MILLIS)


def commit_during_drops(path: str, number: int, steps: int) -> list[Deed]:
    """The first process drops the table and makes it anew; the others commit rows."""
    done = []
    for key in turns(number, steps):
        try:
            if number == 0:
                shutil.rmtree(path, ignore_errors=True)
                shutil.rmtree(path, ignore_errors=True)
                make_table(Path(path), bucket="-1")
                continue
            table = load_table(path, options=PATIENT)
            made = commit(table, [message(table, data_file(table, {key: "x"}))])
        except (PaimonError, FileNotFoundError, FileExistsError):  # refused, or its own file went with the table
            continue
        done.append(Deed(made or 0, "commit", {key: "x"}))
    return done
