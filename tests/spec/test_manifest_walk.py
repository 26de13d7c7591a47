"""Walking many manifests side by side gives what decoding each of them gives, or refuses."""

import json
import random
from pathlib import Path

import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import avro_codec
from paimon_spark.spec.avro_container import read_container
from paimon_spark.spec.manifest import FileChange
from paimon_spark.spec.manifest_walk import walk_entries, walk_lists
from paimon_spark.spec.metadata_schemas import plain_schema

Files = list[tuple[str, bytes]]


def plain_changes(changes: list[list[FileChange]]) -> list[list[FileChange]]:
    """The same with lists as tuples."""
    return [[change._replace(extra_files=tuple(change.extra_files)) for change in of] for of in changes]


def files(folder: Path, kind: str) -> Files:
    names = sorted(path for path in folder.rglob(f"{kind}-*") if (kind == "manifest-list") == ("-list-" in path.name))
    return [(str(path), path.read_bytes()) for path in names]


@pytest.fixture(scope="module")
def many(golden: Path) -> Path:
    return golden / "many_manifests_pk"


def test_manifests(many: Path) -> None:
    found = files(many, "manifest")
    assert len(found) >= 16
    contents = [read_container(data) for _, data in found]
    schema = plain_schema(json.loads(contents[0].schema_json))
    blocks = [block for content in contents for block in content.blocks]
    walked = walk_entries(schema, blocks, 2)
    assert walked is not None, "else nothing is tested here"
    expected = [avro_codec.decode_manifest_columns(data, path=path).changes() for path, data in found]
    assert plain_changes(avro_codec.decode_manifest_files(found)) == plain_changes(expected)


def test_manifest_lists(many: Path) -> None:
    found = files(many, "manifest-list")
    contents = [read_container(data) for _, data in found]
    blocks = [block for content in contents for block in content.blocks]
    schema = plain_schema(json.loads(contents[0].schema_json))
    assert walk_lists(schema, blocks, 2) is not None
    expected = [[meta.recorded for meta in avro_codec.decode_manifest_list(data, path=path)] for path, data in found]
    assert avro_codec.decode_manifest_lists(found) == expected


@pytest.mark.parametrize(
    "folder", ["file_index_sidecar", "old_0_9_pk", "append_partitioned_plain", "many_manifests_append"]
)
def test_all_kinds_of_tables(golden: Path, folder: str) -> None:
    """Also those that cannot be walked: with files with companion files, with older schemas."""
    found = files(golden / folder, "manifest") * 16
    whole = [avro_codec.decode_manifest_columns(data) for _, data in found]
    got = avro_codec.decode_manifest_files(found)
    assert [[change.name for change in of] for of in got] == [columns.file_names for columns in whole]
    assert [[list(change.extra_files) for change in of] for of in got] == [
        [list(extra) for extra in columns.file_values("_EXTRA_FILES")] for columns in whole
    ]
    assert [[change.external_path for change in of] for of in got] == [
        columns.file_values("_EXTERNAL_PATH") for columns in whole
    ]


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_never_taken_for_names(many: Path, seed: int) -> None:
    """Blocks with some bytes changed are refused, or say the same as decoding them."""
    chance = random.Random(seed)
    contents = [read_container(data) for _, data in files(many, "manifest")]
    schema = plain_schema(json.loads(contents[0].schema_json))
    blocks = [(count, bytearray(data)) for content in contents for count, data in content.blocks]
    _, hurt = chance.choice(blocks)
    for _ in range(chance.randint(1, 4)):
        hurt[chance.randrange(len(hurt))] = chance.randrange(256)
    if chance.random() < 0.3:
        del hurt[chance.randrange(len(hurt)) :]
    try:
        walked = walk_entries(schema, [(count, bytes(data)) for count, data in blocks], 2)
    except UnicodeDecodeError:
        pytest.fail("a damaged name must be refused like other damage")
    assert walked is None or [len(entries) for entries in walked] == [count for count, _ in blocks]


def test_a_damaged_file_is_named(many: Path) -> None:
    found = files(many, "manifest")
    path, data = found[5]
    found[5] = (path, data[:-30])
    with pytest.raises(CorruptTableError, match=Path(path).name):
        avro_codec.decode_manifest_files(found)
