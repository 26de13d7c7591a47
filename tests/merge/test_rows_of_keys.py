"""Rows of sorted runs that some other rows have the keys of, against a model, for each kind of key."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.merge.changelog import rows_of_keys
from tests.support.seeds import chance

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bigint": (pa.int64(), [-(2**63), -5, 0, 1, 2**40, 2**63 - 1, *range(50, 90)]),
    "text": (pa.string(), ["", "a", "ab", "a common prefix", *(f"a common prefix {n:03}" for n in range(40))]),
    "decimal": (pa.decimal128(38, 0), [Decimal(n) * 10**20 for n in range(-20, 20)]),
    "double": (pa.float64(), [n / 4 for n in range(-20, 20)]),
    "flag": (pa.bool_(), [False, True]),
}
KEYS = [("bigint",), ("text",), ("decimal",), ("double",), ("bigint", "flag"), ("text", "bigint"), ("decimal", "text")]


@pytest.mark.parametrize("kinds", KEYS, ids="+".join)
def test_rows_whose_keys_others_have(kinds: tuple[str, ...]) -> None:
    rng = chance("rows of keys", *kinds)
    names = [f"k{at}" for at in range(len(kinds))]

    def key() -> tuple[Any, ...]:
        return tuple(rng.choice(VALUES[kind][1]) for kind in kinds)

    def batch(keys: list[tuple[Any, ...]], first: int) -> pa.RecordBatch:
        columns = [pa.array([k[at] for k in keys], VALUES[kind][0]) for at, kind in enumerate(kinds)]
        texts = pa.array([f"row {first + at}" for at in range(len(keys))])
        # files differ in whether a column comes as a dictionary
        values = texts.dictionary_encode() if rng.random() < 0.5 else texts
        return pa.RecordBatch.from_arrays([*columns, values], names=[*names, "v"])

    for _ in range(30):
        runs, expected, count = [], [], 0
        wanted = [key() for _ in range(rng.choice([1, 3, 40]))]
        for _ in range(rng.choice([0, 1, 3])):
            keys = sorted({key() for _ in range(rng.choice([0, 1, 30]))})
            cut = rng.randrange(len(keys) + 1)
            parts = [part for part in (keys[:cut], keys[cut:]) if part]
            runs.append([batch(part, count + (cut if part is not parts[0] else 0)) for part in parts])
            expected += [f"row {count + at}" for at, k in enumerate(keys) if k in wanted]
            count += len(keys)
        found = rows_of_keys(runs, pa.Table.from_batches([batch(wanted, 0)]), names)
        assert ([] if found is None else found.column("v").to_pylist()) == expected
        assert found is None or found.schema.field("v").type == pa.string()
