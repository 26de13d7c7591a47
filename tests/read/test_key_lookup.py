"""Keys are looked up in a snapshot, bucket by bucket: as a read of the whole table finds them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.key_lookup import KeyLookup
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import (
    BigIntType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    IntType,
    VarCharType,
)
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.special_fields import VALUE_KIND, RowKind
from paimon_spark.table.table import FileStoreTable, create_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.routing import NO_PARTITION
from paimon_spark.write.task_write import write_batches
from tests.support.seeds import chance

KEYS: dict[str, dict[str, DataType]] = {
    "a number": {"a": BigIntType(nullable=False)},
    "a day": {"a": DateType(nullable=False)},
    "a text": {"a": VarCharType(length=20, nullable=False)},
    "three columns": {
        "a": IntType(nullable=False),
        "b": BooleanType(nullable=False),
        "c": DecimalType(precision=9, scale=2, nullable=False),
    },
}
OPTIONS = {"bucket": "1", "write-only": "true"}


def keys_of(kind: str, numbers: np.ndarray) -> list[list[Any]]:
    """The columns of the key of a number."""
    values = numbers.tolist()
    match kind:
        case "a number":
            return [[3 * value - 500 for value in values]]
        case "a day":
            return [[date.fromordinal(700_000 + value) for value in values]]
        case "a text":
            return [[f"n{value}" for value in values]]
    return [[v % 7 for v in values], [v % 2 == 0 for v in values], [Decimal(v) / 4 for v in values]]


def made(path: Path, kind: str) -> FileStoreTable:
    fields = [DataField(at, name, data_type) for at, (name, data_type) in enumerate(KEYS[kind].items())]
    fields.append(DataField(len(fields), "v", BigIntType()))
    return create_table(str(path), create_schema(fields, tuple(KEYS[kind]), (), OPTIONS, None))


def table_of(table: FileStoreTable, columns: list[Any], names: list[str]) -> pa.Table:
    types = to_arrow_schema([table.schema.field(name) for name in names])
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, types, strict=True)], schema=types)


def write(table: FileStoreTable, kind: str, numbers: np.ndarray, value: int, row_kind: RowKind) -> None:
    rows = table_of(table, [*keys_of(kind, numbers), [value] * len(numbers)], table.schema.field_names)
    rows = rows.append_column(
        pa.field(VALUE_KIND.name, pa.int8()), pa.array([row_kind.value] * len(numbers), pa.int8())
    )
    plan = plan_write(table, overwrite=None, data_schema=rows.schema)
    commit(table, [write_batches(plan, rows.to_batches(), 0)])


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_found_with_their_rows(tmp_path: Path, kind: str) -> None:
    """In sorted runs that overlap, with deletes, and keys that are asked for twice, in no order."""
    table = made(tmp_path / "t", kind)
    rng = np.random.default_rng(chance("lookup", kind).randrange(1 << 32))
    there: dict[int, int] = {}
    for value in range(3):
        numbers = rng.permutation(3000)[:900]
        write(table, kind, numbers, value, RowKind.INSERT)
        there |= dict.fromkeys(numbers.tolist(), value)
        gone = rng.permutation(3000)[:200]
        write(table, kind, gone, value, RowKind.DELETE)
        there = {number: old for number, old in there.items() if number not in set(gone.tolist())}
    names = list(KEYS[kind])
    for count in (5, 2000):
        asked = rng.integers(0, 4000, count)
        asked = np.append(asked, asked[:3])
        keys = table_of(table, keys_of(kind, asked), names)
        snapshot = table.snapshots.latest()
        found = KeyLookup.planned(table, snapshot, ["v"]).find(NO_PARTITION, 0, keys)
        expected = [at for at, number in enumerate(asked.tolist()) if number in there]
        assert found.rows.tolist() == expected
        assert found.columns is not None
        assert found.columns.column("v").to_pylist() == [there[asked[at]] for at in expected]
        only_keys = KeyLookup.planned(table, snapshot, ()).find(NO_PARTITION, 0, keys)
        assert (only_keys.rows.tolist(), only_keys.columns) == (expected, None)
        assert KeyLookup.planned(table, snapshot, ["v"]).find(NO_PARTITION, 1, keys).rows.tolist() == []
    nothing = KeyLookup.planned(table, None, ["v"]).find(NO_PARTITION, 0, keys)
    assert (nothing.rows.tolist(), nothing.columns.num_rows if nothing.columns else 0) == ([], 0)


def test_only_what_can_match_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files beyond the keys no row comes; other columns than the key are read near keys that were found only."""
    table = made(tmp_path / "t", "a number")
    for first in (0, 1000, 2000):
        write(table, "a number", np.arange(first, first + 1000), first, RowKind.INSERT)
    read: list[tuple[int, tuple[str, ...]]] = []
    plain = FileRead.batches

    def counted(self: FileRead, *given: Any) -> Any:
        for batch in plain(self, *given):
            read.append((batch.num_rows, tuple(batch.schema.names)))
            yield batch

    monkeypatch.setattr(FileRead, "batches", counted)
    keys = table_of(table, keys_of("a number", np.array([1200, 1300, 1250])), ["a"])
    lookup = KeyLookup.planned(table, table.snapshots.latest(), ["v"])
    assert lookup.find(NO_PARTITION, 0, keys).rows.tolist() == [0, 1, 2]
    assert read == [(3, ("a",)), (3, ("a", "v"))]
    read.clear()
    absent = table_of(table, [[1001, 1002]], ["a"])
    assert lookup.find(NO_PARTITION, 0, absent).rows.tolist() == []
    assert read == []
