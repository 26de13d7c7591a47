"""Index manifests after a commit: combination rules of Java, and the union of hash indexes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.commit.changes import AssignedHashes
from paimon_spark.commit.manifest_merge import HashIndexFiles, combine_index_entries, merge_hash_indexes
from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorMeta,
    FileKind,
    IndexManifestEntry,
)
from paimon_spark.write.message import NewHashes


class FakeIndexFiles:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, hashes: np.ndarray, partition: bytes, bucket: int) -> tuple[str, int]:
        name = f"index-{len(self.files)}"
        self.files[name] = hashes.astype(">i4").tobytes()
        return name, len(self.files[name])

    @property
    def access(self) -> HashIndexFiles:
        return HashIndexFiles(
            self.files.__getitem__,
            lambda entry: np.frombuffer(self.files[entry.file_name], ">i4").astype(np.int32),
            self.write,
        )

    def entry(self, partition: bytes, bucket: int, *hashes: int) -> IndexManifestEntry:
        name, size = self.write(np.array(hashes, dtype=np.int32), partition, bucket)
        return IndexManifestEntry(FileKind.ADD, partition, bucket, HASH_INDEX, name, size, len(hashes))

    def hashes(self, entry: IndexManifestEntry) -> list[int]:
        found = np.frombuffer(self.files[entry.file_name], ">i4").tolist()
        assert entry.row_count == len(found)
        assert entry.file_size == 4 * len(found)
        return found


def assigned(partition: bytes, bucket: int, *hashes: int) -> AssignedHashes:
    return AssignedHashes(partition, bucket, NewHashes.inline(np.array(sorted(hashes), dtype=np.int32)))


def vectors(name: str, *data_files: str, kind: FileKind = FileKind.ADD, bucket: int = 0) -> IndexManifestEntry:
    ranges = tuple(DeletionVectorMeta(data_file, 1, 10, 1) for data_file in data_files)
    return IndexManifestEntry(kind, b"p", bucket, DELETION_VECTORS_INDEX, name, 100, len(ranges), ranges)


def test_new_hashes_join_the_bucket_and_known_ones_stay_in_place():
    files = FakeIndexFiles()
    previous = [files.entry(b"p", 0, 5, -7), files.entry(b"p", 1, 9), files.entry(b"q", 0, 11)]
    changed = merge_hash_indexes(previous, [assigned(b"p", 0, 5, 6), assigned(b"p", 2, -1)], files.access)
    assert [(e.partition, e.bucket, e.index_type) for e in changed] == [(b"p", 0, HASH_INDEX), (b"p", 2, HASH_INDEX)]
    assert [files.hashes(e) for e in changed] == [[5, -7, 6], [-1]]


def test_hashes_that_are_all_known_change_nothing():
    files = FakeIndexFiles()
    previous = [files.entry(b"p", 0, 5, 6)]
    assert merge_hash_indexes(previous, [assigned(b"p", 0, 6)], files.access) == []
    assert len(files.files) == 1


def test_two_messages_of_one_bucket_are_united_once():
    files = FakeIndexFiles()
    changed = merge_hash_indexes([], [assigned(b"p", 3, 1, 2), assigned(b"p", 3, 2, 4)], files.access)
    assert [files.hashes(e) for e in changed] == [[1, 2, 4]]


def test_a_lone_side_file_is_adopted_as_it_is():
    files = FakeIndexFiles()
    name, size = files.write(np.array([1, 2, 3], dtype=np.int32), b"p", 0)
    side = AssignedHashes(b"p", 0, NewHashes(count=3, file_name=name, file_size=size))
    (entry,) = merge_hash_indexes([], [side], files.access)
    assert (entry.file_name, entry.file_size, entry.row_count) == (name, size, 3)
    assert len(files.files) == 1
    (united,) = merge_hash_indexes([files.entry(b"p", 0, 7)], [side], files.access)
    assert united.file_name != name
    assert files.hashes(united) == [7, 1, 2, 3]


def test_a_key_that_a_rival_put_in_another_bucket_is_a_conflict():
    files = FakeIndexFiles()
    previous = [files.entry(b"p", 4, 1, 2, 3), files.entry(b"q", 0, 8)]
    with pytest.raises(
        CommitConflictError, match=r"to bucket 4, which this write assigned to bucket 0.*run the write again"
    ):
        merge_hash_indexes(previous, [assigned(b"p", 0, 3, 8)], files.access)
    # the same hash in another partition is another key
    assert len(merge_hash_indexes(previous, [assigned(b"p", 0, 8)], files.access)) == 1


def test_two_tasks_with_one_key_in_two_buckets_are_a_conflict():
    with pytest.raises(CommitConflictError, match="Two tasks of this write assigned the same key"):
        merge_hash_indexes([], [assigned(b"p", 0, 3), assigned(b"p", 1, 3)], FakeIndexFiles().access)


assignments = st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.integers(0, 3), max_size=30)


@given(assignments, assignments)
def test_union_is_the_union_or_a_conflict(theirs, ours):
    files = FakeIndexFiles()
    previous = [files.entry(b"p", b, *[h for h, at in theirs.items() if at == b]) for b in sorted(set(theirs.values()))]
    news = [assigned(b"p", b, *[h for h, at in ours.items() if at == b]) for b in sorted(set(ours.values()))]
    if any(theirs.get(hash_, bucket) != bucket for hash_, bucket in ours.items()):
        with pytest.raises(CommitConflictError):
            merge_hash_indexes(previous, news, files.access)
        return
    after = combine_index_entries(previous, merge_hash_indexes(previous, news, files.access), bucketed=True)
    found = {hash_: entry.bucket for entry in after for hash_ in files.hashes(entry)}
    assert found == {**theirs, **ours}
    assert sum(entry.row_count for entry in after) == len(found)


def test_bucketed_vectors_replace_those_of_their_bucket():
    previous = [vectors("v0", "a"), vectors("v1", "b", bucket=1)]
    after = combine_index_entries(previous, [vectors("v2", "a", "c")], bucketed=True)
    assert [e.file_name for e in after] == ["v2", "v1"]
    gone = combine_index_entries(after, [vectors("v2", "a", "c", kind=FileKind.DELETE)], bucketed=True)
    assert [e.file_name for e in gone] == ["v1"]


def test_unaware_vectors_are_known_by_name_and_deletes_come_first():
    previous = [vectors("v0", "a", "b")]
    changes = [vectors("v1", "a", "b", "c"), vectors("v0", "a", "b", kind=FileKind.DELETE)]
    assert [e.file_name for e in combine_index_entries(previous, changes, bucketed=False)] == ["v1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (vectors("v9", "z", kind=FileKind.DELETE), "Trying to delete file v9 which does not exist"),
        (vectors("v1", "a"), "Trying to add dv for data file a which is already added"),
        (vectors("v0", "c"), "Trying to add file v0 which is already added"),
    ],
)
def test_unaware_vectors_that_rivals_changed_are_a_conflict(change, words):
    with pytest.raises(CommitConflictError, match=words):
        combine_index_entries([vectors("v0", "a")], [change], bucketed=False)
