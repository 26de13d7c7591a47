"""The conflict rules, one by one, with Java's key words; and the order of keys that they rest on."""

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.commit.conflict_detection import ConflictContext, check_conflicts, check_deletion_vectors
from paimon_spark.errors import CommitConflictError
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.binary_row_decoder import key_ranks
from paimon_spark.spec.data_types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    VarCharType,
)
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    DataFileMeta,
    DeletionVectorMeta,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)

ADD, DELETE = FileKind.ADD, FileKind.DELETE
INT = (IntType(nullable=False),)


def context(*key_types):
    return ConflictContext("/wh/t", lambda partition: f"dt={partition.decode()}", tuple(key_types), "them", "us")


def file(name, *, kind=ADD, level=0, keys=(0, 0), bucket=0, total=1, partition=b"p"):
    low, high = (serialize_row([key], INT) for key in keys)
    return ManifestEntry(kind, partition, bucket, total, DataFileMeta(name, 1, 1, low, high, level=level))


def refused(match, base, delta, *, overwrite=False, keys=INT):
    with pytest.raises(CommitConflictError, match=match) as caught:
        check_conflicts(base, delta, context(*keys), overwrite=overwrite)
    assert "Base commit user is: them; Current commit user is: us" in str(caught.value)
    assert "/wh/t" in str(caught.value)


def test_the_number_of_buckets_changes_only_by_overwriting():
    base, delta = [file("a", total=2)], [file("b", total=3)]
    refused(
        r"Total buckets of partition \{dt=p\} changed from 2 to 3 without overwrite. Give up committing.", base, delta
    )
    check_conflicts(base, delta, context(*INT), overwrite=True)
    check_conflicts(base, [file("b", total=3, partition=b"q")], context(*INT), overwrite=False)
    check_conflicts([file("a", total=-1)], [file("b", total=2)], context(*INT), overwrite=False)


def test_a_file_that_another_commit_took_out_cannot_be_deleted():
    refused(
        r"File deletion conflicts detected! Give up committing. Trying to delete file dt=p/bucket-0/a \(level 0\)",
        [file("b")],
        [file("a", kind=DELETE)],
    )
    # the same name at another level is another file: somebody has upgraded it
    refused("File deletion conflicts", [file("a", level=5)], [file("a", kind=DELETE, level=0)])


def test_a_file_cannot_be_added_twice():
    refused("File deletion conflicts detected.*a .* which is already added", [file("a")], [file("a")])
    refused("File deletion conflicts detected.*a .* which is already added", [], [file("a"), file("a")])


def test_delete_and_add_of_one_file_in_one_commit_would_lose_it():
    refused("File deletion conflicts detected", [file("a")], [file("a", kind=DELETE), file("a")])


def test_lifting_a_file_is_a_delete_and_an_add():
    check_conflicts([file("a")], [file("a", kind=DELETE), file("a", level=5)], context(*INT), overwrite=False)


def test_keys_of_a_level_above_zero_must_not_overlap():
    base = [file("a", level=5, keys=(1, 10)), file("b", level=5, keys=(21, 30)), file("z", keys=(0, 99))]
    check_conflicts(base, [file("c", level=5, keys=(11, 20))], context(*INT), overwrite=False)
    words = "LSM conflicts detected! Give up committing. Conflict files are: a and c"
    refused(words, base, [file("c", level=5, keys=(10, 20))])
    check_conflicts(base, [file("c", level=4, keys=(10, 20))], context(*INT), overwrite=False)
    check_conflicts(base, [file("c", level=5, keys=(10, 20), bucket=1)], context(*INT), overwrite=False)
    check_conflicts(
        base,
        [file("a", kind=DELETE, level=5, keys=(1, 10)), file("c", level=5, keys=(5, 20))],
        context(*INT),
        overwrite=False,
    )
    check_conflicts(base, [file("c", level=0, keys=(10, 20))], context(*INT), overwrite=False)


ranges = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 6), st.integers(1, 2)), max_size=8)


@given(ranges, ranges)
def test_overlaps_are_found_as_by_comparing_all_pairs(before, after):
    def files(specs, prefix):
        return [
            file(f"{prefix}{i}", level=level, keys=(low, low + length), bucket=bucket)
            for i, (bucket, low, length, level) in enumerate(specs)
        ]

    def overlap(a, b):
        (b1, l1, n1, v1), (b2, l2, n2, v2) = a, b
        return b1 == b2 and v1 == v2 and l1 <= l2 + n2 and l2 <= l1 + n1

    kept = []
    for spec in before:  # the table itself is sound
        if not any(overlap(spec, other) for other in kept):
            kept.append(spec)
    everything = kept + after
    bad = any(
        overlap(everything[i], everything[j])
        for i in range(len(everything))
        for j in range(max(i + 1, len(kept)), len(everything))
    )
    if bad:
        with pytest.raises(CommitConflictError, match="LSM conflicts detected"):
            check_conflicts(files(kept, "b"), files(after, "d"), context(*INT), overwrite=False)
    else:
        check_conflicts(files(kept, "b"), files(after, "d"), context(*INT), overwrite=False)


