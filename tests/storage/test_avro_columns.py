"""Blocks walked in step give what fastavro gives, on good bytes and on bad ones."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.avro_container import AvroBlocks, encode_long, write_container
from paimon_spark.storage import avro_format
from paimon_spark.storage.avro_encoding import FileSchema, encode_rows, file_schema
from paimon_spark.storage.avro_format import decode_by_fastavro
from tests.support.data_files import comparable, read_file, write_file

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
LEAVES: list[tuple[t.DataType, st.SearchStrategy[Any]]] = [
    (t.BooleanType(), st.booleans()),
    (t.IntType(), st.integers(-(2**31), 2**31 - 1)),
    (t.BigIntType(), st.integers(-(2**63), 2**63 - 1)),
    (t.FloatType(), st.floats(width=32)),
    (t.DoubleType(), st.floats()),
    (t.VarCharType(9), TEXT),
    (t.VarBinaryType(9), st.binary(max_size=70)),
]


def columns() -> st.SearchStrategy[tuple[t.DataType, st.SearchStrategy[Any]]]:
    def with_nulls(pair: tuple[t.DataType, Any]) -> st.SearchStrategy[tuple[t.DataType, Any]]:
        return st.booleans().map(
            lambda nullable: (pair[0].with_nullable(nullable), st.none() | pair[1] if nullable else pair[1])
        )

    def row(parts: list[tuple[t.DataType, Any]]) -> tuple[t.DataType, Any]:
        fields = tuple(t.DataField(50 + at, f"f{at}", kind) for at, (kind, _) in enumerate(parts))
        return t.RowType(fields), st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(parts)})

    leaf = st.sampled_from(LEAVES).flatmap(with_nulls)
    return st.recursive(
        leaf, lambda inner: st.lists(inner, min_size=1, max_size=3).map(row).flatmap(with_nulls), max_leaves=5
    )


def blocks_of(table: pa.Table, fields: list[t.DataField], cuts: list[int]) -> list[tuple[int, bytes]]:
    blocks = []
    for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        part = table.slice(start, end - start).combine_chunks()
        encoded = encode_rows([column.combine_chunks() for column in part.columns], fields)
        blocks.append((end - start, b"".join(row.as_py() for row in encoded)))
    return blocks


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_in_step_as_one_by_one(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(columns(), min_size=1, max_size=4))
    fields = [t.DataField(at, f"c{at}", kind) for at, (kind, _) in enumerate(kinds)]
    rows = data.draw(st.lists(st.tuples(*(values for _, values in kinds)), max_size=15))
    schema = to_arrow_schema(fields)
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    names = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True))
    record = FileSchema(file_schema(fields).encode()).record
    assert avro_format.supported(record.plain)
    blocks = blocks_of(table, fields, cuts)
    found = avro_format.decode_blocks(record.plain, record.storage, names, blocks)
    assert comparable([array.to_pylist() for array in found]) == comparable([table[name].to_pylist() for name in names])
    slow = decode_by_fastavro(record, names, blocks)
    assert comparable([array.to_pylist() for array in slow]) == comparable([array.to_pylist() for array in found])


def test_damaged_blocks_are_damaged_for_both() -> None:
    inner = t.RowType((t.DataField(9, "x", t.VarCharType(9)), t.DataField(10, "y", t.BigIntType(nullable=False))))
    kinds = [t.BigIntType(), t.VarCharType(9), inner, t.DoubleType(nullable=False)]
    fields = [t.DataField(at, f"c{at}", kind) for at, kind in enumerate(kinds)]
    rows = [
        {"c0": n * 77, "c1": "t" * (n % 90), "c2": {"x": None, "y": n} if n % 3 else None, "c3": float(n)}
        for n in range(60)
    ]
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(fields))
    good = blocks_of(table, fields, [15, 30, 45])
    record = FileSchema(file_schema(fields).encode()).record
    names = table.column_names
    chance = random.Random(5)
    failed = 0
    for _ in range(1500):
        blocks = list(good)
        at = chance.randrange(len(blocks))
        count, plain = blocks[at]
        changed = bytearray(plain)
        changed[chance.randrange(len(changed))] = chance.choice([0, 1, 2, 3, 127, 128, 255, chance.randrange(256)])
        blocks[at] = (count, bytes(changed[: chance.choice([len(changed), len(changed), len(changed) - 3])]))
        outcomes = []
        for decode in (
            lambda given: avro_format.decode_blocks(record.plain, record.storage, names, given),
            lambda given: decode_by_fastavro(record, names, given),
        ):
            try:
                outcomes.append(comparable([array.to_pylist() for array in decode(blocks)]))
            except (ValueError, EOFError, LookupError, TypeError, OverflowError, pa.ArrowException):
                outcomes.append("damaged")
        failed += outcomes[0] == "damaged"
        # fastavro lets pass what is no number of 64 bits or no boolean; in step it is damage.
        assert outcomes[0] in (outcomes[1], "damaged")
    assert failed > 300


def test_uneven_blocks_are_not_for_walking_in_step() -> None:
    assert avro_format.pays([100] * 20)
    assert not avro_format.pays([100] * 3)
    assert not avro_format.pays([1] * 100_000 + [6000])
    assert not avro_format.supported(
        FileSchema(file_schema([t.DataField(0, "a", t.ArrayType(t.IntType()))]).encode()).record.plain
    )


@pytest.mark.parametrize("wanted", [["a", "s"], ["s"], ["r", "a"]])
def test_large_files_are_read_in_step(tmp_path: Path, wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: dict[str, t.DataType] = {
        "a": t.BigIntType(nullable=False),
        "s": t.VarCharType(9),
        "r": t.RowType((t.DataField(5, "x", t.DecimalType(20, 3)), t.DataField(6, "y", t.DateType()))),
    }
    fields = [t.DataField(at, name, kind) for at, (name, kind) in enumerate(kinds.items())]
    size = 120_000
    numbers = pa.array(range(size))
    children = [
        numbers.cast(pa.decimal128(23, 3)).cast(pa.decimal128(20, 3)),
        numbers.cast(pa.int32()).view(pa.date32()),
    ]
    nulls = pa.array([n % 5 == 0 for n in range(size)])
    rows = pa.StructArray.from_arrays(children, ["x", "y"], mask=nulls)
    texts = pa.array([None if n % 7 == 0 else f"text {n % 1000}" for n in range(size)])
    table = pa.Table.from_arrays([numbers, texts, rows], schema=to_arrow_schema(fields))
    write_file(tmp_path / "x.avro", fields, table)
    asked: list[int] = []
    real = avro_format.decode_blocks
    monkeypatch.setattr(avro_format, "decode_blocks", lambda *given: asked.append(1) or real(*given))
    found = read_file(tmp_path / "x.avro", [field for name in wanted for field in fields if field.name == name])
    assert asked, "fastavro was used"
    assert found.equals(table.select(wanted))


def test_a_bad_block_among_many_is_named_with_its_file(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}
    good = (3, (b"\x02" + encode_long(2) + b"ab") * 3)
    bad = [
        (3, (b"\x02" + encode_long(2) + b"ab") * 2 + b"\x02" + encode_long(50) + b"ab"),
        (3, (b"\x02" + encode_long(2) + b"ab") * 2 + b"\x02" + encode_long(-2) + b"ab"),
        (3, (b"\x02" + encode_long(2) + b"ab") * 2 + b"\x04" + encode_long(2) + b"ab"),
        (3, (b"\x02" + encode_long(2) + b"ab") * 2 + b"\x02" + encode_long(2) + b"\xff\xff"),
        (3, (b"\x02" + encode_long(2) + b"ab") * 2 + b"\x02" + b"\xff" * 11),
        (3, (b"\x02" + encode_long(2) + b"ab") * 3 + b"\x00"),
        (3, (b"\x02" + encode_long(2) + b"ab") * 2),
    ]
    field = [t.DataField(0, "a", t.VarCharType(9))]
    for block in bad:
        blocks = (*[good] * 20, block, *[good] * 20)
        (tmp_path / "x.avro").write_bytes(
            write_container(AvroBlocks(json.dumps(schema).encode(), blocks), codec="null")
        )
        with pytest.raises(CorruptTableError, match=r"x\.avro"):
            read_file(tmp_path / "x.avro", field)
