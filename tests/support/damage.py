"""Random damages to every kind of file of a table, and what a read of it says: run as a script, it counts.

    python -m tests.support.damage 4000

Rows that differ without an error are silent damages. What no size, count or checksum of the format can tell stays
silent: flipped bytes in Avro and ORC files and in metadata that Java wrote, and a data file that is exchanged for one
of as many bytes and rows (such are left out).
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = [("k", "BIGINT NOT NULL"), ("p", "INT NOT NULL"), ("v", "STRING"), ("d", "DOUBLE"), ("a", "ARRAY<INT>")]
FORMATS = [
    ("parquet", "zstd"),
    ("parquet", "none"),
    ("orc", "zstd"),
    ("orc", "none"),
    ("avro", "zstd"),
    ("avro", "null"),
]
KINDS = ("flip", "flip", "byte", "cut", "shorter", "longer", "swap", "swap")


def make_table(root: Path, file_format: str, codec: str, *, keyed: bool) -> None:
    """A table of two partitions and four commits."""
    fields = [DataField(at, name, parse_type(kind)) for at, (name, kind) in enumerate(COLUMNS)]
    key = ("p", "k") if keyed else ()
    options = {"file.format": file_format, "file.compression": codec, "bucket": "2" if keyed else "-1"}
    table = create_table(str(root), create_schema(fields, key, ("p",), options | {"write-only": "true"}, None))
    for turn in range(4):
        keys = [(n * 7 + turn * 60) % 400 for n in range(150)]
        data = pa.table(
            {
                "k": keys,
                "p": pa.array([k % 2 for k in keys], pa.int32()),
                "v": [f"{turn} of {k}" + "." * (turn * 5 + k % 2 * 3) if k % 9 else None for k in keys],
                "d": [k * turn / 3 for k in keys],
                "a": pa.array([[k, turn][: k % 3] for k in keys], pa.list_(pa.int32())),
            }
        )
        commit(table, [write_batches(plan_write(table, data_schema=data.schema), data.to_batches(), 0)])


def read_rows(root: Path) -> list[str]:
    """All rows, in an order of their own."""
    plan = plan_of(load_table(str(root)))
    batches = (b for split in plan.splits for b in read_split(plan.table, split, plan.fields))
    return sorted(map(repr, (row for batch in batches for row in batch.to_pylist())))


def files_of(root: Path) -> dict[str, list[Path]]:
    """Files that a read opens, and those like them, by what they are."""
    table = load_table(str(root))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    manifests = [root / "manifest" / meta.file_name for meta in table.manifests.data_manifests(snapshot)]
    return {
        "snapshot": [root / "snapshot" / f"snapshot-{snapshot.id}"],
        "schema": [root / "schema" / "schema-0"],
        "list": [root / "manifest" / name for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)],
        "manifest": manifests,
        "data": sorted(root.rglob("bucket-*/data-*")),
    }


def like(path: Path) -> list[Path]:
    """Files of the same kind, which might be put in its place."""
    if path.name.startswith("data-"):
        return sorted(path.parents[2].rglob("bucket-*/data-*"))
    return sorted(path.parent.glob(path.name.split("-")[0] + ("-list-*" if "-list-" in path.name else "-[!l]*")))


def damaged(path: Path, data: bytes, kind: str, chance: random.Random) -> bytes:
    """The file's bytes with one damage."""
    at = chance.randrange(len(data))
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == "byte":
        return data[:at] + chance.randbytes(1) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "shorter":
        return data[:at] + data[at + chance.randrange(1, 9) :]
    if kind == "longer":
        return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at:]
    others = [other for other in like(path) if other != path]
    if path.name.startswith("data-"):  # nothing tells a file of as many bytes and rows
        others = [other for other in others if other.stat().st_size != len(data)]
    return chance.choice(others).read_bytes() if others else data


def damages(root: Path, seed: str, count: int) -> Iterator[tuple[str, str, str]]:
    """Damage a table many times, each time one file, and put it right again.

    Yields:
        Kind of file, kind of damage, and what came of it: "same" rows, an "error", "silent", or another exception.
    """
    chance = random.Random(seed)
    expected = read_rows(root)
    files = files_of(root)
    for _ in range(count):
        what = chance.choice(list(files))
        path, kind = chance.choice(files[what]), chance.choice(KINDS)
        data = path.read_bytes()
        path.write_bytes(damaged(path, data, kind, chance))
        try:
            outcome = "same" if read_rows(root) == expected else "silent"
        except PaimonError:
            outcome = "error"
        except Exception as error:  # noqa: BLE001 (any is a finding)
            outcome = f"{type(error).__name__}: {error}"
        path.write_bytes(data)
        yield what, kind, outcome


def main(arguments: Sequence[str]) -> None:
    """Damage tables of every format and print what was silent."""
    cases = [(*format_, keyed) for format_ in FORMATS for keyed in (False, True)]
    each = int(arguments[0]) // len(cases)
    total, silent = 0, Counter[str]()
    for file_format, codec, keyed in cases:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory) / "t"
            make_table(root, file_format, codec, keyed=keyed)
            for what, kind, outcome in damages(root, f"{file_format} {codec} {keyed}", each):
                total += 1
                if outcome not in ("same", "error"):
                    of = f"data {file_format} {codec}" if what == "data" else what
                    silent[f"{of}, {kind}: {outcome[:60]}"] += 1
    print(f"{sum(silent.values())} of {total} damages were silent")
    for name, count in sorted(silent.items()):
        print(f"  {count:5} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
