"""Twin tables: one that Java compacts, one that we compact, and what must be equal of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.step import BucketFiles, split_files
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.split_read import partition_scalars, read_split
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.plans import plan_of

NUMBERS = count()

COLUMNS = [("k", "INT NOT NULL"), ("a", "INT"), ("b", "STRING"), ("g", "INT"), ("s", "INT"), ("h", "INT")]

GROUPS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a,b",
    "fields.h.sequence-group": "s",
    "fields.s.aggregate-function": "sum",
}

AGGREGATES = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "listagg",
    "fields.b.ignore-retract": "true",
    "fields.g.aggregate-function": "last_value",
    "fields.h.aggregate-function": "max",
    "fields.h.ignore-retract": "true",
}

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "g"},
    "ignore_delete": {"ignore-delete": "true"},
    "partial_update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "groups": GROUPS,
    "removing_group": {**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
    "aggregation": AGGREGATES,
    "aggregation_by_sequence": {
        "merge-engine": "aggregation",
        "sequence.field": "g",
        "fields.default-aggregate-function": "first_value",
        "fields.s.aggregate-function": "sum",
        **{f"fields.{name}.ignore-retract": "true" for name in "abh"},
    },
    "aggregation_removing": {
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "listagg",
        "fields.h.aggregate-function": "first_non_null_value",
    },
}

MINOR = {"num-sorted-run.compaction-trigger": "3", "num-levels": "4"}

KEEP = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}

Facts = list[tuple[Any, ...]]


class Twins:
    """A table that Java made and wrote, and a copy of it: Java compacts the one, we the other."""

    def __init__(
        self,
        oracle: Any,
        folder: Path,
        options: dict[str, str],
        *,
        partitioned: bool = False,
        keys: Sequence[str] = ("k",),
        columns: Sequence[tuple[str, str]] = COLUMNS,
    ) -> None:
        self.oracle, self.folder = oracle, folder
        self.name = oracle.fresh_name("compact")
        columns = [*columns, ("p", "STRING NOT NULL")] if partitioned else columns
        pk = [*keys, "p"] if partitioned and keys else list(keys)
        made = {"bucket": "1", "write-only": "true", **options}
        oracle.create(self.name, columns, pk=pk, partition=["p"] if partitioned else [], options=made)
        self.path = oracle.location(self.name).removeprefix("file:")
        self.partitioned = partitioned

    def write(self, rng: random.Random, rows: int = 6, *, keys: int = 12, kinds: str = "+I") -> None:
        values = [
            (rng.randrange(keys), maybe(rng, 5), maybe(rng, 3, "x{}"), maybe(rng, 4), maybe(rng, 9), maybe(rng, 4))
            for _ in range(rows)
        ]
        data = [(*row, f"p{row[0] % 2}") for row in values] if self.partitioned else values
        self.oracle.write(self.path, data, kinds=[rng.choice(kinds.split(",")) for _ in data])

    def both(self, *, full: bool, options: dict[str, str] | None = None) -> tuple[FileStoreTable, FileStoreTable]:
        """Compact both; return the tables, Java's first."""
        twin = self.folder / f"twin{next(NUMBERS)}"
        shutil.copytree(self.path, twin)
        given = {"write-only": "false", **KEEP, **(options or {})}
        self.oracle.compact(self.path, full=full, options=given)
        compact(load_table(str(twin), options=given), full=full)
        return load_table(self.path), load_table(str(twin))


def maybe(rng: random.Random, most: int, text: str | None = None) -> Any:
    if rng.random() < 0.3:
        return None
    value = rng.randrange(most)
    return value if text is None else text.format(value)


def live(table: FileStoreTable) -> list[ManifestEntry]:
    return table.manifests.live_entries(table.snapshots.latest())


def in_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def facts(table: FileStoreTable, rows_as: Callable[[pa.Table], Any] = in_order) -> Facts:
    """What metadata says of every file, and its rows with sequence numbers and kinds; names and times left out."""
    found = []
    for entry in live(table):
        file = entry.file
        found.append(
            (
                (entry.partition, entry.bucket, entry.total_buckets, file.level, file.min_key, file.max_key),
                (file.min_sequence_number, file.max_sequence_number, file.row_count, file.delete_row_count),
                (file.schema_id, file.file_source, file.key_stats, file.value_stats, file.value_stats_cols),
                (
                    len(file.extra_files),
                    file.embedded_file_index,
                    file.external_path,
                    file.first_row_id,
                    file.write_cols,
                ),
                rows_as(file_rows(table, entry)),
            )
        )
    return sorted(found, key=lambda fact: repr(fact[:-1]))


def file_rows(table: FileStoreTable, entry: ManifestEntry) -> pa.Table:
    keyed = bool(table.schema.primary_keys)
    constants = partition_scalars(table, entry.partition)
    reader = FileRead(table, tuple(table.schema.fields), constants, key_value=keyed)
    (file,) = split_files(table, BucketFiles(entry.partition, entry.bucket, entry.total_buckets, ()), [entry.file])
    return pa.Table.from_batches(list(reader.batches(file, None)))


def ours(table: FileStoreTable, **options: str) -> list[tuple[Any, ...]]:
    plan = plan_of(load_table(table.path, options=options))
    batches = [b for s in plan.splits for b in read_split(plan.table, s, plan.fields, plan.residual)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def theirs(oracle: Any, table: FileStoreTable, **options: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in oracle.read(table.path, options=options).to_pylist()), key=repr)
