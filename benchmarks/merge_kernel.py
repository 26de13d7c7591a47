"""The merge kernels alone: one bucket of 500 k base rows and 3 x 50 k updates, 8 columns, int64 key, one thread.

python benchmarks/merge_kernel.py            # milliseconds against the targets
python benchmarks/merge_kernel.py --profile "two sequence groups"
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.merge.factory import MergeEngine, merge_engine_for
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.type_parser import parse_type

BASE, UPDATE, RUNS = 500_000, 50_000, 3
COLUMNS = {
    "k": "BIGINT NOT NULL",
    "a": "BIGINT",
    "b": "DOUBLE",
    "name": "STRING",
    "g1": "BIGINT",
    "c": "INT",
    "d": "DECIMAL(10, 2)",
    "g2": "TIMESTAMP(6)",
}
PARTIAL = {"merge-engine": "partial-update"}
GROUPS = {**PARTIAL, "fields.g1.sequence-group": "a,b,name", "fields.g2.sequence-group": "c,d"}
AGGREGATES = {
    **GROUPS,
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
    "fields.c.aggregate-function": "first_value",
    "fields.d.aggregate-function": "sum",
    "fields.name.aggregate-function": "listagg",
}
CASES: Mapping[str, tuple[dict[str, str], bool, float, float]] = {
    # options, string key, share of deletes, target in milliseconds
    "deduplicate": ({}, False, 0.0, 60),
    "deduplicate, string key": ({}, True, 0.0, 0),
    "deduplicate, 10 % deletes": ({}, False, 0.1, 60),
    "deduplicate, sequence.field": ({"sequence.field": "g1"}, False, 0.0, 0),
    "partial-update": (PARTIAL, False, 0.0, 150),
    "partial-update, string key": (PARTIAL, True, 0.0, 0),
    "two sequence groups": (GROUPS, False, 0.0, 300),
    "two sequence groups, 10 % deletes": (GROUPS, False, 0.1, 300),
    "two sequence groups, aggregates": (AGGREGATES, False, 0.0, 0),
}


def schema_of(options: Mapping[str, str], *, string_key: bool) -> TableSchema:
    columns = {**COLUMNS, "k": "STRING NOT NULL"} if string_key else COLUMNS
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]
    return create_schema(fields, ["k"], [], dict(options))


def rows_of_run(schema: TableSchema, ids: np.ndarray, first: int, nulls: float, deletes: float, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    count = len(ids)

    def maybe(values: pa.Array) -> pa.Array:
        if not nulls:
            return values
        return values.take(pa.array(np.arange(count), mask=rng.random(count) < nulls))

    texts = np.char.add("name_", ids.astype(str))
    keys = (
        pa.array(ids)
        if pa.types.is_integer(to_arrow_schema(schema.fields).field("k").type)
        else pa.array(np.char.add("user_", np.char.zfill(ids.astype(str), 12)))
    )
    columns = [
        keys,
        maybe(pa.array(rng.integers(0, 1000, count))),
        maybe(pa.array(rng.random(count))),
        maybe(pa.array(texts)),
        maybe(pa.array(rng.integers(0, 1000, count))),
        maybe(pa.array(rng.integers(0, 1000, count, dtype=np.int32))),
        maybe(pa.array(rng.integers(0, 1000, count)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2))),
        maybe(pa.array(rng.integers(0, 10**12, count)).cast(pa.timestamp("us"))),
        pa.array(np.arange(first, first + count)),
        pa.array(np.where(rng.random(count) < deletes, 3, 0).astype(np.int8)),
    ]
    names = [*(field.name for field in schema.fields), "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    return pa.table(dict(zip(names, columns, strict=True)))


def bucket(schema: TableSchema, deletes: float) -> pa.Table:
    rng = np.random.default_rng(7)
    base = np.arange(BASE, dtype=np.int64) * 4 + 1
    runs = [rows_of_run(schema, base, 0, 0.0, 0.0, 0)]
    for run in range(RUNS):
        ids = np.sort(rng.choice(base, UPDATE, replace=False))
        runs.append(rows_of_run(schema, ids, BASE + run * UPDATE, 0.5, deletes, run + 1))
    return pa.concat_tables(runs)


def milliseconds(engine: MergeEngine, rows: pa.Table, columns: list[str], times: int = 7) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        engine.merge(rows, drop_deletes=True, columns=columns, key_value_columns=False)
        best = min(best, time.perf_counter() - start)
    return best * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", metavar="CASE")
    chosen = parser.parse_args().profile
    pa.set_cpu_count(1)
    for name, (options, string_key, deletes, target) in CASES.items():
        if chosen is not None and name != chosen:
            continue
        schema = schema_of(options, string_key=string_key)
        rows = bucket(schema, deletes)
        engine = merge_engine_for(schema)
        columns = list(schema.field_names)
        if chosen is not None:
            with cProfile.Profile() as profile:
                milliseconds(engine, rows, columns)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            return
        print(
            f"{name:40s} {milliseconds(engine, rows, columns):8.1f} ms" + (f"   target {target} ms" if target else "")
        )


if __name__ == "__main__":
    main()
