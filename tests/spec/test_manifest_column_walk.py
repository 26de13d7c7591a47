"""Walking many blocks side by side into columns gives what decoding their records gives, or refuses."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import avro_codec
from paimon_spark.spec.avro_container import AvroBlocks, read_container, write_container
from paimon_spark.spec.kept_values import LastUsed
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileKind, ManifestEntry, SimpleStats
from paimon_spark.spec.manifest_columns import ManifestColumns

Files = list[tuple[str, bytes]]


def random_entry(chance: random.Random, number: int) -> ManifestEntry:
    """An entry whose optional values are there or not."""

    def maybe(value: Any) -> Any:
        return chance.choice([None, value])

    stats = SimpleStats(
        chance.randbytes(chance.randint(0, 40)),
        chance.randbytes(chance.randint(0, 200)),
        tuple(chance.choice([None, 0, 3, 64, 10**12, -1]) for _ in range(chance.randint(0, 4))),
    )
    file = DataFileMeta(
        file_name=f"data-{number}-ä.parquet",
        file_size=chance.choice([0, 63, 64, 2**40]),
        row_count=chance.choice([0, 1, 2**33]),
        min_key=chance.randbytes(chance.randint(0, 20)),
        max_key=chance.randbytes(3),
        key_stats=chance.choice([EMPTY_STATS, stats]),
        value_stats=chance.choice([stats, dataclasses.replace(stats, null_counts=(0, 0, 5))]),
        min_sequence_number=chance.choice([-1, 2**62]),
        max_sequence_number=chance.choice([0, -(2**62)]),
        schema_id=chance.randint(0, 3),
        level=chance.randint(0, 5),
        extra_files=chance.choice([(), ("a.index",), ("a", "b")]),
        creation_time_millis=maybe(1_700_000_000_000),
        delete_row_count=maybe(7),
        embedded_file_index=maybe(chance.randbytes(5)),
        file_source=maybe(1),
        value_stats_cols=chance.choice([None, (), ("a", "ü")]),
        external_path=maybe("s3://x/f"),
        first_row_id=maybe(5),
        write_cols=maybe(("a", "b")),
    )
    kind = chance.choice([FileKind.ADD, FileKind.DELETE])
    return ManifestEntry(kind, chance.randbytes(4), chance.randint(-2, 9), chance.randint(-1, 9), file)


def many_manifests(seed: int, manifests: int = 100) -> tuple[Files, list[ManifestEntry]]:
    chance = random.Random(seed)
    entries = [
        [random_entry(chance, chance.randint(0, 99)) for _ in range(chance.randint(3, 6))] for _ in range(manifests)
    ]
    files = [(f"manifest-{i}", avro_codec.encode_manifest(of)) for i, of in enumerate(entries)]
    return files, [entry for of in entries for entry in of]


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding records is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("the records were decoded one by one")

    monkeypatch.setattr(ManifestColumns, "from_records", refuse)


@pytest.mark.usefixtures("walking")
@pytest.mark.parametrize("seed", range(5))
def test_entries_of_every_form(seed: int) -> None:
    files, entries = many_manifests(seed)
    (found,) = avro_codec.decode_manifests(files)
    assert list(found) == entries


@pytest.mark.usefixtures("walking")
def test_without_statistics() -> None:
    files, entries = many_manifests(7)
    (found,) = avro_codec.decode_manifests(files, statistics=False)
    assert found.file_names == [entry.file.file_name for entry in entries]
    assert found.file_values("_EXTRA_FILES") == [entry.file.extra_files for entry in entries]
    with pytest.raises(KeyError):
        _ = found.value_stats


def test_numbers_that_are_equal_in_some_manifests_only() -> None:
    (_, data), *_ = files = many_manifests(5, manifests=60)[0]
    equal = [(f"equal-{i}", data) for i in range(60)]
    one = [dataclasses.replace(avro_codec.decode_manifest(data)[0], bucket=4, total_buckets=9)]
    alike = [(f"alike-{i}", avro_codec.encode_manifest(one)) for i in range(60)]
    for some in ([*alike, *files], [*files, *alike], [*alike, *alike], [*equal, *alike]):
        parts = [*avro_codec.decode_manifests(some[:60]), *avro_codec.decode_manifests(some[60:])]
        expected = [entry for _, each in some for entry in avro_codec.decode_manifest(each)]
        joined = ManifestColumns.concat(parts)
        assert list(joined) == expected
        assert joined.buckets.tolist() == [entry.bucket for entry in expected]
        some_of_them = joined.filter(joined.buckets == 4)
        assert list(some_of_them) == [entry for entry in expected if entry.bucket == 4]


def test_few_at_once_and_other_schemas() -> None:
    files, entries = many_manifests(3)
    some = list(avro_codec.decode_manifests(files, at_once_bytes=2000))
    assert len(some) > 10
    assert [entry for part in some for entry in part] == entries
    newer = dataclasses.replace(entries[0], file=dataclasses.replace(entries[0].file, write_cols_sequences=(1,)))
    files.insert(30, ("newer", avro_codec.encode_manifest([newer])))
    mixed = [entry for part in avro_codec.decode_manifests(files) for entry in part]
    assert len(mixed) == len(entries) + 1
    assert newer in mixed


@pytest.mark.parametrize("folder", ["many_manifests_pk", "many_manifests_append", "old_0_9_pk", "file_index_sidecar"])
def test_tables_of_java(golden: Path, folder: str) -> None:
    paths = sorted(path for path in (golden / folder).rglob("manifest-*") if "-list-" not in path.name)
    files = [(str(path), path.read_bytes()) for path in paths] * 60
    expected = [entry for path, data in files for entry in avro_codec.decode_manifest(data, path=path)]
    assert [entry for part in avro_codec.decode_manifests(files) for entry in part] == expected


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_never_taken_for_entries(seed: int) -> None:
    """Damaged blocks are refused, or tell what decoding them tells."""
    chance = random.Random(seed)
    files, _ = many_manifests(seed)
    number = chance.randrange(len(files))
    content = read_container(files[number][1])
    block = bytearray(content.blocks[0][1])
    for _ in range(chance.randint(1, 3)):
        block[chance.randrange(len(block))] = chance.randrange(256)
    hurt = AvroBlocks(content.schema_json, ((content.blocks[0][0], bytes(block)),))
    files[number] = (files[number][0], write_container(hurt))
    try:
        expected = [entry for path, data in files for entry in avro_codec.decode_manifest(data, path=path)]
    except CorruptTableError:
        with pytest.raises(CorruptTableError, match=f"manifest-{number}"):
            list(avro_codec.decode_manifests(files))
        return
    assert [entry for part in avro_codec.decode_manifests(files) for entry in part] == expected


def test_what_stands_before_a_damaged_file_is_reported() -> None:
    files, entries = many_manifests(1)
    files[-1] = (files[-1][0], files[-1][1][:-20])
    reported: list[ManifestEntry] = []
    parts = avro_codec.decode_manifests(files)
    with pytest.raises(CorruptTableError, match="manifest-99"):
        reported.extend(entry for part in parts for entry in part)
    assert reported
    assert reported == entries[: len(reported)]


@pytest.mark.parametrize("manifests", [100, 5])
def test_the_same_bytes_are_decoded_once(monkeypatch: pytest.MonkeyPatch, manifests: int) -> None:
    files, entries = many_manifests(11, manifests)
    files = [(f"{name}-{manifests}", data) for name, data in files]

    def decoded(statistics: bool = True) -> list[ManifestEntry] | list[str]:
        parts = list(avro_codec.decode_manifests(files, statistics=statistics, entries=len(entries)))
        if statistics:
            return [entry for part in parts for entry in part]
        return [name for part in parts for name in part.file_names]

    names = [entry.file.file_name for entry in entries]
    assert (decoded(), decoded(statistics=False)) == (entries, names)

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("decoded again")

    with monkeypatch.context() as patch:
        patch.setattr(avro_codec, "walk_columns", refuse)
        patch.setattr(avro_codec, "decode_manifest_columns", refuse)
        assert (decoded(), decoded(statistics=False)) == (entries, names)
    changed = [dataclasses.replace(entries[0], bucket=77)]
    files[1] = (files[1][0], avro_codec.encode_manifest(changed))
    assert [entry.bucket for entry in decoded() if isinstance(entry, ManifestEntry)].count(77) == 1


def test_manifests_that_are_kept_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = LastUsed[ManifestColumns](100_000, lambda columns: columns.estimated_bytes)
    monkeypatch.setattr(avro_codec, "_MANIFESTS", kept)
    for seed in range(20):
        files, entries = many_manifests(seed, 10)
        list(avro_codec.decode_manifests(files, entries=len(entries)))
    kinds = sum(columns.estimated_bytes for columns in kept._found.values())
    assert 50_000 < kinds <= 100_000
    kept._found.clear()
    list(avro_codec.decode_manifests(files, entries=None))
    list(avro_codec.decode_manifests(files, entries=200_000_000))
    assert not kept._found


def test_masks_travel_with_their_entries() -> None:
    files, entries = many_manifests(2)
    (found,) = avro_codec.decode_manifests(files)
    marked = found.with_mask("odd", np.arange(len(entries)) % 2 == 1).without_statistics()
    joined = ManifestColumns.concat([marked, marked])
    assert joined.filter(joined.mask("odd")).file_names == [e.file.file_name for e in entries[1::2]] * 2
