"""Entries as columns: what is live, what is selected, and that a column tells the same as its entries."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import PaimonError
from paimon_spark.spec.avro_codec import decode_manifest_columns, encode_manifest
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileKind, ManifestEntry, SimpleStats
from paimon_spark.spec.manifest_columns import ManifestColumns
from tests.support.manifest_entries import merge_entries

FILE = DataFileMeta(file_name="f", file_size=1, row_count=1, creation_time_millis=0)


def entry(
    kind: FileKind, name: str = "f", *, partition: bytes = bytes(12), bucket: int = 0, level: int = 0
) -> ManifestEntry:
    return ManifestEntry(kind, partition, bucket, 4, dataclasses.replace(FILE, file_name=name, level=level))


def columns(entries: list[ManifestEntry]) -> ManifestColumns:
    return decode_manifest_columns(encode_manifest(entries))


ADD, DELETE = FileKind.ADD, FileKind.DELETE


def test_merging_cancels_and_keeps_the_order() -> None:
    a, b, c = entry(ADD, "a"), entry(ADD, "b"), entry(DELETE, "c")
    assert merge_entries([a, b, c]) == [a, b, c]
    assert merge_entries([a, b, entry(DELETE, "a"), c]) == [b, c]
    assert merge_entries([a, entry(DELETE, "a"), a]) == [a]
    assert merge_entries([entry(DELETE, "a"), entry(DELETE, "a")]) == [entry(DELETE, "a")]


def test_a_lifted_file_is_another_file() -> None:
    upgraded = [entry(ADD, level=0), entry(DELETE, level=0), entry(ADD, level=5)]
    assert merge_entries(upgraded) == upgraded[2:]
    assert list(columns(upgraded).live()) == upgraded[2:]


def test_files_that_are_added_behind_their_delete_are_reported() -> None:
    rolled_back = [entry(ADD, level=5), entry(DELETE, level=5), entry(ADD), entry(DELETE), entry(ADD, level=5)]
    assert {identity[0] for identity in columns(rolled_back).revived()} == {"f"}
    assert list(columns(rolled_back).live()) == []
    for healthy in (rolled_back[:3], [*rolled_back, entry(DELETE, level=5)], rolled_back[2:], rolled_back[:1]):
        assert columns(healthy).revived() == set()
    before = columns(rolled_back[:2]).deleted()
    assert len(columns(rolled_back[2:]).revived(before)) == 1


def test_adding_twice_is_an_error() -> None:
    with pytest.raises(PaimonError, match=r"Trying to add file f .* which is already added"):
        merge_entries([entry(ADD), entry(ADD)])


def test_identity_has_seven_parts() -> None:
    base = entry(ADD)
    file = base.file
    others = [
        dataclasses.replace(base, partition=b"\0" * 11 + b"\1"),
        dataclasses.replace(base, bucket=1),
        dataclasses.replace(base, file=dataclasses.replace(file, level=1)),
        dataclasses.replace(base, file=dataclasses.replace(file, file_name="g")),
        dataclasses.replace(base, file=dataclasses.replace(file, extra_files=("f.index",))),
        dataclasses.replace(base, file=dataclasses.replace(file, embedded_file_index=b"x")),
        dataclasses.replace(base, file=dataclasses.replace(file, external_path="s3://x/f")),
    ]
    for one, other in itertools.combinations([base, *others], 2):
        assert one.identifier() != other.identifier()
    for other in others:
        assert len(columns([base, dataclasses.replace(other, kind=DELETE)]).live()) == 1
    same = dataclasses.replace(base, total_buckets=9, file=dataclasses.replace(file, first_row_id=3, schema_id=2))
    assert base.identifier() == same.identifier()
    assert len(columns([base, dataclasses.replace(same, kind=DELETE)]).live()) == 0


@st.composite
def histories(draw: st.DrawFn) -> list[ManifestEntry]:
    """A legal history: a file is added when it is not there, and deleted at most once after."""
    there: set[tuple[str, int]] = set()
    gone: set[tuple[str, int]] = set()
    entries = []
    for _ in range(draw(st.integers(0, 25))):
        key = (draw(st.sampled_from("abcd")), draw(st.integers(0, 2)))
        if key in there:
            there.remove(key)
            gone.add(key)
            entries.append(entry(DELETE, key[0], level=key[1]))
        elif key not in gone:
            there.add(key)
            entries.append(entry(ADD, key[0], level=key[1]))
    return entries


@settings(deadline=None)
@given(histories(), st.integers(0, 25))
def test_live_equals_merging(history: list[ManifestEntry], cut: int) -> None:
    parts = [columns(history[:cut]), columns(history[cut:])]
    joined = ManifestColumns.concat(parts)
    assert list(joined) == history
    live = [e for e in merge_entries(history) if e.kind == ADD]
    assert list(joined.live()) == live


def test_columns_show_what_entries_show() -> None:
    stats = SimpleStats(b"a", b"b", (1, None))
    entries = [
        ManifestEntry(
            ADD,
            bytes([i] * 12),
            i,
            i + 1,
            dataclasses.replace(
                FILE,
                file_name=f"f{i}",
                file_size=i * 2**33,
                row_count=i,
                level=i,
                schema_id=i,
                value_stats=stats,
                max_sequence_number=2**40 + i,
            ),
        )
        for i in range(5)
    ]
    table = columns(entries)
    assert len(table) == 5
    assert table.kinds.tolist() == [0] * 5
    assert table.partitions == [e.partition for e in entries]
    assert table.buckets.tolist() == [0, 1, 2, 3, 4]
    assert table.total_buckets.tolist() == [1, 2, 3, 4, 5]
    assert table.file_names == ["f0", "f1", "f2", "f3", "f4"]
    assert table.file_sizes.tolist() == [i * 2**33 for i in range(5)]
    assert table.row_counts.tolist() == table.levels.tolist() == table.schema_ids.tolist() == [0, 1, 2, 3, 4]
    assert table.max_sequence_numbers.tolist() == [2**40 + i for i in range(5)]
    assert table.value_stats == [stats] * 5
    assert table.key_stats == [EMPTY_STATS] * 5
    assert table[2] == entries[2]
    assert list(table[1:3]) == entries[1:3]
    assert list(table.take([4, 0])) == [entries[4], entries[0]]
    assert list(table.filter(table.buckets > 2)) == entries[3:]
    assert table.filter(np.ones(5, dtype=bool)) is table
    assert table.live() is table