def java_double_order(value: float) -> tuple[int, int]:
    bits = struct.unpack(">q", struct.pack(">d", math.nan if math.isnan(value) else value))[0]
    return (1, bits ^ 0x7FFF_FFFF_FFFF_FFFF if bits < 0 else bits)


KEYS = {
    "int": (IntType(), st.integers(-(2**31), 2**31 - 1), lambda v: (1, v)),
    "string": (VarCharType(length=VarCharType.MAX), st.text(max_size=9), lambda v: (1, v.encode())),
    "binary": (BinaryType(length=3), st.binary(min_size=3, max_size=3), lambda v: (1, v)),
    "boolean": (BooleanType(), st.booleans(), lambda v: (1, v)),
    "decimal": (DecimalType(precision=20, scale=3), st.decimals(-999, 999, places=3), lambda v: (1, Decimal(v))),
    "double": (DoubleType(), st.floats(), java_double_order),
    "float": (FloatType(), st.floats(width=32), java_double_order),
}


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_ranks_follow_java_order_with_nulls_first(name, data):
    data_type, values, order = KEYS[name]
    types = (data_type, IntType())
    rows = data.draw(st.lists(st.tuples(st.none() | values, st.none() | st.integers(0, 2)), min_size=1, max_size=12))
    ranks = key_ranks([serialize_row(list(row), types) for row in rows], types)
    keys = [((0, 0) if a is None else order(a), (0, 0) if b is None else (1, b)) for a, b in rows]
    positions = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    assert ranks.tolist() == [positions[key] for key in keys]


def vectors(name, *data_files, kind=ADD):
    ranges = tuple(DeletionVectorMeta(data_file, 1, 10, 1) for data_file in data_files)
    return IndexManifestEntry(kind, b"p", 0, DELETION_VECTORS_INDEX, name, 1, len(ranges), ranges)


@pytest.mark.parametrize(
    ("base_index", "files", "index", "fits"),
    [
        ([], [], [vectors("v1", "a")], True),
        ([vectors("v0", "a")], [], [vectors("v0", "a", kind=DELETE), vectors("v1", "a")], True),
        ([vectors("v0", "a")], [], [vectors("v1", "a")], False),
        ([vectors("v2", "a")], [], [vectors("v0", "a", kind=DELETE), vectors("v1", "a")], False),
        ([], [], [vectors("v1", "gone")], False),
        ([vectors("v0", "a")], [file("a", kind=DELETE)], [], False),
        ([vectors("v0", "a")], [file("a", kind=DELETE)], [vectors("v0", "a", kind=DELETE)], True),
        ([], [file("a", kind=DELETE), file("n")], [], True),
        ([vectors("v0", "a")], [file("a", kind=DELETE), file("a")], [], True),
    ],
)
@pytest.mark.parametrize("bucketed", [False, True])
def test_deletion_vectors_fit_only_what_they_were_made_for(base_index, files, index, fits, bucketed):
    base = [file("a"), file("b")]
    if fits:
        check_deletion_vectors(base, base_index, files, index, context(), bucketed=bucketed)
    else:
        with pytest.raises(CommitConflictError, match="File deletion conflicts detected"):
            check_deletion_vectors(base, base_index, files, index, context(), bucketed=bucketed)


def test_index_files_of_buckets_are_replaced_only_by_who_read_them():
    base, latest = [file("a"), file("b")], [vectors("v2", "b")]
    for read in ([], [vectors("v0", "a", kind=DELETE)]):
        with pytest.raises(CommitConflictError, match="Deletion vectors of bucket 0 in partition"):
            check_deletion_vectors(base, latest, [], [*read, vectors("v1", "a")], context(), bucketed=True)
    both = [vectors("v2", "b", kind=DELETE), vectors("v1", "a", "b")]
    check_deletion_vectors(base, latest, [], both, context(), bucketed=True)


def test_key_ranks_of_no_keys():
    assert key_ranks([], INT).tolist() == []
    assert pa.types.is_int64(pa.array(key_ranks([], INT)).type)
