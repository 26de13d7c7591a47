"""Java prunes with our indexes, and we with Java's; Java goes on with tables whose indexes we built anew."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.index_rewrite import rewrite_file_index
from paimon_spark.spec.predicate import And, Leaf
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support import seeds
from tests.support.file_indexes import COLUMNS, INDEXES, OFF, read, rows, write
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle
OPERATORS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "in": "in", "null": "is_null"}
SMALL = {"file-index.bloom-filter.v.items": "100", "file-index.bloom-filter.k.items": "100"}
KINDS: dict[str, tuple[dict[str, str], list[str]]] = {
    "append": ({"bucket": "-1", "file-index.in-manifest-threshold": "0 b"}, []),
    "append_orc": ({"bucket": "-1", "file.format": "orc"}, []),
    "append_vectors": ({"bucket": "-1", "deletion-vectors.enabled": "true"}, []),
    "keyed": ({"bucket": "1", "write-only": "true", "file-index.in-manifest-threshold": "1 mb"}, ["k"]),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true", "file-index.in-manifest-threshold": "0 b"}, ["k"]),
}


def conditions(chance: random.Random, absent: list[int]) -> list[tuple[str, str, Any]]:
    """Random comparisons; of ``k`` also with some keys that the table lacks, so that an index rules them out."""
    literals: dict[str, list[Any]] = {
        "k": [0, 17, 100, 249, 1000, *absent],
        "v": ["v0", "v3", "w"],
        "n": [7, 33, 150, -1],
    }
    found = []
    for column in chance.sample(list(literals), chance.choice([1, 1, 2])):
        op = chance.choice(list(OPERATORS))
        value = chance.sample(literals[column], 2) if op == "in" else chance.choice(literals[column])
        found.append((column, op, None if op == "null" else value))
    return found


def predicate_of(given: list[tuple[str, str, Any]]) -> Any:
    leaves = []
    for column, op, value in given:
        literals = () if op == "null" else tuple(value) if op == "in" else (value,)
        leaves.append(Leaf(OPERATORS[op], column, literals))
    return And(tuple(leaves))


def multiset(table: pa.Table | list[dict[str, Any]]) -> Counter[str]:
    found = table if isinstance(table, list) else table.to_pylist()
    return Counter(repr(sorted(row.items())) for row in found)


def agree(oracle: Any, name: str, table: FileStoreTable, chance: random.Random) -> tuple[int, int]:
    """Compare reads with random conditions; return how many rows and files were left out by Java and by us."""
    java_left_out = files_left_out = 0
    keys = {row["k"] for row in read(table)}
    absent = [key for key in range(min(keys), max(keys)) if key not in keys][:3]
    for turn in range(60):
        if turn >= 12 and java_left_out and files_left_out:
            break  # until then chance may have named nothing that an index rules out
        given = conditions(chance, absent)
        expected = multiset(oracle.read(name, filter=given))
        assert multiset(read(table, predicate_of(given))) == expected, given
        raw = oracle.read(name, filter=given, exact=False)
        unpruned = oracle.read(name, filter=given, exact=False, options=OFF)
        assert not expected - multiset(raw), given
        java_left_out += unpruned.num_rows - raw.num_rows
        plans = [plan_of(each, predicate=predicate_of(given)) for each in (table, table.with_options(OFF))]
        ours, all_files = (sum(len(split.files) for split in plan.splits) for plan in plans)
        files_left_out += all_files - ours
    return java_left_out, files_left_out


@pytest.mark.parametrize("kind", KINDS)
def test_both_prune_with_the_indexes_of_the_other(oracle: Any, kind: str) -> None:
    chance = seeds.chance("file indexes", kind)
    options, keys = KINDS[kind]
    name = f"db.both_prune_{kind}"
    oracle.create(name, list(COLUMNS.items()), pk=keys, options={**INDEXES, **SMALL, **options})
    table = load_table(oracle.location(name))
    for step in range(4):
        numbers = sorted(chance.sample(range(250), 60))
        if step % 2 or kind == "vectors":  # of vectors: level 0 is hidden until Java compacts
            oracle.write(name, oracle.table_of(name, rows(numbers).to_pylist()))
        else:
            write(table, rows(numbers))
    if kind == "append_vectors":
        oracle.delete_where(name, lambda row: row["k"] % 3 == 0)
    java, ours = agree(oracle, name, table, chance)
    assert ours > 0
    assert java > 0 or kind == "keyed"  # Java: only the manifest's, and only with deletion vectors
    rewrite_file_index(table.with_options({"file-index.bitmap.columns": "v,n,k"}))
    agree(oracle, name, table, chance)
    oracle.compact(name)
    oracle.expire_snapshots(name, retain_max=1, retain_min=1)
    java, _ = agree(oracle, name, table, chance)
    assert java > 0 or kind == "keyed"
    if kind != "vectors":
        compact(table.with_options({"compaction.min.file-num": "2"}))
        agree(oracle, name, table, chance)
