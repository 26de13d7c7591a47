"""A flipped, lost or inserted byte anywhere gives rows or a Paimon error, never another exception."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import load_table
from tests.support.golden import GOLDEN
from tests.support.plans import plan_of


def read_all(root: Path) -> int:
    plan = plan_of(load_table(str(root)))
    return sum(b.num_rows for split in plan.splits for b in read_split(plan.table, split, plan.fields))


def files_of_the_latest_snapshot(root: Path) -> list[Path]:
    table = load_table(str(root))
    plan = plan_of(table)
    assert plan.snapshot is not None
    paths = table.paths
    metadata = [paths.schema_path(schema_id) for schema_id in table.schemas.ids()]
    metadata += [paths.snapshot_path(plan.snapshot.id)]
    lists = (plan.snapshot.base_manifest_list, plan.snapshot.delta_manifest_list)
    manifests = [meta.file_name for meta in table.manifests.data_manifests(plan.snapshot)]
    metadata += [paths.manifest_path(name) for name in (*lists, *manifests)]
    return [Path(path) for path in (*metadata, *(f.path for split in plan.splits for f in split.files))]


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            for _ in range(chance.choice([1, 1, 3, 10])):
                changed[chance.randrange(len(data))] = chance.randrange(256)
        case 1:
            del changed[at:]
        case 2:
            del changed[at : at + chance.randrange(1, 9)]
        case _:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(changed)


@pytest.mark.parametrize("name", ["pk_many_levels", "append_types_parquet", "pk_dedup_string", "pk_dedup_partitioned"])
def test_damage_is_reported_as_damage(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    shutil.copytree(GOLDEN / name / "table", root)
    files = files_of_the_latest_snapshot(root)
    chance = random.Random(name)
    messages: list[str] = []
    for _ in range(120):
        path = chance.choice(files)
        data = path.read_bytes()
        path.write_bytes(mutated(data, chance))
        try:
            read_all(root)
        except PaimonError as error:
            messages.append(str(error))
        path.write_bytes(data)
    assert len(messages) > 60
    assert [message for message in messages if str(root) not in message] == []
    assert read_all(root) > 0
