"""Random histories by us and by Java in turn: no living snapshot, tag or branch ever loses a row.

A model holds the rows of every snapshot, tag and branch; what each side reads is compared with it. Set
``PAIMON_HISTORY_SEEDS`` (how many) and ``PAIMON_HISTORY_STEPS`` for long runs; a failure names its seed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support import seeds
from tests.support.commits import data_file, message
from tests.support.history import rows, table_files

SEEDS = int(os.environ.get("PAIMON_HISTORY_SEEDS", "3"))
STEPS = int(os.environ.get("PAIMON_HISTORY_STEPS", "25"))
EVERYTHING = 2**62
WEEK = timedelta(days=7)
Rows = dict[int, str]


class Line:
    """What one branch should show."""

    def __init__(self, snapshots: dict[int, Rows] | None = None, named: dict[str, int] | None = None) -> None:
        self.snapshots = snapshots or {}
        self.tags = named or {}
        self.tagged: dict[str, Rows] = {name: self.snapshots[of] for name, of in self.tags.items()}

    def latest(self) -> int:
        return max(self.snapshots)


class History:
    """A table, its model, and what can happen to both."""

    def __init__(self, oracle: Any, name: str, seed: int, *, keys: bool) -> None:
        self.random = seeds.chance("history", seed, keys)
        self.oracle, self.keys = oracle, keys
        options = {"num-sorted-run.compaction-trigger": "3", "bucket": "1"} if keys else {"bucket": "-1"}
        columns = [("k", "INT NOT NULL"), ("v", "STRING")]
        oracle.create(name, columns, pk=["k"] if keys else [], options={**options, "write-only": "true"})
        # Java opens a table anew by its path: its catalog keeps snapshots, whose ids we give again after a rollback
        self.path = oracle.location(name).removeprefix("file:")
        self.lines: dict[str, Line] = {"main": Line()}
        self.written = 0
        self.log: list[str] = []

    def table(self, branch: str = "main") -> FileStoreTable:
        return load_table(self.path, branch=branch)

    def write(self) -> None:
        """New rows on some branch; sometimes they replace all."""
        branch = self.random.choice(sorted(self.lines))
        replace = self.random.random() < 0.3
        line, table = self.lines[branch], self.table(branch)
        self.written += 1
        key = self.random.randrange(6) if self.keys else self.written
        new = {key: f"{branch}-{self.written}"}
        old = line.snapshots[line.latest()] if line.snapshots and not replace else {}
        if branch == "main" and self.random.random() < 0.5:
            self.log.append(f"java writes {new} replace={replace}")
            given = [{"k": k, "v": v} for k, v in new.items()]
            self.oracle.write(self.path, given, overwrite={} if replace else None)
        else:
            self.log.append(f"we write {new} to {branch} replace={replace}")
            file = data_file(table, new, sequence=self.written)
            commit(table, [message(table, file)], overwrite=OverwriteSpec.static() if replace else None)
        line.snapshots[table.snapshots.latest_id() or 0] = {**old, **new}

    def compact(self) -> None:
        """Java or we compact the main branch, or we another one: files are rewritten, or move to another level."""
        branch, full = self.random.choice(sorted(self.lines)), self.random.random() < 0.5
        line = self.lines[branch]
        if not line.snapshots:
            return
        java = branch == "main" and self.random.random() < 0.4
        options = {"write-only": "false", "compaction.min.file-num": "2"} | KEEP
        self.log.append(f"{'java compacts' if java else 'we compact'} {branch} full={full}")
        if java:
            self.oracle.compact(self.path, full=full, options=options)
        else:
            compact(load_table(self.path, branch=branch, options=options), full=full)
        latest = self.table(branch).snapshots.latest_id() or 0
        line.snapshots[latest] = line.snapshots[max(line.snapshots)]

    def tag(self) -> None:
        branch = self.random.choice(sorted(self.lines))
        line = self.lines[branch]
        if not line.snapshots:
            return
        self.written += 1
        name, held = f"t{self.written}", self.random.choice(sorted(line.snapshots))
        self.log.append(f"tag {name} of snapshot {held} on {branch}")
        if branch == "main" and self.random.random() < 0.5:
            self.oracle.create_tag(self.path, name, held)
        else:
            tags.create_tag(self.table(branch), name, snapshot_id=held)
        line.tags[name], line.tagged[name] = held, line.snapshots[held]

    def delete_tag(self) -> None:
        branch = self.random.choice(sorted(self.lines))
        line = self.lines[branch]
        if line.tags:
            name = self.random.choice(sorted(line.tags))
            # Java looks at the neighbours on the same branch only: with branches it takes their files as well
            java = len(self.lines) == 1 and self.random.random() < 0.5
            self.log.append(f"delete tag {name} on {branch} by {'java' if java else 'us'}")
            if java:
                self.oracle.delete_tag(self.path, name)
            else:
                tags.delete_tag(self.table(branch), name)
            del line.tags[name], line.tagged[name]

    def expire(self) -> None:
        branch = self.random.choice(sorted(self.lines))
        line = self.lines[branch]
        if not line.snapshots:
            return
        kept = self.random.randint(1, 4)
        java = len(self.lines) == 1 and self.random.random() < 0.3
        self.log.append(f"expire {branch}, {kept} stay, by {'java' if java else 'us'}")
        if java:
            self.oracle.expire_snapshots(self.path, retain_max=kept, retain_min=kept)
        else:
            expire_snapshots(self.table(branch), Retention(1, kept, WEEK, 99))
        living = self.table(branch).snapshots.ids()
        assert len(living) == min(kept, len(line.snapshots))
        line.snapshots = {number: line.snapshots[number] for number in living}

    def rollback(self) -> None:
        line = self.lines["main"]
        if not line.snapshots or self.random.random() < 0.5:
            return
        if line.tags and self.random.random() < 0.5:
            name = self.random.choice(sorted(line.tags))
            target, then = line.tags[name], line.tagged[name]
            self.log.append(f"rollback to tag {name} ({target})")
            if self.random.random() < 0.5:
                self.oracle.rollback(self.path, tag=name)
            else:
                rollback.rollback_to_tag(self.table(), name)
        else:
            target = self.random.choice(sorted(line.snapshots))
            then = line.snapshots[target]
            self.log.append(f"rollback to {target}")
            if self.random.random() < 0.5:
                self.oracle.rollback(self.path, snapshot=target)
            else:
                rollback.rollback_to_snapshot(self.table(), target)
        line.snapshots = {number: held for number, held in line.snapshots.items() if number <= target}
        line.snapshots[target] = then
        line.tags = {name: held for name, held in line.tags.items() if held <= target}
        line.tagged = {name: line.tagged[name] for name in line.tags}

    def branch(self) -> None:
        line = self.lines["main"]
        if not line.tags or len(self.lines) > 2:
            return
        tag = self.random.choice(sorted(line.tags))
        self.written += 1
        name = f"b{self.written}"
        self.log.append(f"branch {name} from tag {tag}")
        lives = line.tags[tag] in line.snapshots  # Java can begin nowhere else
        if lives and self.random.random() < 0.5:
            self.oracle.create_branch(self.path, name, tag)
        else:
            branches.create_branch(self.table(), name, tag=tag)
        held = line.tags[tag]
        self.lines[name] = Line({held: line.tagged[tag]}, {tag: held})

    def end_branch(self) -> None:
        others = sorted(set(self.lines) - {"main"})
        if not others:
            return
        name = self.random.choice(others)
        if self.random.random() < 0.5:
            self.log.append(f"delete branch {name}")
            branches.delete_branch(self.table(), name)
            del self.lines[name]
            return
        self.log.append(f"fast-forward to {name}")
        fast_forward(self.table(), name)
        main, theirs = self.lines["main"], self.lines[name]
        first = min(theirs.snapshots)
        main.snapshots = {n: held for n, held in main.snapshots.items() if n < first} | theirs.snapshots
        main.tags = {tag: n for tag, n in main.tags.items() if n < first} | theirs.tags
        main.tagged = {tag: (theirs if tag in theirs.tags else main).tagged[tag] for tag in main.tags}

    def clean(self) -> None:
        self.log.append("remove orphan files")
        remove_files_before(self.table(), EVERYTHING)
        assert data_files(self.table()) == {name for branch in self.lines for name in needed(self.table(branch))}

    def check(self, *, by_java: bool) -> None:
        for branch, line in self.lines.items():
            table = self.table(branch)
            assert table.snapshots.ids() == sorted(line.snapshots)
            assert set(table.tags.names()) == set(line.tags)
            of_branch = {} if branch == "main" else {"branch": branch}
            for number, expected in line.snapshots.items():
                assert rows(table, snapshot_id=number) == expected, (branch, number)
                if by_java:
                    assert self.read({**of_branch, "scan.snapshot-id": str(number)}) == expected, (branch, number)
            for tag, expected in line.tagged.items():
                assert rows(table, tag=tag) == expected, (branch, tag)
                if by_java and branch == "main":  # Java looks for tags of other branches in main
                    assert self.read({**of_branch, "scan.tag-name": tag}) == expected, (branch, tag)

    def read(self, options: dict[str, str]) -> Rows:
        return {row["k"]: row["v"] for row in self.oracle.read(self.path, options=options).to_pylist()}


KEEP = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}


def data_files(table: FileStoreTable) -> set[str]:
    return {name.rpartition("/")[2] for name in table_files(table, "bucket-0")}


def needed(table: FileStoreTable) -> set[str]:
    """Names of the data files that a branch shows at any of its snapshots or tags, or that a snapshot of it added."""
    found: set[str] = set()
    living = [table.snapshots.get(number) for number in table.snapshots.ids()]
    for snapshot in [*living, *(tag.snapshot for tag in table.tags.list().values())]:
        found |= {entry.file.file_name for entry in table.manifests.live_entries(snapshot)}
    for snapshot in living:
        for columns in table.manifests.read_columns(table.manifests.delta_manifests(snapshot)):
            found |= {entry.file.file_name for entry in columns if entry.kind == FileKind.ADD}
    return found


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "append"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_lives_loses_a_file(oracle: Any, tmp_path: Path, seed: int, *, keys: bool) -> None:
    history = History(oracle, f"history.{tmp_path.name}", seed, keys=keys)
    happenings = [history.write] * 5 + [history.tag] * 2 + [history.expire] * 2
    happenings += [
        history.delete_tag,
        history.rollback,
        history.branch,
        history.end_branch,
        history.compact,
        history.compact,
    ]
    happenings += [history.clean]
    try:
        history.write()
        for step in range(STEPS):
            history.random.choice(happenings)()
            history.check(by_java=step % 8 == 7)
        history.clean()
        history.check(by_java=True)
    except BaseException:
        print(f"{seeds.VARIABLE}={seeds.RUN}, seed {seed}, keys={keys}:\n  " + "\n  ".join(history.log))
        raise
