"""Manifest merging keeps the live files, whatever was added and deleted, and keeps few manifests."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.commit.manifest_merge import ManifestAccess, ManifestMergeOptions, merge_manifests
from paimon_spark.spec.avro_codec import decode_manifest
from paimon_spark.spec.avro_container import AvroBlocks, write_container
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, FileKind, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.manifest_raw import RawEntries, raw_entries_of

ENTRY_BYTES = 10


class FakeManifests:
    """Manifests in memory: every entry takes ten bytes; partitions are single bytes."""

    def __init__(self) -> None:
        self.files: dict[str, list[ManifestEntry]] = {}
        self.reads: list[str] = []
        self._names = count()

    def write(self, parts: Iterable[RawEntries]) -> list[ManifestFileMeta]:
        return self.write_entries([e for part in parts for e in entries_of(part)])

    def write_entries(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        if not entries:
            return []
        name = f"manifest-{next(self._names)}"
        self.files[name] = list(entries)
        added = sum(entry.kind == FileKind.ADD for entry in entries)
        size = ENTRY_BYTES * len(entries)
        return [ManifestFileMeta(name, size, added, len(entries) - added, EMPTY_STATS, 0)]

    def read(self, manifests: Sequence[ManifestFileMeta]) -> Iterator[RawEntries]:
        for manifest in manifests:
            self.reads.append(manifest.file_name)
            yield raw_entries_of(self.files[manifest.file_name])

    def may_hold(self, manifests: Sequence[ManifestFileMeta], partitions: frozenset[bytes]) -> list[ManifestFileMeta]:
        return [m for m in manifests if any(e.partition in partitions for e in self.files[m.file_name])]

    @property
    def access(self) -> ManifestAccess:
        return ManifestAccess(self.read, self.write, self.may_hold)

    def live(self, manifests: Sequence[ManifestFileMeta]) -> list[str]:
        """Live file names as readers see them: deletes of all manifests first."""
        entries = [entry for m in manifests for entry in self.files[m.file_name]]
        gone = {entry.identifier() for entry in entries if entry.kind == FileKind.DELETE}
        return [e.file.file_name for e in entries if e.kind == FileKind.ADD and e.identifier() not in gone]


def entries_of(part: RawEntries) -> list[ManifestEntry]:
    """What the bytes say."""
    data = write_container(AvroBlocks(part.schema, ((len(part), part.encoded(0, len(part))),)))
    return decode_manifest(data)


def entry(kind: FileKind, name: str, partition: bytes = b"p") -> ManifestEntry:
    return ManifestEntry(kind, partition, 0, 1, DataFileMeta(name, 100, 1))


def add(*names: str, partition: bytes = b"p") -> list[ManifestEntry]:
    return [entry(FileKind.ADD, name, partition) for name in names]


def delete(*names: str, partition: bytes = b"p") -> list[ManifestEntry]:
    return [entry(FileKind.DELETE, name, partition) for name in names]


commits = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**6)), max_size=25)
options = st.builds(
    ManifestMergeOptions,
    target_size_bytes=st.integers(10, 200),
    full_threshold_bytes=st.integers(10, 600),
    min_count=st.integers(2, 8),
)


@given(commits, options)
def test_any_commits_keep_exactly_the_live_files(steps, merge_options):
    store, manifests, live = FakeManifests(), [], {}
    names = count()
    for adds, deletes, seed in steps:
        gone = [name for i, name in enumerate(live) if (i * 7919 + seed) % 3 == 0][:deletes]
        new = {f"f{next(names)}": bytes([97 + seed % 3]) for _ in range(adds)}
        changes = [e for name in gone for e in delete(name, partition=live[name])]
        changes += [e for name, partition in new.items() for e in add(name, partition=partition)]
        manifests = merge_manifests(manifests, merge_options, store.access) + store.write_entries(changes)
        for name in gone:
            del live[name]
        live.update(new)
        assert sorted(store.live(manifests)) == sorted(live)


@given(commits, options)
def test_files_that_come_back_live(steps, merge_options):
    """Java's rollback as latest and a compaction let a file return to a level: an ADD behind a DELETE."""
    store, manifests, live = FakeManifests(), [], set()
    for adds, deletes, seed in steps:
        gone = [f"f{(seed + at) % 5}" for at in range(deletes)]
        gone = [name for name in gone if name in live]
        new = [name for name in (f"f{(seed // 7 + at) % 5}" for at in range(adds)) if name not in live]
        manifests = merge_manifests(manifests, merge_options, store.access)
        manifests += store.write_entries(delete(*gone) + add(*new))
        live = live - set(gone) | set(new)
        forced = merge_manifests(manifests, dataclasses.replace(merge_options, always=True), store.access)
        assert sorted(store.live(forced)) == sorted(live)


