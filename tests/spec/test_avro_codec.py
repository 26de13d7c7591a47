"""Manifests, manifest lists and index manifests: every golden file, bytes as Java writes them, damaged files."""

from __future__ import annotations

import dataclasses
import json
import random
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import metadata_schemas
from paimon_spark.spec.avro_codec import (
    decode_index_manifest,
    decode_manifest,
    decode_manifest_columns,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from paimon_spark.spec.avro_container import AvroBlocks, encode_long, read_container, write_container
from paimon_spark.spec.manifest import (
    EMPTY_STATS,
    DataFileMeta,
    DeletionVectorMeta,
    FileKind,
    GlobalIndexMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)

Codec = tuple[Callable[..., Any], Callable[..., bytes]]

FILE = DataFileMeta(file_name="data-1.parquet", file_size=10, row_count=2, creation_time_millis=5)
ENTRY = ManifestEntry(FileKind.ADD, bytes(12), 0, -1, FILE)


def codec_of(name: str) -> Codec:
    if name.startswith("index-manifest-"):
        return decode_index_manifest, encode_index_manifest
    if name.startswith("manifest-list-"):
        return decode_manifest_list, encode_manifest_list
    return decode_manifest, encode_manifest


def manifests(golden: Path, pattern: str = "*") -> list[Path]:
    return sorted(golden.glob(f"{pattern}/table/manifest/*")) + sorted(golden.glob(f"{pattern}/table/**/manifest/m*"))


def test_every_golden_file_round_trips(golden: Path) -> None:
    """Where the header is that of the current Java, even the uncompressed blocks are the same bytes."""
    same_bytes = 0
    for file in set(manifests(golden)):
        data = file.read_bytes()
        decode, encode = codec_of(file.name)
        records = decode(data, path=str(file))
        again = encode(records)
        assert decode(again) == records, file
        theirs, ours = read_container(data), read_container(again)
        if theirs.schema_json == ours.schema_json:
            same_bytes += 1
            assert b"".join(block for _, block in theirs.blocks) == b"".join(block for _, block in ours.blocks), file
        else:
            assert "/old_" in str(file), f"{file}: the Avro schema is not the one Java writes"
    assert same_bytes > 1500


def test_old_nullable_records(golden: Path) -> None:
    """Paimon 0.7 and 0.8 wrote unions of null and record."""
    entries = [
        e
        for f in manifests(golden, "old_schema_version_*")
        if f.name.startswith("manifest-") and "list" not in f.name
        for e in decode_manifest(f.read_bytes())
    ]
    assert len(entries) > 20
    assert all(entry.file.file_name and entry.file.file_size > 0 for entry in entries)
    assert any(entry.file.delete_row_count is None for entry in entries)


def test_live_files_are_those_java_lists(golden: Path) -> None:
    tables = 0
    for expect_file in golden.glob("*/expect.json"):
        expect, table = json.loads(expect_file.read_text()), expect_file.parent / "table"
        latest = max(table.glob("snapshot/snapshot-*"), key=lambda f: int(f.name.split("-")[1]), default=None)
        if latest is None or not expect.get("files"):
            continue
        snapshot = json.loads(latest.read_text())
        names = [snapshot["baseManifestList"], snapshot["deltaManifestList"]]
        metas = [m for n in names for m in decode_manifest_list((table / "manifest" / n).read_bytes())]
        parts = [decode_manifest_columns((table / "manifest" / m.file_name).read_bytes()) for m in metas]
        live = type(parts[0]).concat(parts).live()
        expected = {(f["name"] if "name" in f else f["file"]): f for f in expect["files"]}
        assert sorted(live.file_names) == sorted(expected)
        for entry in live:
            known = expected[entry.file.file_name]
            assert entry.file.level == known["level"]
        tables += 1
    assert tables > 80


def test_all_fields_survive() -> None:
    file = dataclasses.replace(
        FILE,
        extra_files=("a.index", "b"),
        delete_row_count=1,
        embedded_file_index=b"\0\1",
        file_source=1,
        value_stats_cols=(),
        external_path="s3://b/x",
        first_row_id=7,
        write_cols=("a",),
        write_cols_sequences=(1, 2**40),
        min_sequence_number=-(2**63),
        max_sequence_number=2**63 - 1,
    )
    entries = [ENTRY, ManifestEntry(FileKind.DELETE, b"\1" * 30, 2**31 - 1, -2, file)]
    for codec in ("zstandard", "deflate", "snappy", "null"):
        assert decode_manifest(encode_manifest(entries, codec=codec)) == entries
    assert b"_WRITE_COLS_SEQUENCES" in read_container(encode_manifest(entries)).schema_json
    assert b"_WRITE_COLS_SEQUENCES" not in read_container(encode_manifest([ENTRY])).schema_json
    meta = ManifestFileMeta("m", 1, 2, 3, EMPTY_STATS, 4, 5, 6, 7, 8, 9, 10)
    assert decode_manifest_list(encode_manifest_list([meta, meta])) == [meta, meta]
    assert decode_manifest_list(encode_manifest_list([])) == []
    vectors = (DeletionVectorMeta("f", 1, 22, None), DeletionVectorMeta("g", 23, 22, 3))
    plain = IndexManifestEntry(FileKind.ADD, bytes(12), 0, "DELETION_VECTORS", "index-1", 5, 2, vectors)
    full = dataclasses.replace(
        plain, index_type="x", external_path="p", global_index=GlobalIndexMeta(1, 2, 3, (4, 5), b"m", b"s")
    )
    assert decode_index_manifest(encode_index_manifest([plain, full])) == [plain, full]


def test_many_records_take_several_blocks() -> None:
    entries = [dataclasses.replace(ENTRY, bucket=i) for i in range(1234)]
    data = encode_manifest(entries)
    assert [count for count, _ in read_container(data).blocks] == [500, 500, 234]
    assert decode_manifest(data) == entries
    assert encode_manifest(entries) == data


# damaged and hostile files


def expect_corrupt(decode: Callable[..., Any], data: bytes, match: str = ".") -> None:
    with pytest.raises(CorruptTableError, match=match) as caught:
        decode(data, path="/t/manifest/x")
    assert caught.value.path == "/t/manifest/x"
    assert "/t/manifest/x" in str(caught.value)


def decodes(name: str, data: bytes) -> bool:
    """Whether the file decodes; if not, the error must be the right one and carry the path."""
    try:
        codec_of(name)[0](data, path="/t/x")
    except CorruptTableError as error:
        if error.path != "/t/x":
            raise
        return False
    return True


def mutate(data: bytes, chance: random.Random) -> bytes:
    mutant = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        kind, at = chance.randrange(4), chance.randrange(len(mutant))
        if kind == 0:
            mutant[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            mutant[at] = chance.choice((0, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del mutant[at : at + chance.randrange(1, 9)]
        else:
            mutant[at:at] = chance.randbytes(chance.randrange(1, 9))
        if not mutant:
            return b""
    return bytes(mutant)


def test_mutated_files_are_decoded_or_refused(golden: Path) -> None:
    chance = random.Random(4)
    samples = []
    for pattern in ("pk_dv_v1", "old_schema_version_1_pk", "stats_full", "row_tracking", "pk_dynamic_bucket"):
        files = manifests(golden, pattern)
        samples += [file for file in files if file.stat().st_size < 8000][:12]
    assert {codec_of(f.name)[0] for f in samples} == {decode_manifest, decode_manifest_list, decode_index_manifest}
    refused = decoded = 0
    for _ in range(40):
        for file in samples:
            data = file.read_bytes()
            container = read_container(data)
            if chance.random() < 0.7 and container.blocks:  # damage what is inside the compression, or the schema
                block = mutate(container.blocks[0][1], chance) if chance.random() < 0.7 else container.blocks[0][1]
                schema = container.schema_json if chance.random() < 0.7 else mutate(container.schema_json, chance)
                data = write_container(AvroBlocks(schema, ((container.blocks[0][0], block),)), codec="null")
            else:
                data = mutate(data, chance)
            if decodes(file.name, data):
                decoded += 1
            else:
                refused += 1
    assert refused > 500
    assert decoded > 20


def test_truncated_files(golden: Path) -> None:
    for file in manifests(golden, "stats_full")[:4]:
        data = file.read_bytes()
        header = data.index(b"avro.codec") + 60
        for length in [*range(0, 40), *range(header, len(data) - 1, 7)]:
            if data[:length].endswith(data[-16:]) and length > header:
                continue  # cut between two blocks: a shorter file, but a whole one
            if decodes(file.name, data[:length]):
                assert codec_of(file.name)[0](data[:length]) == []
                assert data[:length].endswith(data[-16:])


def container(schema: Any, block: bytes, count: int = 1, codec: str = "null") -> bytes:
    return write_container(AvroBlocks(json.dumps(schema).encode(), ((count, block),)), codec=codec)


def list_schema(**changed: Any) -> dict[str, Any]:
    """The schema of manifest lists with other types for some fields."""
    schema = json.loads(json.dumps(metadata_schemas.MANIFEST_LIST))
    for field in schema["fields"]:
        if field["name"] in changed:
            field["type"] = changed.pop(field["name"])
    schema["fields"] += [{"name": name, "type": data_type} for name, data_type in changed.items()]
    return schema


RECURSIVE: dict[str, Any] = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]}
DOUBLING: list[dict[str, Any]] = [{"type": "record", "name": "r0", "fields": [{"name": "x", "type": "null"}]}]
for level in range(1, 30):
    DOUBLING.append(
        {
            "type": "record",
            "name": f"r{level}",
            "fields": [
                {"name": "a", "type": DOUBLING[-1] if level == 1 else f"r{level - 1}"},
                {"name": "b", "type": f"r{level - 1}"},
            ],
        }
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("null", "no bytes|record"),
        ([], "no branches"),
        ({}, "type"),
        ({"type": "record"}, "no fields"),
        ({"type": "record", "name": "record", "fields": []}, "no bytes"),
        (list_schema(evil={"type": "array", "items": "null"}), "take no bytes"),
        (list_schema(evil={"type": "fixed", "name": "f", "size": 1 << 40}), "not used"),
        (list_schema(evil={"type": "array", "items": RECURSIVE}), "not known"),
        (list_schema(evil={"type": "map", "values": "unheard"}), "not known"),
        (list_schema(_FILE_SIZE="string"), "_FILE_SIZE is string"),
        (list_schema(_PARTITION_STATS="bytes"), "_PARTITION_STATS is bytes"),
        (list_schema(_FILE_NAME=["string", "long"]), "more than one branch"),
        (
            {**metadata_schemas.MANIFEST_LIST, "fields": metadata_schemas.MANIFEST_LIST["fields"][:3]},
            "_NUM_ADDED_FILES is missing",
        ),
    ],
)
def test_hostile_schemas(schema: Any, message: str) -> None:
    expect_corrupt(decode_manifest_list, container(schema, bytes(100)), message)


def test_deeply_nested_schemas_do_not_hang() -> None:
    deep: Any = "long"
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    text = b'{"type":"array","items":' * 3000 + b'"long"' + b"}" * 3000
    for data in (
        write_container(AvroBlocks(text, ((1, bytes(10)),)), codec="null"),
        container(list_schema(a=DOUBLING[0], **{f"b{i}": r for i, r in enumerate(DOUBLING[1:])}), bytes(100)),
    ):
        expect_corrupt(decode_manifest_list, data)


def test_bombs_are_refused_before_memory_is_taken() -> None:
    def bomb(codec: str) -> bytes:
        return container(metadata_schemas.MANIFEST_LIST, bytes(600 << 20), codec=codec)

    small = bomb("zstandard")
    assert len(small) < 100_000
    tracemalloc.start()
    expect_corrupt(decode_manifest_list, small, "larger than a file of this size")
    expect_corrupt(decode_manifest_list, container(metadata_schemas.MANIFEST_LIST, bytes(20), count=2**60), "announces")
    lie = encode_long(1) + encode_long(2**40)
    header = container(metadata_schemas.MANIFEST_LIST, b"", count=0)
    expect_corrupt(decode_manifest_list, header + lie, "announced")
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def list_record(*, name: bytes = b"\x02m", counts: bytes = b"\x00") -> bytes:
    return b"\x04" + name + b"\x02\x02\x02" + b"\x00\x00" + counts + b"\x00" + b"\x00" * 6


def test_hostile_lengths_inside_a_record() -> None:
    assert decode_manifest_list(container(metadata_schemas.MANIFEST_LIST, list_record()), path="x")[0].file_name == "m"
    for bad in (
        list_record(name=encode_long(2**62)),
        list_record(name=encode_long(-5) + b"m"),
        list_record(name=b"\x02\xff"),
        list_record(counts=b"\x02" + encode_long(2**61)),
        list_record(counts=b"\x02" + encode_long(-(2**61)) + encode_long(4)),
        list_record(counts=b"\x0a"),
        b"\xff" * 12,
    ):
        expect_corrupt(decode_manifest_list, container(metadata_schemas.MANIFEST_LIST, bad))


def test_an_array_that_claims_more_elements_than_there_are_bytes() -> None:
    """An array of many elements of one byte each ends where the bytes end."""
    counts = b"\x02" + encode_long(2**50) + bytes(1000)
    expect_corrupt(decode_manifest_list, container(metadata_schemas.MANIFEST_LIST, list_record(counts=counts)))


def test_other_versions_and_kinds_are_refused() -> None:
    expect_corrupt(
        decode_manifest_list,
        container(metadata_schemas.MANIFEST_LIST, b"\x02" + list_record()[1:]),
        "version 1 is not compatible",
    )
    for changed in ({"kind": 2}, {"bucket": 2**40}, {"total_buckets": -(2**40)}):
        expect_corrupt(decode_manifest, _encode_any([dataclasses.replace(ENTRY, **changed)]), "kind")
    for changed in ({"file_size": -1}, {"row_count": -1}, {"level": 2**33}):
        broken = dataclasses.replace(ENTRY, file=dataclasses.replace(FILE, **changed))
        expect_corrupt(decode_manifest, _encode_any([broken]), "rows")


def _encode_any(entries: Sequence[ManifestEntry]) -> bytes:
    """Encode with `int` fields widened to `long`, so that any number can be written."""
    import paimon_spark.spec.avro_codec as codec

    schema = json.loads(json.dumps(metadata_schemas.MANIFEST).replace('"int"', '"long"'))
    text = metadata_schemas.schema_json(schema)
    block = codec.encode_block([codec.entry_record(entry) for entry in entries], text)
    return write_container(AvroBlocks(text, ((len(entries), block),)), codec="null")


def test_not_avro_at_all() -> None:
    for data in (b"", b"Obj", b"Obj\x01", b"PAR1" + bytes(100), b"Obj\x01" + b"\xff" * 50, b"Obj\x01\x00" + bytes(16)):
        if data == b"Obj\x01\x00" + bytes(16):
            expect_corrupt(decode_manifest, data, "JSON")
        else:
            expect_corrupt(decode_manifest, data, "Avro")
