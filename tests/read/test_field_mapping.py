"""Columns of a file become those of the read by field id."""

from __future__ import annotations

import pyarrow as pa

from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.spec.data_types import BigIntType, DataField, DataType, IntType, RowType, VarCharType
from paimon_spark.spec.predicate import And, Leaf, Not, Or

STRING = VarCharType(VarCharType.MAX)


def field(field_id: int, name: str, data_type: DataType) -> DataField:
    return DataField(field_id, name, data_type)


def file_columns(*fields: DataField) -> tuple[DataField, ...]:
    return fields


def mapped(mapping: FieldMapping, **columns: pa.Array) -> list[dict[str, object]]:
    batch = pa.RecordBatch.from_arrays(
        [columns[f.name] for f in mapping.file_fields], names=[f.name for f in mapping.file_fields]
    )
    return list(mapping.batch(batch).to_pylist())


def test_a_renamed_column_is_the_same_column() -> None:
    mapping = FieldMapping.of(file_columns(field(0, "old", IntType())), [field(0, "new", IntType())], {})
    assert [f.name for f in mapping.file_fields] == ["old"]
    assert mapped(mapping, old=pa.array([1, None], pa.int32())) == [{"new": 1}, {"new": None}]


def test_a_name_given_again_is_another_column() -> None:
    mapping = FieldMapping.of(file_columns(field(0, "a", IntType())), [field(7, "a", STRING)], {})
    assert mapping.file_fields == ()
    assert mapping.batch(pa.RecordBatch.from_pydict({"x": [1, 2]})).to_pylist() == [{"a": None}] * 2


def test_columns_may_swap_names() -> None:
    mapping = FieldMapping.of(
        file_columns(field(0, "a", IntType()), field(1, "b", IntType())),
        [field(0, "b", IntType()), field(1, "a", IntType())],
        {},
    )
    assert mapped(mapping, a=pa.array([1], pa.int32()), b=pa.array([2], pa.int32())) == [{"b": 1, "a": 2}]
    said = mapping.file_predicate(And((Leaf("eq", "b", (1,)), Leaf("eq", "a", (2,)))))
    assert said == And((Leaf("eq", "a", (1,)), Leaf("eq", "b", (2,))))


def test_a_widened_column_is_cast_and_not_judged_in_the_file() -> None:
    mapping = FieldMapping.of(
        file_columns(field(0, "a", IntType()), field(1, "b", IntType())),
        [field(0, "a", BigIntType()), field(1, "b", IntType(nullable=False))],
        {},
    )
    assert mapped(mapping, a=pa.array([5], pa.int32()), b=pa.array([6], pa.int32())) == [{"a": 5, "b": 6}]
    assert mapping.schema.field("a").type == pa.int64()
    wide, same = Leaf("gt", "a", (2**40,)), Leaf("eq", "b", (6,))
    assert mapping.file_predicate(wide) is None
    assert mapping.file_predicate(And((wide, same))) == same
    assert mapping.file_predicate(Or((wide, same))) is None
    assert mapping.file_predicate(Not(Or((wide, same)))) == Not(same)
    assert mapping.file_predicate(None) is None


def test_nested_fields_are_the_same_by_id_too() -> None:
    old = RowType((field(2, "x", IntType()), field(3, "y", STRING)))
    new = RowType((field(3, "z", STRING), field(4, "x", STRING)))
    mapping = FieldMapping.of(file_columns(field(1, "r", old)), [field(1, "r", new)], {})
    assert mapping.file_fields == (field(1, "r", RowType((field(3, "y", STRING),))),)  # x is not read from the file
    rows = pa.array([{"y": "one"}, None], pa.struct([("y", pa.string())]))
    assert mapped(mapping, r=rows) == [{"r": {"z": "one", "x": None}}, {"r": None}]


def test_partition_columns_are_constants_and_not_read() -> None:
    mapping = FieldMapping.of(
        file_columns(field(0, "dt", STRING), field(1, "v", IntType())),
        [field(0, "dt", STRING), field(1, "v", IntType())],
        {"dt": pa.scalar("2024", pa.string())},
    )
    assert [f.name for f in mapping.file_fields] == ["v"]
    assert mapped(mapping, v=pa.array([1, 2], pa.int32())) == [{"dt": "2024", "v": 1}, {"dt": "2024", "v": 2}]
    assert mapping.file_predicate(Leaf("eq", "dt", ("2023",))) is None


def test_a_batch_without_columns_keeps_its_rows() -> None:
    mapping = FieldMapping.of(file_columns(field(0, "a", IntType())), [], {})
    assert mapping.batch(pa.RecordBatch.from_pydict({"x": [1, 2, 3]})).num_rows == 3