@given(commits)
def test_minor_merging_keeps_the_order_of_files(steps):
    store, manifests, names = FakeManifests(), [], count()
    never_full = ManifestMergeOptions(target_size_bytes=60, full_threshold_bytes=10**9, min_count=3)
    expected = []
    for adds, _, _ in steps:
        new = [f"f{next(names)}" for _ in range(adds)]
        manifests = merge_manifests(manifests, never_full, store.access) + store.write_entries(add(*new))
        expected += new
        assert store.live(manifests) == expected


def test_64_appends_leave_fewer_than_30_manifests():
    store, manifests = FakeManifests(), []
    by_default = ManifestMergeOptions(target_size_bytes=8 << 20, full_threshold_bytes=16 << 20, min_count=30)
    most = 0
    for number in range(64):
        manifests = merge_manifests(manifests, by_default, store.access) + store.write_entries(add(f"f{number}"))
        most = max(most, len(manifests))
    assert most == 30
    assert store.live(manifests) == [f"f{number}" for number in range(64)]


def test_a_delete_whose_add_is_in_an_older_manifest_survives_a_minor_merge():
    store = FakeManifests()
    old = store.write_entries(add("a", "b", "c"))
    new = store.write_entries(delete("a")) + store.write_entries(add("d"))
    minor = ManifestMergeOptions(target_size_bytes=30, full_threshold_bytes=10**9, min_count=2)
    merged = merge_manifests([*old, *new], minor, store.access)
    assert merged[0] == old[0]
    assert [(e.kind, e.file.file_name) for e in store.files[merged[1].file_name]] == [
        (FileKind.DELETE, "a"),
        (FileKind.ADD, "d"),
    ]


def test_full_compaction_leaves_large_manifests_without_deleted_partitions_unread():
    store = FakeManifests()
    untouched = store.write_entries(add("a", "b", "c", partition=b"1"))
    touched = store.write_entries(add("d", "e", "f", partition=b"2"))
    small = store.write_entries(delete("e", partition=b"2")) + store.write_entries(add("g", partition=b"3"))
    full = ManifestMergeOptions(target_size_bytes=30, full_threshold_bytes=20, min_count=30)
    merged = merge_manifests([*untouched, *touched, *small], full, store.access)
    assert untouched[0] in merged
    assert untouched[0].file_name not in store.reads
    assert sum(m.num_deleted_files for m in merged) == 0
    assert store.live(merged) == ["a", "b", "c", "d", "f", "g"]


def test_nothing_to_merge_writes_nothing():
    store = FakeManifests()
    one = store.write_entries(add("a"))
    assert merge_manifests(one, ManifestMergeOptions(100, 5, 2), store.access) == one
    assert merge_manifests([], ManifestMergeOptions(100, 5, 2), store.access) == []
    assert len(store.files) == 1


def test_all_files_deleted_leaves_no_manifest():
    store = FakeManifests()
    manifests = store.write_entries(add("a")) + store.write_entries(delete("a"))
    assert merge_manifests(manifests, ManifestMergeOptions(100, 5, 2), store.access) == []


def test_a_file_added_twice_is_refused():
    store = FakeManifests()
    manifests = store.write_entries(add("a")) + store.write_entries(add("a"))
    with pytest.raises(Exception, match=r"Trying to add file a .* which is already added"):
        merge_manifests(manifests, ManifestMergeOptions(100, 10**9, 2), store.access)
