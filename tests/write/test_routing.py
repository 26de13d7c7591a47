"""Routing: each row goes where its own partition and bucket say, in order, whatever the other rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.binary_row import serialize_row
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.write.bucket_filling import DynamicBucketPlan
from paimon_spark.write.dynamic_bucket import DynamicBuckets
from paimon_spark.write.routing import NO_PARTITION, Router, shuffle_ids
from paimon_spark.write.rows import MappedRows

COLUMNS = [("k", "INT NOT NULL"), ("s", "STRING"), ("d", "DATE"), ("n", "BIGINT")]
ROWS = st.lists(
    st.tuples(
        st.integers(-5, 5),
        st.none() | st.sampled_from(["", " ", "a", "bb", "a long value of a partition"]),
        st.none() | st.dates(),
        st.integers(0, 9),
    ),
    max_size=40,
)


def schema(pk: tuple[str, ...] = (), partition: tuple[str, ...] = (), **options: str) -> TableSchema:
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(COLUMNS)]
    return create_schema(fields, pk, partition, {k.replace("_", "-"): v for k, v in options.items()}, None)


def table(of: TableSchema, rows: list[tuple[Any, ...]], chunks: int = 1) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(COLUMNS)
    arrow = to_arrow_schema(of.fields)
    whole = pa.Table.from_arrays([pa.array(list(c), f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    size = max(1, -(-len(rows) // chunks))
    return pa.concat_tables([whole.slice(i, size) for i in range(0, max(1, len(rows)), size)])


def one_by_one(of: TableSchema, rows: list[tuple[Any, ...]]) -> dict[tuple[bytes, int], list[tuple[Any, ...]]]:
    positions = {n: i for i, (n, _) in enumerate(COLUMNS)}
    types = {n: parse_type(t) for n, t in COLUMNS}
    found: dict[tuple[bytes, int], list[tuple[Any, ...]]] = {}
    for row in rows:
        partition = serialize_row([row[positions[n]] for n in of.partition_keys], [types[n] for n in of.partition_keys])
        bucket = 0
        if of.core_options.bucket > 0:
            arrays = [pa.array([row[positions[n]]], to_arrow_schema(of.fields).field(n).type) for n in of.bucket_keys]
            kinds = [types[n] for n in of.bucket_keys]
            bucket = int(bucket_ids(arrays, kinds, of.core_options.bucket, "default")[0])
        found.setdefault((partition, bucket), []).append(row)
    return found


SCHEMAS = {
    "append": schema(),
    "append_by_two": schema(partition=("s", "d")),
    "bucketed": schema(bucket="3", bucket_key="s,k"),
    "fixed": schema(pk=("k",), bucket="4"),
    "fixed_by_two": schema(pk=("k", "s", "n"), partition=("n", "s"), bucket="2"),
    "one_bucket": schema(pk=("k", "n"), partition=("n",), bucket="1"),
}


@settings(max_examples=150)
@given(ROWS, st.sampled_from(sorted(SCHEMAS)), st.integers(1, 3), st.booleans())
def test_as_row_by_row(rows: list[tuple[Any, ...]], name: str, chunks: int, with_kinds: bool) -> None:
    of = SCHEMAS[name]
    if "s" in of.primary_keys:
        rows = [(k, s or "x", d, n) for k, s, d, n in rows]
    kinds = np.array([abs(r[0]) % 4 for r in rows], dtype=np.int8) if with_kinds else None
    routed = list(Router(of, None).route(MappedRows(table(of, rows, chunks), kinds)))
    got = {(r.partition, r.bucket): [tuple(v.values()) for v in r.rows.to_pylist()] for r in routed}
    assert got == one_by_one(of, rows)
    assert len(got) == len(routed)
    for group in routed:
        assert (group.kinds is None) == (kinds is None)
        if group.kinds is not None:
            assert group.kinds.tolist() == [abs(k) % 4 for k in group.rows.column("k").to_pylist()]


@given(ROWS, st.booleans())
def test_dynamic_keys_stay_together(rows: list[tuple[Any, ...]], partitioned: bool) -> None:
    of = schema(pk=("k", "n"), partition=("n",) if partitioned else ())
    buckets = DynamicBuckets(DynamicBucketPlan({}, 2, -1, 3), lambda known: np.empty(0, np.int32))
    router = Router(of, buckets)
    location: dict[Any, tuple[bytes, int]] = {}
    for part in (rows[:7], rows[7:]):
        for group in router.route(MappedRows(table(of, part), None)):
            for row in group.rows.to_pylist():
                assert location.setdefault((row["k"], row["n"]), (group.partition, group.bucket)) == (
                    group.partition,
                    group.bucket,
                )
    counted = {key: len(hashes) for key, hashes in buckets.new_hashes().items()}
    assert counted == {at: list(location.values()).count(at) for at in set(location.values())}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_shuffle_keeps_buckets_whole(name: str) -> None:
    of = SCHEMAS[name]
    rng = np.random.default_rng(3)
    rows = [(int(k), f"s{k % 4}", None, int(k) % 3) for k in rng.integers(0, 50, 300)]
    data = table(of, rows)
    tasks = shuffle_ids(of, data, 5)
    assert tasks.min() >= 0
    assert tasks.max() < 5
    at = dict.fromkeys(zip(rows, tasks.tolist(), strict=True))
    where = {}
    for group in Router(of, None).route(MappedRows(data, None)):
        for row in group.rows.to_pylist():
            seen = {t for r, t in at if r == tuple(row.values())}
            assert where.setdefault((group.partition, group.bucket), seen) == seen
            assert len(seen) == 1


def test_no_copy_of_a_single_group() -> None:
    of = SCHEMAS["append"]
    data = table(of, [(1, "a", None, 2)] * 5, chunks=2)
    (group,) = Router(of, None).route(MappedRows(data, None))
    assert group.rows is data
    assert group.partition == NO_PARTITION
