"""Container files of many manifests are taken apart together: with what each of them gives alone, or its error."""

import random

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import avro_container
from paimon_spark.spec.avro_container import (
    AvroBlocks,
    encode_long,
    index_container,
    read_container,
    read_containers,
    write_container,
)

Files = list[tuple[str, bytes]]


def content(number: int, blocks: int = 1) -> AvroBlocks:
    chance = random.Random(number)
    return AvroBlocks(b'"bytes"', tuple((3, chance.randbytes(20) * chance.randint(1, 900)) for _ in range(blocks)))


def files(count: int = 40, codec: str = "zstandard") -> Files:
    return [(f"file-{number}", write_container(content(number, number % 4), codec=codec)) for number in range(count)]


def with_block(packed: bytes, count: int = 3) -> bytes:
    """A file whose only block is these compressed bytes."""
    empty = write_container(AvroBlocks(b'"bytes"', ()), codec="zstandard")
    return empty + encode_long(count) + encode_long(len(packed)) + packed + empty[-16:]


def frame(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def together(found: Files) -> list[AvroBlocks] | str:
    try:
        return read_containers(found)
    except CorruptTableError as error:
        return str(error)


def alone(found: Files) -> list[AvroBlocks] | str:
    try:
        return [read_container(data, path=path) for path, data in found]
    except CorruptTableError as error:
        return str(error)


def test_one_call_decompresses_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    decompress = pa.decompress

    def counting(data: bytes, **how: object) -> object:
        calls.append(len(data))
        return decompress(data, **how)

    found = files()
    assert read_containers(found) == [content(number, number % 4) for number in range(40)]
    monkeypatch.setattr(avro_container.pa, "decompress", counting)
    read_containers(found)
    assert len(calls) == 1
    monkeypatch.setattr(avro_container, "_MOST_AT_ONCE", 10_000)
    assert read_containers(found) == alone(found)
    assert len(calls) > 10, "large ones are not taken together"


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_other_codecs(codec: str) -> None:
    assert read_containers(files(codec=codec)) == [content(number, number % 4) for number in range(40)]
    mixed = files(20, codec) + files(20)
    assert read_containers(mixed) == alone(mixed)
    assert read_containers([]) == []


@pytest.mark.parametrize(
    "block",
    [
        frame(b"a" * 500) + frame(b"b" * 300),  # two frames in one block, of which the first one announces its size
        frame(b"a" * 500) + b"\x50\x2a\x4d\x18" + (20).to_bytes(4, "little") + bytes(20),  # a skippable frame behind
        frame(b"a" * 500)[:-3],
        frame(b"a" * 500) + b"x" * 30,
        frame(b""),
        b"",
        bytes(100),
    ],
)
def test_odd_blocks_among_others(block: bytes) -> None:
    """What one block gives too much or too little never becomes part of another's."""
    found = files(20)
    found[7] = ("odd", with_block(block))
    assert together(found) == alone(found)
    found[12] = ("odd, too", with_block(block))
    assert together(found) == alone(found)


@pytest.mark.parametrize("seed", range(150))
def test_damage(seed: int) -> None:
    chance = random.Random(seed)
    found = files(20)
    location = chance.randrange(20)
    path, data = found[location]
    hurt = bytearray(data)
    blocks = index_container(data).blocks if chance.random() < 0.7 else ()
    start, size = chance.choice(blocks)[1:] if blocks else (0, len(hurt))
    hurt[start + chance.randrange(min(size, 20) if chance.random() < 0.5 else size)] ^= 1 << chance.randrange(8)
    found[location] = path, bytes(hurt)
    assert together(found) == alone(found)


def test_a_small_file_cannot_claim_much() -> None:
    found = files(20)
    found[3] = ("bomb", with_block(frame(bytes(300 << 20))))
    assert len(found[3][1]) < 100_000
    assert together(found) == alone(found)
    assert "larger than a file of this size" in str(together(found))
